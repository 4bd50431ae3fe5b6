"""A misspelt column, table or choice: the message of every public function suggests the nearest right one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from casekit import plots, stats
from casekit.caseset import CaseSet
from casekit.client import Client
from casekit.dictionary import data_dictionary
from casekit.errors import NAMES_LISTED, nearest
from casekit.schema import empty_tables
from casekit.styles import styled
from casekit.styles.looks import LOOKS
from casekit.writes import add_cases, retire_cases

Frames = dict[str, pd.DataFrame]
MakeItems = Callable[..., pd.DataFrame]

BY_ITEMS: dict[str, Callable[..., Any]] = {
    "yes_rates": stats.yes_rates,
    "expert_weights": stats.expert_weights,
    "agreement": stats.agreement,
    "expert_agreement": stats.expert_agreement,
}
BY_OUTPUTS: dict[str, Callable[..., Any]] = {"precision_at_k": stats.precision_at_k, "coverage": stats.coverage}
OF_OUTPUTS: dict[str, Callable[..., Any]] = {**BY_OUTPUTS, "rank_rates": stats.rank_rates}
PLOTS: dict[str, tuple[Callable[..., Any], str]] = {
    "plot_yes_rates": (plots.plot_yes_rates, "yes_rates"),
    "plot_weights": (plots.plot_weights, "expert_weights"),
    "plot_coefficients": (plots.plot_coefficients, "agreement"),
    "plot_agreement": (plots.plot_agreement, "item_agreement"),
    "plot_comparison": (plots.plot_comparison, "compare"),
    "plot_coverage": (plots.plot_coverage, "coverage"),
    "plot_precision": (plots.plot_precision, "precision_at_k"),
    "plot_ranks": (plots.plot_ranks, "rank_rates"),
    "plot_keys": (plots.plot_keys, "rank_keys"),
}


def calls(items: pd.DataFrame, ranked: pd.DataFrame) -> dict[str, tuple[Callable[[], Any], str]]:
    """A call with a misspelt name for each function and parameter, and the name that is meant."""
    segments = pd.DataFrame({"test_set_id": ["t"], "version": ["1"], "case_id": ["c"], "key": ["k"], "value": ["v"]})
    segments = segments.assign(segmentno=0)
    made = pd.DataFrame({"case_id": ["c"], "tool_id": ["t"], "argument_json": ["{}"]})
    cases = pd.DataFrame(columns=["test_set_id", "version", "case_idd"])
    several = dict.fromkeys(("expected_calls", "corrections", "recorded_calls"))
    empty = CaseSet(empty_tables())
    client = Client("http://127.0.0.1:9", token="t" * 24)
    return {
        **{f"{name} by": (partial(f, items, by="gruop"), "group") for name, f in BY_ITEMS.items()},
        **{f"{name} by of several": (partial(f, items, by=["group", "ky"]), "key") for name, f in BY_ITEMS.items()},
        **{f"{name} by": (partial(f, ranked, items, by="gruop"), "group") for name, f in BY_OUTPUTS.items()},
        **{
            f"{name} weights": (partial(f, ranked, items, weights="experts"), "expert")
            for name, f in OF_OUTPUTS.items()
        },
        **{
            f"{name} ranked": (partial(f, ranked.rename(columns={"own_key": "ownkey"}), items), "ownkey")
            for name, f in OF_OUTPUTS.items()
        },
        "yes_rates items": (lambda: stats.yes_rates(items.rename(columns={"yes_weight": "yesweight"})), "yesweight"),
        "yes_rates weights": (lambda: stats.yes_rates(items, weights="record"), "recorded"),  # type: ignore[arg-type]
        "yes_rates method": (lambda: stats.yes_rates(items, method="Wilsen"), "wilson"),  # type: ignore[arg-type]
        "item_agreement items": (lambda: stats.item_agreement(items.rename(columns={"yes": "yess"})), "yess"),
        "compare by": (lambda: stats.compare(items, items, by="Group"), "group"),
        "compare pair_by": (lambda: stats.compare(items, items, pair_by="caseid"), "case_id"),
        "compare weights": (lambda: stats.compare(items, items, weights="counts"), "count"),  # type: ignore[arg-type]
        "compare cases": (lambda: stats.compare(items, items, cases=(items.assign(eraesd=False),) * 2), "eraesd"),
        "gate weights": (lambda: stats.gate(items, items, min_cases=1, weights="exprt"), "expert"),  # type: ignore[arg-type]
        "rank_keys key": (lambda: stats.rank_keys(items, key="keys"), "key"),
        "rank_keys adjust": (lambda: stats.rank_keys(items, adjust="b"), "b"),  # type: ignore[arg-type]
        "segments_wide": (lambda: stats.segments_wide(items, segments), "segmentno"),
        "grade_decisions made": (
            lambda: stats.grade_decisions(SimpleNamespace(cases=_graded(), **several), made),
            "argument_json",
        ),
        "grade_decisions cases": (
            lambda: stats.grade_decisions(SimpleNamespace(cases=cases, **several), made),
            "case_idd",
        ),
        "grade_decisions source": (
            lambda: stats.grade_decisions(SimpleNamespace(cases=_graded(), **several), made, source="expects"),  # type: ignore[arg-type]
            "expect",
        ),
        "arrow": (lambda: empty.arrow("Item"), "items"),
        "to_csv": (lambda: empty.to_csv("nowhere.csv", table="reason"), "reasons"),
        "data_dictionary": (lambda: data_dictionary("message"), "messages"),
        "add_cases": (lambda: add_cases(pd.DataFrame({"runid": ["r"]}), agent_id="a", client=client), "runid"),
        "retire_cases": (
            lambda: retire_cases(pd.DataFrame({"caseid": ["c"], "reason": ["r"]}), agent_id="a", client=client),
            "caseid",
        ),
    }


def _graded() -> pd.DataFrame:
    """A cases table without rows, with the columns that grading needs."""
    return CaseSet(empty_tables()).cases


NAMES = list(calls(pd.DataFrame({"yes": [1]}), pd.DataFrame({"own_key": [True]})))


@pytest.mark.parametrize("name", NAMES)
def test_a_misspelt_name_has_a_hint(name: str, make_items: MakeItems, make_ranked: Callable[..., pd.DataFrame]) -> None:
    """The message says what is not there, and the nearest that is."""
    items = make_items()
    call, meant = calls(items, make_ranked(items))[name]
    with pytest.raises(Exception, match=rf"did you mean '{meant}"):
        call()


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_names_what_its_frame_lacks(name: str, frames: Frames) -> None:
    """A misspelt column is told with the nearest name, and the statistic that makes such a frame."""
    draw, made_by = PLOTS[name]
    frame = frames[made_by]
    column = "level"
    with pytest.raises(KeyError, match=rf"needs the columns {column} \({column}: did you mean '{column}s'"):
        draw(frame.rename(columns={column: f"{column}s"}))
    with pytest.raises(KeyError, match=f"the frame that {made_by} returns"):
        draw(frame[["weight" if "weight" in frame else "n_cases"]])


def test_every_function_with_names_is_tried() -> None:
    """No statistic, plot or shown frame that takes a name of a column or a choice is left out above."""
    with_names = {
        f"{function} {parameter}"
        for function in stats.__all__
        for parameter in inspect.signature(getattr(stats, function)).parameters
        if parameter in ("by", "key", "weights", "method", "adjust", "source", "pair_by")
    }
    # These hand them on to the function that is tried.
    assert with_names <= set(NAMES)
    assert set(PLOTS) == set(plots.__all__)
    assert set(LOOKS) >= {made_by for _, made_by in PLOTS.values()}
    assert styled.__name__ == "styled"


def test_the_nearest_name_is_a_text_in_any_case() -> None:
    """Case is no difference, other types and very long names are passed over, and a long list is cut and counted."""
    assert nearest("RATE", ["low", "rate"]) == "did you mean 'rate'?"
    assert nearest("rate", [("rate",), 5, None]) == "there are ('rate',), 5, None"
    assert nearest(5, ["5"]) == "there are '5'"
    assert nearest("x" * 100_000, ["x" * 100_000, "b"]).startswith("there are 'xxx")
    assert len(nearest("x" * 100_000, ["x" * 100_000, "b"])) < 100
    many = nearest("?", [f"c{n}" for n in range(NAMES_LISTED + 1200)])
    assert many.endswith("'c39' and 1,200 more")
    assert nearest("\x1b[31m", ["\x1b[31m!"]) == "did you mean '\\x1b[31m!'?"
