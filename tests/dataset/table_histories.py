"""Tables that pylance changes step by step: every kind of commit that a reader has to understand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FILE_VERSIONS = ("legacy", "2.0", "2.1", "2.2")
# (file version, stable row ids); 0.1 tables have none of these
KINDS = [("legacy", False), ("2.0", True), ("2.1", False), ("2.2", True)]


def rows(start: int, stop: int) -> pa.Table:
    """Return rows whose values follow from their key."""
    keys = np.arange(start, stop)
    when = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=int(key)) for key in keys]
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "small": pa.array(keys % 7, pa.int16()),
            "ratio": pa.array(keys / 3.0),
            "name": pa.array([f"name {key % 13}" for key in keys]),
            "when": pa.array(when, pa.timestamp("us")),
            "flag": pa.array(keys % 3 == 0),
            "point": pa.StructArray.from_arrays(
                [pa.array(keys * 2, pa.int32()), pa.array([str(key) for key in keys])], names=["x", "y"]
            ),
            "items": pa.array([list(range(key % 4)) for key in keys], pa.list_(pa.int32())),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(keys, 4), pa.float32()), 4),
            "price": pa.array([int(key) for key in keys], pa.decimal128(12, 2)),
        }
    )


def history(folder: Path, version: str, *, stable: bool) -> Iterator[tuple[str, lance.LanceDataset]]:
    """Yield (what was done, dataset) after every commit."""
    ds = lance.write_dataset(
        rows(0, 250),
        folder,
        max_rows_per_file=100,
        max_rows_per_group=32,
        data_storage_version=version,
        enable_stable_row_ids=stable,
    )
    yield "create", ds
    for name, step in STEPS:
        if version == "legacy" and name in NOT_IN_LEGACY:
            continue
        step(ds)
        ds = lance.dataset(folder)
        yield name, ds


def _update(ds: lance.LanceDataset) -> None:
    ds.update({"name": "'updated'"}, where="key % 40 = 3")


def _merge_insert(ds: lance.LanceDataset) -> None:
    ds.merge_insert("key").when_matched_update_all().when_not_matched_insert_all().execute(rows(240, 300))


def _merge_columns(ds: lance.LanceDataset) -> None:
    update = pa.table({"key": pa.array([5, 6, 110], pa.int64()), "small": pa.array([70, 71, 72], pa.int16())})
    ds.merge_insert("key").when_matched_update_all().execute(update)


def _add_column_with_data(ds: lance.LanceDataset) -> None:
    ds.add_columns({"doubled": "key * 2"})


def _add_column_of_nulls(ds: lance.LanceDataset) -> None:
    # 2.0 files do not store which structs are null
    kind = pa.int32() if ds.data_storage_version == "2.0" else pa.struct([pa.field("a", pa.int32())])
    ds.add_columns(pa.schema([pa.field("empty", kind)]))


def _append_without_some(ds: lance.LanceDataset) -> None:
    more = rows(300, 340)
    more = more.append_column("doubled", pa.array([None] * len(more), pa.int64()))
    lance.write_dataset(more, ds.uri, mode="append", schema=more.schema)


def _compact(ds: lance.LanceDataset) -> None:
    ds.optimize.compact_files(target_rows_per_fragment=120)


STEPS: list[tuple[str, Callable[[lance.LanceDataset], object]]] = [
    ("delete", lambda ds: ds.delete("key % 5 = 1 OR key BETWEEN 100 AND 130")),
    ("append", lambda ds: ds.insert(rows(250, 270), mode="append")),
    ("update", _update),
    ("merge insert", _merge_insert),
    ("merge insert of some columns", _merge_columns),
    ("add a column with data", _add_column_with_data),
    ("add a column of nulls", _add_column_of_nulls),
    ("append without some columns", _append_without_some),
    ("rename", lambda ds: ds.alter_columns({"path": "name", "name": "title"})),
    ("rename in a struct", lambda ds: ds.alter_columns({"path": "point.y", "name": "why"})),
    ("cast", lambda ds: ds.alter_columns({"path": "small", "data_type": pa.int64()})),
    ("drop", lambda ds: ds.drop_columns(["ratio"])),
    ("drop in a struct", lambda ds: ds.drop_columns(["point.x"])),
    ("delete again", lambda ds: ds.delete("key % 11 = 4")),
    ("compact", _compact),
    ("delete all of a fragment", lambda ds: ds.delete("key < 150")),
]
NOT_IN_LEGACY = {"merge insert of some columns", "add a column of nulls", "append without some columns"}

SQL_AND_ARROW: list[tuple[str, pc.Expression]] = [
    ("key > 117", pc.field("key") > 117),
    ("key = 42", pc.field("key") == 42),
    ("key >= 60 AND key < 64", (pc.field("key") >= 60) & (pc.field("key") < 64)),
    ("small IN (1, 3)", pc.field("small").isin([1, 3])),
    ("flag", pc.field("flag")),
    ("NOT flag AND key < 90", ~pc.field("flag") & (pc.field("key") < 90)),
    ("when >= timestamp '2024-01-07 00:00:00'", pc.field("when") >= pa.scalar(dt.datetime(2024, 1, 7))),
    ("key < 0", pc.field("key") < 0),
    ("key IS NOT NULL", pc.field("key").is_valid()),
    ("price = 77", pc.field("price") == pa.scalar(77, pa.decimal128(12, 2))),
]
