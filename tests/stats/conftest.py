"""Inputs of the statistics' tests: reference values of other packages, small frames, and real data."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

DATA = Path(__file__).parents[1] / "data"
MTBENCH = Path(__file__).parents[2] / "data" / "mtbench"

# One row of an items frame before its dtypes are set.
Row = dict[str, Any]


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def reference() -> dict[str, Any]:
    """Values that other packages print, by name, each with its input and the call that made it."""
    return {entry["name"]: entry for entry in _json(DATA / "reference.json")["entries"]}


def items_frame(rows: list[Row]) -> pd.DataFrame:
    """Turn rows with some of the items' columns into a frame with the dtypes of a CaseSet."""
    text = pd.StringDtype(na_value=np.nan)
    dtypes: dict[str, Any] = {"case_id": text, "run_id": text, "item_no": "int64", "key": text, "pointer": text}
    dtypes |= {"rank": "Int64", "yes": "int64", "no": "int64", "yes_weight": "float64", "total_weight": "float64"}
    dtypes |= {"expert_yes_weight": "float64", "expert_total_weight": "float64"}
    frame = pd.DataFrame({name: [row.get(name) for row in rows] for name in dtypes}).astype(dtypes)
    for name in dict.fromkeys(name for row in rows for name in row if name not in dtypes):
        frame[name] = pd.Series([row.get(name) for row in rows], dtype=text)
    return frame


def item_row(case_id: str, number: int, item: dict[str, Any]) -> Row:
    """Turn an item as the API sends it into a row."""
    expert = item.get("expert") or {}
    return {
        "case_id": case_id,
        "run_id": case_id,
        "item_no": number,
        "key": item["key"],
        "pointer": item.get("pointer"),
        "rank": item.get("rank"),
        "yes": item.get("yes", 0),
        "no": item.get("no", 0),
        "yes_weight": item["yesWeight"],
        "total_weight": item["totalWeight"],
        "expert_yes_weight": expert.get("yesWeight", np.nan),
        "expert_total_weight": expert.get("totalWeight", np.nan),
    }


@pytest.fixture(scope="session")
def make_items() -> Callable[[list[Row]], pd.DataFrame]:
    """Make an items frame of rows."""
    return items_frame


@pytest.fixture(scope="session")
def make_row() -> Callable[[str, int, dict[str, Any]], Row]:
    """Make a row of an item as the API sends it."""
    return item_row


@pytest.fixture
def t1() -> pd.DataFrame:
    """Eight cases, sixteen items and twenty-eight corrections, some of weight 3 by experts."""
    cases = _json(DATA / "reference.json")["fixtures"]["T1_items"]
    return items_frame([item_row(case, i, item) for case, items in cases.items() for i, item in enumerate(items)])


@pytest.fixture(scope="session")
def mtbench() -> pd.DataFrame:
    """Items of the shipped MT-bench pages, with the case's category and turn."""
    rows: list[Row] = []
    for path in sorted(MTBENCH.glob("page-*.json")):
        for case in _json(path)["data"]:
            segments = {step["key"]: step["value"] for step in case["segments"]}
            rows += [{**item_row(case["caseId"], i, item), **segments} for i, item in enumerate(case["items"])]
    return items_frame(rows)


@pytest.fixture(scope="session")
def mtbench_expected() -> dict[str, Any]:
    """Figures that other tools print for the MT-bench pages."""
    expected: dict[str, Any] = _json(MTBENCH / "expected.json")
    return expected


def _engines(frame: pd.DataFrame) -> dict[str, Any]:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return {
        "arrow": table,
        "polars": pl.DataFrame(table),
        "polars lazy": pl.LazyFrame(table),
        "duckdb": duckdb.from_arrow(table),
    }


@pytest.fixture(scope="session")
def engines() -> Callable[[pd.DataFrame], dict[str, Any]]:
    """Give a pandas frame to each other engine."""
    return _engines


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start Spark in this process, on loopback alone."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
