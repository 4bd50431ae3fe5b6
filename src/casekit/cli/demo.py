"""``casekit demo``: the main job, on real data."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from casekit.cli.command import Commands
from casekit.cli.output import text_of

__all__ = ["register"]


def register(commands: Commands) -> None:
    """Add the command."""
    form = commands.add("demo", demo, "Show the main job on real data, with a local server.", "--out casekit-demo")
    form.add_argument("--out", default="casekit-demo", metavar="FOLDER", help="where to write (default: casekit-demo)")


def demo(chosen: argparse.Namespace) -> None:
    """Show the main job: serve, pull, keep, read back, look."""
    start = time.monotonic()
    import casekit as ck
    from casekit.sample import TEST_SET_ID, VERSION, pages_folder

    out = Path(chosen.out)
    with ck.LocalServer() as server:
        server.load_pages(pages_folder(), TEST_SET_ID, VERSION)
        print(f"1. A local server has {TEST_SET_ID} {VERSION} at {server.url}")
        with ck.Client(server.url, token=server.token) as client:
            (info,) = ck.pull([(TEST_SET_ID, VERSION)], into=out / "snapshots", client=client, progress=True)
        print(f"2. Pulled over HTTP: {info.report}")
    folder = out / "snapshots" / f"{TEST_SET_ID}-{VERSION}"
    ck.verify_snapshot(folder)
    print(f"3. Snapshot written and verified: {folder}")
    cases = ck.read_snapshot(folder)
    print(f"4. Read back:\n{cases!r}\n")

    items = ck.segments_wide(cases.without_erased().items, cases.segments)
    columns = ["category", "rate", "low", "high", "n_cases", "n_corrections"]
    rates = ck.yes_rates(items, by="category")
    print("5. How often did people prefer the model whose name sorts first? All people, 95 % interval:")
    print(text_of(rates[columns]))
    print("   Experts alone:")
    print(text_of(ck.yes_rates(items, by="category", weights="expert")[columns]))
    weights = ck.expert_weights(items, by="category")
    print("6. Whose weight is behind it?")
    print(text_of(weights[["category", "weight", "expert_weight", "expert_share", "share_low", "share_high"]]))
    for name, axes in (("yes_rates.png", ck.plot_yes_rates(rates)), ("weights.png", ck.plot_weights(weights))):
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.savefig(out / name, dpi=144)
    print(f"7. Plots: {out / 'yes_rates.png'} and {out / 'weights.png'}")
    print(f"\nDone in {time.monotonic() - start:.1f} s. Open the plots, then notebooks/01_quick_start.ipynb.")
