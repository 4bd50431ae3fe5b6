"""Addresses, the segments of paths, and proxies."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casekit.errors import ConfigError
from casekit.http.address import checked_address, origin, proxy_variable, segment


@pytest.mark.parametrize(
    ("given_address", "address"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("https://api.example.com/", "https://api.example.com"),
        ("  HTTP://API.Example.com:8765/Base//\n", "http://api.example.com:8765/Base"),
        ("https://api.example.com:443", "https://api.example.com"),
        ("http://api.example.com:443", "http://api.example.com:443"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://localhost:", "http://localhost"),
        ("http://[::1]:8765", "http://[::1]:8765"),
        ("http://[0:0:0:0:0:0:0:1]", "http://[::1]"),
        ("http://b\u00fccher.example/\u00e4", "http://xn--bcher-kva.example/%C3%A4"),
        ("http://host/a%2Fb", "http://host/a%2Fb"),
        ("http://my_host", "http://my_host"),
    ],
)
def test_an_address_is_made_plain(given_address: str, address: str) -> None:
    """What changes nothing must go, and everything else must stay as it was written."""
    assert checked_address(given_address) == (address, None)


@pytest.mark.parametrize(
    ("given_address", "words"),
    [
        (None, "set CASEKIT_URL"),
        ("", "set CASEKIT_URL"),
        ("   ", "set CASEKIT_URL"),
        ("api.example.com", "http:// or https://"),
        ("ftp://api.example.com", "http:// or https://"),
        ("http://", "names a host"),
        ("http:///path", "names a host"),
        ("http://a..b", "cannot be read"),
        ("http://" + "a" * 64 + ".example", "cannot be read"),
        ("http://host:99999", "cannot be read"),
        ("http://host:port", "cannot be read"),
        ("http://[::1", "cannot be read"),
        ("http://ho st", "space"),
        ("http://host/\x07", "control character"),
        ("http:\\\\host", "backslash"),
        ("http://host?x=1", "no user, query or fragment"),
        ("http://host#x", "no user, query or fragment"),
        ("http://s3cret@host", "give the token with token="),
        ("http://someone:s3cret@host", "give the token with token="),
    ],
)
def test_a_wrong_address_is_told_without_showing_it(given_address: str | None, words: str) -> None:
    """The sentence must say what is wrong and what to write, and show no part of what may be a secret."""
    address, problem = checked_address(given_address)
    assert address == ""
    assert problem is not None
    assert words in problem
    assert "s3cret" not in problem


def test_the_origin_has_no_path() -> None:
    """Only scheme, host and port may stand in an origin."""
    assert origin("https://api.example.com:8443/base") == "https://api.example.com:8443"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_an_id_comes_back_from_its_segment(value: str) -> None:
    """An id must survive its way through an address, and stay one segment of it."""
    if value in (".", ".."):
        return
    encoded = segment(value, "case id")
    assert unquote(encoded) == value
    assert not set("/?#") & set(encoded)


@pytest.mark.parametrize("value", [".", "..", "", "x" * 1001, "\ud800", None, 7])
def test_an_id_that_no_path_can_hold_is_refused(value: object) -> None:
    """An id that would lead elsewhere, or nowhere, must be refused by name."""
    with pytest.raises(ConfigError, match="the case id"):
        segment(value, "case id")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "sub.localhost", "[::1]"])
def test_no_proxy_for_this_machine(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """A loopback address must never go to a proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid:1")
    assert proxy_variable(f"http://{host}:8765") is None


def test_a_proxy_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other hosts must go to the proxy of their scheme, else to that for all, unless they are exempt."""
    monkeypatch.setenv("ALL_PROXY", "http://all.invalid:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://tls.invalid:1")
    monkeypatch.setenv("NO_PROXY", "exempt.example.com")
    assert proxy_variable("https://api.example.com") == ("https", "http://tls.invalid:1")
    assert proxy_variable("http://api.example.com") == ("all", "http://all.invalid:1")
    assert proxy_variable("http://exempt.example.com") is None
    monkeypatch.delenv("ALL_PROXY")
    assert proxy_variable("http://api.example.com") is None
