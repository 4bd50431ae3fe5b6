"""Checks of the cases that a call gave, as they were loaded and as a snapshot gives them back."""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from io import BytesIO
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases.calls import Outcome
from cases.forbidden import demand, exact
from matplotlib.figure import Figure

import casekit as ck
from casekit.plots import plot_yes_rates
from casekit.schema import TABLES, empty_tables
from casekit.stats import yes_rates

TINY = 1e-15


def only(expected: Mapping[str, Any], *names: str) -> None:
    """Refuse a part of an expectation that no check looks at."""
    demand(expected.keys() <= set(names), sorted(expected.keys() - set(names)))


def _cases(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    only(expected, "count", "ids")
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
        only(one, "caseId", "key", "yes", "no", "n", *rates, "expertTotalWeight")
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
    only(expected, *found, "meanOfItemRates", "weightedYesRate_float", "yesRate", "weightedYesRate", "expertYesRate")
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


def _values(expected: list[Mapping[str, Any]], cases: ck.CaseSet) -> None:
    documents = list(cases.documents())
    for one in expected:
        only(one, "path", "json_text", "codepoints", "any_codepoints", "absent")
        found = _at(documents, one["path"])
        if one.get("absent"):
            assert found is _ABSENT, one["path"]
        elif "json_text" in one:
            assert exact(found) == exact(json.loads(one["json_text"])), one["path"]
        else:
            texts = one["any_codepoints"] if "any_codepoints" in one else [one["codepoints"]]
            assert [ord(letter) for letter in found] in texts, one["path"]


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    column = frame[_snake(name)] if _snake(name) in frame else frame[f"{_snake(name)}_json"]
    assert isinstance(column, pd.Series)
    return column


RULES = (
    "all columns are there, with their types",
    "twelve texts, none missing",
    "one timezone-aware UTC column, none missing",
)


def _frame(expected: list[Mapping[str, Any]], cases: ck.CaseSet) -> None:
    for one in expected:
        only(one, "table", "rows", "column", "missing", "rule")
        demand(one.get("rule", RULES[0]) in RULES, one.get("rule"))
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
        only(one, "of", "by", "counts", "sum")
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
    only(expected, "count", "ids", "retired", "live", "hand", "expert")
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
        only(one, "path", "epoch_ns", "epoch_s", "tolerance_ns")
        _, row, *steps = one["path"].split("/")
        found = frame[_snake("_".join(steps))].iloc[int(row)].as_unit("ns").value
        wanted = one["epoch_ns"] if "epoch_ns" in one else one["epoch_s"] * 10**9
        assert abs(found - wanted) <= one.get("tolerance_ns", 0)


def _filter(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    only(expected, "withoutErased", "withoutRetired", "active", "onlyExperts")
    for name, count in expected.items():
        assert len(getattr(cases, _snake(name))()) == count


def _display(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    only(expected, "no_raw", "html_must_not_contain", "where")
    texts = [repr(cases), str(cases), cases._repr_html_(), repr(cases.report), cases.report._repr_html_()]
    tables = [cases.summary().to_html(), cases.contested().to_html()]
    tables += [ck.styled(yes_rates(cases.items, by="key"))._repr_html_()] if len(cases.items) else []
    for forbidden in expected.get("html_must_not_contain", []):
        assert not any(forbidden in table for table in tables)
    for forbidden in [*expected.get("no_raw", []), *expected.get("html_must_not_contain", [])]:
        assert not any(forbidden in text for text in texts)
    assert not any(re.search(r"0x[0-9a-f]{6}|http://|127\.0\.0\.1", text) for text in texts)


def _export(expected: Mapping[str, str], cases: ck.CaseSet) -> None:
    """No text of a spreadsheet may look like a formula, numbers stay numbers, and what is replaced is said."""
    only(expected, "csv_or_excel", "excel_or_csv")
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
    assert bool(report.changes()) == any("book.xlsx" in str(one.message) for one in said)


def _plot(expected: Mapping[str, Any], cases: ck.CaseSet) -> None:
    only(expected, "raises", "labels", "also_when")
    assert not expected.get("raises")
    axes = plot_yes_rates(yes_rates(cases.items, by="key"))
    assert isinstance(axes.figure, Figure)
    for kind in ("png", "svg"):
        axes.figure.savefig(BytesIO(), format=kind)
    if "labels" in expected:
        labels = axes.get_yticklabels()
        assert sorted(label.get_text() for label in labels) == sorted(expected["labels"])
        assert not any(label.get_parse_math() for label in labels)


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


def check_combined(expected: Mapping[str, Any], outcomes: list[Outcome], folder: Path) -> None:
    """Snapshots of all calls read together, in any order."""
    paths = []
    for n, outcome in enumerate(outcomes):
        paths.append(folder / f"part-{n}")
        ck.write_snapshot(outcome.cases, paths[-1])
    only(expected, "rows", "runId", "orders")
    in_order = [None if value is None else value for value in expected["runId"]]
    for order in permutations(range(len(paths))):
        together = ck.read_snapshot([paths[n] for n in order])
        assert len(together) == expected["rows"]
        found = [None if pd.isna(value) else value for value in together.cases["run_id"]]
        assert sorted(map(str, found)) == sorted(map(str, in_order))
        if list(order) == sorted(order):
            assert found == in_order
    assert np.array_equal(ck.read_snapshot(paths).cases.columns, outcomes[0].cases.cases.columns)
