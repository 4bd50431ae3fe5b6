"""A card: what a thing shows of itself in a notebook, as HTML and as text, escaped to the last character."""

from __future__ import annotations

import html
from typing import TypeAlias

from casekit.errors import one_line

__all__ = ["Facts", "html_card", "sized", "text_card"]

Facts: TypeAlias = list[tuple[str, str]]

LINE_MAX = 600  # characters of one line's text
NAME_WIDTH = 12  # columns of a line's name in text

# A border and an opacity show on light and dark pages alike; all colours are the page's own. Every rule stands on its
# element, where it outdoes what a page says of all its lists.
_BOX = (
    "display:inline-block;box-sizing:border-box;max-width:min(600px,100%);margin:2px 0;padding:10px 14px;"
    "border:1px solid rgba(128,128,128,.4);border-radius:6px;font-family:sans-serif;font-size:13px;line-height:1.4;"
    "text-align:left;color:inherit;background:transparent"
)
_TITLE = "margin:0 0 6px;font-weight:600;overflow-wrap:anywhere"
_ABOUT = "font-weight:400;opacity:.75;unicode-bidi:isolate"
_LINES = "display:grid;grid-template-columns:fit-content(40%) minmax(0,1fr);gap:4px 16px;margin:0;padding:0"
_NAME = "margin:0;padding:0;float:none;width:auto;font-weight:600;opacity:.75"
_TEXT = "margin:0;padding:0;float:none;width:auto;overflow-wrap:anywhere;unicode-bidi:isolate"
_PLAIN = "tex2jax_ignore mathjax_ignore"  # a dollar sign is no formula


def sized(n_bytes: int) -> str:
    """A number of bytes, in the unit that a person would take.

    Examples
    --------
    >>> sized(0), sized(999), sized(999_960), sized(3_400_000_000)
    ('0 B', '999 B', '1.0 MB', '3.4 GB')
    """
    size, unit = float(n_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if round(size, 1) < 1000:
            break
        size, unit = size / 1000, larger
    return f"{n_bytes:,} B" if unit == "B" else f"{size:,.1f} {unit}"


def html_card(title: str, lines: Facts, *, kind: str = "CaseSet") -> str:
    """The card that a notebook shows: valid HTML without script, style sheet, id or address.

    Parameters
    ----------
    title
        What it is a card of, in a few words; may be empty.
    lines
        Name and text of each line.
    kind
        What sort of thing it is: the name of its class.

    Returns
    -------
    str
        HTML. Every text in it is escaped, on one line, and at most 600 characters long.
    """
    head = f'{_safe(kind)} <span style="{_ABOUT}">{_safe(title)}</span>' if title else _safe(kind)
    rows = "".join(
        f'<dt style="{_NAME}">{_safe(name)}</dt><dd style="{_TEXT}">{_safe(text)}</dd>' for name, text in lines
    )
    inner = f'<dl style="{_LINES}">{rows}</dl>' if rows else ""
    return f'<div class="{_PLAIN}" style="{_BOX}"><div style="{_TITLE}">{head}</div>{inner}</div>'


def text_card(title: str, lines: Facts, *, kind: str = "CaseSet") -> str:
    r"""The same in text, for ``__repr__``.

    Parameters
    ----------
    title, lines, kind
        As for `html_card`.

    Examples
    --------
    >>> print(text_card("acme.a 1.0.0", [("cases", "2, 1 erased"), ("note", "\x1b[31m")]))
    CaseSet: acme.a 1.0.0
      cases        2, 1 erased
      note         \x1b[31m
    """
    head = f"{kind}: {title}" if title else kind
    width = max([NAME_WIDTH, *(len(name) for name, _ in lines)])
    return "\n".join(
        [one_line(head, LINE_MAX), *(f"  {one_line(name):<{width}} {one_line(text, LINE_MAX)}" for name, text in lines)]
    )


def _safe(text: str) -> str:
    return html.escape(one_line(text, LINE_MAX))
