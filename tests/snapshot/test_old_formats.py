"""Snapshots that older versions wrote stay readable: each format has a folder in tests/data, kept for ever."""

from __future__ import annotations

import json
from pathlib import Path

from casekit.snapshot import read_snapshot, verify_snapshot

DATA = Path(__file__).parents[1] / "data"


def test_format_1() -> None:
    """A snapshot that casekit 0.1.0 wrote has the cases it had, and the content hash.

    It holds one case with every member of the contract and an unknown one, and an erased one, and was written with
    pyarrow 26 by ``write_snapshot``; beside it are the documents that were served.
    """
    found = read_snapshot(DATA / "snapshot_format_1")
    assert list(found.documents()) == json.loads((DATA / "snapshot_format_1.json").read_bytes())
    info = verify_snapshot(DATA / "snapshot_format_1")
    assert info.content_hash == "f75d3c7451d1151444cb0878b98b002bc4aad59f3c5ea1abb7397a53405d6763"
    assert (info.casekit, info.title(), info.rows("cases")) == ("0.1.0", "acme.a 1.0.0", 2)
