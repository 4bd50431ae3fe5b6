"""The JSON text of cases: checked and indexed once, then served byte for byte; changed only by erasing and retiring.

Members that stay are copied as slices of the text, so no digit of a number and no escape of a text changes. Python's
own decoder finds the slices: it takes half a surrogate pair, which is JSON and which real cases hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from casekit.errors import ConfigError
from casekit.server.identifiers import PROJECT_ID

__all__ = [
    "IndexedAgentCase",
    "IndexedCase",
    "encode",
    "encode_value",
    "erase",
    "index_agent_case",
    "index_case",
    "retire",
    "split_page",
]

_KEPT_BY_ERASURE = ("caseId", "runId", "subject")  # who and where; everything else may hold a person's words


class IndexedCase(NamedTuple):
    """A case of a corrections test set, and what it is looked up by."""

    case_id: str
    run_id: str
    text: bytes


class IndexedAgentCase(NamedTuple):
    """A case of an agent's test set, and what it is looked up by."""

    case_id: str
    project_id: str
    retired: bool
    text: bytes


class _Part(NamedTuple):
    """An element of a list, or a member of an object with its name, as it stands in the text."""

    text: str
    name: str
    value: Any


def encode(document: Mapping[str, Any] | bytes | str) -> bytes:
    r"""Return a document as JSON text in UTF-8; text that is JSON already stays as it is.

    A lone surrogate, which UTF-8 cannot hold, stands as its escape.

    Examples
    --------
    >>> encode({"rate": 0.1, "text": "é\ud800"}).decode()
    '{"rate":0.1,"text":"é\\ud800"}'
    """
    if isinstance(document, bytes):
        return document.strip()
    if isinstance(document, str):
        return document.strip().encode("utf-8", "backslashreplace")
    return encode_value(document)


def encode_value(value: Any) -> bytes:
    """Return any JSON value as JSON text in UTF-8; raise ConfigError for what is none."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"The value cannot be written as JSON: {error}.") from error
    return text.encode("utf-8", "backslashreplace")


def index_case(text: bytes) -> IndexedCase:
    """Return a case with its ids; raise ConfigError where the text is no JSON object with a ``caseId``."""
    members = _members(text)
    case_id = _text_member(members, "caseId")
    # Without a runId it is an older server's case, whose id is the run's.
    return IndexedCase(case_id, _text_member(members, "runId") if "runId" in members else case_id, text)


def index_agent_case(text: bytes) -> IndexedAgentCase:
    """Return an agent's case with its ids; raise ConfigError without an ``id`` or a UUID as ``projectId``."""
    members = _members(text)
    case_id, project_id = _text_member(members, "id"), _text_member(members, "projectId")
    if not PROJECT_ID.fullmatch(project_id):
        raise ConfigError("The projectId of an agent's case is no UUID.")
    retired = "retired" in members and members["retired"].value is not None
    return IndexedAgentCase(case_id, project_id, retired, text)


def split_page(text: bytes) -> list[bytes]:
    """Return the cases of a page, each as its own bytes; raise ConfigError where it is no page."""
    data = _members(text).get("data")
    if data is None or not isinstance(data.value, list):
        raise ConfigError("A page needs a list named data.")
    return [part.text.encode() for part in _parts(data.text, data.text.index("[", data.text.index(":")))]


def erase(text: bytes) -> bytes:
    """Return the case with every word of a person gone, as the server lists it after an erasure.

    Examples
    --------
    >>> erase(b'{"caseId":"c-1","subject":{},"input":"hello","output":1.10,"items":[{}],"expect":{}}').decode()
    '{"caseId":"c-1","subject":{},"input":null,"output":null,"items":[],"erased":true}'
    """
    members = _members(text)
    kept = [members[name].text for name in _KEPT_BY_ERASURE if name in members]
    return _object([*kept, '"input":null', '"output":null', '"items":[]', '"erased":true'])


def retire(text: bytes, *, at: str, reason: str, by: Mapping[str, str]) -> bytes:
    """Return the agent's case, retired at a time (RFC 3339) by a caller; all other members stay as they were."""
    members = {name: member.text for name, member in _members(text).items()}
    retired = encode_value({"reason": reason, "by": by, "at": at}).decode()
    return _object((members | {"updatedAt": f'"updatedAt":"{at}"', "retired": f'"retired":{retired}'}).values())


def _object(members: Iterable[str]) -> bytes:
    return ("{" + ",".join(members) + "}").encode()


def _text_member(members: dict[str, _Part], name: str) -> str:
    value = members[name].value if name in members else None
    if not isinstance(value, str):
        raise ConfigError(f"The document needs the text member {name}.")
    return value


def _members(text: bytes) -> dict[str, _Part]:
    """Return the members of the JSON object that a text is; raise ConfigError where it is none."""
    try:
        decoded = text.decode("utf-8")
        value = _DECODER.decode(decoded)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The text is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ConfigError("The text is no JSON object.")
    return {part.name: part for part in _parts(decoded, decoded.index("{"))}


def _parts(text: str, opening: int) -> Iterator[_Part]:
    """Cut an object or a list, known to be valid JSON, into its parts; ``opening`` is where its bracket stands."""
    at = _between(text, opening + 1)
    while text[at] not in "]}":
        start, name = at, ""
        value, at = _DECODER.raw_decode(text, start)
        if text[opening] == "{":
            name = value
            value, at = _DECODER.raw_decode(text, _between(text, at))
        yield _Part(text[start:at], name, value)
        at = _between(text, at)


def _between(text: str, at: int) -> int:
    """Return where the next value or the closing bracket begins."""
    while text[at] in " \t\n\r,:":
        at += 1
    return at


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# No number is looked at, and as an int Python refuses one of thousands of digits.
_DECODER = json.JSONDecoder(parse_int=float, parse_constant=_refuse)
