"""Frames as the statistics return them, and figures closed after each test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from casekit import plots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes


class FrameMaker(Protocol):
    """Makes a statistic's frame with one row per label."""

    def __call__(self, labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
        """Make the frame; ``columns`` are set afterwards."""


@pytest.fixture(autouse=True)
def _fresh_canvas() -> Iterator[None]:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["backend"] = "Agg"
        yield
    plt.close("all")


def rates_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as yes_rates returns it."""
    n = len(labels)
    rate = np.linspace(0.3, 0.9, n)
    frame = pd.DataFrame(
        {
            "version": pd.Series(list(labels), dtype=object),
            "rate": rate,
            "low": rate - 0.1,
            "high": rate + 0.05,
            "se": 0.04,
            "n_cases": np.arange(n) + 1200,
            "n_items": np.arange(n) + 2000,
            "n_corrections": np.arange(n) + 3000,
            "weight": 10.0,
            "n_eff": 50.0,
            "deff": 1.2,
            "few_cases": False,
            "n_zero_weight": 0,
            "n_unknown_expert": 0,
            "weights": "recorded",
            "method": "wilson",
            "level": 0.95,
            "reason": pd.Series([None] * n, dtype=object),
        }
    )
    return frame.assign(**columns)


def weights_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as expert_weights returns it: 4 yes and 2 no of experts, 1 yes and 3 no of others."""
    n = len(labels)
    frame = pd.DataFrame(
        {
            "version": pd.Series(list(labels), dtype=object),
            "weight": np.full(n, 10.0),
            "expert_weight": 6.0,
            "other_weight": 4.0,
            "expert_share": 0.6,
            "share_se": 0.05,
            "share_low": 0.5,
            "share_high": 0.7,
            "yes_weight": 5.0,
            "no_weight": 5.0,
            "expert_yes_weight": 4.0,
            "expert_no_weight": 2.0,
            "other_yes_weight": 1.0,
            "other_no_weight": 3.0,
            "n_cases": np.arange(n) + 1200,
            "n_items": np.arange(n) + 2000,
            "n_corrections": np.arange(n) + 3000,
            "n_unknown_expert": 0,
            "effective_cases": 5.0,
            "top_share": 0.4,
            "hhi": 0.2,
            "gini": 0.3,
            "kish_low": 1.0,
            "kish_high": 1.0,
            "level": 0.95,
            "reason": pd.Series([None] * n, dtype=object),
        }
    )
    return frame.assign(**columns)


def coverage_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as coverage returns it."""
    rates = rates_frame(labels).rename(columns={"rate": "coverage"})
    lacking = ["weight", "n_zero_weight", "method"]
    frame = rates.drop(columns=lacking).assign(n_judged=400, n_without_output=0, n_unmatched=0, case_mean=0.5)
    return frame.assign(**columns)


def precision_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as precision_at_k returns it."""
    rates = rates_frame(labels).rename(columns={"rate": "precision"}).drop(columns=["n_zero_weight", "method"])
    frame = rates.assign(judged_share=0.25, n_stored_ranks=0, n_unmatched=0, k=10, n_slots=40, n_judged=10)
    return frame.assign(**columns)


def keys_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as rank_keys returns it: shrunk rates between the rates and their mean."""
    rates = rates_frame(labels)
    frame = rates[["version"]].assign(
        rank=np.arange(len(labels)) + 1,
        rate=rates["rate"],
        shrunk_rate=(rates["rate"] + 0.6) / 2,
        low=0.2,
        high=0.8,
        rest_rate=0.5,
        difference=0.1,
        p_value=0.01,
        q_value=0.02,
        n_cases=rates["n_cases"],
        n_items=10,
        n_yes=6,
        n_corrections=rates["n_corrections"],
        n_keys=len(labels),
        n_tested=len(labels),
        prior_mean=0.6,
        prior_strength=8.0,
        level=0.95,
        reason=rates["reason"],
    )
    return frame.assign(**columns)


def comparison_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as compare returns it, of the columns that are drawn."""
    rates = rates_frame(labels)
    frame = rates[["version"]].assign(
        before_rate=0.5,
        after_rate=0.6,
        difference=0.1,
        low=0.02,
        high=0.18,
        method="paired",
        common_difference=0.05,
        n_cases=rates["n_cases"],
        n_cases_common=70,
        n_cases_erased=pd.Series([pd.NA] * len(labels), dtype="Int64"),
        n_items_added=5,
        n_items_removed=1,
        n_items_changed=9,
        few_cases=False,
        weights="recorded",
        level=0.95,
        reason=rates["reason"],
    )
    return frame.assign(**columns)


def coefficients_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as agreement returns it, of the columns that are drawn."""
    rates = rates_frame(labels)
    values = {"percent": 0.8, "ac1": 0.6, "alpha": 0.5}
    ends = {"": 0.0, "_low": -0.1, "_high": 0.15}
    frame = rates[["version"]].assign(
        **{f"{name}{end}": value + off for name, value in values.items() for end, off in ends.items()},
        n_cases=rates["n_cases"],
        n_compared=60,
        n_single=9,
        n_corrections=rates["n_corrections"],
        few_cases=False,
        level=0.95,
        reason=rates["reason"],
    )
    return frame.assign(**columns)


def ranks_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as rank_rates returns it, with one rank per label."""
    rates = rates_frame(labels).drop(columns=["version", "method"])
    rates.insert(0, "rank", pd.Series(range(len(labels)), dtype="Int64"))
    frame = rates.assign(n_slots=40, n_judged=30, n_unjudged=10, n_stored_ranks=0, n_unmatched=0)
    return frame.assign(**columns)


def agreement_frame(labels: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """Make a frame as item_agreement returns it: every item contested, with 2 of 4 yes."""
    n = len(labels)
    frame = pd.DataFrame(
        {
            "case_id": [f"c{i}" for i in range(n)],
            "item_no": 0,
            "key": pd.Series(list(labels), dtype=object),
            "n_yes": np.full(n, 2),
            "n_corrections": 4,
            "yes_share": 0.5,
            "low": 0.15,
            "high": 0.85,
            "weight": 4.0,
            "contested": True,
            "contested_from": 0.4,
            "level": 0.95,
            "reason": pd.Series([None] * n, dtype=object),
        }
    )
    return frame.assign(**columns)


@pytest.fixture
def make_rates() -> FrameMaker:
    """Frames as yes_rates returns them."""
    return rates_frame


@pytest.fixture
def make_weights() -> FrameMaker:
    """Frames as expert_weights returns them."""
    return weights_frame


@pytest.fixture
def make_coverage() -> FrameMaker:
    """Frames as coverage returns them."""
    return coverage_frame


@pytest.fixture
def make_precision() -> FrameMaker:
    """Frames as precision_at_k returns them."""
    return precision_frame


@pytest.fixture
def make_keys() -> FrameMaker:
    """Frames as rank_keys returns them."""
    return keys_frame


@pytest.fixture
def make_comparison() -> FrameMaker:
    """Frames as compare returns them."""
    return comparison_frame


@pytest.fixture
def make_coefficients() -> FrameMaker:
    """Frames as agreement returns them."""
    return coefficients_frame


@pytest.fixture
def make_ranks() -> FrameMaker:
    """Frames as rank_rates returns them."""
    return ranks_frame


@pytest.fixture
def make_agreement() -> FrameMaker:
    """Frames as item_agreement returns them."""
    return agreement_frame


@dataclass(frozen=True)
class Kind:
    """A plot, the statistic whose frame it draws, and a maker of such frames."""

    draw: Callable[..., Axes]
    made_by: str
    make: FrameMaker


FORESTS = [
    Kind(plots.plot_yes_rates, "yes_rates", rates_frame),
    Kind(plots.plot_weights, "expert_weights", weights_frame),
    Kind(plots.plot_coverage, "coverage", coverage_frame),
    Kind(plots.plot_precision, "precision_at_k", precision_frame),
    Kind(plots.plot_keys, "rank_keys", keys_frame),
    Kind(plots.plot_comparison, "compare", comparison_frame),
    Kind(plots.plot_coefficients, "agreement", coefficients_frame),
]
PLANES = [
    Kind(plots.plot_ranks, "rank_rates", ranks_frame),
    Kind(plots.plot_agreement, "item_agreement", agreement_frame),
]


@pytest.fixture(params=[*FORESTS, *PLANES], ids=lambda kind: kind.draw.__name__)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each plot in turn."""
    found: Kind = request.param
    return found


@pytest.fixture(params=FORESTS, ids=lambda kind: kind.draw.__name__)
def forest(request: pytest.FixtureRequest) -> Kind:
    """Each plot with a row per group in turn."""
    found: Kind = request.param
    return found


@pytest.fixture(params=PLANES, ids=lambda kind: kind.draw.__name__)
def plane(request: pytest.FixtureRequest) -> Kind:
    """Each plot with two scales in turn."""
    found: Kind = request.param
    return found
