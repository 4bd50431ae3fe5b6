from __future__ import annotations

import unicodedata
import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from casekit.plots.labels import LABEL_WIDTH, Words, group_labels, plain

VERBATIM = ["cost_$5", "$x", "a_b^c", "100%", "\\frac{1", "$$", "$\\bad$", "{", "\\alpha", "_hidden", "0", "ünï – ✓"]


@pytest.mark.parametrize("text", VERBATIM)
def test_printable_text_is_kept(text: str) -> None:
    """A printable label of moderate length comes out letter for letter."""
    assert plain(text) == text


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_key_is_told(missing: object) -> None:
    """A missing key has a label of its own, whatever kind of missing it is."""
    assert plain(missing) == "(missing)"


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("", "(empty)"),
        (" a  ", "␣a␣␣"),
        ("  ", "␣␣"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("\x1b[31mred\x00", "\\x1b[31mred\\x00"),
        ("a\u202eb\u200f", "a\\u202eb\\u200f"),
        ("\ud800", "\\ud800"),
        ("e\u0301\u0301\u0301\u0301", "e\u0301\u0301\\u0301\\u0301"),
        (0, "0"),
        (False, "False"),
        (1.5, "1.5"),
        ([1, None], "[1, None]"),
        (pd.Timestamp("2024-05-01", tz="UTC"), "2024-05-01 00:00:00+00:00"),
    ],
)
def test_invisible_parts_are_shown(value: object, label: str) -> None:
    """Control and format characters, outer blanks, heaps of accents and empty text are visible."""
    assert plain(value) == label


def test_long_label_loses_its_middle() -> None:
    """A long label keeps both ends and is at most 40 columns wide; a wide letter takes two."""
    assert plain("a" * 100 + "b" * 100) == "a" * 20 + "…" + "b" * 19
    assert plain("字" * 100) == "字" * 10 + "…" + "字" * 9
    assert plain("a" * 40) == "a" * 40
    assert plain("a" * 10_000_000 + "b") == "a" * 20 + "…" + "a" * 18 + "b"


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_any_text_makes_a_safe_label(text: str) -> None:
    """Whatever the text, its label is one printable, bounded line that is not blank."""
    label = plain(text)
    assert label.isprintable()
    assert label.strip() == label != ""
    assert (
        sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in unicodedata.normalize("NFC", label))
        <= 3 * LABEL_WIDTH
    )


@given(st.lists(st.one_of(st.none(), st.text(max_size=60), st.integers(0, 3)), max_size=20))
@settings(max_examples=100, deadline=None)
def test_labels_are_different(keys: list[object]) -> None:
    """Two rows never get the same label, also when their keys look alike."""
    labels = group_labels(pd.DataFrame({"key": pd.Series(keys, dtype=object)}))
    assert len(set(labels)) == len(labels) == len(keys)


def test_look_alikes_are_numbered() -> None:
    """Keys that look the same once shortened, or a text that reads like a missing key, are told apart."""
    keys = ["x" * 90 + c + "y" * 90 for c in "ab"] + [None, "(missing)", "1", 1]
    labels = group_labels(pd.DataFrame({"key": pd.Series(keys, dtype=object)}))
    assert labels == [f"{'x' * 20}…{'y' * 19}", f"{'x' * 20}…{'y' * 19} #2", "(missing)", "(missing) #2", "1", "1 #2"]


def test_several_columns_are_joined() -> None:
    """Several keys stand beside each other, and each keeps some of its own when they are long together."""
    keys = pd.DataFrame({"version": ["1.0", "v" * 99], "kind": [None, "k" * 99]})
    assert group_labels(keys) == ["1.0 · (missing)", "vvvvvvvvv…vvvvvvvv · kkkkkkkkk…kkkkkkkkk"]


def test_what_a_short_key_leaves_a_long_one_takes() -> None:
    """Beside a short key a long one keeps more than half of the label."""
    (label,) = group_labels(pd.DataFrame({"case": ["c" * 99], "key": ["k1"]}))
    assert label == f"{'c' * 17}…{'c' * 17} · k1"
    assert len(label) == 40


def test_no_column_is_one_group() -> None:
    """A frame without by columns is the group of all."""
    assert group_labels(pd.DataFrame(index=range(1))) == ["all"]


def test_twice_the_same_column_name() -> None:
    """Columns are read by place, so that two of one name do no harm."""
    assert group_labels(pd.DataFrame([["a", "b"]], columns=["key", "key"])) == ["a · b"]


def test_letters_without_a_font_are_boxes() -> None:
    """A letter that no font here draws becomes a box, with one warning of ours that does not say the words."""
    private = "\U0010fffd"  # in no font
    with pytest.warns(UserWarning, match="2 characters .* in none of the fonts") as caught:
        words = Words([f"a{private}", f"a{private}", "b\u0378"])
    assert len(caught) == 1
    assert private not in str(caught[0].message)
    assert words.drawn(f"a{private}b") == "a□b"
    assert words.drawn_labels([f"a{private}", "a\u0378"]) == ["a□", "a□ #2"]


def test_fallback_font_is_found() -> None:
    """Letters that the reader's font lacks are drawn with another that is installed, without any warning."""
    mpl.rcParams["font.family"] = ["cmtt10"]
    words = Words(["ж"])
    assert words.families == ["cmtt10", "DejaVu Sans"]
    figure = Figure()
    text = figure.text(0, 0, "")
    words.set(text, "ж")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()
    assert text.get_text() == "ж"


def test_own_fonts_are_left_alone() -> None:
    """When the reader's fonts have every letter, no family is set."""
    assert Words(["ж"]).families is None


def test_font_that_is_not_installed() -> None:
    """A family of the reader's that is not installed is passed over, as matplotlib does."""
    mpl.rcParams["font.family"] = ["No Such Font"]
    assert Words(["ж"]).families == ["No Such Font", "DejaVu Sans"]
