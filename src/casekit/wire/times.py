"""Times of an agent's cases: what their texts say, and the texts as they came."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from casekit.wire.roads import Batch, Unreadable
from casekit.wire.structs import ABSENT, AgentCase

__all__ = ["bad_times", "time_of", "time_text"]

_NO_TIME: Final = "expected a date and time with its offset (RFC 3339)"


def time_text(value: datetime) -> str:
    """A time as servers usually write it: UTC, with as many digits of a second as it needs (0, 3 or 6).

    Examples
    --------
    >>> time_text(datetime(2025, 1, 2, 3, 4, 5, 600000, tzinfo=UTC))
    '2025-01-02T03:04:05.600Z'
    """
    precision = "microseconds" if value.microsecond % 1000 else "milliseconds" if value.microsecond else "seconds"
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def time_of(text: str) -> datetime | None:
    """The time a text stands for, to the microsecond, in UTC; None where it is none.

    Examples
    --------
    >>> time_of("2025-01-02T03:04:05.123456789+01:00").isoformat()
    '2025-01-02T02:04:05.123456+00:00'
    """
    try:
        value = datetime.fromisoformat(text.upper())  # RFC 3339 takes t and z too
        return None if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def bad_times(batch: Batch) -> dict[int, Unreadable]:
    """The cases of a batch in which a time is none, by place.

    A text that the time columns would not give back as it came goes to the batch's extras.
    """
    bad: dict[int, Unreadable] = {}
    for n, case in enumerate(batch.cases):
        for pointer, text in _times(case):
            value = time_of(text)
            if value is None:
                bad.setdefault(n, Unreadable(pointer, _NO_TIME))
            elif time_text(value) != text:
                batch.extras.setdefault(n, {})[pointer] = msgspec.json.encode(text)
    return bad


def _times(case: AgentCase) -> list[tuple[str, str]]:
    times = [("/addedAt", case.addedAt), ("/updatedAt", case.updatedAt)]
    return times if case.retired is ABSENT else [*times, ("/retired/at", case.retired.at)]
