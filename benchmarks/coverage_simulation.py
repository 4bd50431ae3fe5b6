"""Simulate how often the intervals of `yes_rates` hold the true rate, for few runs and clustered corrections.

    python benchmarks/coverage_simulation.py [--reps 2000]

A run's own rate is drawn from a beta distribution with mean p and intra-class correlation 0.2. It has 1 to 5 items of
1 to 3 corrections each; a correction weighs 3 with probability 0.3, else 1. "naive" is Wilson's interval on the number
of corrections, as if they were independent. An interval that is missing holds nothing and has no width; the share of
missing ones stands in brackets.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from scipy import stats

from casekit.stats import yes_rates
from casekit.stats.intervals import wilson

ICC = 0.2
HEAVY, SHARE_HEAVY = 3.0, 0.3
RUNS = (5, 10, 20, 50)
RATES = (0.5, 0.8, 0.95)
METHODS = ("wilson", "wald", "jackknife", "bootstrap")


def simulate(m: int, p: float, reps: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw the items of ``reps`` studies of m runs each."""
    concentration = (1 - ICC) / ICC
    own = rng.beta(p * concentration, (1 - p) * concentration, reps * m)
    items = rng.integers(1, 6, reps * m)
    run = np.repeat(np.arange(reps * m), items)
    n = rng.integers(1, 4, len(run))
    item = np.repeat(np.arange(len(run)), n)
    yes = rng.random(len(item)) < own[run][item]
    weight = np.where(rng.random(len(item)) < SHARE_HEAVY, HEAVY, 1.0)
    count_yes = np.bincount(item, weights=yes).astype(int)
    return pd.DataFrame(
        {
            "study": run // m,
            "case_id": run.astype(str),
            "yes": count_yes,
            "no": n - count_yes,
            "yes_weight": np.bincount(item, weights=weight * yes),
            "total_weight": np.bincount(item, weights=weight),
        }
    )


def cell(low: np.ndarray, high: np.ndarray, p: float) -> str:
    """Write coverage in per cent, mean width, and the share that is missing."""
    missing = np.isnan(low)
    holds = np.mean((low <= p) & (p <= high)) * 100
    width = np.mean((high - low)[~missing]) if not missing.all() else np.nan
    return f"{holds:.1f} / {width:.2f}" + (f" ({missing.mean() * 100:.0f} %)" if missing.any() else "")


def main() -> None:
    """Print a Markdown table: coverage in per cent / mean width, at a nominal 95 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20261130)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print(f"| m | p | naive | {' | '.join(METHODS)} |")
    print(f"|{'---|' * (len(METHODS) + 3)}")
    for m in RUNS:
        for p in RATES:
            items = simulate(m, p, options.reps, rng)
            counted = yes_rates(items, by="study", weights="count")
            z = np.full(options.reps, stats.norm.ppf(0.975))
            cells = [cell(*wilson(counted["rate"].to_numpy(), counted["n_corrections"].to_numpy(float), z), p)]
            for method in METHODS:
                if method == "bootstrap" and m < 10:
                    cells.append("refused")
                    continue
                rates = yes_rates(items, by="study", method=method, seed=options.seed, n_resamples=999)
                cells.append(cell(rates["low"].to_numpy(), rates["high"].to_numpy(), p))
            print(f"| {m} | {p} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
