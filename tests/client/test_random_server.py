"""Servers that fail at random: a load gives the whole list, or an error of casekit's, and never anything in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases.player import Player
from client.pages import TOKEN, Spec, at, first, page, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

import casekit as ck
from casekit.errors import CasekitError

REF = ("acme.a", "1.0.0")
RETRY = ck.Retry(budget=5.0, attempts=4, first=0.001, most=0.002)


def mendable(body: dict[str, Any]) -> st.SearchStrategy[Spec]:
    """Failures that another attempt mends."""
    cut = st.integers(1, 150)
    return st.one_of(
        st.sampled_from(
            [
                refusal(503, "database-busy", {"Retry-After": "0"}),
                refusal(503, "database-busy"),
                refusal(429, "slow-down", {"Retry-After": "0.005"}),
                {"status": 502, "body_text": "<html>"},
                {"status": 504},
                {"fault": "close-before-response"},
                {"fault": "reset-before-response"},
                {"fault": "close-after-headers", "body_json": body},
                {"body_json": body, "encoding": "gzip-truncated"},
                {"body_json": body, "framing": "declared", "declared_length": 9999},
            ]
        ),
        cut.map(lambda end: {"body_json": body, "fault": "close-mid-body", "after_bytes": end}),
        cut.map(lambda end: {"body_json": body, "fault": "reset-mid-body", "after_bytes": end}),
        cut.map(lambda end: {"body_json": body, "fault": "close-mid-body", "after_bytes": end, "framing": "close"}),
        cut.map(lambda end: {"body_json": body, "fault": "close-mid-body", "after_bytes": end, "framing": "chunked"}),
    )


FATAL: list[Spec] = [
    refusal(400, "bad-input"),  # of a later page: its cursor has expired, and the list begins again
    refusal(401, "unauthorized"),
    refusal(404, "test-set-not-found"),
    refusal(500, "internal"),
    {"status": 302, "headers": {"Location": "/elsewhere"}},
    {"body_text": "<html>"},
    {"body_text": "[]"},
    {"body_text": '{"data":[]}'},
    {"raw_text": "nonsense\r\n\r\n"},
]
WHOLE: st.SearchStrategy[Spec] = st.sampled_from(
    [
        {},
        {"delay_ms": 3},
        {"encoding": "gzip"},
        {"framing": "chunked", "chunk_size": 64},
        {"fault": "close-after-response"},
    ]
)


@st.composite
def servers(draw: st.DrawFn, *, fatal: bool) -> tuple[list[Spec], list[str]]:
    """Answers of a server, and the cases of its list."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    answers: list[Spec] = []
    ids: list[str] = []
    for n, size in enumerate(sizes):
        names = [f"{n}-{place}" for place in range(size)]
        body = page(names, f"p{n + 1}" if n + 1 < len(sizes) else None)
        failures = mendable(body) | st.sampled_from(FATAL) if fatal else mendable(body)
        for failure in draw(st.lists(failures, max_size=RETRY.attempts - 1)):
            answers.append({**(first() if n == 0 else at(f"p{n}")), **failure, "times": 1})
        answers.append({**(first() if n == 0 else at(f"p{n}")), "body_json": body, **draw(WHOLE)})
        ids += [f"c-{name}" for name in names]
    return answers, ids


@given(servers(fatal=False))
@settings(max_examples=60, deadline=None)
def test_failures_that_waiting_mends_cost_nothing_but_time(server: tuple[list[Spec], list[str]]) -> None:
    """Fewer failures of a page than there are attempts must leave the list whole and in order."""
    answers, ids = server
    with Player({"responses": answers}, Path()) as player, ck.Client(player.url, token=TOKEN, retry=RETRY) as client:
        cases = ck.load_test_set(*REF, client=client)
    assert cases.cases["case_id"].tolist() == ids
    assert cases.report.retries <= len(player.requests) - cases.report.pages


@given(servers(fatal=True))
@settings(max_examples=80, deadline=None)
def test_a_load_is_whole_or_an_error(server: tuple[list[Spec], list[str]]) -> None:
    """Whatever a server does, part of a list must never be given out for all of it."""
    answers, ids = server
    with Player({"responses": answers}, Path()) as player, ck.Client(player.url, token=TOKEN, retry=RETRY) as client:
        try:
            cases = ck.load_test_set(*REF, client=client)
        except CasekitError:
            pass
        else:
            assert cases.cases["case_id"].tolist() == ids
        assert len(player.requests) <= 4 * len(answers) + 20
