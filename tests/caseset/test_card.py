"""What a CaseSet shows: counts in words, escaped, and the same in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from documents_strategy import TEXTS
from html_tags import Tags, harmless
from hypothesis import HealthCheck, given, settings

import casekit
from casekit.caseset import CaseSet
from casekit.report import BadCase, PullReport
from casekit.schema import TABLES
from casekit.source import LeftOut, Source

Made = Callable[..., CaseSet]
Doc = Callable[..., dict[str, Any]]


def test_a_card_counts(frozen: Made, case: Doc, item: Doc) -> None:
    """Cases, erased ones, items, corrections and weights are counted."""
    expert = {"yesWeight": 1.5, "totalWeight": 2}
    items = [item(yes=1200, no=34, yesWeight=1200.5, totalWeight=1234.5), item("l", expert=expert)]
    cases_ = frozen(case("a", items=items), case("b", erased=True))
    assert repr(cases_) == (
        "CaseSet: acme.a 1.0.0\n"
        "  cases        2, 1 erased\n"
        "  items        2\n"
        "  corrections  1,235: 1,201 yes, 34 no\n"
        "  weight       1,235.5, experts 2 (unknown for 1 item)"
    )
    text = Tags(cases_._repr_html_()).text
    for words in ("acme.a 1.0.0", "2, 1 erased", "1,235: 1,201 yes, 34 no", "1,235.5, experts 2 (unknown for 1 item)"):
        assert words in text


def test_unknown_is_never_zero(frozen: Made, case: Doc, item: Doc) -> None:
    """Where no expert evidence is known the card says so; known evidence of weight 0 is 0."""
    assert "weight       1, experts unknown" in repr(frozen(case("a", items=[item()])))
    assert "weight       1, experts 0" in repr(
        frozen(case("a", items=[item(expert={"yesWeight": 0, "totalWeight": 0})]))
    )
    assert "weight       0, experts 0" in repr(frozen("a"))


@pytest.mark.parametrize(
    ("weight", "shown"),
    [(0.1, "0.1"), (1234.5678, "1,234.57"), (99_999.5, "99,999.5"), (2_575_123.4, "2,575,123"), (1e300, "1e+300")],
)
def test_a_large_weight_is_written_out(frozen: Made, case: Doc, item: Doc, weight: float, shown: str) -> None:
    """A sum of weights has six digits, and more when it is larger, up to numbers that nobody reads."""
    items = [item(yesWeight=weight, totalWeight=weight)]
    assert f"weight       {shown}, experts unknown" in repr(frozen(case("a", items=items)))


def test_a_card_of_live_cases(live: Made) -> None:
    """A live test set has no evidence, and retired cases."""
    assert repr(live("a", "-b")) == "CaseSet: live test set of acme.agent\n  cases        2\n  retired      1"


def test_a_card_of_nothing(frozen: Made) -> None:
    """An empty set has a card."""
    assert repr(frozen()).splitlines()[1:3] == ["  cases        0", "  items        0"]


def test_a_card_says_what_was_left_out_and_met(frozen: Made) -> None:
    """Filters, unknown fields, unreadable cases and replaced characters are told."""
    report = PullReport(replaced_characters=2, bad_cases=[BadCase("x", "/items", "p")])
    report.note_unknown(["/x", "/y"])
    cases_ = frozen("a")
    shown = repr(CaseSet(cases_.tables, cases_.source, report, (LeftOut("where", 3, 5), LeftOut("where", 1, 1))))
    assert "  left out     where: 3 cases, 5 items; where: 1 case, 1 item" in shown
    assert "  notes        2 unknown fields kept; 1 unreadable case left out; 2 lone surrogates replaced" in shown


def test_no_card_has_the_time_of_loading(frozen: Made) -> None:
    """The same cases have the same card whenever they were fetched, and whether loaded or read: the source has that."""
    tables = frozen("a").tables
    late = datetime(2025, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=-2)))
    plain, read = CaseSet(tables), CaseSet(tables, Source(fetched_at=late, folders=("snapshots/a",)))
    assert repr(read).splitlines()[1:] == repr(plain).splitlines()[1:]
    assert "2025" not in read._repr_html_()
    assert "snapshots/a" not in read._repr_html_()
    assert read.source.age is not None
    assert read.source.age > timedelta(days=300)


def test_a_title_is_bounded(frozen: Made) -> None:
    """Many sets are named in part; long names are cut; control characters are shown as escapes."""
    tables = frozen("a").tables
    many = CaseSet(tables, Source(test_sets=tuple((f"acme.{n}", "1.0.0") for n in range(9))))
    assert repr(many).startswith("CaseSet: acme.0 1.0.0, acme.1 1.0.0, acme.2 1.0.0 and 6 more\n")
    odd = CaseSet(tables, Source(test_sets=(("x" * 500 + "\n", "1.0.0"),)))
    assert len(repr(odd).splitlines()[0]) < 120
    assert "\\x1b" in repr(CaseSet(tables, Source(test_sets=(("\x1b[31m", "1.0.0"),))))


@given(TEXTS, TEXTS)
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_text_of_a_card_is_escaped(frozen: Made, one: str, two: str) -> None:
    """Whatever stands in names, the card has the tags it always has, and shows the names."""
    plain = Tags(frozen("a")._repr_html_())
    out = (LeftOut(f"<b>{one}</b>", 1, 1),)
    odd = CaseSet(frozen("a").tables, Source(test_sets=((f"<script>{one[:2]}", f'"&amp;{two}'),)), PullReport(), out)
    found = harmless(odd._repr_html_())
    assert set(found.tags) == set(plain.tags)
    assert found.attributes == {"class", "style"} == plain.attributes
    assert found.tags.count("dt") == plain.tags.count("dt") + 1
    assert "<script>" in found.text
    assert "&amp;" in found.text
    assert "<b>" in found.text


def test_a_card_holds_no_words_and_loads_nothing(frozen: Made, case: Doc, item: Doc) -> None:
    """Words of cases are not in a card; it has no address, no script and no formula."""
    reasons = [{"verdict": "no", "reason": "WORDS"}]
    shown = frozen(case("WORDS", input="WORDS", output="WORDS", items=[item("WORDS", reasons=reasons)]))._repr_html_()
    assert "WORDS" not in shown
    assert "http" not in shown
    assert 'class="tex2jax_ignore mathjax_ignore"' in shown


def test_colours_are_the_pages_own(frozen: Made) -> None:
    """A card names no colour but a half transparent grey, so that it can be read on light and dark pages."""
    shown = frozen("a")._repr_html_()
    assert shown.count("color:") == shown.count("color:inherit") == 1
    assert "max-width:min(600px,100%)" in shown
    assert "#" not in shown
    assert "rgba(128,128,128,.4)" in shown


def test_chunks_change_no_card(frozen: Made, case: Doc, item: Doc) -> None:
    """The sums are the same to the last digit however the rows are chunked."""
    weights = [0.1, 1e16, -1e16, 0.2, 0.3, 1e-9]
    cases_ = frozen(case("a", items=[item(f"k{n}", yesWeight=w, totalWeight=w) for n, w in enumerate(weights)]))
    items = cases_.arrow("items")
    chunked = {**cases_.tables, "items": pa.concat_tables([items.slice(n, 1) for n in range(len(weights))])}
    assert repr(CaseSet(chunked, cases_.source, cases_.report)) == repr(cases_)


SCRIPT = """
import sys
from pathlib import Path
from casekit.caseset import CaseSet
from casekit.source import Source
from casekit.report import PullReport
from casekit.wire import Reader, joined
tables = joined(Reader.corrections("real", "1.0.0", PullReport()).groups([Path(sys.argv[1]).read_bytes()]))
cases = CaseSet(tables, Source(test_sets=(("real", "1.0.0"),))).without_erased()
print(repr(cases), cases._repr_html_())
"""


def test_a_card_is_the_same_in_any_process() -> None:
    """Two processes with other hash seeds show the same."""
    data = Path(__file__).parents[2] / "data" / "mtbench" / "page-0001.json"
    source = Path(casekit.__file__).parents[1]
    shown = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(data)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert shown[0] == shown[1]
    assert "real 1.0.0" in shown[0]


# ---------------------------------------------------------------- documents


def test_a_case_by_its_id(frozen: Made, case: Doc, item: Doc) -> None:
    """One case's document is what was served, a new one each time."""
    document = case("b", output={"x": [1]}, items=[item(), item("l")], later=1)
    cases_ = frozen("a", document, "c")
    assert cases_.case("b") == document
    cases_.case("b")["output"]["x"].append(2)
    assert cases_.case("b") == document
    assert [found["caseId"] for found in cases_.documents()] == ["a", "b", "c"]


def test_a_case_that_is_not_there(frozen: Made) -> None:
    """The message has the nearest id, if there is one."""
    with pytest.raises(KeyError, match="no case 'case-11' here; did you mean 'case-1'"):
        frozen("case-1", "x").case("case-11")
    with pytest.raises(KeyError, match=r"no case 'zzz' here\W*$"):
        frozen("case-1").case("zzz")
    with pytest.raises(KeyError, match="a text, not by 5"):
        frozen("case-1").case(5)  # type: ignore[arg-type]


def test_a_lone_surrogate_in_an_id_is_what_the_tables_hold(frozen: Made) -> None:
    """An id is found by the text that the server sent; one that is not there is said to be not there."""
    assert frozen("x\ufffd").case("x\ud800")["caseId"] == "x\ufffd"
    assert frozen("😀").case("😀")["caseId"] == "😀"
    with pytest.raises(KeyError, match="no case"):
        frozen("a").case("\ud800")


def test_a_case_that_stands_in_several_sets(frozen: Made) -> None:
    """An id that stands in several versions needs the version; the message says which there are."""
    tables = {
        name: pa.concat_tables([frozen("a").arrow(name), frozen("a", version="2.0.0").arrow(name)]) for name in TABLES
    }
    both = CaseSet(tables)
    with pytest.raises(KeyError, match=r"stands in acme.a 1.0.0, acme.a 2.0.0: give test_set_id and version"):
        both.case("a")
    assert both.case("a", version="2.0.0")["caseId"] == "a"
    assert both.case("a", test_set_id="acme.a", version="1.0.0")["caseId"] == "a"
    with pytest.raises(KeyError, match="no case 'a' here"):
        both.case("a", version="3.0.0")
