"""How the frame of each statistic looks when it is shown: which figures, in which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from casekit.errors import nearest
from casekit.plots.captions import left_out, weight_words
from casekit.plots.columns import levels
from casekit.plots.comparison import METHODS as COMPARISONS
from casekit.plots.labels import plain
from casekit.plots.yes_rates import METHODS
from casekit.styles.cells import (
    Figure,
    change,
    coefficients,
    count,
    lists,
    measured,
    moved,
    one_digit,
    p_value,
    percent,
    reasons,
    share,
    weights,
    words,
    yes_or_no,
)

__all__ = ["LOOKS", "Look", "look_of"]


@dataclass(frozen=True)
class Look:
    """How one statistic's frame is shown.

    Attributes
    ----------
    title : str
        What it is, in words.
    first : str
        The first column of the statistic's own: those before it are the groups' keys.
    marks : tuple of str
        Columns that tell the frame from other statistics'.
    figures : mapping of str to Figure
        What is shown, by heading.
    keys : tuple of str
        The columns that name a row, for a frame that is not grouped.
    folded : tuple of str
        Of the columns that name a row, those that are told once, below, when they are the same in every row.
    brackets : str
        How the interval in brackets was found.
    words : tuple of str
        Sentences that belong below every such frame.
    experts : bool
        Items of unknown expert weight are always left out, whosever weights count.
    """

    title: str
    first: str
    marks: tuple[str, ...]
    figures: Mapping[str, Figure]
    keys: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    brackets: str = ""
    words: tuple[str, ...] = ()
    experts: bool = False

    @property
    def needed(self) -> list[str]:
        """The columns that the frame must have."""
        of_figures = [name for figure in self.figures.values() for name in figure.columns]
        return list(dict.fromkeys([self.first, *self.marks, *self.keys, *of_figures]))

    def key_names(self, frame: pd.DataFrame) -> list[str]:
        """The columns that name a row."""
        same = self._same(frame)
        return [name for name in self._names(frame) if name not in same]

    def _names(self, frame: pd.DataFrame) -> list[Any]:
        return list(self.keys or frame.columns[: list(frame.columns).index(self.first)])

    def _same(self, frame: pd.DataFrame) -> list[Any]:
        names = [name for name in self._names(frame) if name in self.folded]
        return [name for name in names if len(frame[name].drop_duplicates()) == 1]

    def caption(self, frame: pd.DataFrame) -> list[str]:
        """Say what is shown: level and method of the intervals, whose weights count, what was left out."""
        told = ", ".join(f"{name} {plain(frame[name].iloc[0])}" for name in self._same(frame))
        return [
            *([f"All rows: {told}."] if told else []),
            *_interval_words(frame, self.brackets),
            *(weight_words(frame) if "weights" in frame.columns else []),
            *self.words,
            *filter(None, [_left_out(frame, np.full(len(frame), self.experts))]),
        ]


def look_of(name: str, frame: pd.DataFrame) -> Look:
    """The look of a frame, found by its columns.

    Parameters
    ----------
    name
        Of the function that shows it, for messages.
    frame
        As a statistic returns it.

    Raises
    ------
    KeyError
        It is no statistic's frame, or lacks a column; the message has the nearest name.
    """
    have = list(frame.columns)
    if not frame.columns.is_unique:
        raise KeyError(f"{name} takes the frame of a statistic, in which each column stands once.")
    marked = [by for by, look in LOOKS.items() if set(look.marks) <= set(have)]
    by, lacking, near = min(
        ((by, *_lacking(LOOKS[by], have)) for by in marked or LOOKS), key=lambda found: (len(found[1]), not found[2])
    )
    if not lacking:
        return LOOKS[by]
    if not marked and not near:
        raise KeyError(f"{name} takes the frame of {', '.join(LOOKS)}: this one has the columns of none of them.")
    raise KeyError(f"{name} needs the columns {', '.join(lacking)}{near}: give it the frame that {by} returns.")


def _lacking(look: Look, have: list[Any]) -> tuple[list[str], str]:
    """The columns that a look needs and a frame lacks, and the name that is nearest to the first of them."""
    lacking = [column for column in look.needed if column not in have]
    others = [column for column in have if column not in look.needed]
    hint = nearest(lacking[0], others) if lacking else ""
    return lacking, f" ({lacking[0]}: {hint})" if hint.endswith("?") else ""


# ---------------------------------------------------------------- captions


def _interval_words(frame: pd.DataFrame, brackets: str) -> list[str]:
    if not brackets or "level" not in frame.columns:
        return []
    shown = levels(frame)
    if "method" in frame.columns:
        known = METHODS | COMPARISONS
        methods = [known.get(method, plain(method)) for method in frame["method"].dropna().unique()]
        if not methods:  # no row has an interval
            return []
        brackets = brackets.format("; ".join(methods))
    return [f"In brackets: {shown} interval, {brackets}."] if shown else []


def _left_out(frame: pd.DataFrame, experts: np.ndarray[Any, Any]) -> str:
    phrases = {
        "n_without": "item without corrections",
        "n_zero_weight": "item without weight",
        "n_without_output": "case without output",
        "n_unmatched": "item corrected, but in no output",
    }
    parts = {phrase: frame[name] for name, phrase in phrases.items() if name in frame.columns}
    if "weights" in frame.columns:
        experts = experts | frame["weights"].eq("expert").fillna(False).to_numpy(dtype=bool)
    if "n_unknown_expert" in frame.columns:  # everyone's weights are known where experts' are not
        parts["item whose expert weight is unknown"] = frame["n_unknown_expert"][experts]
    return left_out(parts)


# ---------------------------------------------------------------- statistics

_BY_RUN: Final = "{}; clustered by run"
_WILSON: Final = "Wilson's score at the effective number of corrections; clustered by run"
_LEAVE_ONE_OUT: Final = "Student's t, standard error from leaving out one run at a time"
_OF_SET: Final = ("test_set_id", "version")
_CASES: Final = {"Cases": count("n_cases")}
_CORRECTIONS: Final = {"Corrections": count("n_corrections")}
_WEIGHT: Final = {"Weight": Figure(weights, ("weight",))}

LOOKS: Final[dict[str, Look]] = {
    "yes_rates": Look(
        "How often people said yes",
        "rate",
        ("n_eff", "method", "rate"),
        {
            "Share of yes": share("rate"),
            **_CASES,
            "Items": count("n_items"),
            **_CORRECTIONS,
            **_WEIGHT,
        },
        brackets=_BY_RUN,
    ),
    "rank_rates": Look(
        "How often people said yes, by rank",
        "rate",
        ("rate", "n_unjudged"),
        {
            "Share of yes": share("rate"),
            **_CASES,
            "Places": count("n_slots"),
            "Without verdict": count("n_unjudged"),
            **_CORRECTIONS,
        },
        brackets=_WILSON,
        words=("Rank 0 is first.",),
    ),
    "expert_weights": Look(
        "Whose weight counts",
        "weight",
        ("expert_share", "hhi"),
        {
            "Experts' share": share("expert_share", "share_low", "share_high"),
            **_WEIGHT,
            "Experts'": Figure(weights, ("expert_weight",)),
            "Others'": Figure(weights, ("other_weight",)),
            **_CASES,
            **_CORRECTIONS,
            "Effective cases": Figure(one_digit, ("effective_cases",)),
        },
        brackets=_WILSON,
        words=("Effective cases: so many of equal weight would be as concentrated.",),
    ),
    "agreement": Look(
        "Agreement between corrections of one item",
        "percent",
        ("ac1", "alpha", "percent"),
        {
            "Percent": share("percent", "percent_low", "percent_high"),
            "AC1": Figure(coefficients, ("ac1", "ac1_low", "ac1_high")),
            "Alpha": Figure(coefficients, ("alpha", "alpha_low", "alpha_high")),
            **_CASES,
            "Compared": count("n_compared"),
            **_CORRECTIONS,
        },
        brackets=_LEAVE_ONE_OUT,
        words=(
            "Gwet's AC1 and Krippendorff's alpha: 0 is what chance alone would give, 1 is full agreement.",
            "Compared: items with two corrections or more.",
        ),
    ),
    "item_agreement": Look(
        "Agreement on each item",
        "n_yes",
        ("yes_share", "contested_from"),
        {
            "Share of yes": share("yes_share"),
            "Yes": count("n_yes"),
            **_CORRECTIONS,
            **_WEIGHT,
            "Contested": Figure(yes_or_no, ("contested",)),
        },
        folded=(*_OF_SET, "item_no"),
        brackets="Wilson's score",
        words=("Each verdict counts once.",),
    ),
    "expert_agreement": Look(
        "Experts against all others, on the same items",
        "expert_rate",
        ("expert_rate", "other_rate", "gap"),
        {
            "Experts: yes": percent("expert_rate"),
            "Others: yes": percent("other_rate"),
            "Gap, points": change("gap", "gap_low", "gap_high"),
            "Agreement": share("agreement", "agreement_low", "agreement_high"),
            "Kappa": Figure(coefficients, ("kappa", "kappa_low", "kappa_high")),
            **_CASES,
            "Items of both": count("n_both"),
        },
        brackets="clustered by run",
        words=("Gap: experts' share of yes less the others'.", "Agreement: of items where neither side ties."),
        experts=True,
    ),
    "precision_at_k": Look(
        "Share of yes among the first k items",
        "precision",
        ("precision", "judged_share"),
        {
            "Share of yes": share("precision"),
            "k": count("k"),
            "Judged": percent("judged_share"),
            **_CASES,
            "Items": count("n_items"),
            **_CORRECTIONS,
        },
        brackets=_WILSON,
        words=("Judged: share of the first places that anybody corrected.",),
    ),
    "coverage": Look(
        "Share of the outputs' items that somebody corrected",
        "coverage",
        ("coverage", "n_judged"),
        {
            "Corrected": share("coverage"),
            "Items": count("n_items"),
            "With corrections": count("n_judged"),
            **_CASES,
            **_CORRECTIONS,
        },
        brackets="Wilson's score at the effective number of items; clustered by run",
    ),
    "compare": Look(
        "Change of the share of yes",
        "before_rate",
        ("before_rate", "after_rate", "difference"),
        {
            "Before": percent("before_rate"),
            "After": percent("after_rate"),
            "Change, points": change("difference", "low", "high"),
            "p": p_value("p_value"),
            **_CASES,
            "In both": count("n_cases_common"),
            "Items": moved(),
        },
        brackets=_BY_RUN,
        words=("p: of no change.", "Items: added +, removed −, changed ~."),
    ),
    "gate": Look(
        "Would the rule pass?",
        "value",
        ("check", "passed", "pass_share"),
        {
            "Value": Figure(measured, ("check", "value")),
            "Limit": Figure(measured, ("check", "limit")),
            "Passed": Figure(yes_or_no, ("passed",)),
            "Of resamples": percent("pass_share"),
            "Resamples": count("n_resamples"),
            **_CASES,
        },
        words=("Of resamples: share of the resamples of cases that pass.",),
    ),
    "grade_decisions": Look(
        "Tool calls against what the cases expect",
        "decisions",
        ("verdict", "n_matched", "missing_calls"),
        {
            "Verdict": Figure(words, ("verdict",)),
            "Expected": count("n_expected"),
            "Matched": count("n_matched"),
            "Made": count("n_made"),
            "Not called": Figure(lists, ("missing_calls",), words=True),
            "Forbidden, but called": Figure(lists, ("forbidden_calls",), words=True),
        },
        keys=(*_OF_SET, "case_id"),
        folded=_OF_SET,
    ),
    "rank_keys": Look(
        "Keys, best first",
        "rank",
        ("shrunk_rate", "prior_strength"),
        {
            "Rank": count("rank"),
            "Cautious share of yes": share("shrunk_rate"),
            "As counted": percent("rate"),
            "Difference, points": change("difference"),
            "q": p_value("q_value"),
            **_CASES,
            **_CORRECTIONS,
        },
        brackets="of the share drawn towards all keys' share",
        words=(
            "Ranked by the lower end.",
            "Difference: from the share of all other keys.",
            "q: of no difference, adjusted for the number of keys.",
        ),
    ),
    "summary": Look(
        "Test sets",
        "n_cases",
        ("n_erased", "n_retired", "yes_rate"),
        {
            **_CASES,
            "Share of yes": share("yes_rate", "yes_low", "yes_high"),
            "Experts: yes": percent("expert_yes_rate"),
            "Items": count("n_items"),
            **_CORRECTIONS,
            "Weight": Figure(weights, ("total_weight",)),
            "Experts'": Figure(weights, ("expert_total_weight",)),
            "Erased": count("n_erased"),
            "Retired": count("n_retired"),
        },
        keys=("test_set_id", "version", "subject_id", "subject_version"),
        words=("In brackets: 95 % interval, Wilson's score at the effective number of corrections; clustered by run.",),
    ),
    "contested": Look(
        "Items that people disagree on",
        "yes",
        ("reasons", "yes_rate", "item_no"),
        {
            "Share of yes": percent("yes_rate"),
            "Yes": count("yes"),
            "No": count("no"),
            "Reasons, newest first": Figure(reasons, ("reasons",), words=True),
            "Weight": Figure(weights, ("total_weight",)),
        },
        keys=(*_OF_SET, "case_id", "key"),
        folded=_OF_SET,
        words=("Share of yes by weight.",),
    ),
}
