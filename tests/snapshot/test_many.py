"""Many snapshots as one CaseSet: opened when they are asked for, of any kind, format and age together."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casekit.caseset import CaseSet
from casekit.errors import CasekitError, ConfigError, SnapshotError, StaleSnapshotWarning
from casekit.schema import TABLES
from casekit.snapshot import read_snapshot, snapshot_info, verify_snapshot, write_snapshot
from casekit.snapshots import stored
from casekit.source import Source

DATA = Path(__file__).parents[1] / "data"
Made = Callable[..., CaseSet]


@pytest.fixture
def three(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of three snapshots, more than are kept open."""
    for n in range(3):
        write_snapshot(made(f"c{n}", version=f"{n}.0.0"), tmp_path / "snaps" / str(n))
    monkeypatch.setattr(stored, "FOLDERS_OPEN", 2)
    return tmp_path / "snaps"


def test_a_table_is_read_when_it_is_asked_for(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening many reads no table, and opens no file; `arrow` reads the one that is asked for, once."""
    read = stored.StoredTable.read
    seen: list[str] = []

    def noted(self: Any) -> pa.Table:
        seen.append(f"{Path(self.title).parent.name}/{self.name}")
        return read(self)

    monkeypatch.setattr(stored.StoredTable, "read", noted)
    opened = len(os.listdir("/dev/fd"))
    found = read_snapshot(three)
    assert seen == []
    assert len(os.listdir("/dev/fd")) == opened
    assert found.arrow("items")["case_id"].to_pylist() == ["c0", "c1", "c2"]
    assert found.arrow("items") is found.arrow("items")
    assert sorted(seen) == [f"{n}/items.parquet" for n in range(3)]
    assert len(os.listdir("/dev/fd")) == opened


def test_a_process_that_may_open_few_files(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots must not take all the files that a process may open; too many elsewhere is told, and is no damage."""
    resource = pytest.importorskip("resource")
    for n in range(9):
        write_snapshot(made(f"c{n}", version=f"{n}.0.0"), tmp_path / str(n))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 256))
    opened = len(os.listdir("/dev/fd"))
    assert len(read_snapshot(tmp_path)) == 9
    assert len(os.listdir("/dev/fd")) == opened
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    found = read_snapshot(tmp_path)
    assert len(os.listdir("/dev/fd")) > opened + 9
    assert len(found) == 9

    def refusing(path: str) -> Any:
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr(pa, "OSFile", refusing)
    with pytest.raises(SnapshotError, match=r"\(Too many open files\): read fewer snapshots at a time"):
        read_snapshot(tmp_path)


@pytest.mark.parametrize("parent", ["a[1]", "b*", "c?", "[!d]"])
def test_a_pattern_below_a_folder_whose_name_looks_like_one(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent: str
) -> None:
    """A folder that is there by that name is meant by it; only what is below it is a pattern."""
    for n in range(2):
        write_snapshot(made(f"c{n}", version=f"{n}.0.0"), tmp_path / parent / f"s[{n}]")
        write_snapshot(made(f"d{n}", version=f"{n}.0.0"), tmp_path / "a1" / f"s{n}")
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path / parent / "s*", f"{parent}/s*", f"{parent}/s[[][01][]]", f"./{parent}", f"{parent}/"):
        assert read_snapshot(place).arrow("cases")["case_id"].to_pylist() == ["c0", "c1"]
    assert len(read_snapshot(f"{parent}/s[0]")) == 1
    assert len(read_snapshot("*1/s[01]")) == 2
    with pytest.raises(SnapshotError, match="no snapshot matches"):
        read_snapshot(f"{parent}/t*")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda cases: pickle.loads(pickle.dumps(cases))])
def test_what_was_not_read_yet_is_copied(made: Made, tmp_path: Path, copied: Callable[[CaseSet], CaseSet]) -> None:
    """Cases whose tables wait to be read must be copied and pickled as any others."""
    write_snapshot(made("c1"), tmp_path / "s")
    again = copied(read_snapshot(tmp_path / "s"))
    shutil.rmtree(tmp_path / "s")
    assert all(again.arrow(name).equals(made("c1").arrow(name)) for name in TABLES)


@pytest.mark.parametrize("place", [None, 7, b"folder", "a\0b", "a\udcff", [None], ["ok", 7]])
def test_what_is_no_place_is_refused(made: Made, place: Any) -> None:
    """A place that is neither a path nor a URL must be refused by casekit, whatever is asked of it."""
    for work in (read_snapshot, snapshot_info, verify_snapshot, lambda given: write_snapshot(made("c1"), given)):
        with pytest.raises(CasekitError):
            work(place)


def test_few_are_opened_at_once(made: Made, tmp_path: Path) -> None:
    """Of a few, tables that were not read yet are those that stood there at opening, also when all is gone."""
    for n in range(2):
        write_snapshot(made(f"c{n}", version=f"{n}.0.0"), tmp_path / str(n))
    found = read_snapshot(tmp_path)
    write_snapshot(made("x"), tmp_path / "0")
    shutil.rmtree(tmp_path / "1")
    assert found.items["case_id"].tolist() == ["c0", "c1"]


@pytest.mark.parametrize("how", ["written", "same cases", "gone", "in place", "touched"])
def test_what_was_replaced_since_is_told(three: Path, made: Made, how: str) -> None:
    """Of many, a table whose file was replaced after opening is an error that says so, also one of the same cases."""
    found = read_snapshot(three)
    assert found.cases["case_id"].tolist() == ["c0", "c1", "c2"]
    path = three / "1" / "items.parquet"
    if how in ("written", "same cases"):
        write_snapshot(made("x" if how == "written" else "c1", version="1.0.0"), three / "1")
    elif how == "gone":
        shutil.rmtree(three / "1")
    elif how == "in place":
        path.write_bytes((three / "2" / "items.parquet").read_bytes())
    else:
        os.utime(path, ns=(1, 1))
    with pytest.raises(
        SnapshotError, match=r"1.items\.parquet was replaced since it was opened: read the snapshot again"
    ):
        _ = found.items
    assert found.cases["case_id"].tolist() == ["c0", "c1", "c2"]


def test_files_that_were_mixed_are_found_when_read(three: Path) -> None:
    """Of many, a missing or cut file is found at opening, and one of another snapshot once its table is asked for."""
    text = (three / "2" / "items.parquet").read_bytes()
    path = three / "1" / "items.parquet"
    good = path.read_bytes()
    assert len(text) == len(good)
    path.write_bytes(text)
    found = read_snapshot(three)
    assert found.cases["case_id"].tolist() == ["c0", "c1", "c2"]
    with pytest.raises(SnapshotError, match=r"items\.parquet belongs to another snapshot"):
        _ = found.items
    path.write_bytes(text[:-1])
    with pytest.raises(SnapshotError, match=r"items\.parquet has another size"):
        read_snapshot(three)
    path.unlink()
    with pytest.raises(SnapshotError, match=r"items\.parquet is missing"):
        read_snapshot(three)


@given(st.permutations(["old", "here", "agent", "url"]), st.integers(1, 5))
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kinds_and_formats_mix(
    made: Made, live: Made, tmp_path: Path, memory: str, order: list[str], keep_open: int
) -> None:
    """The first format, a new one, an agent's, and one at a URL: in any order each table has its one schema."""
    places: dict[str, Any] = {
        "old": DATA / "snapshot_format_1",
        "here": tmp_path / "here",
        "agent": tmp_path / "agent",
        "url": f"{memory}/a",
    }
    item = {**made("x").case("x")["items"][0], "expert": {"yesWeight": 1, "totalWeight": 1}, "correctionIds": ["c"]}
    newer = {**made("x").case("x"), "runId": "r", "items": [item], "expert": True, "later": {"unknown": [None]}}
    write_snapshot(made(newer, version="2.0.0"), places["here"])
    write_snapshot(live("acme.agent", "l1", "l2"), places["agent"])
    write_snapshot(made(version="3.0.0"), places["url"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "FOLDERS_OPEN", keep_open)
        found = read_snapshot([places[name] for name in order])
        alone = [read_snapshot(places[name]) for name in order]
        for name, schema in TABLES.items():
            assert found.arrow(name).schema.equals(schema, check_metadata=True)
            assert found.arrow(name).equals(pa.concat_tables([one.arrow(name) for one in alone]))
            frames = [getattr(one, name) for one in (found, *alone)]
            assert all(frame.dtypes.equals(frames[0].dtypes) for frame in frames)
    assert list(found.documents()) == [document for one in alone for document in one.documents()]


# ---------------------------------------------------------------- age


def aged(cases: CaseSet, days: float) -> CaseSet:
    """The cases, fetched so long ago."""
    return CaseSet(cases.tables, replace(cases.source, fetched_at=datetime.now(UTC) - timedelta(days=days)))


def test_an_old_snapshot_warns(made: Made, tmp_path: Path) -> None:
    """A snapshot older than max_age is named with its age and what to do, at the line that reads it."""
    write_snapshot(aged(made("a"), 40), tmp_path / "s")
    with pytest.warns(
        StaleSnapshotWarning,
        match=r"/s \(acme\.a 1\.0\.0\) is 40 days old, and max_age is 30 days: .* ck\.refresh_snapshot$",
    ) as caught:
        found = read_snapshot(tmp_path / "s", max_age=timedelta(days=30))
    assert len(found) == 1
    assert [warning.filename for warning in caught] == [__file__]
    assert found.source.age is not None
    assert timedelta(days=40) < found.source.age < timedelta(days=41)
    assert timedelta(days=40) < snapshot_info(tmp_path / "s").age < timedelta(days=41)
    assert Source().age is None


def test_a_young_snapshot_does_not_warn(made: Made, tmp_path: Path) -> None:
    """Without max_age, or with a larger one than the age, there is no warning; one of the future has less than none."""
    write_snapshot(aged(made("a"), 40), tmp_path / "old")
    write_snapshot(aged(made("a", version="2.0.0"), -2), tmp_path / "new")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_snapshot(tmp_path)
        read_snapshot(tmp_path, max_age=timedelta(days=41))
        found = read_snapshot(tmp_path / "new", max_age=timedelta(0))
    assert found.source.age is not None
    assert found.source.age < timedelta(0)


@pytest.mark.parametrize(
    ("days", "words"),
    [(1.5, "1 day"), (0.5, "14 hours"), (0.05, "1 hour"), (0.001, "1 minute"), (1e-5, r"\S+ seconds")],
)
def test_the_age_is_told_in_its_largest_unit(made: Made, tmp_path: Path, days: float, words: str) -> None:
    """Days, hours, minutes or seconds; of several the oldest, and the others are counted."""
    for n in range(3):
        write_snapshot(aged(made("a", version=f"{n}.0.0"), days * (1 + n / 10)), tmp_path / str(n))
    with pytest.warns(StaleSnapshotWarning, match=rf"\(acme\.a \d\.0\.0\) is {words} old.*, and 2 more are too old: "):
        read_snapshot(tmp_path, max_age=timedelta(0))


@pytest.mark.parametrize("max_age", [30, "30 days", -timedelta(1), float("nan")])
def test_an_age_that_is_no_length_of_time(made: Made, tmp_path: Path, max_age: Any) -> None:
    """max_age is a timedelta from zero."""
    write_snapshot(made("a"), tmp_path / "s")
    with pytest.raises(ConfigError, match=r"max_age is a datetime\.timedelta of zero or more"):
        read_snapshot(tmp_path / "s", max_age=max_age)


# ---------------------------------------------------------------- names


def test_a_missing_folder_has_a_near_one(made: Made, tmp_path: Path) -> None:
    """The error for a folder that is not there names the nearest snapshot beside it, and no folder that is none."""
    for name in ("acme-1.0.0", "acme-2.0.0"):
        write_snapshot(made("a"), tmp_path / name)
    (tmp_path / "acme-1.0.1").mkdir()
    for work in (read_snapshot, snapshot_info, verify_snapshot):
        with pytest.raises(SnapshotError, match=r"acme-1\.0\.2 does not exist.*; did you mean .*/acme-1\.0\.0\?$"):
            work(tmp_path / "acme-1.0.2")
    with pytest.raises(SnapshotError, match=r"acme-1\.0\.1 has no snapshot\.json, .* did you mean .*/acme-1\.0\.0\?$"):
        read_snapshot(tmp_path / "acme-1.0.1")
    for name in ("zzz", "zzz/acme-1.0.0"):
        with pytest.raises(SnapshotError, match=r"does not exist, .*: make one with ck\.write_snapshot or ck\.pull$"):
            read_snapshot(tmp_path / name)
