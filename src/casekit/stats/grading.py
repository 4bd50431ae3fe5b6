"""Do runs make the tool calls that cases expect of them? Checked exactly, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

import pandas as pd
from narwhals.typing import IntoFrame

from casekit.calls import HasCalls, made_calls, rows_of
from casekit.errors import LimitError, one_line
from casekit.json_equal import exact, same
from casekit.stats.frames import TEXT, check_choice, check_names, columns_of, quoted, scan, to_arrow

__all__ = ["grade_decisions"]

CASE: Final = ("test_set_id", "version", "case_id")
SUBJECT: Final = ("subject_kind", "subject_id", "subject_version")
COUNTS: Final = ("n_expected", "n_called", "n_matched", "n_made", "n_corrections", "n_graded", "n_passed")
LISTS: Final = ("missing_calls", "other_args", "forbidden_calls", "extra_calls")
NOTHING: Final = "no call asked for and none forbidden"
VERDICTS: Final = {None: None, True: "pass", False: "fail"}
NAME_MAX: Final = 100  # characters of a name in a reason

Key = tuple[str | None, ...]


class HasExpectations(HasCalls, Protocol):
    """Anything with these tables as pandas frames, such as a CaseSet."""

    @property
    def expected_calls(self) -> pd.DataFrame:
        """One row per call that a run should make."""

    @property
    def corrections(self) -> pd.DataFrame:
        """One row per correction that says what a run should do."""


class _Case(NamedTuple):
    """What decides how a case is graded; columns of the cases table."""

    expert: bool | None
    erased: bool | None
    retired: bool | None
    decisions_verdict: str | None
    must_not_call: Iterable[str] | None


class _Wanted(NamedTuple):
    """A call that a run should make, its arguments as JSON text."""

    tool: str
    args: str | None


@dataclass
class _Run:
    """What a run did: its calls by tool, each with its arguments as JSON text."""

    calls: dict[str, list[str | None]] = field(default_factory=dict)
    n: int = 0
    truncated: bool = False


@dataclass
class _Grade:
    """What came of one check; without ``problem``, it passed if nothing is amiss."""

    problem: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    missing_calls: list[str] = field(default_factory=list)
    other_args: dict[str, list[str]] = field(default_factory=dict)
    forbidden_calls: list[str] = field(default_factory=list)
    extra_calls: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool | None:
        """None where it could not be checked."""
        return None if self.problem else not any(getattr(self, name) for name in LISTS)

    @property
    def reason(self) -> str | None:
        """Why it failed, or was not checked."""
        if self.problem:
            return self.problem
        args = [f"{_short(tool)} ({', '.join(map(_short, fields))})" for tool, fields in self.other_args.items()]
        parts = {
            "not called": map(_short, self.missing_calls),
            "other arguments": args,
            "forbidden but called": map(_short, self.forbidden_calls),
            "not called by the corrected run": map(_short, self.extra_calls),
        }
        said = [f"{what}: {', '.join(names)}" for what, values in parts.items() if (names := list(values))]
        return "; ".join(said) or None


def grade_decisions(
    expected: HasExpectations,
    made: IntoFrame,
    *,
    source: Literal["expect", "corrections"] = "expect",
    experts_only: bool = False,
) -> pd.DataFrame:
    """Check the tool calls of runs against what cases expect of them.

    A case whose decisions were ``wrong`` passes when the run makes every call it should, with the given arguments where
    some are given, and calls no tool it must not. A case whose decisions were ``right`` passes when the run calls the
    same tools as the corrected run, by name, in any order and however often.

    Arguments are partial: top-level fields are compared as JSON values, fields left out are not compared, ``{}`` asks
    only for the call. 1 equals 1.0, true is not 1, the order of members is nothing, and numbers of any size are
    compared exactly. Each expected call looks for a match of its own kind; one made call may match several.

    Parameters
    ----------
    expected
        A CaseSet, or any object with its ``cases``, ``expected_calls``, ``corrections`` and ``recorded_calls`` frames.
        Not changed.
    made
        Calls of the runs to grade, one run per case, in any engine that `yes_rates` takes; as `made_calls` lists them.
        Needs ``case_id``, ``tool_id`` (or ``tool``) and ``arguments_json`` (JSON text). ``test_set_id`` and ``version``
        are matched too where it has them, missing with missing. A run that made no call has one row whose tool is
        missing: ``runs[["case_id"]].merge(calls, how="left")`` makes such a frame. Where ``truncated`` is true, the run
        made more calls.
    source
        ``"expect"``: what the case expects (``expect.decisions``). ``"corrections"``: each correction of the case that
        says what to call, checked by the rule for ``wrong``; a case passes when every one of them does.
    experts_only
        Grade expectations of experts alone: cases, or corrections, marked as an expert's.

    Returns
    -------
    pd.DataFrame
        One row per case of ``expected``, in its order; then one per case that only ``made`` has.

        - ``test_set_id``, ``version``, ``case_id``, ``subject_kind``, ``subject_id``, ``subject_version``.
        - ``decisions`` the verdict that the case holds, ``right`` or ``wrong``; ``answer`` the one on the answer, which
          needs a judging model and is not graded.
        - ``verdict`` ``pass``, ``fail``, or missing when not graded; ``reason`` why it failed or was not graded:
          erased, retired, nothing to grade, not an expert's, no row in ``made``, calls of the corrected run not known,
          among others.
        - ``n_expected`` calls to make (for ``right``: tools); ``n_called`` of them called by name; ``n_matched`` with
          their arguments too (for ``right``: as ``n_called``); ``n_made`` calls of the run.
        - ``missing_calls`` tools not called; ``other_args`` tools called, but never with the arguments;
          ``forbidden_calls`` tools called that must not be; ``extra_calls`` tools that the corrected run did not call.
          Lists of names, each once.
        - ``n_corrections`` corrections of the case, ``n_graded`` of them graded, ``n_passed`` of those passed; missing
          with ``source="expect"``.

        Counts and lists are missing where nothing was graded.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is not known, a call's arguments are no JSON text, a case stands twice in ``expected``, or ``made``
        does not say which of two test sets a case is of.
    LimitError
        A call's arguments nest too deep to be compared.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> case = {"test_set_id": ["acme.a"], "version": ["1.0.0"], "case_id": ["c1"], "subject_kind": ["agent"],
    ...     "subject_id": ["acme.find"], "subject_version": ["2"]}
    >>> cases = pd.DataFrame({**case, "expert": [True], "erased": [False], "retired": [None], "answer_verdict": [None],
    ...     "decisions_verdict": ["wrong"], "must_not_call": [["delete"]]})
    >>> calls = pd.DataFrame({**case, "source": ["expect"], "correction_no": [None], "tool": ["find"],
    ...     "args_json": ['{"id": 7}']})
    >>> expected = SimpleNamespace(cases=cases, expected_calls=calls, corrections=None, recorded_calls=None)
    >>> made = pd.DataFrame({"case_id": ["c1"] * 2, "tool_id": ["find", "delete"],
    ...     "arguments_json": ['{"id": 8}', "{}"]})
    >>> grade_decisions(expected, made)[["case_id", "verdict", "reason"]].values.tolist()
    [['c1', 'fail', 'other arguments: find (id); forbidden but called: delete']]
    """
    check_choice("source", source, ("expect", "corrections"))
    if not isinstance(experts_only, bool):
        raise ValueError(f"experts_only={quoted(experts_only)} must be True or False.")
    cases = _table(expected, "cases")
    check_names(list(cases.columns), (*CASE, *SUBJECT, *_Case._fields, "answer_verdict"), frame="expected.cases")
    runs, names = _runs(made)
    keys = rows_of(cases, CASE)
    if len(set(keys)) < len(keys):
        raise ValueError("A case stands twice in expected: give each test set once.")
    mine = [tuple(part for part, name in zip(key, CASE, strict=True) if name in names) for key in keys]
    _refuse_ambiguous(mine, runs)
    check = _Expect(expected, experts_only) if source == "expect" else _Corrections(expected, experts_only)
    grades = []
    for key, short, case in zip(keys, mine, rows_of(cases, _Case._fields), strict=True):
        try:
            grades.append(check.grade(key, _Case(*case), runs.get(short)))
        except ValueError as error:
            raise ValueError(f"Arguments of case {_short(str(key[-1]))!r}: {error}.") from None
        except RecursionError:
            raise LimitError(f"Arguments of case {_short(str(key[-1]))!r} nest too deep to be compared.") from None
    known = set(mine)
    others = [key for key in runs if key not in known]
    return _frame(cases, grades, names, others, [runs.get(key) for key in (*mine, *others)])


def _table(expected: HasExpectations, name: str) -> pd.DataFrame:
    table = getattr(expected, name, None)
    if not isinstance(table, pd.DataFrame):
        kind = type(expected).__name__
        raise ValueError(
            f"expected must be a CaseSet, or have a pandas frame {name!r} as one has; this {kind} has none."
        )
    return table


class _Expect:
    """Grades a case by its ``expect.decisions``."""

    def __init__(self, expected: HasExpectations, experts_only: bool) -> None:
        self.experts_only = experts_only
        self.should_call = _should_call(_table(expected, "expected_calls"), "expect")
        any_right = bool((expected.cases["decisions_verdict"] == "right").any())
        self.corrected = _runs(made_calls(expected))[0] if any_right else {}

    def grade(self, key: Key, case: _Case, run: _Run | None) -> _Grade:
        verdict = case.decisions_verdict
        if problem := _not_graded(case):
            return _Grade(problem)
        if verdict is None:
            return _Grade("no verdict on decisions")
        if self.experts_only and case.expert is not True:
            return _Grade("not an expert's case")
        if verdict not in ("right", "wrong"):
            return _Grade(f"decisions verdict {_short(verdict)!r} is not known")
        if run is None:
            return _Grade("no row in made")
        if verdict == "right":
            return _right(self.corrected.get(key), run)
        must_not_call = [] if case.must_not_call is None else list(case.must_not_call)
        return _wrong(self.should_call.get((key, None), []), must_not_call, run)


class _Corrections:
    """Grades a case by each of its corrections that says what to call."""

    def __init__(self, expected: HasExpectations, experts_only: bool) -> None:
        self.experts_only = experts_only
        self.should_call = _should_call(_table(expected, "expected_calls"), "corrections")
        self.corrections: dict[Key, list[tuple[Any, ...]]] = {}
        table = _table(expected, "corrections")
        columns = ("correction_no", "expert", "not_called")
        for key, row in zip(rows_of(table, CASE), rows_of(table, columns), strict=True):
            self.corrections.setdefault(key, []).append(row)

    def grade(self, key: Key, case: _Case, run: _Run | None) -> _Grade:
        corrections = self.corrections.get(key, [])
        chosen = [row for row in corrections if not self.experts_only or row[1] is True]
        counts = {"n_corrections": len(corrections), "n_graded": 0, "n_passed": 0}
        problem = _not_graded(case)
        problem = problem or (None if corrections else "no corrections with decisions")
        problem = problem or (None if chosen else "no expert's corrections")
        problem = problem or ("no row in made" if run is None else None)
        if problem or run is None:
            return _Grade(problem, counts)
        parts = [_wrong(self.should_call.get((key, row[0]), []), list(row[2]), run) for row in chosen]
        graded = [part for part in parts if part.passed is not None]
        counts |= {"n_graded": len(graded), "n_passed": sum(part.passed is True for part in graded)}
        if counts["n_passed"] == len(graded):  # one that failed decides; else what was not checked may
            unsure = [part.problem for part in parts if part.problem not in (None, NOTHING)]
            problem = unsure[0] if unsure else None if graded else NOTHING
        return _joined(graded, problem, counts)


def _joined(parts: Sequence[_Grade], problem: str | None, counts: dict[str, int]) -> _Grade:
    """Several checks of one run as one: it passes when each does."""
    whole = _Grade(problem, dict(counts))
    for part in parts:
        for name, count in part.counts.items():
            whole.counts[name] = whole.counts.get(name, 0) + count
        for name in ("missing_calls", "forbidden_calls"):
            getattr(whole, name).extend(tool for tool in getattr(part, name) if tool not in getattr(whole, name))
        for tool, fields in part.other_args.items():
            known = whole.other_args.setdefault(tool, [])
            known += [name for name in fields if name not in known]
    return whole


def _not_graded(case: _Case) -> str | None:
    if case.erased is True:
        return "erased"
    return "retired" if case.retired is True else None


def _right(corrected: _Run | None, run: _Run) -> _Grade:
    """Check that a run calls the same tools as the corrected one."""
    if corrected is None:
        return _Grade("calls of the corrected run not known")
    if corrected.truncated:
        return _Grade("not all calls of the corrected run were kept")
    missing = [tool for tool in corrected.calls if tool not in run.calls]
    extra = [tool for tool in run.calls if tool not in corrected.calls]
    if run.truncated and not extra:
        return _Grade("not all calls of the run were kept")
    called = len(corrected.calls) - len(missing)
    counts = {"n_expected": len(corrected.calls), "n_called": called, "n_matched": called}
    return _Grade(None, counts, missing_calls=missing, extra_calls=extra)


def _wrong(should_call: Sequence[_Wanted], must_not_call: Sequence[str], run: _Run) -> _Grade:
    """Check that a run makes the calls it should and none it must not."""
    forbidden = [tool for tool in dict.fromkeys(must_not_call) if tool in run.calls]
    if not should_call and not must_not_call:
        return _Grade(NOTHING)
    grade = _Grade(None, {"n_expected": len(should_call), "n_called": 0, "n_matched": 0}, forbidden_calls=forbidden)
    for tool, args in should_call:
        calls = run.calls.get(tool)
        if calls is None:
            if tool not in grade.missing_calls:
                grade.missing_calls.append(tool)
            continue
        grade.counts["n_called"] += 1
        different = _different(args, calls)
        if not different:
            grade.counts["n_matched"] += 1
            continue
        known = grade.other_args.setdefault(tool, [])
        known += [name for name in different if name not in known]
    sure = forbidden or (not must_not_call and not grade.missing_calls and not grade.other_args)
    if run.truncated and not sure:
        return _Grade("not all calls of the run were kept")
    return grade


def _different(args: str | None, calls: Sequence[str | None]) -> list[str]:
    """The fields in which the nearest of some calls differs from what is asked; none where one is as asked."""
    wanted = exact(args) if args is not None else {}
    if not isinstance(wanted, dict):
        raise ValueError("the expected arguments are no JSON object")
    if not wanted:
        return []
    nearest = list(wanted)
    for text in dict.fromkeys(calls):
        sent = exact(text) if text is not None else None
        fields = sent if isinstance(sent, dict) else {}
        different = [name for name, value in wanted.items() if name not in fields or not same(value, fields[name])]
        if not different:
            return []
        nearest = min(nearest, different, key=len)
    return nearest


def _runs(made: IntoFrame) -> tuple[dict[Key, _Run], list[str]]:
    """The runs by case, and which of the columns that name a case there are."""
    have = columns_of(made, called="made")
    tool = "tool" if "tool" in have and "tool_id" not in have else "tool_id"
    check_names(have, ("case_id", tool, "arguments_json"), frame="made")
    names: list[str] = [name for name in CASE if name in have]
    truncated = "truncated" in have
    table = to_arrow(scan(made, [*names, tool, "arguments_json", *(["truncated"] if truncated else [])]))
    columns = {name: table[name].to_pylist() for name in table.column_names}
    for name in (tool, "arguments_json"):
        if wrong := next((value for value in columns[name] if value is not None and not isinstance(value, str)), None):
            raise ValueError(f"made: column {name!r} holds {type(wrong).__name__}; it must hold text.")
    runs: dict[Key, _Run] = {}
    cut = columns["truncated"] if truncated else [False] * len(table)
    keys = zip(*(columns[name] for name in names), strict=True)
    for key, called, args, more in zip(keys, columns[tool], columns["arguments_json"], cut, strict=True):
        run = runs.setdefault(key, _Run())
        run.truncated |= bool(more)
        if called is not None:
            run.calls.setdefault(called, []).append(args)
            run.n += 1
    return runs, names


def _refuse_ambiguous(keys: Sequence[Key], runs: Mapping[Key, _Run]) -> None:
    seen: set[Key] = set()
    for key in keys:
        if key in seen and key in runs:
            raise ValueError(
                f"Case {_short(str(key[-1]))!r} stands in several test sets: made needs test_set_id and version."
            )
        seen.add(key)


def _should_call(calls: pd.DataFrame, source: str) -> dict[tuple[Key, int | None], list[_Wanted]]:
    """The calls asked for, by case and correction."""
    found: dict[tuple[Key, int | None], list[_Wanted]] = {}
    calls = calls[calls["source"] == source]
    for key, (correction, tool, args) in zip(
        rows_of(calls, CASE), rows_of(calls, ("correction_no", "tool", "args_json")), strict=True
    ):
        found.setdefault((key, correction), []).append(_Wanted(tool, args))
    return found


def _short(name: str) -> str:
    return one_line(name, NAME_MAX)


def _frame(
    cases: pd.DataFrame,
    grades: Sequence[_Grade],
    names: Sequence[str],
    others: Sequence[Key],
    runs: Sequence[_Run | None],
) -> pd.DataFrame:
    """The result: the cases' rows, then those of cases that only ``made`` has."""
    more = pd.DataFrame(others, columns=list(names), dtype=object).reindex(columns=[*CASE, *SUBJECT])
    table = pd.concat([cases[[*CASE, *SUBJECT]].astype(object), more.astype(object)], ignore_index=True).astype(TEXT)
    tail = [None] * len(others)
    whole = [*grades, *(_Grade("not among the expected cases") for _ in others)]
    table["decisions"] = pd.Series([*cases["decisions_verdict"], *tail], dtype=TEXT)
    table["answer"] = pd.Series([*cases["answer_verdict"], *tail], dtype=TEXT)
    table["verdict"] = pd.Series([VERDICTS[grade.passed] for grade in whole], dtype=TEXT)
    table["reason"] = pd.Series([grade.reason for grade in whole], dtype=TEXT)
    counts = [{"n_made": run.n} | grade.counts if run else grade.counts for grade, run in zip(whole, runs, strict=True)]
    for name in COUNTS:
        table[name] = pd.Series([count.get(name) for count in counts], dtype="Int64")
    for name in LISTS:
        cells = [None if grade.passed is None else list(getattr(grade, name)) for grade in whole]
        table[name] = pd.Series(cells, dtype=object)
    return table
