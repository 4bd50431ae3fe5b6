"""From page to page: cursors, restarts, lists that do not end, and cases that come twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases.player import Player
from client.conftest import Serve
from client.pages import PAGE, QUICK, TOKEN, Spec, always, at, case, first, page, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

import casekit as ck
from casekit.errors import BadInputError, ConfigError, CursorError, IncompletePull, ProtocolError

REF = ("acme.drafting-accuracy", "1.2.0")
ClientOf = Callable[..., ck.Client]
AGENT = "acme.drafting"


def ids(cases: ck.CaseSet) -> list[str]:
    """The cases, in order."""
    return [str(case_id) for case_id in cases.cases["case_id"]]


def cursors(server: Player) -> list[str | None]:
    """The cursors that were sent, in order."""
    return [dict(request.query).get("cursor") for request in server.requests]


def test_every_page_is_asked_for_with_the_largest_limit(serve: Serve, client_of: ClientOf) -> None:
    """Each request must go to the list's own address, with a limit of 100 and the last page's cursor."""
    server = serve(first(body_json=page([1, 2], "b")), at("b", body_json=page([3], "c")), at("c", body_json=page([4])))
    assert ids(ck.load_test_set(*REF, client=client_of(server))) == ["c-1", "c-2", "c-3", "c-4"]
    assert [request.target for request in server.requests] == [
        f"/v1/test-sets/{REF[0]}/versions/{REF[1]}/cases?limit=100",
        f"/v1/test-sets/{REF[0]}/versions/{REF[1]}/cases?limit=100&cursor=b",
        f"/v1/test-sets/{REF[0]}/versions/{REF[1]}/cases?limit=100&cursor=c",
    ]
    assert {request.connection for request in server.requests} == {1}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_a_cursor_goes_back_as_it_came(cursor: str) -> None:
    """Any text must come back to the server letter for letter."""
    serve = {"responses": [first(body_json=page([1], cursor)), always(body_json=page([2]))]}
    with Player(serve, Path()) as server, ck.Client(server.url, token=TOKEN, retry=QUICK) as client:
        assert ids(ck.load_test_set(*REF, client=client)) == ["c-1", "c-2"]
        assert cursors(server) == [None, cursor]


@pytest.mark.parametrize(
    "name", ["a/b", "a b", "\u00e9", "100%", "a?b", "a#b", "%2e%2e", "a/../b", "..a", "a\\b", "a+b&c=d", "a\nb", "~"]
)
def test_an_id_stays_one_segment_of_the_path(serve: Serve, client_of: ClientOf, name: str) -> None:
    """An id must reach the server as it was written, whatever an address means by its characters."""
    from urllib.parse import unquote

    server = serve(always(body_json=PAGE))
    client = client_of(server)
    ck.load_test_set(name, "1.0.0", client=client)
    list(client.agent_case_pages(name))
    test_set, agent = (request.path.split("/") for request in server.requests)
    assert [unquote(part) for part in test_set] == ["", "v1", "test-sets", name, "versions", "1.0.0", "cases"]
    assert [unquote(part) for part in agent] == ["", "v1", "agents", name, "test-set", "cases"]


@pytest.mark.parametrize(
    "version", ["1.0", "v1.0.0", "1.0.0\n", "1.0.0-rc1", "\u0661.0.0", "", "1.0.0/../x", None, 1.0]
)
def test_a_version_of_another_form_is_refused_before_anything_is_sent(
    serve: Serve, client_of: ClientOf, version: Any
) -> None:
    """Only three numbers with dots may be asked for."""
    server = serve(always(body_json=PAGE))
    with pytest.raises(ConfigError):
        ck.load_test_set("acme.a", version, client=client_of(server))
    assert server.requests == []


def test_a_project_is_asked_for_by_its_uuid(serve: Serve, client_of: ClientOf) -> None:
    """The agent's list must be asked for the one project, and what is no UUID must be refused."""
    server = serve(always(body_json={"data": [], "hasMore": False}))
    client = client_of(server)
    ck.load_agent_cases(AGENT, "00000000-0000-4000-8000-0000000000AA", client=client)
    assert dict(server.requests[0].query)["projectId"] == "00000000-0000-4000-8000-0000000000aa"
    with pytest.raises(ConfigError, match="not a UUID"):
        ck.load_agent_cases(AGENT, "my project", client=client)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answers",
    [
        [first(body_json=page([1], "a")), at("a", body_json=page([2], "a"))],
        [first(body_json=page([1], "a")), at("a", body_json=page([2], "b")), at("b", body_json=page([3], "a"))],
        [always(body_json=page([1], "a"))],
        [first(body_json=page([1], "a")), at("a", body_json=page([], "a"))],
    ],
)
def test_a_circle_of_cursors_is_an_error(serve: Serve, client_of: ClientOf, answers: list[Spec]) -> None:
    """A cursor that comes a second time must end the walk at once, wherever the circle closes."""
    server = serve(*answers)
    with pytest.raises(IncompletePull, match="nextCursor twice"):
        ck.load_test_set(*REF, client=client_of(server))
    assert len(server.requests) <= 4


@pytest.mark.parametrize("data", ["[]", json.dumps([case(1), case(2)])])
def test_a_list_that_brings_nothing_new_is_an_error(serve: Serve, client_of: ClientOf, data: str) -> None:
    """Fresh cursors without end must not keep a load going that gets no new case."""
    text = f'{{"data":{data},"nextCursor":"c{{{{n}}}}","hasMore":true}}'
    server = serve(always(body_text=text, template=True))
    with pytest.raises(IncompletePull, match="brought no new case"):
        ck.load_test_set(*REF, client=client_of(server))
    assert len(server.requests) <= 120


def test_empty_pages_in_between_are_no_end(serve: Serve, client_of: ClientOf) -> None:
    """A page without cases must not end the list while the server says that more follow."""
    empty = [at(f"e{n}", body_json=page([], f"e{n + 1}")) for n in range(20)]
    server = serve(first(body_json=page([1], "e0")), *empty, at("e20", body_json=page([2])))
    assert ids(ck.load_test_set(*REF, client=client_of(server))) == ["c-1", "c-2"]


def test_more_without_a_cursor_is_an_error(serve: Serve, client_of: ClientOf) -> None:
    """One page must not be given out as the whole list."""
    server = serve(always(body_json={"data": [case(1)], "hasMore": True}))
    with pytest.raises(IncompletePull, match="gives no nextCursor"):
        ck.load_test_set(*REF, client=client_of(server))
    assert len(server.requests) == 1


def expiring(times: int) -> list[Spec]:
    """A list of three pages whose second cursor is refused so many times."""
    answers = []
    for n in range(times):
        answers += [
            {**first(body_json=page([1, 2], f"a{n}")), "times": 1},
            at(f"a{n}", body_json=page([3, 4], f"b{n}")),
            at(f"b{n}", **refusal(400, "bad-input")),
        ]
    fresh = [at("a", body_json=page([3, 4], "b")), at("b", body_json=page([5]))]
    return [*answers, first(body_json=page([1, 2], "a")), *fresh]


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_an_expired_cursor_begins_the_list_again(serve: Serve, client_of: ClientOf, tmp_path: Path, times: int) -> None:
    """A restart must neither double nor lose a case, in memory and on disk, and must be counted."""
    cases = ck.load_test_set(*REF, client=client_of(serve(*expiring(times))))
    assert ids(cases) == ["c-1", "c-2", "c-3", "c-4", "c-5"]
    assert (cases.report.restarts, cases.report.pages) == (times, 3)
    [info] = ck.pull([REF], into=tmp_path, client=client_of(serve(*expiring(times))))
    assert (info.report.restarts, info.rows("cases")) == (times, 5)
    assert ids(ck.read_snapshot(tmp_path)) == ids(cases)


def test_a_cursor_that_always_expires_is_an_error(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """After three restarts a load must end with what the server said, and leave no snapshot."""
    server = serve(first(body_json=page([1], "a")), at("a", **refusal(400, "bad-input")))
    client = client_of(server)
    with pytest.raises(CursorError, match="begun 4 times") as caught:
        ck.load_test_set(*REF, client=client)
    assert (caught.value.status, caught.value.code, caught.value.request_id) == (400, "bad-input", "req-1")
    assert len(server.requests) == 8
    with pytest.raises(CursorError):
        ck.pull([REF], into=tmp_path, client=client)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_first_page_is_not_begun_again(serve: Serve, client_of: ClientOf) -> None:
    """Without a cursor a 400 is about the request itself, which does not get better by repeating it."""
    server = serve(always(**refusal(400, "bad-input")))
    with pytest.raises(BadInputError) as caught:
        ck.load_test_set(*REF, client=client_of(server))
    assert not isinstance(caught.value, CursorError)
    assert len(server.requests) == 1


def test_an_equal_case_that_comes_twice_is_kept_once_and_counted(
    serve: Serve, client_of: ClientOf, tmp_path: Path
) -> None:
    """A list that moved while it was read must not count a case twice."""
    answers = [first(body_json=page([1, 2], "a")), at("a", body_json=page([2, 3, 1]))]
    client = client_of(serve(*answers))
    cases = ck.load_test_set(*REF, client=client)
    assert ids(cases) == ["c-1", "c-2", "c-3"]
    assert cases.report.duplicates == 2
    [info] = ck.pull([REF], into=tmp_path, client=client)
    assert (info.rows("cases"), info.report.duplicates) == (3, 2)


def test_a_case_that_comes_twice_with_other_content_is_an_error(
    serve: Serve, client_of: ClientOf, tmp_path: Path
) -> None:
    """Of two versions of a case none must be chosen in silence, and no snapshot made."""
    other = {"data": [case(1, output="another")], "hasMore": False}
    client = client_of(serve(first(body_json=page([1, 2], "a")), at("a", body_json=other)))
    for load in (lambda: ck.load_test_set(*REF, client=client), lambda: ck.pull([REF], into=tmp_path, client=client)):
        with pytest.raises(IncompletePull, match="'c-1' came twice with different content"):
            load()
    assert list(tmp_path.iterdir()) == []


def test_a_cursor_too_long_for_an_address_is_an_error(serve: Serve, client_of: ClientOf) -> None:
    """A cursor that cannot be sent must be told as the server's fault."""
    with pytest.raises(ProtocolError, match="nextCursor is too long"):
        ck.load_test_set(*REF, client=client_of(serve(always(body_json=page([1], "x" * 70_000)))))


@given(st.integers(0, 40), st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_any_page_size_gives_the_same_list(count: int, size: int) -> None:
    """However a server cuts a list into pages, the cases and their order must be the same."""
    parts = [list(range(start, min(start + size, count))) for start in range(0, count, size)] or [[]]
    answers = [
        {**(first() if n == 0 else at(f"p{n}")), "body_json": page(part, f"p{n + 1}" if n + 1 < len(parts) else None)}
        for n, part in enumerate(parts)
    ]
    with Player({"responses": answers}, Path()) as server, ck.Client(server.url, token=TOKEN, retry=QUICK) as client:
        cases = ck.load_test_set(*REF, client=client)
    assert ids(cases) == [f"c-{n}" for n in range(count)]
    assert len(server.requests) == len(parts)
