"""A pull that is run again does what is missing or stale, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from client.conftest import Serve
from client.pages import TOKEN, Spec, always, case, page, refusal
from client.test_loaders import contents, left_behind, lists, refs

import casekit as ck
from casekit.errors import CasekitError, ConfigError, NotFoundError, SnapshotBusyError
from casekit.loaders import folder_name
from casekit.snapshots.writer import SnapshotWriter

ClientOf = Callable[..., ck.Client]
SOURCE = str(Path(ck.__file__).parents[1])
REF = ("s0", "1.0.0")


def kept(folder: Path, **source: Any) -> None:
    """Write the snapshot in a folder anew, with something else said of where it came from."""
    cases = ck.read_snapshot(folder)
    ck.write_snapshot(replace(cases, source=replace(cases.source, **source)), folder)


def test_what_is_there_is_left_alone(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """A second pull must send nothing and change no byte; a longer list of refs must pull the new ones alone."""
    server = serve(*lists(4))
    client = client_of(server)
    first = ck.pull(refs(3), into=tmp_path, client=client)
    before, sent = contents(tmp_path), len(server.requests)
    assert ck.pull(refs(3), into=tmp_path, client=client) == first
    assert contents(tmp_path) == before
    assert len(server.requests) == sent
    *again, new = ck.pull(refs(4), into=tmp_path, client=client)
    assert again == first
    assert new.test_sets == (("s3", "1.0.0"),)
    assert {request.path for request in server.requests[sent:]} == {"/v1/test-sets/s3/versions/1.0.0/cases"}
    assert before.items() <= contents(tmp_path).items()


@pytest.mark.parametrize(
    ("hours", "max_age", "stays"),
    [
        (0, None, True),
        (23.9, None, True),
        (24.1, None, False),
        (0, timedelta(0), False),
        (5, timedelta(hours=6), True),
        (7, timedelta(hours=6), False),
        (24 * 365, timedelta.max, True),
        (-1, None, False),  # from the future: a clock was wrong, and it would never grow old
    ],
)
def test_what_is_stale_is_pulled_again(
    serve: Serve, client_of: ClientOf, tmp_path: Path, hours: float, max_age: timedelta | None, stays: bool
) -> None:
    """A snapshot must be pulled again at the age that the caller gives, a day if none."""
    client = client_of(serve(*lists(1)))
    ck.pull([REF], into=tmp_path, client=client)
    when = datetime.now(UTC) - timedelta(hours=hours)
    kept(tmp_path / folder_name(*REF), fetched_at=when)
    more: dict[str, Any] = {} if max_age is None else {"max_age": max_age}
    [info] = ck.pull([REF], into=tmp_path, client=client, **more)
    assert (info.fetched_at == when) == stays
    assert ck.snapshot_info(tmp_path / folder_name(*REF)) == info


@pytest.mark.parametrize(
    "what",
    ["no file", "cut file", "no manifest", "cut manifest", "other format", "filtered", "other set", "other server"],
)
def test_what_is_not_the_whole_list_is_pulled_again(
    serve: Serve, client_of: ClientOf, tmp_path: Path, what: str
) -> None:
    """A damaged, filtered or foreign snapshot must give way, however young."""
    client = client_of(serve(*lists(1)))
    [whole] = ck.pull([REF], into=tmp_path, client=client)
    folder = tmp_path / folder_name(*REF)
    items, manifest = folder / "items.parquet", folder / "snapshot.json"
    if what == "no file":
        items.unlink()
    elif what == "cut file":
        items.write_bytes(items.read_bytes()[:-1])
    elif what == "no manifest":
        manifest.unlink()
    elif what == "cut manifest":
        manifest.write_bytes(manifest.read_bytes()[:-20])
    elif what == "other format":
        manifest.write_text(manifest.read_text().replace('"format_version": 1', '"format_version": 99'))
    elif what == "filtered":
        ck.write_snapshot(ck.read_snapshot(folder).where(lambda cases: cases["case_id"] == "c-0-0"), folder)
    elif what == "other set":
        kept(folder, test_sets=(("s1", "1.0.0"),))
    else:
        kept(folder, origin="http://127.0.0.1:1")
    [info] = ck.pull([REF], into=tmp_path, client=client)
    assert info.fetched_at > whole.fetched_at
    assert ck.verify_snapshot(folder).content_hash == whole.content_hash
    assert info.origin == client.origin


def test_cases_that_were_left_out_are_tried_again(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """A snapshot without its unreadable cases must do for who asked for a report, and for nobody else."""
    body = {"data": [case(1), case(2, items=7)], "hasMore": False}
    server = serve(always(body_json=body))
    client = client_of(server)
    first = ck.pull([REF], into=tmp_path, client=client, on_error="report")
    assert ck.pull([REF], into=tmp_path, client=client, on_error="report") == first
    assert len(server.requests) == 1
    with pytest.raises(ck.CasekitError, match="'c-2'"):
        ck.pull([REF], into=tmp_path, client=client)


def test_what_a_killed_writer_left_beside_is_taken_away(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """Where the snapshot itself is left alone, an older state beside it must go: it may hold erased words."""
    client = client_of(serve(*lists(1)))
    first = ck.pull([REF], into=tmp_path, client=client)
    (tmp_path / f".{folder_name(*REF)}.0123abcd.casekit-tmp").mkdir()
    (tmp_path / f".{folder_name(*REF)}.0123abcd.casekit-tmp" / "cases.parquet").write_text("words")
    assert ck.pull([REF], into=tmp_path, client=client) == first
    assert [path.name for path in tmp_path.iterdir()] == [folder_name(*REF)]


def test_a_set_that_another_writes_is_told(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """While another writer is at one folder, that set must be refused, and the others pulled."""
    client = client_of(serve(*lists(2)))
    ck.pull([REF], into=tmp_path, client=client)
    with SnapshotWriter(tmp_path / folder_name(*REF)), pytest.raises(SnapshotBusyError) as caught:
        ck.pull(refs(2), into=tmp_path, client=client)
    assert caught.value.__notes__[0] == "1 of 2 failed:"
    assert (tmp_path / "s1-1.0.0").is_dir()
    assert len(ck.pull(refs(2), into=tmp_path, client=client)) == 2


@pytest.mark.parametrize("max_age", [None, 0, 86_400, "1 day", timedelta(seconds=-1)])
def test_an_age_that_is_none_is_refused(serve: Serve, client_of: ClientOf, tmp_path: Path, max_age: Any) -> None:
    """A number of unknown unit, or less than nothing, must be refused before anything is sent."""
    server = serve(*lists(1))
    with pytest.raises(ConfigError, match=r"timedelta of zero or more, such as timedelta\(hours=6\)"):
        ck.pull([REF], into=tmp_path, client=client_of(server), max_age=max_age)
    assert server.requests == []


@pytest.mark.parametrize("ref", [("s0", "../../1.0.0"), ("s0", "1.0.0\n"), ("s0", "1.0." + "0" * 60), ("..", "1.0.0")])
def test_what_is_no_test_set_touches_no_folder(
    serve: Serve, client_of: ClientOf, tmp_path: Path, ref: tuple[str, str]
) -> None:
    """A version or an id that no test set has must be refused before anything is looked for or made under its name."""
    server = serve(*lists(1))
    (tmp_path / ".1.0.0.0123abcd.casekit-tmp").mkdir()
    with pytest.raises(ConfigError):
        ck.pull([REF, ref], into=tmp_path / "a" / "b", client=client_of(server))
    assert [path.name for path in tmp_path.iterdir()] == [".1.0.0.0123abcd.casekit-tmp"]
    assert server.requests == []


def test_where_no_folder_can_be_nothing_is_sent(serve: Serve, client_of: ClientOf) -> None:
    """What is no place must be refused before anything is sent."""
    server = serve(*lists(1))
    with pytest.raises(ConfigError, match="a place is given as a path or a URL"):
        ck.pull([REF], into=None, client=client_of(server))  # type: ignore[arg-type]
    assert server.requests == []


@pytest.mark.parametrize("name", ["ä" * 60, "日本" * 100, "a" * 250, "a" * 161, "/" * 54])
def test_long_names_fit_and_stay_apart(tmp_path: Path, name: str) -> None:
    """The longest names of folders, with what a writer adds, must be short enough for any system, and differ."""
    folder = folder_name(name, "1." + "0" * 50 + ".0")
    assert folder.startswith(folder_name(name[:2], "1.0.0")[: -len("-1.0.0")])
    (tmp_path / f".{folder}.0123abcd.casekit-tmp").mkdir()
    assert len({folder_name(name + end, "1.0.0") for end in ("", "a", "b")}) == 3


@pytest.mark.parametrize("name", ["con.x", "NUL.a.b", "Com1.x", "lpt9."])
def test_no_folder_is_called_as_a_device(name: str) -> None:
    """Windows takes such a name for a device whatever follows the dot."""
    first = f"_{ord(name[0]):02x}"
    assert folder_name(name, "1.0.0") == f"{first}{name[1:]}-1.0.0"
    assert folder_name(f"x{name}", "1.0.0") == f"x{name}-1.0.0"


# ---------------------------------------------------------------- many sets


def tiny(count: int, *, refused: int = 0, **more: Any) -> list[Spec]:
    """Answers for many test sets of one case each; of some, with an id that nobody has, a refusal."""
    answers: list[Spec] = []
    if refused:
        answers = [{"when": {"path_regex": r"/s\d*7/"}, "times": "*", **refusal(404, "test-set-not-found")}]
    return [*answers, {"when": {"path_regex": "/v1/test-sets/"}, "times": "*", "body_json": page([1]), **more}]


def test_three_hundred_sets_are_pulled(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """Hundreds of sets must come, each once, those that fail be named each with its error, and nothing be left over."""
    server = serve(*tiny(300, refused=30))
    client = client_of(server)
    wanted = refs(300)
    with pytest.raises(NotFoundError, match=r"test set s7 1\.0\.0") as caught:
        ck.pull(wanted, into=tmp_path, client=client, workers=8)
    failed = [ref for ref in wanted if ref[0].endswith("7")]
    first, *named, last = caught.value.__notes__
    assert first == "30 of 300 failed:"
    assert [note.split(": ")[:2] for note in named] == [
        [f"  test set {name} {version}", "NotFoundError"] for name, version in failed
    ]
    assert max(map(len, named)) <= 302
    assert "pull again" in last
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        folder_name(*ref) for ref in wanted if ref not in failed
    )
    assert len({request.path for request in server.requests}) == len(server.requests) == 300
    assert left_behind() == []
    with pytest.raises(NotFoundError):
        ck.pull(wanted, into=tmp_path, client=client, workers=8)
    assert len(server.requests) == 330


def test_an_error_of_many_keeps_no_pages(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """While somebody looks at the error of many sets, what each had read until then must be gone from memory."""
    bodies = {"data": [case(n, output="x" * 20_000) for n in range(50)], "nextCursor": "p", "hasMore": True}
    first = {"when": {"path_regex": r"/s\d+/", "no_query": ["cursor"]}, "times": "*", "body_json": bodies}
    server = serve(first, always(**refusal(403, "permission-denied")))
    client = client_of(server)
    with pytest.raises(CasekitError):  # whatever a first pull needs for ever
        ck.pull(refs(1), into=tmp_path, client=client)
    tracemalloc.start()
    try:
        with pytest.raises(CasekitError) as caught:
            ck.pull(refs(12), into=tmp_path, client=client)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(caught.value.__notes__) == 14
    assert held < 3e6  # one page has a million bytes


@pytest.mark.skipif(os.name != "posix", reason="the system sends no SIGINT to another process")
def test_an_interrupted_pull_goes_on(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """After Ctrl-C what was pulled must stand whole, and the next run fetch the rest alone."""
    server = serve(*tiny(60, delay_ms=150))  # long enough for a machine that has much else to do
    code = f"""if True:
        import sys, casekit as ck
        with ck.Client({server.url!r}, token={TOKEN!r}) as client:
            ck.pull([(f"s{{n}}", "1.0.0") for n in range(60)], into=sys.argv[1], client=client, workers=8)
    """
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while len(server.requests) < 25 and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    there = sorted(path.name for path in tmp_path.iterdir())
    assert 0 < len(there) < 60
    assert not [name for name in there if name.startswith(".")]
    before, sent = contents(tmp_path), len(server.requests)
    infos = ck.pull(refs(60), into=tmp_path, client=client_of(server), workers=8)
    assert [info.test_sets for info in infos] == [(ref,) for ref in refs(60)]
    assert len(server.requests) - sent == 60 - len(there)
    assert before.items() <= contents(tmp_path).items()


def test_two_pulls_of_the_same_sets_share_the_work(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """Whatever two pulls of one list of sets do to each other, after a third all sets must be there, whole."""
    server = serve(*tiny(20, delay_ms=5))
    client = client_of(server)
    errors: list[CasekitError] = []

    def pull() -> None:
        try:
            ck.pull(refs(20), into=tmp_path, client=client)
        except SnapshotBusyError as error:
            errors.append(error)

    threads = [threading.Thread(target=pull) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    infos = ck.pull(refs(20), into=tmp_path, client=client)
    assert [ck.verify_snapshot(tmp_path / folder_name(*info.test_sets[0])) for info in infos] == infos
    assert len(list(tmp_path.iterdir())) == 20
