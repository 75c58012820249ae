"""Whether a later version of a table comes from one that was just made.

The name of a version is free before it is made, and again after it was made and cleaned up. Manifests do not
say which one they follow, so their content has to show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.format.operations import Operation, Overwrite, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import Manifest
    from lance_df.format.schema import Schema


def may_follow(later: Manifest, operation: Operation | None, first: Manifest) -> bool:
    """Whether a table whose history begins with ``first`` may have become ``later``.

    Parameters
    ----------
    operation
        What made ``later``, if that is known.
    """
    if isinstance(operation, Overwrite):
        return True  # it is the same whatever was there before
    ours = _files(first.fragments)
    if not ours:
        return _is_part(first, later)
    theirs = _files(later.fragments)
    if isinstance(operation, Rewrite):
        theirs |= _files(fragment for group in operation.groups for fragment in group.old_fragments)
    return not ours.isdisjoint(theirs)


def _files(fragments: Iterable[Fragment]) -> set[str]:
    """Return the names of data files, of which no two writes have the same."""
    return {file.path for fragment in fragments for file in fragment.files}


def _is_part(first: Manifest, later: Manifest) -> bool:
    """Whether all that a version without rows holds is still there."""
    return (
        _fields(first.schema) <= _fields(later.schema)
        and first.schema.metadata.items() <= later.schema.metadata.items()
        and first.table_metadata.items() <= later.table_metadata.items()
        and first.config.items() <= later.config.items()
    )


def _fields(schema: Schema) -> set[tuple[int, str, str]]:
    return {(field.id, field.name, field.logical_type) for field in schema.walk()}
