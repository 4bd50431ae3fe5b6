"""Bytes a case of a snapshot against the pages it was pulled from, as they are and gzipped: ``python sizes.py``.

Measures the sets of this repository and generated cases; folders of saved pages (``page-*.json``) may be given besides.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import generate

from casekit.report import PullReport
from casekit.snapshots.writer import SnapshotWriter
from casekit.source import Source
from casekit.wire import Reader

ROOT = Path(__file__).resolve().parent.parent
SAVED = (ROOT / "data" / "mtbench", ROOT / "tests" / "data" / "tau_airline_calls")
GZIP_LEVEL = 6  # what a server sends with Content-Encoding: gzip, by default


def saved(folder: Path) -> Iterator[bytes]:
    """The pages of a folder."""
    for path in sorted(folder.glob("page-*.json")):
        yield path.read_bytes()


def generated(cases: int) -> Iterator[bytes]:
    """Pages of generated cases."""
    last = (cases + generate.PAGE_CASES - 1) // generate.PAGE_CASES - 1
    for number, data in enumerate(generate.pages(cases)):
        yield generate.body(data, number, number == last)


def measured(name: str, pages: Iterator[bytes]) -> str:
    """A row of the table."""
    plain = packed = 0

    def counted() -> Iterator[bytes]:
        nonlocal plain, packed
        for page in pages:
            plain += len(page)
            packed += len(gzip.compress(page, GZIP_LEVEL))
            yield page

    report = PullReport()
    with tempfile.TemporaryDirectory(prefix="casekit-sizes-") as folder:
        with SnapshotWriter(Path(folder) / "s") as writer:
            for group in Reader.corrections("acme.a", "1.0.0", report).groups(counted()):
                writer.add(group)
            info = writer.finish(Source((("acme.a", "1.0.0"),), fetched_at=datetime.now(UTC)), report)
        stored = sum(path.stat().st_size for path in (Path(folder) / "s").iterdir())
    cases = info.rows("cases")
    each = " | ".join(f"{size / cases:,.0f}" if cases else "" for size in (plain, packed, stored))
    return f"| {name} | {cases:,} | {each} | {stored / packed:.2f} | {stored:,} |"


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    print("| cases of | cases | page bytes a case | gzipped | snapshot | snapshot / gzipped | snapshot bytes |")
    print("|---|---|---|---|---|---|---|")
    print(measured("nothing", iter([b'{"data":[],"hasMore":false}'])))
    for folder in (*SAVED, *chosen.folders):
        print(measured(folder.name, saved(folder)))
    for count in (100, 1_000, 10_000):
        print(measured("generated", generated(count)))


if __name__ == "__main__":
    main()
