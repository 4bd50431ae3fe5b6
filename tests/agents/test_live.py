from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import casekit as ck
from casekit.caseset import CaseSet
from casekit.errors import ConfigError, NotFoundError

AGENT = "acme.drafting"
OTHER = "00000000-0000-4000-8000-00000000000b"

Frozen = Callable[..., CaseSet]
LiveCase = Callable[..., dict[str, Any]]


def retire(client: ck.Client, *case_ids: str) -> None:
    """Retire some cases."""
    for case_id in case_ids:
        client.retire_case(AGENT, case_id, reason="the tool was removed")


def test_the_live_set_lists_newest_first_with_its_retired_cases(server: ck.LocalServer, client: ck.Client) -> None:
    """A retired case stays listed, with who, why and when."""
    retire(client, "cor-2")
    cases = ck.load_agent_cases(AGENT, client=client, progress=False).cases.set_index("case_id")
    assert cases.index.tolist() == ["cor-3", "cor-2", "cor-1"]
    assert cases["retired"].tolist() == [False, True, False]
    why_and_who = cases[["retired_reason", "retired_by_kind", "retired_by_id"]].iloc[1].tolist()
    assert why_and_who == ["the tool was removed", "user", "local"]
    assert cases["retired_at"].notna().tolist() == [False, True, False]
    assert cases["subject_version"].tolist() == ["1.3.0"] * 3


def test_a_live_set_knows_its_retired_cases(client: ck.Client) -> None:
    """Without and active leave out the same, and say how many."""
    retire(client, "cor-1", "cor-3")
    live = ck.load_agent_cases(AGENT, client=client, progress=False)
    for usable in (live.without_retired(), live.active()):
        assert usable.cases["case_id"].tolist() == ["cor-2"]
        assert usable.left_out[-1].cases == 2


def test_a_frozen_set_learns_from_the_live_one_which_cases_are_retired(client: ck.Client, frozen: Frozen) -> None:
    """A case that the live set does not list is kept and named."""
    retire(client, "cor-1")
    live = ck.load_agent_cases(AGENT, client=client, progress=False)
    cases = frozen({"caseId": "cor-1"}, {"caseId": "cor-2"}, {"caseId": "cor-of-old"})
    usable = cases.without_retired(live)
    assert usable.cases["case_id"].tolist() == ["cor-2", "cor-of-old"]
    assert usable.left_out[-1].not_listed == ("cor-of-old",)
    with pytest.raises(ConfigError, match="does not know which cases are retired"):
        cases.without_retired()


def test_a_project_has_its_own_cases(server: ck.LocalServer, client: ck.Client, live_case: LiveCase) -> None:
    """Other projects' cases are not among them, and cases of an unknown project are none."""
    server.add_agent_case(AGENT, live_case("cor-b", projectId=OTHER))
    assert len(ck.load_agent_cases(AGENT, client=client, progress=False)) == 4
    assert ck.load_agent_cases(AGENT, OTHER, client=client, progress=False).cases["case_id"].tolist() == ["cor-b"]
    assert len(ck.load_agent_cases(AGENT, OTHER.replace("b", "c"), client=client, progress=False)) == 0
    with pytest.raises(NotFoundError):
        ck.load_agent_cases("acme.none", client=client, progress=False)


def test_a_live_set_of_many_pages_is_whole(server: ck.LocalServer, client: ck.Client, live_case: LiveCase) -> None:
    """Each case comes once, in order."""
    for number in range(250):
        server.add_agent_case(AGENT, live_case(f"many-{number}"))
    ids = ck.load_agent_cases(AGENT, client=client, progress=False).cases["case_id"].tolist()
    assert ids == [f"many-{number}" for number in reversed(range(250))] + ["cor-3", "cor-2", "cor-1"]


def test_a_case_comes_back_as_it_was_added(client: ck.Client) -> None:
    """What was sent is what the live set lists, to the last digit."""
    added = client.add_case(
        AGENT,
        "run-1",
        decisions="wrong",
        should_call=[{"tool": "find", "args": {"id": 9007199254740993, "none": None, "rate": 0.1}}, {"tool": "read"}],
        must_not_call=["delete"],
        answer="wrong",
        why="it was no",
        items=[{"key": "m-1", "verdict": "right", "pointer": "/matches/0", "rank": 0}],
    )
    live = ck.load_agent_cases(AGENT, client=client, progress=False)
    assert live.case(added.id)["expect"] == added.expect
    calls = live.expected_calls
    assert calls["tool"].tolist() == ["find", "read"]
    assert [json.loads(args) for args in calls["args_json"]] == [
        {"id": 9007199254740993, "none": None, "rate": 0.1},
        {},
    ]
