"""Two hundred snapshots read by engines that know nothing of casekit: the same rows, and the same statistics."""

from __future__ import annotations

import glob
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

import casekit as ck
from casekit.caseset import CaseSet
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.source import Source
from casekit.stats import agreement, compare, expert_agreement, expert_weights, yes_rates
from casekit.wire import Reader, joined

Read = Callable[[str], Any]

SETS: Final = 200
VERSIONS: Final = ("1.0.0", "1.1.0")


def document(chance: random.Random, number: int, version: str) -> dict[str, Any]:
    """A case that has rows in every table, with all that may be absent sometimes absent."""
    case_id, subject = f"case-{number}", {"kind": "agent", "id": "acme.drafting", "version": version}
    if chance.random() < 0.05:
        return {"caseId": case_id, "subject": subject, "input": None, "output": None, "items": [], "erased": True}
    items = []
    for rank in range(chance.randint(1, 4)):
        weights = [(chance.random() < 0.6, chance.choice((0, 0.5, 1, 3))) for _ in range(chance.randint(1, 3))]
        sums = {"yesWeight": sum(w for yes, w in weights if yes), "totalWeight": sum(w for _, w in weights)}
        yes = sum(yes for yes, _ in weights)
        item: dict[str, Any] = {"key": f"rule-{chance.randint(1, 5)}", "yes": yes, "no": len(weights) - yes, **sums}
        item["reasons"] = [{"verdict": "no", "reason": 'It says "naïve", twice.\n'}] * (rank % 2)
        if chance.random() < 0.7:
            first = weights[0]
            item["expert"] = {"yesWeight": first[1] * first[0], "totalWeight": first[1]}
        if chance.random() < 0.5:
            item |= {"rank": rank, "pointer": f"/matches/{rank}", "correctionIds": [f"c-{rank}"] * chance.randint(0, 2)}
        items.append(item)
    call = {"tool": "mail.send", "args": {"to": ["reviewer-1"], "when": None}}
    flow = {"calls": [{"runId": "r", "toolId": "mail.send", "result": {"ok": True}}]}
    flow["steps"] = [{"runId": "r", "agentId": "acme.b", "agentVersion": "1.0.0"}]
    return {
        "caseId": case_id,
        **({"runId": f"run-{number // 2}"} if chance.random() < 0.8 else {}),
        "subject": subject,
        "input": {"n": number, "text": "a “quoted” text"},
        "output": chance.choice((None, "", {"matches": []})),
        "context": {"history": [{"role": "user", "content": "Hello."}], "flow": flow},
        "segments": [{"key": "region", "value": chance.choice(("north", "south"))}],
        "items": items,
        "corrections": [{"correctionId": "c-0", "calls": [call], "notCalled": ["mail.delete"]}],
        "expect": {"decisions": {"verdict": "right"}, "items": [{"key": "rule-1", "verdict": "right"}]},
    }


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two hundred snapshots: a hundred test sets in two versions."""
    folder = tmp_path_factory.mktemp("snapshots")

    def write(n: int) -> None:
        chance, ref = random.Random(n), (f"acme.set-{n // 2:03d}", VERSIONS[n % 2])
        documents = [document(chance, number, f"2.{n % 5}.0") for number in range(chance.randint(0, 6))]
        report = PullReport()
        page = json.dumps({"data": documents, "hasMore": False}).encode()
        tables = joined(Reader.corrections(*ref, report).groups([page]))
        source = Source((ref,), fetched_at=datetime(2025, 1, 2, tzinfo=UTC))
        ck.write_snapshot(CaseSet(tables, source, report), folder / f"{ref[0]}-{ref[1]}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(SETS)))
    return folder


@pytest.fixture(scope="session")
def cases(snapshots: Path) -> CaseSet:
    """All of them as casekit reads them."""
    return ck.read_snapshot(snapshots)


def by_pandas(pattern: str) -> pd.DataFrame:
    """Pandas has no patterns of its own: Arrow, which it reads Parquet with, takes a list."""
    frame: pd.DataFrame = dataset(sorted(glob.glob(pattern, recursive=True))).to_table().to_pandas()
    return frame


@pytest.fixture(params=["duckdb", "pandas", "polars", pytest.param("spark", marks=pytest.mark.spark)])
def read(request: pytest.FixtureRequest) -> Read:
    """How an engine reads the files that a pattern finds."""
    readers: dict[str, Read] = {"duckdb": duckdb.read_parquet, "pandas": by_pandas, "polars": pl.scan_parquet}
    name: str = request.param
    return request.getfixturevalue("spark").read.parquet if name == "spark" else readers[name]


def to_arrow(frame: Any) -> pa.Table:
    """The rows of any engine's frame."""
    if hasattr(frame, "toArrow"):  # Spark's; narwhals goes by way of pandas, which has no lists
        return frame.toArrow()
    found = nw.from_native(frame)
    return (found.collect() if isinstance(found, nw.LazyFrame) else found).to_arrow()


def plain(value: Any) -> Any:
    """A cell without what engines differ in: pandas has floats for whole numbers where some are missing."""
    return float(value) if isinstance(value, int) else value


def rows(table: pa.Table) -> list[str]:
    """Every row as text, in an order of its own."""
    return sorted(repr([plain(value) for value in row.values()]) for row in table.to_pylist())


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Compare two results but for rounding."""
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_the_same_rows(read: Read, snapshots: Path, cases: CaseSet, table: str) -> None:
    """A pattern over two hundred folders gives each table's columns and rows, texts and missing values alike."""
    found = to_arrow(read(f"{snapshots}/**/{table}.parquet"))
    expected = cases.arrow(table)
    assert found.column_names == expected.column_names
    assert len(expected) > 200
    assert rows(found) == rows(expected)


def test_statistics_are_those_of_the_case_set(read: Read, snapshots: Path, cases: CaseSet) -> None:
    """Rates, weights, agreement and a comparison over all folders are those of pandas on the CaseSet."""
    items, expected = read(f"{snapshots}/**/items.parquet"), cases.items
    same(yes_rates(items), yes_rates(expected))
    same(yes_rates(items, by="key", weights="expert"), yes_rates(expected, by="key", weights="expert"))
    same(yes_rates(items, by=["test_set_id", "key"]), yes_rates(expected, by=["test_set_id", "key"]))
    same(expert_weights(items, by="subject_version"), expert_weights(expected, by="subject_version"))
    same(agreement(items, by="key"), agreement(expected, by="key"))
    same(expert_agreement(items, by="key"), expert_agreement(expected, by="key"))
    old, new = (nw.from_native(items).filter(nw.col("version") == version).to_native() for version in VERSIONS)
    before, after = (expected[expected["version"] == version] for version in VERSIONS)
    same(compare(old, new, by="key"), compare(before, after, by="key"))


def test_what_a_killed_writer_left_is_not_read(read: Read, snapshots: Path) -> None:
    """A pattern that leaves out names with a dot first reads no folder that a writer has begun, or has put aside."""
    whole = len(to_arrow(read(f"{snapshots}/[!.]*/items.parquet")))
    begun = snapshots / ".acme.set-000-1.0.0.01234567.casekit-tmp"
    begun.mkdir()
    try:
        (begun / "items.parquet").write_bytes(b"PAR1")
        assert len(to_arrow(read(f"{snapshots}/[!.]*/items.parquet"))) == whole
    finally:
        (begun / "items.parquet").unlink()
        begun.rmdir()
