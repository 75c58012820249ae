"""Write rows as JSON: an array of objects, or one object on each line."""

from __future__ import annotations

import itertools
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from lance_df.cli.output.json_text import json_name, json_text
from lance_df.cli.output.text_buffers import joined, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def write_ndjson(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write one object on each line."""
    names = _unique(schema.names)
    for batch in batches:
        out.write(lines_of(_objects(batch, names)))


def write_json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write one array with one object on each line."""
    names = _unique(schema.names)
    before = "["
    for batch in batches:
        if batch.num_rows:
            text = lines_of(_objects(batch, names, ","))
            out.write(f"{before}{text[: -len(',') - 1]}")
            before = ",\n"
    out.write("[]\n" if before == "[" else "]\n")


def _objects(batch: pa.RecordBatch, names: Sequence[str], after: str = "") -> pa.Array:
    if not names:
        return pa.array([f"{{}}{after}"] * batch.num_rows, pa.large_string())
    parts: list[pa.Array | str] = []
    for number, (name, column) in enumerate(zip(names, batch.columns, strict=True)):
        parts += [f"{', ' if number else '{'}{json_name(name)}: ", json_text(column)]
    return joined(*parts, "}" + after, null="null")


def _unique(names: Sequence[str]) -> list[str]:
    """Return unique names, with numbers added to repeated ones, as keys of an object must differ."""
    unique: dict[str, None] = {}
    for name in names:
        other = name
        for number in itertools.count(2):
            if other not in unique:
                break
            other = f"{name}_{number}"
        unique[other] = None
    return list(unique)
