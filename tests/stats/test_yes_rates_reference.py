"""Yes rates against numbers that survey packages print; each entry names the call that made it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from casekit.stats import expert_agreement, expert_weights, yes_rates
from casekit.stats.intervals import t_quantile, wilson
from casekit.stats.resampling import bootstrap_ratio

Reference = dict[str, Any]
MakeItems = Callable[[list[dict[str, Any]]], pd.DataFrame]


def one(frame: pd.DataFrame) -> Any:
    """Take the only row."""
    assert len(frame) == 1
    return frame.iloc[0]


def test_wilson_equals_other_packages(reference: Reference) -> None:
    """A share with its count has the interval of statsmodels, SciPy and R, edges and no data included."""
    found = [e for name, e in reference.items() if name.startswith(("proportion_confint", "binomtest", "R.prop.test"))]
    assert len(found) == 29
    for entry in found:
        count, nobs = np.array([entry["input"]["count"]]), np.array([entry["input"]["nobs"]])
        with np.errstate(invalid="ignore"):
            low, high = wilson(count / nobs, nobs, t_quantile(np.array([1e15]), 0.95))
        expected = [np.nan if bound is None else bound for bound in entry["output"]]
        assert [low[0], high[0]] == pytest.approx(expected, abs=entry["tolerance"], nan_ok=True), entry["produced_by"]


@pytest.mark.parametrize(
    "name", ["T1.R.svyratio", "T1.WLS_cluster.cases", "T1.samplics.ratio", "T1.svy.ratio", "T1.R.lm_robust.stata"]
)
def test_pooled_rate_is_a_ratio_estimate(name: str, reference: Reference, t1: pd.DataFrame) -> None:
    """Rate, standard error and Student's t interval are those of a survey ratio with runs as units."""
    expected, tolerance = reference[name]["output"], reference[name]["tolerance"]
    rates = one(yes_rates(t1, method="wald"))
    assert rates["rate"] == pytest.approx(expected["estimate"], abs=tolerance)
    assert rates["se"] == pytest.approx(expected["se"], abs=tolerance)
    assert [rates["low"], rates["high"]] == pytest.approx(expected.get("ci95", expected.get("ci95_t")), abs=tolerance)


@pytest.mark.parametrize("level", [0.9, 0.99])
def test_level_sets_the_quantile(level: float, reference: Reference, t1: pd.DataFrame) -> None:
    """Other levels than 95 % use their own t quantile."""
    entry = reference["T1.R.svyratio"]
    rates = one(yes_rates(t1, method="wald", level=level))
    expected = entry["output"][f"ci{level * 100:.0f}_t"]
    assert [rates["low"], rates["high"]] == pytest.approx(expected, abs=entry["tolerance"])


def test_sums_per_case_say_all(reference: Reference, t1: pd.DataFrame) -> None:
    """One row per correction gives packages the same number as sums per item give here."""
    rates = one(yes_rates(t1))
    by_row = reference["T1.R.svyratio.rows"]
    assert [rates["rate"], rates["se"]] == pytest.approx(by_row["output"], abs=by_row["tolerance"])
    wls = reference["T1.WLS_cluster.corrections"]
    assert rates["se"] == pytest.approx(wls["output"]["se"], abs=wls["tolerance"])


def test_default_interval_is_wilson_with_effective_n(reference: Reference, t1: pd.DataFrame) -> None:
    """The default is R survey's svyciprop("wilson") with Student's t, and statsmodels' wilson at the effective n."""
    rates = one(yes_rates(t1))
    survey = reference["T1.R.svyciprop45.wilson.0.95"]
    assert [rates["low"], rates["high"]] == pytest.approx(survey["output"], abs=survey["tolerance"])
    entry = reference["T1.wilson_t.weighted"]
    assert [rates["low"], rates["high"]] == pytest.approx(entry["output"]["ci95"], abs=entry["tolerance"])
    assert rates["n_eff"] == pytest.approx(entry["output"]["n_eff"], abs=entry["tolerance"])
    assert rates["deff"] == pytest.approx(entry["output"]["deff"], abs=entry["tolerance"])
    assert rates["low"] == pytest.approx(0.3335031, abs=5e-8)
    assert rates["high"] == pytest.approx(0.8180681, abs=5e-8)
    assert rates["rate"] == pytest.approx(0.6, abs=1e-15)
    assert rates["se"] == pytest.approx(0.117108008753824, abs=1e-14)


def test_effective_n_is_capped_at_the_corrections(reference: Reference, t1: pd.DataFrame) -> None:
    """With counts T1's effective n would be 31 of 28: the interval is inspect_ai's capped one, not R's uncapped."""
    rates = one(yes_rates(t1, weights="count"))
    capped = reference["T1.inspect.ci_wilson_cluster.0.95"]
    expected = [capped["output"]["lower"], capped["output"]["upper"]]
    assert [rates["low"], rates["high"]] == pytest.approx(expected, abs=capped["tolerance"])
    assert rates["n_eff"] == 28
    assert rates["deff"] < 1
    uncapped = reference["T1.R.svyciprop45.wilson.unweighted"]
    low, high = wilson(np.array([rates["rate"]]), np.array([28 / rates["deff"]]), t_quantile(np.array([7.0]), 0.95))
    assert [low[0], high[0]] == pytest.approx(uncapped["output"], abs=uncapped["tolerance"])


@pytest.mark.parametrize("name", ["T1.OLS_cluster.unweighted", "T1.R.svymean.unweighted"])
def test_counts_are_a_clustered_mean(name: str, reference: Reference, t1: pd.DataFrame) -> None:
    """Counting each verdict once gives the clustered mean of 0 and 1."""
    expected, tolerance = reference[name]["output"], reference[name]["tolerance"]
    rates = one(yes_rates(t1, weights="count", method="wald"))
    assert [rates["rate"], rates["se"]] == pytest.approx([expected["estimate"], expected["se"]], abs=tolerance)
    interval = expected.get("ci95", expected.get("ci95_t"))
    assert [rates["low"], rates["high"]] == pytest.approx(interval, abs=tolerance)


def test_counts_agree_with_inspect(reference: Reference, t1: pd.DataFrame) -> None:
    """Clustered standard error and t interval of one 0/1 score per correction are the same."""
    rates = one(yes_rates(t1, weights="count", method="wald"))
    se, ci = reference["T1.inspect.stderr_cluster"], reference["T1.inspect.ci_t_cluster"]
    assert rates["se"] == pytest.approx(se["output"], abs=se["tolerance"])
    expected = [ci["output"]["lower"], ci["output"]["upper"]]
    assert [rates["low"], rates["high"]] == pytest.approx(expected, abs=ci["tolerance"])


def test_design_effect_relates_to_survey(reference: Reference, t1: pd.DataFrame) -> None:
    """R's deff(replace) has n - 1 where casekit has n."""
    entry = reference["T1.R.deff_replace"]
    rates = one(yes_rates(t1))
    expected = entry["output"] * 28 / 27
    assert rates["deff"] == pytest.approx(expected, abs=entry["tolerance"])


def test_jackknife_centres_at_the_whole(reference: Reference, t1: pd.DataFrame) -> None:
    """Leaving one run out gives R's JK1 standard error with mse=TRUE, and a t interval."""
    entry = reference["T1.R.JK1"]
    rates = one(yes_rates(t1, method="jackknife"))
    assert rates["se"] == pytest.approx(entry["output"]["se_mse"], abs=entry["tolerance"])
    half = float(t_quantile(np.array([7.0]), 0.95)[0]) * rates["se"]
    assert [rates["low"], rates["high"]] == pytest.approx([0.6 - half, 0.6 + half], abs=1e-12)


@pytest.mark.parametrize("name", ["T1.scipy_bootstrap.percentile", "T1.R.boot"])
def test_bootstrap_percentiles(name: str, reference: Reference) -> None:
    """Percentiles over resampled cases are SciPy's and R boot's, within their Monte-Carlo error."""
    entry = reference[name]
    y, x = (np.array(entry["input"][side], dtype=float) for side in ("yesWeight", "totalWeight"))
    se, low, high = bootstrap_ratio(y, x, level=0.95, n_resamples=100_000, rng=np.random.default_rng(7))
    expected = entry["output"].get("percentile", entry["output"].get("ci95"))
    assert [low, high] == pytest.approx(expected, abs=entry["tolerance"])
    assert se == pytest.approx(entry["output"]["se"], abs=0.003)


def test_bootstrap_refuses_what_has_no_width(reference: Reference, make_items: MakeItems) -> None:
    """An all-yes set gives SciPy's BCa no bounds and the percentiles no width: there is no interval, and a reason."""
    entry = reference["bootstrap.degenerate.BCa"]
    assert entry["output"] == {"ci95": [None, None], "se": 0.0}
    rows = [
        {"case_id": f"c{copy}{i}", "key": "a", "item_no": 0, "yes": int(y), "no": 0, "yes_weight": y, "total_weight": x}
        for copy in range(4)
        for i, (y, x) in enumerate(zip(entry["input"]["yesWeight"], entry["input"]["totalWeight"], strict=True))
    ]
    rates = one(yes_rates(make_items(rows), method="bootstrap", seed=1))
    assert rates["rate"] == 1
    assert rates[["se", "low", "high"]].isna().all()
    assert rates["reason"] == "no variation between cases"


@pytest.mark.parametrize("m", [2, 3, 4, 8, 20])
@pytest.mark.parametrize("verdict", ["all_no", "all_yes"])
def test_edges_give_each_case_one_vote(m: int, verdict: str, reference: Reference, make_items: MakeItems) -> None:
    """With every verdict the same the effective n is the number of cases, however many corrections they have."""
    entry = reference[f"wilson_t.boundary.m{m}.{verdict}"]
    yes = verdict == "all_yes"
    rows = [
        {"case_id": f"c{i}", "key": "a", "item_no": 0, "yes": 5 * yes, "no": 5 * (not yes), "yes_weight": 15.0 * yes}
        | {"total_weight": 15.0}
        for i in range(m)
    ]
    rates = one(yes_rates(make_items(rows)))
    assert [rates["low"], rates["high"]] == pytest.approx(entry["output"], abs=entry["tolerance"])
    assert rates["rate"] == float(yes)
    assert rates["n_eff"] == m
    assert rates["n_corrections"] == 5 * m


def test_experts_alone(reference: Reference, t1: pd.DataFrame) -> None:
    """Cases without experts' weight do not count: six cases, df 5."""
    entry = reference["T1.R.expert.svyratio"]
    rates = one(yes_rates(t1, weights="expert", method="wald"))
    expected = [entry["output"]["estimate"], entry["output"]["se"], *entry["output"]["ci95_t"]]
    assert list(rates[["rate", "se", "low", "high"]]) == pytest.approx(expected, abs=entry["tolerance"])
    assert rates["n_cases"] - 1 == entry["output"]["df"] == 5
    assert rates["rate"] == pytest.approx(0.6666667, abs=5e-8)
    assert rates["se"] == pytest.approx(0.2108185, abs=5e-8)


def test_expert_share(reference: Reference, t1: pd.DataFrame) -> None:
    """The experts' share of weight is a ratio estimate of its own."""
    entry = reference["T1.R.expert_share"]
    shares = one(expert_weights(t1))
    assert shares["expert_share"] == pytest.approx(entry["output"]["estimate"], abs=entry["tolerance"])
    assert shares["share_se"] == pytest.approx(entry["output"]["se"], abs=entry["tolerance"])


def test_kish_bounds_hold_the_true_value(t1: pd.DataFrame) -> None:
    """Bounds from sums hold Kish's effective number of corrections, 21.05 when single weights are known."""
    shares = one(expert_weights(t1))
    assert [shares["kish_low"], shares["kish_high"]] == pytest.approx([15.0943396, 22.8571429], abs=1e-6)
    assert shares["kish_low"] <= 40**2 / (22 * 1 + 6 * 9) <= shares["kish_high"]


def test_gap_between_experts_and_others(reference: Reference, t1: pd.DataFrame) -> None:
    """The gap is R's contrast of two ratios over all cases as units."""
    entry = reference["T1.R.expert_minus_other"]
    expected = entry["output"]
    gap = one(expert_agreement(t1))
    assert gap["expert_rate"] == pytest.approx(expected["expert"], abs=entry["tolerance"])
    assert gap["other_rate"] == pytest.approx(expected["other"], abs=entry["tolerance"])
    assert [gap["gap"], gap["gap_se"]] == pytest.approx([expected["diff"], expected["se"]], abs=entry["tolerance"])
    assert [gap["gap_low"], gap["gap_high"]] == pytest.approx(expected["ci95_t"], abs=entry["tolerance"])
    assert gap["gap_df"] == expected["df"]
    assert gap["gap_method"] == "paired"
