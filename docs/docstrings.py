"""Docstrings of numpydoc for Markdown: references as a list, DOIs and names of casekit as links."""

from __future__ import annotations

import re
from typing import Any

import griffe

import casekit

__all__ = ["Numpydoc"]


class Numpydoc(griffe.Extension):
    """Rewrites the docstring of each object before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the markup that Markdown does not know."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """Rewrite a docstring's references and names.

    Parameters
    ----------
    text
        The docstring, as it stands in the source.

    Returns
    -------
    str
        The same for Markdown; examples and literal text are left alone.
    """
    head, mark, examples = text.partition("\nExamples\n--------")
    head = re.sub(r"::$", ":", head, flags=re.MULTILINE)
    head = re.sub(r"^\.\. \[(\d+)\] (.*(?:\n   .*)*)", r"\1. \2", head, flags=re.MULTILINE)
    head = re.sub(r"(?<![\w`])doi:(10\.\S+?)(?=[.,;]?(?:\s|$))", r"[doi:\1](https://doi.org/\1)", head)
    head = re.sub(r"(?<![\w`])arXiv:(\d{4}\.\d{5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", head)
    head = re.sub(r"(?<!`)`(?:casekit\.)?(\w+)`(?!`)", _name, head)
    return head + mark + examples


def _name(match: re.Match[str]) -> str:
    """Link a name of casekit to its entry; other text in single backticks is code."""
    if match[1] not in casekit.__all__:
        return f"`{match[1]}`"
    return f"[`{match[1]}`][{getattr(casekit, match[1]).__module__}.{match[1]}]"
