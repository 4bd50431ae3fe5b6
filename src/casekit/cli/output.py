"""Text and JSON for standard output: text is for people, JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from casekit.errors import one_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["print_json", "records", "text_of"]


def text_of(frame: pd.DataFrame) -> str:
    """A frame as lines of text; no text in it can steer a terminal."""
    safe = frame.map(lambda cell: one_line(cell, 60) if isinstance(cell, str) else cell)
    text = safe.to_string(index=False, float_format=lambda value: f"{value:.3f}")
    return "\n".join(f"   {line}" for line in text.splitlines()) + "\n"


def records(frame: pd.DataFrame) -> Any:
    """A frame's rows as JSON values; what is missing is null."""
    return json.loads(frame.to_json(orient="records", date_format="iso", double_precision=15))


def print_json(document: Any) -> None:
    """Print a document in ASCII alone: no text in it can steer a terminal."""
    print(json.dumps(document, indent=1, allow_nan=False))
