"""One engine in a process of its own: queries in, times and answers out, as JSON lines.

Usage: python worker.py ENGINE DATA_FOLDER TABLE,TABLE…
"""

from __future__ import annotations

import json
import resource
import sys
import time
from datetime import date, datetime
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engines import open_engine

LIBRARIES = ("datafusion", "pylance", "duckdb", "pyarrow", "cython", "numpy", "fsspec")


def main() -> None:
    name, home, tables = sys.argv[1:]
    replies = sys.stdout
    sys.stdout = sys.stderr
    began = time.perf_counter()
    engine = open_engine(name, Path(home), tables.split(","))
    opened = {"seconds": time.perf_counter() - began, "versions": _versions()}
    print(json.dumps(opened), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        seconds = []
        for _ in range(request["runs"]):
            began = time.perf_counter()
            answer = engine(request["sql"])
            seconds.append(time.perf_counter() - began)
        rows = [[_plain(value) for value in row.values()] for row in _by_position(answer)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "rows": rows, "peak_bytes": peak}), file=replies, flush=True)


def _by_position(answer: Any) -> list[dict[str, Any]]:
    return answer.rename_columns([str(i) for i in range(answer.num_columns)]).to_pylist()  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):  # averages and sums: the engines differ in type and scale
        return float(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    return value


def _versions() -> dict[str, str]:
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
