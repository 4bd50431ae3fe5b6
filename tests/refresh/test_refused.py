"""What cannot be refreshed is refused, and where a refresh fails the old snapshot stands."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from refresh.conftest import REF, Shelf, counts, pulled, sorts, state
from refresh.documents import erased_case, full_case, small_case

import casekit as ck
from casekit.errors import AuthError, ConfigError, SnapshotBusyError, SnapshotError
from casekit.refresh import refresh_snapshot
from casekit.schema import TABLES
from casekit.snapshots.writer import SnapshotWriter
from casekit.source import Source

Api = tuple[ck.LocalServer, ck.Client]
SOURCE = str(Path(ck.__file__).parents[1])


# ---------------------------------------------------------------- refused


def test_another_server_is_refused(api: Api, shelf: Shelf, tmp_path: Path) -> None:
    """A list of another server must not be put in place of a snapshot; both are named, and nothing is sent."""
    server, client = api
    server.add_test_set(*REF, [small_case("a")])
    shelf.put([small_case("b")])
    folder = pulled(client, tmp_path)
    before = state(tmp_path)
    with pytest.raises(ConfigError) as caught:
        refresh_snapshot(folder, client=shelf.client)
    assert client.origin in str(caught.value)
    assert shelf.client.origin in str(caught.value)
    assert shelf.requests() == 0
    assert state(tmp_path) == before


def test_a_snapshot_of_no_known_server_is_refused(api: Api, tmp_path: Path) -> None:
    """Without a word on its server a snapshot could be mixed with another's: it must be refused."""
    server, client = api
    server.add_test_set(*REF, [small_case("a")])
    cases = ck.load_test_set(*REF, client=client)
    unknown = replace(cases, source=replace(cases.source, origin=None))
    ck.write_snapshot(unknown, tmp_path / "s")
    with pytest.raises(ConfigError, match="does not say which server"):
        refresh_snapshot(tmp_path / "s", client=client)


def test_what_is_not_one_whole_list_is_refused(api: Api, tmp_path: Path) -> None:
    """Several sets, what filters left, and cases that belong to other lists must be refused with a way out."""
    server, client = api
    other = ("acme.other", "2.0.0")
    for ref in (REF, other):
        server.add_test_set(*ref, [small_case("a"), small_case("b")])
    server.add_run("acme.drafting", "run-1", output="o")
    client.add_case("acme.drafting", "run-1", answer="right")
    both = ck.load_test_sets([REF, other], client=client)
    one = ck.load_test_set(*REF, client=client)
    live = ck.load_agent_cases("acme.drafting", client=client)
    hidden = replace(both, source=replace(one.source))
    nobody = replace(live, source=Source(origin=client.origin, fetched_at=live.source.fetched_at))
    given = {
        "both": (both, r"holds 2 test sets.*a folder of its own with ck\.pull"),
        "filtered": (one.where([True, False]), r"holds what filters left \(where: 1 case, 1 item\)"),
        "nobody": (nobody, "holds cases of no one test set"),
        "hidden": (hidden, "holds cases of other lists than the one it names"),
    }
    for name, (cases, words) in given.items():
        ck.write_snapshot(cases, tmp_path / name)
        before = state(tmp_path)
        with pytest.raises(ConfigError, match=words):
            refresh_snapshot(tmp_path / name, client=client)
        assert state(tmp_path) == before


def test_what_is_no_snapshot_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    """A folder without a snapshot must be an error, and stay as it is."""
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        with pytest.raises(SnapshotError, match="is no snapshot"):
            refresh_snapshot(tmp_path / name, client=shelf.client)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    assert shelf.requests() == 0


@pytest.mark.parametrize("damage", ["missing", "cut", "page", "mixed", "manifest", "content"])
def test_a_damaged_snapshot_is_refused(shelf: Shelf, tmp_path: Path, damage: str) -> None:
    """Against a damaged state nothing can be compared: an error must say to pull again, and nothing be changed."""
    shelf.put([full_case("a"), small_case("b")])
    folder = pulled(shelf.client, tmp_path / "one")
    items = folder / "items.parquet"
    if damage == "missing":
        items.unlink()
    elif damage == "cut":
        items.write_bytes(items.read_bytes()[:-9])
    elif damage == "page":
        items.write_bytes(items.read_bytes()[:4] + bytes(100) + items.read_bytes()[104:])
    elif damage == "mixed":
        shelf.put([small_case("c")])
        items.write_bytes((pulled(shelf.client, tmp_path / "two") / "items.parquet").read_bytes())
    elif damage == "manifest":
        (folder / "snapshot.json").write_text('{"format":"casekit-snapshot","format_version":1}')
    else:
        info = ck.snapshot_info(folder)
        text = (folder / "snapshot.json").read_text().replace(info.content_hash, "0" * 64)
        (folder / "snapshot.json").write_text(text)
    before = state(folder)
    with pytest.raises(SnapshotError, match="pull again"):
        refresh_snapshot(folder, client=shelf.client)
    assert state(folder) == before


def test_cases_that_are_not_the_manifests_are_damage(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot whose files all agree on a content hash that is not their cases' must be an error."""
    shelf.put([small_case("a")])
    with monkeypatch.context() as patch:
        patch.setattr("casekit.snapshots.writer.content_hash", lambda digests: "0" * 64)
        folder = pulled(shelf.client, tmp_path)
    with pytest.raises(SnapshotError, match="are not those the content hash was made of; pull again"):
        refresh_snapshot(folder, client=shelf.client)


@pytest.mark.parametrize("kept", [["a"], ["b"], []])
def test_rows_of_no_case_are_damage(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: list[str]
) -> None:
    """A snapshot with rows whose case is not there, before, behind or without others, must be an error."""
    shelf.put([small_case("a"), small_case("b")])
    cases = ck.read_snapshot(pulled(shelf.client, tmp_path))
    tables = {name: cases.arrow(name) for name in TABLES}
    tables["cases"] = tables["cases"].filter([one in kept for one in ("a", "b")])
    monkeypatch.setattr("casekit.snapshots.writer.case_digests", lambda tables: [])
    ck.write_snapshot(ck.CaseSet(tables, cases.source), tmp_path / "odd")
    with pytest.raises(SnapshotError, match=r"rows of items are of no case, .*; pull again"):
        refresh_snapshot(tmp_path / "odd", client=shelf.client)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 100])
def test_the_old_state_is_read_in_groups_of_any_size(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """However few rows are read at a time, cases with many rows and with none must be compared whole."""
    cases = [full_case("a"), small_case("b", items=[]), small_case("c"), erased_case("d"), full_case("e")]
    shelf.put([*cases, small_case("f", items=small_case("f")["items"] * 7), small_case("g", items=[])])
    folder = pulled(shelf.client, tmp_path)
    monkeypatch.setattr("casekit.refresh.ROWS", rows)
    assert sorts(refresh_snapshot(folder, client=shelf.client)) == counts(unchanged=7)


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_failed_refresh_leaves_what_stood_there(shelf: Shelf, tmp_path: Path, fails_at: int) -> None:
    """A page that cannot be had, first, in the middle or last, must leave the old snapshot, and nothing beside it."""
    shelf.put([small_case(name) for name in "abcdef"], pages=3)
    folder = pulled(shelf.client, tmp_path)
    before = state(tmp_path)
    shelf.put([small_case(name, output="new") for name in "abcdef"], pages=3, fails_at=fails_at)
    with pytest.raises(AuthError):
        refresh_snapshot(folder, client=shelf.client)
    assert state(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert not [one.name for one in threading.enumerate() if one.name.startswith("casekit")]


def test_while_another_writes_a_refresh_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    """Two writers must not meet: the second is told, sends nothing, and may try again when the first is done."""
    shelf.put([small_case("a")])
    folder = pulled(shelf.client, tmp_path)
    sent = shelf.requests()
    with SnapshotWriter(folder), pytest.raises(SnapshotBusyError, match="is being written by someone else"):
        refresh_snapshot(folder, client=shelf.client)
    assert shelf.requests() == sent
    assert sorts(refresh_snapshot(folder, client=shelf.client)) == counts(unchanged=1)


def test_a_snapshot_that_was_replaced_meanwhile_is_told(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another list's snapshot took the folder in between, it must not be overwritten."""
    shelf.put([small_case("a")])
    folder = pulled(shelf.client, tmp_path)
    info = ck.snapshot_info(folder)
    monkeypatch.setattr(
        "casekit.refresh.snapshot_info", lambda path: replace(info, test_sets=(("acme.else", "1.0.0"),))
    )
    before = state(tmp_path)
    with pytest.raises(SnapshotError, match="was replaced by another snapshot"):
        refresh_snapshot(folder, client=shelf.client)
    assert state(tmp_path) == before


def test_a_refresh_in_a_fresh_process_takes_its_settings(shelf: Shelf, tmp_path: Path) -> None:
    """Without a client, one must be made from the settings, as for every load."""
    shelf.put([small_case("a")])
    folder = pulled(shelf.client, tmp_path)
    code = "import sys; from casekit.refresh import refresh_snapshot; print(refresh_snapshot(sys.argv[1]).unchanged)"
    environment = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "CASEKIT_URL": shelf.client.origin,
        "CASEKIT_TOKEN": "tok-123456",
    }
    command = [sys.executable, "-W", "error", "-c", code, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")
