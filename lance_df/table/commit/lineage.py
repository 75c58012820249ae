"""Set row ids and row versions of new and changed fragments, in tables with stable row ids.

The commit assigns row ids from `next_row_id` of the version that it follows, so each rebase assigns them
anew. Spec: table format, chapter 6.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.format.manifest import MAX_ROW_IDS
from lance_df.format.row_ids import (
    RunSequence,
    constant_versions,
    parse_row_ids,
    parse_versions,
    row_id_range,
    row_ids_of,
    serialize_row_ids,
    serialize_versions,
    versions_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
    from pyroaring import BitMap

    from lance_df.format.fragments import Fragment, SequenceRef

_FIRST_VERSION = 1  # the version in which rows count as created if none is recorded


def inserted(fragments: Iterable[Fragment], *, next_row_id: int, version: int) -> tuple[list[Fragment], int]:
    """Set the ids of new rows and the version that creates them; also return the next free row id.

    Raises
    ------
    CorruptDataError
        Not enough row ids are left.
    """
    added = []
    for fragment in fragments:
        stop = _stop(next_row_id, fragment.physical_rows)
        versions = serialize_versions(constant_versions(version, fragment.physical_rows))
        ids = serialize_row_ids(row_id_range(next_row_id, stop))
        added.append(
            dataclasses.replace(fragment, row_ids=ids, created_at=versions, last_updated_at=versions)
        )
        next_row_id = stop
    return added, next_row_id


def upserted(
    fragments: Iterable[Fragment], *, sources: Sequence[Fragment], next_row_id: int, version: int
) -> tuple[list[Fragment], int]:
    """Complete fragments of rows that were updated or inserted.

    Parameters
    ----------
    fragments
        Their row ids belong to their first rows, which keep them; the other rows get new ones.
    sources
        The fragments that updated rows were taken from, to find the versions that created these rows.

    Raises
    ------
    InvalidInputError
        A fragment has more row ids than rows.
    CorruptDataError
        Not enough row ids are left for new rows.
    """
    origins = _CreationVersions(sources)
    added = []
    for fragment in fragments:
        given = _given_ids(fragment).to_numpy()
        missing = fragment.physical_rows - len(given)
        fresh = row_id_range(next_row_id, _stop(next_row_id, missing)).to_numpy()
        ids = np.concatenate([given, fresh])
        created = np.concatenate([origins.of(given), np.full(missing, version, np.uint64)])
        updated = constant_versions(version, fragment.physical_rows)
        added.append(
            dataclasses.replace(
                fragment,
                row_ids=serialize_row_ids(row_ids_of(ids)),
                created_at=serialize_versions(versions_of(created)),
                last_updated_at=serialize_versions(updated),
            )
        )
        next_row_id += missing
    return added, next_row_id


def carried(new: Fragment, old: Fragment) -> Fragment:
    """Copy row ids, and row versions that are not set, from the old form of a fragment."""
    return dataclasses.replace(
        new,
        row_ids=old.row_ids,
        created_at=new.created_at if new.created_at is not None else old.created_at,
        last_updated_at=new.last_updated_at if new.last_updated_at is not None else old.last_updated_at,
    )


def updated_in_place(
    new: Fragment, old: Fragment, *, version: int, offsets: BitMap | None = None
) -> Fragment:
    """Set the update version of rows whose columns were rewritten in place.

    Parameters
    ----------
    offsets
        The updated rows. If None, those for which ``new`` has another version than ``old`` (it was computed
        from an older version of the table, and could not know the number); if there are none, all rows.
    """
    num_rows = new.physical_rows
    before, after = _versions(old.last_updated_at, num_rows), _versions(new.last_updated_at, num_rows)
    if offsets is None:
        is_changed = before != after
        if not is_changed.any():
            is_changed[:] = True
    else:
        if offsets and offsets.max() >= num_rows:
            raise InvalidInputError(
                f"updated row {offsets.max()} is out of range, {_name(new)} has {num_rows} rows"
            )
        is_changed = np.zeros(num_rows, dtype=np.bool_)
        is_changed[offsets.to_array()] = True
    stamped = versions_of(np.where(is_changed, np.uint64(version), before))
    return dataclasses.replace(new, last_updated_at=serialize_versions(stamped))


def updated_whole(fragment: Fragment, *, version: int) -> Fragment:
    """Set the update version of all rows of a fragment."""
    versions = constant_versions(version, fragment.physical_rows)
    return dataclasses.replace(fragment, last_updated_at=serialize_versions(versions))


def without_lineage(fragment: Fragment) -> Fragment:
    """Return the fragment without row ids and versions, for tables without stable row ids."""
    if fragment.row_ids is None and fragment.created_at is None and fragment.last_updated_at is None:
        return fragment
    return dataclasses.replace(fragment, row_ids=None, created_at=None, last_updated_at=None)


def has_all_row_ids(new: Fragment) -> bool:
    """Whether each row of a new fragment has the row id that it had in another fragment."""
    return len(_given_ids(new)) == new.physical_rows


def row_ids_in(fragment: Fragment) -> RunSequence:
    """Return the row ids of all physical rows of a fragment.

    Raises
    ------
    InvalidInputError
        The fragment has none.
    UnsupportedFeatureError
        They are in a hidden column.
    """
    if fragment.row_ids is None:
        raise InvalidInputError(
            f"fragment {fragment.id} has no row ids, although the table uses stable row ids"
        )
    return parse_row_ids(_inline(fragment.row_ids), num_rows=fragment.physical_rows, source=_name(fragment))


class _CreationVersions:
    """The versions that created rows, by row id; the look-up table is built at its first use."""

    def __init__(self, sources: Sequence[Fragment]) -> None:
        self._sources = sources
        self._sorted: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]] | None = None

    def of(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        if not len(ids):
            return np.empty(0, np.uint64)
        known, versions = self._lookup()
        near = np.minimum(np.searchsorted(known, ids), max(len(known) - 1, 0))
        if not len(known) or bool((known[near] != ids).any()):
            unknown = ids if not len(known) else ids[known[near] != ids]
            raise InvalidInputError(
                f"row id {int(unknown[0])} of an updated row does not belong to any fragment that the "
                "update changes"
            )
        return versions[near]

    def _lookup(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        if self._sorted is None:
            ids = [row_ids_in(fragment).to_numpy() for fragment in self._sources]
            versions = [_versions(each.created_at, each.physical_rows) for each in self._sources]
            all_ids = np.concatenate([np.empty(0, np.uint64), *ids])
            order = np.argsort(all_ids, kind="stable")
            self._sorted = all_ids[order], np.concatenate([np.empty(0, np.uint64), *versions])[order]
        return self._sorted


def _stop(next_row_id: int, num_rows: int) -> int:
    """Return the next free row id after some rows were numbered."""
    stop = next_row_id + num_rows
    if stop > MAX_ROW_IDS:
        raise CorruptDataError(
            f"{num_rows} new rows need row ids from {next_row_id} on, but the largest possible row id is "
            f"{MAX_ROW_IDS - 1}; an earlier version has recorded a wrong next row id; restore an older "
            "version, or write the rows to a new table"
        )
    return stop


def _given_ids(fragment: Fragment) -> RunSequence:
    if fragment.row_ids is None:
        return row_id_range(0, 0)
    ids = parse_row_ids(_inline(fragment.row_ids), num_rows=None, source=_name(fragment))
    if len(ids) > fragment.physical_rows:
        raise InvalidInputError(f"a new fragment has {fragment.physical_rows} rows, but {len(ids)} row ids")
    return ids


def _versions(sequence: SequenceRef, num_rows: int) -> npt.NDArray[np.uint64]:
    if sequence is None:
        return np.full(num_rows, _FIRST_VERSION, np.uint64)
    return parse_versions(_inline(sequence), num_rows=num_rows, source="row versions").to_numpy()


def _inline(sequence: SequenceRef) -> bytes:
    if not isinstance(sequence, bytes):
        raise UnsupportedFeatureError(
            "changing rows whose row ids are stored in a column is not supported by this release"
        )
    return sequence


def _name(fragment: Fragment) -> str:
    return f"fragment {fragment.id}"
