"""The client as an object: what it is made of, who may use it, and how it ends."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from client.conftest import Serve
from client.pages import PAGE, QUICK, TOKEN, always, at, first, page, refusal

import casekit as ck
from casekit.errors import AuthError, ConfigError, TransportError
from casekit.http.background import Background
from casekit.http.connection import Connection

REF = ("acme.a", "1.0.0")
ClientOf = Callable[..., ck.Client]
HOST = "http://api.example.com"
SOURCE = str(Path(ck.__file__).parents[1])


def test_address_and_token_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    """Without arguments the environment must be asked, and arguments must win over it."""
    server = serve(always(body_json=PAGE))
    monkeypatch.setenv("CASEKIT_URL", server.url)
    monkeypatch.setenv("CASEKIT_TOKEN", f" {TOKEN}\n")
    assert len(ck.load_test_set(*REF)) == 2
    assert server.requests[0].header("authorization") == [f"Bearer {TOKEN}"]
    with ck.Client(HOST, token="another-token") as client:
        assert client.origin == HOST


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        (None, TOKEN, "set CASEKIT_URL"),
        (HOST, None, "set CASEKIT_TOKEN"),
        (HOST, "", "set CASEKIT_TOKEN"),
        (HOST, " \n", "set CASEKIT_TOKEN"),
        (HOST, "tok en of mine", "no token has"),
        (HOST, "tok\x00en-of-mine", "no token has"),
        (HOST, "tok\r\nX-Evil: 1", "no token has"),
        (HOST, "t\u00f6ken-of-mine", "no token has"),
        ("api.example.com", TOKEN, "http:// or https://"),
        (f"http://{TOKEN}@api.example.com", TOKEN, "no user, query or fragment"),
    ],
)
def test_what_cannot_be_used_is_told_without_the_token(url: str | None, token: str | None, words: str) -> None:
    """Neither the message nor a traceback with locals may hold a token, even a wrong one."""
    with pytest.raises(ConfigError, match=words) as caught:
        ck.Client(url, token=token)
    rendered = traceback.TracebackException(
        caught.type, caught.value, caught.tb.tb_next, capture_locals=True
    ).format()  # this test's own frame knows the token
    shown = "".join(rendered) + str(vars(caught.value))
    assert TOKEN not in shown
    assert not (token or "").strip() or (token or "") not in shown


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True])
def test_a_time_out_without_sense_is_refused(timeout: float) -> None:
    """Only a finite number of seconds above 0 may be waited."""
    with pytest.raises(ConfigError, match="timeout is a number of seconds above 0"):
        ck.Client(HOST, token=TOKEN, timeout=timeout)


def test_a_client_shows_its_origin_alone() -> None:
    """Neither repr nor the state of a client may hold the token or the path."""
    with ck.Client(f"{HOST}/base", token=TOKEN) as client:
        assert repr(client) == f"Client('{HOST}')"
        assert TOKEN not in repr(vars(client))


def test_a_path_before_the_api_is_kept(serve: Serve) -> None:
    """A server behind a prefix must be asked under it."""
    server = serve(always(body_json=PAGE))
    with ck.Client(f"{server.url}/base/", token=TOKEN) as client:
        ck.load_test_set(*REF, client=client)
    assert server.requests[0].path == "/base/v1/test-sets/acme.a/versions/1.0.0/cases"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_holds_no_token(monkeypatch: pytest.MonkeyPatch, serve: Serve, protocol: int) -> None:
    """A pickled client must work where the environment has a token, and say what is missing where it has not."""
    server = serve(always(body_json=PAGE))
    with ck.Client(server.url, token=TOKEN, timeout=7.0, retry=QUICK) as client:
        frozen = pickle.dumps(client, protocol)
    assert TOKEN.encode() not in frozen
    with pickle.loads(frozen) as thawed:
        assert (thawed.url, thawed.timeout, thawed.retry) == (client.url, 7.0, QUICK)
        with pytest.raises(ConfigError, match="unpickled client has no token: set CASEKIT_TOKEN"):
            ck.load_test_set(*REF, client=thawed)
        assert server.requests == []
        monkeypatch.setenv("CASEKIT_TOKEN", "token-of-the-other-process")
        ck.load_test_set(*REF, client=thawed)
        assert server.requests[0].header("authorization") == ["Bearer token-of-the-other-process"]


def test_a_copy_has_connections_of_its_own() -> None:
    """A copy must be a client in its own right: closing one must not close the other."""
    with ck.Client(HOST, token=TOKEN) as client, copy.copy(client) as other:
        assert other._idle is not client._idle


def test_threads_may_share_a_client(serve: Serve, client_of: ClientOf) -> None:
    """Many loads at a time on one client must each get their own list."""
    answers = [
        {
            "when": {"path": f"/v1/test-sets/s{n}/versions/1.0.0/cases"},
            "times": "*",
            "body_json": page([n]),
            "delay_ms": 5,
        }
        for n in range(10)
    ]
    client = client_of(serve(*answers))
    with ThreadPoolExecutor(8) as pool:
        loads = list(pool.map(lambda n: ck.load_test_set(f"s{n % 10}", "1.0.0", client=client), range(40)))
    assert [cases.cases["case_id"].tolist() for cases in loads] == [[f"c-{n % 10}"] for n in range(40)]
    assert len(client._idle) <= 8


def test_an_unclosed_client_leaves_no_warning(serve: Serve) -> None:
    """A client that nobody closed must close its sockets when it goes, without a word."""
    server = serve(always(body_json=PAGE))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        client = ck.Client(server.url, token=TOKEN)
        ck.load_test_set(*REF, client=client)
        del client
        gc.collect()


def test_a_closed_client_says_so(serve: Serve) -> None:
    """A request after the end must not open a new connection in silence."""
    server = serve(always(body_json=PAGE))
    client = ck.Client(server.url, token=TOKEN)
    client.close()
    client.close()
    with pytest.raises(ConfigError, match="the client is closed"):
        ck.load_test_set(*REF, client=client)
    assert server.requests == []


def test_closing_ends_requests_that_are_on_their_way(serve: Serve) -> None:
    """A request that waits for an answer must end when its client is closed."""
    server = serve(always(fault="hang"))
    client = ck.Client(server.url, token=TOKEN)

    def close() -> None:
        with server.arrived:
            server.arrived.wait_for(lambda: server.requests, 10)
        client.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(TransportError, match="the client was closed"):
        ck.load_test_set(*REF, client=client)
    thread.join()
    assert len(server.requests) == 1


def test_pages_that_are_not_taken_leave_nothing_behind(serve: Serve, client_of: ClientOf) -> None:
    """A walk that is left early must end its thread and its request, and the client must go on."""
    server = serve(first(body_json=page([1], "a")), {**at("a", fault="hang"), "times": 1}, at("a", body_json=page([2])))
    client = client_of(server, timeout=30.0)
    pages = client.test_set_pages(*REF)
    assert next(pages).body.startswith(b'{"data":')
    with server.arrived:
        assert server.arrived.wait_for(lambda: len(server.requests) == 2, 10)
    pages.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "casekit-background"]
    assert len(list(client.test_set_pages(*REF))) == 2


def test_pages_are_fetched_ahead_but_not_without_bound(serve: Serve, client_of: ClientOf) -> None:
    """A consumer that takes its time must not make the client pile up pages."""
    text = '{"data":[],"nextCursor":"c{{n}}","hasMore":true}'
    server = serve(always(body_text=text, template=True))
    pages = client_of(server).test_set_pages(*REF)
    next(pages)
    with server.arrived:
        assert server.arrived.wait_for(lambda: len(server.requests) >= 5, 10)
        assert not server.arrived.wait_for(lambda: len(server.requests) > 5, 0.2)
    pages.close()


def test_the_next_request_is_out_before_a_page_is_handed_over(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, client_of: ClientOf
) -> None:
    """Reading a page keeps Python busy: the server must be at work meanwhile."""
    order: list[str] = []
    notice, give = Connection._notice, Background.give

    def noticed(self: Connection, event: str, about: Any) -> None:
        if event.endswith("send_request_body.complete"):
            order.append("sent")
        notice(self, event, about)

    def given(self: Background[Any], result: Any) -> None:
        order.append("handed over")
        give(self, result)

    monkeypatch.setattr(Connection, "_notice", noticed)
    monkeypatch.setattr(Background, "give", given)
    server = serve(first(body_json=page([1], "a")), at("a", body_json=page([2], "b")), at("b", body_json=page([3])))
    assert len(list(client_of(server).test_set_pages(*REF))) == 3
    assert order == ["sent", "sent", "handed over", "sent", "handed over", "handed over"]


def test_a_page_shows_no_word_of_its_cases() -> None:
    """A traceback with locals must not show what people wrote."""
    assert repr(ck.client.Page(b"words", "req-1", 0, 0.0)) == "Page(request_id='req-1', retries=0, waited=0.0)"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"])
@pytest.mark.parametrize("value", ["http://proxy.invalid:1", "nonsense://%%", "garbage"])
def test_a_proxy_does_not_come_between_this_machine_and_itself(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, client_of: ClientOf, name: str, value: str
) -> None:
    """A loopback server must be reached whatever proxy the environment names."""
    monkeypatch.setenv(name, value)
    server = serve(always(body_json=PAGE))
    assert len(ck.load_test_set(*REF, client=client_of(server))) == 2
    assert server.requests[0].target.startswith("/v1/")


def test_a_proxy_is_used_for_other_hosts(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    """A host elsewhere must be asked by way of the environment's proxy."""
    proxy = serve(always(body_json=PAGE))
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    with ck.Client("http://api.example.invalid", token=TOKEN) as client:
        assert len(ck.load_test_set(*REF, client=client)) == 2
    assert proxy.requests[0].target.startswith("http://api.example.invalid/v1/test-sets/acme.a/")


def test_a_proxy_that_refuses_is_told(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    """A proxy that opens no way must be named as what is wrong, after one attempt."""
    proxy = serve(always(status=403))
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with (
        ck.Client("https://api.example.invalid", token=TOKEN, retry=QUICK) as client,
        pytest.raises(TransportError, match="the proxy did not open a way"),
    ):
        ck.load_test_set(*REF, client=client)
    [request] = proxy.requests
    assert (request.method, request.header("authorization")) == ("CONNECT", [])


def test_words_for_whoever_waits(serve: Serve, client_of: ClientOf) -> None:
    """Each wait must be told beforehand, with its reason and its seconds."""
    told: list[tuple[str, float]] = []
    answers = [{"fault": "reset-before-response"}, refusal(503, "database-busy", {"Retry-After": "0.03"})]
    client = client_of(serve(*answers, always(body_json=PAGE)))
    [only] = client.test_set_pages(*REF, on_wait=lambda why, seconds: told.append((why, seconds)))
    assert [why for why, _ in told] == ["connection lost", "server busy"]
    assert told[1][1] == 0.03
    assert only.retries == 2
    assert only.waited == sum(seconds for _, seconds in told)


def test_a_fork_shares_no_connection(serve: Serve) -> None:
    """Two processes that read from one connection would get each other's pages."""
    server = serve(always(body_json=PAGE))
    code = f"""if True:
        import os, sys, casekit as ck
        client = ck.Client({server.url!r}, token={TOKEN!r})
        ck.load_test_set('acme.a', '1.0.0', client=client)
        child = os.fork()
        cases = ck.load_test_set('acme.a', '1.0.0', client=client)
        assert len(cases) == 2
        if child:
            _, status = os.waitpid(child, 0)
            sys.exit(os.waitstatus_to_exitcode(status))
    """
    if not hasattr(os, "fork"):
        pytest.skip("the system has no fork")
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": SOURCE}, timeout=60, check=False
    )
    assert done.returncode == 0
    used = [request.connection for request in server.requests]
    assert len(used) == 3
    assert len(set(used)) == 2


def test_the_client_of_a_load_is_closed_after_it(monkeypatch: pytest.MonkeyPatch, serve: Serve, tmp_path: Path) -> None:
    """A client that a load made for itself must be closed with it, whether it went well or not."""
    closed: list[ck.Client] = []
    close = ck.Client.close

    def counted(self: ck.Client) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(ck.Client, "close", counted)
    server = serve(always(body_json=PAGE))
    refused = serve(always(**refusal(401, "unauthorized")))
    monkeypatch.setenv("CASEKIT_TOKEN", TOKEN)
    loads: list[Callable[[], Any]] = [
        lambda: ck.load_test_set(*REF),
        lambda: ck.load_test_sets([REF]),
        lambda: ck.pull([REF], into=tmp_path),
    ]
    for n, load in enumerate(loads, 1):
        monkeypatch.setenv("CASEKIT_URL", server.url)
        load()
        assert len(closed) == 2 * n - 1
        monkeypatch.setenv("CASEKIT_URL", refused.url)
        with pytest.raises(AuthError):
            load()
        assert len(closed) == 2 * n
    with ck.Client(server.url, token=TOKEN) as mine:
        ck.load_test_set(*REF, client=mine)
        assert mine not in closed
