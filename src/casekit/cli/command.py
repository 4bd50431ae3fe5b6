"""What all commands share: how one is declared, and the client it asks with."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from casekit.errors import CasekitError, one_line

if TYPE_CHECKING:
    from casekit.client import Client

__all__ = ["Commands", "connected", "ref_of"]

TOKEN_NOTE = "The address is taken from CASEKIT_URL and the token from CASEKIT_TOKEN; a token is never an argument."

Run = Callable[[argparse.Namespace], int | None]


class Commands:
    """The commands of a parser.

    Parameters
    ----------
    top
        The parser that gets them.
    """

    def __init__(self, top: argparse.ArgumentParser) -> None:
        self._forms = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(
        self, name: str, run: Run, does: str, example: str, *, server: bool = False, as_json: bool = False
    ) -> argparse.ArgumentParser:
        """Declare a command.

        Parameters
        ----------
        name, does
            What it is called, and what it does.
        run
            Is given the parsed arguments; an exit code, where it is not 0.
        example
            Arguments of a call, for the help.
        server
            Whether it asks a server.
        as_json
            Whether it can print a JSON document in place of text.

        Returns
        -------
        argparse.ArgumentParser
            For the command's own arguments.
        """
        epilog = f"example: casekit {name} {example}" + (f"\n\n{TOKEN_NOTE}" if server else "")
        form = self._forms.add_parser(
            name, help=does, description=does, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        form.set_defaults(call=run)
        if as_json:
            form.add_argument("--json", action="store_true", help="print one JSON document")
        return form


def connected() -> Client:
    """A client whose token is the environment's, or typed in where nobody sees it."""
    from casekit.client import Client

    token = None
    if not os.environ.get("CASEKIT_TOKEN") and sys.stdin.isatty():
        token = getpass.getpass("Token: ")
    return Client(token=token)


def ref_of(text: str) -> tuple[str, str]:
    """Test set and version of ``ID@VERSION``."""
    name, at, version = text.rpartition("@")
    if not at:
        raise CasekitError(f"{one_line(text, 200)!r} is not of the form ID@VERSION, such as acme.drafting@1.2.0")
    return name, version
