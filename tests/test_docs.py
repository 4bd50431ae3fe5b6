"""The documentation: every block runs and prints what the page says, every command is one, nothing is missing."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib.util
import io
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
import pytest

import casekit as ck
from casekit import cli, errors, sample
from casekit.schema import TABLES, dictionary

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ENGINES = ("pyspark",)  # of blocks that `make test-spark` runs: they need a Java machine
FENCE = re.compile(r"^(?:<!-- needs: (?P<needs>\w+) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, text and line, and the extra it needs, if any."""

    language: str
    text: str
    line: int
    needs: str | None


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in order."""
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        found.append(Block(match["language"], match["text"], line, match["needs"]))
    return found


def run(block: Block, page: str, names: dict[str, Any]) -> str:
    """Run a block as a notebook cell: what it prints, and then its last value."""
    body = ast.parse("\n" * block.line + block.text, page).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(ast.Module(body, type_ignores=[]), page, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), page, "eval"), names)
            out.write("" if value is None else f"{value!r}\n")
    plt.close("all")
    return out.getvalue()


def unlike(said: Block, got: str, page: str) -> str | None:
    """What differs between an output that a page shows (``...`` stands for anything) and the one there was."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if doctest.OutputChecker().check_output(said.text, got, flags):
        return None
    return f"{page}, line {said.line + 1}, says:\n{said.text}\nbut the block before it prints:\n{got}"


def run_page(path: Path, text: str, *, needs: frozenset[str] = frozenset()) -> list[str]:
    """Run a page's Python from top to bottom, in one namespace; the outputs that are not as the page says.

    A block of text right after a block of Python is its output. A block marked with a need runs where ``needs`` has it.
    """
    page = str(path.relative_to(ROOT))
    names: dict[str, Any] = {"__name__": "__main__"}
    wrong = []
    found = blocks(text)
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language != "python" or (block.needs and block.needs not in needs):
            continue
        if block.text.startswith(">>> "):
            test = doctest.DocTestParser().get_doctest(block.text, names, page, page, block.line)
            report = io.StringIO()
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            if runner.run(test, out=report.write, clear_globs=False).failed:
                wrong.append(report.getvalue())
            names.update(test.globs)
            continue
        got = run(block, page, names)
        if after is not None and after.language == "text":
            wrong += [problem] if (problem := unlike(after, got, page)) else []
    return wrong


@pytest.fixture(scope="module")
def server() -> Iterator[ck.LocalServer]:
    """What `casekit serve` serves: the example data. Every page starts from here."""
    with ck.LocalServer() as running:
        running.load_pages(sample.pages_folder(), sample.TEST_SET_ID, sample.VERSION)
        yield running


@pytest.fixture
def desk(server: ck.LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An analyst's: an empty folder, and the settings that `casekit serve` prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CASEKIT_URL", server.url)
    monkeypatch.setenv("CASEKIT_TOKEN", server.token)
    monkeypatch.setenv("CASEKIT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")  # argparse asks for it
    return tmp_path


def page_name(path: Path) -> str:
    """A page's name among the tests."""
    return str(path.relative_to(ROOT))


WITH_PYTHON = [path for path in PAGES if "```python" in path.read_text(encoding="utf-8")]


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("path", WITH_PYTHON, ids=page_name)
def test_every_block_of_python_runs_and_prints_what_the_page_says(path: Path) -> None:
    """A page can be followed from top to bottom beside `casekit serve`, and shows what comes out."""
    wrong = run_page(path, path.read_text(encoding="utf-8"))
    assert not wrong, "\n\n".join(wrong)


def texts_with_need(need: str) -> list[tuple[Path, str]]:
    """Pages, and notebooks' Markdown cells after their code, with a block that needs an extra."""
    found = [(path, path.read_text(encoding="utf-8")) for path in PAGES]
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells]
        code = [cell["cell_type"] == "code" for cell in cells]
        parts = [f"```python\n{t}\n```" if is_code else t for t, is_code in zip(texts, code, strict=True)]
        found.append((path, "\n\n".join(parts)))
    return [(path, text) for path, text in found if f"<!-- needs: {need} -->" in text]


@pytest.mark.spark
@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(("path", "text"), texts_with_need("pyspark"), ids=lambda value: getattr(value, "name", "text"))
def test_every_block_for_spark_runs_there(path: Path, text: str) -> None:
    """A block that only a Spark machine can run is run by `make test-spark`, after the page's other blocks."""
    pytest.importorskip("pyspark")
    wrong = run_page(path, text, needs=frozenset({"pyspark"}))
    assert not wrong, "\n\n".join(wrong)


def test_a_block_with_a_need_is_one_that_some_target_runs() -> None:
    """No block is kept from the tests by a need that nothing has."""
    needs = {block.needs for path in PAGES for block in blocks(path.read_text(encoding="utf-8")) if block.needs}
    assert needs <= set(ENGINES)


def test_a_wrong_output_is_found() -> None:
    """A page that says 3 where 2 comes out does not pass."""
    text = "```python\n1 + 1\n```\n\n```text\n3\n```\n"
    assert len(run_page(DOCS / "x.md", text)) == 1
    assert not run_page(DOCS / "x.md", text.replace("3", "2"))
    assert len(run_page(DOCS / "x.md", "```python\n>>> 1 + 1\n3\n\n```\n")) == 1


# ---------------------------------------------------------------- commands


def commands() -> list[Any]:
    """Each line of a shell block that calls casekit."""
    found = []
    for path in PAGES:
        for block in blocks(path.read_text(encoding="utf-8")):
            if block.language in ("sh", "bash", "console"):
                lines = [line.strip().removeprefix("$ ") for line in block.text.splitlines()]
                found += [
                    pytest.param(line, id=f"{page_name(path)}: {line}") for line in lines if line.startswith("casekit ")
                ]
    return found


@pytest.mark.parametrize("line", commands())
def test_every_command_is_one(line: str) -> None:
    """The command line's own parser takes each command that a page shows."""
    words = shlex.split(line, comments=True)[1:]
    if "--help" in words:
        with pytest.raises(SystemExit) as ended, contextlib.redirect_stdout(io.StringIO()):
            cli.parser().parse_args([word.replace("COMMAND", "pull") for word in words])
        assert ended.value.code == 0
    else:
        assert cli.parser().parse_args(words).command == words[0]


# ---------------------------------------------------------------- nothing is missing


def public_errors() -> list[str]:
    """The names of casekit's errors and warnings."""
    return [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]


@pytest.mark.parametrize("name", public_errors())
def test_every_error_has_an_entry_that_says_what_to_do(name: str) -> None:
    """The page of errors has a section for each public error and warning, with a line on what to do."""
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `(\w+)`$(.*?)(?=^##|\Z)", text, re.M | re.S))
    assert name in sections
    assert re.search(r"^\*\*What to do:\*\* \w.{20,}", sections[name], re.M)


def test_every_entry_is_an_error() -> None:
    """The page of errors has no section for an error that is gone."""
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### `(\w+)`$", text, re.M)) <= set(public_errors())


def settings_read() -> set[str]:
    """Names of environment variables that the source reads itself."""
    reads = re.compile(r"""(?:environ(?:\.get\(|\[|\.pop\(|\.setdefault\()|getenv\()\s*["']([^"']+)["']""")
    return {name for path in (ROOT / "src").rglob("*.py") for name in reads.findall(path.read_text(encoding="utf-8"))}


def test_every_setting_is_listed_and_every_listed_one_is_read() -> None:
    """The page of settings has each environment variable that the source reads, and no other one of casekit's."""
    cells = re.findall(r"^\| (`[^|]*`) \|", (DOCS / "settings.md").read_text(encoding="utf-8"), re.M)
    rows = [name for cell in cells for name in re.findall(r"`([A-Z_]+)`", cell)]
    assert {"CASEKIT_URL", "CASEKIT_TOKEN"} <= settings_read()
    assert settings_read() <= set(rows)
    assert {name for name in rows if name.startswith("CASEKIT_")} <= settings_read()


def test_every_environment_read_is_by_a_plain_name() -> None:
    """No variable is read by a name that the test above could not find."""
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(re.findall(r"environ\b(?!ment)", text)) == len(re.findall(r"os\.environ\.get\(\"\w+\"", text)), path


def test_every_public_name_stands_once_in_the_api_reference() -> None:
    """Each name of `casekit` has one place in the reference; the reference has no name that is not there."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.md"))]
    found = [name for text in texts for name in re.findall(r"^::: casekit[\w.]*\.(\w+)$", text, re.M)]
    assert sorted(found) == sorted({*ck.__all__, "errors"} - {"CasekitError"})


# ---------------------------------------------------------------- pages that are made


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """The program that makes pages."""
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_data_dictionary_has_every_column(hooks: ModuleType) -> None:
    """Each column of each table stands under its table, with what it is and what a missing value means."""
    sections = dict(re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", hooks.dictionary_page(), re.M | re.S))
    common = sections["Columns of every table"]
    assert set(sections) == {"Columns of every table", *TABLES}
    for row in dictionary():
        rows = [line for line in (sections[str(row["table"])] + common).splitlines() if f"`{row['column']}`" in line]
        assert len(rows) == 1, row
        assert str(row["doc"]) in rows[0]
        assert str(row["null"]) in rows[0]
        assert str(row["unit"]) in rows[0]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=page_name)
def test_a_notebook_page_has_all_cells_and_nothing_of_the_machine(hooks: ModuleType, path: Path) -> None:
    """A tutorial shows each cell and picture, and holds no script, style, token or path of the machine."""
    page, pictures = hooks.notebook_page(path)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    plots = [o for cell in cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    shown = [block.text.rstrip("\n") for block in blocks(page) if block.language == "python" and not block.needs]
    assert shown == code
    assert len(pictures) == len(plots)
    assert all(picture.startswith(b"\x89PNG") and name in page for name, picture in pictures.items())
    for unwanted in ("<script", "<style", "<iframe", "/tmp/", "/home/", "/root", "local_", "127.0.0.1", "Bearer"):
        assert unwanted not in page, unwanted


@pytest.mark.parametrize("source", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md"])
def test_links_between_files_become_links_between_pages(hooks: ModuleType, source: str) -> None:
    """No link of a copied page leads to a file that the site does not have."""
    targets = re.findall(r"\]\(([^)\s#]+)", hooks.copied_page(source))
    assert all(target.endswith(".md") for target in targets if "://" not in target), targets


def test_the_format_page_says_what_the_modules_say(hooks: ModuleType) -> None:
    """The snapshot format comes from the heads of the modules that write it, with no markup of docstrings left."""
    page = hooks.format_page()
    for words in ("<table>.parquet", "snapshot.json", "content_hash", "format_version"):
        assert words in page
    assert "::" not in page


def test_the_page_of_commands_has_each_command(hooks: ModuleType) -> None:
    """Each command's help stands on the page."""
    page = hooks.command_page()
    for name in ("compare", "demo", "info", "pull", "refresh", "serve", "sweep", "verify"):
        assert f"\n## casekit {name}\n" in page


def test_a_page_that_loads_from_elsewhere_is_refused(hooks: ModuleType) -> None:
    """Scripts, styles and pictures of other hosts are found; links to click and files of the site are fine."""
    fine = '<a href="https://doi.org/10.1"><img src="plot.png"><script src="assets/a.js"></script>'
    assert hooks.fetched_from_elsewhere(fine) == []
    for tag in ('<script src="https://cdn.example/x.js">', "<link rel=stylesheet href='//cdn.example/x.css'>"):
        assert hooks.fetched_from_elsewhere(fine + tag) == [tag]
