"""``casekit cases``, ``add`` and ``retire``: an agent's own test set."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from casekit.cli.command import Commands, connected
from casekit.cli.output import text_of
from casekit.errors import CasekitError, one_line

if TYPE_CHECKING:
    from casekit.documents import AgentCase, PlannedWrite

__all__ = ["register"]


def register(commands: Commands) -> None:
    """Add the commands."""
    listing = commands.add("cases", cases, "List the cases of an agent's test set.", "acme.drafting", server=True)
    listing.add_argument("agent", metavar="AGENT", help="id of the agent")
    listing.add_argument("--project", metavar="UUID", help="only the cases of this project")

    retiring = commands.add(
        "retire",
        retire,
        "Retire a case of an agent's test set, for good.",
        "acme.drafting cor-1 --reason 'the tool was removed' --dry-run",
        server=True,
    )
    retiring.add_argument("agent", metavar="AGENT", help="id of the agent")
    retiring.add_argument("case", metavar="CASE", help="id of the case")
    retiring.add_argument("--reason", required=True, metavar="TEXT", help="why it no longer applies")

    adding = commands.add(
        "add",
        add,
        "Add a case to an agent's test set, from one of its finished runs.",
        """acme.drafting run-1 --decisions wrong --should-call 'find={"id": 7}' --must-not-call delete""",
        server=True,
    )
    adding.add_argument("agent", metavar="AGENT", help="id of the agent")
    adding.add_argument("run", metavar="RUN", help="id of the run")
    adding.add_argument("--decisions", choices=["right", "wrong"], help="the run's tool calls")
    adding.add_argument(
        "--should-call",
        action="append",
        metavar="TOOL[=ARGS]",
        help="a call it should have made, with arguments as a JSON object where they matter; may be repeated",
    )
    adding.add_argument(
        "--must-not-call", action="append", metavar="TOOL", help="a tool it should not have called; may be repeated"
    )
    adding.add_argument("--answer", choices=["right", "wrong"], help="the run's answer")
    adding.add_argument("--should-say", metavar="TEXT", help="what the answer should have said")
    adding.add_argument("--why", metavar="TEXT", help="why the answer was wrong")
    adding.add_argument(
        "--item",
        action="append",
        metavar="KEY=VERDICT",
        help="an item of a ranked answer, right or wrong; may be repeated",
    )
    for write in (retiring, adding):
        write.add_argument("--dry-run", action="store_true", help="send nothing, and show what would be sent")


def cases(chosen: argparse.Namespace) -> None:
    """List the cases of an agent."""
    from casekit.loaders import load_agent_cases

    with connected() as client:
        live = load_agent_cases(chosen.agent, chosen.project, client=client)
    print(repr(live))
    table = live.cases[["case_id", "kind", "subject_version", "added_at", "retired_reason"]].copy()
    table["added_at"] = table["added_at"].dt.strftime("%Y-%m-%d %H:%M")
    for name in ("case_id", "kind", "subject_version", "retired_reason"):
        table[name] = [one_line(text, 60) if isinstance(text, str) else "" for text in table[name]]
    if len(table):
        print(text_of(table), end="")


def retire(chosen: argparse.Namespace) -> None:
    """Retire a case."""
    with connected() as client:
        got = client.retire_case(chosen.agent, chosen.case, reason=chosen.reason, **_dry(chosen))
    _report(got, "retired")


def add(chosen: argparse.Namespace) -> None:
    """Add a case."""
    with connected() as client:
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
    from casekit.documents import PlannedWrite

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
        name = one_line(tool, 200)
        raise CasekitError(f'the arguments of {name} are no JSON object, such as {name}={{"id": 7}}') from None


def _item(text: str) -> dict[str, str]:
    key, _, verdict = text.rpartition("=")
    return {"key": key, "verdict": verdict}
