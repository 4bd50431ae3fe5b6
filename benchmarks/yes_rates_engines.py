"""Time `yes_rates` by one key against the best hand-written polars and DuckDB queries for the same columns.

    python benchmarks/yes_rates_engines.py --rows 10000000 --rounds 5 [--shuffled]

Every contestant runs once a round, in turn, so that a busy machine slows all alike; only ratios within a round count.
`--peak NAME` runs one contestant alone and prints how far memory rose.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from casekit.stats import yes_rates

OUT = Path(__file__).parent / "out"
KEY = "subject_version"
COLUMNS = ["case_id", "run_id", KEY, "yes", "no", "yes_weight", "total_weight", "expert_yes_weight"]
COLUMNS += ["expert_total_weight"]


def make(rows: int, shuffled: bool) -> Path:
    """Write generated items: 3.8 a run, twenty keys, weights 1 to 3, some expert weights unknown."""
    path = OUT / f"items-{rows}{'-shuffled' if shuffled else ''}.parquet"
    if path.exists():
        return path
    OUT.mkdir(exist_ok=True)
    rng = np.random.default_rng(20261130)
    run = np.sort(rng.integers(0, max(int(rows / 3.8), 1), rows))
    if shuffled:
        run = rng.permutation(run)
    n = rng.integers(1, 6, rows)
    yes = rng.binomial(n, 0.7)
    extra = rng.integers(0, 3, rows)
    experts = rng.random(rows) < 0.4
    unknown = rng.random(rows) < 0.1
    digits = pc.utf8_lpad(pa.array(run).cast(pa.string()), 9, "0")
    table = pa.table(
        {
            "case_id": pc.binary_join_element_wise("case-", digits, ""),
            "run_id": pc.binary_join_element_wise("run-", digits, ""),
            KEY: pa.array([f"1.{i}.0" for i in range(20)]).take(pa.array(run % 20)),
            "yes": yes,
            "no": n - yes,
            "yes_weight": (yes + extra * (yes > 0)).astype(float),
            "total_weight": (n + extra).astype(float),
            "expert_yes_weight": pa.array(np.where(experts & (yes > 0), 1.0, 0.0), mask=unknown),
            "expert_total_weight": pa.array(experts.astype(float), mask=unknown),
        }
    )
    pq.write_table(table, path, compression="zstd", row_group_size=100_000)
    return path


def by_polars(frame: pl.LazyFrame) -> Any:
    """Query the same columns by hand in polars."""
    run = pl.coalesce("run_id", "case_id").alias("run")
    held = pl.col("total_weight") > 0
    sums = frame.group_by(KEY, run).agg(
        y=pl.col("yes_weight").sum(),
        x=pl.col("total_weight").sum(),
        n=((pl.col("yes") + pl.col("no")) * held).sum(),
        items=held.sum(),
        rows=pl.len(),
        unknown=pl.col("expert_total_weight").is_null().sum(),
    )
    rate = pl.col("y").sum().over(KEY) / pl.col("x").sum().over(KEY)
    squares = sums.with_columns(e2=(pl.col("y") - rate * pl.col("x")) ** 2, x2=pl.col("x") ** 2, m=pl.col("x") > 0)
    return squares.group_by(KEY).agg(pl.col("y", "x", "n", "items", "rows", "unknown", "e2", "x2", "m").sum()).collect()


def by_duckdb(source: str, connection: duckdb.DuckDBPyConnection) -> Any:
    """Query the same columns by hand in DuckDB."""
    query = f"""
        with runs as (
            select {KEY} as v, coalesce(run_id, case_id) as run, sum(yes_weight) as y, sum(total_weight) as x,
                sum(yes + "no") filter (total_weight > 0) as n, count(*) filter (total_weight > 0) as items,
                count(*) as k, count(*) filter (expert_total_weight is null) as unknown
            from {source} group by all),
        rates as (select v, sum(y) / sum(x) as rate from runs group by v)
        select runs.v, sum(y), sum(x), sum(n), sum(items), sum(k), sum(unknown), sum((y - rate * x) * (y - rate * x)),
            sum(x * x), count(*) filter (x > 0)
        from runs join rates on runs.v is not distinct from rates.v group by runs.v"""
    return connection.sql(query).to_arrow_table()


def contestants(path: Path, name: str = "arrow") -> dict[str, Callable[[], Any]]:
    """Name every way to the numbers; the first two of each source are by hand. Only Arrow's need the table."""
    table = pq.read_table(path, columns=COLUMNS) if name.startswith("arrow") else pa.table({KEY: []})
    connection = duckdb.connect()
    connection.register("items", table)
    file = f"read_parquet('{path}')"
    return {
        "arrow: polars by hand": lambda: by_polars(pl.from_arrow(table).lazy()),
        "arrow: DuckDB by hand": lambda: by_duckdb("items", connection),
        "arrow: casekit, Arrow table": lambda: yes_rates(table, by=KEY),
        "arrow: casekit, polars": lambda: yes_rates(pl.from_arrow(table).lazy(), by=KEY),
        "arrow: casekit, DuckDB": lambda: yes_rates(connection.table("items"), by=KEY),
        "parquet: polars by hand": lambda: by_polars(pl.scan_parquet(path)),
        "parquet: DuckDB by hand": lambda: by_duckdb(file, connection),
        "parquet: casekit, Arrow read_table": lambda: yes_rates(pq.read_table(path, columns=COLUMNS), by=KEY),
        "parquet: casekit, polars scan": lambda: yes_rates(pl.scan_parquet(path), by=KEY),
        "parquet: casekit, DuckDB": lambda: yes_rates(connection.sql(f"from {file}"), by=KEY),
    }


def resident() -> int:
    """Read this process's resident memory in bytes (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def peak(path: Path, name: str) -> None:
    """Run one contestant alone and print how far its memory rises, in MiB, over what its source takes."""
    run = contestants(path, name)[name]
    before = highest = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.005):
            highest = max(highest, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    done.set()
    watcher.join()
    print(round((highest - before) / 2**20))


def main() -> None:
    """Run the rounds and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--peak")
    options = parser.parse_args()
    path = make(options.rows, options.shuffled)
    if options.peak:
        peak(path, options.peak)
        return
    runs = contestants(path)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(options.rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if round_:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    print("| contestant | median s | x best by hand (median of rounds) | peak rise MiB |\n|---|---|---|---|")
    for name, taken in times.items():
        source = name.split(":")[0]
        hand = [times[f"{source}: {engine} by hand"] for engine in ("polars", "DuckDB")]
        ratio = statistics.median(mine / min(a, b) for mine, a, b in zip(taken, *hand, strict=True))
        command = [sys.executable, __file__, "--rows", str(options.rows), "--peak", name]
        command += ["--shuffled"] if options.shuffled else []
        memory = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        print(f"| {name} | {statistics.median(taken):.2f} | {ratio:.2f} | {memory} |")


if __name__ == "__main__":
    main()
