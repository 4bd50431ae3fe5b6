"""Segments as columns."""

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from casekit.stats import segments_wide

Engines = Callable[[pd.DataFrame], dict[str, Any]]

TEXT = pd.StringDtype(na_value=np.nan)


@pytest.fixture
def frame() -> pd.DataFrame:
    """Four items: of two versions of a set, of a live set, and of a case without segments."""
    text = {"test_set_id": ["a", None, "a", "a"], "version": ["1", None, "2", "1"], "case_id": ["c1", "c1", "c1", "c9"]}
    return pd.DataFrame(text, dtype=TEXT, index=[9, 8, 7, 6]).assign(v=[1, 2, 3, 4])


@pytest.fixture
def segments() -> pd.DataFrame:
    """Two segments of one case, and one each of two others with the same case id."""
    return pd.DataFrame(
        {
            "test_set_id": pd.Series(["a", "a", None, "a"], dtype=TEXT),
            "version": pd.Series(["1", "1", None, "2"], dtype=TEXT),
            "case_id": pd.Series(["c1"] * 4, dtype=TEXT),
            "segment_no": [0, 1, 0, 0],
            "key": pd.Series(["region", "area", "region", "region"], dtype=TEXT),
            "value": pd.Series(["north", "a1", "live", "south"], dtype=TEXT),
        }
    )


def test_one_column_per_key_in_path_order(frame: pd.DataFrame, segments: pd.DataFrame) -> None:
    """Rows, their order and their index stay; the new columns are coarse to fine, missing where a case lacks them."""
    found = segments_wide(frame, segments)
    assert found.columns.tolist() == ["test_set_id", "version", "case_id", "v", "region", "area"]
    assert found.index.tolist() == [9, 8, 7, 6]
    assert found["region"].fillna("-").tolist() == ["north", "live", "south", "-"]
    assert found["area"].fillna("-").tolist() == ["a1", "-", "-", "-"]
    assert found["region"].dtype == TEXT
    pd.testing.assert_frame_equal(found[frame.columns], frame)


def test_every_engine_gives_its_own_kind(frame: pd.DataFrame, segments: pd.DataFrame, engines: Engines) -> None:
    """Each engine gives a frame of its own kind with the same values."""
    expected = segments_wide(frame, segments).reset_index(drop=True)
    for name, native in engines(frame).items():
        found = segments_wide(native, engines(segments)[name])
        assert type(found) is type(native)
        rows = nw.from_native(found).lazy().collect("pyarrow").sort("v").to_pandas()
        pd.testing.assert_frame_equal(rows.astype(expected.dtypes.to_dict()), expected)


def test_no_segments_add_no_columns(frame: pd.DataFrame, segments: pd.DataFrame, engines: Engines) -> None:
    """Without segments the frame comes back as it was, in every engine."""
    pd.testing.assert_frame_equal(segments_wide(frame, segments.iloc[:0]), frame)
    for name, native in engines(frame).items():
        found = segments_wide(native, engines(segments.iloc[:0])[name])
        assert nw.from_native(found).collect_schema().names() == frame.columns.tolist()


def test_an_empty_frame_gets_the_columns(frame: pd.DataFrame, segments: pd.DataFrame) -> None:
    """No rows stay no rows, with the columns."""
    found = segments_wide(frame.iloc[:0], segments)
    assert found.columns.tolist()[-2:] == ["region", "area"]
    assert len(found) == 0


def test_colliding_columns_are_refused(frame: pd.DataFrame, segments: pd.DataFrame) -> None:
    """A segment key that is a column already is refused by name."""
    with pytest.raises(ValueError, match="already has a column 'area'"):
        segments_wide(frame.rename(columns={"v": "area"}), segments)


def test_one_key_twice_is_refused(frame: pd.DataFrame, segments: pd.DataFrame, engines: Engines) -> None:
    """A case with a key twice is refused, naming case, key and the way out, in every engine."""
    twice = pd.concat([segments, segments.iloc[1:2].assign(segment_no=2, value="a2")])
    for name, native in {"pandas": frame, **engines(frame)}.items():
        with pytest.raises(ValueError, match="Case 'c1' has the segment 'area' more than once; keep one"):
            segments_wide(native, {"pandas": twice, **engines(twice)}[name])


def test_missing_columns_are_named(frame: pd.DataFrame, segments: pd.DataFrame) -> None:
    """A frame or segments without what is needed says so."""
    with pytest.raises(KeyError, match="frame has no column 'version'"):
        segments_wide(frame.drop(columns="version"), segments)
    with pytest.raises(KeyError, match="segments has no column 'value'"):
        segments_wide(frame, segments.drop(columns="value"))
