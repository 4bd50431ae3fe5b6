"""The token, and the texts it is kept out of."""

from __future__ import annotations

import base64
import html
import json
import logging
import pickle
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casekit.http.secret import Token, keep_out_of_logs

VALUES = ["tok-1234567890", "a.b_c~d+e/f==", "1|laravel-like-token", "odd\"quote\\back's", "x" * 500]
CODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "header": lambda value: f"Bearer {value}",
    "address": lambda value: quote(value, safe=""),
    "address, small letters": lambda value: "".join(f"%{ord(c):02x}" for c in value),
    "JSON": json.dumps,
    "JSON with escapes": lambda value: "".join(f"\\u{ord(c):04x}" for c in value),
    "JSON with slashes escaped": lambda value: json.dumps(value).replace("/", "\\/"),
    "Python": repr,
    "Python bytes": lambda value: repr(value.encode()),
    "HTML": html.escape,
    "HTML in numbers": lambda value: "".join(f"&#{ord(c)};" for c in value),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 of the header": lambda value: base64.b64encode(f"Bearer {value}".encode()).decode(),
    "base64 of user and token": lambda value: base64.b64encode(f"me:{value}:".encode()).decode(),
    "base64 for addresses": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "base64 in an address": lambda value: quote(base64.b64encode(value.encode()).decode(), safe=""),
}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:8])
@pytest.mark.parametrize("coding", CODINGS)
def test_a_token_is_hidden_in_any_usual_coding(value: str, coding: str) -> None:
    """A token that comes back in another coding must not be readable from what is left."""
    coded = CODINGS[coding](value)
    hidden = Token(value).hide(f"before {coded} after")
    assert "[token]" in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    assert value not in hidden
    # The first letters may be of words before the token, such as Bearer.
    assert not any(coded[start : start + 8] in hidden for start in range(12, min(99, len(coded) - 7)))


@given(st.text("abcdefgh0123456789-._~+/=", min_size=6, max_size=40), st.text(max_size=10), st.text(max_size=10))
def test_a_token_is_hidden_wherever_it_stands(value: str, before: str, after: str) -> None:
    """No text may hold the token once it was hidden."""
    assert value not in Token(value).hide(before + value + after).replace("[token]", "\0")


def test_everything_else_is_left_as_it_is() -> None:
    """Hiding must change nothing but the token, at any depth, and not the value it is given."""
    given_value = {"a": ["x", {"tok-123456": None}], "n": 1.5, "t": True, "s": "say tok-123456"}
    before = json.dumps(given_value)
    hidden = Token("tok-123456").hide(given_value)
    assert hidden == {"a": ["x", {"[token]": None}], "n": 1.5, "t": True, "s": "say [token]"}
    assert json.dumps(given_value) == before


def test_a_text_too_short_for_a_secret_blots_out_nothing() -> None:
    """A short token must not turn words that hold it by chance into nonsense."""
    assert Token("test").hide("test-case-retired") == "test-case-retired"


def test_a_token_shows_and_keeps_nothing_of_itself() -> None:
    """Neither repr nor a pickle may hold the value."""
    token = Token("tok-123456")
    assert repr(token) == str(token) == "[token]"
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(token)
    assert token.header() == "Bearer tok-123456"


def test_logs_of_the_http_library_do_not_show_a_token(caplog: pytest.LogCaptureFixture) -> None:
    """A record that names the token must come out without it, and one that does not must come out unchanged."""
    token = Token("tok-123456")
    keep_out_of_logs(token)
    keep_out_of_logs(token)
    caplog.set_level(logging.DEBUG, "httpcore.http11")
    logging.getLogger("httpcore.http11").debug("came: %r", b"Bearer tok-123456")
    logging.getLogger("httpcore.http11").debug("100%% fine: %s", "this")
    assert caplog.messages == ["came: b'Bearer [token]'", "100% fine: this"]
