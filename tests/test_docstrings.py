"""The docstrings of public names: every parameter, what comes back, and an example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import casekit as ck
from casekit.schema import TABLES

NO_EXAMPLE = {
    *(f"CaseSet.{table}" for table in TABLES),  # the class says what they all are
    *(f"LocalServer.{name}" for name in ("start", "stop", "close", "wait")),  # a with block does this
    *(f"LocalServer.{name}" for name in ("url", "token", "requests")),  # each is in the examples of others
    "Client.close",
}
DESCRIBED = (ck.CaseSet, ck.Client, ck.LocalServer)  # classes whose every public method is looked at
SECTION = re.compile(r"^(?P<title>[A-Z][\w ]*)\n-{3,}\n(?P<text>.*?)(?=^[A-Z][\w ]*\n-{3,}$|\Z)", re.M | re.S)
ENTRY = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .+)?$", re.M)


def members(of: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class with their names, those it has from its bases among them."""
    for name, member in inspect.getmembers_static(of):
        if not name.startswith("_"):
            is_bound = isinstance(member, classmethod | staticmethod)
            yield f"{of.__name__}.{name}", getattr(of, name) if is_bound else member


NAMES = {name: getattr(ck, name) for name in ck.__all__}
MEMBERS = {name: member for of in DESCRIBED for name, member in members(of)}
PROPERTIES = {name: member.fget for name, member in MEMBERS.items() if isinstance(member, property)}
METHODS = {name: member for name, member in MEMBERS.items() if inspect.isroutine(member)}
DATACLASSES = {name for name, value in NAMES.items() if is_dataclass(value)}
EVERYTHING = NAMES | METHODS | PROPERTIES
GIVING = {
    name
    for name, value in EVERYTHING.items()
    if inspect.isroutine(value) and inspect.signature(value).return_annotation != "None"
}


def sections(of: Any) -> dict[str, str]:
    """The sections of a docstring, by their titles."""
    return {part["title"]: part["text"] for part in SECTION.finditer(inspect.getdoc(of) or "")}


def listed(section: str) -> list[str]:
    """The names that a section describes, in order."""
    return [name.lstrip("*") for entry in ENTRY.finditer(section) for name in entry["names"].split(", ")]


def parameters(of: Any) -> list[str]:
    """The parameters that a caller gives, in order."""
    return [name for name in inspect.signature(of).parameters if name != "self"]


def test_the_parser_reads_every_kind_of_section() -> None:
    """Names stand one or several to a line, with a type or a star; their descriptions are no names."""

    def described(first: int, *more: int) -> None:
        """Something.

        Parameters
        ----------
        first, second : int
            A word
        *more
            Others.

        Examples
        --------
        >>> 1
        1
        """

    assert listed(sections(described)["Parameters"]) == ["first", "second", "more"]
    assert list(sections(described)) == ["Parameters", "Examples"]


def test_what_needs_no_example_is_there() -> None:
    """The list of exceptions names only what exists and has no example."""
    assert EVERYTHING.keys() >= NO_EXAMPLE
    assert not {name for name in NO_EXAMPLE if "Examples" in sections(EVERYTHING[name])}


@pytest.mark.parametrize("name", sorted(EVERYTHING.keys() - DATACLASSES))
def test_each_parameter_is_described(name: str) -> None:
    """The section Parameters has the signature's parameters, all of them, no others, in their order."""
    assert listed(sections(EVERYTHING[name]).get("Parameters", "")) == parameters(EVERYTHING[name])


@pytest.mark.parametrize("name", sorted(DATACLASSES))
def test_each_field_is_described(name: str) -> None:
    """The section Attributes has the public fields, all of them, no others, in their order."""
    public = [field.name for field in fields(NAMES[name]) if not field.name.startswith("_")]
    assert listed(sections(NAMES[name]).get("Attributes", "")) == public


@pytest.mark.parametrize("name", sorted(EVERYTHING.keys() - NO_EXAMPLE))
def test_each_has_an_example(name: str) -> None:
    """The section Examples has a line that runs as a doctest."""
    assert ">>> " in sections(EVERYTHING[name]).get("Examples", "")


@pytest.mark.parametrize("name", sorted(GIVING - PROPERTIES.keys()))
def test_what_comes_back_is_described(name: str) -> None:
    """The section Returns or Yields is there for whatever gives something back."""
    assert {"Returns", "Yields"} & sections(EVERYTHING[name]).keys()
