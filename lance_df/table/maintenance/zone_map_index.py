"""Zone map indices of a table: make one, bring them up to date, drop any index."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lance_df.errors import (
    AlreadyExistsError,
    IndexNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_df.format.operations import CreateIndex
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.maintenance.zone_map_files import (
    KIND,
    ZoneMapData,
    joined,
    read_segments,
    write_zone_map,
    zone_counts,
)
from lance_df.table.maintenance.zones import ROWS_PER_ZONE, ZoneCollector, has_bounds
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.scan.columns import resolve_name
from lance_df.table.scan.plan import plan_scan
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles


def create_zone_map(
    table: Table,
    column: str,
    *,
    name: str | None = None,
    replace: bool = True,
    train: bool = True,
    rows_per_zone: int = ROWS_PER_ZONE,
) -> Table:
    """Build a zone map of a column, and return the table at the version that has it.

    Parameters
    ----------
    column
        A top-level column, or a field of a struct as ``"a.b"``.
    name
        ``{column}_idx`` by default, with a number behind it if another kind of index is called that.
    replace
        Whether an index of this name on the same column may be replaced.
    train
        Whether to cover the rows that there are; otherwise the index is empty until it is optimized.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    AlreadyExistsError
        The name is taken.
    InvalidInputError
        ``rows_per_zone`` is not positive.
    UnsupportedFeatureError
        The values of the column have no order that bounds could be of.
    ConflictError
        Others changed the column meanwhile. Nothing is left behind.
    """
    if rows_per_zone < 1:
        raise InvalidInputError(f"rows_per_zone must be at least 1, got {rows_per_zone}")
    field = field_with_bounds(table, column)
    name = free_name(table, column, field) if name is None else name
    replaced = [index for index in table.indices if index.name == name]
    if any(index.fields != (field.id,) for index in replaced):
        raise AlreadyExistsError(f"{table.uri}: there is an index {name!r} on other columns")
    if replaced and not replace:
        raise AlreadyExistsError(f"{table.uri}: there is an index {name!r} already; pass replace=True")
    ids = BitMap(table.fragments.ids.tolist() if train else ())
    data = collect_zone_map(table, column, field, ids, rows_per_zone)
    with uncommitted_files() as files:
        new = write_zone_map(table.location, table.manifest, field, data, name=name, files=files)
        return commit_zone_maps(table, [new], replaced)


def drop_index(table: Table, name: str) -> Table:
    """Remove an index of any kind, and return the table at the version that lacks it. Its files stay.

    Raises
    ------
    IndexNotFoundError
        There is no such index.
    """
    removed = tuple(index for index in table.indices if index.name == name)
    if not removed:
        names = ", ".join(sorted({repr(index.name) for index in table.indices})) or "none"
        raise IndexNotFoundError(f"{table.uri}: no index {name!r}; there are: {names}")
    return commit_change(table, CreateIndex((), removed), rows=NO_ROWS)


def optimize_zone_maps(
    table: Table,
    *,
    names: Collection[str] | None = None,
    retrain: bool = False,
    extended_by: BitMap | None = None,
    commit_options: CommitOptions | None = None,
) -> Table:
    """Let zone maps cover all fragments, each with a single segment.

    Parameters
    ----------
    names
        Only these indices; all zone maps by default.
    retrain
        Build them anew from all rows.
    extended_by
        The fragments to be covered besides those that are; all by default.

    Returns
    -------
    The table at the version that was made; the same table if there is nothing to do.

    Raises
    ------
    UnsupportedFeatureError
        An index that was named is of another kind.
    ConflictError
        Others changed a column meanwhile. Nothing is left behind.
    """
    segments: dict[str, list[IndexMetadata]] = {}
    for index in table.indices:
        if names is None or index.name in names:
            segments.setdefault(index.name, []).append(index)
    others = {name for name, entries in segments.items() if any(each.kind != KIND for each in entries)}
    if others and names is not None:
        raise UnsupportedFeatureError(
            f"{table.uri}: index {min(others)!r} is no zone map; use pylance's optimize_indices for it"
        )
    new: list[IndexMetadata] = []
    removed: list[IndexMetadata] = []
    with uncommitted_files() as files:
        for name in segments.keys() - others:
            entry = _optimized(table, segments[name], files, retrain=retrain, extended_by=extended_by)
            if entry is not None:
                new.append(entry)
                removed += segments[name]
        return commit_zone_maps(table, new, removed, commit_options) if new else table


def _optimized(
    table: Table,
    segments: Sequence[IndexMetadata],
    files: UncommittedFiles,
    *,
    retrain: bool,
    extended_by: BitMap | None,
) -> IndexMetadata | None:
    """Write one segment that covers what it should; ``None`` if the index is one such already."""
    fields = [
        each for each in scanned_fields(table) if segments[0].fields == (each[1].id,) and has_bounds(each[1])
    ]
    if not fields:
        return None  # as pylance may build them, of values that have no bounds
    column, field = fields[0]
    present = BitMap(table.fragments.ids.tolist())
    parts = [] if retrain else read_segments(segments, table.index_location, field, present)
    missing = present - BitMap.union(BitMap(), *(part.fragment_ids for part in parts))
    if extended_by is not None:
        missing &= extended_by
    if len(segments) == 1 and not missing and not retrain:
        return None
    if missing or not parts:
        _, rows_per_zone = zone_counts(table.index_location(segments[0]))
        parts.append(collect_zone_map(table, column, field, missing, rows_per_zone))
    return write_zone_map(
        table.location, table.manifest, field, joined(parts), name=segments[0].name, files=files
    )


def collect_zone_map(
    table: Table, column: str, field: Field, fragment_ids: BitMap, rows_per_zone: int
) -> ZoneMapData:
    """Return the zones of a column in some fragments."""
    collector = ZoneCollector(field, rows_per_zone=rows_per_zone)
    request = ScanRequest(
        columns=(column,),
        with_row_address=True,
        fragment_ids=tuple(fragment_ids),
        requires=Promise.COMPLETE | Promise.ORDERED,
    )
    for batch in run_tasks(plan_scan(table, request).tasks):
        ids, offsets = split_addresses(batch.column(1).to_numpy())
        cuts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        for start, stop in pairwise(cuts):
            rows = slice(start, stop)
            collector.add(int(ids[start]), batch.column(0)[rows], offsets[rows])
    return ZoneMapData(collector.finish(), fragment_ids, rows_per_zone)


def commit_zone_maps(
    table: Table,
    new: Sequence[IndexMetadata],
    removed: Sequence[IndexMetadata],
    options: CommitOptions | None = None,
) -> Table:
    """Commit index entries that come and go."""
    return commit_change(table, CreateIndex(tuple(new), tuple(removed)), rows=NO_ROWS, options=options)


def columns_with_bounds(table: Table) -> Iterator[tuple[str, Field]]:
    """Yield the top-level columns of which zone maps can be built."""
    for field in table.schema.fields:
        if has_bounds(field):
            yield field.name, field


def field_with_bounds(table: Table, column: str) -> Field:
    """Return the field of a column, or of a struct as ``"a.b"``, of which a zone map can be built.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    UnsupportedFeatureError
        Its values have no order that bounds could be of.
    """
    resolve_name(table.schema, column)  # raises what there is to say of other names
    field = next((field for name, field in scanned_fields(table) if name == column), None)
    if field is None or not has_bounds(field):
        what = "that" if field is None else f"column {column!r} of type {field.logical_type}"
        raise UnsupportedFeatureError(f"{table.uri}: no zone map can be built of {what}")
    return field


def scanned_fields(table: Table) -> Iterator[tuple[str, Field]]:
    """Yield the name by which a scan reads each field, through structs only."""

    def below(fields: Iterable[Field], prefix: str) -> Iterator[tuple[str, Field]]:
        for field in fields:
            yield prefix + field.name, field
            if field.is_struct and not field.is_blob:
                yield from below(field.children, f"{prefix}{field.name}.")

    seen: set[str] = set()
    # a column whose name has dots hides the field of a struct that is called the same
    for name, field in [
        *((each.name, each) for each in table.schema.fields),
        *below(table.schema.fields, ""),
    ]:
        if name not in seen:
            seen.add(name)
            yield name, field


def free_name(table: Table, column: str, field: Field) -> str:
    """Return the default name of an index: that of a zone map of the column, or one that is free."""
    taken = {index.name for index in table.indices if index.fields != (field.id,) or index.kind != KIND}
    default = f"{column}_idx"
    names = chain([default], (f"{default}_{number}" for number in count(2)))
    return next(name for name in names if name not in taken)
