"""The same statistics on PySpark, over a folder of Parquet files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from casekit.stats import (
    agreement,
    compare,
    coverage,
    expert_agreement,
    expert_weights,
    item_agreement,
    precision_at_k,
    rank_keys,
    rank_rates,
    segments_wide,
    yes_rates,
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def items() -> pd.DataFrame:
    """Two hundred items over sixty runs, some without a key and some with unknown experts."""
    rng = np.random.default_rng(11)
    n = 200
    yes, no = rng.integers(0, 3, n), rng.integers(0, 3, n)
    experts = np.where(rng.random(n) < 0.2, np.nan, np.minimum(yes, 1).astype(float))
    run = rng.integers(0, 60, n)
    key = pd.Series([f"k{i}" for i in rng.integers(0, 9, n)], dtype="str").where(rng.random(n) > 0.1)
    frame = pd.DataFrame({"test_set_id": "acme.a", "version": [f"{i % 2}" for i in run]})
    frame = frame.assign(case_id=[f"c{i}" for i in run], run_id=[f"r{i}" for i in run])
    frame["run_id"] = frame["run_id"].where(run % 3 > 0)
    frame = frame.assign(item_no=np.arange(n), key=key, pointer=[f"/m/{i}" for i in range(n)], rank=np.arange(n) % 7)
    frame = frame.assign(yes=yes, no=no, yes_weight=yes * 0.5 + (yes > 0), total_weight=(yes + no) * 0.5 + (yes > 0))
    return frame.assign(expert_yes_weight=experts, expert_total_weight=experts)


@pytest.fixture(scope="module")
def folder(items: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The items as a folder of four Parquet files."""
    path: Path = tmp_path_factory.mktemp("items")
    for part in range(4):
        items.iloc[part::4].to_parquet(path / f"part-{part}.parquet", index=False)
    return path


@pytest.fixture
def to_spark(spark: Any, tmp_path: Path) -> Callable[[pd.DataFrame], Any]:
    """Read a pandas frame in Spark, by way of a file."""

    def read(frame: pd.DataFrame) -> Any:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        frame.to_parquet(path, index=False)
        return spark.read.parquet(str(path))

    return read


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Compare two results but for rounding."""
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weights", ["recorded", "expert", "count"])
@pytest.mark.parametrize("by", [None, "key", ["version", "key"]])
def test_yes_rates(spark: Any, folder: Path, items: pd.DataFrame, weights: Any, by: Any) -> None:
    """Rates by nothing, one key and two are those of pandas."""
    same(yes_rates(spark.read.parquet(str(folder)), by=by, weights=weights), yes_rates(items, by=by, weights=weights))


def test_weights_and_agreement(spark: Any, folder: Path, items: pd.DataFrame) -> None:
    """Weights, agreement, experts against others and ranked keys are those of pandas."""
    frame = spark.read.parquet(str(folder))
    same(expert_weights(frame, by="key"), expert_weights(items, by="key"))
    same(agreement(frame, by="key"), agreement(items, by="key"))
    same(item_agreement(frame), item_agreement(items))
    same(expert_agreement(frame, by="version"), expert_agreement(items, by="version"))
    pd.testing.assert_frame_equal(rank_keys(frame), rank_keys(items), rtol=1e-9)
    same(yes_rates(frame, by="key", method="jackknife"), yes_rates(items, by="key", method="jackknife"))


def test_comparison(spark: Any, folder: Path, items: pd.DataFrame) -> None:
    """A comparison of two frames of Spark is that of pandas."""
    frame = spark.read.parquet(str(folder))
    versions = [frame.filter(frame["version"] == version) for version in ("0", "1")]
    expected = compare(*(items[items["version"] == version] for version in ("0", "1")), by="key")
    same(compare(*versions, by="key"), expected)


def test_ranked_outputs(to_spark: Callable[[pd.DataFrame], Any], items: pd.DataFrame) -> None:
    """Precision and coverage join in Spark as they do in Arrow."""
    kept = items.drop_duplicates(["case_id", "key"]).dropna(subset="key")
    ranked = kept[["test_set_id", "version", "case_id", "run_id", "key", "pointer"]].assign(own_key=True)
    ranked["place"] = ranked["rank"] = ranked.groupby("case_id").cumcount()
    pair = to_spark(ranked), to_spark(kept)
    same(precision_at_k(*pair, k=2, by="version"), precision_at_k(ranked, kept, k=2, by="version"))
    same(coverage(*pair, by="version"), coverage(ranked, kept, by="version"))
    same(rank_rates(*pair), rank_rates(ranked, kept))


def test_segments(to_spark: Callable[[pd.DataFrame], Any], items: pd.DataFrame) -> None:
    """Segments become columns of a Spark frame."""
    steps = pd.DataFrame({"test_set_id": "acme.a", "version": ["1", "0"], "case_id": ["c1", "c2"], "segment_no": 0})
    steps = steps.assign(key="region", value=["north", "south"])
    found = segments_wide(to_spark(items), to_spark(steps))
    rates = yes_rates(found, by="region")
    same(rates, yes_rates(segments_wide(items, steps), by="region"))


def test_no_rows(spark: Any, folder: Path) -> None:
    """No rows make one row without a rate, or none by a key."""
    empty = spark.read.parquet(str(folder)).limit(0)
    assert yes_rates(empty)["reason"].tolist() == ["no items"]
    assert len(yes_rates(empty, by="key")) == 0


def test_contradictions_name_the_item(to_spark: Callable[[pd.DataFrame], Any], items: pd.DataFrame) -> None:
    """Weights that cannot be are found in Spark."""
    wrong = items.assign(yes_weight=items["yes_weight"].where(items["item_no"] != 5, 99.0))
    with pytest.raises(ValueError, match="weights that contradict each other"):
        yes_rates(to_spark(wrong))
