from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx
import pytest

from casekit.server import LocalServer

PROJECT = "00000000-0000-4000-8000-00000000000A"
AGENT_CASES = "/v1/agents/acme.drafting/test-set/cases"
BODY = {"runId": "run-1", "answer": "right"}

ClientOf = Callable[[str | None], httpx.Client]


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"]


def listed(api: httpx.Client) -> list[dict[str, Any]]:
    """Return the agent's cases."""
    cases: list[dict[str, Any]] = api.get(AGENT_CASES).json()["data"]
    return cases


def test_a_case_added_by_hand_says_where_it_is_from(server: LocalServer, client_of: ClientOf) -> None:
    """The answer has the run's project and version, the caller, the times, and is an expert's."""
    server.add_run("acme.drafting", "run-2", project_id=PROJECT, version="2.0.1", output=None)
    writer = client_of(server.add_token(caller_id="service-1", kind="service"))
    answer = writer.post(AGENT_CASES, json={"runId": "run-2", "answer": "right"})
    assert answer.status_code == 201
    case = answer.json()
    assert re.fullmatch(r"case-[0-9a-f-]{36}", case.pop("id"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", case["addedAt"])
    assert case.pop("addedAt") == case.pop("updatedAt")
    assert case == {
        "kind": "hand",
        "projectId": PROJECT,
        "runId": "run-2",
        "madeOn": "2.0.1",
        "expect": {"answer": {"verdict": "right"}},
        "addedBy": {"kind": "service", "id": "service-1"},
        "expert": True,
    }


def test_an_added_case_is_listed_first_as_it_was_answered(server: LocalServer, api: httpx.Client) -> None:
    """The list begins with the case added last, byte for byte as the answer gave it."""
    server.add_agent_case("acme.drafting", {"id": "cor-1", "projectId": PROJECT})
    answer = api.post(AGENT_CASES, json=BODY)
    assert api.get(AGENT_CASES).content.startswith(b'{"data":[' + answer.content + b",{")
    assert len(listed(api)) == 2


def test_a_run_may_have_many_cases(api: httpx.Client) -> None:
    """Each write without a key adds a case of its own, also from the same run."""
    first, second = api.post(AGENT_CASES, json=BODY).json(), api.post(AGENT_CASES, json=BODY).json()
    assert [case["id"] for case in listed(api)] == [second["id"], first["id"]]


def test_a_run_that_cannot_be_a_case_is_refused(server: LocalServer, api: httpx.Client) -> None:
    """Unknown, another agent's, a replay, erased, unfinished: each has its own answer, and nothing is added."""
    server.add_run("acme.other", "run-other")
    server.add_run("acme.drafting", "run-replay", replay_of="run-1")
    server.add_run("acme.drafting", "run-erased", output={"a": 1}, erased=True)
    server.add_run("acme.drafting", "run-open", finished=False)
    expected = {
        "run-none": (404, "run-not-found"),
        "run-other": (400, "bad-input"),
        "run-replay": (400, "bad-input"),
        "run-erased": (410, "run-erased"),
        "run-open": (409, "run-not-finished"),
    }
    assert {run: refusal(api.post(AGENT_CASES, json=BODY | {"runId": run})) for run in expected} == expected
    assert listed(api) == []


def test_an_output_of_null_is_an_output(server: LocalServer, api: httpx.Client) -> None:
    """A finished run whose output is null has one: a pointer to the whole of it resolves, another does not."""
    server.add_run("acme.drafting", "run-null", output=None)
    item = {"key": "k", "verdict": "right"}
    whole = {"runId": "run-null", "items": [item | {"pointer": ""}]}
    part = {"runId": "run-null", "items": [item | {"pointer": "/a"}]}
    assert api.post(AGENT_CASES, json=whole).status_code == 201
    assert refusal(api.post(AGENT_CASES, json=part)) == (400, "item-not-found")


def test_retiring_adds_the_retirement_and_changes_no_other_byte(server: LocalServer, client_of: ClientOf) -> None:
    """A retired case has reason, caller and time; its other members, unknown ones too, stay as they were."""
    text = (
        b'{"id":"cor/1 \xc3\xbc","kind":"correction","projectId":"00000000-0000-4000-8000-00000000000A","expect":'
        b'{"decisions":{"verdict":"wrong","shouldCall":[{"tool":"t","args":{"n":1.10,"big":12345678901234567890}}]}},'
        b'"updatedAt":"2026-01-01T00:00:00Z","later":{"b":"\\u00e9\\ud800","a":1E2}}'
    )
    server.add_agent_case("acme.drafting", text)
    writer = client_of(server.add_token(caller_id="reviewer-1"))
    answer = writer.post(f"{AGENT_CASES}/cor%2F1%20%C3%BC/retire", json={"reason": "tool\nremoved"})
    assert answer.status_code == 200
    at = answer.json()["updatedAt"]
    retired = f'"retired":{{"reason":"tool\\nremoved","by":{{"kind":"user","id":"reviewer-1"}},"at":"{at}"}}}}'
    assert answer.content == text[:-1].replace(b"2026-01-01T00:00:00Z", at.encode()) + b"," + retired.encode()
    assert api_bytes(writer) == b'{"data":[' + answer.content + b'],"hasMore":false}'


def api_bytes(api: httpx.Client) -> bytes:
    """Return the agent's list as it came."""
    return api.get(AGENT_CASES).content


def test_retiring_is_later_than_adding(api: httpx.Client) -> None:
    """A retirement moves updatedAt past addedAt, also right after the adding."""
    added = api.post(AGENT_CASES, json=BODY).json()
    retired = api.post(f"{AGENT_CASES}/{added['id']}/retire", json={"reason": "x"}).json()
    assert datetime.fromisoformat(retired["updatedAt"]) > datetime.fromisoformat(retired["addedAt"])
    assert retired["addedAt"] == added["addedAt"]


def test_a_case_is_retired_once(api: httpx.Client) -> None:
    """A second retirement is 409, and the first one's reason stays."""
    path = f"{AGENT_CASES}/{api.post(AGENT_CASES, json=BODY).json()['id']}/retire"
    assert api.post(path, json={"reason": "first"}).status_code == 200
    assert refusal(api.post(path, json={"reason": "second"})) == (409, "test-case-retired")
    assert [case["retired"]["reason"] for case in listed(api)] == ["first"]


@pytest.mark.parametrize("retired", [b"null", b'{"reason":"x"}'])
def test_a_case_loaded_as_retired_is_retired(server: LocalServer, api: httpx.Client, retired: bytes) -> None:
    """A document with a retirement cannot be retired again; one whose retirement is null can."""
    text = b'{"id":"cor-1","projectId":"00000000-0000-4000-8000-00000000000A","retired": ' + retired + b" }"
    server.add_agent_case("acme.drafting", text)
    status = 200 if retired == b"null" else 409
    assert api.post(f"{AGENT_CASES}/cor-1/retire", json={"reason": "x"}).status_code == status


def test_only_the_agents_own_cases_are_retired(server: LocalServer, api: httpx.Client) -> None:
    """A case that is not there, or is another agent's, is 404."""
    server.add_agent_case("acme.other", {"id": "cor-1", "projectId": PROJECT})
    for case_id in ("cor-1", "case-none", "run-1"):
        answer = api.post(f"{AGENT_CASES}/{case_id}/retire", json={"reason": "x"})
        assert refusal(answer) == (404, "test-case-not-found")
        assert case_id in answer.json()["error"]["message"]
