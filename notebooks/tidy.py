"""Keep notebooks small and free of what differs between machines: ``python tidy.py NOTEBOOK...``."""

from __future__ import annotations

import sys

import nbformat


def tidy(path: str) -> None:
    """Take execution metadata and the interpreter's version out of a notebook."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for number, cell in enumerate(notebook.cells):
        cell.metadata = {}
        cell.id = f"cell-{number:02d}"
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        tidy(name)
