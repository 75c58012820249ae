"""Create, optimize and drop scalar indices of a table; indices of any kind can be dropped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyroaring import BitMap

from lance_df.errors import (
    IndexAlreadyExistsError,
    IndexNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_df.format.operations import CreateIndex
from lance_df.records import as_integer, dataclass
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.maintenance.bloom_filter_index import BLOOM_FILTER
from lance_df.table.maintenance.entry_index import BITMAP, BTREE
from lance_df.table.maintenance.index_builder import BuildRequest, SegmentContents
from lance_df.table.maintenance.index_columns import free_index_name, scanned_field, scanned_fields
from lance_df.table.maintenance.zone_map_index import ZONE_MAP
from lance_df.table.metadata.missing_files import computes_change
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.maintenance.index_builder import IndexBuilder
    from lance_df.table.table import Table

BUILDERS: Final[Mapping[str, IndexBuilder]] = {
    "BTREE": BTREE,
    "BITMAP": BITMAP,
    "ZONEMAP": ZONE_MAP,
    "BLOOMFILTER": BLOOM_FILTER,
}
"""The builders, by pylance's names of the index types."""

_BUILDER_OF_KIND: Final = {builder.kind: builder for builder in BUILDERS.values()}


@computes_change
def create_index(
    table: Table,
    column: str,
    index_type: str,
    *,
    name: str | None = None,
    replace: bool = True,
    train: bool = True,
    rows_per_zone: int | None = None,
) -> Table:
    """Build an index of a column, and return the table at the version that has it.

    Parameters
    ----------
    column
        A top-level column, or a field of a struct as ``"a.b"``; names may be in backquotes.
    index_type
        One of `BUILDERS`.
    name
        By default ``{column}_idx``, with a number appended if another kind of index has this name.
    replace
        Whether an index with this name on the same column may be replaced.
    train
        Whether to cover the existing rows; otherwise the index is empty until it is optimized.
    rows_per_zone
        Live rows in each zone of a zone map.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    IndexAlreadyExistsError
        The name is in use.
    InvalidInputError
        ``rows_per_zone`` is not a positive integer.
    UnsupportedFeatureError
        This kind of index does not support the values of the column.
    ConflictError
        Others changed the column meanwhile. No files are left behind.
    """
    builder = BUILDERS[index_type]
    zone_rows = as_integer(rows_per_zone)
    if rows_per_zone is not None and (zone_rows is None or zone_rows < 1):
        raise InvalidInputError(f"rows_per_zone must be an integer of at least 1, got {rows_per_zone!r:.60}")
    column, field = _indexed_field(table, column, index_type)
    name = free_index_name(table, column, field, builder.kind) if name is None else name
    replaced = [index for index in table.indices if index.name == name]
    if any(index.fields != (field.id,) for index in replaced):
        raise IndexAlreadyExistsError(f"{table.uri}: index {name!r} already exists on other columns")
    if replaced and not replace:
        raise IndexAlreadyExistsError(
            f"{table.uri}: index {name!r} already exists; pass replace=True to replace it"
        )
    scanned = BitMap(table.fragments.ids.tolist() if train else ())
    request = BuildRequest(table, column, field, name, (), scanned, rows_per_zone=zone_rows)
    with uncommitted_files(table.location) as files:
        return commit_indices(table, [builder.build(request, files)], replaced)


def drop_index(table: Table, name: str) -> Table:
    """Remove an index of any kind, and return the table at the version without it. Its files stay.

    Raises
    ------
    IndexNotFoundError
        There is no such index.
    """
    removed = tuple(index for index in table.indices if index.name == name)
    if not removed:
        names = ", ".join(sorted({repr(index.name) for index in table.indices})) or "none"
        raise IndexNotFoundError(f"{table.uri}: index {name!r} does not exist; the indices are: {names}")
    return commit_change(table, CreateIndex((), removed), rows=NO_ROWS)


@computes_change
def optimize_indices(
    table: Table,
    *,
    names: Collection[str] | None = None,
    retrain: bool = False,
    num_indices_to_merge: int | None = None,
    extended_by: BitMap | None = None,
    commit_options: CommitOptions | None = None,
) -> Table:
    """Extend indices to all fragments, and merge their segments.

    Parameters
    ----------
    names
        Only these indices; by default all indices of the kinds that this package builds.
    retrain
        Whether to rebuild them from all rows.
    num_indices_to_merge
        Merge this number of the newest segments with the rows that the index lacks; all by default. With 0,
        these rows get a segment of their own. Segments with former values of fragments that the index covers
        are always merged, as readers would take these values for current ones.
    extended_by
        The fragments to add to the coverage; all by default. Indices that cover these stay unchanged.

    Returns
    -------
    The table at the new version; the same table if there is nothing to do.

    Raises
    ------
    InvalidInputError
        ``num_indices_to_merge`` is negative.
    UnsupportedFeatureError
        A named index is of another kind.
    ConflictError
        Others changed a column meanwhile. No files are left behind.
    """
    if num_indices_to_merge is not None and num_indices_to_merge < 0:
        raise InvalidInputError(f"num_indices_to_merge must be at least 0, got {num_indices_to_merge}")
    segments: dict[str, list[IndexMetadata]] = {}
    for index in table.indices:
        if names is None or index.name in names:
            segments.setdefault(index.name, []).append(index)
    others = {name for name, entries in segments.items() if _builder_of(entries) is None}
    if others and names is not None:
        raise UnsupportedFeatureError(
            f"{table.uri}: index {min(others)!r} has a type that this release cannot update; use pylance's "
            "optimize_indices for it"
        )
    new: list[IndexMetadata] = []
    removed: list[IndexMetadata] = []
    with uncommitted_files(table.location) as files:
        for name in segments.keys() - others:
            plan = _plan(table, segments[name], retrain, num_indices_to_merge, extended_by)
            if plan is not None:
                new.append(plan.builder.build(plan.request, files))
                removed += plan.replaced
        return commit_indices(table, new, removed, commit_options) if new else table


def can_build(index: IndexMetadata) -> bool:
    """Whether this package builds this kind of index."""
    return index.kind in _BUILDER_OF_KIND


def commit_indices(
    table: Table,
    new: Sequence[IndexMetadata],
    removed: Sequence[IndexMetadata],
    options: CommitOptions | None = None,
) -> Table:
    """Commit the addition and removal of index entries."""
    return commit_change(table, CreateIndex(tuple(new), tuple(removed)), rows=NO_ROWS, options=options)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A segment to build, and the segments that it replaces."""

    builder: IndexBuilder
    request: BuildRequest
    replaced: Sequence[IndexMetadata]


def _plan(
    table: Table,
    segments: Sequence[IndexMetadata],
    retrain: bool,
    num_to_merge: int | None,
    extended_by: BitMap | None,
) -> _Plan | None:
    """Return the plan for one index, or ``None`` if there is nothing to do."""
    builder = _builder_of(segments)
    fields = [each for each in scanned_fields(table) if segments[0].fields == (each[1].id,)]
    if builder is None or not fields or not builder.accepts(fields[0][1]):
        return None  # pylance may build such an index of values that this package does not index
    column, field = fields[0]
    present = BitMap(table.fragments.ids.tolist())
    if retrain:
        request = BuildRequest(table, column, field, segments[0].name, (), present, template=segments[0])
        return _Plan(builder, request, segments)
    lacking = present - BitMap.union(BitMap(), *(each.covered_fragments() or BitMap() for each in segments))
    if extended_by is not None:
        lacking &= extended_by
    is_one = len(segments) == 1 or num_to_merge == 0 or extended_by is not None
    if is_one and not lacking and not builder.has_zones:
        return None
    contents = [_contents(builder, table, field, segment) for segment in segments]
    known = BitMap.union(BitMap(), *(each.covered for each in contents))
    missing = present - known
    if extended_by is not None:
        missing &= extended_by
    replaced = _to_merge(contents, known | missing, num_to_merge)
    if len(replaced) <= 1 and not missing:
        return None
    reused, left = [], known.copy()
    for number in replaced:
        reused.append((segments[number], contents[number].covered & left))
        left -= contents[number].covered
    request = BuildRequest(
        table, column, field, segments[0].name, tuple(reused), missing, template=segments[0]
    )
    return _Plan(builder, request, [segments[number] for number in replaced])


def _to_merge(contents: Sequence[SegmentContents], covered: BitMap, num_to_merge: int | None) -> list[int]:
    """Return the numbers of the segments to merge: the newest ones, and those with former values."""
    first = 0 if num_to_merge is None else max(0, len(contents) - num_to_merge)
    return [
        number
        for number, each in enumerate(contents)
        if number >= first or not covered.isdisjoint(each.held - each.covered)
    ]


def _contents(builder: IndexBuilder, table: Table, field: Field, segment: IndexMetadata) -> SegmentContents:
    if segment.uuid not in table.segments_of_former_rows:
        with suppress(UnsupportedFeatureError):
            return builder.contents(table, field, segment)
    return SegmentContents(BitMap(), BitMap(table.fragments.ids.tolist()))


def _builder_of(segments: Sequence[IndexMetadata]) -> IndexBuilder | None:
    kinds = {segment.kind for segment in segments}
    return _BUILDER_OF_KIND.get(kinds.pop() or "") if len(kinds) == 1 else None


def _indexed_field(table: Table, column: str, index_type: str) -> tuple[str, Field]:
    """Return the name of a column in scans, and its field."""
    scanned = scanned_field(table, column)
    if scanned is None or not BUILDERS[index_type].accepts(scanned[1]):
        what = "this column" if scanned is None else f"column {column!r} of type {scanned[1].logical_type}"
        raise UnsupportedFeatureError(f"{table.uri}: a {index_type} index is not supported on {what}")
    return scanned
