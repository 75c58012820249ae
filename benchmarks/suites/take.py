"""`take` of random rows of lineitem: all 16 columns, and one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from measures import Measure

import lance_df

from .common import Settings, interleaved, timed

TITLE = "take"
_COLUMNS = ("l_comment", "l_extendedprice", "l_orderkey", "l_quantity", "l_shipinstruct", "l_shipmode")


def run(settings: Settings) -> Iterator[Measure]:
    for version in settings.versions:
        uri = str(settings.home / version / "lineitem.lance")
        opened: dict[str, Any] = {f"ours-{version}": lance_df.dataset(uri)}
        if settings.has("pylance"):
            import lance

            opened[f"pylance-{version}"] = lance.dataset(uri)
        rows = opened[f"ours-{version}"].count_rows()
        count = min(1_000, rows)
        places = np.random.default_rng(7).choice(rows, count, replace=False).tolist()
        for columns in (None, *([name] for name in _COLUMNS)):
            works = {name: _taking(dataset, places, columns) for name, dataset in opened.items()}
            case = "16 columns" if columns is None else columns[0]
            yield from timed(TITLE, f"{count:,} rows, {case}", interleaved(works, settings))


def _taking(dataset: Any, places: list[int], columns: list[str] | None) -> Callable[[], pa.Table]:
    return lambda: dataset.take(places, columns=columns)
