"""Rebuild zone maps of columns that were cast, from the values with the new types."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from pyroaring import BitMap

from lance_df.errors import LanceError
from lance_df.table.maintenance.index_columns import scanned_fields
from lance_df.table.maintenance.scalar_index import commit_indices
from lance_df.table.maintenance.zone_map_files import KIND, write_zone_map, zone_counts
from lance_df.table.maintenance.zone_map_index import collect_zone_map
from lance_df.table.maintenance.zones import has_bounds
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from lance_df.format.manifest import IndexMetadata
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.table import Table


def with_zone_maps_of_casts(
    before: Table, after: Table, *, commit_options: CommitOptions | None = None
) -> Table:
    """Rebuild zone maps that a cast has dropped, in a version that follows it; a failure is only a warning.

    Parameters
    ----------
    before, after
        The table before and after an alteration of columns, which keeps the number and order of fields, or
        after columns were added or dropped, which changes the number.

    Returns
    -------
    The table at the version with the zone maps; ``after`` if there are none to build.
    """
    remaining = {index.name for index in after.indices}
    dropped: dict[str, list[IndexMetadata]] = {}
    for index in before.indices:
        if index.kind == KIND and index.name not in remaining:
            dropped.setdefault(index.name, []).append(index)
    if not dropped or len(list(before.schema.walk())) != len(list(after.schema.walk())):
        return after  # columns were dropped together with their zone maps
    try:
        return _rebuilt(before, after, dropped, commit_options)
    except LanceError as err:
        message = (
            f"{after.uri}: version {after.version} was committed with the new columns, but building their "
            f"zone maps ({', '.join(sorted(dropped))}) failed: {err}"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return after


def _rebuilt(
    before: Table, after: Table, dropped: dict[str, list[IndexMetadata]], options: CommitOptions | None
) -> Table:
    ids = {old.id: new.id for old, new in zip(before.schema.walk(), after.schema.walk(), strict=True)}
    columns = {field.id: (name, field) for name, field in scanned_fields(after)}
    present = BitMap(after.fragments.ids.tolist())
    new: list[IndexMetadata] = []
    with uncommitted_files(before.location) as files:
        for name, segments in dropped.items():
            column, field = columns.get(ids[segments[0].fields[0]], (None, None))
            if column is None or field is None or not has_bounds(field):
                continue
            covered = (each.covered_fragments() or BitMap() for each in segments)
            fragment_ids = BitMap.union(BitMap(), *covered) & present
            _, rows_per_zone = zone_counts(before.index_location(segments[0]))
            data = collect_zone_map(after, column, field, fragment_ids, rows_per_zone)
            new.append(write_zone_map(after.location, after.manifest, field, data, name=name, files=files))
        return commit_indices(after, new, [], options) if new else after
