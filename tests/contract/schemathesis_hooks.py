"""Lets schemathesis make requests that succeed: a made-up run or case is never one that the server has."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """Name a run that is there, in every other body."""
    if isinstance(body, dict) and isinstance(body.get("runId"), str) and len(body["runId"]) % 2:
        return body | {"runId": "run-1"}
    return body
