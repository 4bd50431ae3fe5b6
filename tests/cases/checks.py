"""Checks what a call came to against a case's ``expect``, key by key; a key that nobody checks is an error."""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from io import BytesIO
from itertools import pairwise, permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases.calls import Outcome
from cases.player import Player, Request

import casekit as ck
from casekit import errors
from casekit.documents import AgentCase
from casekit.plots import plot_yes_rates
from casekit.schema import TABLES, empty_tables
from casekit.stats import yes_rates

KINDS: dict[str, tuple[type[BaseException], ...]] = {
    "auth": (errors.AuthError,),
    "bad-cursor": (errors.CursorError,),
    "bad-input": (errors.BadInputError, errors.ConfigError),
    "busy": (errors.BusyError,),
    "config": (errors.ConfigError,),
    "conflict": (errors.ConflictError,),
    "io": (errors.SnapshotError,),
    "limit": (errors.LimitError,),
    "not-found": (errors.NotFoundError,),
    "protocol": (errors.ProtocolError,),
    "redirect": (errors.RedirectError,),
    "schema": (errors.SchemaError,),
    "server": (errors.ServerError,),
    "too-large": (errors.TooLargeError,),
    "transport": (errors.TransportError,),
}
TOLD = {"outcome", "basis", "must_not", "note", "raises"}  # words for people, or checked where the call is made
BOUND_SECONDS = 60.0
MESSAGE_MAX = 2000
TINY = 1e-15


def check(expect: Mapping[str, Any], outcome: Outcome, player: Player, folder: Path) -> None:
    """Check one call; ``any_of`` is met by one of its parts."""
    if expect["outcome"] == "any_of":
        problems = []
        for part in expect["any_of"]:
            try:
                return check(part, outcome, player, folder)
            except AssertionError as problem:
                problems.append(str(problem))
        raise AssertionError("\n".join(problems))
    if expect["outcome"] == "error":
        assert outcome.error is not None, f"expected an error, got {outcome.value!r}"
    elif outcome.error is not None:
        raise AssertionError(f"expected none, got {outcome.error!r}") from outcome.error
    of_cases = {name: check_it for name, check_it in OF_CASES.items() if name in expect}
    for name, value in expect.items():
        if name in of_cases:
            of_cases[name](value, outcome.cases)
        elif name in OF_CALLS:
            OF_CALLS[name](value, outcome, player)
        elif name not in TOLD and name not in ("snapshot", "round_trip"):
            raise AssertionError(f"nobody checks {name!r}")
    if expect["outcome"] == "ok" and isinstance(outcome.value, ck.CaseSet):
        assert outcome.cases.report.cases == len(outcome.cases)
        # The contract has every case come back from a snapshot, whether the case asks or not.
        ck.write_snapshot(outcome.cases, folder / "kept")
        ck.verify_snapshot(folder / "kept")
        again = ck.read_snapshot(folder / "kept")
        assert list(again.documents()) == list(outcome.cases.documents())
        assert all(again.arrow(name).equals(outcome.cases.arrow(name)) for name in TABLES)
        for name, check_it in of_cases.items():
            check_it(expect[name], again)


def check_rules(outcome: Outcome, player: Player, token: str, folder: Path) -> None:
    """The rules that hold for every case."""
    for request in player.requests:
        assert request.header("authorization") == [f"Bearer {token}"]
        for name, value in request.query:
            assert name != "limit" or 1 <= int(value) <= 100
    for request in player.origins["other"].requests if "other" in player.origins else []:
        assert request.header("authorization") == []
    assert token not in outcome.shown()
    for path in folder.rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes()
    assert outcome.seconds <= BOUND_SECONDS
    if outcome.error is not None:
        assert isinstance(outcome.error, errors.CasekitError)
        assert len(str(outcome.error)) <= MESSAGE_MAX
        assert str(outcome.error).isprintable()


# ------------------------------------------------------------ of cases, before a snapshot and after it


def _cases(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    assert len(cases) == expected.get("count", len(cases))
    if "ids" in expected:
        assert cases.cases["case_id"].tolist() == expected["ids"]


def _rate(items: pd.DataFrame, weights: Any, by: list[str]) -> pd.DataFrame:
    return yes_rates(items, by=by or None, weights=weights)


def _same_rate(found: float, expected: str | None) -> None:
    if expected is None:
        assert pd.isna(found)
    else:
        assert found == pytest.approx(float(Fraction(expected)), rel=TINY, abs=TINY)


def _items(expected: list[Mapping[str, Any]], cases: ck.CaseSet) -> None:
    items = cases.items
    assert list(zip(items["case_id"], items["key"], strict=True)) == [(e["caseId"], e["key"]) for e in expected]
    rates = {
        name: _rate(items, weights, ["case_id", "item_no"]).set_index(["case_id", "item_no"])["rate"]
        for name, weights in (("yesRate", "count"), ("weightedYesRate", "recorded"), ("expertYesRate", "expert"))
    }
    rows: list[Any] = list(items.itertuples())
    for row, one in zip(rows, expected, strict=True):
        assert (row.yes, row.no, row.yes + row.no) == (one["yes"], one["no"], one["n"])
        for name, by_item in rates.items():
            _same_rate(by_item[(row.case_id, row.item_no)], one[name])
        if one["expertTotalWeight"] is None:
            assert pd.isna(row.expert_total_weight)
        else:
            assert row.expert_total_weight == float(Fraction(str(one["expertTotalWeight"])))


def _pooled(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    live = cases.without_erased().items
    counted = live["yes"] + live["no"]
    found = {
        "items": len(live),
        "yes": live["yes"].sum(),
        "n": counted.sum(),
        "itemsWithExpertWeights": live["expert_total_weight"].notna().sum(),
    }
    for name, value in expected.items():
        if name in found:
            assert found[name] == value
        elif name == "meanOfItemRates":
            _same_rate((live["yes"] / counted.where(counted > 0)).mean(), value)
        elif name == "weightedYesRate_float":
            assert _rate(live, "recorded", [])["rate"].item() == pytest.approx(value, rel=TINY, abs=TINY)
        else:
            weights = {"yesRate": "count", "weightedYesRate": "recorded", "expertYesRate": "expert"}[name]
            _same_rate(_rate(live, weights, [])["rate"].item(), value)


_ABSENT = object()


def _at(document: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list):
            document = document[int(step)]
        elif step not in document:
            return _ABSENT
        else:
            document = document[step]
    return document


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # tells 1, 1.0, true and "1" apart


def _values(expected: list[Mapping[str, Any]], cases: ck.CaseSet) -> None:
    documents = list(cases.documents())
    for one in expected:
        found = _at(documents, one["path"])
        if one.get("absent"):
            assert found is _ABSENT, one["path"]
        elif "json_text" in one:
            assert _json(found) == _json(json.loads(one["json_text"])), one["path"]
        else:
            texts = one["any_codepoints"] if "any_codepoints" in one else [one["codepoints"]]
            assert [ord(letter) for letter in found] in texts, one["path"]


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    column = frame[_snake(name)] if _snake(name) in frame else frame[f"{_snake(name)}_json"]
    assert isinstance(column, pd.Series)
    return column


def _frame(expected: list[Mapping[str, Any]], cases: ck.CaseSet) -> None:
    for one in expected:
        table = "cases" if one["table"] == "test_cases" else one["table"]
        frame = getattr(cases, table)
        assert isinstance(frame, pd.DataFrame)
        assert len(frame) == one.get("rows", len(frame))
        assert frame.dtypes.equals(getattr(ck.CaseSet(empty_tables()), table).dtypes), "a type depends on the rows"
        if "column" not in one:
            continue
        column = _column(frame, one["column"])
        assert column.isna().sum() == one.get("missing", 0)
        if "UTC" in one.get("rule", ""):
            assert isinstance(column.dtype, pd.DatetimeTZDtype)
            assert str(column.dtype.tz) == "UTC"


def _groups(expected: list[Mapping[str, Any]], cases: ck.CaseSet) -> None:
    for one in expected:
        frame = getattr(cases, one["of"])
        column = _column(frame, one["by"])
        counts = {
            "(none)" if pd.isna(key) else key: int(size)
            for key, size in frame.groupby(column, dropna=False, sort=False).size().items()
        }
        assert counts == one["counts"]
        assert sum(counts.values()) == one["sum"]


def _ids(frame: pd.DataFrame) -> list[str]:
    return frame["case_id"].tolist()


def _flagged(frame: pd.DataFrame, column: str) -> list[str]:
    return _ids(frame[frame[column].fillna(False).astype(bool)])


def _erased(expected: list[str], cases: ck.CaseSet) -> None:
    assert _flagged(cases.cases, "erased") == expected
    assert cases.report.erased == len(expected)
    assert cases.without_erased().left_out[-1].cases == len(expected)


def _live(expected: list[str], cases: ck.CaseSet) -> None:
    assert _ids(cases.without_erased().cases) == expected


def _expert(expected: list[str], cases: ck.CaseSet) -> None:
    assert _flagged(cases.cases, "expert") == expected


def _test_cases(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    frame = cases.cases
    found = {
        "count": len(frame),
        "ids": _ids(frame),
        "retired": _flagged(frame, "retired"),
        "live": _ids(cases.without_retired().cases),
        "hand": _ids(frame[frame["kind"] == "hand"]),
        "expert": _flagged(frame, "expert"),
    }
    assert {name: found[name] for name in expected} == expected


def _instants(expected: list[Mapping[str, Any]], cases: ck.CaseSet) -> None:
    frame = cases.cases
    for one in expected:
        _, row, *steps = one["path"].split("/")
        found = frame[_snake("_".join(steps))].iloc[int(row)].as_unit("ns").value
        wanted = one["epoch_ns"] if "epoch_ns" in one else one["epoch_s"] * 10**9
        assert abs(found - wanted) <= one.get("tolerance_ns", 0)


def _filter(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    for name, count in expected.items():
        assert len(getattr(cases, _snake(name))()) == count


def _display(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    texts = [repr(cases), str(cases), cases._repr_html_()]
    for forbidden in [*expected.get("no_raw", []), *expected.get("html_must_not_contain", [])]:
        assert not any(forbidden in text for text in texts)
    assert not any(re.search(r"0x[0-9a-f]{6}|http://|127\.0\.0\.1", text) for text in texts)


def _export(expected: Mapping[str, str], cases: ck.CaseSet) -> None:
    """No text of a spreadsheet may look like a formula, numbers stay numbers, and what is replaced is said."""
    with TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name in TABLES:
            file = Path(folder, f"{name}.csv")
            cases.to_csv(file, table=name)
            with file.open(encoding="utf-8", newline="") as lines:
                rows = list(csv.DictReader(lines, strict=True))
            assert len(rows) == cases.arrow(name).num_rows
            numbers = {field.name for field in TABLES[name] if pa.types.is_primitive(field.type)}
            for row in rows:
                assert not any(row[column][:1] in tuple("=+-@\t\r") for column in row.keys() - numbers if row[column])
                assert not any(row[column].startswith("'") for column in numbers)
            cases.to_csv(file, table=name, safe=False)
        report = cases.to_excel(Path(folder, "book.xlsx"))
    assert set(expected) <= {"csv_or_excel", "excel_or_csv"}
    assert bool(report.changes()) == any("book.xlsx" in str(one.message) for one in said)


def _plot(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    if "raises" not in expected:
        return  # checked where modules are blocked
    axes = plot_yes_rates(yes_rates(cases.items, by="key"))
    figure = axes.figure
    for kind in ("png", "svg"):
        figure.savefig(BytesIO(), format=kind)  # type: ignore[union-attr]
    if "labels" in expected:
        labels = axes.get_yticklabels()
        assert sorted(label.get_text() for label in labels) == sorted(expected["labels"])
        assert not any(label.get_parse_math() for label in labels)


# ------------------------------------------------------------ of calls


def _error(expected: Mapping[str, Any], outcome: Outcome, player: Player) -> None:
    error: Any = outcome.error
    wanted = tuple(kind for name in expected["kind"] for kind in KINDS[name])
    assert isinstance(error, wanted), repr(error)
    attributes = {"status": "status", "code": "code", "requestId": "request_id", "retryAfter": "retry_after"}
    for name, attribute in {**attributes, "details": "details"}.items():
        if name in expected:
            assert getattr(error, attribute) == expected[name]
    for one in expected.get("names", []):
        words = [re.sub(r"^the (field |case )?", "", part.strip()).lower() for part in one.split(" or ")]
        assert any(word in str(error).lower() for word in words), f"{words} not in {error}"


def _requests(expected: Mapping[str, Any], outcome: Outcome, player: Player) -> None:
    requests = player.requests
    gaps = [(later.came - (one.answered or one.came)) * 1000 for one, later in pairwise(requests)]
    for name, value in expected.items():
        REQUESTS[name](value, requests, gaps, player)


def _most_of_one(requests: list[Request]) -> int:
    targets = [request.target for request in requests]
    return max((targets.count(target) for target in targets), default=0)


def _same(values: list[Any]) -> bool:
    return bool(values) and all(value == values[0] for value in values)


def _holds(truth: Any) -> None:
    assert truth


REQUESTS: dict[str, Any] = {
    "count": lambda value, requests, gaps, player: _holds(len(requests) == value),
    "min": lambda value, requests, gaps, player: _holds(len(requests) >= value),
    "max": lambda value, requests, gaps, player: _holds(len(requests) <= value),
    "main_max": lambda value, requests, gaps, player: _holds(len(requests) <= value),
    "max_each": lambda value, requests, gaps, player: _holds(_most_of_one(requests) <= value),
    "other_max": lambda value, requests, gaps, player: _holds(len(player.origins["other"].requests) <= value),
    "cursors": lambda value, requests, gaps, player: _holds(
        [dict(request.query).get("cursor") for request in requests] == value
    ),
    "gap_ms_min": lambda value, requests, gaps, player: _holds(
        all(gap >= least for gap, least in zip(gaps, value, strict=False))
    ),
    "gap_ms_max": lambda value, requests, gaps, player: _holds(
        all(gap <= most for gap, most in zip(gaps, value, strict=False))
    ),
    "same_idempotency_key": lambda value, requests, gaps, player: _holds(
        (_same([request.header("idempotency-key") for request in requests]) and requests[0].header("idempotency-key"))
        or not value
    ),
    "same_body": lambda value, requests, gaps, player: _holds(_same([request.body for request in requests]) == value),
    "raw_path": lambda value, requests, gaps, player: _holds({request.path for request in requests} == {value}),
    "raw_path_regex": lambda value, requests, gaps, player: _holds(
        all(re.search(value, request.path) for request in requests)
    ),
    "limit_between": lambda value, requests, gaps, player: _holds(
        all(value[0] <= int(dict(request.query)["limit"]) <= value[1] for request in requests)
    ),
}


def _retired(expected: Mapping[str, Any], outcome: Outcome, player: Player) -> None:
    case = outcome.value
    assert isinstance(case, AgentCase)
    assert case.retired is not None
    found = {"id": case.id, "reason": case.retired.reason, "at_epoch_s": case.retired.at.timestamp()}
    assert {name: found[name] for name in expected} == expected


def _warns(expected: Any, outcome: Outcome, player: Player) -> None:
    said = "\n".join([*outcome.warned, json.dumps(outcome.cases.report.to_dict(), ensure_ascii=False)])
    for one in _texts(expected):
        assert one in said


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _elapsed(expected: float, outcome: Outcome, player: Player) -> None:
    assert outcome.seconds <= expected


def _message_max(expected: int, outcome: Outcome, player: Player) -> None:
    assert len(str(outcome.error)) <= expected


OF_CASES: dict[str, Callable[[Any, ck.CaseSet], None]] = {
    "cases": _cases,
    "display": _display,
    "erased": _erased,
    "expert": _expert,
    "export": _export,
    "filter": _filter,
    "frame": _frame,
    "groups": _groups,
    "instants": _instants,
    "items": _items,
    "live": _live,
    "plot": _plot,
    "pooled": _pooled,
    "test_cases": _test_cases,
    "values": _values,
}
OF_CALLS: dict[str, Any] = {
    "elapsed_s_max": _elapsed,
    "error": _error,
    "message_max": _message_max,
    "requests": _requests,
    "retired": _retired,
    "warns": _warns,
    "within_s": _elapsed,
}


def check_combined(expected: Mapping[str, Any], outcomes: list[Outcome], folder: Path) -> None:
    """Snapshots of all calls read together, in any order."""
    paths = []
    for n, outcome in enumerate(outcomes):
        paths.append(folder / f"part-{n}")
        ck.write_snapshot(outcome.cases, paths[-1])
    in_order = [None if value is None else value for value in expected["runId"]]
    for order in permutations(range(len(paths))):
        together = ck.read_snapshot([paths[n] for n in order])
        assert len(together) == expected["rows"]
        found = [None if pd.isna(value) else value for value in together.cases["run_id"]]
        assert sorted(map(str, found)) == sorted(map(str, in_order))
        if list(order) == sorted(order):
            assert found == in_order
    assert np.array_equal(ck.read_snapshot(paths).cases.columns, outcomes[0].cases.cases.columns)
