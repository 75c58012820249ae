"""Return stored bounds of columns, for display: from page statistics of 0.1 files, and from zone maps."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.file.legacy.reader import LegacyFileReader
from lance_df.records import dataclass
from lance_df.table.indices.segments import segments_by_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_df.file.reader import FileReader
    from lance_df.format.schema import Field, Schema
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The bounds of one column over all zones.

    Attributes
    ----------
    column
        The dotted path of the field.
    source
        ``"pages"``, or the name of the zone map.
    num_zones
        Number of pages or zones that have bounds.
    minimum, maximum
        The outer bounds; ``None`` where no zone knows one, or the type has no order.
    null_count
        Number of nulls when the statistics were made.
    """

    column: str
    source: str
    num_zones: int
    minimum: pa.Scalar | None
    maximum: pa.Scalar | None
    null_count: int


def bounds_of_files(readers: Iterable[FileReader]) -> list[ColumnBounds]:
    """Return the bounds of the pages of 0.1 files, combined over the files; other files have none.

    Raises
    ------
    CorruptDataError
        The statistics are damaged.
    """
    bounds_by_path: dict[str, list[ColumnBounds]] = {}
    for reader in readers:
        if isinstance(reader, LegacyFileReader):
            for path, leaf in _leaves(reader.schema):
                if (pages := reader.statistics(leaf)) is not None:
                    bounds = _overall(path, "pages", pages.min_values, pages.max_values, pages.null_counts)
                    bounds_by_path.setdefault(path, []).append(bounds)
    return [_merged(parts) for parts in bounds_by_path.values()]


def bounds_of_zone_maps(table: Table) -> list[ColumnBounds]:
    """Return the bounds that the zone maps of a table version have for fragments that still exist.

    Raises
    ------
    CorruptDataError
        An index file is missing or damaged.
    """
    statistics = []
    for path, leaf in _leaves(table.schema):
        for name, segments in segments_by_index(table, leaf, table.fragments.ids).items():
            zones = [
                bounds for bounds in (segment.zone_bounds() for segment in segments) if bounds is not None
            ]
            if zones:
                nulls = np.zeros(0, np.int64)
                statistics.append(
                    _merged(
                        [
                            _overall(
                                path,
                                name,
                                zone.min,
                                zone.max,
                                nulls if zone.null_count is None else zone.null_count,
                            )
                            for zone in zones
                        ]
                    )
                )
    return statistics


def _leaves(schema: Schema) -> Iterator[tuple[str, Field]]:
    def below(prefix: str, field: Field) -> Iterator[tuple[str, Field]]:
        path = prefix + field.name
        if field.is_leaf:
            yield path, field
        for child in field.children:
            yield from below(f"{path}.", child)

    return itertools.chain.from_iterable(below("", field) for field in schema.fields)


def _overall(
    column: str, source: str, minimum: pa.Array, maximum: pa.Array, null_count: npt.NDArray[np.int64]
) -> ColumnBounds:
    return ColumnBounds(
        column, source, len(minimum), _outer("min", minimum), _outer("max", maximum), int(null_count.sum())
    )


def _merged(parts: list[ColumnBounds]) -> ColumnBounds:
    first = parts[0]
    if len(parts) == 1:
        return first
    return ColumnBounds(
        first.column,
        first.source,
        sum(part.num_zones for part in parts),
        _outer("min", _array([part.minimum for part in parts])),
        _outer("max", _array([part.maximum for part in parts])),
        sum(part.null_count for part in parts),
    )


def _array(scalars: list[pa.Scalar | None]) -> pa.Array:
    known = [scalar for scalar in scalars if scalar is not None]
    return pa.array(known, known[0].type) if known else pa.nulls(0)


def _outer(end: str, values: pa.Array) -> pa.Scalar | None:
    try:
        bound = pc.min_max(values)[end]
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return None
    return bound if bound.is_valid else None
