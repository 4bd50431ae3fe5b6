"""How long to wait: what servers ask for, and what casekit does of its own."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import casekit as ck
from casekit.errors import ConfigError
from casekit.http.retry import Retry, asked_wait, http_date

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("1", 1.0),
        ("007", 7.0),
        ("  20\t", 20.0),
        ("1.5", 1.5),
        ("0.001", 0.001),
        ("86400", 86400.0),
        ("99999999999999999999", 1e20),
        ("9" * 400, sys.float_info.max),  # more than a float can say, and no less to be waited for
        ("9" * 20_000, sys.float_info.max),
        ("0" * 400 + "7", 7.0),
        ("1." + "0" * 400, 1.0),
        ("", None),
        (" ", None),
        ("-1", None),
        ("-0", None),
        ("+5", None),
        ("1e3", None),
        ("1_0", None),
        (".5", None),
        ("5.", None),
        ("0x10", None),
        ("5s", None),
        ("5, 5", None),
        ("nan", None),
        ("inf", None),
        ("Infinity", None),
        ("None", None),
        ("soon", None),
        ("\u0665", None),  # a five, but no ASCII digit
        ("Sun, 01 Mar 2026 12:00:20 GMT", 20.0),
        ("Zun, 01 Mar 2026 12:00:20 GMT", 20.0),  # the day's name says nothing that the date does not
        ("Sunday, 01-Mar-26 12:00:20 GMT", 20.0),  # RFC 850
        ("Sun Mar  1 12:00:20 2026", 20.0),  # asctime
        ("Sun, 01 Mar 2026 12:00:20 -0000", 20.0),
        ("Sun, 01 Mar 2026 13:00:20 +0100", 20.0),
        ("Sun, 01 Mar 2026 11:59:00 GMT", 0.0),  # past
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Sun, 31 Feb 2026 12:00:20 GMT", None),
        ("Sun, 01 Mar 2026 25:00:20 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 251_629_934_399.0),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),  # an HTTP date has four digits for its year
        ("Sun, 01 Mar 99999999999 12:00:20 GMT", None),
        ("2026-03-01T12:00:20Z", None),  # no form of HTTP
        ("Sun, 01 Mar 2026", None),
    ],
)
def test_what_a_retry_after_header_asks_for(value: str, seconds: float | None) -> None:
    """Seconds and HTTP dates must be understood, and nothing else taken for either."""
    assert asked_wait([value], NOW) == seconds


def test_no_header_asks_for_nothing() -> None:
    """Without a header nothing is asked, which is not the same as zero."""
    assert asked_wait([], NOW) is None


def test_the_longest_of_several_headers_counts() -> None:
    """With several headers no wait may be shorter than any of them asks."""
    assert asked_wait(["2", "soon", "Sun, 01 Mar 2026 12:00:20 GMT", "7"], NOW) == 20.0


@given(st.text(max_size=60))
def test_any_text_is_a_wait_or_none(value: str) -> None:
    """No header may raise, or ask for a wait that is negative or endless."""
    seconds = asked_wait([value], NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)


@given(st.integers(-(10**6), 10**8))
def test_a_date_is_counted_from_now(seconds: int) -> None:
    """A date must ask for the time until it, and for none once it has passed."""
    value = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert http_date(value) == NOW + timedelta(seconds=seconds)
    assert asked_wait([value], NOW) == max(0, seconds)


@given(st.integers(1, 10_000), st.one_of(st.none(), st.floats(0, 1e6)))
def test_a_pause_is_never_shorter_than_asked(attempt: int, asked: float | None) -> None:
    """A pause must be at least what the server asks, and otherwise between three quarters of casekit's own and all."""
    retry = Retry()
    pause = retry.pause(attempt, asked)
    own = min(retry.most, retry.first * 2 ** min(attempt - 1, 60))
    assert pause >= (asked or 0.0)
    assert 0.75 * own <= pause <= max(own, asked or 0.0)


@pytest.mark.parametrize("name", ["budget", "attempts", "first", "most"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "3", None, True])
def test_a_policy_without_sense_is_refused(name: str, value: object) -> None:
    """Every figure must be finite and above 0, and the message must name the one that is not."""
    with pytest.raises(ConfigError, match=f"Retry: {name} is a finite number above 0"):
        Retry(**{name: value})  # type: ignore[arg-type]


def test_retry_is_public() -> None:
    """The policy must be reachable as its messages name it."""
    assert ck.Retry is Retry
