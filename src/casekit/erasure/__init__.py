"""Proof that nothing is left of erased cases.

`words` collects what to search for, `needles` searches bytes for all of it at once, `zstd` takes compressed frames
apart, and `sweep` looks through a snapshot's folder.
"""

from casekit.erasure.sweep import Finding, SweepReport, sweep_snapshot

__all__ = ["Finding", "SweepReport", "sweep_snapshot"]
