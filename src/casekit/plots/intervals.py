"""Points with their intervals, one per row of a sheet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from casekit.plots.colours import Colour
from casekit.plots.columns import flags, floats
from casekit.plots.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["FEW", "Intervals", "interval_texts"]

FEW = "few cases, a rough interval"


def interval_texts(frame: pd.DataFrame, point: str, low: str, high: str, *, form: str = "{:.1f} %") -> list[str]:
    """Write shares in per cent with their intervals; a missing one is an en dash.

    Parameters
    ----------
    frame
        The statistic's frame.
    point, low, high
        Names of its columns.
    form
        How the point, in per cent, is written.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"rate": [0.62, 0.5, None], "low": [0.5, None, None], "high": [0.73, None, None]})
    >>> interval_texts(frame, "rate", "low", "high")
    ['62.0 % (50.0 to 73.0)', '50.0 %', '–']
    """
    ends = form.removesuffix(" %")
    texts = []
    for share, start, end in zip(*(100 * floats(frame[name]) for name in (point, low, high)), strict=True):
        text = form.format(share) if np.isfinite(share) else "–"
        texts.append(
            text if np.isnan([share, start, end]).any() else f"{text} ({ends.format(start)} to {ends.format(end)})"
        )
    return [text.replace("-", "−") for text in texts]


@dataclass(frozen=True)
class Intervals:
    """One point per row, with its interval as far as there is one.

    Attributes
    ----------
    point, low, high : ndarray of float
        NaN where undefined.
    few : ndarray of bool
        The interval rests on few cases.
    bounds : tuple of float
        Ends of the axis; an interval beyond them is cut there and gets an arrow.
    """

    point: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    few: NDArray[np.bool_]
    bounds: tuple[float, float]

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        point: str,
        low: str = "low",
        high: str = "high",
        *,
        bounds: tuple[float, float] = (0, 1),
    ) -> Intervals:
        """Read the three columns, and ``few_cases`` where the frame has it."""
        few = flags(frame["few_cases"]) if "few_cases" in frame.columns else np.zeros(len(frame), dtype=np.bool_)
        return cls(floats(frame[point]), floats(frame[low]), floats(frame[high]), few, bounds)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Rows with a point."""
        return np.isfinite(self.point)

    @property
    def sure(self) -> NDArray[np.bool_]:
        """Rows with a point and an interval."""
        return self.known & ~np.isnan(self.low) & ~np.isnan(self.high)

    @property
    def below(self) -> NDArray[np.bool_]:
        """Rows whose interval goes on below the axis."""
        return self.sure & (self.low < self.bounds[0])

    @property
    def above(self) -> NDArray[np.bool_]:
        """Rows whose interval goes on above the axis."""
        return self.sure & (self.high > self.bounds[1])

    def key(self) -> list[str]:
        """Say what the signs mean, those alone that `draw` will use."""
        signs = {
            f"Hollow circle: {FEW}.": self.sure & self.few,
            "Diamond: no interval.": self.known & ~self.sure,
            "Arrow: the interval goes on.": self.below | self.above,
        }
        return [sentence for sentence, rows in signs.items() if rows.any()]

    def draw(
        self, sheet: Sheet, *, colour: Colour | None = None, marker: str = "o", bare: str = "D", shift: float = 0.0
    ) -> None:
        """Draw points and intervals on the rows of a sheet.

        Parameters
        ----------
        sheet
            The sheet.
        colour
            Colour of the marks; None takes the sheet's own.
        marker, bare
            Shape of a point with an interval, and of one without; that one is always hollow.
        shift
            Rows by which the marks lie below the middle of their row.
        """
        ax, colour, (start, end) = sheet.ax, colour or sheet.accent, self.bounds
        sure, y = self.sure, np.arange(len(self.point)) + shift
        low, high = self.low.clip(start, end), self.high.clip(start, end)
        ax.hlines(y[sure], low[sure], high[sure], color=colour, linewidth=1.6, zorder=2)
        for x, rows, shape, face in (
            (low, self.below, "<", colour),
            (high, self.above, ">", colour),
            (self.point, sure & ~self.few, marker, colour),
            (self.point, sure & self.few, marker, sheet.paper),
            (self.point, self.known & ~sure, bare, sheet.paper),
        ):
            sheet.marks(x[rows], y[rows], shape, colour, face)

    def say(self, sheet: Sheet, reasons: Sequence[str]) -> None:
        """Write into each row why something is missing, off the marks; empty texts are not written."""
        start, end = self.bounds
        middle = (start + end) / 2
        for row, reason in enumerate(reasons):
            if not reason:
                continue
            if not self.known[row]:
                sheet.inside(reason, middle, row, ha="center")
                continue
            reach = [self.point[row], *np.array([self.low[row], self.high[row]]).clip(start, end)]
            if self.point[row] > (middle + end) / 2:
                sheet.inside(reason, np.nanmin(reach), row, ha="right")
            else:
                sheet.inside(reason, np.nanmax(reach), row, ha="left")

    def told(self, reasons: Sequence[str]) -> list[str]:
        """Complete ``reasons``: a row that lacks its point or its interval is never without a word."""
        return [
            reason or ("" if sure else "no interval" if known else "no value")
            for reason, known, sure in zip(reasons, self.known.tolist(), self.sure.tolist(), strict=True)
        ]
