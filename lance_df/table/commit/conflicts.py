"""Whether a change that was computed from an older version may be committed on top of newer ones.

The rules are the table :data:`RULES`; a pair that is not in it conflicts. Spec: table format, chapter 7.4.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from lance_df.errors import IncompatibleConflictError, RetryableConflictError
from lance_df.format.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class Rule(Enum):
    """What to do when the other operation was committed first."""

    COMPATIBLE = auto()
    RETRY = auto()
    GIVE_UP = auto()


_ANYTHING: Final = (
    *(Append, Delete, Update, Overwrite, CreateIndex, Rewrite, Merge, Project, Restore),
    *(UpdateConfig, DataReplacement, UpdateBases, ReserveFragments),
)

RULES: Mapping[tuple[type, type], Rule] = {
    # an append touches nothing that exists, but it was computed from the schema
    **{(Append, theirs): Rule.COMPATIBLE for theirs in _ANYTHING},
    (Append, Merge): Rule.RETRY,
    (Append, Project): Rule.RETRY,
    (Append, Overwrite): Rule.GIVE_UP,
    (Append, Restore): Rule.GIVE_UP,
    # an overwrite replaces everything, whatever it was
    **{(Overwrite, theirs): Rule.COMPATIBLE for theirs in _ANYTHING},
    (Overwrite, Overwrite): Rule.RETRY,
    # an index covers the fragments it names; it is right as long as these and its fields stay as they are
    **{(CreateIndex, theirs): Rule.COMPATIBLE for theirs in _ANYTHING},
    (CreateIndex, CreateIndex): Rule.RETRY,
    (CreateIndex, Rewrite): Rule.RETRY,
    (CreateIndex, Merge): Rule.RETRY,
    (CreateIndex, Project): Rule.RETRY,
    (CreateIndex, DataReplacement): Rule.RETRY,
    (CreateIndex, Update): Rule.RETRY,
    (CreateIndex, Overwrite): Rule.GIVE_UP,
    (CreateIndex, Restore): Rule.GIVE_UP,
}
"""(mine, the one that was committed first) to rule."""


def check_conflict(mine: Operation, theirs: Operation | None, *, version: int, table: str) -> None:
    """Check one version that was committed since the one my operation was computed from.

    Parameters
    ----------
    mine, theirs
        ``theirs`` is None when the version does not say what it did.
    version, table
        Of the other commit, for messages.

    Raises
    ------
    RetryableConflictError
        The same change may succeed when it is computed again from the newest version.
    IncompatibleConflictError
        The other change makes mine meaningless, or is not known.
    """
    rule = RULES.get((type(mine), type(theirs)), Rule.GIVE_UP)
    if rule is Rule.RETRY and _touch_different_things(mine, theirs):
        rule = Rule.COMPATIBLE
    if rule is Rule.COMPATIBLE:
        return
    what = f"{table}: version {version} ({_name(theirs)}) was committed before this {_name(mine)}"
    if rule is Rule.RETRY:
        raise RetryableConflictError(f"{what}; run it again on the newest version")
    raise IncompatibleConflictError(f"{what} and cannot be combined with it; look at the table first")


def _touch_different_things(mine: Operation, theirs: Operation | None) -> bool:
    if not isinstance(mine, CreateIndex):
        return False
    fields = {field for index in mine.new_indices for field in index.fields}
    match theirs:
        case CreateIndex():
            names = {index.name for index in mine.new_indices}
            return names.isdisjoint(index.name for index in theirs.new_indices)
        case Update():
            return fields.isdisjoint(theirs.fields_modified)
        case DataReplacement():
            return all(fields.isdisjoint(file.fields) for _, file in theirs.replacements)
        case Merge() | Project():
            return fields <= theirs.schema.by_id().keys()
        case _:
            return False


def _name(operation: Operation | None) -> str:
    return "an unknown operation" if operation is None else type(operation).__name__.lower()
