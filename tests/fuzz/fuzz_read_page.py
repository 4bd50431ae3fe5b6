"""Fuzz target: any bytes as a page give tables and documents, or a CasekitError; never another exception.

The tables, the report and the error are the same whether the items of all cases are read at once or page by page.

Needs atheris (https://github.com/google/atheris), which is no dependency of casekit. From the root of the repository::

    python -m venv VENV && VENV/bin/pip install atheris .
    mkdir corpus
    VENV/bin/python tests/fuzz/fuzz_read_page.py -max_total_time=600 -max_len=16384 corpus

The corpus starts from real pages cut to a few cases; libFuzzer's options are passed on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

with atheris.instrument_imports(include=["casekit"]):
    from casekit.errors import CasekitError
    from casekit.report import OnError, PullReport
    from casekit.wire import Reader, Tables, case_digests, documents, joined

DATA = Path(__file__).parents[1] / "data"


def seeds(folder: Path) -> None:
    """Write real pages of one case each to a folder that has no file yet."""
    if any(folder.iterdir()):
        return
    for path in [*(DATA / "served").glob("*.json"), *(DATA.parents[1] / "data" / "mtbench").glob("page-0001.json")]:
        for n, case in enumerate(json.loads(path.read_bytes())["data"][:5]):
            text = json.dumps({"data": [case], "hasMore": False}, ensure_ascii=False)
            (folder / f"{path.stem}-{n}.json").write_text(text)


def read(kind: int, body: bytes, *, at_once: bool) -> tuple[Tables | str, PullReport]:
    """The tables of a page, or what is wrong with it."""
    on_error: OnError = "report" if kind & 1 else "raise"
    report = PullReport()
    reader = (
        Reader.agent("acme.agent", report, on_error)
        if kind & 2
        else Reader.corrections("acme.a", "1.0.0", report, on_error)
    )
    if not at_once:
        reader._at_once = False
    try:
        tables = joined(reader.groups([body]))
        digests = case_digests(tables)
        reader.check_repeats(digests.__getitem__)
    except CasekitError as error:
        return f"{type(error).__name__}: {error}", report
    assert len(digests) == report.cases == len(list(documents(tables)))
    for table in tables.values():
        table.validate(full=True)
    return tables, report


def target(data: bytes) -> None:
    """One input: the first byte chooses the list and what is done with a bad case."""
    kind, body = (data[0], data[1:]) if data[:1].isdigit() else (0, data)
    found = read(kind, body, at_once=True)
    if not kind & 2:
        assert found == read(kind, body, at_once=False)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if not argument.startswith("-") and Path(argument).is_dir():
            seeds(Path(argument))
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
