"""Compare pullers in interleaved rounds, each with the floor before and after it: ``python bench.py [NAME...]``."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = ("casekit", "normalize", "sdk", "dlt")


def once(name: str, port: int) -> dict[str, float]:
    """One process, one puller."""
    with tempfile.TemporaryDirectory(prefix="casekit-bench-") as folder:
        command = [sys.executable, str(HERE / "pullers.py"), name, str(port), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(lines[-1])
    return result


def rounds(names: list[str], port: int, count: int) -> dict[str, list[dict[str, float]]]:
    """Each puller between two floors, in alternating order; ratios are taken to the mean of the two."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    once("floor", port)
    before = once("floor", port)
    for number in range(count):
        for name in names if number % 2 == 0 else names[::-1]:
            got, after = once(name, port), once("floor", port)
            for what in ("wall", "cpu"):
                got[f"{what}_ratio"] = 2 * got[what] / (before[what] + after[what])
            results[name].append(got)
            before = after
    return results


def table(results: dict[str, list[dict[str, float]]]) -> str:
    """Medians as a Markdown table."""
    lines = [
        "| puller | wall s | x floor (least..most) | CPU s | x floor's CPU | peak MiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, got in results.items():
        middle = {what: statistics.median(one[what] for one in got) for what in got[0]}
        ratios = [one["wall_ratio"] for one in got]
        spread = f"{middle['wall_ratio']:.2f} ({min(ratios):.2f}..{max(ratios):.2f})"
        cpu = f"{middle['cpu']:.2f} | {middle['cpu_ratio']:.2f}"
        lines.append(f"| {name} | {middle['wall']:.2f} | {spread} | {cpu} | {middle['peak']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Serve, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NAMES), metavar="NAME")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="the server waits this long before each page")
    chosen = parser.parse_args()
    command = [sys.executable, str(HERE / "serve.py"), str(chosen.cases), "--delay-ms", str(chosen.delay_ms), "--old"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        results = rounds(chosen.names, port, chosen.rounds)
    finally:
        server.terminate()
        server.wait()
    counts = {
        name: {k: round(got[0].get(k, 0), 6) for k in ("items", "yes", "weight")} for name, got in results.items()
    }
    print(
        f"{chosen.cases:,} cases, {chosen.rounds} rounds, {chosen.delay_ms:g} ms a page\n\n{table(results)}\n\n{counts}"
    )


if __name__ == "__main__":
    main()
