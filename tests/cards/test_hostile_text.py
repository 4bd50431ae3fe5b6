"""Hostile text is shown harmlessly, and in bounds, in every place that shows any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest
from documents_strategy import page
from html_tags import harmless
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit import stats
from casekit.casediff import CaseDiff, diff
from casekit.caseset import CaseSet
from casekit.change import SnapshotChange
from casekit.dictionary import data_dictionary
from casekit.erasure import Finding, SweepReport
from casekit.errors import CasekitError, SchemaError
from casekit.plots import plot_ranks
from casekit.plots.labels import plain
from casekit.report import BadCase, PullReport
from casekit.schema import empty_tables
from casekit.snapshots.manifest import FileInfo, SnapshotInfo
from casekit.source import LeftOut, Source
from casekit.styles import styled
from casekit.wire import Reader, joined

HOSTILE = {
    "tags": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "attributes": '" onmouseover="alert(1)" \'>',
    "entities": "&lt;b&gt; &amp;amp; &#60;i&#62; &copy",
    "comment": "--><!-- ]]> <![CDATA[",
    "ansi": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b31m",
    "lines": "one\r\ntwo\u2028three\x85four\x0bfive",
    "bidi": "\u202eevil\u202c \u2066a\u2069 \u200f\u061c right",
    "invisible": "\x00\ufeff\u200b\u00ad\ufff9",
    "surrogate": "\ud800 half \udfff",
    "dollar": "$x$ \\(y\\) $$z$$",
    "long": "w" * 100_000,
    "long words": "word <b> & " * 10_000,
    "long escapes": "\x1b" * 100_000,
}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONGEST = 8_000  # characters of one card, table or message, whatever stands in it
MARKUP = 80_000  # with its styles


def one_item(**columns: Any) -> pd.DataFrame:
    """Items of two cases."""
    frame = pd.DataFrame({"case_id": ["a", "b"], "item_no": 0, "key": "k", "yes": 1, "no": 1})
    return frame.assign(yes_weight=1.0, total_weight=2.0, **columns)


def stored(text: str) -> str:
    """The text as a table holds it, without lone surrogates."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def cases_of(text: str) -> CaseSet:
    """A CaseSet in which the text stands wherever a server may put one."""
    safe = stored(text)
    said = [{"verdict": "no", "reason": safe, "correctorGroupId": safe}]
    item = {"key": safe, "pointer": safe, "yes": 1, "no": 1, "yesWeight": 1, "totalWeight": 2, "reasons": said}
    subject = {"kind": "agent", "id": safe, "version": safe}
    document = {"caseId": safe, "subject": subject, "input": safe, "output": safe, "items": [item]}
    tables = joined(Reader.corrections(safe, safe, PullReport()).groups([page([document])]))
    return CaseSet(tables, Source(test_sets=((text, text),)), report_of(text), (LeftOut(text, 1, 1),))


def report_of(text: str) -> PullReport:
    """A report in which the text stands wherever a server may put one."""
    report = PullReport(request_ids=[text] * 5, bad_cases=[BadCase(text, text, text)] * 5)
    report.absent_fields = Counter({text: 3})
    report.note_unknown([text])
    report.note_odd([text])
    return report


def grouped(text: str) -> pd.DataFrame:
    """Rates whose group, its name and its reason are the text."""
    words: pd.Series[Any] = pd.Series([text], dtype=object)  # pandas' own text holds no lone surrogate, nor do names
    name = stored(text)
    return (
        stats.yes_rates(one_item(group="g"), by="group")
        .assign(group=words, reason=words)
        .rename(columns={"group": name})
    )


def live(text: str) -> CaseSet:
    """Cases of several agents whose ids are the text."""
    row = {"case_id": "a", "subject_kind": "agent", "subject_id": stored(text), "subject_version": "1", "kind": "hand"}
    cases = pd.DataFrame([row, {**row, "subject_id": stored(f"{text}2")}])
    table = empty_tables()["cases"]
    columns = {name: cases[name].tolist() if name in cases else [None] * 2 for name in table.column_names}
    return CaseSet({**empty_tables(), "cases": type(table).from_pydict(columns)})


def info_of(text: str) -> SnapshotInfo:
    """A manifest in which the text stands wherever one may."""
    files = {f"{name}.parquet": FileInfo("0" * 64, 1, 1) for name in empty_tables()}
    return SnapshotInfo(((text, text),), text, text, NOON, text, text, files, report_of(text), (LeftOut(text, 1, 1),))


def change_of(text: str) -> SnapshotChange:
    """What a refresh changed of cases whose ids are the text."""
    ids = (text,) * 7
    return SnapshotChange(text, ids, ids, ids, ids, 1, text, f"{text}2", NOON, NOON, report_of(text))


def sweep_of(text: str) -> SweepReport:
    """A sweep that found the text wherever it names anything."""
    ids = (text,) * 7
    return SweepReport(text, ids, ids, (Finding(text, "words", text, text),) * 7, True, ids, 1, 1, 1, 1, 1, 1)


def diff_of(text: str) -> CaseDiff:
    """Two sides of which one has a case more."""
    return diff(CaseSet(empty_tables(), left_out=(LeftOut(text, 1, 1),)), cases_of(text))


SHOWN: dict[str, Callable[[str], Any]] = {
    "CaseDiff": diff_of,
    "CaseSet": cases_of,
    "SnapshotChange": change_of,
    "SnapshotInfo": info_of,
    "SweepReport": sweep_of,
    "CaseSet of agents": live,
    "PullReport": report_of,
    "styled groups": lambda text: styled(grouped(text)),
    "styled summary": lambda text: styled(cases_of(text).summary()),
    "styled contested": lambda text: styled(cases_of(text).contested()),
    "styled items": lambda text: styled(stats.item_agreement(cases_of(text).items)),
    "styled keys": lambda text: styled(stats.rank_keys(cases_of(text).items)),
}
ERRORS: dict[str, Callable[[str], Any]] = {
    "case": lambda text: cases_of("a").case(text),
    "table": lambda text: cases_of("a").arrow(text),
    "column": lambda text: stats.yes_rates(one_item(), by=text),
    "columns there": lambda text: stats.yes_rates(one_item(**{text: 1}), by="nothing like it"),
    "by twice": lambda text: stats.yes_rates(one_item(), by=[text, text]),
    "weights": lambda text: stats.yes_rates(one_item(), weights=text),  # type: ignore[arg-type]
    "method": lambda text: stats.yes_rates(one_item(), method=text),  # type: ignore[arg-type]
    "contradiction": lambda text: stats.yes_rates(one_item(key=text).assign(case_id=text, total_weight=0.5)),
    "number": lambda text: stats.yes_rates(one_item().assign(yes=text)),
    "mixed": lambda text: stats.yes_rates(one_item(**{text: [1, "a"]}), by=text),
    "segment twice": lambda text: stats.segments_wide(ids(text), segments(text, 2)),
    "segment taken": lambda text: stats.segments_wide(ids(text).assign(**{text: 1}), segments(text, 1)),
    "styled": lambda text: styled(pd.DataFrame({text: [1]})),
    "contested": lambda text: cases_of("a").contested(text),  # type: ignore[arg-type]
    "dictionary": lambda text: data_dictionary(text),
    "rank": lambda text: stats.rank_rates(ranked(text).assign(rank=text), corrected(text)),
    "key twice": lambda text: stats.rank_rates(ranked(text), pd.concat([corrected(text)] * 2)),
    "item": lambda text: stats.item_agreement(corrected(text).assign(total_weight=0.5)),
    "plotted": lambda text: plot_ranks(pd.DataFrame({text: [1]})),
    "schema": lambda text: raised(SchemaError("no number", case_id=text, path="/items/0")),
    "any": lambda text: raised(CasekitError(text)),
}


def ids(text: str) -> pd.DataFrame:
    """One case whose id is the text."""
    return pd.DataFrame({"test_set_id": ["t"], "version": ["1"], "case_id": [text]})


def segments(text: str, times: int) -> pd.DataFrame:
    """Segments of that case whose key is the text."""
    return pd.concat([ids(text).assign(segment_no=n, key=text, value=text) for n in range(times)], ignore_index=True)


def ranked(text: str) -> pd.DataFrame:
    """The first place of that case's output."""
    return pd.DataFrame({"case_id": [text], "key": [text], "pointer": "/0", "own_key": True, "rank": 0, "place": 0})


def corrected(text: str) -> pd.DataFrame:
    """What was said of it."""
    return ranked(text)[["case_id", "key", "pointer", "rank"]].assign(yes=1, no=1, yes_weight=1.0, total_weight=2.0)


def raised(error: Exception) -> None:
    """Raise it."""
    raise error


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("place", SHOWN)
def test_hostile_text_is_shown_harmlessly(place: str, kind: str) -> None:
    """As HTML it is text alone, as text a line each without control characters; neither is long."""
    shown = SHOWN[place](HOSTILE[kind])
    markup = shown._repr_html_()
    found = harmless(markup)
    assert len(markup) < MARKUP
    assert len(found.text) < LONGEST
    text = repr(shown)
    assert len(text) < LONGEST
    assert all(c.isprintable() or c == "\n" for c in text)
    assert len(text.splitlines()) == text.count("\n") + 1
    text.encode("utf-8")


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("place", ERRORS)
def test_hostile_text_in_a_message_is_one_short_line(place: str, kind: str) -> None:
    """A message has no control characters, no line breaks, and bounds, whatever it names."""
    with pytest.raises((CasekitError, KeyError, ValueError)) as caught:
        ERRORS[place](HOSTILE[kind])
    message = str(caught.value)
    assert len(message) < 3000
    assert message.isprintable()
    message.encode("utf-8")


@pytest.mark.parametrize("kind", ["tags", "entities", "dollar"])
def test_what_can_be_read_is_not_lost(kind: str) -> None:
    """Tags, entities and signs of formulas are shown letter for letter."""
    text = HOSTILE[kind]
    assert text in harmless(report_of(text)._repr_html_()).text
    assert text in repr(report_of(text))
    assert plain(text) in harmless(styled(grouped(text))._repr_html_()).text


@given(st.text(max_size=40).filter(lambda text: text not in one_item().columns), st.sampled_from(["key", "group"]))
@settings(deadline=None, max_examples=40)
def test_any_group_is_shown_harmlessly(text: str, column: str) -> None:
    """Whatever the group's value, the table nests, does nothing, and has a row for it."""
    shown = styled(stats.yes_rates(one_item(**{column: stored(text)}), by=column))
    assert harmless(shown._repr_html_()).tags.count("tr") == 2
    assert all(c.isprintable() or c == "\n" for c in repr(shown))
