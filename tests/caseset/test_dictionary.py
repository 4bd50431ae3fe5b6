"""The data dictionary as a frame: every column of every table, as it really is."""

from __future__ import annotations

import pytest

from casekit.caseset import CaseSet
from casekit.dictionary import data_dictionary
from casekit.errors import ConfigError
from casekit.schema import TABLES, empty_tables

COLUMNS = ["table", "column", "type", "pandas_type", "nullable", "unit", "description", "missing_means"]


def test_every_column_of_every_table_has_a_row() -> None:
    """Tables and columns stand in their order, each once."""
    found = data_dictionary()
    assert list(found.columns) == COLUMNS
    assert list(zip(found["table"], found["column"], strict=True)) == [
        (table, field.name) for table, schema in TABLES.items() for field in schema
    ]


@pytest.mark.parametrize("table", TABLES)
def test_the_dtypes_are_those_of_the_frames(table: str) -> None:
    """A CaseSet's frame has the columns and dtypes that the dictionary says."""
    found = data_dictionary(table)
    dtypes = getattr(CaseSet(empty_tables()), table).dtypes
    assert dict(zip(found["column"], found["pandas_type"], strict=True)) == {
        name: str(dtype) for name, dtype in dtypes.items()
    }
    assert found["nullable"].tolist() == [field.nullable for field in TABLES[table]]
    assert set(found["table"]) == {table}


def test_what_is_not_there_is_missing() -> None:
    """A column without a unit or without missing values has no text there; every column has a description."""
    found = data_dictionary().set_index(["table", "column"])
    assert found.loc[("items", "yes"), "unit"] == "corrections"
    assert found["unit"].isna().any()
    assert (found["missing_means"].notna() == found["nullable"]).all()
    assert (found["description"].str.len() > 0).all()
    assert found["nullable"].dtype == bool


@pytest.mark.parametrize(
    ("name", "hint"),
    [("item", "did you mean 'items'"), ("CASES", "did you mean 'cases'"), ("zzz", "there are 'cases', 'items'")],
)
def test_a_table_that_is_not_there(name: str, hint: str) -> None:
    """The message has the nearest name, or all of them."""
    with pytest.raises(ConfigError, match=hint):
        data_dictionary(name)
