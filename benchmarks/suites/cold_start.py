"""The first query in a new process: TPC-H Q1, and a table of three rows beside DataFusion alone.

Both elapsed seconds and those of the processor: the latter are less disturbed by others on the machine.
pandas is hidden from all: pyarrow imports it where it is installed, which only one of the interpreters has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from measures import Measure
from queries import QUERIES

import lance_df

from .common import Settings, run_python

TITLE = "first query in a new process"

_WITHOUT_PANDAS = """
import importlib.abc, sys
class Hiding(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hiding())
"""
_OURS = """
import sys, lance_df
frame = lance_df.connect(sys.argv[1]).sql(sys.argv[2])
print(frame.to_arrow_table().num_rows)
"""
_PYLANCE = """
import sys, lance, datafusion
ctx = datafusion.SessionContext()
dataset = lance.dataset(f"{sys.argv[1]}/{sys.argv[3]}.lance")
ctx.register_table(sys.argv[3], lance.FFILanceTableProvider(dataset, with_row_id=False, with_row_addr=False))
print(ctx.sql(sys.argv[2]).to_arrow_table().num_rows)
"""
_PARQUET = """
import sys, pyarrow, datafusion
ctx = datafusion.SessionContext()
ctx.register_parquet(sys.argv[3], f"{sys.argv[1]}/{sys.argv[3]}.parquet")
print(ctx.sql(sys.argv[2]).to_arrow_table().num_rows)
"""
_TINY = "SELECT name, sum(value) FROM tiny WHERE id > 1 GROUP BY name ORDER BY name"


def run(settings: Settings) -> Iterator[Measure]:
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "b"], "value": [1.0, 2.0, 3.0]})
    folder = settings.scratch / "tiny"
    lance_df.write_dataset(rows, folder / "tiny.lance")
    pq.write_table(rows, folder / "tiny.parquet")
    yield from _case(settings, "three rows", {"": folder}, folder, (_TINY, "tiny"))
    homes = {version: settings.home / version for version in settings.versions}
    yield from _case(settings, "Q1", homes, settings.home / "parquet", (QUERIES["Q1"], "lineitem"))


def _case(
    settings: Settings, case: str, homes: dict[str, Path], parquet: Path, query: tuple[str, str]
) -> Iterator[Measure]:
    own = Path(sys.executable)
    works = {"parquet": (own, _PARQUET, parquet)}
    for version, home in homes.items():
        ending = f"-{version}" if version else ""
        works[f"ours{ending}"] = (own, _OURS, home)
        if settings.has("pylance-provider"):
            works[f"pylance{ending}"] = (settings.peers["pylance-provider"], _PYLANCE, home)
    elapsed: dict[str, list[float]] = {name: [] for name in works}
    spent: dict[str, list[float]] = {name: [] for name in works}
    for number in range(1 if settings.quick else 2 * settings.rounds + 1):
        answers = {}
        for name, (interpreter, code, home) in works.items():
            seconds, processor, answers[name] = run_python(
                interpreter, _WITHOUT_PANDAS + code, str(home), *query
            )
            if number or settings.quick:  # the first run brings files into memory
                elapsed[name].append(seconds)
                spent[name].append(processor)
        if len(set(answers.values())) > 1:
            raise SystemExit(f"{case}: different numbers of rows: {answers}")
    for name in works:
        yield Measure(TITLE, case, name, "s", tuple(elapsed[name]))
        yield Measure(TITLE, case, name, "s of the processor", tuple(spent[name]))
