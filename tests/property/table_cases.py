"""Small tables of every version, written by both libraries, that between them hold every kind of file."""

from __future__ import annotations

import datetime as dt
import decimal
import warnings
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

_WORDS = ["", "a", "bravo", "Zürich", "a rather long word that repeats itself itself itself", "🦀 crab"]


def rows(start: int, stop: int, *, legacy: bool = False) -> pa.Table:
    """Return rows with a column of each family of types; `id` is the number of the row."""
    numbers = range(start, stop)
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "small": pa.array([None if n % 7 == 3 else n % 50 for n in numbers], pa.int32()),
        "real": pa.array([n / 8 if n % 11 else float("nan") for n in numbers], pa.float64()),
        "flag": pa.array([n % 3 == 0 for n in numbers], pa.bool_()),
        "word": pa.array([None if n % 9 == 5 else f"{_WORDS[n % 6]} {n % 13}" for n in numbers], pa.string()),
        "raw": pa.array([bytes([n % 256]) * (n % 5) for n in numbers], pa.binary()),
        "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=n) for n in numbers], pa.date32()),
        "price": pa.array([decimal.Decimal(n) / 4 for n in numbers], pa.decimal128(12, 2)),
        "vector": pa.FixedSizeListArray.from_arrays(np.arange(start * 4, stop * 4, dtype=np.float32), 4),
        "kind": pa.array(["red", "green", "blue"] * len(numbers)).slice(0, len(numbers)).dictionary_encode(),
        "tags": pa.array([[] if n % 4 == 1 else [n, n + 1][: n % 3] for n in numbers], pa.list_(pa.int32())),
        "constant": pa.array([7] * len(numbers), pa.int16()),
        "pair": pa.StructArray.from_arrays(
            [pa.array([n * 2 for n in numbers], pa.uint16()), pa.array([str(n) for n in numbers])], ["x", "y"]
        ),
    }
    if not legacy:
        columns["nothing"] = pa.nulls(len(numbers), pa.int32())
        columns["deep"] = pa.array(
            [None if n % 5 == 2 else [{"z": n, "w": None if n % 3 else [str(n)]}] * (n % 3) for n in numbers],
            pa.list_(pa.struct([("z", pa.int64()), ("w", pa.list_(pa.string()))])),
        )
    return pa.table(columns)


def compressed_rows(num_rows: int) -> pa.Table:
    """Return rows that are stored as runs, symbols and dictionaries, and as LZ4 and Zstandard."""
    numbers = np.arange(num_rows)
    text = pa.array([f"the quick brown fox number {n * 7919 % num_rows} jumps over it" for n in numbers])
    arrays = {
        "id": (pa.array(numbers), {}),
        "runs": (pa.array(numbers // 500, pa.int32()), {"lance-encoding:compression": "none"}),
        "text": (text, {}),
        "few": (pa.array([f"value {n % 5} of few" for n in numbers]), {}),
        "lz4": (pa.array(numbers * 3 % 1000, pa.int64()), {"lance-encoding:compression": "lz4"}),
        "zstd": (text, {"lance-encoding:compression": "zstd"}),
        "real": (
            pa.array(np.sin(numbers)),
            {"lance-encoding:bss": "on", "lance-encoding:compression": "lz4"},
        ),
        "wide": (
            pa.FixedSizeListArray.from_arrays(np.arange(num_rows * 8, dtype=np.float32) % 977, 8),
            {"lance-encoding:structural-encoding": "fullzip"},
        ),
        "zipped": (text, {"lance-encoding:structural-encoding": "fullzip"}),
        "packed": (
            pa.StructArray.from_arrays(
                [pa.array(numbers, pa.int32()), pa.array(numbers, pa.int64())], ["a", "b"]
            ),
            {"packed": "true", "lance-encoding:packed": "true"},
        ),
    }
    schema = pa.schema([pa.field(name, array.type, metadata=meta) for name, (array, meta) in arrays.items()])
    return pa.Table.from_arrays([array for array, _ in arrays.values()], schema=schema)


def _plain(path: str, version: str, writer: ModuleType = lance) -> None:
    legacy = version == "legacy"
    writer.write_dataset(rows(0, 150, legacy=legacy), path, data_storage_version=version)
    table = writer.write_dataset(rows(150, 260, legacy=legacy), path, mode="append")
    table.delete("id % 17 = 4")


def _compressed(path: str, version: str, writer: ModuleType = lance) -> None:
    writer.write_dataset(compressed_rows(4000), path, data_storage_version=version)


def _many_deleted(path: str) -> None:
    """Delete so many rows that the deletion file is a bitmap."""
    table = lance.write_dataset(rows(0, 14_000).select(["id", "word"]), path, data_storage_version="2.1")
    table.delete("id % 5 != 2")


def _stable_ids(path: str) -> None:
    table = lance.write_dataset(
        rows(0, 200).select(["id", "small", "word"]),
        path,
        data_storage_version="2.1",
        enable_stable_row_ids=True,
        max_rows_per_file=80,
    )
    table.update({"small": "small + 100"}, where="id % 10 = 3")
    table.delete("id % 19 = 1")


def _indexed(path: str) -> None:
    table = lance.write_dataset(
        rows(0, 600).select(["id", "small", "word", "real", "kind", "day"]),
        path,
        data_storage_version="2.1",
        max_rows_per_file=250,
    )
    for column, kind in (("id", "BTREE"), ("small", "BITMAP"), ("real", "ZONEMAP"), ("word", "BLOOMFILTER")):
        table.create_scalar_index(column, kind)
    table.delete("id = 77")


def _evolved(path: str) -> None:
    table = lance.write_dataset(rows(0, 90).select(["id", "small", "word"]), path, data_storage_version="2.0")
    table.add_columns({"twice": "id * 2"})
    table.alter_columns({"path": "word", "name": "text"})
    table.drop_columns(["small"])
    table.add_columns(pa.schema([pa.field("later", pa.string())]))


def _branched(path: str) -> None:
    table = lance.write_dataset(rows(0, 60).select(["id", "word"]), path, data_storage_version="2.2")
    table.tags.create("first", 1)
    branch = table.create_branch("side")
    lance.write_dataset(rows(60, 80).select(["id", "word"]), branch.uri, mode="append")
    lance.write_dataset(rows(80, 90).select(["id", "word"]), path, mode="append")


_BUILDERS: dict[str, Callable[[str], None]] = {
    **{
        f"plain_{version}": lambda path, v=version: _plain(path, v)
        for version in ("legacy", "2.0", "2.1", "2.2")
    },
    **{
        f"compressed_{version}": lambda path, v=version: _compressed(path, v)
        for version in ("2.0", "2.1", "2.2")
    },
    **{
        f"own_plain_{version}": lambda path, v=version: _plain(path, v, lance_df)
        for version in ("legacy", "2.0", "2.1", "2.2")
    },
    **{
        f"own_compressed_{version}": lambda path, v=version: _compressed(path, v, lance_df)
        for version in ("2.0", "2.1", "2.2")
    },
    "many_deleted": _many_deleted,
    "stable_ids": _stable_ids,
    "indexed": _indexed,
    "evolved": _evolved,
    "branched": _branched,
}
NAMES = tuple(_BUILDERS)


def build(name: str, folder: Path) -> Path:
    """Write a table and return its path."""
    path = folder / f"{name}.lance"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _BUILDERS[name](str(path))
    return path
