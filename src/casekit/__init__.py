"""casekit: cases of human corrections as DataFrames.

Pull a test set, keep it as a Parquet snapshot, and say how often people said yes, how sure that figure is, and whose
weight is behind it. Names are imported when first used, so that ``import casekit`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from casekit.calls import made_calls as made_calls
    from casekit.caseset import CaseSet as CaseSet
    from casekit.caseset import LeftOut as LeftOut
    from casekit.caseset import Source as Source
    from casekit.client import Client as Client
    from casekit.errors import CasekitError as CasekitError
    from casekit.loaders import load_agent_cases as load_agent_cases
    from casekit.loaders import load_test_set as load_test_set
    from casekit.loaders import load_test_sets as load_test_sets
    from casekit.loaders import pull as pull
    from casekit.manifest import SnapshotInfo as SnapshotInfo
    from casekit.outputs import output_items as output_items
    from casekit.plots import plot_agreement as plot_agreement
    from casekit.plots import plot_comparison as plot_comparison
    from casekit.plots import plot_coverage as plot_coverage
    from casekit.plots import plot_precision as plot_precision
    from casekit.plots import plot_ranks as plot_ranks
    from casekit.plots import plot_weights as plot_weights
    from casekit.plots import plot_yes_rates as plot_yes_rates
    from casekit.report import PullReport as PullReport
    from casekit.retry import Retry as Retry
    from casekit.server import LocalServer as LocalServer
    from casekit.snapshot import read_snapshot as read_snapshot
    from casekit.snapshot import snapshot_info as snapshot_info
    from casekit.snapshot import verify_snapshot as verify_snapshot
    from casekit.snapshot import write_snapshot as write_snapshot
    from casekit.stats import agreement as agreement
    from casekit.stats import compare as compare
    from casekit.stats import coverage as coverage
    from casekit.stats import expert_agreement as expert_agreement
    from casekit.stats import expert_weights as expert_weights
    from casekit.stats import gate as gate
    from casekit.stats import grade_decisions as grade_decisions
    from casekit.stats import precision_at_k as precision_at_k
    from casekit.stats import rank_keys as rank_keys
    from casekit.stats import segments_wide as segments_wide
    from casekit.stats import yes_rates as yes_rates
    from casekit.writes import add_cases as add_cases
    from casekit.writes import retire_cases as retire_cases

_HOME = {
    "made_calls": "casekit.calls",
    "CaseSet": "casekit.caseset",
    "LeftOut": "casekit.caseset",
    "Source": "casekit.caseset",
    "Client": "casekit.client",
    "CasekitError": "casekit.errors",
    "load_agent_cases": "casekit.loaders",
    "load_test_set": "casekit.loaders",
    "load_test_sets": "casekit.loaders",
    "pull": "casekit.loaders",
    "SnapshotInfo": "casekit.manifest",
    "output_items": "casekit.outputs",
    "plot_agreement": "casekit.plots",
    "plot_comparison": "casekit.plots",
    "plot_coverage": "casekit.plots",
    "plot_precision": "casekit.plots",
    "plot_ranks": "casekit.plots",
    "plot_weights": "casekit.plots",
    "plot_yes_rates": "casekit.plots",
    "PullReport": "casekit.report",
    "Retry": "casekit.retry",
    "LocalServer": "casekit.server",
    "read_snapshot": "casekit.snapshot",
    "snapshot_info": "casekit.snapshot",
    "verify_snapshot": "casekit.snapshot",
    "write_snapshot": "casekit.snapshot",
    "agreement": "casekit.stats",
    "compare": "casekit.stats",
    "coverage": "casekit.stats",
    "expert_agreement": "casekit.stats",
    "expert_weights": "casekit.stats",
    "gate": "casekit.stats",
    "grade_decisions": "casekit.stats",
    "precision_at_k": "casekit.stats",
    "rank_keys": "casekit.stats",
    "segments_wide": "casekit.stats",
    "yes_rates": "casekit.stats",
    "add_cases": "casekit.writes",
    "retire_cases": "casekit.writes",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name == "errors":
        return importlib.import_module("casekit.errors")
    raise AttributeError(f"module 'casekit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "errors"]
