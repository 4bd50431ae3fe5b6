"""``casekit pull``, ``refresh``, ``verify``, ``info``, ``sweep`` and ``compare``: snapshots."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from casekit.cli.command import Commands, connected, ref_of
from casekit.cli.output import print_json, records, text_of
from casekit.errors import CasekitError, one_line

if TYPE_CHECKING:
    from casekit.change import SnapshotChange
    from casekit.snapshots.manifest import SnapshotInfo

__all__ = ["register"]

FOUND: Final = 3  # exit code of a sweep that found something

_FOLDER: Final = "the snapshot's folder"


def register(commands: Commands) -> None:
    """Add the commands."""
    form = commands.add(
        "pull",
        pull,
        "Pull test sets into snapshot folders; what is there and fresh is left alone.",
        "acme.drafting-accuracy@1.2.0 --into snapshots",
        server=True,
        as_json=True,
    )
    form.add_argument("refs", nargs="+", metavar="ID@VERSION", help="test set and version")
    form.add_argument("--into", default="snapshots", metavar="FOLDER", help="parent folder (default: snapshots)")
    form.add_argument("--workers", type=int, default=4, metavar="N", help="test sets at a time (default: 4)")
    form.add_argument(
        "--max-age", type=_hours, default="24", metavar="HOURS", help="pull again what is older (default: 24)"
    )

    form = commands.add(
        "refresh",
        refresh,
        "Bring snapshots up to date, and say which cases were added, changed, erased or are gone.",
        "snapshots/acme.drafting-accuracy-1.2.0",
        server=True,
        as_json=True,
    )
    form.add_argument("folders", nargs="+", metavar="FOLDER", help=_FOLDER)

    form = commands.add(
        "verify",
        verify,
        "Check a snapshot to the last byte.",
        "snapshots/acme.drafting-accuracy-1.2.0",
        as_json=True,
    )
    form.add_argument("folder", metavar="FOLDER", help=_FOLDER)

    form = commands.add("info", info, "Say what a snapshot is.", "snapshots/acme.drafting-accuracy-1.2.0", as_json=True)
    form.add_argument("folder", metavar="FOLDER", help=_FOLDER)

    form = commands.add(
        "sweep",
        sweep,
        "Prove that nothing of erased cases is left in a snapshot; exit code 3 if something is.",
        "snapshots/acme.drafting-accuracy-1.2.0 --erased-ids case-7 --before backup/acme.drafting-accuracy-1.2.0",
        as_json=True,
    )
    form.add_argument("folder", metavar="FOLDER", help=_FOLDER)
    form.add_argument(
        "--erased-ids",
        nargs="*",
        default=[],
        metavar="ID",
        help="the erased cases (default: every case that the snapshot marks as erased)",
    )
    form.add_argument("--before", metavar="FOLDER", help="an older snapshot that has their words, to search for them")

    form = commands.add(
        "compare",
        compare,
        "Compare two snapshots: which cases and items changed, and what the yes rate did.",
        "snapshots/acme.drafting-accuracy-1.2.0 snapshots/acme.drafting-accuracy-1.3.0 --by key",
        as_json=True,
    )
    form.add_argument("before", metavar="OLD", help=_FOLDER)
    form.add_argument("after", metavar="NEW", help=_FOLDER)
    form.add_argument("--by", metavar="COLUMN", help="a row for each value of this column of items")
    form.add_argument(
        "--weights", choices=["recorded", "expert", "count"], default="recorded", help="(default: recorded)"
    )


def pull(chosen: argparse.Namespace) -> None:
    """Pull test sets."""
    from casekit.loaders import pull as pull_all

    begun = datetime.now(UTC)
    refs = [ref_of(text) for text in chosen.refs]
    with connected() as client:
        try:
            infos = pull_all(refs, into=chosen.into, client=client, workers=chosen.workers, max_age=chosen.max_age)
        except CasekitError as error:
            if len(refs) > 1:  # which of them failed
                print(*getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
            raise
    if chosen.json:
        print_json([_of_info(one) for one in infos])
        return
    for one in infos:
        there = f"there already, {_minutes(one.fetched_at)}: " if one.fetched_at < begun else ""
        print(f"{one.title()}: {there}{one.report}")


def refresh(chosen: argparse.Namespace) -> int:
    """Refresh snapshots one after the other; one that fails holds up no other."""
    from casekit.refresh import refresh_snapshot

    told = []
    failed = 0
    with connected() as client:
        for folder in chosen.folders:
            try:
                change = refresh_snapshot(folder, client=client)
            except CasekitError as error:
                failed = 1
                told.append({"folder": folder, "error": str(error)})
                print(f"casekit: {one_line(folder, 200)}: {error}", file=sys.stderr)
                continue
            told.append({"folder": folder, **_of_change(change)})
            if not chosen.json:
                print(repr(change))
    if chosen.json:
        print_json(told)
    return failed


def verify(chosen: argparse.Namespace) -> None:
    """Verify a snapshot."""
    from casekit.snapshot import verify_snapshot

    found = verify_snapshot(chosen.folder)
    if chosen.json:
        print_json({"folder": chosen.folder, "whole": True, **_of_info(found)})
    else:
        print(
            f"{one_line(chosen.folder, 500)}: whole, {found.rows('cases'):,} cases, content {found.content_hash[:16]}"
        )


def info(chosen: argparse.Namespace) -> None:
    """Say what a snapshot is."""
    from casekit.snapshot import read_snapshot, snapshot_info

    found = snapshot_info(chosen.folder)
    if chosen.json:
        print_json({"folder": chosen.folder, **_of_info(found)})
        return
    print(repr(read_snapshot(chosen.folder)))
    print(repr(found))


def sweep(chosen: argparse.Namespace) -> int:
    """Prove that nothing of erased cases is left."""
    from casekit.erasure import sweep_snapshot
    from casekit.snapshot import read_snapshot

    ids = chosen.erased_ids
    if not ids:
        cases = read_snapshot(chosen.folder).arrow("cases")
        ids = cases.filter(cases["erased"])["case_id"].to_pylist()
        if not ids:
            raise CasekitError(f"{one_line(chosen.folder, 200)} marks no case as erased: name some with --erased-ids")
    found = sweep_snapshot(chosen.folder, ids, before=chosen.before)
    if chosen.json:
        print_json({"folder": chosen.folder, "clean": found.clean, **asdict(found)})
    else:
        print(repr(found))
    return 0 if found.clean else FOUND


def compare(chosen: argparse.Namespace) -> None:
    """Compare two snapshots."""
    from casekit.casediff import diff
    from casekit.snapshot import read_snapshot
    from casekit.stats import compare as compare_rates

    before, after = read_snapshot(chosen.before), read_snapshot(chosen.after)
    changes = diff(before, after)
    try:
        rates = compare_rates(
            before.items,
            after.items,
            by=chosen.by,
            weights=chosen.weights,
            cases=(before.cases, after.cases),
        )
    except KeyError as error:  # no such column
        raise CasekitError(str(error.args[0])) from None
    if chosen.json:
        print_json({"cases": records(changes.cases), "items": records(changes.items), "rates": records(rates)})
        return
    print(repr(changes))
    by = [chosen.by] if chosen.by else []
    print(text_of(rates[[*by, "before_rate", "after_rate", "difference", "low", "high"]]), end="")


def _hours(text: str) -> timedelta:
    """A number of hours; what is none is wrong usage."""
    try:
        return timedelta(hours=float(text))
    except (OverflowError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of hours") from None


def _minutes(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _of_info(one: SnapshotInfo) -> dict[str, Any]:
    """A manifest as JSON values."""
    document: dict[str, Any] = json.loads(one.to_json())
    return document


def _of_change(one: SnapshotChange) -> dict[str, Any]:
    """A change as JSON values."""
    document = {name: value for name, value in vars(one).items() if name != "report"}
    times = {name: value.isoformat() for name, value in document.items() if isinstance(value, datetime)}
    return {**document, **times, "report": one.report.to_dict()}
