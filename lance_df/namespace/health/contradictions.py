"""Find rows of ``__manifest`` that contradict each other: duplicate ids, or tables with the same folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.namespace.health.orphans import is_id_of_folder
from lance_df.namespace.manifest_table import TABLE
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

_COLUMNS: Final = ("object_id", "object_type", "location", "read_version")


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows with unique ids, and the rows that were removed to make them unique.

    Attributes
    ----------
    rows
        One row for each id, without misplaced rows.
    repeated
        Ids of several rows with the same folder, of which the one with the highest version is kept.
    others
        Rows with the id of another row but another folder.
    misplaced
        Rows that name the folder of another table, according to the folder's name.
    """

    rows: pa.Table
    repeated: tuple[str, ...]
    others: pa.Table
    misplaced: pa.Table


def sorted_out(rows: pa.Table) -> SortedRows:
    """Separate the rows that repeat an id or name the folder of another table."""
    several = _several(rows["object_id"])
    repeated, others, dropped = [], [], []
    for name in several:
        indices = _indices(rows["object_id"], [name])
        first, *rest = sorted(
            zip(indices, _rows_at(rows, indices), strict=True), key=lambda each: _rank(each[1])
        )
        for index, row in rest:
            dropped.append(index)
            if (row["object_type"], row["location"]) == (first[1]["object_type"], first[1]["location"]):
                repeated.append(name)
            else:
                others.append(index)
    shared = _several(rows.filter(pc.equal(rows["object_type"], TABLE))["location"])
    indices = [index for index in _indices(rows["location"], shared) if index not in dropped]
    misplaced = [
        index
        for index, row in zip(indices, _rows_at(rows, indices), strict=True)
        if row["object_type"] == TABLE and not _has_folder_of_id(row)
    ]
    is_unique = np.ones(len(rows), np.bool_)
    is_unique[[*dropped, *misplaced]] = False
    unique = rows.filter(pa.array(is_unique))
    return SortedRows(unique, tuple(repeated), _taken(rows, others), _taken(rows, misplaced))


def _rank(row: dict[str, Any]) -> tuple[bool, int]:
    """Return the sort key of a row: rows in the folder of their id first, then by descending version."""
    return not _has_folder_of_id(row), -(row["read_version"] or 0)


def _has_folder_of_id(row: dict[str, Any]) -> bool:
    name, location = row["object_id"], row["location"]
    return location is not None and (location.endswith(f"_{name}") or is_id_of_folder(name, location))


def _several(values: pa.ChunkedArray) -> list[str]:
    counts = pc.value_counts(values.drop_null())
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    ids: list[str] = counts.field("values").filter(pc.greater(counts.field("counts"), 1)).to_pylist()
    return ids


def _indices(values: pa.ChunkedArray, wanted: Iterable[str]) -> list[int]:
    indices: list[int] = pc.indices_nonzero(
        pc.is_in(values, value_set=pa.array([*wanted], values.type))
    ).to_pylist()
    return indices


def _rows_at(rows: pa.Table, indices: list[int]) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = _taken(rows.select(_COLUMNS), indices).to_pylist()
    return values


def _taken(rows: pa.Table, indices: list[int]) -> pa.Table:
    return rows.take(pa.array(indices, pa.int64()))
