"""casekit: cases of human corrections as DataFrames.

Pull a test set, keep it as a Parquet snapshot, and say how often people said yes, how sure that figure is, and whose
weight is behind it. Names are imported when first used, so that ``import casekit`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from casekit.caseset import CaseSet as CaseSet
    from casekit.caseset import LeftOut as LeftOut
    from casekit.caseset import Source as Source
    from casekit.client import Client as Client
    from casekit.client import Retry as Retry
    from casekit.errors import CasekitError as CasekitError
    from casekit.loaders import load_agent_cases as load_agent_cases
    from casekit.loaders import load_test_set as load_test_set
    from casekit.loaders import load_test_sets as load_test_sets
    from casekit.loaders import pull as pull
    from casekit.plots import plot_weights as plot_weights
    from casekit.plots import plot_yes_rates as plot_yes_rates
    from casekit.report import PullReport as PullReport
    from casekit.server import LocalServer as LocalServer
    from casekit.snapshot import SnapshotInfo as SnapshotInfo
    from casekit.snapshot import read_snapshot as read_snapshot
    from casekit.snapshot import snapshot_info as snapshot_info
    from casekit.snapshot import verify_snapshot as verify_snapshot
    from casekit.snapshot import write_snapshot as write_snapshot
    from casekit.stats import expert_weights as expert_weights
    from casekit.stats import segments_wide as segments_wide
    from casekit.stats import yes_rates as yes_rates

_HOME = {
    "CaseSet": "casekit.caseset",
    "LeftOut": "casekit.caseset",
    "Source": "casekit.caseset",
    "Client": "casekit.client",
    "Retry": "casekit.client",
    "CasekitError": "casekit.errors",
    "load_agent_cases": "casekit.loaders",
    "load_test_set": "casekit.loaders",
    "load_test_sets": "casekit.loaders",
    "pull": "casekit.loaders",
    "PullReport": "casekit.report",
    "LocalServer": "casekit.server",
    "SnapshotInfo": "casekit.snapshot",
    "read_snapshot": "casekit.snapshot",
    "snapshot_info": "casekit.snapshot",
    "verify_snapshot": "casekit.snapshot",
    "plot_yes_rates": "casekit.plots",
    "plot_weights": "casekit.plots",
    "yes_rates": "casekit.stats",
    "segments_wide": "casekit.stats",
    "expert_weights": "casekit.stats",
    "write_snapshot": "casekit.snapshot",
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
