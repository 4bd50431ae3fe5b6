"""The segments of cases as columns, one per segment key, to group by."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pandas as pd
from narwhals.typing import IntoFrame, IntoFrameT

from casekit.stats.frames import TEXT, case_keys, check_names, columns_of, quoted, scan, to_arrow, to_pandas

__all__ = ["segments_wide"]

CASE = ("test_set_id", "version", "case_id")


def segments_wide(frame: IntoFrameT, segments: IntoFrame) -> IntoFrameT:
    """Add the segments of cases to a frame: one text column per segment key.

    Parameters
    ----------
    frame
        Any table of a CaseSet: has ``test_set_id``, ``version`` and ``case_id``. Not changed.
    segments
        One row per step of a case's segment path, as in ``CaseSet.segments``, of the same engine as ``frame``.

    Returns
    -------
    IntoFrameT
        The frame with the same rows (in the same order and with the same index, where the engine has them) and the
        new columns at its end, in the order of the path, coarse to fine. Missing where a case lacks the segment.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        A segment key is already a column of the frame, or a case has one key twice: neither value is then the case's.

    Examples
    --------
    >>> case = {"test_set_id": ["acme.a"], "version": ["1.0.0"], "case_id": ["c1"]}
    >>> segments = pd.DataFrame({**case, "segment_no": [0], "key": ["region"], "value": ["north"]})
    >>> segments_wide(pd.DataFrame(case), segments)
      test_set_id version case_id region
    0      acme.a   1.0.0      c1  north
    """
    have = columns_of(frame, called="frame")
    check_names(have, CASE, frame="frame")
    check_names(columns_of(segments, called="segments"), (*CASE, "segment_no", "key", "value"), frame="segments")
    steps = scan(segments, (*CASE, "segment_no", "key", "value"))
    _refuse_twice(steps)
    order = _read(steps.group_by("key").agg(nw.col("segment_no").min()))
    keys = [str(key) for key in order.sort_values(["segment_no", "key"])["key"]]
    taken = [key for key in keys if key in have]
    if taken:
        raise ValueError(
            f"The frame already has a column {quoted(taken[0])}, which is also a segment key; rename the column first."
        )
    if not keys:
        return frame
    wrapped: Any = nw.from_native(frame)
    # A case id alone may stand in several versions, and a live test set has neither id nor version: all three are keys.
    marked = steps.with_columns(
        *(nw.when(nw.col("key") == nw.lit(key)).then(nw.col("value")).alias(f"__s{i}") for i, key in enumerate(keys))
    )
    wide = marked.group_by(*CASE).agg(*(nw.col(f"__s{i}").max() for i in range(len(keys))))
    joined = _join(wrapped, wide, keys) if isinstance(wrapped, nw.LazyFrame) else _attach(wrapped, _read(wide), keys)
    native: IntoFrameT = joined.to_native()
    return native


def _read(frame: Any) -> pd.DataFrame:
    return to_pandas(to_arrow(frame))


def _refuse_twice(steps: Any) -> None:
    counted = steps.group_by(*CASE, "key").agg(nw.len().alias("n")).filter(nw.col("n") > 1)
    twice = _read(counted.sort("case_id", "key").head(1))
    if len(twice):
        case, key = twice["case_id"][0], twice["key"][0]
        raise ValueError(
            f"Case {quoted(case)} has the segment {quoted(key)} more than once; keep one of them, such as with "
            f"segments.drop_duplicates(['test_set_id', 'version', 'case_id', 'key'], keep='last')."
        )


def _attach(frame: nw.DataFrame[Any], wide: pd.DataFrame, keys: list[str]) -> nw.DataFrame[Any]:
    text = dict.fromkeys(CASE, TEXT)
    found = frame.select(*CASE).to_pandas().astype(text).merge(wide.astype(text), how="left", on=list(CASE))
    columns = {key: found[f"__s{i}"].astype(TEXT) for i, key in enumerate(keys)}
    native: Any = frame.to_native()
    if isinstance(native, pd.DataFrame):
        wider: nw.DataFrame[Any] = nw.from_native(
            native.assign(**{key: column.set_axis(native.index) for key, column in columns.items()})
        )
        return wider
    lists = {key: column.astype(object).where(column.notna(), None).tolist() for key, column in columns.items()}
    return frame.with_columns(
        *(nw.new_series(key, values, nw.String, backend=frame.implementation) for key, values in lists.items())
    )


def _join(frame: nw.LazyFrame[Any], wide: Any, keys: list[str]) -> nw.LazyFrame[Any]:
    keyed = case_keys(CASE)
    ids = [f"__k{i}" for i in range(len(keyed))]
    right = wide.with_columns(*keyed).select(*ids, *(nw.col(f"__s{i}").alias(key) for i, key in enumerate(keys)))
    return frame.with_columns(*keyed).join(right, how="left", on=ids).drop(*ids)
