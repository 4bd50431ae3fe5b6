"""What versions, project ids and tokens look like; each pattern is meant for a full match."""

from __future__ import annotations

import re

__all__ = ["PROJECT_ID", "TOKEN", "VERSION"]

PROJECT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
TOKEN = re.compile(r"[!-~]+")  # what fits in a header: visible ASCII
VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
