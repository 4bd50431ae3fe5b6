"""Precision at k and coverage, against the server's own worked figures and the tools of information retrieval."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from casekit.outputs import output_items
from casekit.stats import coverage, precision_at_k, yes_rates

Reference = dict[str, Any]
MakeItems = Callable[[list[dict[str, Any]]], pd.DataFrame]
Engines = Callable[[pd.DataFrame], dict[str, Any]]
Frames = tuple[pd.DataFrame, pd.DataFrame]


def one(frame: pd.DataFrame) -> Any:
    """Take the only row."""
    assert len(frame) == 1
    return frame.iloc[0]


def frames_of(cases: list[dict[str, Any]], make_items: MakeItems, make_row: Callable[..., dict[str, Any]]) -> Frames:
    """Make the ranked and the items frame of cases as the API sends them."""
    table = pd.DataFrame(
        {
            "case_id": [case["caseId"] for case in cases],
            "subject_kind": [case["subject"]["kind"] for case in cases],
            "output_json": [json.dumps(case["output"]) for case in cases],
        }
    )
    table = table.assign(test_set_id="t", version="1", subject_id="s", subject_version="1", run_id=table["case_id"])
    rows = [
        {**make_row(case["caseId"], i, {"yes": 1, "no": 1, **item}), "test_set_id": "t", "version": "1"}
        for case in cases
        for i, item in enumerate(case["items"])
    ]
    return output_items(SimpleNamespace(cases=table)), make_items(rows)


@pytest.fixture
def worked(reference: Reference, make_items: MakeItems, make_row: Callable[..., dict[str, Any]]) -> Frames:
    """The six cases of the server's worked example."""
    return frames_of(reference["server.metrics.worked_example"]["input"]["cases"], make_items, make_row)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10])
@pytest.mark.parametrize(("weights", "name"), [("recorded", "pooled"), ("expert", "expertsOnly")])
def test_precision_is_the_servers(k: int, weights: Any, name: str, reference: Reference, worked: Frames) -> None:
    """Value, number of cases and weight are the server's, for everyone and for experts alone."""
    entry = reference["server.metrics.worked_example"]
    expected = entry["output"][name][str(k)]["weightedPrecisionAtK"]
    found = one(precision_at_k(*worked, k=k, weights=weights))
    assert found["precision"] == pytest.approx(expected["value"], abs=entry["tolerance"])
    assert (found["n_cases"], found["weight"]) == (expected["n"], expected["weight"])


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10])
def test_per_case_sums_are_the_servers(k: int, reference: Reference, worked: Frames) -> None:
    """Each case's sums over its first k, its items and its corrected items are the server's."""
    found = precision_at_k(*worked, k=k, by="case_id").set_index("case_id")
    covered = coverage(*worked, by="case_id").set_index("case_id")
    for case in reference["server.metrics.worked_example"]["output"]["perCase"][str(k)]:
        line = found.loc[case["caseId"]]
        assert line[["yes_weight", "weight"]].tolist() == [case["topK"]["yesWeight"], case["topK"]["totalWeight"]]
        assert covered.loc[case["caseId"], ["n_items", "n_judged"]].tolist() == [case["items"], case["judgedItems"]]


@pytest.mark.parametrize(("weights", "name"), [("recorded", "pooled"), ("expert", "expertsOnly")])
def test_coverage_and_yes_share_are_the_servers(weights: Any, name: str, reference: Reference, worked: Frames) -> None:
    """Corrected coverage and the weighted yes share are the server's; a case of weight 0 counts for coverage alone."""
    expected = reference["server.metrics.worked_example"]["output"][name]
    found = one(coverage(*worked, weights=weights))
    share = one(yes_rates(worked[1], weights=weights))
    for line, value, want in (
        (found, found["coverage"], expected["judgedCoverage"]),
        (share, share["rate"], expected["weightedYesShare"]),
    ):
        assert value == pytest.approx(want["value"], abs=1e-12)
        assert (line["n_cases"], line["weight"]) == (want["n"], want["weight"])


@pytest.mark.parametrize("k", [3, 5])
def test_precision_relates_to_retrieval_tools(k: int, reference: Reference) -> None:
    """P@k of ir_measures and pytrec_eval is a case's ratio times its judged share, over k places however few came."""
    entry = reference["ir_measures.per_query"]
    cases, rows = [], []
    for query, run in entry["input"]["run"].items():
        ranking = sorted(run, key=lambda name: -run[name])
        for place, name in enumerate(ranking):
            grade = entry["input"]["qrels"][query].get(name)
            case = {"case_id": query, "key": name, "pointer": f"/m/{place}"}
            cases.append({**case, "own_key": True, "place": place})
            if grade is not None:
                counts = {"rank": place, "yes": int(grade), "no": 1 - int(grade)}
                rows.append({**case, **counts, "yes_weight": grade, "total_weight": 1.0})
    found = precision_at_k(pd.DataFrame(cases), pd.DataFrame(rows), k=k, by="case_id").set_index("case_id")
    for query, values in entry["output"].items():
        if query not in found.index:
            continue
        line = found.loc[query]
        assert line["judged_share"] == pytest.approx(values[f"Judged@{k}"], abs=1e-9)
        assert line["yes_weight"] / k == pytest.approx(values[f"P@{k}"], abs=1e-9)
        assert values[f"P@{k}"] == pytest.approx(reference["pytrec_eval.per_query"]["output"][query][f"P@{k}"])
        if line["n_cases"]:
            per_case = line["precision"] * line["judged_share"] * line["n_slots"] / k
            assert per_case == pytest.approx(values[f"P@{k}"], abs=1e-9)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "3", None])
def test_k_is_a_whole_number_from_1(k: Any, worked: Frames) -> None:
    """Any other k is refused."""
    with pytest.raises(ValueError, match=r"k=.* must be a whole number from 1 to"):
        precision_at_k(*worked, k=k)


def test_engines_agree(worked: Frames, engines: Engines) -> None:
    """Every engine gives the same, also when the two frames are of different ones."""
    ranked, items = worked
    for by in (None, "case_id", ["version", "case_id"]):
        top, covered = precision_at_k(ranked, items, k=2, by=by), coverage(ranked, items, by=by)
        for name, other in engines(items).items():
            for left in (ranked, engines(ranked)[name]):
                pd.testing.assert_frame_equal(precision_at_k(left, other, k=2, by=by), top, rtol=1e-12)
                pd.testing.assert_frame_equal(coverage(left, other, by=by), covered, rtol=1e-12)


def test_a_key_by_place_counts_only_at_that_place() -> None:
    """An answer's correction goes to the answer at its pointer; one that points elsewhere is unmatched and counted."""
    ranked = pd.DataFrame(
        {"case_id": ["c1"], "key": ["answer"], "pointer": ["/appended/1/content"], "own_key": [False]}
    )
    item = {"case_id": ["c1"], "key": ["answer"], "yes": [1], "no": [0], "yes_weight": [1.0], "total_weight": [1.0]}
    here = pd.DataFrame({**item, "pointer": ["/appended/1/content"]})
    assert one(coverage(ranked, here))[["n_judged", "n_unmatched"]].tolist() == [1, 0]
    for pointer in ("/appended/0/content", None):
        there = pd.DataFrame({**item, "pointer": pd.Series([pointer], dtype="str")})
        assert one(coverage(ranked, there))[["n_judged", "n_unmatched"]].tolist() == [0, 1]


def test_an_element_in_two_lists_counts_twice() -> None:
    """A corrected item whose id stands in two lists counts in both, as the server has it."""
    case = {"case_id": ["c1", "c1"], "key": ["a", "a"], "pointer": ["/m/0", "/r/0"], "own_key": True, "place": [0, 1]}
    item = {"case_id": ["c1"], "key": ["a"], "pointer": ["/m/0"], "rank": [0], "yes": [1], "no": [0]}
    items = pd.DataFrame({**item, "yes_weight": [1.0], "total_weight": [1.0]})
    assert one(precision_at_k(pd.DataFrame(case), items))["weight"] == 2
    assert one(coverage(pd.DataFrame(case), items))["n_judged"] == 2


def test_two_items_of_one_key_are_refused(worked: Frames) -> None:
    """A case with two corrected items of one key is refused, naming both."""
    ranked, items = worked
    with pytest.raises(ValueError, match="Case 'k1' has 2 corrected items with the key 'a'"):
        coverage(ranked, pd.concat([items, items.iloc[:1]]))


def test_missing_set_ids_still_match(worked: Frames) -> None:
    """Cases of a live test set have no set id and no version; their items match all the same."""
    ranked, items = (frame.assign(test_set_id=None, version=None) for frame in worked)
    expected = one(coverage(*worked))["n_judged"]
    for frame in (ranked.assign(test_set_id=pd.Series([None] * len(ranked), dtype="str")), ranked):
        assert one(coverage(frame, items))["n_judged"] == expected


def test_the_same_case_in_two_versions_stays_apart(worked: Frames) -> None:
    """A case that stands in two versions is matched within each."""
    ranked, items = worked
    both = (pd.concat([f, f.assign(version="2")], ignore_index=True) for f in (ranked, items))
    found = one(coverage(*both))
    assert (found["n_items"], found["n_judged"], found["n_cases"]) == (36, 20, 6)


def test_nothing_to_rank(worked: Frames) -> None:
    """Empty frames make one row without a value, or no rows by a key."""
    ranked, items = (frame.iloc[:0] for frame in worked)
    for statistic, name in ((precision_at_k, "precision"), (coverage, "coverage")):
        found = one(statistic(ranked, items))
        assert np.isnan(found[name])
        assert found["reason"] == "no items"
        assert len(statistic(ranked, items, by="case_id")) == 0


def test_no_output_is_counted(worked: Frames) -> None:
    """Cases without output items are left out of coverage and counted."""
    ranked, items = worked
    found = one(coverage(ranked.iloc[:0], items))
    assert np.isnan(found["coverage"])
    assert found["n_without_output"] == 6
    assert found["reason"] == "no output items"


def test_an_item_that_its_stored_rank_saves_is_not_unmatched(make_items: MakeItems) -> None:
    """Where an output has no list, an item counts by its stored rank, and is left out only beyond k."""
    ranked = pd.DataFrame({"case_id": ["c1"], "key": ["output"], "pointer": [""], "own_key": [False], "place": [None]})
    row = {"case_id": "c1", "pointer": "/m/0", "yes": 1, "no": 0, "yes_weight": 1.0, "total_weight": 1.0}
    items = make_items([{**row, "item_no": i, "key": f"k{i}", "rank": 5 * i} for i in range(2)])
    found = one(precision_at_k(ranked.astype({"place": "Int64"}), items, k=2))
    assert (found["n_items"], found["n_stored_ranks"], found["n_unmatched"]) == (1, 1, 1)


def test_missing_columns_name_the_frame(worked: Frames) -> None:
    """The frame that lacks a column is named."""
    ranked, items = worked
    with pytest.raises(KeyError, match="ranked has no column 'place'"):
        precision_at_k(ranked.drop(columns="place"), items)
    with pytest.raises(KeyError, match="items has no column 'rank'"):
        precision_at_k(ranked, items.drop(columns="rank"))
    with pytest.raises(KeyError, match="ranked has no column 'regoin'"):
        coverage(ranked, items, by="regoin")
