"""The example data that ships with casekit: real human votes as pages of the API.

1,814 cases of MT-bench: a question, a pair of models and a turn, and whether people preferred the model whose name
sorts first. Votes by lmsys under CC-BY-4.0, question texts by FastChat under Apache-2.0 (arXiv:2306.05685);
``data/README.md`` says what was derived and how.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from casekit.errors import ConfigError

__all__ = ["TEST_SET_ID", "VERSION", "pages_folder"]

TEST_SET_ID: Final = "mt-bench.pairwise"
VERSION: Final = "1.0.0"


def pages_folder() -> Path:
    """Find the folder of the example's pages, ``page-0001.json`` and on.

    Returns
    -------
    Path
        Inside the installed package, or in a checkout's ``data`` folder.

    Raises
    ------
    ConfigError
        The installation lacks its data.

    Examples
    --------
    >>> len(sorted(pages_folder().glob("page-*.json")))
    19
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "data" / "mtbench", here.parent.parent / "data" / "mtbench"):
        if folder.is_dir():
            return folder
    raise ConfigError("this installation of casekit lacks its example data: install it again")
