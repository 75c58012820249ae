"""Describe the indices of a table and their coverage, as pylance does."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.errors import IndexNotFoundError
from lance_df.records import dataclass
from lance_df.table.indices.describe import describe_indices
from lance_df.table.maintenance.index_statistics import segment_statistics
from lance_df.table.metadata.row_counts import live_rows

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable

    from lance_df.format.manifest import IndexMetadata
    from lance_df.table.indices.describe import IndexInformation
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class IndexSegmentDescription:
    """One segment of an index. ``fragment_ids`` are the covered fragments that still exist."""

    uuid: str
    fragment_ids: set[int]
    dataset_version_at_last_update: int
    index_version: int
    created_at: dt.datetime | None
    size_bytes: int | None
    base_id: int | None = None
    covering_fields: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """An index: the segments that share a name."""

    name: str
    index_type: str
    type_url: str
    fields: list[int]
    field_names: list[str]
    num_rows_indexed: int
    segments: list[IndexSegmentDescription]
    total_size_bytes: int | None


def index_descriptions(table: Table) -> list[IndexDescription]:
    """Return every index of a table version, ordered by name."""
    return [_describe(table, name, segments) for name, segments in _by_name(table).items()]


def index_statistics(table: Table, name: str) -> dict[str, Any]:
    """Return the statistics of an index, as pylance does.

    Raises
    ------
    IndexNotFoundError
        There is no such index.
    """
    segments = _by_name(table).get(name)
    if segments is None:
        raise IndexNotFoundError(f"{table.uri}: index {name!r} does not exist")
    details = [segment_statistics(table, entry) for entry, _ in segments]
    covered = [information["fragment_ids"] for _, information in segments]
    indexed = set[int]().union(*covered)
    rows, total = _num_rows(table, indexed), _num_rows(table, table.fragments.ids.tolist())
    created = [entry.created_at_ms for entry, _ in segments if entry.created_at_ms is not None]
    return {
        "index_type": segments[0][1]["type"],
        "name": name,
        "num_indices": len(segments),
        "num_segments": len(segments),
        "indices": details,
        "segments": details,
        "num_indexed_fragments": len(indexed),
        "num_indexed_rows": rows,
        "num_unindexed_fragments": len(table.fragments) - len(indexed),
        "num_unindexed_rows": total - rows,
        "num_indexed_rows_per_delta": [_num_rows(table, each) for each in covered],
        "updated_at_timestamp_ms": max(created, default=None),
    }


def _by_name(table: Table) -> dict[str, list[tuple[IndexMetadata, IndexInformation]]]:
    entries = {str(index.uuid): index for index in table.indices}
    segments: dict[str, list[tuple[IndexMetadata, IndexInformation]]] = {}
    for information in describe_indices(table):
        segments.setdefault(information["name"], []).append((entries[information["uuid"]], information))
    return segments


def _describe(
    table: Table, name: str, segments: list[tuple[IndexMetadata, IndexInformation]]
) -> IndexDescription:
    first, information = segments[0]
    described = [_describe_segment(entry, each) for entry, each in segments]
    sizes = [each.size_bytes for each in described if each.size_bytes is not None]
    return IndexDescription(
        name=name,
        index_type=information["type"],
        type_url=first.details_type_url or "",
        fields=list(first.fields),
        field_names=information["fields"],
        num_rows_indexed=_num_rows(table, set[int]().union(*(each.fragment_ids for each in described))),
        segments=described,
        total_size_bytes=sum(sizes) if len(sizes) == len(described) else None,
    )


def _describe_segment(entry: IndexMetadata, information: IndexInformation) -> IndexSegmentDescription:
    return IndexSegmentDescription(
        uuid=information["uuid"],
        fragment_ids=information["fragment_ids"],
        dataset_version_at_last_update=entry.dataset_version,
        index_version=entry.index_version or 0,
        created_at=entry.created_at,
        size_bytes=sum(size for _, size in entry.files) if entry.files else None,
        base_id=entry.base_id,
        covering_fields=list(entry.covering_fields),
    )


def _num_rows(table: Table, fragment_ids: Iterable[int]) -> int:
    indices = table.fragments.positions(np.array(sorted(fragment_ids), dtype=np.int64))
    return int(live_rows(table, indices).sum())
