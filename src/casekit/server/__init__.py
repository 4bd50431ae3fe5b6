"""The same HTTP API on loopback, for tests, demos and notebooks: Starlette on uvicorn, SQLite behind it.

It shares no field list with the client: a field misspelt on one side must not agree with the other.
"""

from __future__ import annotations

from casekit.server.local import LocalServer
from casekit.server.records import RequestRecord

__all__ = ["LocalServer", "RequestRecord"]
