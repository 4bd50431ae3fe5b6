"""What a case says must not happen (``must_not``): a check for each text; a text without one is an error."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from cases.calls import Outcome
from cases.player import Player
from matplotlib.figure import Figure

import casekit as ck
from casekit import errors
from casekit.documents import AgentCase
from casekit.plots import plot_yes_rates
from casekit.schema import TABLES
from casekit.stats import yes_rates


class NobodyChecks(Exception):
    """A case asks for what no check knows; no other outcome makes up for it."""


def demand(known: object, what: object) -> None:
    """Refuse what no check looks at."""
    if not known:
        raise NobodyChecks(f"nobody checks {what!r}")


@dataclass
class Seen:
    """A call, what was sent for it, and what a snapshot of its cases gave back."""

    outcome: Outcome
    player: Player
    again: ck.CaseSet | None

    def both(self) -> list[ck.CaseSet]:
        """The cases as they were loaded and as they were read back; none where the call gave none."""
        return [] if self.again is None else [self.outcome.cases, self.again]


def exact(value: Any) -> str:
    """JSON in which 1, 1.0, true and "1", and absent, null and empty, differ."""
    return json.dumps(value, sort_keys=True)


def sent_as(document: Mapping[str, Any]) -> str:
    """A case's document as exact JSON; but of the contract's own numbers 1 and 1.0 are one value, as in JSON."""
    number = r'"(yes|no|rank|yesWeight|totalWeight)": (-?\d[\d.e+-]*)'
    return re.sub(number, lambda found: f'"{found[1]}": {float(found[2])!r}', exact(document))


def forbid(texts: Iterable[str], checks: Mapping[str, Callable[[], None]]) -> None:
    """Make the check of each text."""
    for text in texts:
        demand(text in checks, text)
        checks[text]()


def check_forbidden(texts: Iterable[str], seen: Seen) -> None:
    """None of the faults that the texts name has happened to a call."""

    def bound(check: Callable[[Seen], None]) -> Callable[[], None]:
        return lambda: check(seen)

    forbid(texts, {text: bound(check) for text, check in FORBIDDEN.items()})


# ------------------------------------------------------------ of values


def as_sent(seen: Seen) -> None:
    """Every case is there once, in the order and with the very values that were sent."""
    sent = [sent_as(document) for document in seen.player.documents()]
    for cases in seen.both():
        assert [sent_as(document) for document in cases.documents()] == sent


def _digits(seen: Seen) -> None:
    as_sent(seen)
    wanted = re.findall(r"\d{16,}", exact(seen.player.documents()))
    assert wanted
    for cases in seen.both():
        calls = cases.recorded_calls
        shown = "\n".join(calls["arguments_json"].dropna()) + "\n".join(calls["result_json"].dropna())
        assert re.findall(r"\d{16,}", shown) == wanted


def _outputs_are_there(seen: Seen) -> None:
    for cases in seen.both():
        assert cases.cases["output_json"].notna().all()
        assert len(cases.without_erased()) == len(cases)


def _mixed_types(seen: Seen) -> None:
    as_sent(seen)
    for cases in seen.both():
        texts = [exact(json.loads(text)) for text in cases.cases["input_json"].dropna()]
        assert texts == [exact(document["input"]) for document in seen.player.documents() if "input" in document]


def _own_id(seen: Seen) -> None:
    for cases in seen.both():
        assert cases.cases["case_id"].tolist() == [document["caseId"] for document in seen.player.documents()]


def _columns_once(seen: Seen) -> None:
    for cases in seen.both():
        for name in TABLES:
            assert getattr(cases, name).columns.is_unique


def _every_column(seen: Seen) -> None:
    for cases in seen.both():
        assert all(getattr(cases, name).columns.tolist() == schema.names for name, schema in TABLES.items())


def _erased_output(seen: Seen) -> None:
    as_sent(seen)
    for cases in seen.both():
        frame = cases.cases
        erased = frame[frame["erased"].fillna(False).astype(bool)]
        assert erased["output_json"].tolist() == ["null"] * len(erased)


def _shown_as_it_is(seen: Seen) -> None:
    """An entity in a text is shown as the person wrote it, wherever the text is shown."""
    for cases in seen.both():
        for shown in (cases.cases.to_html(), cases._repr_html_(), cases.contested().to_html()):
            assert not re.search(r"a <b>|a &lt;b&gt; c", str(shown))


def _exported(seen: Seen) -> None:
    """An export changes neither the frame nor what a snapshot of it holds."""
    for cases in seen.both():
        frames = {name: getattr(cases, name).copy() for name in TABLES}
        with TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says which texts it made harmless
            for name in TABLES:
                cases.to_csv(Path(folder, f"{name}.csv"), table=name)
            cases.to_excel(Path(folder, "book.xlsx"))
        for name, frame in frames.items():
            pd.testing.assert_frame_equal(getattr(cases, name), frame)
    as_sent(seen)


# ------------------------------------------------------------ of rates and groups


def _no_expert_weight(seen: Seen) -> None:
    for cases in seen.both():
        known = ["expert" in item for document in seen.player.documents() for item in document["items"]]
        for column in ("expert_yes_weight", "expert_total_weight"):
            assert cases.items[column].notna().tolist() == known


def _erased_counted(seen: Seen) -> None:
    gone = [document["caseId"] for document in seen.player.documents() if document.get("erased")]
    for cases in seen.both():
        usable = cases.without_erased()
        assert not set(gone) & set(usable.cases["case_id"])
        assert (cases.report.erased, usable.left_out[-1].cases) == (len(gone), len(gone))


def _rate_of(cases: ck.CaseSet, key: str) -> Any:
    return yes_rates(cases.items, by="key").set_index("key").loc[key, "rate"]


def _undefined(seen: Seen) -> None:
    for cases in seen.both():
        assert pd.isna(_rate_of(cases, "none"))


def _mean_without_undefined(seen: Seen) -> None:
    for cases in seen.both():
        rates = yes_rates(cases.items, by=["case_id", "key"])
        assert rates["rate"].count() == len(rates) - 1


def _groups_whole(seen: Seen) -> None:
    for cases in seen.both():
        reasons = cases.reasons
        assert reasons.groupby("corrector_group_id", dropna=False).size().sum() == len(reasons) == 5


def _null_input_stays(seen: Seen) -> None:
    for cases in seen.both():
        assert (cases.cases["input_json"] == "null").any()
        assert len(cases.without_erased()) == len(cases)


def _retired_listed(seen: Seen) -> None:
    sent = [document["id"] for document in seen.player.documents()]
    for cases in seen.both():
        assert cases.cases["case_id"].tolist() == sent


def _retired_out_of_play(seen: Seen) -> None:
    gone = {document["id"] for document in seen.player.documents() if document.get("retired")}
    for cases in seen.both():
        usable = cases.without_retired()
        assert not gone & set(usable.cases["case_id"])
        assert usable.left_out[-1].cases == len(gone)


def _times_read(seen: Seen) -> None:
    for cases in seen.both():
        assert cases.cases["added_at"].notna().all()


# ------------------------------------------------------------ of plots


def _drawn(seen: Seen) -> None:
    """A figure is drawn, and its labels are the keys as they are, with nothing taken as math."""
    for cases in seen.both():
        axes = plot_yes_rates(yes_rates(cases.items, by="key"))
        assert isinstance(axes.figure, Figure)
        axes.figure.savefig(BytesIO(), format="png")
        labels = axes.get_yticklabels() if len(cases.items) else []
        assert {label.get_text() for label in labels} == set(cases.items["key"])
        assert not any(label.get_parse_math() for label in labels)


# ------------------------------------------------------------ of calls


def _silent(seen: Seen) -> None:
    assert seen.outcome.warned == []


def _typed(seen: Seen) -> None:
    """The call gives what was sent, or raises casekit's own error."""
    if seen.outcome.error is None:
        as_sent(seen)
    else:
        assert isinstance(seen.outcome.error, errors.CasekitError)


def _nothing_given(seen: Seen) -> None:
    assert seen.outcome.error is not None
    assert seen.outcome.value is None


def _whole_or_nothing(seen: Seen) -> None:
    """All the cases of a whole walk, or an error and none."""
    (_nothing_given if seen.outcome.error is not None else as_sent)(seen)


def _ends(seen: Seen) -> None:
    assert len(seen.player.requests) <= 4
    _nothing_given(seen)


def _asked_once(seen: Seen) -> None:
    assert len(seen.player.requests) == 1


def _no_empty_cursor(seen: Seen) -> None:
    assert {dict(request.query).get("cursor", "-") for request in seen.player.requests}.isdisjoint({"", "None", "null"})


def _limits(seen: Seen) -> None:
    for request in seen.player.requests:
        assert 1 <= int(dict(request.query).get("limit", "1")) <= 100


def _keys(seen: Seen) -> list[str]:
    keys = [key for request in seen.player.requests for key in request.header("idempotency-key")]
    assert len(keys) == len(seen.player.requests)
    return keys


def _one_key(seen: Seen) -> None:
    assert len(set(_keys(seen))) == 1


def _any_key(seen: Seen) -> None:
    assert all(_keys(seen))


def _no_token(seen: Seen) -> None:
    [token] = {value.removeprefix("Bearer ") for one in seen.player.requests for value in one.header("authorization")}
    assert token not in seen.outcome.shown()


def _no_token_elsewhere(seen: Seen) -> None:
    assert not any(request.header("authorization") for request in seen.player.origins["other"].requests)


def _not_a_success(seen: Seen) -> None:
    assert not isinstance(seen.outcome.value, AgentCase)
    assert isinstance(seen.outcome.error, errors.ConflictError)


FORBIDDEN: dict[str, Callable[[Seen], None]] = {
    "any digit of the two tickets differs, in the frame or after the Parquet round trip": _digits,
    "ArrowInvalid reaches the caller": _typed,
    'null and absent, or "3.5" and 3.5, become the same': as_sent,
    "segments [] (none) reads back as absent (not set), or the other way round": as_sent,
    "the text is cut at the NUL": as_sent,
    "CRLF becomes LF": as_sent,
    "a rate is NaN with no error": _nothing_given,
    "the page is taken as complete": _nothing_given,
    "007 becomes 7": as_sent,
    "an empty output counts as missing or erased": _outputs_are_there,
    "c-k1 or the reason is dropped without a word": _typed,
    "team becomes agent, unsure becomes no": _typed,
    "expert weights are 0 (they are unknown)": _no_expert_weight,
    "the load fails on the missing runId": as_sent,
    "output null (for a field documented as a string) makes the load fail": as_sent,
    "the erased case counts as live, or is not counted anywhere": _erased_counted,
    'output reads back as "" or "None" or "nan"': _erased_output,
    "the rate of `none` is 0 or 1, or it raises": _undefined,
    "a RuntimeWarning goes to stderr": _silent,
    "the mean over items takes `none` in": _mean_without_undefined,
    "the group counts add up to 3": _groups_whole,
    "the frame or the Parquet snapshot is changed": _exported,
    "the frame's own text is escaped or cut": as_sent,
    "`a &lt;b&gt; c` is shown as `a <b> c`": _shown_as_it_is,
    "a ParseException when the figure is drawn": _drawn,
    "`$x … $` is shown in italics with the signs gone": _drawn,
    "the format of the first row decides, so that the second row fails or is NaT": _times_read,
    "one of the two values is overwritten": as_sent,
    "a column appears twice": _columns_once,
    "the case's id is `shadow`": _own_id,
    "a case with input null counts as erased": _null_input_stays,
    '3 and "3", or true and "True", become the same': _mixed_types,
    "KeyError on a missing column": _every_column,
    "`no numeric data to plot`": _drawn,
    "a snapshot that cannot be read": as_sent,
    "a retired case is gone from the full list (it stays listed)": _retired_listed,
    "a retired case counts as live": _retired_out_of_play,
    "it loops": _ends,
    "the cases so far are given out as complete": _nothing_given,
    "it stops after the empty page with c-2 missing": as_sent,
    "one page is given out as the whole set": _nothing_given,
    "the first page is asked for again and again": _ends,
    "a validation error on null": as_sent,
    "a request with cursor=None or cursor=null": _no_empty_cursor,
    "c-1 … c-4 come twice": _whole_or_nothing,
    "the four cases before the 400 are given out as complete": _whole_or_nothing,
    "limit=1000 goes out": _limits,
    "only the first page comes back": _whole_or_nothing,
    "ValueError from float()": _typed,
    "JSONDecodeError": _typed,
    "a bare RemoteProtocolError or IncompleteRead": _typed,
    "an empty frame": _nothing_given,
    "JSONDecodeError as it is": _typed,
    "the token stands in str(), repr(), the traceback, args, a log line at DEBUG, or the notebook's output": _no_token,
    "it is retried": _asked_once,
    "the other origin sees Authorization": _no_token_elsewhere,
    "c-evil is given out": _nothing_given,
    "a new key on the second try": _one_key,
    "no key at all": _any_key,
    "it counts as success without a word": _not_a_success,
}
