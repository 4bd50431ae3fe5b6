"""The notebooks as people pass them on: exported to one HTML page each."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import html5lib
import nbformat
import pytest
from nbconvert import HTMLExporter

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("0*.ipynb"))

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def outputs(path: Path) -> str:
    """The HTML of a notebook whose code has been taken away: texts, and what the cells gave."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = ""
    html, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    return str(html)


def test_there_are_six() -> None:
    """Each question of the series must have its notebook."""
    assert [path.stem[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05", "06"]


@each
def test_the_exported_page_is_well_formed(path: Path) -> None:
    """A page that Jupyter makes of the notebook must have no error that an HTML5 parser knows."""
    page, _ = HTMLExporter().from_filename(str(path))  # type: ignore[no-untyped-call]
    parser = html5lib.HTMLParser()
    parser.parse(page)
    assert parser.errors == []


@each
def test_the_outputs_do_nothing(path: Path) -> None:
    """What the cells gave must hold no script, fetch nothing and react to nothing."""
    tree = html5lib.parse(outputs(path), namespaceHTMLElements=False)
    tags = {element.tag for element in tree.iter()}
    assert not tags & {"script", "iframe", "object", "embed", "form", "link", "base", "meta"}
    for element in tree.iter():
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on"), ET.tostring(element)[:200]
            if name in ("src", "href"):
                assert value.startswith(("data:image/", "#", "https://", "../", "0")), value[:100]


@each
def test_the_notebook_holds_no_secret_and_no_place(path: Path) -> None:
    """No token of a server, no address with a port and no folder of somebody's machine must stand in a notebook."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"127\.0\.0\.1:\d|localhost:\d", text)
    assert not re.search(r"[\"' (](?:/(?:home|root|tmp|Users|var|work)/|[A-Z]:\\\\)", text)
    assert not re.search(r"\b(?:tok|local)[-_][A-Za-z0-9_-]{8,}|Bearer [A-Za-z0-9]", text)
