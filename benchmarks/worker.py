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

from engines import Engine, open_engine

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
        try:
            reply = _answer(engine, request["sql"], request["runs"])
        except Exception as err:  # noqa: BLE001 - told to whoever asks
            reply = {"error": f"{type(err).__name__}: {err}"}
        print(json.dumps(reply), file=replies, flush=True)


def _answer(engine: Engine, sql: str, runs: int) -> dict[str, Any]:
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        answer = engine(sql)
        seconds.append(time.perf_counter() - began)
    rows = [[_plain(value) for value in row.values()] for row in _by_position(answer)]
    return {
        "seconds": seconds,
        "names": answer.schema.names,
        "types": [_type_name(column.type) for column in answer.schema],
        "rows": rows,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _type_name(data_type: Any) -> str:
    """Return the name of a type; that of text and bytes whatever their layout is."""
    return str(data_type).removeprefix("large_").removesuffix("_view")


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
