"""Figures that must hold on real, published data."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from casekit.outputs import output_items
from casekit.stats import coverage, precision_at_k, yes_rates

DATA = Path(__file__).parents[1] / "data"


def one(frame: pd.DataFrame) -> Any:
    """Take the only row."""
    assert len(frame) == 1
    return frame.iloc[0]


def test_mtbench_counts(mtbench: pd.DataFrame, mtbench_expected: dict[str, Any]) -> None:
    """All 1,518 items are there: 1,342 yes and 1,233 no."""
    rates = one(yes_rates(mtbench, weights="count"))
    assert rates["n_items"] == mtbench_expected["items"] == 1518
    assert rates["n_corrections"] == mtbench_expected["non_tie_votes"] == 1342 + 1233
    assert rates["rate"] * rates["n_corrections"] == pytest.approx(1342, abs=1e-9)


def test_mtbench_experts(mtbench: pd.DataFrame, mtbench_expected: dict[str, Any]) -> None:
    """Experts said yes 1,090 times and no 1,004 times, on all but 147 of the items."""
    rates = one(yes_rates(mtbench, weights="expert"))
    assert rates["weight"] == mtbench_expected["expert_yes"] + mtbench_expected["expert_no"] == 2094
    assert rates["rate"] == pytest.approx(mtbench_expected["expert_yes"] / 2094, abs=1e-15)
    left_out = rates["n_zero_weight"] + rates["n_unknown_expert"]
    assert left_out == mtbench_expected["items_without_an_expert_vote"] == 147


def test_mtbench_yes_by_category(mtbench: pd.DataFrame, mtbench_expected: dict[str, Any]) -> None:
    """Yes and votes by category are exactly what pandas counts."""
    rates = yes_rates(mtbench, by="category", weights="count")
    expected = mtbench_expected["yes_rate_by_category [pandas]"]
    assert rates["category"].tolist() == sorted(expected)
    for _, line in rates.iterrows():
        want = expected[line["category"]]
        assert line["n_corrections"] == want["votes"]
        assert round(line["rate"] * line["n_corrections"], 9) == want["yes"]
        assert line["rate"] == pytest.approx(want["rate"], abs=1e-10)
        assert line["low"] < line["rate"] < line["high"]


def test_tau_airline_yes_rate() -> None:
    """pass^1 of the published leaderboard is the yes rate, .42, inside statsmodels' interval but for n_eff and t."""
    items = pd.read_parquet(DATA / "tau_airline" / "items.parquet")
    expected = json.loads((DATA / "tau_airline" / "expected.json").read_text(encoding="utf-8"))
    rates = one(yes_rates(items))
    assert rates["rate"] == pytest.approx(expected["yes_rate"], abs=1e-15)
    assert (rates["n_cases"], rates["n_items"]) == (200, 200)
    low, high = expected["ci95_of_yes_rate [statsmodels]"]["wilson"]
    assert rates["n_eff"] == pytest.approx(199)
    assert [rates["low"], rates["high"]] == pytest.approx([low, high], abs=1e-3)
    assert rates["low"] < low
    assert rates["high"] > high


def test_tau_trials_of_one_task_are_not_independent() -> None:
    """With the task as the cluster (four trials each) the interval is wider than with each run its own."""
    items = pd.read_parquet(DATA / "tau_airline" / "items.parquet")
    by_task = one(yes_rates(items.drop(columns="run_id").assign(case_id=items["task"])))
    assert by_task["n_cases"] == 50
    assert by_task["deff"] > 2
    assert by_task["se"] > one(yes_rates(items))["se"]


@pytest.fixture(scope="module")
def rag24() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Outputs and items of 31 topics: every document of the run in the output's list, the judged ones items."""
    run = pd.read_parquet(DATA / "rag24" / "run.parquet")
    rows = []
    for topic, documents in run.groupby("topic", sort=False):
        output = {"appended": [], "output": {"matches": [{"id": docno} for docno in documents["docno"]]}}
        rows.append({"case_id": topic, "output_json": json.dumps(output)})
    cases = pd.DataFrame(rows).assign(test_set_id="trec.rag24", version="1.0.0", subject_kind="agent")
    cases = cases.assign(subject_id="trec.rag24", subject_version="1.0.0", run_id=cases["case_id"])
    judged = run[run["relevant"].notna()].reset_index(drop=True)
    yes = judged["relevant"].astype("int64")
    items = pd.DataFrame({"case_id": judged["topic"], "key": judged["docno"], "rank": judged["rank"]})
    items = items.assign(pointer="/output/matches/" + judged["rank"].astype(str), yes=yes, no=1 - yes)
    items = items.assign(yes_weight=yes.astype("float64"), total_weight=1.0)
    items = items.assign(expert_yes_weight=items["yes_weight"], expert_total_weight=1.0)
    return output_items(SimpleNamespace(cases=cases)), items


@pytest.mark.parametrize("k", [5, 10, 15, 20, 30, 100])
def test_rag24_precision_is_trec_evals_where_definitions_meet(k: int, rag24: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """P@k of trec_eval is the yes weight in the first k over k places; the server's leaves unjudged places out."""
    expected = json.loads((DATA / "rag24" / "expected.json").read_text(encoding="utf-8"))
    found = one(precision_at_k(*rag24, k=k))
    assert found["n_slots"] == 31 * k
    p_at_k = found["yes_weight"] / found["n_slots"]
    assert f"{p_at_k:.4f}" == expected["published"][0]["values"][f"P_{k}"]
    assert found["precision"] * found["judged_share"] == pytest.approx(p_at_k, abs=1e-12)
    means = expected["mean_over_topics [ir_measures 0.4.3]"]
    assert found["judged_share"] == pytest.approx(means[f"Judged@{k}"], abs=1e-9)
    assert found["case_mean"] == pytest.approx(means[f"yes/judged@{k}"], abs=1e-9)
    assert found["precision"] > p_at_k


def test_rag24_published_values() -> None:
    """The published figures are P_5 .8000 and P_10 .7710."""
    expected = json.loads((DATA / "rag24" / "expected.json").read_text(encoding="utf-8"))
    assert expected["published"][0]["values"]["P_5"] == "0.8000"
    assert expected["published"][0]["values"]["P_10"] == "0.7710"


def test_rag24_coverage(rag24: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """Of 3,100 ranked documents 1,725 are judged."""
    found = one(coverage(*rag24))
    assert (found["n_items"], found["n_judged"], found["n_cases"]) == (3100, 1725, 31)
    assert found["coverage"] == pytest.approx(1725 / 3100, abs=1e-15)


def test_rag24_without_outputs_falls_back_to_stored_ranks(rag24: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    """Stored ranks give the same precision, and the result says that it rests on them."""
    ranked, items = rag24
    whole, stored = one(precision_at_k(ranked, items)), one(precision_at_k(ranked.iloc[:0], items))
    assert stored["precision"] == pytest.approx(whole["precision"], abs=1e-15)
    assert (whole["n_stored_ranks"], stored["n_stored_ranks"]) == (0, 31)
    assert stored["n_slots"] == 0
    assert np.isnan(stored["judged_share"])
