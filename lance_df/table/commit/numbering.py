"""Assign and look up ids of fragments and fields, which are never used again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError, RetryableConflictError
from lance_df.format.fragments import TOMBSTONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import Manifest
    from lance_df.format.schema import Schema


def numbered(manifest: Manifest, fragments: Iterable[Fragment]) -> list[Fragment]:
    """Assign new fragments the ids that follow the highest one ever used.

    Raises
    ------
    InvalidInputError
        A new fragment has a deletion file, whose name holds the fragment's id.
    """
    first = 0 if manifest.max_fragment_id is None else manifest.max_fragment_id + 1
    added = []
    for position, fragment in enumerate(fragments):
        if fragment.deletion_file is not None:
            raise InvalidInputError("a new fragment cannot have a deletion file")
        added.append(dataclasses.replace(fragment, id=first + position))
    return added


def highest_id(manifest: Manifest, fragments: Iterable[Fragment]) -> int | None:
    """Return the highest fragment id ever used, these fragments included."""
    ids = [fragment.id for fragment in fragments]
    if manifest.max_fragment_id is not None:
        ids.append(manifest.max_fragment_id)
    return max(ids, default=None)


def existing(manifest: Manifest, fragment_id: int) -> Fragment:
    """Return a fragment that an operation refers to.

    Raises
    ------
    InvalidInputError
        There is none with this id. (If another commit removed it, a conflict was found earlier.)
    """
    position = manifest.fragments.position(fragment_id)
    if position is None:
        raise InvalidInputError(f"version {manifest.version} has no fragment {fragment_id}")
    return manifest.fragments[position]


def check_same_rows(new: Fragment, old: Fragment) -> None:
    """Check that a changed fragment has as many rows as before.

    Raises
    ------
    InvalidInputError
        It has another number of rows.
    """
    if old.physical_rows and new.physical_rows != old.physical_rows:
        raise InvalidInputError(
            f"fragment {old.id} has {old.physical_rows} rows, but the operation gives it "
            f"{new.physical_rows} rows"
        )


def without_empty_files(fragment: Fragment) -> Fragment:
    """Remove the data files whose columns were all replaced."""
    files = tuple(file for file in fragment.files if any(field != TOMBSTONE for field in file.fields))
    return fragment if len(files) == len(fragment.files) else dataclasses.replace(fragment, files=files)


def allocated_field_id(manifest: Manifest, schema: Schema, new_ids: Iterable[int]) -> int | None:
    """Return the highest field id that was ever assigned, for tables that record it.

    Parameters
    ----------
    schema, new_ids
        The schema of the next version, and those of its ids that this version does not have.

    Raises
    ------
    RetryableConflictError
        A new id was assigned before.
    """
    mark = manifest.max_allocated_field_id
    if mark is None:
        return None
    lowest = min(new_ids, default=mark + 1)
    if lowest <= mark:
        raise RetryableConflictError(
            f"field id {lowest} was already assigned by another commit; run the change again"
        )
    return max(mark, schema.max_field_id)
