"""Run the queries of TPC-H in processes whose address space is limited; print seconds, peaks and what fails.

Usage: python benchmarks/larger_than_memory.py [--data FOLDER] [--scale 10] [--gib 4]

Each query runs in a process of its own, once in each engine: DataFusion on Parquet, our session on single
tables, and on namespaces by month and by hash. The limit is ``RLIMIT_AS``, which counts maps of files, too.
Answers are compared with those of DataFusion on Parquet without a limit.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from workloads import Workload, difference, tpch

HERE = Path(__file__).parent
REFERENCE = "parquet"
ENGINES = (REFERENCE, "ours-2.2", "months-2.2", "buckets-2.2")


def main() -> None:
    """Print a table with a line for each query."""
    options = _parser().parse_args()
    workload = tpch(options.data, options.scale, ["2.2"])
    queries = options.query or list(workload.queries)
    print(f"{workload.name}, {options.gib:g} GiB: seconds, and MiB of memory at most")
    print(f"| | {' | '.join(ENGINES)} |")
    print(f"|---|{'---:|' * len(ENGINES)}")
    for query in queries:
        text = workload.queries[query]
        expected = _answer(workload, REFERENCE, text, None)
        cells = []
        for engine in ENGINES:
            found = _answer(workload, engine, text, int(options.gib * 1024**3))
            cells.append(_shown(engine, found, expected, text))
        print(f"| {query} | {' | '.join(cells)} |", flush=True)


def _shown(engine: str, found: dict[str, Any], expected: dict[str, Any], text: str) -> str:
    if "error" in found:
        return str(found["error"])[:40]
    if what := difference(engine, found, expected, text):
        sys.exit(f"{engine} answers otherwise: {what}")
    return f"{found['seconds'][0]:.2f}, {found['peak_bytes'] / 2**20:.0f}"


def _answer(workload: Workload, engine: str, text: str, most_bytes: int | None) -> dict[str, Any]:
    """Return the reply of a new worker; its key ``error`` says that there is none."""
    limited = (
        None if most_bytes is None else partial(resource.setrlimit, resource.RLIMIT_AS, (most_bytes,) * 2)
    )
    process = subprocess.run(
        [sys.executable, HERE / "worker.py", engine, workload.home, ",".join(workload.tables)],
        input=json.dumps({"sql": text, "runs": 1}) + "\n",
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
    )
    replies = process.stdout.splitlines()
    if len(replies) < 2:
        return {"error": f"ended with {process.returncode}"}
    reply: dict[str, Any] = json.loads(replies[1])
    return reply


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=HERE / ".data", help="where tables are kept")
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--gib", type=float, default=4, help="of address space")
    parser.add_argument("--query", action="append", help="such as q1; all unless given")
    return parser


if __name__ == "__main__":
    main()
