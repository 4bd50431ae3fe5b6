"""casekit: cases of human corrections as DataFrames.

Pull a test set, keep it as a Parquet snapshot, and say how often people said yes, how sure that figure is, and whose
weight is behind it. Names are imported when first used, so that ``import casekit`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from casekit import errors as errors
    from casekit.calls import made_calls as made_calls
    from casekit.casediff import CaseDiff as CaseDiff
    from casekit.casediff import diff as diff
    from casekit.caseset import CaseSet as CaseSet
    from casekit.change import SnapshotChange as SnapshotChange
    from casekit.client import Client as Client
    from casekit.dictionary import data_dictionary as data_dictionary
    from casekit.erasure import Finding as Finding
    from casekit.erasure import SweepReport as SweepReport
    from casekit.erasure import sweep_snapshot as sweep_snapshot
    from casekit.errors import CasekitError as CasekitError
    from casekit.export import ExportReport as ExportReport
    from casekit.http.retry import Retry as Retry
    from casekit.loaders import load_agent_cases as load_agent_cases
    from casekit.loaders import load_test_set as load_test_set
    from casekit.loaders import load_test_sets as load_test_sets
    from casekit.loaders import pull as pull
    from casekit.outputs import output_items as output_items
    from casekit.plots import plot_agreement as plot_agreement
    from casekit.plots import plot_coefficients as plot_coefficients
    from casekit.plots import plot_comparison as plot_comparison
    from casekit.plots import plot_coverage as plot_coverage
    from casekit.plots import plot_keys as plot_keys
    from casekit.plots import plot_precision as plot_precision
    from casekit.plots import plot_ranks as plot_ranks
    from casekit.plots import plot_weights as plot_weights
    from casekit.plots import plot_yes_rates as plot_yes_rates
    from casekit.refresh import refresh_snapshot as refresh_snapshot
    from casekit.report import PullReport as PullReport
    from casekit.server import LocalServer as LocalServer
    from casekit.snapshot import read_snapshot as read_snapshot
    from casekit.snapshot import snapshot_info as snapshot_info
    from casekit.snapshot import verify_snapshot as verify_snapshot
    from casekit.snapshot import write_snapshot as write_snapshot
    from casekit.snapshots.manifest import SnapshotInfo as SnapshotInfo
    from casekit.source import LeftOut as LeftOut
    from casekit.source import Source as Source
    from casekit.stats import agreement as agreement
    from casekit.stats import compare as compare
    from casekit.stats import coverage as coverage
    from casekit.stats import expert_agreement as expert_agreement
    from casekit.stats import expert_weights as expert_weights
    from casekit.stats import gate as gate
    from casekit.stats import grade_decisions as grade_decisions
    from casekit.stats import item_agreement as item_agreement
    from casekit.stats import precision_at_k as precision_at_k
    from casekit.stats import rank_keys as rank_keys
    from casekit.stats import rank_rates as rank_rates
    from casekit.stats import segments_wide as segments_wide
    from casekit.stats import yes_rates as yes_rates
    from casekit.styles import Styled as Styled
    from casekit.styles import styled as styled
    from casekit.writes import add_cases as add_cases
    from casekit.writes import retire_cases as retire_cases

_HOME = {
    "made_calls": "casekit.calls",
    "CaseDiff": "casekit.casediff",
    "diff": "casekit.casediff",
    "CaseSet": "casekit.caseset",
    "SnapshotChange": "casekit.change",
    "Client": "casekit.client",
    "data_dictionary": "casekit.dictionary",
    "Finding": "casekit.erasure",
    "SweepReport": "casekit.erasure",
    "sweep_snapshot": "casekit.erasure",
    "CasekitError": "casekit.errors",
    "ExportReport": "casekit.export",
    "Retry": "casekit.http.retry",
    "load_agent_cases": "casekit.loaders",
    "load_test_set": "casekit.loaders",
    "load_test_sets": "casekit.loaders",
    "pull": "casekit.loaders",
    "output_items": "casekit.outputs",
    "plot_agreement": "casekit.plots",
    "plot_coefficients": "casekit.plots",
    "plot_comparison": "casekit.plots",
    "plot_coverage": "casekit.plots",
    "plot_keys": "casekit.plots",
    "plot_precision": "casekit.plots",
    "plot_ranks": "casekit.plots",
    "plot_weights": "casekit.plots",
    "plot_yes_rates": "casekit.plots",
    "refresh_snapshot": "casekit.refresh",
    "PullReport": "casekit.report",
    "LocalServer": "casekit.server",
    "read_snapshot": "casekit.snapshot",
    "snapshot_info": "casekit.snapshot",
    "verify_snapshot": "casekit.snapshot",
    "write_snapshot": "casekit.snapshot",
    "SnapshotInfo": "casekit.snapshots.manifest",
    "LeftOut": "casekit.source",
    "Source": "casekit.source",
    "agreement": "casekit.stats",
    "compare": "casekit.stats",
    "coverage": "casekit.stats",
    "expert_agreement": "casekit.stats",
    "expert_weights": "casekit.stats",
    "gate": "casekit.stats",
    "grade_decisions": "casekit.stats",
    "item_agreement": "casekit.stats",
    "precision_at_k": "casekit.stats",
    "rank_keys": "casekit.stats",
    "rank_rates": "casekit.stats",
    "segments_wide": "casekit.stats",
    "yes_rates": "casekit.stats",
    "Styled": "casekit.styles",
    "styled": "casekit.styles",
    "add_cases": "casekit.writes",
    "retire_cases": "casekit.writes",
}

__all__ = sorted(_HOME)


if not TYPE_CHECKING:  # a type checker would take any name for one that is here

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            value = getattr(importlib.import_module(_HOME[name]), name)
            globals()[name] = value
            return value
        if name == "errors":
            return importlib.import_module("casekit.errors")
        hint = ""
        if not name.startswith("_"):
            from casekit.errors import did_you_mean

            hint = did_you_mean(name, __all__)
        raise AttributeError(f"module 'casekit' has no attribute {name!r}" + (f"; {hint}" if hint else ""))


def __dir__() -> list[str]:
    return [*__all__, "__version__", "errors"]
