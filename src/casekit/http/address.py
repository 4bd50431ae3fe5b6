"""Where the server is: its address, the segments of its paths, and the proxy on the way to it.

Nothing here raises with the address in hand: it may hold a password, and a traceback may be shown with its locals.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.request
from typing import Final
from urllib.parse import quote, urlsplit

from casekit.errors import ConfigError, one_line

__all__ = ["checked_address", "checked_version", "origin", "proxy_variable", "segment"]

SEGMENT_MAX: Final = 1000  # characters of an id; many servers refuse an address of more than 8,000 bytes
_HOST: Final = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)
_PATH_SAFE: Final = "/%~!$&'()*+,;=:@"
_PORTS: Final = {"http": 80, "https": 443}
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
VERSION_MAX: Final = 60  # characters; it is a part of the name of a folder
_EXAMPLE: Final = "such as https://api.example.com"


def checked_address(given: str | None) -> tuple[str, str | None]:
    """The address without what changes nothing, or what is wrong with it.

    Parameters
    ----------
    given
        As a person wrote it.

    Returns
    -------
    (str, str or None)
        The address, and None; or "" and a sentence that shows no part of it.

    Examples
    --------
    >>> checked_address("https://API.example.com:443/base/")
    ('https://api.example.com/base', None)
    """
    if not isinstance(given, str) or not given.strip():
        return "", "no server address: set CASEKIT_URL or pass Client(url=…)"
    given = given.strip()
    if "\\" in given or not given.isprintable() or " " in given:
        return "", f"the server address holds a space, a backslash or a control character: write it {_EXAMPLE}"
    try:
        parts = urlsplit(given)
        host, port = _ascii_host(parts.hostname or ""), parts.port
    except ValueError:  # UnicodeError among them: a host name that cannot be looked up
        return "", f"the server address cannot be read: write it {_EXAMPLE}"
    if parts.scheme not in _PORTS or not _HOST.fullmatch(host):
        return "", f"the server address starts with http:// or https:// and names a host, {_EXAMPLE}"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "", "the server address holds no user, query or fragment: give the token with token= or CASEKIT_TOKEN"
    where = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
    path = quote(parts.path, safe=_PATH_SAFE)
    return f"{parts.scheme}://{where}{path}".rstrip("/"), None


def _ascii_host(host: str) -> str:
    """The host as it is looked up; a UnicodeError where no name service could have it."""
    if ":" in host:
        return f"[{ipaddress.IPv6Address(host).compressed}]"
    return host.encode("idna").decode("ascii").lower()


def origin(address: str) -> str:
    """Scheme, host and port: where the token goes, and nowhere else.

    Examples
    --------
    >>> origin("http://127.0.0.1:8765/base")
    'http://127.0.0.1:8765'
    """
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def checked_version(version: object) -> str:
    """A version of a test set.

    Raises
    ------
    ConfigError
        It is not of the form 1.2.3.

    Examples
    --------
    >>> checked_version("1.2.0")
    '1.2.0'
    """
    if not isinstance(version, str) or len(version) > VERSION_MAX or not _VERSION.fullmatch(version):
        raise ConfigError(f"version {one_line(str(version), 60)!r} is not of the form 1.2.3")
    return version


def segment(value: object, what: str) -> str:
    """An id as one segment of a path.

    Parameters
    ----------
    value
        The id.
    what
        What it is, for the message.

    Raises
    ------
    ConfigError
        No path can hold the id.

    Examples
    --------
    >>> segment("a/b c", "case id")
    'a%2Fb%20c'
    """
    if not isinstance(value, str) or not value:
        raise ConfigError(f"the {what} is empty or no text")
    if value in (".", ".."):
        raise ConfigError(f"the {what} {value!r} cannot stand in an address")
    if len(value) > SEGMENT_MAX:
        raise ConfigError(f"the {what} {one_line(value, 40)!r} has {len(value):,} characters, {SEGMENT_MAX:,} at most")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise ConfigError(f"the {what} holds half a character (a lone surrogate)") from None


def proxy_variable(address: str) -> tuple[str, str] | None:
    """The environment's proxy for an address, as (scheme it is set for, its address); none for this machine itself."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    for scheme in (parts.scheme, "all"):
        if proxies.get(scheme):
            return scheme, proxies[scheme]
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
