from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casekit.server import LocalServer

CASES = "/v1/test-sets/acme.set/versions/1.0.0/cases"
AGENT_CASES = "/v1/agents/acme.drafting/test-set/cases"
PROJECTS = ["00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"]
DAY = 86_400

ClientOf = Callable[[str | None], httpx.Client]


def numbered(count: int) -> list[dict[str, Any]]:
    """Return case documents, case-0 first."""
    return [{"caseId": f"case-{number}"} for number in range(count)]


def fill_agent(server: LocalServer, count: int) -> None:
    """Give the agent cases, case-0 first, in two projects by turns."""
    for number in range(count):
        server.add_agent_case("acme.drafting", {"id": f"case-{number}", "projectId": PROJECTS[number % 2]})


def ids(answer: httpx.Response) -> list[str]:
    """Return the ids on a page."""
    assert answer.status_code == 200, answer.text
    return [case.get("caseId", case.get("id")) for case in answer.json()["data"]]


def walk(api: httpx.Client, path: str, *limits: int, **query: str) -> list[str]:
    """Return all ids of a list, page by page, with the limits in turn."""
    found: list[str] = []
    turn = 0
    while True:
        page = api.get(path, params=query | {"limit": str(limits[turn % len(limits)])})
        turn += 1
        found += ids(page)
        assert ("nextCursor" in page.json()) is page.json()["hasMore"]
        if not page.json()["hasMore"]:
            return found
        query = query | {"cursor": page.json()["nextCursor"]}


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"]


def test_an_empty_version_is_one_empty_page(server: LocalServer, api: httpx.Client) -> None:
    """A version without cases lists as one empty page, with no cursor."""
    server.add_test_set("acme.set", "1.0.0", [])
    assert api.get(CASES).content == b'{"data":[],"hasMore":false}'


@pytest.mark.parametrize(("count", "first_page", "more"), [(24, 24, False), (25, 25, False), (26, 25, True)])
def test_without_a_limit_a_page_has_25_cases(
    server: LocalServer, api: httpx.Client, count: int, first_page: int, more: bool
) -> None:
    """The default page has 25 cases, and a full last page says that it is the last."""
    server.add_test_set("acme.set", "1.0.0", numbered(count))
    page = api.get(CASES)
    assert (len(ids(page)), page.json()["hasMore"]) == (first_page, more)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=-1", "limit=", "limit=ten", "limit=1.0", "limit=+1", "limit=01",
              "limit=%D9%A1", "limit=1%0A", "limit=5&limit=5", "limit=99999999999999999999"]
)  # fmt: skip
@pytest.mark.parametrize("path", [CASES, AGENT_CASES])
def test_a_limit_outside_1_to_100_is_400(server: LocalServer, api: httpx.Client, path: str, query: str) -> None:
    """A limit that is no whole number from 1 to 100, or stands twice, is refused."""
    server.add_test_set("acme.set", "1.0.0", numbered(1))
    assert refusal(api.get(f"{path}?{query}")) == (400, "bad-input")


@pytest.mark.parametrize("limit", [1, 100])
def test_the_bounds_of_the_limit_are_taken(server: LocalServer, api: httpx.Client, limit: int) -> None:
    """Limits of 1 and of 100 give pages of that many cases."""
    server.add_test_set("acme.set", "1.0.0", numbered(101))
    assert len(ids(api.get(CASES, params={"limit": limit}))) == limit


def test_an_unknown_query_parameter_is_left_alone(server: LocalServer, api: httpx.Client) -> None:
    """A parameter that the route does not have changes nothing."""
    server.add_test_set("acme.set", "1.0.0", numbered(2))
    assert ids(api.get(CASES + "?colour=red")) == ["case-0", "case-1"]


@pytest.mark.parametrize("version", ["1.0", "1.0.0.0", "v1.0.0", "1.0.0-rc1", "latest", "1.0.0%0A", "%D9%A1.0.0"])
def test_a_version_that_is_not_three_numbers_is_400(api: httpx.Client, version: str) -> None:
    """A version that is not three numbers is refused before anything is looked for."""
    assert refusal(api.get(f"/v1/test-sets/acme.set/versions/{version}/cases")) == (400, "bad-input")


def test_an_unknown_set_version_or_agent_is_404_and_named(server: LocalServer, api: httpx.Client) -> None:
    """What is not there is told apart: the set, its version, the agent."""
    server.add_test_set("acme.set", "1.0.0", numbered(1))
    unknown = {
        "/v1/test-sets/acme.other/versions/1.0.0/cases": ("test-set-not-found", "acme.other"),
        "/v1/test-sets/acme.set/versions/1.0.1/cases": ("version-not-found", "1.0.1"),
        "/v1/agents/acme.other/test-set/cases": ("agent-not-found", "acme.other"),
    }
    for path, (code, named) in unknown.items():
        answer = api.get(path)
        assert refusal(answer) == (404, code)
        assert named in answer.json()["error"]["message"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.integers(0, 40), limits=st.lists(st.integers(1, 100), min_size=1, max_size=4))
def test_any_page_sizes_give_all_cases_once_in_order(
    server: LocalServer, api: httpx.Client, count: int, limits: list[int]
) -> None:
    """A walk gives every case once and in order, whatever the page size, and also when it changes on the way."""
    server.add_test_set(f"acme.{count}", "1.0.0", numbered(count))
    path = f"/v1/test-sets/acme.{count}/versions/1.0.0/cases"
    assert walk(api, path, *limits) == [f"case-{number}" for number in range(count)]


def test_an_agents_cases_come_newest_first(server: LocalServer, api: httpx.Client) -> None:
    """The case added last is listed first, at any page size."""
    fill_agent(server, 7)
    assert walk(api, AGENT_CASES, 3) == [f"case-{number}" for number in reversed(range(7))]


def test_an_agent_without_cases_has_an_empty_list(api: httpx.Client) -> None:
    """An agent that is known by a run alone lists as one empty page."""
    assert api.get(AGENT_CASES).content == b'{"data":[],"hasMore":false}'


def test_the_project_filter_gives_that_projects_cases(server: LocalServer, api: httpx.Client) -> None:
    """A list filtered by project has its cases alone, over all pages, and in either case of the UUID's letters."""
    fill_agent(server, 5)
    assert walk(api, AGENT_CASES, 1, projectId=PROJECTS[0]) == ["case-4", "case-2", "case-0"]
    assert walk(api, AGENT_CASES, 2, projectId=PROJECTS[1].upper()) == ["case-3", "case-1"]
    assert walk(api, AGENT_CASES, 2, projectId="00000000-0000-4000-8000-00000000000c") == []


@pytest.mark.parametrize(
    "query", ["projectId=", "projectId=acme", f"projectId={PROJECTS[0][:-1]}", f"projectId={{{PROJECTS[0]}}}",
              f"projectId={PROJECTS[0]}&projectId={PROJECTS[0]}"]
)  # fmt: skip
def test_a_project_id_that_is_no_uuid_is_400(api: httpx.Client, query: str) -> None:
    """A projectId that is no UUID, or stands twice, is refused."""
    assert refusal(api.get(f"{AGENT_CASES}?{query}")) == (400, "bad-input")


def test_a_case_added_during_a_walk_moves_no_other(server: LocalServer, api: httpx.Client) -> None:
    """A walk goes on where it was when a case is added meanwhile: none comes twice, none is lost."""
    fill_agent(server, 4)
    first = api.get(AGENT_CASES, params={"limit": 2})
    server.add_agent_case("acme.drafting", {"id": "case-new", "projectId": PROJECTS[0]})
    rest = api.get(AGENT_CASES, params={"cursor": first.json()["nextCursor"]})
    assert ids(first) + ids(rest) == ["case-3", "case-2", "case-1", "case-0"]


def test_a_cursor_needs_encoding_in_a_url(server: LocalServer, api: httpx.Client) -> None:
    """A cursor holds a character that a URL must encode, so that a client which forgets it is found out."""
    server.add_test_set("acme.set", "1.0.0", numbered(2))
    assert "=" in api.get(CASES, params={"limit": 1}).json()["nextCursor"]


def test_a_cursor_holds_for_one_list_filter_and_caller(
    server: LocalServer, api: httpx.Client, client_of: ClientOf
) -> None:
    """A cursor of another list, version, filter or caller is refused, with the way out in the message."""
    for version in ("1.0.0", "1.0.1"):
        server.add_test_set("acme.set", version, numbered(3))
    fill_agent(server, 6)
    cursor = api.get(CASES, params={"limit": 1}).json()["nextCursor"]
    filtered = api.get(AGENT_CASES, params={"limit": 1, "projectId": PROJECTS[0]}).json()["nextCursor"]
    colleague = client_of(server.add_token(caller_id="reviewer-1"))
    namesake = client_of(server.add_token(caller_id="local", kind="service"))
    refused = [
        api.get(CASES.replace("1.0.0", "1.0.1"), params={"cursor": cursor}),
        api.get(AGENT_CASES, params={"cursor": cursor}),
        api.get(AGENT_CASES, params={"cursor": filtered}),
        api.get(AGENT_CASES, params={"cursor": filtered, "projectId": PROJECTS[1]}),
        colleague.get(CASES, params={"cursor": cursor}),
        namesake.get(CASES, params={"cursor": cursor}),
    ]
    for answer in refused:
        assert refusal(answer) == (400, "bad-input")
        assert "without a cursor" in answer.json()["error"]["message"]
    assert ids(api.get(CASES, params={"cursor": cursor})) == ["case-1", "case-2"]


def test_two_tokens_of_one_caller_share_cursors(server: LocalServer, api: httpx.Client, client_of: ClientOf) -> None:
    """A cursor belongs to the caller, not to the token it was asked for with."""
    server.add_test_set("acme.set", "1.0.0", numbered(2))
    cursor = api.get(CASES, params={"limit": 1}).json()["nextCursor"]
    same_caller = client_of(server.add_token(caller_id="local"))
    assert ids(same_caller.get(CASES, params={"cursor": cursor})) == ["case-1"]


def test_a_damaged_cursor_is_400(server: LocalServer, api: httpx.Client) -> None:
    """A cursor with any bit changed, cut, lengthened, empty, repeated or made up is refused."""
    server.add_test_set("acme.set", "1.0.0", numbered(3))
    cursor = api.get(CASES, params={"limit": 1}).json()["nextCursor"]
    sealed = b64decode(cursor)
    damaged = [
        b64encode(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]).decode() for at in range(len(sealed))
    ]
    for wrong in [*damaged, cursor[:-4], cursor + "AAAA", "", " ", "ü", "null", cursor.replace("=", ""), cursor + "\n"]:
        assert refusal(api.get(CASES, params={"cursor": wrong})) == (400, "bad-input")
    assert refusal(api.get(CASES, params={"cursor": [cursor, cursor]})) == (400, "bad-input")


@pytest.mark.parametrize(("age", "status"), [(DAY - 60, 200), (DAY + 1, 400)])
def test_a_cursor_holds_for_a_day(
    server: LocalServer, api: httpx.Client, monkeypatch: pytest.MonkeyPatch, age: int, status: int
) -> None:
    """A cursor is taken within a day, and refused as expired after it."""
    server.add_test_set("acme.set", "1.0.0", numbered(2))
    cursor = api.get(CASES, params={"limit": 1}).json()["nextCursor"]
    made = time.time()
    monkeypatch.setattr("casekit.server.cursors.time", lambda: made + age)
    answer = api.get(CASES, params={"cursor": cursor})
    assert answer.status_code == status
    assert ("has expired" in answer.text) is (status == 400)
