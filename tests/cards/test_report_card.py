"""The card of a load's report: what it did, what it met, and nothing bad left out."""

from __future__ import annotations

from collections import Counter

from documents_strategy import TEXTS
from html_tags import harmless
from hypothesis import given, settings

from casekit.card import html_card, sized, text_card
from casekit.report import REQUEST_IDS_KEPT, BadCase, PullReport


def lines(report: PullReport) -> dict[str, str]:
    """Name and text of each line of a report's repr."""
    head, *rest = repr(report).splitlines()
    assert head == "PullReport"
    width = max(12, *(len(name) for name in ("unknown fields", "absent fields") if f"  {name} " in repr(report)), 0)
    return {line[2 : 2 + width].strip(): line[3 + width :] for line in rest}


def test_a_quiet_load_says_little() -> None:
    """What did not happen has no line; that no case was unreadable is said."""
    assert lines(PullReport(pages=2, cases=120, bytes=4_812)) == {
        "cases": "120",
        "pages": "2, 4.8 kB",
        "unreadable": "none",
    }
    assert lines(PullReport()) == {"cases": "0", "pages": "0, 0 B", "unreadable": "none"}


def test_everything_that_was_met_is_told() -> None:
    """Each count of the report is on the card."""
    report = PullReport(
        pages=12,
        cases=12_345,
        erased=3,
        duplicates=1,
        retries=5,
        waited=12.34,
        restarts=1,
        bytes=2_500_000,
        request_ids=["req-1", "req-2"],
        replaced_characters=2,
        careful_pages=4,
        bad_cases=[BadCase("case-1", "/items/0/yes", "is no whole number"), BadCase(None, "", "no object")],
        absent_fields=Counter({"/runId": 7, "/expert": 0}),
    )
    report.note_unknown(["/x", "/x", "/b", "/c", "/d"])
    report.note_odd(["/items/*/rank"])
    assert lines(report) == {
        "cases": "12,345, 3 erased",
        "pages": "12, 2.5 MB, 4 of them by the careful road",
        "came twice": "1 case, kept once",
        "retries": "5 requests sent again, 12.3 s waited",
        "begun again": "1 time, because a cursor had expired",
        "unknown fields": "kept in extra_json: /x (2 ×), /b (1 ×), /c (1 ×) and 1 more",
        "odd values": "kept in extra_json: /items/*/rank (1 ×)",
        "absent fields": "this server leaves out /runId (7 ×)",
        "replaced": "2 lone surrogates, by U+FFFD",
        "unreadable": "2 cases left out: case-1 at /items/0/yes: is no whole number; (no id) at /: no object",
        "request ids": "req-1, req-2",
    }


def test_the_card_says_what_the_repr_says() -> None:
    """Names and texts of the HTML are those of the text."""
    report = PullReport(pages=1, cases=2, retries=1, waited=0.5, bad_cases=[BadCase("c", "/a", "p")] * 5)
    found = harmless(report._repr_html_()).text.split("\n")
    assert found == ["PullReport", *(part for line in lines(report).items() for part in line), ""]
    assert "and 2 more" in lines(report)["unreadable"]


def test_ids_are_few_and_counted() -> None:
    """Of many request ids some are shown; that no more were kept is said."""
    assert lines(PullReport(request_ids=[f"r{n}" for n in range(5)]))["request ids"] == "r0, r1, r2 and 2 more"
    kept = lines(PullReport(request_ids=["r"] * REQUEST_IDS_KEPT))["request ids"]
    assert kept == "r, r, r and 997 more (the first 1,000 are kept)"


def test_the_order_paths_were_met_in_is_not_shown() -> None:
    """Two loads that met the same in another order have the same card."""
    one, two = PullReport(), PullReport()
    one.note_unknown(["/a", "/b", "/b"])
    two.note_unknown(["/b", "/a", "/b"])
    assert one._repr_html_() == two._repr_html_()
    assert lines(one)["unknown fields"] == "kept in extra_json: /b (2 ×), /a (1 ×)"


def test_bytes_are_in_the_unit_a_person_takes() -> None:
    """A thousand is the next unit, also when rounding makes it one; the largest unit goes on."""
    sizes = {0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB"}
    assert {size: sized(size) for size in sizes} == sizes
    assert sized(5 * 10**15) == "5,000.0 TB"


@given(TEXTS, TEXTS, TEXTS)
@settings(deadline=None, max_examples=50)
def test_any_words_make_a_harmless_card(kind: str, title: str, text: str) -> None:
    """Whatever stands in a card, its HTML nests and does nothing, and its text is a line each."""
    found = harmless(html_card(title, [(text, title), ("n", f"<b>{text}")], kind=kind))
    assert found.tags.count("dt") == found.tags.count("dd") == 2
    assert "b" not in found.tags
    shown = text_card(title, [("n", text)], kind=kind)
    assert len(shown.splitlines()) == 2
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_a_card_without_lines_has_no_list() -> None:
    """An empty list would be invalid HTML."""
    assert harmless(html_card("t", [], kind="K")).tags == ["div", "div", "span"]
    assert text_card("", [], kind="K") == "K"
