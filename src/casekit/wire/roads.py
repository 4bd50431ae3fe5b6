"""Bytes of a page to structs, by two roads that give the same structs for a page both can read.

The fast road decodes the whole page at once and refuses anything it does not know. Then the careful road takes the page
case by case: unknown members are kept aside by JSON Pointer, a null where the contract has none is kept aside too, a
lone surrogate becomes U+FFFD; each is counted. What it cannot read is an error that names the case and the field.
"""

from __future__ import annotations

import re
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

from casekit.errors import CasekitError, LimitError, ProtocolError, SchemaError, one_line
from casekit.report import BadCase, OnError, PullReport
from casekit.surrogates import mended
from casekit.wire.structs import AgentCase, AgentCasePage, Case, CasePage, Outline, OutlinePage, members_of
from casekit.wire.text import LEVELS, is_deep, last_case_id, valid_utf8, without_depth

__all__ = ["Batch", "Unreadable", "outlines", "read_page"]

_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_NOT_JSON: Final = re.compile(rb"-?(NaN|Infinity)")
# Names of the contract alone: a name in free JSON may be a person's words.
_MEMBER: Final = re.compile(rb'"(yes|no|yesWeight|totalWeight|rank|hasMore|expert|erased|verdict|key)"\s*:')

_decode_page: Final[dict[type[Struct], Any]] = {
    Case: msgspec.json.Decoder(CasePage).decode,
    AgentCase: msgspec.json.Decoder(AgentCasePage).decode,
}
_decode_outlines: Final = msgspec.json.Decoder(OutlinePage).decode
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


class Unreadable(Exception):
    """A case that cannot be read; never leaves ``casekit.wire``.

    Attributes
    ----------
    path : str
        JSON Pointer (RFC 6901) from the case to the field.
    problem : str
        What is wrong there, without the case's own words.
    deep : bool
        The case is what the contract says, and nests deeper than casekit reads.
    """

    def __init__(self, path: str, problem: str = f"nests deeper than {LEVELS} levels", *, deep: bool = False) -> None:
        super().__init__(path, problem)
        self.path, self.problem, self.deep = path, problem, deep

    def error(self, case_id: str | None) -> CasekitError:
        """The error for a caller who wants one."""
        if self.deep:
            name = "a case" if case_id is None else f"case {one_line(case_id, 200)!r}"
            return LimitError(
                f"{name}, field {self.path or '/'}: {self.problem}, more than casekit reads. "
                "Load with on_error='report' to leave such cases out and count them."
            )
        return SchemaError(self.problem, case_id=case_id, path=self.path)

    def bad_case(self, case_id: str | None) -> BadCase:
        """The entry for a caller who wants a report."""
        return BadCase(case_id, self.path, self.problem)


def outlines(body: bytes) -> list[Outline] | None:
    """A page's cases without a look at their items; None where the page has to be read case by case."""
    if not valid_utf8(body):
        return None
    try:
        return _decode_outlines(body).data
    except (msgspec.MsgspecError, RecursionError):
        return None


def read_page(
    body: bytes, kind: type[Struct], batch: Batch, report: PullReport, *, on_error: OnError = "raise"
) -> None:
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
        A case nests deeper than 500 levels.
    """
    if valid_utf8(body):
        try:
            batch.cases += _decode_page[kind](body).data
        except (msgspec.MsgspecError, RecursionError):
            pass
        else:
            return
    report.careful_pages += 1
    try:
        _read_carefully(body, kind, batch, report, on_error)
    except RecursionError:
        # The stack at hand is short, or the page nests very deep: a new stack, and nothing deeper than need be.
        with ThreadPoolExecutor(1, thread_name_prefix="casekit-deep") as fresh:
            try:
                fresh.submit(_read_carefully, without_depth(body), kind, batch, report, on_error).result()
            except RecursionError:
                raise LimitError(
                    f"Python's recursion limit ({sys.getrecursionlimit()}) is too low to read a page: "
                    "set it to 1,000 or more with sys.setrecursionlimit"
                ) from None


def _read_carefully(body: bytes, kind: type[Struct], batch: Batch, report: PullReport, on_error: OnError) -> None:
    body, replaced = mended(body)
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
    # All of it is read before anything is kept, so that a page is in the batch and the report once or not at all.
    read: list[tuple[Struct, _Careful]] = []
    bad: list[BadCase] = []
    for element in elements:
        careful = _Careful(element, kind)
        try:
            read.append((careful.case(), careful))
        except Unreadable as problem:
            if on_error == "raise":
                raise problem.error(careful.case_id) from None
            bad.append(problem.bad_case(careful.case_id))
    report.note_unknown(f"page:/{_escape(name)}" for name in members)
    report.replaced_characters += replaced
    report.bad_cases += bad
    for case, careful in read:
        if careful.extras:
            batch.extras[len(batch.cases)] = careful.extras
            report.note_unknown(map(_any_index, sorted(careful.extras.keys() - careful.odd)))
            report.note_odd(map(_any_index, sorted(careful.odd)))
        batch.cases.append(case)


def _any_index(pointer: str) -> str:
    return re.sub(r"/\d+(?=/|$)", "/*", pointer)


def _where(error: msgspec.MsgspecError) -> str:
    """A decoder's message; it names types and places, never values."""
    return str(error).replace("`$", "`page")


def _near(body: bytes, error: msgspec.DecodeError) -> str:
    """Where broken JSON stands: the member and the case before it, and the token if it is one JSON forbids."""
    at = _BYTE.search(str(error))
    if at is None:
        return ""
    end = int(at[1])
    found = []
    if token := _NOT_JSON.search(body, max(0, end - 2), end + 10):  # the decoder points near it
        found.append(f"{token[1].decode()} is no JSON")
    if members := _MEMBER.findall(body, 0, end):
        found.append(f"member {members[-1].decode()}")
    if (case_id := last_case_id(body[:end])) is not None:
        found.append(f"case {one_line(case_id, 200)!r}")
    return f" ({', '.join(found)})" if found else ""


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class _Careful:
    """One case read member by member."""

    def __init__(self, raw: Raw, kind: type[Struct]) -> None:
        self.raw, self.kind = raw, kind
        self.extras: dict[str, bytes] = {}
        self.odd: set[str] = set()  # pointers among them of members that the contract has
        self.case_id = self._id()

    def _id(self) -> str | None:
        try:
            return _decode_text(_decode_members(self.raw)[members_of(self.kind)[0][0]])
        except (msgspec.MsgspecError, KeyError):
            return None

    def case(self) -> Struct:
        """The case; `extras` then has what no struct has a place for."""
        case: Struct = self._struct(self.raw, self.kind, "")
        return case

    def _struct(self, raw: Raw, part: type[Struct], path: str) -> Any:
        members = self._decode(raw, _decode_members, path, "an object")
        values: dict[str, Any] = {}
        for name, kind, required in members_of(part):
            here = f"{path}/{name}"
            if name not in members:
                if required:
                    raise Unreadable(here, "the required member is missing")
                continue
            value = members.pop(name)
            if not required and kind is not Raw and bytes(value) == b"null":
                self._keep(here, b"null")
            else:
                values[name] = self._value(value, kind, here)
        for name, value in members.items():
            here = f"{path}/{_escape(name)}"
            self.extras[here] = bytes(self._free(value, here))
        return part(**values)

    def _value(self, raw: Raw, kind: Any, path: str) -> Any:
        if kind is Raw:
            return self._free(raw, path)
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self._struct(raw, kind, path)
        if get_origin(kind) is list:
            of = get_args(kind)[0]
            elements = self._decode(raw, _decode_elements, path, "an array")
            return [self._value(element, of, f"{path}/{n}") for n, element in enumerate(elements)]
        return self._scalar(raw, kind, path)

    def _free(self, raw: Raw, path: str) -> Raw:
        if is_deep(bytes(raw)):
            raise Unreadable(path, deep=True)
        return raw

    def _scalar(self, raw: Raw, kind: Any, path: str) -> Any:
        plain = get_args(kind)[0] if get_args(kind) and get_origin(kind) not in (Union, types.UnionType) else kind
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError as refused:
            if plain is int:
                return self._integer(raw, path, refused)
            if plain is float:
                return self._number(raw, path, refused)
            raise Unreadable(path, str(refused)) from None

    def _integer(self, raw: Raw, path: str, refused: msgspec.ValidationError) -> int:
        """JSON Schema counts 3.0 among the integers."""
        try:
            value = msgspec.json.decode(raw, type=float)
        except msgspec.ValidationError:
            raise Unreadable(path, str(refused)) from None
        if not value.is_integer() or abs(value) >= 2**53:  # from there on, other digits give the same double
            raise Unreadable(path, "expected a whole number, below 2**53 where it has a point or an exponent")
        return int(value)

    def _number(self, raw: Raw, path: str, refused: msgspec.ValidationError) -> float:
        """A number too large for a double's exact range is read, and its digits are kept aside."""
        try:
            value = msgspec.json.decode(raw, type=float)
        except msgspec.ValidationError:
            raise Unreadable(path, str(refused)) from None
        self._keep(path, bytes(raw))
        return value

    def _keep(self, path: str, text: bytes) -> None:
        self.extras[path] = text
        self.odd.add(path)

    def _decode(self, raw: Raw, decode: Any, path: str, what: str) -> Any:
        try:
            return decode(raw)
        except msgspec.ValidationError:
            raise Unreadable(path, f"expected {what}") from None
