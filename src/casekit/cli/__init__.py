"""The command line: ``casekit --help``.

A module here declares its commands in ``register`` and has a function for each, which gets parsed arguments and prints.
An error of casekit is one line on stderr and exit code 1, wrong usage is exit code 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from casekit import __version__
from casekit.cli import agents, demo, serve, snapshots
from casekit.cli.command import Commands
from casekit.errors import CasekitError

__all__ = ["main", "parser"]


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    top = argparse.ArgumentParser(prog="casekit", description="Cases of human corrections: pull, keep, look.")
    top.add_argument("--version", action="version", version=f"casekit {__version__}")
    commands = Commands(top)
    for part in (demo, serve, snapshots, agents):
        part.register(commands)
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
        0 when done, 1 for an error of casekit, 3 for a sweep that found something. Wrong usage ends the process with 2.
    """
    chosen = parser().parse_args(arguments)
    try:
        return chosen.call(chosen) or 0
    except CasekitError as error:
        print(f"casekit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("casekit: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left; there is nobody to tell
        return 1
