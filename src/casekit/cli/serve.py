"""``casekit serve``: test sets on this machine."""

from __future__ import annotations

import argparse

from casekit.cli.command import Commands
from casekit.errors import ConfigError, one_line

__all__ = ["register"]


def register(commands: Commands) -> None:
    """Add the command."""
    form = commands.add(
        "serve",
        serve,
        "Serve test sets on this machine until Ctrl-C.",
        "acme.a=1.0.0=pages/ snapshots/acme.b-1.0.0",
    )
    form.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="a snapshot folder, or ID=VERSION=FOLDER with page-*.json files (default: the example data)",
    )
    form.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    form.add_argument("--db", metavar="FILE", help="keep the state in a SQLite file (default: memory)")


def serve(chosen: argparse.Namespace) -> None:
    """Serve test sets until Ctrl-C."""
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
                if len(cases.source.test_sets) != 1:
                    raise ConfigError(f"{one_line(source, 200)} is not of one test set: give a snapshot of each")
                ((name, version),) = cases.source.test_sets
                count = server.add_test_set(name, version, cases.documents())
            print(f"serving {one_line(name, 200)} {one_line(version, 60)}: {count:,} cases", flush=True)
        print(f"export CASEKIT_URL={server.url} CASEKIT_TOKEN={server.token}", flush=True)
        print("Ctrl-C stops it", flush=True)
        server.wait()
