"""How long to wait before a request is sent again."""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from casekit.errors import ConfigError

__all__ = ["Retry", "asked_wait"]

_SECONDS: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


@dataclass(frozen=True)
class Retry:
    """How long a request may take in all, and how often it is sent.

    Attributes
    ----------
    budget : float
        Seconds a request may take with all its waits and repeats. A server that asks for more is told no at once.
    attempts : int
        How often it is sent at most.
    first, most : float
        Seconds of casekit's own first wait, and of its longest; each doubles the one before, less up to a quarter by
        chance. Where the server asks for more, it gets more.

    Raises
    ------
    ConfigError
        A figure is not a finite number above 0.

    Examples
    --------
    >>> Retry(budget=600)
    Retry(budget=600, attempts=6, first=0.5, most=8.0)
    """

    budget: float = 60.0
    attempts: int = 6
    first: float = 0.5
    most: float = 8.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not (math.isfinite(value) and value > 0)
            ):
                raise ConfigError(f"Retry: {field.name} is a finite number above 0, not {value!r}")

    def pause(self, attempt: int, asked: float | None) -> float:
        """Seconds to wait after an attempt.

        Parameters
        ----------
        attempt
            1 is the first.
        asked
            What the server asked for, in seconds; None where it asked for nothing.

        Returns
        -------
        float
            Never less than was asked for.

        Examples
        --------
        >>> Retry().pause(1, 7.0)
        7.0
        """
        own = min(self.most, self.first * 2.0 ** min(attempt - 1, 60)) * random.uniform(0.75, 1.0)
        return max(own, asked or 0.0)


def asked_wait(values: Iterable[str], now: datetime) -> float | None:
    """Seconds that an answer's Retry-After headers ask to wait.

    Parameters
    ----------
    values
        Their values: seconds, whole or broken, or an HTTP date. Of several, the longest counts.
    now
        The time to count a date from, with its time zone: the answer's own date, or the clock.

    Returns
    -------
    float or None
        0 or more, and finite: no number of digits is too many; None where no header says anything usable.

    Examples
    --------
    >>> now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    >>> asked_wait(["1.5"], now), asked_wait(["Sun, 01 Mar 2026 12:00:20 GMT"], now), asked_wait(["soon"], now)
    (1.5, 20.0, None)
    """
    usable = [seconds for value in values if (seconds := _one(value.strip(), now)) is not None]
    return max(usable, default=None)


def _one(value: str, now: datetime) -> float | None:
    if _SECONDS.fullmatch(value):
        return min(float(value), sys.float_info.max)
    when = http_date(value)
    return None if when is None else max(0.0, (when - now).total_seconds())


def http_date(value: str) -> datetime | None:
    """The time that a header gives; None where it cannot be read."""
    try:
        when = parsedate_to_datetime(value)
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError, TypeError, IndexError):  # the standard library's parser knows all four
        return None
