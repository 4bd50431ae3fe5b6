"""Whose weight counts: an item's sums under one of three choices, and the check that its weights make sense.

A weight is never made up: an item whose expert weights are missing is unknown, not zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
from narwhals.typing import IntoFrame

from casekit.stats.clusters import Rows
from casekit.stats.frames import (
    WEIGHTS,
    Weights,
    check_choice,
    check_names,
    check_single,
    columns_of,
    number,
    quoted,
    scan,
    to_arrow,
)

__all__ = ["COUNTS", "MEASURES", "SLACK", "at_least_one", "open_items", "refuse_contradictions", "when"]

SLACK = 1e-9  # sums of weights may differ by this much, absolute and relative
COUNTS = ("yes", "no")
TOTALS = ("yes_weight", "total_weight")
EXPERTS = ("expert_yes_weight", "expert_total_weight")
NEEDED = {"recorded": (*COUNTS, *TOTALS), "expert": (*COUNTS, *TOTALS, *EXPERTS), "count": COUNTS}

# What every statistic sums: weights, corrections and items with weight, items of unknown experts, impossible ones.
MEASURES = {name: nw.col(f"__{name}") for name in ("y", "x", "n", "items", "unknown", "bad")}


@dataclass(frozen=True)
class Choice:
    """Yes and total weight of an item, the corrections behind them, and whether all of them can be."""

    yes: nw.Expr
    total: nw.Expr
    corrections: nw.Expr
    good: nw.Expr


def when(condition: nw.Expr, value: nw.Expr | float = 1.0) -> nw.Expr:
    """Take the value where the condition holds, 0 where it does not or is missing."""
    return nw.when(condition.fill_null(False)).then(value).otherwise(nw.lit(0.0))


def at_least_one(value: nw.Expr) -> nw.Expr:
    """Raise what is below 1 to 1."""
    return nw.when(value > 1).then(value).otherwise(nw.lit(1.0))


def open_items(
    items: IntoFrame,
    *,
    weights: Weights,
    columns: Sequence[str] = (),
    experts: bool = False,
    frame: str = "items",
) -> Rows:
    """Check an items frame and prepare its weights.

    Parameters
    ----------
    items
        One row per item.
    weights
        "recorded", "expert" or "count".
    columns
        Further columns that the statistic needs.
    experts
        Prepare experts' weights too, where the frame has them, whosever weights are chosen.
    frame
        What the frame is called in messages.

    Returns
    -------
    Rows
        The needed columns, and as prepared float64 columns: ``__yes``, ``__no``, ``__yes_weight``, … the items' own
        (experts' with ``experts`` or when chosen, 0 where unknown); ``__y``, ``__x`` the weights chosen; ``__n``
        corrections and ``__items`` 1 where their total is above 0; ``__unknown``, ``__bad`` 1 where expert weights are
        missing or weights cannot be.
    """
    check_choice("weights", weights, WEIGHTS)
    dtypes = columns_of(items, called=frame)
    check_names(dtypes, ("case_id", *NEEDED[weights], *columns), frame=frame)
    optional = ["run_id", *EXPERTS, *(["expert_correction_ids"] if weights == "expert" else [])]
    wanted = ["case_id", *NEEDED[weights], *columns, *(name for name in optional if name in dtypes)]
    table = scan(items, wanted)
    dtypes = dict(table.collect_schema())
    check_single(dtypes, ("case_id", *columns), frame=frame)
    figures = [name for name in (*COUNTS, *TOTALS, *EXPERTS) if name in dtypes]
    plain = {f"__{name}": number(name, dtypes[name]) for name in figures}
    if all(name in dtypes for name in EXPERTS):
        missing = [nw.col(f"__{name}").is_null() | nw.col(f"__{name}").is_nan() for name in EXPERTS]
        unknown = {"__unknown": when(missing[0] | missing[1].fill_null(True))}
        known = {f"__{name}": when(nw.col("__unknown") == 0, nw.col(f"__{name}")) for name in EXPERTS}
        known = known if experts or weights == "expert" else {}
    else:
        unknown, known = {"__unknown": nw.lit(1.0)}, {}
    # What two sums may be off by goes by the item's total, however little of it their difference is.
    room = {} if weights == "count" else {"__room": nw.col("__total_weight") * SLACK + SLACK}
    choice = _choose(weights, dtypes)
    chosen = {"__y": choice.yes, "__x": choice.total, "__bad": 1 - when(choice.good)}
    held = nw.col("__x") > 0
    behind = {"__n": when(held, choice.corrections), "__items": when(held)}
    steps = [step for step in (plain, unknown, known, room, chosen, behind) if step]
    return Rows(table, dtypes, steps)


def _choose(weights: Weights, dtypes: Mapping[str, Any]) -> Choice:
    yes, no, yes_weight, total, expert_yes, expert = (nw.col(f"__{name}") for name in (*COUNTS, *TOTALS, *EXPERTS))
    good = (yes >= 0) & (no >= 0)
    if weights == "count":
        return Choice(yes, yes + no, yes + no, good)
    good = good & _within(yes_weight, total) & (yes_weight >= -SLACK)
    if weights == "recorded":
        return Choice(yes_weight, total, yes + no, good)
    # Where experts are unknown their weights are 0 by now, which contradicts nothing.
    good = good & _within(expert_yes, expert) & (expert_yes >= -SLACK)
    good = good & _within(expert_yes, yes_weight) & _within(yes_weight - expert_yes, total - expert)
    return Choice(expert_yes, expert, _expert_corrections(dtypes), good)


def _expert_corrections(dtypes: Mapping[str, Any]) -> nw.Expr:
    # Without the ids an item stands for one correction: fewer than there may be, never more.
    if not isinstance(dtypes.get("expert_correction_ids"), nw.List):
        return nw.lit(1.0)
    length = nw.col("expert_correction_ids").list.len().cast(nw.Float64)
    return at_least_one(length.fill_null(1.0))


def _within(part: nw.Expr, whole: nw.Expr) -> nw.Expr:
    # whole - whole is 0 for a finite number alone: NaN and infinity are refused in every engine.
    return (whole - whole == 0) & (part - whole <= nw.col("__room"))


def refuse_contradictions(source: IntoFrame, items: Rows, found: float) -> None:
    """Raise for the first item whose weights cannot be, when ``found`` of them were counted.

    Parameters
    ----------
    source
        The frame that ``items`` was opened from, to name the item.
    items
        As `open_items` returns it.
    found
        How many there are.
    """
    if not found:
        return
    have = columns_of(source)
    shown = [name for name in (*COUNTS, *TOTALS, *EXPERTS) if name in items.dtypes]
    place = [name for name in ("case_id", "item_no", "key") if name in have]
    names = list(dict.fromkeys([*place, *items.dtypes]))
    rows: Any = Rows(scan(source, names), items.dtypes, items.steps).prepared()
    first = to_arrow(rows.filter(nw.col("__bad") > 0).select(*place, *shown).sort(*place).head(1)).to_pylist()[0]
    item = (
        quoted(first["key"]) if "key" in place else f"number {first['item_no']}" if "item_no" in place else "(no key)"
    )
    values = ", ".join(f"{name}={first[name]!r}" for name in shown)
    raise ValueError(
        f"Case {quoted(first['case_id'])}, item {item} has weights that contradict each other: {values}. Counts and "
        f"weights must be finite and not negative, a yes weight at most its total, and experts' weight at most "
        f"everyone's. There are {found:.0f} such items: leave them out, or load the cases again."
    )
