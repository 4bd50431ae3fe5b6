"""Statistics' frames shown for reading: the figures, the words around them, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from html_tags import Tags, harmless

import casekit
from casekit.stats import compare, expert_agreement, expert_weights, gate, item_agreement, yes_rates
from casekit.styles import Styled, styled
from casekit.styles.looks import LOOKS

Frames = dict[str, pd.DataFrame]
MakeItems = Callable[..., pd.DataFrame]


def column(shown: Styled, heading: str) -> list[str]:
    """The cells below a heading."""
    place = shown.headings.index(heading)
    return [row[place] for row in shown.rows]


def test_every_statistic_has_a_look(frames: Frames) -> None:
    """The frames of these tests are those of all looks, so that none goes untested."""
    assert set(frames) == set(LOOKS)


@pytest.mark.parametrize("name", LOOKS)
def test_a_frame_is_shown_as_its_own_kind(frames: Frames, name: str) -> None:
    """Each statistic's frame has its title and its columns, in HTML and in text alike."""
    frame = frames[name]
    before = frame.copy(deep=True)
    shown = styled(frame)
    assert shown.title == LOOKS[name].title
    assert shown.frame is frame
    pd.testing.assert_frame_equal(frame, before)
    assert len(shown.rows) == len(frame)
    assert set(LOOKS[name].figures) <= set(shown.headings)
    found = harmless(shown._repr_html_())
    text = repr(shown)
    for cell in (*shown.headings, *(cell for row in shown.rows for cell in row if cell)):
        assert all(part in found.text for part in cell.split("\n"))
        assert all(part in text for part in cell.split("\n"))
    assert found.tags.count("tr") == len(frame) + 1
    assert shown.caption in found.text
    assert shown.caption.split()[-1] in text


@pytest.mark.parametrize("name", LOOKS)
def test_no_rows_are_shown_as_none(frames: Frames, name: str) -> None:
    """A frame without rows keeps its headings and says so."""
    shown = styled(frames[name].head(0))
    assert shown.rows == ()
    assert shown.caption.startswith("No rows.")
    harmless(shown._repr_html_())


@pytest.mark.parametrize("name", LOOKS)
def test_no_figure_is_a_wall_of_digits(frames: Frames, name: str) -> None:
    """No number has more than three digits behind the point."""
    shown = styled(frames[name])
    of_figures = [cell for row in shown.rows for cell in row[shown.n_keys :]]
    digits = [part for cell in of_figures for part in cell.split() if "." in part and part.strip("()+−%<")[0].isdigit()]
    assert all(len(part.rstrip(")").rpartition(".")[2]) <= 3 for part in digits)


def test_rates_are_in_per_cent_with_their_interval(make_items: MakeItems) -> None:
    """The share, its interval, counts with thousands set apart, and words on weights and level."""
    many = yes_rates(make_items(3000), by="group", level=0.9).assign(
        rate=[0.625, 0.1234], low=[0.5, 0.0], high=[0.73, 1.0]
    )
    shown = styled(many)
    assert shown.headings[:2] == ("group", "Share of yes")
    assert column(shown, "Share of yes") == ["62.5 % (50.0 to 73.0)", "12.3 % (0.0 to 100.0)"]
    assert column(shown, "Cases") == ["1,000", "1,000"]
    assert column(shown, "Weight") == ["2,000", "2,000"]
    assert "In brackets: 90 % interval, Wilson's score" in shown.caption
    assert "Weights as recorded" in shown.caption
    assert "Left out: 1,000 items without weight." in shown.caption
    assert "Note" not in shown.headings


def test_what_is_missing_is_a_dash_with_its_reason(make_items: MakeItems) -> None:
    """A rate without weight is no 0; the reason stands beside it."""
    rates = yes_rates(make_items(2, total_weight=[0.0, 2.0], yes_weight=[0.0, 1.0]), by="group")
    shown = styled(rates)
    assert column(shown, "Share of yes") == ["–", "50.0 %"]
    assert column(shown, "Note") == ["no weight; few cases", "one case; few cases"]
    assert shown.headings.index("Note") == 2
    assert "nan" not in repr(shown).lower()
    assert "<NA>" not in repr(shown)


def test_experts_alone_are_named(make_items: MakeItems) -> None:
    """Whose weight counts is said, and the items whose expert weight is unknown are counted there alone."""
    unknown = make_items(expert_total_weight=[np.nan, *[1.0] * 23], expert_yes_weight=[np.nan, *[0.5] * 23])
    items = unknown.assign(total_weight=2.0, yes_weight=1.0)
    words = "Left out: 1 item whose expert weight is unknown."
    assert words in styled(yes_rates(items, weights="expert")).caption
    assert "Experts' weights only." in styled(yes_rates(items, weights="expert")).caption
    assert words not in styled(yes_rates(items)).caption
    assert words in styled(expert_agreement(items)).caption
    assert column(styled(expert_weights(items)), "Experts' share") == ["–"]


def test_a_gate_is_in_the_units_of_its_checks(make_items: MakeItems) -> None:
    """Counts are counts, shares per cent, a drop points; the verdict has neither value nor limit."""
    items = make_items(12, total_weight=1.5, yes_weight=1.0, expert_total_weight=0.0, expert_yes_weight=0.0)
    shown = styled(gate(items, items, min_cases=10, min_weight=20.25, min_candidate=0.5, max_drop=0.02, seed=1))
    limits = dict(zip(column(shown, "check"), column(shown, "Limit"), strict=True))
    assert limits["min_cases"] == "10"
    assert limits["min_weight"] == "20.2"
    assert limits["min_candidate"] == "50.0 %"
    assert limits["max_drop"] == "−2.0 points"
    assert limits["verdict"] == "–"
    assert dict(zip(column(shown, "check"), column(shown, "Passed"), strict=True))["min_weight"] == "no"


def test_what_all_rows_share_is_told_once(make_items: MakeItems) -> None:
    """The test set stands in the caption where there is one, and in the rows where there are several."""
    one = styled(item_agreement(make_items(4)))
    assert one.headings[:2] == ("case_id", "key")
    assert one.caption.startswith("All rows: test_set_id acme.a, version 1.0.0, item_no 0.")
    two = styled(item_agreement(make_items(4, version=["1.0.0", "2.0.0"] * 2)))
    assert two.headings[:3] == ("version", "case_id", "key")


def test_rows_may_be_chosen_and_sorted(frames: Frames) -> None:
    """The order is the frame's own, whatever its index."""
    shown = styled(frames["yes_rates"].sort_values("group", ascending=False))
    assert column(shown, "group") == ["g1", "g0"]
    assert column(styled(frames["yes_rates"].iloc[1:]), "group") == ["g1"]


def test_of_many_rows_the_first_are_shown_and_the_rest_counted(frames: Frames) -> None:
    """200 rows are shown; .frame has them all."""
    rates = pd.concat([frames["yes_rates"]] * 601, ignore_index=True)
    shown = styled(rates)
    assert len(shown.rows) == 200
    assert len(shown.frame) == 1202
    assert shown.caption.startswith("The first 200 rows; 1,002 more rows in .frame.")
    assert "rows" not in styled(rates.head(200)).caption


def test_a_cell_that_is_missing_in_a_list_column_is_no_empty_list(frames: Frames) -> None:
    """Names are listed, an empty list is none, a missing one a dash; of long lists the rest is counted."""
    grades = frames["grade_decisions"]
    assert column(styled(grades), "Forbidden, but called") == ["delete", "–"]
    assert column(styled(grades), "Not called") == ["find", "–"]
    long = grades.assign(missing_calls=pd.Series([[f"t{n}" for n in range(7)], []], dtype=object))
    assert column(styled(long), "Not called") == ["t0, t1, t2, t3, t4 and 2 more", "none"]


def test_reasons_are_lines_newest_first(frames: Frames) -> None:
    """Each reason is a line with its verdict; of many the first three; a long one ends with an ellipsis."""
    said = [{"verdict": "no", "reason": f"r{n}", "corrector_group_id": None, "expert": n == 0} for n in range(5)]
    long = [{"verdict": "yes", "reason": "w" * 100_000, "corrector_group_id": None, "expert": None}]
    frame = frames["contested"].head(3).assign(reasons=pd.Series([said, long, []], dtype=object))
    cells = column(styled(frame), "Reasons, newest first")
    assert cells[0] == "no (expert): r0\nno: r1\nno: r2\nand 2 more"
    assert cells[1] == f"yes: {'w' * 160}…"
    assert cells[2] == "none given"
    assert "no (expert): r0 / no: r1 / no: r2 / and 2 more" in repr(styled(frame))
    assert Tags(styled(frame)._repr_html_()).tags.count("br") == 3


def test_a_wide_table_scrolls_in_its_own_box(frames: Frames) -> None:
    """The page is not stretched, colours are the page's own, and a dollar sign is no formula."""
    shown = styled(frames["compare"])._repr_html_()
    assert "overflow-x:auto" in shown
    assert 'class="tex2jax_ignore mathjax_ignore"' in shown
    assert shown.count("color:inherit") == shown.count("color:")
    assert "rgb(" not in shown


def test_long_names_make_room_for_what_is_said(make_items: MakeItems) -> None:
    """A column of long names breaks them into lines; short ones stay on one line, as numbers do."""
    long = "a-case-with-a-name-of-many-words"
    shown = styled(item_agreement(make_items(2, case_id=[long, "c2"])))._repr_html_()
    head = {name: shown.partition(f">{name}</th>")[0].rpartition("style=")[2] for name in (long, "k0")}
    assert "white-space:normal" in head[long]
    assert "white-space:nowrap" in head["k0"]


def test_brackets_are_told_of_where_there_are_any(make_items: MakeItems) -> None:
    """A change of the same cases has no interval: the reason stands beside it, and no sentence is about one."""
    items = make_items(6)
    alike = styled(compare(items, items))
    assert "In brackets" not in alike.caption
    assert alike.headings[2:4] == ("Change, points", "Note")
    assert "In brackets: 95 % interval, " in styled(compare(items, items.assign(yes_weight=0.0))).caption


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("thing", [None, [1], {"rate": 1}, pd.Series([0.5]), "rates"])
def test_only_a_frame_is_shown(thing: Any) -> None:
    """The message names what was given."""
    with pytest.raises(TypeError, match=f"not a {type(thing).__name__}"):
        styled(thing)


def test_a_frame_of_no_statistic_is_refused(make_items: MakeItems) -> None:
    """The message lists the statistics."""
    for frame in (make_items(), pd.DataFrame(), pd.DataFrame({1: [2]})):
        with pytest.raises(KeyError, match=r"takes the frame of yes_rates, rank_rates, .*none of them"):
            styled(frame)
    twice = pd.DataFrame([[1, 2]], columns=["rate", "rate"])
    with pytest.raises(KeyError, match="each column stands once"):
        styled(twice)


@pytest.mark.parametrize("name", LOOKS)
def test_a_lacking_column_is_named(frames: Frames, name: str) -> None:
    """Each column that is shown is needed; the message names it, the nearest one, and the statistic."""
    for needed in LOOKS[name].needed:
        near = f"{needed}s" if f"{needed}s" not in frames[name] else f"{needed}_"
        with pytest.raises(KeyError, match=rf"styled needs the columns {needed} \({needed}: did you mean '{needed}"):
            styled(frames[name].rename(columns={needed: near}))


@pytest.mark.parametrize("name", LOOKS)
def test_words_in_the_place_of_numbers_are_refused_unseen(frames: Frames, name: str) -> None:
    """The message names the columns, and none of the words."""
    numbers = [column for column in LOOKS[name].needed if pd.api.types.is_numeric_dtype(frames[name][column])]
    shown = {column for figure in LOOKS[name].figures.values() for column in figure.columns}
    for column_name in shown.intersection(numbers):
        odd = frames[name].astype({column_name: object}).assign(**{column_name: "WORDS"})
        if pd.api.types.is_bool_dtype(frames[name][column_name]):
            continue
        with pytest.raises(ValueError, match=column_name) as caught:
            styled(odd)
        assert "WORDS" not in str(caught.value)


SCRIPT = """
import pandas as pd
from casekit.stats import agreement, yes_rates
from casekit.styles import styled
items = pd.DataFrame({"case_id": list("abcd"), "yes": [2, 0, 1, 1], "no": [0, 1, 1, 0], "key": ["x", "y", None, "x"],
                      "yes_weight": [4.0, 0.0, 1.0, 3.0], "total_weight": [4.0, 1.0, 4.0, 3.0]})
for statistic in (yes_rates, agreement):
    shown = styled(statistic(items, by="key"))
    print(repr(shown), shown._repr_html_())
"""


def test_a_table_is_the_same_in_any_process() -> None:
    """Two processes with other hash seeds show the same."""
    source = Path(casekit.__file__).parents[1]
    shown = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert shown[0] == shown[1]
    assert "(missing)" in shown[0]
