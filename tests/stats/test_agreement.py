"""Agreement between corrections against the packages that compute it, and where it is undefined."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from casekit.stats import agreement, expert_agreement, item_agreement

Reference = dict[str, Any]
MakeItems = Callable[[list[dict[str, Any]]], pd.DataFrame]

# A package's name of a coefficient: the column here.
NAMES = {
    "gwet": "ac1",
    "fleiss": "fleiss",
    "krippendorff": "alpha",
    "bp": "brennan_prediger",
    "krippen": "alpha",
    "pa": "percent",
}


def counts_frame(counts: list[list[float]]) -> pd.DataFrame:
    """Make an items frame of yes and no counts, each item a case of its own."""
    yes, no = zip(*counts, strict=True)
    cases = [f"c{i}" for i in range(len(counts))]
    return pd.DataFrame({"case_id": cases, "yes": [int(n) for n in yes], "no": [int(n) for n in no]})


def one(frame: pd.DataFrame) -> Any:
    """Take the only row."""
    assert len(frame) == 1
    return frame.iloc[0]


def test_coefficients_equal_irrcac(reference: Reference) -> None:
    """Percent agreement, AC1, kappa, alpha and Brennan-Prediger are those of irrCAC, in Python and in R."""
    seen = 0
    for name, entry in reference.items():
        package, _, rest = name.partition("irrCAC.")
        if package not in ("", "R.") or not rest:
            continue
        column = NAMES[rest.split(".")[0] if package == "" else rest.split(".")[1]]
        found = one(agreement(counts_frame(entry["input"]["yes_no"])))
        expected = entry["output"]["coef"]
        expected = np.nan if expected is None else expected
        assert found[column] == pytest.approx(expected, abs=entry["tolerance"], nan_ok=True), entry["produced_by"]
        if column != "alpha" and entry["output"]["pa"] is not None:
            assert found["percent"] == pytest.approx(entry["output"]["pa"], abs=entry["tolerance"])
        seen += 1
    assert seen == 33


@pytest.mark.parametrize("name", ["krippendorff.nominal", "crowdkit.alpha", "inspect.krippendorff"])
@pytest.mark.parametrize("data", ["E1", "U1"])
def test_alpha_equals_other_packages(name: str, data: str, reference: Reference) -> None:
    """Krippendorff's alpha is that of krippendorff, crowd-kit and inspect_ai."""
    entry = reference[f"{name}.{data}"]
    found = one(agreement(counts_frame(entry["input"]["yes_no"])))
    assert found["alpha"] == pytest.approx(entry["output"], abs=entry["tolerance"])


def test_alpha_of_t1(reference: Reference, t1: pd.DataFrame) -> None:
    """Items with one correction are not in alpha."""
    entry = reference["krippendorff.nominal.T1items"]
    assert one(agreement(t1))["alpha"] == pytest.approx(entry["output"], abs=entry["tolerance"])


def test_alpha_of_two_observers(reference: Reference) -> None:
    """Krippendorff's published example of two observers and ten units gives 0.095."""
    entry = reference["krippendorff.krippendorff2011_binary"]
    pairs = zip(*entry["input"]["reliability_data"], strict=True)
    counts = [[float(sum(pair)), float(len(pair) - sum(pair))] for pair in pairs]
    assert one(agreement(counts_frame(counts)))["alpha"] == pytest.approx(entry["output"], abs=entry["tolerance"])


def test_equal_raters_give_fleiss_1971(reference: Reference) -> None:
    """With as many corrections on each item, Gwet's form is Fleiss' kappa, and Brennan-Prediger Randolph's."""
    fleiss, randolph = reference["fleiss.binary_equal_E1"], reference["randolph.binary_equal_E1"]
    found = one(agreement(counts_frame(fleiss["input"]["table"])))
    assert found["fleiss"] == pytest.approx(fleiss["output"], abs=fleiss["tolerance"])
    assert found["brennan_prediger"] == pytest.approx(randolph["output"], abs=randolph["tolerance"])


def test_standard_error_leaves_out_cases(reference: Reference, t1: pd.DataFrame) -> None:
    """The standard errors are the jackknife over cases of krippendorff's and irrCAC's values."""
    entry = reference["T1.agreement.leave_one_case_out"]
    found = one(agreement(t1))
    errors = entry["output"]["jackknife_se"]
    for column, name in (("percent", "pa"), ("ac1", "ac1"), ("alpha", "alpha")):
        assert found[column] == pytest.approx(entry["output"]["full"][name], abs=entry["tolerance"])
        assert found[f"{column}_se"] == pytest.approx(errors[name], abs=entry["tolerance"])
    assert (found["n_cases"], found["n_items"], found["n_compared"], found["n_single"]) == (8, 16, 9, 7)


def test_leaving_out_one_case_equals_a_frame_without_it(reference: Reference, t1: pd.DataFrame) -> None:
    """Each left-out value is what the frame without that case gives."""
    for case, expected in reference["T1.agreement.leave_one_case_out"]["output"]["loo"].items():
        found = one(agreement(t1[t1["case_id"] != case]))
        assert found["alpha"] == pytest.approx(expected["alpha"], abs=1e-9)
        assert found["ac1"] == pytest.approx(expected["ac1"], abs=1e-9)


def test_all_the_same_is_agreement_without_variation(reference: Reference) -> None:
    """All yes: percent, AC1 and Brennan-Prediger are 1, kappa and alpha undefined, and no interval has no width."""
    assert reference["fleiss.all_one_category"]["output"] is None
    assert reference["krippendorff.degenerate.all_yes"]["output"] is None
    found = one(agreement(counts_frame(reference["krippendorff.degenerate.all_yes"]["input"]["yes_no"])))
    assert list(found[["percent", "ac1", "brennan_prediger", "pairs"]]) == [1, 1, 1, 1]
    assert found[["fleiss", "alpha", "percent_low", "percent_high", "alpha_se"]].isna().all()
    assert found["percent_se"] == 0
    assert found["reason"] == "no variation"


def test_singletons_alone_say_nothing(reference: Reference) -> None:
    """Without an item of two corrections everything is undefined, where krippendorff raises and inspect says nan."""
    entry = reference["krippendorff.degenerate.only_singletons"]
    assert reference["inspect.krippendorff.only_singletons"]["output"] is None
    found = one(agreement(counts_frame(entry["input"]["yes_no"])))
    assert found[["percent", "ac1", "alpha", "fleiss", "brennan_prediger", "pairs"]].isna().all()
    assert found["reason"] == "no item has two corrections"
    assert (found["n_single"], found["n_compared"], found["n_pairs"]) == (2, 0, 0)


def test_undefined_without_one_case_has_no_error() -> None:
    """A coefficient that hangs on one case has no standard error, and the reason says so."""
    found = one(agreement(counts_frame([[2, 0], [1, 0], [0, 1]])))
    assert found["percent"] == 1
    assert np.isnan(found["percent_se"])
    assert found["reason"] == "no variation"
    mixed = one(agreement(counts_frame([[1, 1], [1, 0], [0, 1]])))
    assert np.isnan(mixed["percent_se"])
    assert mixed["reason"] == "undefined without one of the cases"


def test_pairs_weigh_items_by_their_pairs() -> None:
    """Of one item with three agreeing pairs and one with a split pair, three of four pairs agree."""
    found = one(agreement(counts_frame([[3, 0], [1, 1]])))
    assert found["pairs"] == 0.75
    assert found["percent"] == 0.5
    assert found["n_pairs"] == 4


def test_items_without_corrections_are_counted() -> None:
    """An item with neither yes nor no is left out and counted."""
    found = one(agreement(counts_frame([[3, 0], [1, 1], [0, 0]])))
    assert (found["n_items"], found["n_without"], found["n_cases"]) == (2, 1, 2)


def test_no_rows(t1: pd.DataFrame) -> None:
    """No items make one row without a value, or no rows by a key, with the same columns."""
    for statistic in (agreement, expert_agreement):
        empty = statistic(t1.iloc[:0])
        assert one(empty)["reason"] == "no items"
        assert empty.dtypes.to_dict() == statistic(t1).dtypes.to_dict()
        assert len(statistic(t1.iloc[:0], by="key")) == 0


def test_one_case_has_no_error() -> None:
    """A single run gives values and no standard error."""
    found = one(agreement(counts_frame([[2, 1]])))
    assert found["percent"] == pytest.approx(1 / 3)
    assert np.isnan(found["percent_se"])
    assert found["reason"] == "one case"


def test_experts_votes_pair_as_published(mtbench: pd.DataFrame, mtbench_expected: dict[str, Any]) -> None:
    """Pairs of experts agree in 388 of 479 and 388 of 474 votes by turn (Zheng et al. 2023, table 5)."""
    experts = mtbench.assign(
        yes=mtbench["expert_yes_weight"].astype("int64"),
        no=(mtbench["expert_total_weight"] - mtbench["expert_yes_weight"]).astype("int64"),
    )
    found = agreement(experts, by="turn").set_index("turn")
    for turn, (agree, pairs) in mtbench_expected["pooled_pairs_expert_by_turn [pandas]"].items():
        assert found.loc[turn, "n_pairs"] == pairs
        assert found.loc[turn, "pairs"] * pairs == pytest.approx(agree, abs=1e-9)
    assert list(mtbench_expected["pooled_pairs_expert_by_turn [pandas]"].values()) == [[388, 479], [388, 474]]


def test_everyones_votes_pair_as_other_tools_say(mtbench: pd.DataFrame, mtbench_expected: dict[str, Any]) -> None:
    """All judges' pairs by turn and alpha over all votes are those of pandas and krippendorff."""
    found = agreement(mtbench, by="turn").set_index("turn")
    for turn, (agree, pairs) in mtbench_expected["pooled_pairs_all_judges_by_turn [pandas]"].items():
        assert found.loc[turn, "n_pairs"] == pairs
        assert found.loc[turn, "pairs"] * pairs == pytest.approx(agree, abs=1e-9)
    alpha = one(agreement(mtbench))["alpha"]
    assert alpha == pytest.approx(0.6529183689, abs=1e-10)
    assert alpha == pytest.approx(
        mtbench_expected["krippendorff_alpha_non_tie [krippendorff, value_counts]"], abs=1e-10
    )


def sides(table: list[list[float]], make_items: MakeItems) -> pd.DataFrame:
    """Make items on which one expert and one other vote as a 2x2 table says (rows: expert yes, no)."""
    rows: list[dict[str, Any]] = []
    for expert, line in zip((1, 0), table, strict=True):
        for other, n in zip((1, 0), line, strict=True):
            for _ in range(int(n)):
                row = {"case_id": f"c{len(rows)}", "key": "a", "item_no": 0, "yes": expert + other}
                row |= {"no": 2 - expert - other, "yes_weight": expert + other, "total_weight": 2}
                rows.append(row | {"expert_yes_weight": expert, "expert_total_weight": 1})
    return make_items(rows)


def test_kappa_of_experts_and_others(reference: Reference, make_items: MakeItems) -> None:
    """Kappa is statsmodels' cohens_kappa; its jackknife error is near the formula's for one item a case."""
    entry = reference["cohen.2x2"]
    found = one(expert_agreement(sides(entry["input"]["table"], make_items)))
    assert found["kappa"] == pytest.approx(entry["output"]["kappa"], abs=entry["tolerance"])
    assert found["kappa_se"] == pytest.approx(entry["output"]["se"], abs=0.006)
    assert (found["n_both_yes"], found["n_expert_yes"], found["n_other_yes"], found["n_both_no"]) == (20, 5, 10, 15)
    assert found["agreement"] == pytest.approx(0.7)


def test_a_tie_is_never_broken(make_items: MakeItems) -> None:
    """An item on which one side is split even counts as a tie, neither agreement nor the other."""
    row = {"case_id": "c1", "key": "a", "item_no": 0, "yes": 2, "no": 1, "yes_weight": 2, "total_weight": 3}
    items = make_items([row | {"expert_yes_weight": 1, "expert_total_weight": 2}])
    found = one(expert_agreement(items))
    assert (found["n_both"], found["n_tie"], found["n_agree"], found["n_disagree"]) == (1, 1, 0, 0)
    assert np.isnan(found["agreement"])
    assert "no item where both take a side" in found["reason"]


def test_unknown_experts_are_not_zero(make_items: MakeItems) -> None:
    """Items of older servers are left out and counted; with nothing else everything is undefined."""
    row = {"case_id": "c1", "key": "a", "item_no": 0, "yes": 2, "no": 1, "yes_weight": 2, "total_weight": 3}
    found = one(expert_agreement(make_items([row])))
    assert found[["expert_rate", "other_rate", "gap", "agreement", "kappa"]].isna().all()
    assert (found["n_unknown_expert"], found["n_items"]) == (1, 0)
    assert found["reason"] == "expert weights unknown"


def test_nobody_but_experts(make_items: MakeItems) -> None:
    """Without others' weight there is no gap, and the reason names the side that is missing."""
    row = {"case_id": "c1", "key": "a", "item_no": 0, "yes": 2, "no": 1, "yes_weight": 2, "total_weight": 3}
    found = one(expert_agreement(make_items([row | {"expert_yes_weight": 2, "expert_total_weight": 3}])))
    assert found["expert_rate"] == pytest.approx(2 / 3)
    assert np.isnan(found["gap"])
    assert found["reason"] == "no weight of others"


def test_sides_that_never_vary_have_no_kappa(make_items: MakeItems) -> None:
    """Both sides always yes: they agree, the gap is nothing on every case, and kappa is undefined."""
    found = one(expert_agreement(sides([[12, 0], [0, 0]], make_items)))
    assert found["agreement"] == 1
    assert found["agreement_low"] < 1
    assert np.isnan(found["kappa"])
    assert "kappa: no variation" in found["reason"]
    assert "gap: identical" in found["reason"]


def item_frame(counts: list[tuple[int, int]]) -> pd.DataFrame:
    """Make an items frame of yes and no counts, each verdict of weight 1."""
    frame = counts_frame([list(pair) for pair in counts]) if counts else counts_frame([[0, 0]]).iloc[:0]
    return frame.assign(yes_weight=frame["yes"] * 1.0, total_weight=(frame["yes"] + frame["no"]) * 1.0)


@pytest.mark.parametrize(
    ("yes", "no", "contested"),
    [
        (0, 0, False),
        (1, 0, False),
        (0, 1, False),
        (1, 1, True),
        (2, 0, False),
        (2, 1, False),
        (2, 3, True),
        (4, 6, True),
        (3, 5, False),
        (399, 601, False),
        (400, 600, True),
    ],
)
def test_contested_from_two_of_five(yes: int, no: int, contested: bool) -> None:
    """An item is contested from 40 % on the side of fewer, exactly, and never with one correction."""
    found = one(item_agreement(item_frame([(yes, no)])))
    assert found["contested"] == contested
    assert found["contested_from"] == 0.4
    assert (found["n_yes"], found["n_corrections"]) == (yes, yes + no)


@given(counts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12), level=st.floats(0.5, 0.99))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_an_items_interval_is_wilsons(counts: list[tuple[int, int]], level: float) -> None:
    """Share and interval are SciPy's of the item's own counts; an item without corrections keeps its row, with NaN."""
    found = item_agreement(item_frame(counts), level=level)
    assert len(found) == len(counts)
    figures = found[["n_yes", "n_corrections", "yes_share", "low", "high"]].to_numpy(dtype=np.float64)
    for (yes, n, share, low, high), reason in zip(figures.tolist(), found["reason"], strict=True):
        if n == 0:
            assert np.isnan([share, low, high]).all()
            assert reason == "no corrections"
            continue
        expected = stats.binomtest(int(yes), int(n)).proportion_ci(confidence_level=level, method="wilson")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
        assert share == yes / n


def test_contested_items_come_first() -> None:
    """First the contested, with most corrections first and the most even of those; then the others; then by name."""
    counts = [(9, 0), (1, 1), (2, 3), (5, 0), (3, 3), (2, 4), (0, 0), (2, 2), (2, 2)]
    assert item_agreement(item_frame(counts))["case_id"].tolist() == [
        *("c4", "c2", "c7", "c8", "c1"),
        *("c0", "c5", "c3", "c6"),
    ]


def test_an_item_without_weight_is_an_item() -> None:
    """Weights play no part: an item of weight 0 has its share, and its weight stands beside it."""
    found = one(item_agreement(item_frame([(1, 1)]).assign(yes_weight=0.0, total_weight=0.0)))
    assert (found["yes_share"], found["weight"], found["contested"]) == (0.5, 0.0, True)


def test_an_items_name_is_what_the_frame_has(t1: pd.DataFrame) -> None:
    """Case, number and key name an item, with set and version where the frame has them, missing ones last."""
    found = item_agreement(t1)
    assert found.columns[:4].tolist() == ["case_id", "item_no", "key", "n_yes"]
    named = item_agreement(t1.assign(version="1", test_set_id=pd.Series([None] * len(t1), dtype="str")))
    assert named.columns[:5].tolist() == ["test_set_id", "version", "case_id", "item_no", "key"]
    pd.testing.assert_frame_equal(named[found.columns], found)


def test_items_agree_in_every_engine(t1: pd.DataFrame, engines: Callable[[pd.DataFrame], dict[str, Any]]) -> None:
    """Every engine gives the same items in the same order."""
    expected = item_agreement(t1)
    for native in engines(t1).values():
        pd.testing.assert_frame_equal(item_agreement(native), expected)


def test_items_add_up_to_agreement(mtbench: pd.DataFrame) -> None:
    """Items, corrections and pairs that agree are those of the coefficient over all of them."""
    found, whole = item_agreement(mtbench), one(agreement(mtbench))
    n, yes = found["n_corrections"], found["n_yes"]
    several = n >= 2
    pairs = (yes * (yes - 1) + (n - yes) * (n - yes - 1))[several] / (n * (n - 1))[several]
    assert pairs.mean() == pytest.approx(whole["percent"])
    assert several.sum() == whole["n_compared"]
    assert n.sum() == whole["n_corrections"]


def test_items_that_cannot_be_are_refused() -> None:
    """A level, a missing column and weights that contradict each other are named; no items make no rows."""
    items = item_frame([(1, 1)])
    with pytest.raises(ValueError, match="level=1"):
        item_agreement(items, level=1)
    with pytest.raises(KeyError, match="items has no column 'total_weight'"):
        item_agreement(items.drop(columns="total_weight"))
    with pytest.raises(ValueError, match="contradict"):
        item_agreement(items.assign(yes_weight=3.0))
    empty = item_agreement(items.iloc[:0])
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == item_agreement(items).dtypes.to_dict()
