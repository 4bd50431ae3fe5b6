"""A sweep finds what is left of an erased case wherever it hides, says what it cannot look into, and shows no words."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from documents_strategy import page
from hypothesis import given, settings
from hypothesis import strategies as st
from refresh.documents import erased_case, full_case, small_case, words_of

import casekit as ck
from casekit.erasure import SweepReport, sweep_snapshot
from casekit.errors import ConfigError, SnapshotError
from casekit.report import PullReport
from casekit.schema import JSON, TABLES
from casekit.wire import Reader, joined

LOST = words_of("lost")
WHEN = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def written(folder: Path, *documents: dict[str, Any]) -> Path:
    """A snapshot of these cases."""
    report = PullReport()
    tables = joined(Reader.corrections("acme.a", "1.0.0", report).groups([page(list(documents))]))
    source = ck.Source(test_sets=(("acme.a", "1.0.0"),), origin="http://127.0.0.1:8765", fetched_at=WHEN)
    ck.write_snapshot(ck.CaseSet(tables, source, report), folder)
    return folder


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A snapshot that was made before the erasure."""
    return written(tmp_path / "backups" / "old", full_case("lost"), full_case("kept"), small_case("small"))


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """The same after it."""
    return written(tmp_path / "here" / "s", erased_case("lost"), full_case("kept"), small_case("small"))


def told(report: SweepReport) -> set[tuple[str, str, str | None]]:
    """What was found, without the places."""
    return {(finding.file, finding.kind, finding.case_id) for finding in report.findings}


def test_a_clean_snapshot_is_clean(backup: Path, clean: Path) -> None:
    """Where an erasure was done, nothing must be found, and the report say what was looked at."""
    report = sweep_snapshot(clean, ["lost", "never", "lost"], before=backup)
    assert report.findings == ()
    assert report.clean
    assert (report.cases, report.absent, report.without_words) == (("lost", "never"), ("never",), ("never",))
    assert report.n_texts > 40
    assert report.n_files == 11
    assert report.n_frames > 100
    assert report.n_bytes > sum(path.stat().st_size for path in clean.iterdir())
    assert report.title == "acme.a 1.0.0"


def test_what_the_tables_say_is_looked_at(backup: Path) -> None:
    """A case that is not marked, its content, and its rows in each table must be found without any older copy."""
    report = sweep_snapshot(backup, ["lost"])
    tables = {"items", "reasons", "segments", "corrections", "expected_calls", "expected_items"}
    tables |= {"recorded_calls", "recorded_steps", "messages"}
    assert told(report) == {
        ("cases.parquet", "not erased", "lost"),
        ("cases.parquet", "content", "lost"),
        *((f"{table}.parquet", "rows", "lost") for table in tables),
    }
    places = {finding.place for finding in report.findings if finding.kind == "content"}
    assert {"input_json", "output_json", "why", "must_not_call", "extra_json", "tool_env_json"} <= places
    assert {finding.place for finding in report.findings if finding.kind == "rows"} == {"1 row", "2 rows"}
    assert (report.searched, report.n_files) == (False, 0)
    assert "not searched for: give before=" in repr(report)


def test_words_in_a_snapshots_own_files_are_found(backup: Path) -> None:
    """Each table that has words of a case must be found by its bytes."""
    report = sweep_snapshot(backup, ["lost"], before=backup)
    files = {finding.file for finding in report.findings if finding.kind == "words"}
    assert files == {path.name for path in backup.iterdir()} - {"snapshot.json"}


def in_statistics(path: Path) -> None:
    """Words that only a footer's statistics hold: the least and greatest of a column."""
    table = pa.table({"why": [LOST("why"), LOST("why")]})
    pq.write_table(table, path, compression="zstd", write_statistics=True, use_dictionary=False)
    data = path.read_bytes()
    page_end = pq.read_metadata(path).row_group(0).column(0).total_compressed_size + 4
    path.write_bytes(data[:4] + bytes(page_end - 4) + data[page_end:])  # the page itself is gone


def in_dictionary(path: Path) -> None:
    """Words that a dictionary holds and no row uses."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["fine", LOST("why")]))
    pq.write_table(pa.table({"why": column}), path, compression="zstd", write_statistics=False)


def in_footer(path: Path) -> None:
    """Words in a file's own metadata."""
    with pq.ParquetWriter(path, pa.schema([("a", pa.int64())]), compression="zstd") as writer:
        writer.add_key_value_metadata({"note": LOST("why")})


def packed(text: str, *, size: int = 20_000, tail: str = " 1 2 3 4" * 20) -> bytes:
    """A frame with a text at its end, none of whose bytes stand in it as they are."""
    numbers = " ".join(str(n * n) for n in range(size))
    frame: bytes = pa.compress((numbers[:size] + text + tail).encode(), "zstd", asbytes=True)
    return frame


HIDING: dict[str, Callable[[Path], object]] = {
    "raw": lambda path: path.write_text(f"notes\n{LOST('why')}\n", encoding="utf-8"),
    "escaped": lambda path: path.write_text(json.dumps([LOST("why")])),
    "escaped, not ASCII": lambda path: path.write_text(json.dumps(LOST("why"), ensure_ascii=False), encoding="utf-8"),
    "frame": lambda path: path.write_bytes(b"head" + packed(LOST("why")) + b"tail"),
    "second frame": lambda path: path.write_bytes(packed("all is well") + packed(json.dumps(LOST("why")))),
    "upper-case escapes": lambda path: path.write_text(json.dumps(LOST("why")).replace("c4", "C4").replace("d6", "D6")),
    "CSV": lambda path: path.write_text(LOST("why").replace('"', '""'), encoding="utf-8"),
    "in two frames": lambda path: path.write_bytes(
        packed(LOST("why")[:20], tail="") + packed(LOST("why")[20:], size=0)
    ),
    "far": lambda path: path.write_bytes(bytes(2**20 - 9) + LOST("why").encode() + bytes(2**20)),
    "far in a frame": lambda path: path.write_bytes(packed(LOST("why"), size=2**18 - 9)),
    "statistics": in_statistics,
    "dictionary": in_dictionary,
    "footer": in_footer,
}


@pytest.mark.parametrize(
    ("hiding", "where"),
    [(hiding, "stray.bin") for hiding in HIDING]
    + [("frame", where) for where in (".hidden", "sub/deep/file", "../.s.0123abcd.casekit-tmp/cases.parquet")],
)
def test_words_are_found_wherever_they_hide(backup: Path, clean: Path, hiding: str, where: str) -> None:
    """Words in any file in or beside the folder must be found, as they stand, escaped, or packed."""
    path = clean / where
    path.parent.mkdir(parents=True, exist_ok=True)
    HIDING[hiding](path)
    report = sweep_snapshot(clean, ["lost"], before=backup)
    assert (os.path.relpath(path, clean), "words", "lost") in told(report)
    [place] = {one.place for one in report.findings if one.kind == "words"}
    assert ("of the frame at byte" in place) == ("frame" in hiding)
    assert not report.clean
    for shown in (repr(report), report._repr_html_(), str(report.findings)):
        assert "Zyx" not in shown


def test_other_snapshots_beside_it_are_not_its_own(backup: Path, clean: Path) -> None:
    """What lies beside the folder and is not of it must be left alone; what a killed writer left of it must not."""
    for name in ("t", ".s.x.0123abcd.casekit-tmp", ".s.0123.casekit-tmp"):
        shutil.copytree(backup, clean.parent / name)
    assert sweep_snapshot(clean, ["lost"], before=backup).clean
    shutil.copytree(backup, clean.parent / ".s.old.casekit-tmp")
    (clean.parent / ".s.01234567.casekit-tmp").write_text(LOST("why"))
    found = {finding.file for finding in sweep_snapshot(clean, ["lost"], before=backup).findings}
    assert "../.s.old.casekit-tmp/cases.parquet" in found
    assert "../.s.01234567.casekit-tmp" in found


def test_a_remnant_of_a_long_text_is_found(tmp_path: Path) -> None:
    """Any 63 bytes of a long text must be found; a sentence that others hold too is no remnant."""
    common = "This sentence stands in what everybody says, and it is rather long, so that it has pieces of its own. "
    long = common + " ".join(f"{n * n:x}-{n}" for n in range(1000))
    backup = written(tmp_path / "b", small_case("lost", output=long))
    clean = written(tmp_path / "here" / "s", erased_case("lost"), small_case("other", output=common))
    assert sweep_snapshot(clean, ["lost"], before=backup).clean
    text = long.encode()
    for start in (len(common), 1000, 2017, 3333, len(text) - 63):
        (clean / "part").write_bytes(b"\t" + text[start : start + 63] + b"\t")
        assert told(sweep_snapshot(clean, ["lost"], before=backup)) == {("part", "words", "lost")}


def test_a_name_that_holds_words_is_found_and_not_shown(backup: Path, clean: Path) -> None:
    """A file called by the words must be found, and its name be kept out of the report."""
    written(backup.parent / "two", small_case("two", output="they call him Zyxander"))
    (clean / "they call him Zyxander.txt").touch()
    report = sweep_snapshot(clean, ["two"], before=backup.parent / "two")
    assert told(report) == {("(a file whose name holds words)", "words", "two")}
    assert "Zyxander" not in repr(report) + report._repr_html_() + str(report.findings)


def test_what_others_hold_is_set_apart_and_counted(tmp_path: Path) -> None:
    """Texts that other cases hold by right, whole or in longer ones, must not be findings; short ones neither."""
    backup = written(tmp_path / "b", small_case("lost", output=["as agreed", "Dear all", "yes", "....", "quite alone"]))
    other = small_case("other", output="as we wrote, Dear all, it is as agreed")
    clean = written(tmp_path / "here" / "s", erased_case("lost"), other)
    report = sweep_snapshot(clean, ["lost"], before=backup)
    assert report.clean
    # "yes" and "...." cannot be searched for; nor can the item's key "k".
    assert (report.n_texts, report.n_shared, report.n_short) == (1, 2, 3)
    assert "1 text searched for, 2 that other cases hold too, 3 too short" in repr(report)
    (clean / "stray").write_text("as agreed, Dear all")
    assert sweep_snapshot(clean, ["lost"], before=backup).clean
    (clean / "stray").write_text("quite alone")
    assert told(sweep_snapshot(clean, ["lost"], before=backup)) == {("stray", "words", "lost")}
    # Once the other case is erased too, its texts are nobody's by right.
    gone = written(tmp_path / "later" / "s", erased_case("lost"), erased_case("other"))
    (gone / "stray").write_text("Dear all")
    assert told(sweep_snapshot(gone, ["lost"], before=backup)) == {("stray", "words", "lost")}


@pytest.mark.parametrize(("said", "found"), [("张伟", 1), ("für", 1), ("abc", 0), (49176123, 1), (4917612, 0)])
def test_short_texts_and_long_numbers(tmp_path: Path, said: str | int, found: int) -> None:
    """A name of two signs has bytes enough to be searched for, and so has the number of a telephone."""
    backup = written(tmp_path / "b", small_case("lost", output={"a": said}))
    clean = written(tmp_path / "here" / "s", erased_case("lost"))
    (clean / "stray").write_text(f"<{said}>", encoding="utf-8")
    report = sweep_snapshot(clean, ["lost"], before=backup)
    assert told(report) == {("stray", "words", "lost")} if found else report.clean


def test_the_formats_own_words_are_no_findings(tmp_path: Path) -> None:
    """A text that the format itself, an id or the manifest holds must not be found everywhere."""
    texts = ["case_id", "casekit-snapshot", "acme.a", "lost", "acme.drafting", "content_hash", "parquet-cpp-arrow"]
    backup = written(tmp_path / "b", small_case("lost", output=texts))
    clean = written(tmp_path / "here" / "s", erased_case("lost"))
    report = sweep_snapshot(clean, ["lost"], before=backup)
    assert report.clean
    assert report.n_shared == len(texts)


def test_a_text_is_found_as_it_was_spelled(tmp_path: Path) -> None:
    """JSON spells a text in many ways: the way that the server took must be found too."""
    backup = tmp_path / "b"
    body = page([small_case("lost", output="@@")]).replace(b'"@@"', rb'"caf\u00E9 \/ na\u0069ve"')
    report = PullReport()
    tables = joined(Reader.corrections("acme.a", "1.0.0", report).groups([body]))
    source = ck.Source(test_sets=(("acme.a", "1.0.0"),), fetched_at=WHEN)
    ck.write_snapshot(ck.CaseSet(tables, source, report), backup)
    clean = written(tmp_path / "here" / "s", erased_case("lost"))
    for spelled in (rb"caf\u00E9 \/ na\u0069ve", "café / naïve".replace("ï", "i").encode(), rb"caf\u00e9 / naive"):
        (clean / "stray").write_bytes(spelled)
        assert told(sweep_snapshot(clean, ["lost"], before=backup)) == {("stray", "words", "lost")}


def test_words_in_what_is_no_json_are_found(tmp_path: Path) -> None:
    """A copy of somebody else's may hold what is no JSON where JSON belongs: its texts count as they stand."""
    cases = ck.read_snapshot(written(tmp_path / "b", small_case("lost")))
    tables = {name: cases.arrow(name) for name in TABLES}
    place = TABLES["cases"].get_field_index("input_json")
    odd = pa.ExtensionArray.from_storage(JSON, pa.array([r'"quite \q odd" and more']))
    tables["cases"] = tables["cases"].set_column(place, TABLES["cases"].field(place), odd)
    ck.write_snapshot(ck.CaseSet(tables, cases.source), tmp_path / "b")
    clean = written(tmp_path / "here" / "s", erased_case("lost"))
    assert sweep_snapshot(clean, ["lost"], before=tmp_path / "b").clean
    (clean / "stray").write_text(r"quite \q odd")
    assert told(sweep_snapshot(clean, ["lost"], before=tmp_path / "b")) == {("stray", "words", "lost")}


TEXTS = st.text(min_size=1, max_size=90)


@given(texts=st.lists(TEXTS, max_size=4), reason=TEXTS, others=st.lists(TEXTS, max_size=2))
@settings(max_examples=15, deadline=None)
def test_any_texts_are_found_before_and_not_after(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], reason: str, others: list[str]
) -> None:
    """Whatever the texts: all that can be searched for is found where it stands, and nothing where it does not."""
    folder = tmp_path_factory.mktemp("any")
    item = {"key": "k", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1}
    item["reasons"] = [{"verdict": "no", "reason": f"lost reason {reason}"}]
    lost = small_case("lost", output=texts, items=[item])
    other = small_case("other", output=others)
    backup = written(folder / "b" / "s", lost, other)
    dirty = sweep_snapshot(backup, ["lost"], before=backup)
    assert {"cases.parquet"} | ({"reasons.parquet"} if dirty.n_texts else set()) <= {one.file for one in dirty.findings}
    assert dirty.n_texts + dirty.n_shared + dirty.n_short == len({*texts, f"lost reason {reason}", "k", "no"})
    assert sweep_snapshot(written(folder / "here" / "s", erased_case("lost"), other), ["lost"], before=backup).clean


# ---------------------------------------------------------------- what cannot be looked into


def unreadable(report: SweepReport) -> dict[str, str]:
    """Files that could not be looked into, and why."""
    return {finding.file: finding.place for finding in report.findings if finding.kind == "unreadable"}


def test_what_is_packed_otherwise_is_told(backup: Path, clean: Path) -> None:
    """A file that holds its content in a way that is not looked into must be a finding."""
    (clean / "notes.gz").write_bytes(gzip.compress(LOST("why").encode()))
    pq.write_table(pa.table({"a": [LOST("why")]}), clean / "copy", compression="snappy", write_statistics=False)
    pq.write_table(pa.table({"a": ["fine"]}), clean / "fine.parquet", compression="zstd")
    (clean / "cut.parquet").write_bytes((clean / "fine.parquet").read_bytes()[:-20])
    assert unreadable(sweep_snapshot(clean, ["lost"], before=backup)) == {
        "notes.gz": "packed as gzip",
        "copy": "packed as SNAPPY",
        "cut.parquet": "Parquet without a whole footer: how it is packed is not known",
    }


def prefixed(path: Path) -> None:
    """A table that leaves out what a text shares with the one before it."""
    texts = [LOST("why")[:20], LOST("why")]
    encoding = {"a": "DELTA_BYTE_ARRAY"}
    pq.write_table(pa.table({"a": texts}), path, compression="zstd", use_dictionary=False, column_encoding=encoding)


CLOSED: dict[str, Callable[[Path], object]] = {
    "UTF-16": lambda path: path.write_text(LOST("why"), encoding="utf-16"),
    "UTF-16 of ASCII alone": lambda path: path.write_text("Zyxander", encoding="utf-16-le"),
    "Latin-1": lambda path: path.write_text("Müller", encoding="latin-1"),
    "zlib": lambda path: path.write_bytes(zlib.compress(LOST("why").encode())),
    "gzip in a frame": lambda path: path.write_bytes(pa.compress(gzip.compress(b"a" * 99), "zstd", asbytes=True)),
    "bytes after a frame": lambda path: path.write_bytes(packed("fine") + gzip.compress(b"a" * 99)),
    "prefixes": prefixed,
}


@pytest.mark.parametrize("form", CLOSED)
def test_what_is_neither_text_nor_open_parquet_is_told(backup: Path, clean: Path, form: str) -> None:
    """A file in which words could not be seen must be a finding, whatever it is: it proves nothing."""
    CLOSED[form](clean / "stray")
    assert set(unreadable(sweep_snapshot(clean, ["lost"], before=backup))) == {"stray"}


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db"])
def test_what_file_managers_leave_is_no_finding(backup: Path, clean: Path, name: str) -> None:
    """A file that a file manager put there must not be told, as long as it holds no words."""
    (clean / name).write_bytes(b"\x00\x00\x00\x01Bud1\xff")
    assert sweep_snapshot(clean, ["lost"], before=backup).clean
    (clean / name).write_text(LOST("why"), encoding="utf-8")
    assert told(sweep_snapshot(clean, ["lost"], before=backup)) == {(name, "words", "lost")}


def test_a_link_to_the_snapshot_is_the_snapshot(backup: Path, clean: Path) -> None:
    """What a killed writer left beside the folder must be found through a link that lies elsewhere."""
    link = backup.parent / "latest"
    link.symlink_to(clean)
    assert sweep_snapshot(link, ["lost"], before=backup).clean
    (clean.parent / ".s.0123abcd.casekit-tmp").write_text(LOST("why"), encoding="utf-8")
    assert ("../.s.0123abcd.casekit-tmp", "words", "lost") in told(sweep_snapshot(link, ["lost"], before=backup))


def test_links_and_pipes_are_not_followed(backup: Path, clean: Path) -> None:
    """What is no plain file must be a finding, and nothing outside the folder be read."""
    (clean / "link").symlink_to(backup / "cases.parquet")
    (clean / "folder").symlink_to(backup)
    (clean.parent / ".s.0123abcd.casekit-tmp").symlink_to(backup)
    os.mkfifo(clean / "pipe")
    report = sweep_snapshot(clean, ["lost"], before=backup)
    assert told(report) == {
        (name, "unreadable", None) for name in ("link", "folder", "pipe", "../.s.0123abcd.casekit-tmp")
    }


def test_a_frame_that_is_cut_is_read_as_far_as_it_goes(backup: Path, clean: Path) -> None:
    """Words in the part of a frame that is still there must be found, and the rest be told."""
    packed = pa.compress(LOST("why").encode() + os.urandom(400_000), "zstd", asbytes=True)
    (clean / "cut").write_bytes(packed[:-1000])
    report = sweep_snapshot(clean, ["lost"], before=backup)
    assert told(report) == {("cut", "words", "lost"), ("cut", "unreadable", None)}
    assert unreadable(report) == {"cut": "the frame at byte 0 is cut or damaged"}


def test_a_file_that_may_not_be_read_is_told(backup: Path, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or folder that the system refuses must be a finding with its reason, not be passed over."""
    (clean / "mine").write_text("x")
    (clean / "sub").mkdir()
    opened, scanned = Path.open, os.scandir

    def refusing(path: Path, *given: Any, **more: Any) -> Any:
        if path.name == "mine":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *given, **more)

    def refusing_to_list(path: Any) -> Any:
        if os.path.basename(path) == "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return scanned(path)

    monkeypatch.setattr(Path, "open", refusing)
    monkeypatch.setattr(os, "scandir", refusing_to_list)
    report = sweep_snapshot(clean, ["lost"], before=backup)
    assert unreadable(report) == {"mine": "Permission denied", "sub": "Permission denied"}


@pytest.mark.parametrize("damage", ["missing", "cut", "other columns"])
def test_a_damaged_table_is_told(backup: Path, clean: Path, damage: str) -> None:
    """A table that cannot be read proves nothing: it must be a finding, with or without an older copy."""
    file = clean / "reasons.parquet"
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        pq.write_table(pa.table({"a": ["x"]}), file, compression="zstd")
    for before in (None, backup):
        assert "reasons.parquet" in unreadable(sweep_snapshot(clean, ["lost"], before=before))


def test_an_older_copy_that_is_damaged_is_refused(backup: Path, clean: Path) -> None:
    """Without all the words nothing can be proved: a damaged copy, or none, must be an error that says which."""
    with pytest.raises(SnapshotError, match="nowhere does not exist"):
        sweep_snapshot(clean, ["lost"], before=backup / "nowhere")
    (backup / "items.parquet").write_bytes(b"PAR1")
    with pytest.raises(SnapshotError, match=r"items\.parquet cannot be read .* give another copy"):
        sweep_snapshot(clean, ["lost"], before=backup)
    with pytest.raises(SnapshotError, match="is no snapshot"):
        sweep_snapshot(clean.parent, ["lost"])


def test_a_folder_of_copies_is_taken_whole(backup: Path, clean: Path) -> None:
    """Of several copies the words of all must be searched for."""
    later = full_case("lost") | {"output": "said later alone"}
    written(backup.parent / "later", later)
    (clean / "stray").write_text("said later alone")
    assert sweep_snapshot(clean, ["lost"], before=backup).clean
    assert told(sweep_snapshot(clean, ["lost"], before=backup.parent)) == {("stray", "words", "lost")}


def test_a_copy_of_another_set_is_refused(backup: Path, clean: Path) -> None:
    """A copy of another test set knows other words for the same ids: it must not be taken for a proof."""
    other = ck.read_snapshot(backup)
    ck.write_snapshot(replace(other, source=replace(other.source, test_sets=(("acme.b", "1.0.0"),))), backup)
    with pytest.raises(ConfigError, match=r"has no copy of acme\.a 1\.0\.0, so it knows no words of these cases"):
        sweep_snapshot(clean, ["lost"], before=backup)
    # Among others, a copy of another version of the set is one.
    written(backup.parent / "older", full_case("lost"))
    older = ck.read_snapshot(backup.parent / "older")
    source = replace(older.source, test_sets=(("acme.a", "0.9.0"),))
    ck.write_snapshot(replace(older, source=source), backup.parent / "older")
    assert sweep_snapshot(clean, ["lost"], before=backup.parent).n_texts > 40


def test_an_erased_copy_knows_no_words(clean: Path) -> None:
    """A copy that was made after the erasure must be told to prove nothing."""
    report = sweep_snapshot(clean, ["lost"], before=clean)
    assert (report.clean, report.n_texts, report.without_words) == (True, 0, ("lost",))
    assert "0 texts searched for; none known of 1 case" in repr(report)
    (clean / "notes.gz").write_bytes(gzip.compress(b"who knows"))
    assert set(unreadable(sweep_snapshot(clean, ["lost"], before=clean))) == {"notes.gz"}


@pytest.mark.parametrize("given_ids", ["lost", b"lost", [], [7], [None]])
def test_ids_that_cannot_be_used_are_refused(clean: Path, given_ids: Any) -> None:
    """One id on its own would be taken for its letters; no id proves nothing."""
    with pytest.raises(ConfigError, match="erased_ids is a list of case ids"):
        sweep_snapshot(clean, given_ids)


def test_a_snapshot_elsewhere_is_refused(clean: Path) -> None:
    """Bytes that are not on this machine cannot be looked at: the error must say what to do."""
    for places in ({"path": "s3://bucket/s"}, {"path": clean, "before": "s3://bucket/s"}):
        with pytest.raises(ConfigError, match="copy it here first"):
            sweep_snapshot(erased_ids=["lost"], **places)


def test_many_findings_are_shortened(backup: Path) -> None:
    """The card must show the first findings and say how many more there are, escaped."""
    report = sweep_snapshot(backup, ["lost", "kept", "<b>"], before=backup)
    assert len(report.findings) > 40
    assert f"and {len(report.findings) - 10} more" in repr(report)
    assert "2, 1 not there" not in repr(report)
    assert "3, 1 not there" in repr(report)
    assert "SweepReport" in report._repr_html_()
    assert str(report.findings[0]) == "cases.parquet: not erased of lost (erased)"


def test_nothing_is_changed(backup: Path, clean: Path, bytes_of: Callable[[Path], dict[str, bytes]]) -> None:
    """A sweep must only read."""
    before = bytes_of(clean.parent.parent)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in clean.iterdir()}
    sweep_snapshot(clean, ["lost"], before=backup)
    assert bytes_of(clean.parent.parent) == before
    assert {path: stat.S_IMODE(path.stat().st_mode) for path in clean.iterdir()} == modes
