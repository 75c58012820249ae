"""What a query costs beside reading: a table of three rows, warm, beside DataFusion's own table in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import datafusion
import pyarrow as pa
from measures import Measure

import lance_df

from .common import Settings, interleaved, timed

TITLE = "query of a tiny table"
_QUERIES = {
    "all rows": "SELECT * FROM t",
    "filter, group, order": "SELECT name, sum(value) FROM t WHERE id > 1 GROUP BY name ORDER BY name",
    "join": "SELECT a.name, b.value FROM t a JOIN t b ON a.id = b.id WHERE a.id = 2",
}


def run(settings: Settings) -> Iterator[Measure]:
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "b"], "value": [1.0, 2.0, 3.0]})
    lance_df.write_dataset(rows, settings.scratch / "t.lance")
    memory = datafusion.SessionContext()
    memory.from_arrow(rows, "t")
    ours = lance_df.connect(settings.scratch)
    for case, text in _QUERIES.items():
        works = {"memory": _asking(memory, text), "ours": _asking(ours, text)}
        runs = 1 if settings.quick else 30
        yield from timed(TITLE, case, interleaved(works, settings, runs=runs))


def _asking(ctx: Any, text: str) -> Callable[[], pa.Table]:
    return lambda: ctx.sql(text).to_arrow_table()
