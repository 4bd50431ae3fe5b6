"""What is compared, one process each: ``python pullers.py NAME PORT FOLDER``; prints one line of JSON.

Every puller leaves tables and Parquet files of the same cases and counts items, yes and weight, so that a puller that
lost something is seen. Imports are outside the clock.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

SET = ("bench", "1.0.0")
PATH = "/v1/test-sets/bench/versions/1.0.0/cases"
Counts = dict[str, float]


def floor(port: int, folder: str) -> Callable[[], Counts]:
    """GET every page with httpx and parse it with orjson; keep nothing."""
    import httpx
    import orjson

    def run() -> Counts:
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60)
        query, pages = {"limit": "100"}, 0
        while True:
            page = orjson.loads(client.get(PATH, params=query, headers={"Authorization": "Bearer t"}).content)
            pages += 1
            if not page["hasMore"]:
                return {"pages": pages}
            query["cursor"] = page["nextCursor"]

    return run


def casekit(port: int, folder: str) -> Callable[[], Counts]:
    """Pull to disk, read back, three frames."""
    import casekit as ck

    _ = ck.Client, ck.pull, ck.read_snapshot

    def run() -> Counts:
        with ck.Client(f"http://127.0.0.1:{port}", token="t") as client:
            ck.pull([SET], into=folder, client=client, progress=False, max_age=timedelta(0))
        cases = ck.read_snapshot(folder)
        _ = cases.cases, cases.reasons
        items = cases.items
        return {"items": len(items), "yes": items["yes"].sum(), "weight": items["total_weight"].sum()}

    return run


def pull_only(port: int, folder: str) -> Callable[[], Counts]:
    """Pull to disk, and nothing else: for memory."""
    import casekit as ck

    def run() -> Counts:
        with ck.Client(f"http://127.0.0.1:{port}", token="t") as client:
            (info,) = ck.pull([SET], into=folder, client=client, progress=False, max_age=timedelta(0))
        return {"items": info.rows("items")}

    return run


def normalize(port: int, folder: str) -> Callable[[], Counts]:
    """What people write: httpx, json_normalize a level at a time, to_parquet."""
    import httpx
    import pandas as pd
    import pyarrow.parquet  # noqa: F401

    def plain(frame: pd.DataFrame) -> pd.DataFrame:
        for name in frame.columns:
            if frame[name].map(lambda cell: isinstance(cell, dict | list)).any():
                frame[name] = [json.dumps(cell, ensure_ascii=False) for cell in frame[name]]
            elif frame[name].dtype == object:
                frame[name] = frame[name].astype("string")
        return frame

    def run() -> Counts:
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60)
        cases: list[dict[str, Any]] = []
        query = {"limit": "100"}
        while True:
            page = client.get(PATH, params=query, headers={"Authorization": "Bearer t"}).json()
            cases += page["data"]
            if not page["hasMore"]:
                break
            query["cursor"] = page["nextCursor"]
        meta = ["caseId", ["subject", "id"], ["subject", "version"]]
        flows = [c for c in cases if "flow" in c.get("context", {})]
        frames = {
            "cases": pd.json_normalize([{k: v for k, v in c.items() if k != "items"} for c in cases], max_level=1),
            "items": pd.json_normalize(cases, "items", meta),
            "reasons": pd.json_normalize(cases, ["items", "reasons"], ["caseId"], record_prefix="reason."),
            "calls": pd.json_normalize(flows, ["context", "flow", "calls"], ["caseId"], max_level=0),
        }
        for name, frame in frames.items():
            plain(frame).to_parquet(os.path.join(folder, f"{name}.parquet"))
        items = frames["items"]
        return {"items": len(items), "yes": items["yes"].sum(), "weight": items["totalWeight"].sum()}

    return run


def sdk(port: int, folder: str) -> Callable[[], Counts]:
    """The vendor's SDK (older names), its models turned into frames and Parquet."""
    import pandas as pd
    import pyarrow.parquet  # noqa: F401
    from kindgi.client import Kindgi, paginate

    def run() -> Counts:
        client = Kindgi(f"http://127.0.0.1:{port}", token="t")
        cases, items, reasons = [], [], []
        for case in paginate(client.eval_suites.list_cases, *SET, limit=100):
            document = json.loads(case.model_dump_json(by_alias=True, exclude_unset=True))
            parts = document.pop("items")
            free = ("input", "output", "context", "segments", "judgments", "expect")
            cases.append({k: json.dumps(v) if k in free else v for k, v in document.items()})
            for item in parts:
                reasons += [{"caseId": document["caseId"], "key": item["key"], **r} for r in item.pop("reasons")]
                restricted = item.pop("restricted", {})
                items.append(
                    {"caseId": document["caseId"], **item, **{f"restricted.{k}": v for k, v in restricted.items()}}
                )
        frames = {"cases": pd.DataFrame(cases), "items": pd.DataFrame(items), "reasons": pd.DataFrame(reasons)}
        for name, frame in frames.items():
            frame.to_parquet(os.path.join(folder, f"{name}.parquet"))
        return {
            "items": len(items),
            "yes": frames["items"]["yes"].sum(),
            "weight": frames["items"]["totalWeight"].sum(),
        }

    return run


def dlt(port: int, folder: str) -> Callable[[], Counts]:
    """dlt's rest_api source into Parquet, read back."""
    os.environ.update(RUNTIME__DLTHUB_TELEMETRY="false", RUNTIME__LOG_LEVEL="ERROR", DLT_DATA_DIR=f"{folder}/home")
    import pandas as pd
    from dlt import destinations, pipeline
    from dlt.sources.rest_api import rest_api_source

    def run() -> Counts:
        paging = {"type": "cursor", "cursor_path": "nextCursor", "cursor_param": "cursor"}
        endpoint = {"path": PATH[1:], "params": {"limit": 100}, "data_selector": "data", "paginator": paging}
        server = {"base_url": f"http://127.0.0.1:{port}/", "headers": {"Authorization": "Bearer t"}}
        source = rest_api_source({"client": server, "resources": [{"name": "cases", "endpoint": endpoint}]})
        files = destinations.filesystem(bucket_url=f"file://{os.path.abspath(folder)}")
        line = pipeline("bench", dataset_name="snapshot", destination=files, pipelines_dir=f"{folder}/pipelines")
        line.run(source, loader_file_format="parquet")
        names = ("cases", "cases__items", "cases__items__reasons")
        frames = {name: pd.read_parquet(os.path.join(folder, "snapshot", name)) for name in names}
        items = frames["cases__items"]
        weight = sum(items[name].sum() for name in items if name.startswith("total_weight"))
        return {"items": len(items), "yes": items["yes"].sum(), "weight": weight}

    return run


PULLERS = {f.__name__: f for f in (floor, casekit, pull_only, normalize, sdk, dlt)}


def peak_mib() -> float:
    """Peak memory of this process."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    run = PULLERS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
    cpu, wall = time.process_time(), time.perf_counter()
    counts = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak_mib(), **{k: float(v) for k, v in counts.items()}}))
