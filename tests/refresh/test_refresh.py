"""A snapshot is brought up to date: what changed is told, and where anything goes wrong the old one stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from client.pages import QUICK
from hypothesis import given, settings
from hypothesis import strategies as st
from refresh.conftest import REF, Shelf, counts, pulled, sorts, state
from refresh.documents import erased_case, full_case, small_case, words_of

import casekit as ck
from casekit.erasure import sweep_snapshot
from casekit.erasure.words import CONTENT
from casekit.errors import SchemaError, TransportError
from casekit.loaders import folder_name
from casekit.refresh import refresh_snapshot
from casekit.schema import TABLES

Api = tuple[ck.LocalServer, ck.Client]
MAGIC = b"\x28\xb5\x2f\xfd"


# ---------------------------------------------------------------- what changed


def test_an_empty_set_is_refreshed(shelf: Shelf, tmp_path: Path) -> None:
    """A list of no case must be refreshed to a list of no case, and later of some."""
    shelf.put([])
    folder = pulled(shelf.client, tmp_path)
    assert sorts(refresh_snapshot(folder, client=shelf.client)) == counts()
    shelf.put([small_case("a")])
    assert sorts(refresh_snapshot(folder, client=shelf.client)) == counts(added=("a",))
    shelf.put([])
    assert sorts(refresh_snapshot(folder, client=shelf.client)) == counts(gone=("a",))
    assert len(ck.read_snapshot(folder)) == 0


def test_every_sort_of_change_is_told_once(shelf: Shelf, tmp_path: Path) -> None:
    """Each case that was or is there must stand in one place alone, in the server's order; gone ones in the old."""
    old = [small_case(name) for name in ("b", "a", "c", "e", "d", "f")]
    shelf.put(old, pages=3)
    folder = pulled(shelf.client, tmp_path)
    new = [small_case("z"), erased_case("x"), old[0], small_case("c", output="other"), erased_case("a")]
    shelf.put([*new, small_case("e", expert=True)], pages=2)
    before = ck.snapshot_info(folder)
    change = refresh_snapshot(folder, client=shelf.client)
    assert sorts(change) == counts(added=("z", "x"), changed=("c", "e"), erased=("a",), gone=("d", "f"), unchanged=1)
    after = ck.verify_snapshot(folder)
    assert (change.content_hash_before, change.content_hash_after) == (before.content_hash, after.content_hash)
    assert (change.fetched_at_before, change.fetched_at_after) == (before.fetched_at, after.fetched_at)
    assert change.title == "acme.demo 1.0.0"
    assert (change.report.cases, change.report.pages) == (6, 2)
    assert list(ck.read_snapshot(folder).cases["case_id"]) == ["z", "x", "b", "c", "a", "e"]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_an_erasure_is_told_once(api: Api, tmp_path: Path) -> None:
    """A case that was erased at the last refresh must not be listed again; nor one erased before the first pull."""
    server, client = api
    server.add_test_set(*REF, [full_case(name) for name in "abc"])
    server.erase_case("a")
    folder = pulled(client, tmp_path)
    server.erase_case("b")
    assert sorts(refresh_snapshot(folder, client=client)) == counts(erased=("b",), unchanged=2)
    assert sorts(refresh_snapshot(folder, client=client)) == counts(unchanged=3)
    server.erase_case("b", "c")
    assert sorts(refresh_snapshot(folder, client=client)) == counts(erased=("c",), unchanged=2)
    assert ck.read_snapshot(folder).cases["erased"].all()


def test_a_case_that_comes_back_from_an_erasure_has_changed(shelf: Shelf, tmp_path: Path) -> None:
    """A case that was erased and is not any more must be told as changed, not as erased."""
    shelf.put([erased_case("a"), erased_case("b")])
    folder = pulled(shelf.client, tmp_path)
    shelf.put([small_case("a"), {**erased_case("b"), "runId": "r"}])
    assert sorts(refresh_snapshot(folder, client=shelf.client)) == counts(changed=("a", "b"))


def test_nothing_changed_is_a_refresh_too(shelf: Shelf, tmp_path: Path) -> None:
    """Where no case changed, whatever the order and the pages, only the time must have moved forward."""
    cases = [full_case(str(n)) for n in range(7)]
    shelf.put(cases)
    folder = pulled(shelf.client, tmp_path)
    before = ck.snapshot_info(folder)
    shelf.put(cases[::-1], pages=4)
    change = refresh_snapshot(folder, client=shelf.client)
    after = ck.snapshot_info(folder)
    assert sorts(change) == counts(unchanged=7)
    assert change.content_hash_before == change.content_hash_after == after.content_hash == before.content_hash
    assert before.fetched_at < after.fetched_at <= datetime.now(UTC)


def test_an_agents_live_test_set_is_refreshed(api: Api, tmp_path: Path) -> None:
    """A case that was retired must be told as changed, and one that was added since as added."""
    server, client = api
    for name in ("run-1", "run-2", "run-3"):
        server.add_run("acme.drafting", name, output={"answer": "Dear all"})
    first, second = (client.add_case("acme.drafting", f"run-{n}", answer="right").id for n in (1, 2))
    ck.write_snapshot(ck.load_agent_cases("acme.drafting", client=client), tmp_path / "live")
    client.retire_case("acme.drafting", first, reason="the tool is gone")
    third = client.add_case("acme.drafting", "run-3", answer="wrong", why="curt").id
    change = refresh_snapshot(tmp_path / "live", client=client)
    assert sorts(change) == counts(added=(third,), changed=(first,), unchanged=1)
    assert change.title == "live test set of acme.drafting"
    live = ck.read_snapshot(tmp_path / "live")
    assert live.source.agent_id == "acme.drafting"
    assert list(live.without_retired().cases["case_id"]) == [third, second]


@given(
    old=st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["erased", "x", "y"]), max_size=8),
    new=st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["erased", "x", "y"]), max_size=8),
    pages=st.integers(1, 3),
)
@settings(max_examples=25, deadline=None)
def test_any_two_states_are_told_apart(
    shelf_of: Callable[[], Shelf],
    tmp_path_factory: pytest.TempPathFactory,
    old: dict[str, str],
    new: dict[str, str],
    pages: int,
) -> None:
    """Whatever the two states, each case must be told as a comparison of the two documents tells it."""
    shelf, into = shelf_of(), tmp_path_factory.mktemp("any")

    def listed(given: dict[str, str]) -> list[dict[str, Any]]:
        return [erased_case(one) if how == "erased" else small_case(one, output=how) for one, how in given.items()]

    shelf.put(listed(old))
    folder = pulled(shelf.client, into)
    shelf.put(listed(new), pages=pages)
    change = refresh_snapshot(folder, client=shelf.client)
    both = [one for one in new if one in old]
    assert sorts(change) == {
        "added": tuple(one for one in new if one not in old),
        "changed": tuple(one for one in both if new[one] != old[one] and new[one] != "erased"),
        "erased": tuple(one for one in both if new[one] != old[one] and new[one] == "erased"),
        "gone": tuple(one for one in old if one not in new),
        "unchanged": sum(new[one] == old[one] for one in both),
    }
    assert list(ck.read_snapshot(folder).cases["case_id"]) == list(new)


def test_unreadable_cases_are_not_gone(shelf: Shelf, tmp_path: Path) -> None:
    """A case that can be read no more is an error, or left out and reported where asked; it must not be called gone."""
    shelf.put([small_case("a"), small_case("b"), small_case("c")])
    folder = pulled(shelf.client, tmp_path)
    before = state(tmp_path)
    shelf.put([small_case("a"), small_case("b", items=7)])
    with pytest.raises(SchemaError, match="'b'"):
        refresh_snapshot(folder, client=shelf.client)
    assert state(tmp_path) == before
    change = refresh_snapshot(folder, client=shelf.client, on_error="report")
    assert sorts(change) == counts(gone=("c",), unchanged=1)
    assert [bad.case_id for bad in change.report.bad_cases] == ["b"]
    assert "unreadable" in repr(change)


def test_a_cursor_that_expires_begins_the_comparison_again(shelf: Shelf, tmp_path: Path) -> None:
    """A walk that starts over must not count a case twice."""
    shelf.put([small_case(name) for name in "abcd"])
    folder = pulled(shelf.client, tmp_path)
    shelf.put([small_case("a"), small_case("b", output="other"), small_case("e"), small_case("d")], pages=2)
    shelf.refuse_cursor_once()
    change = refresh_snapshot(folder, client=shelf.client)
    assert sorts(change) == counts(added=("e",), changed=("b",), gone=("c",), unchanged=2)
    assert change.report.restarts == 1


# ---------------------------------------------------------------- erased for good


def decompressed(data: bytes) -> list[bytes]:
    """What every Zstandard frame in some bytes gives, read byte by byte: as far as it goes."""
    found = []
    for match in re.finditer(re.escape(MAGIC), data):
        out = bytearray()
        with pa.CompressedInputStream(pa.BufferReader(data[match.start() :]), "zstd") as stream:
            try:
                while byte := stream.read(1):
                    out += byte
            except OSError:
                pass  # the next page's head, which is no frame
        found.append(bytes(out))
    return found


def holders(word: str, *folders: Path) -> list[str]:
    """Files that hold a word in any way: in their names, their bytes, or what these are when decompressed."""
    needle = word.encode()
    holding = []
    for folder in folders:
        for name, data in state(folder).items():
            holding += [name] * any(needle in part for part in (name.encode(), data, *decompressed(data)))
    return holding


def test_the_case_of_the_test_has_words_in_every_column(api: Api, tmp_path: Path) -> None:
    """The test below must see every column that may hold words: none is empty for the case it erases."""
    server, client = api
    server.add_test_set(*REF, [full_case("a")])
    cases = ck.load_test_set(*REF, client=client)
    live_only = {"retired_reason"}
    verdicts = {"decisions_verdict", "answer_verdict", "verdict", "source"}  # words of the contract, not a person's
    for table, columns in CONTENT.items():
        for column in set(columns) - live_only - verdicts:
            assert "Zyx a said" in str(cases.arrow(table)[column].to_pylist()), (table, column)
    assert set(CONTENT) == set(TABLES)


@pytest.mark.parametrize("kill", [False, True])
def test_no_byte_of_an_erased_text_is_left(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, kill: bool
) -> None:
    """After a refresh no file in or beside the folder, nor the journal of writes, may hold an erased word; others do.

    Also where an earlier refresh was killed at the worst moment, with the old state moved aside.
    """
    server, client = api
    into, journal = tmp_path / "snapshots", tmp_path / "state"
    monkeypatch.setenv("CASEKIT_STATE", str(journal))
    server.add_test_set(*REF, [full_case("case-kept"), full_case("case-lost"), small_case("small")])
    server.add_run("acme.drafting", "run-9", output={"answer": words_of("case-lost")("output")})
    server.lose_next(times=9, method="POST")
    with ck.Client(server.url, token=server.token, retry=QUICK) as hasty, pytest.raises(TransportError):
        hasty.add_case(
            "acme.drafting", "run-9", answer="wrong", why=words_of("case-lost")("why")
        )  # stays in the journal
    folder = pulled(client, into)
    assert {"cases.parquet", "items.parquet", "messages.parquet"} <= {
        Path(one).name for one in holders("case-lost said", into)
    }
    if kill:
        (into / f".{folder.name}.0123abcd.casekit-tmp").mkdir()
        for name, data in state(folder).items():
            (into / f".{folder.name}.0123abcd.casekit-tmp" / name).write_bytes(data)
    server.erase_case("case-lost")
    change = refresh_snapshot(folder, client=client)
    assert sorts(change) == counts(erased=("case-lost",), unchanged=2)
    assert holders("case-lost said", into, journal) == []
    assert holders("case-kept said", into)  # the search does find words
    assert [path.name for path in into.iterdir()] == [folder.name]
    assert any(journal.iterdir())
    assert not any(b"said" in data for data in state(journal).values())


def test_a_snapshot_at_a_url_is_refreshed(shelf: Shelf, tmp_path: Path) -> None:
    """At a URL a pull leaves alone what is young, and a refresh takes every erased word away, as on a disk."""
    fsspec = pytest.importorskip("fsspec")
    shelf.put([full_case("lost"), full_case("kept")])
    into = f"memory://{tmp_path.name}"
    first = ck.pull([REF], into=into, client=shelf.client)
    sent = shelf.requests()
    assert ck.pull([REF], into=into, client=shelf.client) == first
    assert shelf.requests() == sent
    shelf.put([erased_case("lost"), full_case("kept")])
    url = f"{into}/{folder_name(*REF)}"
    assert sorts(refresh_snapshot(url, client=shelf.client)) == counts(erased=("lost",), unchanged=1)
    here = tmp_path / "here"
    for name in fsspec.filesystem("memory").find(tmp_path.name):
        (here / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (here / name.lstrip("/")).write_bytes(fsspec.filesystem("memory").cat(name))
    assert holders("lost said", here) == []
    assert holders("kept said", here)
    copy = here / tmp_path.name / folder_name(*REF)
    assert sweep_snapshot(copy, ["lost"]).clean
    assert {finding.kind for finding in sweep_snapshot(copy, ["kept"], before=copy).findings} == {
        "not erased",
        "content",
        "rows",
        "words",
    }


def test_the_card_shortens_and_escapes(shelf: Shelf, tmp_path: Path) -> None:
    """Long lists of ids must be shortened with their count said, and hostile ids do no harm, in text and HTML."""
    shelf.put([])
    folder = pulled(shelf.client, tmp_path)
    assert repr(refresh_snapshot(folder, client=shelf.client)).splitlines()[1:5] == [
        "  added        0",
        "  changed      0",
        "  erased       0",
        "  gone         0",
    ]
    shelf.put([small_case("<script>\x1b[31m"), *(small_case(f"case-{n}") for n in range(1200))])
    change = refresh_snapshot(folder, client=shelf.client)
    assert "added        1,201: <script>\\x1b[31m, case-0, case-1, case-2, case-3 and 1,196 more" in repr(change)
    html = change._repr_html_()
    assert "&lt;script&gt;\\x1b[31m" in html
    assert "<script" not in html
    assert "\x1b" not in html + str(change)
    assert str(change) == repr(change)
    assert f"{change.content_hash_before[:16]} → {change.content_hash_after[:16]}" in repr(change)
