"""Rows of ``__manifest`` that contradict each other: several of one id, or several tables of one folder."""

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
    """Rows of which each id is there once.

    Attributes
    ----------
    kept
        One of each id, but for those that are misplaced.
    repeated
        Ids of rows that were there again, with the same folder. The one of the highest version is kept.
    others
        Rows with the id of another one, of other folders.
    misplaced
        Rows that name the folder of another table, as the names of folders say.
    """

    kept: pa.Table
    repeated: tuple[str, ...]
    others: pa.Table
    misplaced: pa.Table


def sorted_out(rows: pa.Table) -> SortedRows:
    """Take out the rows that contradict others."""
    several = _several(rows["object_id"])
    repeated, others, dropped = [], [], []
    for name in several:
        places = _places(rows["object_id"], [name])
        first, *rest = sorted(
            zip(places, _picked(rows, places), strict=True), key=lambda each: _rank(each[1])
        )
        for place, row in rest:
            dropped.append(place)
            if (row["object_type"], row["location"]) == (first[1]["object_type"], first[1]["location"]):
                repeated.append(name)
            else:
                others.append(place)
    shared = _several(rows.filter(pc.equal(rows["object_type"], TABLE))["location"])
    places = [place for place in _places(rows["location"], shared) if place not in dropped]
    misplaced = [
        place
        for place, row in zip(places, _picked(rows, places), strict=True)
        if row["object_type"] == TABLE and not _is_its_own(row)
    ]
    is_kept = np.ones(len(rows), np.bool_)
    is_kept[[*dropped, *misplaced]] = False
    kept = rows.filter(pa.array(is_kept))
    return SortedRows(kept, tuple(repeated), _taken(rows, others), _taken(rows, misplaced))


def _rank(row: dict[str, Any]) -> tuple[bool, int]:
    """Return what tells which row of an id is the one: that of its own folder, then that read last."""
    return not _is_its_own(row), -(row["read_version"] or 0)


def _is_its_own(row: dict[str, Any]) -> bool:
    name, location = row["object_id"], row["location"]
    return location is not None and (location.endswith(f"_{name}") or is_id_of_folder(name, location))


def _several(values: pa.ChunkedArray) -> list[str]:
    counts = pc.value_counts(values.drop_null())
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    found: list[str] = counts.field("values").filter(pc.greater(counts.field("counts"), 1)).to_pylist()
    return found


def _places(values: pa.ChunkedArray, wanted: Iterable[str]) -> list[int]:
    found: list[int] = pc.indices_nonzero(
        pc.is_in(values, value_set=pa.array([*wanted], values.type))
    ).to_pylist()
    return found


def _picked(rows: pa.Table, places: list[int]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _taken(rows.select(_COLUMNS), places).to_pylist()
    return found


def _taken(rows: pa.Table, places: list[int]) -> pa.Table:
    return rows.take(pa.array(places, pa.int64()))
