"""Bytes of a page to structs, by two roads that give the same structs for a page both can read.

The fast road decodes the whole page at once and refuses anything it does not know. Then the careful road takes the page
case by case: unknown members are kept aside by JSON Pointer, a null where the contract has none is kept aside too, a
lone surrogate becomes U+FFFD; each is counted. What it cannot read is an error that names the case and the field.
"""

from __future__ import annotations

import re
import types
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Union, get_args, get_origin

import msgspec
import pyarrow as pa
from msgspec import Raw, Struct

from casekit.errors import LimitError, ProtocolError, SchemaError
from casekit.report import BadCase, PullReport
from casekit.wire.structs import AgentCase, AgentCasePage, Case, CasePage

NESTING = "about 900"  # levels; Python's own recursion guard ends a deeper document

_BOM: Final = b"\xef\xbb\xbf"
_MAYBE_LONE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# Every escape in turn, so that the backslash of an escaped backslash never starts one; a pair before its halves.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_NOT_JSON: Final = re.compile(rb"-?(NaN|Infinity)")
# Names of the contract alone: a name in free JSON may be a person's words.
_MEMBER: Final = re.compile(rb'"(yes|no|yesWeight|totalWeight|rank|hasMore|expert|erased|verdict|key)"\s*:')
_CASE_ID: Final = re.compile(rb'"caseId"\s*:\s*("[^"\\]*")')
_LONE_CHARACTER: Final = re.compile("[\ud800-\udfff]")

_decode_page: Final = {
    Case: msgspec.json.Decoder(CasePage).decode,
    AgentCase: msgspec.json.Decoder(AgentCasePage).decode,
}
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_elements: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode


@dataclass
class Batch:
    """Structs of some pages, and what no struct has a place for.

    Attributes
    ----------
    cases : list
        Case or AgentCase structs, in the server's order.
    extras : dict
        For the n-th case: JSON text by JSON Pointer of the members kept aside.
    """

    cases: list[Any] = field(default_factory=list)
    extras: dict[int, dict[str, bytes]] = field(default_factory=dict)


def read_page(body: bytes, kind: type[Struct], batch: Batch, report: PullReport, *, on_error: str = "raise") -> None:
    """Add a page's cases to a batch, by the fast road if it can.

    Parameters
    ----------
    body
        The page, as it came.
    kind
        `Case` or `AgentCase`.
    batch, report
        What the cases and the counts are added to.
    on_error
        ``"raise"``: an unreadable case is an error. ``"report"``: it is left out and reported.

    Raises
    ------
    ProtocolError
        The body is no page.
    SchemaError
        A case is not what the contract says.
    LimitError
        The JSON nests too deep.
    """
    if valid_utf8(body):
        try:
            batch.cases += _decode_page[kind](body).data
        except msgspec.MsgspecError:
            pass
        except RecursionError:
            raise LimitError(f"a page nests deeper than casekit reads ({NESTING} levels)") from None
        else:
            return
    report.careful_pages += 1
    try:
        _read_carefully(body, kind, batch, report, on_error)
    except RecursionError:
        raise LimitError(f"a page nests deeper than casekit reads ({NESTING} levels)") from None


def valid_utf8(body: bytes) -> bool:
    """Whether the bytes are UTF-8; msgspec does not look inside the free JSON it cuts out."""
    offsets = pa.py_buffer(len(body).to_bytes(8, "little").rjust(16, b"\0"))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(body)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def mended_text(body: bytes) -> tuple[bytes, int]:
    """The page as UTF-8 without byte order mark and lone surrogates, and how many of these were replaced."""
    replaced = 0
    body = body.removeprefix(_BOM)
    try:
        body.decode()
    except UnicodeDecodeError as error:
        try:
            halves = body.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ProtocolError(f"the page is not UTF-8 (byte {error.start:,}); check the server's charset") from None
        whole = halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        text, replaced = _LONE_CHARACTER.subn("\ufffd", whole)
        body = text.encode()
    if _MAYBE_LONE.search(body):
        before = replaced

        def mend(escape: re.Match[bytes]) -> bytes:
            nonlocal replaced
            if escape[1] is None:
                return escape[0]
            replaced += 1
            return b"\\ufffd"

        mended = _ESCAPE.sub(mend, body)
        body = mended if replaced > before else body
    return body, replaced


def _read_carefully(body: bytes, kind: type[Struct], batch: Batch, report: PullReport, on_error: str) -> None:
    body, replaced = mended_text(body)
    try:
        members = _decode_members(body)
        elements = _decode_elements(members.pop("data"))
        msgspec.json.decode(members.pop("hasMore"), type=bool)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"the answer is JSON but no page of cases: {_where(error)}") from None
    except msgspec.DecodeError as error:
        raise ProtocolError(f"the answer is not JSON: {error}{_near(body, error)}") from None
    except KeyError as error:
        raise ProtocolError(f"the answer is JSON but no page of cases: member {error.args[0]} is missing") from None
    members.pop("nextCursor", None)  # the client reads it
    report.unknown_fields.update(f"page:/{_escape(name)}" for name in members)
    report.replaced_characters += replaced
    for element in elements:
        extras: dict[str, bytes] = {}
        try:
            case = _Careful(element, kind, extras).case()
        except SchemaError as error:
            if on_error == "raise":
                raise
            problem = error.args[0].split(": ", 1)[1].split(". Load with", 1)[0]
            report.bad_cases.append(BadCase(error.case_id, error.path, problem))
            continue
        if extras:
            batch.extras[len(batch.cases)] = extras
            report.unknown_fields.update(re.sub(r"/\d+(?=/|$)", "/*", pointer) for pointer in extras)
        batch.cases.append(case)


def _where(error: msgspec.MsgspecError) -> str:
    """A decoder's message; it names types and places, never values."""
    return str(error).replace(" - at `$", " at `page")


def _near(body: bytes, error: msgspec.DecodeError) -> str:
    """Where broken JSON stands: the member and the case before it, and the token if it is one JSON forbids."""
    at = _BYTE.search(str(error))
    if at is None:
        return ""
    end = int(at[1])
    found = []
    if token := _NOT_JSON.match(body, max(0, end - 1)):  # the decoder points at a sign, or behind it
        found.append(f"{token[1].decode()} is no JSON")
    if members := _MEMBER.findall(body, 0, end):
        found.append(f"member {members[-1].decode()}")
    if cases := _CASE_ID.findall(body, 0, end):
        found.append(f"case {_decode_text(cases[-1])!r}")
    return f" ({', '.join(found)})" if found else ""


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


@cache
def _fields(part: type[Struct]) -> tuple[tuple[str, Any, bool], ...]:
    """Name, type and whether it is required, of each member."""
    return tuple((f.encode_name, f.type, f.required) for f in msgspec.structs.fields(part))


class _Careful:
    """One case read member by member."""

    def __init__(self, raw: Raw, kind: type[Struct], extras: dict[str, bytes]) -> None:
        self.raw, self.kind, self.extras = raw, kind, extras
        self.case_id = self._id()

    def _id(self) -> str | None:
        try:
            return _decode_text(_decode_members(self.raw)[_fields(self.kind)[0][0]])
        except (msgspec.MsgspecError, KeyError):
            return None

    def case(self) -> Struct:
        return self._struct(self.raw, self.kind, "")

    def _fail(self, path: str, problem: str) -> SchemaError:
        return SchemaError(problem, case_id=self.case_id, path=path)

    def _struct(self, raw: Raw, part: type[Struct], path: str) -> Any:
        members = self._decode(raw, _decode_members, path, "an object")
        values: dict[str, Any] = {}
        for name, kind, required in _fields(part):
            here = f"{path}/{name}"
            if name not in members:
                if required:
                    raise self._fail(here, "the required member is missing")
                continue
            value = members.pop(name)
            if not required and kind is not Raw and bytes(value) == b"null":
                self.extras[here] = b"null"
            else:
                values[name] = self._value(value, kind, here)
        for name, value in members.items():
            self.extras[f"{path}/{_escape(name)}"] = bytes(value)
        return part(**values)

    def _value(self, raw: Raw, kind: Any, path: str) -> Any:
        if kind is Raw:
            return raw
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self._struct(raw, kind, path)
        if get_origin(kind) is list:
            of = get_args(kind)[0]
            elements = self._decode(raw, _decode_elements, path, "an array")
            return [self._value(element, of, f"{path}/{n}") for n, element in enumerate(elements)]
        return self._scalar(raw, kind, path)

    def _scalar(self, raw: Raw, kind: Any, path: str) -> Any:
        plain = get_args(kind)[0] if get_args(kind) and get_origin(kind) not in (Union, types.UnionType) else kind
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError as refused:
            if plain is int:
                return self._integer(raw, path, refused)
            if plain is float:
                return self._number(raw, path, refused)
            raise self._fail(path, _where(refused)) from None

    def _integer(self, raw: Raw, path: str, refused: msgspec.ValidationError) -> int:
        """JSON Schema counts 3.0 among the integers."""
        try:
            value = msgspec.json.decode(raw, type=float)
        except msgspec.ValidationError:
            raise self._fail(path, _where(refused)) from None
        if not value.is_integer() or abs(value) > 2**53:
            raise self._fail(path, "expected a whole number that fits 64 bits")
        return int(value)

    def _number(self, raw: Raw, path: str, refused: msgspec.ValidationError) -> float:
        """A number too large for a double's exact range is read, and its digits are kept aside."""
        try:
            value = msgspec.json.decode(raw, type=float)
        except msgspec.ValidationError:
            raise self._fail(path, _where(refused)) from None
        self.extras[path] = bytes(raw)
        return value

    def _decode(self, raw: Raw, decode: Any, path: str, what: str) -> Any:
        try:
            return decode(raw)
        except msgspec.ValidationError:
            raise self._fail(path, f"expected {what}") from None
