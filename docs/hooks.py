"""Pages of the documentation that are made, not written: from README, notebooks, schema, docstrings and the parser.

Each function gives a page's Markdown; the two events at the end hand them to MkDocs. None runs a notebook: a page shows
the outputs that the notebook keeps, and the test suite proves that a run gives the same.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import inspect
import json
import posixpath
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
PLACEHOLDER: Final = "NOTEBOOKS"
COPIED: Final = {  # file of the repository: its page
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "data/README.md": "example-data.md",
}


def notebooks() -> list[Path]:
    """The notebooks, in order."""
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def tutorial(notebook: Path) -> str:
    """Name of a notebook's page."""
    return f"tutorials/{notebook.stem}.md"


# ---------------------------------------------------------------- files of the repository


def copied_page(source: str) -> str:
    """A Markdown file of the repository, its links turned to the pages of the site."""
    text = (ROOT / source).read_text(encoding="utf-8")
    return relinked(_prompts(text), source, COPIED[source])


def relinked(text: str, source: str, page: str) -> str:
    """Turn links between files of the repository into links between pages; a link with no page is left to fail."""
    pages = COPIED | {f"notebooks/{path.name}": tutorial(path) for path in notebooks()}
    pages |= {f"docs/{path.relative_to(ROOT / 'docs')}": str(path.relative_to(ROOT / "docs")) for path in written()}

    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match[2].partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not target or "://" in target or place not in pages:
            return match[0]
        return f"{match[1]}({posixpath.relpath(pages[place], posixpath.dirname(page) or '.')}{mark}{anchor})"

    return re.sub(r"(\[[^\]]*\])\(([^)\s]+)\)", link, text)


def written() -> list[Path]:
    """The pages that are written by hand."""
    return sorted((ROOT / "docs").rglob("*.md"))


def _prompts(text: str) -> str:
    """Mark blocks with prompts as a console's, for the highlighter."""
    return text.replace("```python\n>>> ", "```pycon\n>>> ")


# ---------------------------------------------------------------- notebooks


def notebook_page(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook with the outputs it keeps.

    Parameters
    ----------
    notebook
        The ``.ipynb`` file.

    Returns
    -------
    tuple of str and dict
        The page's Markdown, and its pictures by file name.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for number, cell in enumerate(cells):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(relinked(text, f"notebooks/{notebook.name}", tutorial(notebook)))
            continue
        parts.append(f"```python\n{text}\n```")
        for place, output in enumerate(cell["outputs"]):
            name = f"{notebook.stem}-{number:02d}-{place}.png"
            parts.append(_output(output, name, pictures))
    source = f"This page is the notebook `notebooks/{notebook.name}` with the outputs that it keeps; the tests run it."
    parts.insert(1, f"<small>{source}</small>")
    return "\n\n".join(parts) + "\n", pictures


def _output(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> str:
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    if output["output_type"] == "error":
        return _text(f"{output['ename']}: {output['evalue']}")
    data = output["data"]
    if "image/png" in data:
        pictures[name] = base64.b64decode("".join(data["image/png"]))
        return f"![Plot of the cell above]({name}){{ .plot }}"
    if "text/html" in data:
        html = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
        one_line = re.sub(r"\n\s*", "", html)  # Markdown takes a blank or indented line for text
        return f'<div class="output">\n{one_line}\n</div>'
    return _text("".join(data["text/plain"]))


def _text(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


# ---------------------------------------------------------------- schema


def dictionary_page() -> str:
    """The data dictionary: what `casekit.schema.dictionary` says, one table after the other."""
    from casekit.schema import FORMAT_COLUMNS, TABLES, dictionary

    common = {field.name for field in FORMAT_COLUMNS}
    rows = dictionary()
    parts = [
        "# Data dictionary",
        "A [`CaseSet`](api/cases.md) has ten tables, always all of them with all columns, whatever the server sent.\n"
        "In pandas they are attributes such as `cases.items`; in a snapshot they are files such as `items.parquet`.\n"
        "A column's type never depends on the rows.\n"
        "A column ending in `_json` holds the JSON text that the server sent.",
        "*Missing means* says what a missing value stands for; a column without such a word has no missing values.\n"
        "A missing value is never a zero and never an empty text.\n"
        "[`ck.data_dictionary()`](api/cases.md) gives the same as a frame, and each Parquet file holds it as metadata.",
        "## Columns of every table",
        _columns([row for row in rows if row["table"] == "cases" and row["column"] in common]),
    ]
    for table, schema in TABLES.items():
        parts += [f"## {table}", (schema.metadata or {})[b"doc"].decode()]
        parts += [_columns([row for row in rows if row["table"] == table and row["column"] not in common])]
    return "\n\n".join(parts) + "\n"


def _columns(rows: list[dict[str, str | bool]]) -> str:
    lines = ["| Column | Type | What it is | Missing means |", "|---|---|---|---|"]
    for row in rows:
        about = f"{row['doc']} Unit: {row['unit']}." if row["unit"] else str(row["doc"])
        cells = (f"`{row['column']}`", _type(str(row["type"])), about, str(row["null"]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _type(name: str) -> str:
    plain = {"string": "text", "int64": "integer", "double": "number", "bool": "boolean", "json": "JSON"}
    if name.startswith("list"):
        return "list of text"
    return "time" if name.startswith("timestamp") else plain[name]


# ---------------------------------------------------------------- docstrings


def format_page() -> str:
    """The snapshot format, as the heads of the modules that write it say it."""
    parts = ["# Snapshot format"]
    for name, heading in (
        ("casekit.snapshot", "The folder"),
        ("casekit.snapshots.manifest", "The manifest"),
    ):
        about = inspect.cleandoc(importlib.import_module(name).__doc__ or "")
        parts += [f"## {heading}", _markdown(about)]
    parts += [
        "## What to count on",
        "- A file opens in any tool that reads Parquet: see [Reading without casekit](without-casekit.md).\n"
        "- [At a URL](remote.md) the same files stand one folder deeper.\n"
        "- The columns are those of the [data dictionary](../data-dictionary.md); each field has meaning and unit.\n"
        "- `casekit verify FOLDER` reads every byte and says whether the snapshot is whole.\n"
        "- A format that this version does not know is an error, never a guess.",
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(docstring: str) -> str:
    """A docstring's literal blocks and names as Markdown."""
    parts = re.split(r"::\n\n((?:    .*\n|\n)+)", docstring + "\n")
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = f":\n\n```text\n{textwrap.dedent(part).strip()}\n```\n\n"
        else:
            parts[place] = part.replace("``", "`").strip()
    return "".join(parts)


# ---------------------------------------------------------------- command line


CODES: Final = (
    "What `casekit --help` and `casekit COMMAND --help` print.\n"
    "The exit code is 0 when all is done, 1 for an error, whose message stands on standard error, "
    "2 for wrong usage, and 3 for a sweep that found something."
)


def command_page() -> str:
    """Help of each command, as the parser prints it."""
    from casekit.cli import parser

    top = parser()
    commands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    parts = ["# Command line", CODES, _help(top)]
    for name, command in commands.choices.items():
        parts += [f"## casekit {name}", _help(command)]
    return "\n\n".join(parts) + "\n"


def _help(parser: argparse.ArgumentParser) -> str:
    class Wide(argparse.RawDescriptionHelpFormatter):
        def __init__(self, prog: str) -> None:
            super().__init__(prog, width=88)  # not the width of the terminal that builds

    parser.formatter_class = Wide
    return f"```text\n{parser.format_help().rstrip()}\n```"


# ---------------------------------------------------------------- events of MkDocs


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the notebooks into the navigation."""
    for entry in config.nav or []:
        for title, pages in entry.items():
            if pages == PLACEHOLDER:
                entry[title] = [tutorial(notebook) for notebook in notebooks()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    from mkdocs.structure.files import File

    made: dict[str, str | bytes] = {page: copied_page(source) for source, page in COPIED.items()}
    made |= {"data-dictionary.md": dictionary_page(), "snapshots/format.md": format_page()}
    made["command-line.md"] = command_page()
    for notebook in notebooks():
        page, pictures = notebook_page(notebook)
        made[tutorial(notebook)] = page
        made |= {f"tutorials/{name}": picture for name, picture in pictures.items()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that a browser would fetch anything for from elsewhere."""
    from mkdocs.exceptions import PluginError

    if found := fetched_from_elsewhere(output):
        raise PluginError(f"{page.file.src_uri} loads from elsewhere: {found[0]}")
    return output


def fetched_from_elsewhere(html: str) -> list[str]:
    """The tags of a page that fetch something from another host; a link that one may click fetches nothing."""
    return re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>", html)
