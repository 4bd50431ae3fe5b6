"""Yes-rates by rank, and places without a verdict."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casekit.stats import precision_at_k, rank_rates, yes_rates

RAG24 = Path(__file__).parents[2] / "notebooks" / "data" / "rag24" / "run.parquet"
Engines = Callable[[pd.DataFrame], dict[str, Any]]
Frames = tuple[pd.DataFrame, pd.DataFrame]

COUNTS = ["n_slots", "n_judged", "n_unjudged"]
SHARED = ["rate", "low", "high", "se", "n_cases", "n_items", "n_corrections", "weight", "n_eff", "deff", "few_cases"]


def outputs(cases: dict[str, list[str | None]]) -> pd.DataFrame:
    """Make the ranked frame of cases with one list each: keys in order, None a place of a key of its own."""
    rows = [
        {"case_id": case, "key": key or f"{case}-{i}", "pointer": f"/m/{i}", "own_key": True, "rank": i, "place": i}
        for case, keys in cases.items()
        for i, key in enumerate(keys)
    ]
    columns = ["case_id", "key", "pointer", "own_key", "rank", "place"]
    return pd.DataFrame(rows, columns=columns).astype({"own_key": bool, "rank": "Int64", "place": "Int64"})


def verdicts(rows: list[tuple[str, str, int | None, int, int]]) -> pd.DataFrame:
    """Make the items frame: case, key, stored rank, yes and no; each verdict weighs 1, experts' weight is unknown."""
    frame = pd.DataFrame(rows, columns=["case_id", "key", "rank", "yes", "no"]).astype({"rank": "Int64"})
    weights = {"yes_weight": frame["yes"] * 1.0, "total_weight": (frame["yes"] + frame["no"]) * 1.0}
    return frame.assign(pointer=None, **weights, expert_yes_weight=np.nan, expert_total_weight=np.nan)


@pytest.fixture
def two() -> Frames:
    """Two cases of three places: both first places corrected, one second, no third."""
    ranked = outputs({"c1": ["a", "b", "c"], "c2": ["d", "e", "f"]})
    return ranked, verdicts([("c1", "a", 0, 1, 0), ("c2", "d", 0, 1, 1), ("c2", "e", 1, 0, 2)])


def test_rates_and_places_of_each_rank(two: Frames) -> None:
    """A rank's rate is of its corrected items alone, and the places that nobody judged are counted beside it."""
    found = rank_rates(*two)
    assert found["rank"].tolist() == [0, 1, 2]
    assert found["rate"].tolist() == pytest.approx([2 / 3, 0.0, np.nan], nan_ok=True)
    assert found[COUNTS].to_numpy().tolist() == [[2, 2, 0], [2, 1, 1], [2, 0, 2]]
    assert found["n_corrections"].tolist() == [3, 2, 0]
    assert found["reason"].isna().tolist() == [True, False, False]
    assert found["reason"].tolist()[1:] == ["one case", "no corrections"]


def test_intervals_are_those_of_yes_rates(t1: pd.DataFrame) -> None:
    """A rank's numbers are those of the yes-rate of its items, with runs as clusters."""
    items = t1.assign(key=[f"k{i}" for i in range(len(t1))], rank=t1["item_no"].astype("Int64"))
    ranked = items[["case_id", "run_id", "key", "rank"]].assign(pointer=None, own_key=True, place=items["rank"])
    for weights in ("recorded", "expert", "count"):
        found = rank_rates(ranked, items, weights=weights, level=0.9)
        expected = yes_rates(items, by="rank", weights=weights, level=0.9)
        pd.testing.assert_frame_equal(found[["rank", *SHARED]], expected[["rank", *SHARED]], rtol=1e-12)
        assert (found["n_unknown_expert"] == expected["n_unknown_expert"]).all()


def test_the_outputs_rank_decides(two: Frames) -> None:
    """An item stored with another rank, or none, counts where its output has it, and leaves no row behind."""
    ranked, items = two
    expected = rank_rates(ranked, items)
    for stored in (pd.array([7, 8, 9], dtype="Int64"), pd.array([None] * 3, dtype="Int64"), [7.0, np.nan, 0.0]):
        pd.testing.assert_frame_equal(rank_rates(ranked, items.assign(rank=stored)), expected)


def test_stored_ranks_stand_in_for_a_missing_output(two: Frames) -> None:
    """Without an output the stored rank decides; how many places there were stays unknown."""
    ranked, items = two
    found = rank_rates(ranked[ranked["case_id"] == "c1"], items)
    assert found["rate"].tolist() == pytest.approx([2 / 3, 0.0, np.nan], nan_ok=True)
    assert found["n_stored_ranks"].tolist() == [1, 1, 0]
    assert found[COUNTS].to_numpy().tolist() == [[1, 1, 0], [1, 0, 1], [1, 0, 1]]
    assert found["reason"].tolist()[1:] == ["one case", "no corrections"]


def test_items_without_a_rank_are_a_row_of_their_own(two: Frames) -> None:
    """An answer has no rank: it is in the last row, once, also where the case has no list at all."""
    ranked, items = two
    answers = pd.DataFrame({"case_id": ["c1", "c3"], "key": "answer", "pointer": "/answer", "own_key": False})
    answers = answers.assign(rank=None, place=None).astype({"rank": "Int64", "place": "Int64"})
    said = verdicts([("c1", "answer", None, 1, 0), ("c3", "answer", None, 0, 1)]).assign(pointer="/answer")
    found = rank_rates(pd.concat([ranked, answers]), pd.concat([items, said]))
    assert found["rank"].isna().tolist() == [False, False, False, True]
    last = found.iloc[-1]
    assert (last["rate"], last["n_items"], last["n_slots"], last["n_stored_ranks"]) == (0.5, 2, 2, 0)
    pd.testing.assert_frame_equal(found.iloc[:-1], rank_rates(ranked, items))


def test_corrected_items_of_no_output_are_counted(two: Frames) -> None:
    """A corrected item that its output does not have is left out, and counted at its stored rank."""
    ranked, items = two
    lost = verdicts([("c1", "gone", 1, 5, 0), ("c1", "too", 9, 5, 0)])
    found = rank_rates(ranked, pd.concat([items, lost]))
    assert found["rank"].tolist() == [0, 1, 2, 9]
    assert found["n_unmatched"].tolist() == [0, 1, 0, 1]
    assert found["rate"].tolist()[1] == 0.0
    assert found["reason"].tolist()[3] == "in no output"


def test_an_item_without_weight_is_judged_but_no_evidence(two: Frames) -> None:
    """An item corrected at weight 0 leaves its place judged, and is counted as left out."""
    ranked, items = two
    found = rank_rates(ranked, items.assign(yes_weight=0.0, total_weight=0.0))
    assert found["n_judged"].tolist() == [2, 1, 0]
    assert found["n_zero_weight"].tolist() == [2, 1, 0]
    assert found["reason"].tolist() == ["no weight", "no weight", "no corrections"]
    assert found["rate"].isna().all()


def test_experts_alone(two: Frames) -> None:
    """With experts alone an item of others is not judged, and unknown experts are counted where the item is."""
    ranked, items = two
    items = items.assign(expert_yes_weight=[1.0, 0.0, np.nan], expert_total_weight=[1.0, 0.0, np.nan])
    found = rank_rates(ranked, items.assign(rank=pd.array([None] * 3, dtype="Int64")), weights="expert")
    assert found["n_judged"].tolist() == [1, 0, 0]
    assert found["n_unknown_expert"].tolist() == [0, 1, 0]
    assert found["rate"].tolist() == pytest.approx([1.0, np.nan, np.nan], nan_ok=True)


def test_two_lists_have_two_places_of_one_rank() -> None:
    """Lists of one output stand side by side: both first elements are of rank 0."""
    case = {"case_id": "c1", "key": ["a", "b"], "pointer": ["/m/0", "/r/0"], "own_key": True}
    ranked = pd.DataFrame({**case, "rank": [0, 0], "place": [0, 1]})
    found = rank_rates(ranked, verdicts([("c1", "b", 0, 1, 0)]))
    assert found[["rank", *COUNTS]].to_numpy().tolist() == [[0, 2, 1, 1]]


def test_engines_agree(two: Frames, engines: Engines) -> None:
    """Every engine gives the same, also when the two frames are of different ones, and with nothing stored."""
    ranked, items = two
    items = items.assign(pointer=pd.Series([None] * 3, dtype="str"))
    gone = pd.concat([items, verdicts([("c1", "gone", 5, 1, 0)]).assign(pointer="/x")], ignore_index=True)
    for frame in (items, gone, items.assign(rank=items["rank"].astype("float64"))):
        for weights in ("recorded", "expert"):
            expected = rank_rates(ranked, frame, weights=weights)
            for name, other in engines(frame).items():
                for left in (ranked, engines(ranked)[name]):
                    pd.testing.assert_frame_equal(rank_rates(left, other, weights=weights), expected, rtol=1e-12)


def test_nothing_to_rank(two: Frames) -> None:
    """Empty frames make no rows, with the columns and dtypes of all others."""
    ranked, items = (frame.iloc[:0] for frame in two)
    found = rank_rates(ranked, items)
    assert len(found) == 0
    assert found.dtypes.to_dict() == rank_rates(*two).dtypes.to_dict()


def test_what_cannot_be_is_refused(two: Frames) -> None:
    """A missing column, a broken rank, a level or weights that cannot be: each is named."""
    ranked, items = two
    with pytest.raises(KeyError, match="ranked has no column 'rank'"):
        rank_rates(ranked.drop(columns="rank"), items)
    with pytest.raises(KeyError, match="items has no column 'rank'"):
        rank_rates(ranked, items.drop(columns="rank"))
    for odd, written in ((0.5, r"0\.5"), (-1, r"-1\.0"), (np.inf, "inf"), (1e19, r"1e\+19")):
        with pytest.raises(ValueError, match=rf"The rank {written} is no whole number"):
            rank_rates(ranked.assign(rank=odd), items)
    with pytest.raises(ValueError, match="must hold numbers"):
        rank_rates(ranked.assign(rank="first"), items)
    with pytest.raises(ValueError, match="level=2"):
        rank_rates(ranked, items, level=2)
    with pytest.raises(ValueError, match="contradict"):
        rank_rates(ranked, items.assign(yes_weight=9.0))


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_ranks_add_up_to_the_first_k(data: st.DataObject) -> None:
    """Weights, items, corrections and places of the ranks below k are those of precision at k."""
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    ranked = outputs({f"c{i}": [f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)})
    count = st.integers(0, 3)
    rows = [
        (f"c{i}", f"{i}.{j}", data.draw(st.sampled_from([j, None])), data.draw(count), data.draw(count))
        for i, n in enumerate(lengths)
        for j in range(n)
        if data.draw(st.booleans())
    ]
    items = verdicts(rows)
    k = data.draw(st.integers(1, 6))
    by_rank = rank_rates(ranked, items)
    top = precision_at_k(ranked, items, k=k).iloc[0]
    first = by_rank[by_rank["rank"] < k]
    for name in ("weight", "n_items", "n_corrections", "n_slots", "n_judged"):
        assert first[name].sum() == top[name]
    assert (by_rank["n_judged"] + by_rank["n_unjudged"] == by_rank["n_slots"]).all()
    assert by_rank["n_judged"].sum() == len(items)
    known = by_rank.dropna(subset="low")
    assert ((known["low"] <= known["rate"]) & (known["rate"] <= known["high"])).all()


def test_real_rankings_lose_their_verdicts_downwards() -> None:
    """Of 31 topics with 100 ranked documents each, all places are counted and nothing is unmatched."""
    run = pd.read_parquet(RAG24)
    case = {"case_id": run["topic"].astype("str"), "key": run["docno"], "rank": run["rank"], "pointer": None}
    ranked = pd.DataFrame({**case, "own_key": True, "place": run["rank"]})
    judged = run["relevant"].notna()
    yes = run["relevant"].fillna(False).astype("int64")
    items = pd.DataFrame({**case, "yes": yes, "no": 1 - yes, "yes_weight": yes * 1.0, "total_weight": 1.0})[judged]
    found = rank_rates(ranked, items)
    assert found["rank"].tolist() == list(range(100))
    assert (found["n_slots"] == 31).all()
    assert found["n_judged"].sum() == len(items)
    assert found["n_unjudged"].head(10).sum() < found["n_unjudged"].tail(10).sum()
    assert found["rate"].head(3).tolist() == pytest.approx([25 / 29, 24 / 27, 25 / 29])
