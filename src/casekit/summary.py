"""A CaseSet summed up: one row per test set, its version, and the version of what ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa

from casekit.frames import to_pandas
from casekit.stats import yes_rates

__all__ = ["summarised"]

KEYS: Final = ["test_set_id", "version", "subject_kind", "subject_id", "subject_version"]
CASES: Final = ["erased", "kind", "retired", "added_at", "updated_at"]
ITEMS: Final = ["case_id", "run_id", "yes", "no", "yes_weight", "total_weight"]
EXPERTS: Final = ["expert_yes_weight", "expert_total_weight"]
COUNTS: Final = ["n_items", "n_corrections", "n_zero_weight", "n_unknown_expert"]
COLUMNS: Final = [
    *KEYS,
    "n_cases",
    "n_erased",
    "n_retired",
    "n_items",
    "n_corrections",
    "yes_weight",
    "total_weight",
    *EXPERTS,
    "yes_rate",
    "yes_low",
    "yes_high",
    "expert_yes_rate",
    "n_zero_weight",
    "n_unknown_expert",
    "first_added_at",
    "last_updated_at",
]


def summarised(tables: Mapping[str, pa.Table]) -> pd.DataFrame:
    """The frame of ``CaseSet.summary``.

    Parameters
    ----------
    tables
        Of the CaseSet.
    """
    frame = _of_cases(tables["cases"]).merge(_of_items(tables["items"]), how="left", on=KEYS)
    frame[COUNTS] = frame[COUNTS].astype("Int64")
    without = frame["n_items"].isna() & ~frame["live"]  # of a frozen set, no items is nobody's weight
    for name in (*COUNTS, "yes_weight", "total_weight", *EXPERTS):
        frame[name] = frame[name].mask(without, 0)
    return frame[COLUMNS]


def _of_cases(table: pa.Table) -> pd.DataFrame:
    """Per group, what its cases are."""
    cases = to_pandas(table.select([*KEYS, *CASES]))
    groups = cases.assign(
        n_cases=1,
        n_erased=cases["erased"].fillna(False).astype("int64"),
        n_retired=cases["retired"].astype("Int64"),
        live=cases["kind"].notna(),
    ).groupby(KEYS, dropna=False)
    columns = {
        "n_cases": groups["n_cases"].sum(),
        "n_erased": groups["n_erased"].sum(),
        "n_retired": groups["n_retired"].sum(min_count=1),
        "live": groups["live"].all(),
        "first_added_at": groups["added_at"].min(),
        "last_updated_at": groups["updated_at"].max(),
    }
    return pd.DataFrame(columns).reset_index()


def _of_items(table: pa.Table) -> pd.DataFrame:
    """Per group with items: the figures of `yes_rates` for everyone and for experts, and the yes weights."""
    items = to_pandas(table.select([*KEYS, *ITEMS, *EXPERTS]))
    everyone = yes_rates(items, by=KEYS).rename(
        columns={"rate": "yes_rate", "low": "yes_low", "high": "yes_high", "weight": "total_weight"}
    )
    experts = yes_rates(items, by=KEYS, weights="expert").rename(
        columns={"rate": "expert_yes_rate", "weight": "expert_total_weight"}
    )
    known = items[EXPERTS].notna().all(axis=1)
    items["expert_yes_weight"] = items["expert_yes_weight"].where(known)
    groups = items.groupby(KEYS, dropna=False)
    with np.errstate(over="ignore"):
        yes = {"yes_weight": groups["yes_weight"].sum()}
        yes["expert_yes_weight"] = groups["expert_yes_weight"].sum(min_count=1)
    sums = pd.DataFrame(yes)
    sums = sums.mask(sums == np.inf).reset_index()  # more than a float holds
    frame = everyone[[*KEYS, *COUNTS, "yes_rate", "yes_low", "yes_high", "total_weight"]]
    frame = frame.merge(experts[[*KEYS, "expert_yes_rate", "expert_total_weight"]], on=KEYS).merge(sums, on=KEYS)
    frame["expert_total_weight"] = frame["expert_total_weight"].where(frame["expert_yes_weight"].notna())
    return frame
