"""A process of its own that loads, keeps, shows and draws a test set: ``python child.py URL TOKEN TARGET [BLOCKED …]``.

What it saw goes to standard output as JSON. BLOCKED modules cannot be imported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(url: str, token: str, target: str, *blocked: str) -> None:
    """Do everything that needs no network but the server's, and tell of it."""
    for name in blocked:
        sys.modules[name] = None  # type: ignore[assignment]  # what Python itself does to say: not there
    import numpy as np

    import casekit as ck
    from casekit.plots import plot_yes_rates
    from casekit.stats import yes_rates

    with ck.Client(url, token=token) as client:
        cases = ck.load_test_set("acme.heldout", "1.2.0", client=client)
        [info] = ck.pull([("acme.heldout", "1.2.0")], into=Path(target, "pulled"), client=client)
    kept = ck.write_snapshot(cases, Path(target, "kept"))
    again = ck.read_snapshot(Path(target, "kept"))
    rates = yes_rates(cases.items, by="key")
    drawn: Any
    try:
        axes = plot_yes_rates(rates)
        drawn = [np.asarray(line.get_xydata()).tolist() for line in axes.lines]
    except ImportError as error:
        drawn = str(error)
    seen = {
        "ids": cases.cases["case_id"].tolist(),
        "text": [repr(cases), repr(again)],
        "html": [cases._repr_html_(), again._repr_html_()],
        "summary": rates.to_json(),
        "plot": drawn,
        "content": [kept.content_hash, info.content_hash],
    }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
