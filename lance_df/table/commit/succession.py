"""Decide whether a later version of a table descends from one that was just made.

The name of a version is free before it is made, and again after it was cleaned up. Manifests do not name the
version before them, so their content is compared.
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
        return True  # the result does not depend on the previous version
    ours = _files(first.fragments)
    if not ours:
        return _is_part(first, later)
    theirs = _files(later.fragments)
    if isinstance(operation, Rewrite):
        theirs |= _files(fragment for group in operation.groups for fragment in group.old_fragments)
    return not ours.isdisjoint(theirs)


def _files(fragments: Iterable[Fragment]) -> set[str]:
    """Return the names of data files; no two writes use the same name."""
    return {file.path for fragment in fragments for file in fragment.files}


def _is_part(first: Manifest, later: Manifest) -> bool:
    """Whether everything in a version without rows is still present."""
    return (
        _fields(first.schema) <= _fields(later.schema)
        and first.schema.metadata.items() <= later.schema.metadata.items()
        and first.table_metadata.items() <= later.table_metadata.items()
        and first.config.items() <= later.config.items()
    )


def _fields(schema: Schema) -> set[tuple[int, str, str]]:
    return {(field.id, field.name, field.logical_type) for field in schema.walk()}
