"""Arguments of a wrong kind: each is refused by its name, in a sentence of casekit's own."""

import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from casekit import stats

CASE = {"test_set_id": ["acme.a"], "version": ["1.0.0"], "case_id": ["c1"]}
ITEMS = pd.DataFrame(
    {
        "case_id": ["c1", "c2"],
        "key": ["secret-words", "b"],
        "pointer": "/m/0",
        "rank": 0,
        "yes": 1,
        "no": [0, 1],
        "yes_weight": 1.0,
        "total_weight": [1.0, 2.0],
        "expert_yes_weight": 0.0,
        "expert_total_weight": 0.0,
        "ids": [["x"], ["y"]],
    }
)
RANKED = ITEMS[["case_id", "key", "pointer", "rank"]].assign(own_key=True, place=0)
STEPS = pd.DataFrame({**CASE, "segment_no": [0], "key": ["region"], "value": ["north"]})
MADE = pd.DataFrame({"case_id": ["c1"], "tool_id": ["find"], "arguments_json": ["{}"]})
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "yes_rates": (stats.yes_rates, {"items": ITEMS}),
    "expert_weights": (stats.expert_weights, {"items": ITEMS}),
    "expert_agreement": (stats.expert_agreement, {"items": ITEMS}),
    "agreement": (stats.agreement, {"items": ITEMS}),
    "item_agreement": (stats.item_agreement, {"items": ITEMS}),
    "rank_keys": (stats.rank_keys, {"items": ITEMS}),
    "precision_at_k": (stats.precision_at_k, {"ranked": RANKED, "items": ITEMS}),
    "coverage": (stats.coverage, {"ranked": RANKED, "items": ITEMS}),
    "rank_rates": (stats.rank_rates, {"ranked": RANKED, "items": ITEMS}),
    "compare": (stats.compare, {"before": ITEMS, "after": ITEMS}),
    "gate": (stats.gate, {"before": ITEMS, "after": ITEMS, "min_cases": 1}),
    "segments_wide": (stats.segments_wide, {"frame": pd.DataFrame(CASE), "segments": STEPS}),
}
# What no number and no name can be; a table stands for itself, wherever it is put.
NOTHING_USABLE = [object(), 1j, [["x"]], np.array(3), ITEMS, lambda: None, float("nan"), b"x"]
OF_STATISTIC = {
    "yes_rates": ["by", "weights", "method", "level", "seed", "n_resamples"],
    "expert_weights": ["by", "level"],
    "expert_agreement": ["by", "level"],
    "agreement": ["by", "level"],
    "item_agreement": ["level"],
    "rank_keys": ["key", "level", "adjust"],
    "precision_at_k": ["k", "by", "weights", "level"],
    "coverage": ["by", "weights", "level"],
    "rank_rates": ["weights", "level"],
    "compare": ["by", "weights", "level", "pair_by", "cases"],
    "gate": ["min_cases", "min_weight", "min_candidate", "max_drop", "weights", "n_resamples", "seed"],
}
ARGUMENTS = [(name, argument) for name, arguments in OF_STATISTIC.items() for argument in arguments]
TABLES = [(name, table) for name, (_, given) in CALLS.items() for table in given if table != "min_cases"]


def refused(name: str, **wrong: Any) -> str:
    """The message that a statistic refuses an argument with, after a look at where it comes from."""
    call, given = CALLS[name]
    with pytest.raises(ValueError, match=" ") as caught:
        call(**{**given, **wrong})
    message = str(caught.value)
    assert "casekit" in traceback.extract_tb(caught.tb)[-1].filename
    assert type(caught.value) is ValueError
    assert len(message) < 2000
    assert "secret-words" not in message
    return message


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_an_argument_of_a_wrong_kind_is_named(name: str, argument: str) -> None:
    """Whatever is no number, choice or column is refused by the argument's name, and shows no cell of a table."""
    for wrong in NOTHING_USABLE:
        if argument == "by" and wrong is ITEMS:  # its columns' names are a list of names
            continue
        assert argument in refused(name, **{argument: wrong})


@pytest.mark.parametrize(("name", "table"), TABLES)
@pytest.mark.parametrize("wrong", [None, 5, "items.parquet", {"case_id": ["c1"]}, [ITEMS], ITEMS["yes"], np.zeros(2)])
def test_what_is_no_table_is_named(name: str, table: str, wrong: Any) -> None:
    """What is no table is refused by the argument's name and its own kind."""
    message = refused(name, **{table: wrong})
    assert message.startswith(f"{table} must be a table")
    assert message.endswith(f"not a {type(wrong).__name__}.")


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_a_column_stands_once(name: str, table: str) -> None:
    """A table with two columns of one name is refused: neither is the one that is meant."""
    given = CALLS[name][1][table]
    assert "two columns of one name" in refused(name, **{table: pd.concat([given, given], axis=1)})


@pytest.mark.parametrize("too_many", [10**30, 10**400, 2**31])
def test_no_number_is_too_large_to_be_refused(too_many: int) -> None:
    """A number beyond all use is refused by name, not by an overflow somewhere below."""
    assert "k=" in refused("precision_at_k", k=too_many)
    assert "n_resamples=" in refused("yes_rates", n_resamples=too_many)
    assert "n_resamples=" in refused("gate", n_resamples=too_many)
    assert "level=" in refused("agreement", level=too_many)


def test_no_limit_is_too_large_to_be_refused() -> None:
    """A limit that no float holds is refused; the largest float is a limit that nothing reaches."""
    assert "min_weight=" in refused("gate", min_weight=10**400)
    highest = stats.gate(ITEMS, ITEMS, min_weight=np.finfo(float).max, n_resamples=2, seed=1)
    assert highest["passed"].tolist() == [False, False]


@pytest.mark.parametrize("seed", [0, np.int64(3), 10**30])
def test_a_seed_is_any_whole_number(seed: Any) -> None:
    """Any whole number from 0 up is a seed, of numpy's type too."""
    assert len(stats.yes_rates(ITEMS, seed=seed)) == 1
    assert "seed=-1" in refused("yes_rates", seed=-1)
    assert "seed=True" in refused("gate", seed=True)


@pytest.mark.parametrize("name", ["yes_rates", "agreement", "expert_weights", "compare"])
def test_lists_are_no_groups(name: str) -> None:
    """A column of lists is refused as a group by its name."""
    assert "'ids'" in refused(name, by="ids")


def test_keys_that_are_lists_are_refused() -> None:
    """Where items are matched by key, a column of lists is refused in either table."""
    lists = ITEMS["ids"]
    assert "'key'" in refused("coverage", items=ITEMS.assign(key=lists))
    assert "'key' of ranked" in refused("coverage", ranked=RANKED.assign(key=lists))
    assert "'case_id'" in refused("yes_rates", items=ITEMS.assign(case_id=lists))


@pytest.mark.parametrize("table", ["ranked", "items"])
def test_a_rank_is_a_number(table: str) -> None:
    """Places and ranks of text are refused, not compared with k."""
    column, given = {"ranked": ("place", RANKED), "items": ("rank", ITEMS)}[table]
    assert f"'{column}' holds String" in refused("precision_at_k", **{table: given.assign(**{column: "first"})})


def test_missing_ranks_are_no_text() -> None:
    """A column of ranks that are all missing is a column of numbers, whatever type it came with."""
    unranked = ITEMS.assign(rank=pd.Series([None, None], dtype=object))
    assert stats.precision_at_k(RANKED, unranked)["n_items"].tolist() == [2]


@pytest.mark.parametrize("cases", [5, ITEMS, (ITEMS,), (ITEMS, ITEMS, ITEMS), (5, 6), "ab"])
def test_cases_are_a_pair_of_tables(cases: Any) -> None:
    """Anything but two tables of cases is refused."""
    assert refused("compare", cases=cases).startswith("cases")


@pytest.mark.parametrize("expected", [None, 5, ITEMS, SimpleNamespace(cases=None)])
def test_graded_cases_are_a_caseset(expected: Any) -> None:
    """What has no tables of cases is refused, and so is a flag that is neither true nor false."""
    with pytest.raises(ValueError, match="expected must be a CaseSet"):
        stats.grade_decisions(expected, MADE)
    no: Any = "no"
    with pytest.raises(ValueError, match="experts_only='no' must be True or False"):
        stats.grade_decisions(expected, MADE, experts_only=no)
