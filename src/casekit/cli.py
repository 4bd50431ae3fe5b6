"""The command line: ``casekit --help``.

Each command is one function that gets parsed arguments and prints. An error of casekit is one line on stderr and exit
code 1, wrong usage is exit code 2.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from casekit import __version__
from casekit.client import Client
from casekit.documents import AgentCase, PlannedWrite
from casekit.errors import CasekitError, one_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["main", "parser"]

TOKEN_NOTE = "The address is taken from CASEKIT_URL and the token from CASEKIT_TOKEN; a token is never an argument."


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    top = argparse.ArgumentParser(prog="casekit", description="Cases of human corrections: pull, keep, look.")
    top.add_argument("--version", action="version", version=f"casekit {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, does: str, example: str, *, server: bool = False) -> argparse.ArgumentParser:
        epilog = f"example: {example}" + (f"\n\n{TOKEN_NOTE}" if server else "")
        form = argparse.RawDescriptionHelpFormatter
        return commands.add_parser(name, help=does, description=does, epilog=epilog, formatter_class=form)

    demo = command("demo", "Show the main job on real data, with a local server.", "casekit demo --out casekit-demo")
    demo.add_argument("--out", default="casekit-demo", metavar="FOLDER", help="where to write (default: casekit-demo)")

    serve = command(
        "serve",
        "Serve test sets on this machine until Ctrl-C.",
        "casekit serve acme.a=1.0.0=pages/ snapshots/acme.b-1.0.0",
    )
    serve.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="a snapshot folder, or ID=VERSION=FOLDER with page-*.json files (default: the example data)",
    )
    serve.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    serve.add_argument("--db", metavar="FILE", help="keep the state in a SQLite file (default: memory)")

    pull = command(
        "pull",
        "Pull test sets into snapshot folders.",
        "casekit pull acme.drafting-accuracy@1.2.0 --into snapshots",
        server=True,
    )
    pull.add_argument("refs", nargs="+", metavar="ID@VERSION", help="test set and version")
    pull.add_argument("--into", default="snapshots", metavar="FOLDER", help="parent folder (default: snapshots)")
    pull.add_argument("--workers", type=int, default=4, metavar="N", help="test sets at a time (default: 4)")

    cases = command("cases", "List the cases of an agent's test set.", "casekit cases acme.drafting", server=True)
    cases.add_argument("agent", metavar="AGENT", help="id of the agent")
    cases.add_argument("--project", metavar="UUID", help="only the cases of this project")

    retire = command(
        "retire",
        "Retire a case of an agent's test set, for good.",
        "casekit retire acme.drafting cor-1 --reason 'the tool was removed' --dry-run",
        server=True,
    )
    retire.add_argument("agent", metavar="AGENT", help="id of the agent")
    retire.add_argument("case", metavar="CASE", help="id of the case")
    retire.add_argument("--reason", required=True, metavar="TEXT", help="why it no longer applies")

    add = command(
        "add",
        "Add a case to an agent's test set, from one of its finished runs.",
        """casekit add acme.drafting run-1 --decisions wrong --should-call 'find={"id": 7}' --must-not-call delete""",
        server=True,
    )
    add.add_argument("agent", metavar="AGENT", help="id of the agent")
    add.add_argument("run", metavar="RUN", help="id of the run")
    add.add_argument("--decisions", choices=["right", "wrong"], help="the run's tool calls")
    add.add_argument(
        "--should-call",
        action="append",
        metavar="TOOL[=ARGS]",
        help="a call it should have made, with arguments as a JSON object where they matter; may be repeated",
    )
    add.add_argument(
        "--must-not-call", action="append", metavar="TOOL", help="a tool it should not have called; may be repeated"
    )
    add.add_argument("--answer", choices=["right", "wrong"], help="the run's answer")
    add.add_argument("--should-say", metavar="TEXT", help="what the answer should have said")
    add.add_argument("--why", metavar="TEXT", help="why the answer was wrong")
    add.add_argument(
        "--item",
        action="append",
        metavar="KEY=VERDICT",
        help="an item of a ranked answer, right or wrong; may be repeated",
    )
    for write in (retire, add):
        write.add_argument("--dry-run", action="store_true", help="send nothing, and show what would be sent")

    verify = command(
        "verify", "Check a snapshot to the last byte.", "casekit verify snapshots/acme.drafting-accuracy-1.2.0"
    )
    verify.add_argument("folder", help="the snapshot's folder")

    info = command("info", "Say what a snapshot is.", "casekit info snapshots/acme.drafting-accuracy-1.2.0")
    info.add_argument("folder", help="the snapshot's folder")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments
        As on the command line; None takes those of the process.

    Returns
    -------
    int
        0 when done, 1 for an error of casekit. Wrong usage ends the process with 2.
    """
    chosen = parser().parse_args(arguments)
    commands = {
        "add": _add,
        "cases": _cases,
        "demo": _demo,
        "info": _info,
        "pull": _pull,
        "retire": _retire,
        "serve": _serve,
        "verify": _verify,
    }
    try:
        commands[chosen.command](chosen)
    except CasekitError as error:
        print(f"casekit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("casekit: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left; there is nobody to tell
        return 1
    return 0


def _pull(chosen: argparse.Namespace) -> None:
    from casekit.loaders import pull

    refs = [_ref(text) for text in chosen.refs]
    for info in pull(refs, into=chosen.into, workers=chosen.workers):
        name, version = info.test_sets[0]
        print(f"{name} {version}: {info.report}")


def _cases(chosen: argparse.Namespace) -> None:
    from casekit.loaders import load_agent_cases

    with _client() as client:
        live = load_agent_cases(chosen.agent, chosen.project, client=client)
    print(repr(live))
    table = live.cases[["case_id", "kind", "subject_version", "added_at", "retired_reason"]].copy()
    table["added_at"] = table["added_at"].dt.strftime("%Y-%m-%d %H:%M")
    for name in ("case_id", "kind", "subject_version", "retired_reason"):
        table[name] = [one_line(text, 60) if isinstance(text, str) else "" for text in table[name]]
    if len(table):
        print(_table(table), end="")


def _retire(chosen: argparse.Namespace) -> None:
    with _client() as client:
        got = client.retire_case(chosen.agent, chosen.case, reason=chosen.reason, **_dry(chosen))
    _report(got, "retired")


def _add(chosen: argparse.Namespace) -> None:
    with _client() as client:
        got = client.add_case(
            chosen.agent,
            chosen.run,
            decisions=chosen.decisions,
            should_call=chosen.should_call and [_call(text) for text in chosen.should_call],
            must_not_call=chosen.must_not_call,
            answer=chosen.answer,
            should_say=chosen.should_say,
            why=chosen.why,
            items=chosen.item and [_item(text) for text in chosen.item],
            **_dry(chosen),
        )
    _report(got, "added")


def _dry(chosen: argparse.Namespace) -> dict[str, Any]:
    return {"dry_run": chosen.dry_run}


def _report(got: AgentCase | PlannedWrite, what: str) -> None:
    """Say what was done, or would be."""
    if isinstance(got, PlannedWrite):
        print(f"nothing was sent; this would be:\n\n{got!r}")
    else:
        print(f"{what}: {one_line(got.id, 200)}, made on {one_line(got.made_on, 60)}, run {one_line(got.run_id, 200)}")


def _call(text: str) -> dict[str, Any]:
    tool, given, args = text.partition("=")
    if not given:
        return {"tool": tool}
    try:
        return {"tool": tool, "args": json.loads(args)}
    except json.JSONDecodeError:
        raise CasekitError(f'the arguments of {tool!r} are no JSON object, such as {tool}={{"id": 7}}') from None


def _item(text: str) -> dict[str, str]:
    key, _, verdict = text.rpartition("=")
    return {"key": key, "verdict": verdict}


def _client() -> Client:
    """A client whose token is the environment's, or typed in where nobody sees it."""
    token = None
    if not os.environ.get("CASEKIT_TOKEN") and sys.stdin.isatty():
        token = getpass.getpass("Token: ")
    return Client(token=token)


def _ref(text: str) -> tuple[str, str]:
    name, at, version = text.rpartition("@")
    if not at:
        raise CasekitError(f"{text!r} is not of the form ID@VERSION, such as acme.drafting-accuracy@1.2.0")
    return name, version


def _verify(chosen: argparse.Namespace) -> None:
    from casekit.snapshot import verify_snapshot

    info = verify_snapshot(chosen.folder)
    print(f"{chosen.folder}: whole, {info.rows('cases'):,} cases, content {info.content_hash[:16]}")


def _info(chosen: argparse.Namespace) -> None:
    from casekit.snapshot import read_snapshot, snapshot_info

    info = snapshot_info(chosen.folder)
    print(repr(read_snapshot(chosen.folder)))
    print(f"  {'fetched':<12} {info.fetched_at:%Y-%m-%d %H:%M} UTC from {info.origin or 'an unknown server'}")
    print(f"  {'content':<12} {info.content_hash}")
    print(f"  {'written by':<12} casekit {info.casekit}")


def _serve(chosen: argparse.Namespace) -> None:
    from casekit.sample import TEST_SET_ID, VERSION, pages_folder
    from casekit.server import LocalServer
    from casekit.snapshot import read_snapshot

    with LocalServer(db=chosen.db, port=chosen.port) as server:
        for source in chosen.sources or [f"{TEST_SET_ID}={VERSION}={pages_folder()}"]:
            name, _, rest = source.partition("=")
            version, _, folder = rest.partition("=")
            if folder:
                count = server.load_pages(folder, name, version)
            else:
                cases = read_snapshot(source)
                ((name, version),) = cases.source.test_sets or (("", ""),)
                count = server.add_test_set(name, version, cases.documents())
            print(f"serving {name} {version}: {count:,} cases", flush=True)
        print(f"export CASEKIT_URL={server.url} CASEKIT_TOKEN={server.token}", flush=True)
        print("Ctrl-C stops it", flush=True)
        server.wait()


def _demo(chosen: argparse.Namespace) -> None:
    """Show the main job: serve, pull, keep, read back, look."""
    start = time.monotonic()
    import casekit as ck
    from casekit.sample import TEST_SET_ID, VERSION, pages_folder

    out = Path(chosen.out)
    with ck.LocalServer() as server:
        server.load_pages(pages_folder(), TEST_SET_ID, VERSION)
        print(f"1. A local server has {TEST_SET_ID} {VERSION} at {server.url}")
        with ck.Client(server.url, token=server.token) as client:
            (info,) = ck.pull([(TEST_SET_ID, VERSION)], into=out / "snapshots", client=client, progress=True)
        print(f"2. Pulled over HTTP: {info.report}")
    folder = out / "snapshots" / f"{TEST_SET_ID}-{VERSION}"
    ck.verify_snapshot(folder)
    print(f"3. Snapshot written and verified: {folder}")
    cases = ck.read_snapshot(folder)
    print(f"4. Read back:\n{cases!r}\n")

    items = ck.segments_wide(cases.without_erased().items, cases.segments)
    columns = ["category", "rate", "low", "high", "n_cases", "n_corrections"]
    rates = ck.yes_rates(items, by="category")
    print("5. How often did people prefer the model whose name sorts first? All people, 95 % interval:")
    print(_table(rates[columns]))
    print("   Experts alone:")
    print(_table(ck.yes_rates(items, by="category", weights="expert")[columns]))
    weights = ck.expert_weights(items, by="category")
    print("6. Whose weight is behind it?")
    print(_table(weights[["category", "weight", "expert_weight", "expert_share", "share_low", "share_high"]]))
    for name, axes in (("yes_rates.png", ck.plot_yes_rates(rates)), ("weights.png", ck.plot_weights(weights))):
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.savefig(out / name, dpi=144)
    print(f"7. Plots: {out / 'yes_rates.png'} and {out / 'weights.png'}")
    print(f"\nDone in {time.monotonic() - start:.1f} s. Open the plots, then notebooks/01_quick_start.ipynb.")


def _table(frame: pd.DataFrame) -> str:
    text = frame.to_string(index=False, float_format=lambda value: f"{value:.3f}")
    return "\n".join(f"   {line}" for line in text.splitlines()) + "\n"
