"""Frames: the types of each column, whatever the rows, in every pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from documents_strategy import Document, cases, page
from hypothesis import given, settings

from casekit.caseset import CaseSet
from casekit.errors import ConfigError
from casekit.frames import TEXT, to_pandas
from casekit.report import PullReport
from casekit.schema import JSON, TABLES, empty_tables
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]
Doc = Callable[..., dict[str, Any]]

KINDS = {
    pa.string(): TEXT,
    JSON: TEXT,
    pa.float64(): np.dtype("float64"),
    pa.timestamp("us", tz="UTC"): pd.DatetimeTZDtype("us", "UTC"),
}


def expected_type(field: pa.Field) -> Any:
    """What a column's type must be."""
    if field.type in KINDS:
        return KINDS[field.type]
    if pa.types.is_list(field.type):
        return np.dtype("object")
    if pa.types.is_integer(field.type):
        return pd.Int64Dtype() if field.nullable else np.dtype("int64")
    return pd.BooleanDtype() if field.nullable else np.dtype("bool")


def check(cases_: CaseSet) -> None:
    """All frames have the columns and types of the schema."""
    for name, schema in TABLES.items():
        frame = getattr(cases_, name)
        assert frame.columns.tolist() == schema.names
        assert len(frame) == cases_.arrow(name).num_rows
        assert frame.index.equals(pd.RangeIndex(len(frame)))
        for field in schema:
            assert frame[field.name].dtype == expected_type(field), (name, field.name)


def test_types_of_no_rows(frozen: Made, live: Made) -> None:
    """Frames without rows have all columns and their types."""
    for cases_ in (frozen(), live(), CaseSet(empty_tables())):
        check(cases_)


def test_types_of_live_cases(live: Made) -> None:
    """Times are UTC to the microsecond; what a case was not is missing."""
    cases_ = live("a", "-b")
    check(cases_)
    assert cases_.cases["retired"].tolist() == [False, True]
    assert cases_.cases["retired_at"].tolist() == [pd.NaT, pd.Timestamp("2025-01-02T03:04:05Z")]
    assert cases_.cases["n_items"].isna().all()


@given(cases(plain=False, most=3))
@settings(deadline=None, max_examples=25)
def test_types_never_depend_on_the_rows(given_cases: list[Document]) -> None:
    """Whatever the cases hold, the types are the same, and every value is the table's."""
    cases_ = CaseSet(joined(Reader.corrections("acme.a", "1.0.0", PullReport()).groups([page(given_cases)])))
    check(cases_)
    for name, schema in TABLES.items():
        frame, table = getattr(cases_, name), cases_.arrow(name)
        for field in schema:
            found = [None if not isinstance(x, list) and pd.isna(x) else x for x in frame[field.name].tolist()]
            assert found == table[field.name].to_pylist()


def test_missing_is_missing(frozen: Made, case: Doc, item: Doc) -> None:
    """Unknown weights are NaN, absent ints, booleans and texts NA, an absent list None; an empty list is a list."""
    items = [item(), item("l", rank=3, expert={"yesWeight": 0, "totalWeight": 0}, correctionIds=[])]
    frame = frozen(case("a", items=items)).items
    assert np.isnan(frame["expert_total_weight"][0])
    assert frame["expert_total_weight"][1] == 0
    assert frame["rank"].isna().tolist() == [True, False]
    assert frame["correction_ids"].tolist() == [None, []]
    assert frame["pointer"].isna().all()
    cases_ = frozen(case("a", erased=True), case("b")).cases
    assert cases_["erased"].tolist() == [True, pd.NA]
    assert cases_[cases_["erased"].fillna(False)]["case_id"].tolist() == ["a"]


def test_text_that_looks_missing_is_text(frozen: Made, case: Doc) -> None:
    """NA, nan, None and an empty text are texts."""
    words = ["NA", "nan", "None", "null", "", "007", "TRUE", "1e5"]
    frame = frozen(*(case(f"c{n}", runId=word) for n, word in enumerate(words))).cases
    assert frame["run_id"].tolist() == words
    assert not frame["run_id"].isna().any()


def test_large_counts_keep_their_digits(frozen: Made, case: Doc, item: Doc) -> None:
    """Counts and ranks beyond 2**53 are exact, with gaps and without."""
    frame = frozen(case("a", items=[item(yes=2**63 - 1, rank=2**63 - 1), item("l", no=-(2**63))])).items
    assert frame["yes"][0] == frame["rank"][0] == 2**63 - 1
    assert frame["no"][1] == -(2**63)


def test_a_frame_is_the_callers_own(frozen: Made, case: Doc, item: Doc) -> None:
    """Changing a frame changes neither the CaseSet nor the next frame."""
    cases_ = frozen(case("a", items=[item(), item("l")]))
    frame = cases_.items
    frame["yes"] = 7
    frame.loc[0, "key"] = "changed"
    frame.loc[1, "total_weight"] = np.nan
    frame["new"] = 1
    assert cases_.items["yes"].tolist() == [1, 1]
    assert cases_.items["key"].tolist() == ["k", "l"]
    assert cases_.items["total_weight"].tolist() == [1, 1]
    assert "new" not in cases_.items
    assert cases_.arrow("items")["yes"].to_pylist() == [1, 1]


def test_chunks_change_nothing(frozen: Made, case: Doc, item: Doc) -> None:
    """A table in several chunks, sliced ones among them, gives the frame of the whole."""
    items = [item(f"k{n}", correctionIds=[str(n)] * n) if n % 2 else item(f"k{n}") for n in range(6)]
    table = frozen(case("a", items=items)).arrow("items")
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 4), table.slice(5, 0), table.slice(5)])
    pd.testing.assert_frame_equal(to_pandas(chunked), to_pandas(table))


def test_a_table_that_is_not_there_is_named(frozen: Made) -> None:
    """Asking for a table that no CaseSet has names the nearest, or all."""
    with pytest.raises(ConfigError, match="no table is called 'item'; did you mean 'items'"):
        frozen().arrow("item")
    with pytest.raises(ConfigError, match="there are 'cases', 'items'"):
        frozen().arrow("xyz")


def test_frames_go_to_csv_as_they_are(frozen: Made, case: Doc) -> None:
    """Text that a spreadsheet would take for a formula stays what it is in the frame."""
    assert (
        frozen(case("=1+1", runId="@x")).cases[["case_id", "run_id"]].to_csv(index=False) == "case_id,run_id\n=1+1,@x\n"
    )
