"""All columns of lineitem as Arrow, batch after batch; the answers' sums and lengths are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from measures import Measure

import lance_df

from .common import Settings, interleaved, timed

TITLE = "full scan to Arrow"


def run(settings: Settings) -> Iterator[Measure]:
    for version in settings.versions:
        uri = str(settings.home / version / "lineitem.lance")
        opened: dict[str, Any] = {f"ours-{version}": lance_df.dataset(uri)}
        if settings.has("pylance"):
            import lance

            opened[f"pylance-{version}"] = lance.dataset(uri)
        opened["parquet"] = pyarrow.dataset.dataset(settings.home / "parquet" / "lineitem.parquet")
        _compare(opened)
        works = {name: _counting(dataset) for name, dataset in opened.items()}
        yield from timed(TITLE, f"lineitem {version}", interleaved(works, settings, runs=1))


def _counting(dataset: Any) -> Callable[[], int]:
    return lambda: sum(batch.num_rows for batch in dataset.to_batches())


def _compare(opened: dict[str, Any]) -> None:
    """End with an error unless all have the same sum of each number and the same bytes of each text."""
    found: dict[str, dict[str, Any]] = {}
    for name, dataset in opened.items():
        sums: dict[str, Any] = {}
        for batch in dataset.to_batches():
            for field, column in zip(batch.schema, batch.columns, strict=True):
                part = _fingerprint(field.type, column)
                sums[field.name] = part if field.name not in sums else sums[field.name] + part
        found[name] = sums
    first, expected = next(iter(found.items()))
    for name, sums in found.items():
        if sums != expected:
            raise SystemExit(f"{name} reads {sums}, {first} reads {expected}")


def _fingerprint(data_type: pa.DataType, column: pa.Array) -> Any:
    if pa.types.is_date32(data_type):
        column = column.cast(pa.int32())
    elif not (pa.types.is_integer(data_type) or pa.types.is_decimal(data_type)):
        column = pc.binary_length(column.cast(pa.large_string()))
    return pc.sum(column).as_py() or 0
