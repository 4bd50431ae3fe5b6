"""The exception tree: as its docstring draws it, safe to print, and able to travel between processes."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casekit import errors
from casekit.errors import (
    ApiError,
    BusyError,
    CasekitError,
    IncompletePull,
    MissingExtraError,
    ProtocolError,
    SchemaError,
    TransportError,
    one_line,
)

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, CasekitError)]


def drawn_tree() -> dict[str, str | None]:
    """Each class of the docstring's tree, with the one above it."""
    above: list[tuple[int, str]] = []
    tree: dict[str, str | None] = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^(    [│├└─ ]*)(\w+(?:Error|Pull))(?:\s|$)", line)
        if found is None:
            continue
        depth, name = len(found[1]), found[2]
        while above and above[-1][0] >= depth:
            above.pop()
        tree[name] = above[-1][1] if above else None
        above.append((depth, name))
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    """Every class must stand in the drawing, under the class it inherits from."""
    tree = drawn_tree()
    assert set(tree) == {kind.__name__ for kind in CLASSES} == set(errors.__all__) - {"StaleSnapshotWarning"}
    for kind in CLASSES:
        parent = next((base.__name__ for base in kind.__bases__ if base in CLASSES), None)
        assert tree[kind.__name__] == parent


def example(kind: type[CasekitError], text: str = "words") -> CasekitError:
    """An error of a kind, with all it can have."""
    if issubclass(kind, ApiError):
        details = {"maxBytes": 3}
        more = {"code": text, "message": text, "details": details, "request_id": text, "retry_after": 1.5}
        return kind(text, status=503, **more, attempts=3, waited=2.25)  # type: ignore[arg-type]
    if issubclass(kind, TransportError):
        return kind(text, attempts=2, waited=0.5)
    if issubclass(kind, ProtocolError):
        return kind(text, status=200, request_id=text)
    if issubclass(kind, SchemaError):
        return kind(text, case_id=text, path=f"/items/{text}")
    return kind(text)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_travels(kind: type[CasekitError]) -> None:
    """A pickled or copied error must have the same class, words, attributes and notes."""
    error = example(kind)
    error.add_note("of page 2")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert str(other) == str(error)
        assert vars(other) == vars(error)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@given(st.text(max_size=60) | st.text("\x00\x1b\n\u202e\ud800", min_size=1, max_size=5000))
def test_a_message_is_one_short_line(kind: type[CasekitError], text: str) -> None:
    """Whatever a server says, a message must be printable, on one line, and of at most 2,000 characters."""
    message = str(example(kind, text))
    assert message.isprintable()
    assert len(message) <= errors.MESSAGE_MAX


@pytest.mark.parametrize(
    "kind", [kind for kind in CLASSES if issubclass(kind, ApiError)], ids=lambda kind: kind.__name__
)
def test_an_answer_says_all_that_an_operator_needs(kind: type[ApiError]) -> None:
    """Status, code, request id, attempts and wait must stand in the message, even after a very long one."""
    facts = {"code": "database-busy", "request_id": "req-7", "attempts": 3, "waited": 2.25}
    error = kind("long " * 1000, status=503, **facts)  # type: ignore[arg-type]
    assert str(error).endswith("(status 503, code database-busy, request id req-7, 3 attempts, 2.2 s waited)")


def test_a_single_attempt_names_no_wait() -> None:
    """What did not happen must not be told."""
    assert str(BusyError("busy", status=429)) == "busy (status 429, 1 attempt)"
    assert str(TransportError("lost")) == "lost (1 attempt)"
    assert str(ProtocolError("no page")) == "no page"
    assert str(IncompletePull("no end", status=200, request_id="r")) == "no end (status 200, request id r)"


def test_a_case_is_named_with_its_field() -> None:
    """A case that cannot be read must be named with the field and the way to go on without it."""
    text = str(SchemaError("expected a number", case_id="c-1", path="/items/0/yes"))
    assert text.startswith("case 'c-1', field /items/0/yes: expected a number.")
    assert "on_error='report'" in text
    assert "without a readable caseId" in str(SchemaError("no object", case_id=None, path=""))


def test_a_missing_library_is_an_import_error() -> None:
    """Code that guards an import must catch it as it catches any other."""
    assert issubclass(MissingExtraError, ImportError)


@given(st.text(max_size=50), st.integers(2, 40))
def test_text_is_made_safe_for_a_line(text: str, limit: int) -> None:
    """The line must be printable and within its limit, and text that is both already must not change."""
    line = one_line(text, limit)
    assert line.isprintable()
    assert len(line) <= limit
    if text.isprintable() and len(text) <= limit:
        assert line == text
