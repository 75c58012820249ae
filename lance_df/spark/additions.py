"""Find the fragments with new rows that each version adds to a table or a namespace.

A stream needs this for each version: some versions add rows, some only store the same rows differently, and
some remove or replace rows that the stream has read already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow.compute as pc

from lance_df.errors import UnsupportedFeatureError, VersionNotFoundError
from lance_df.format.operations import (
    Append,
    CreateIndex,
    Delete,
    Merge,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lance_df.namespace.changes.repartition import takes_rows_away
from lance_df.namespace.published import are_pinned, members_at
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.records import dataclass
from lance_df.table.metadata.versions import DETACHED
from lance_df.table.table import Table

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.fragments import Fragment
    from lance_df.format.operations import Operation
    from lance_df.namespace.published import Member

SourceT = TypeVar("SourceT", Table, NamespaceSnapshot)
Fragments: TypeAlias = Mapping[str | None, tuple[int, ...]]
"""Ids of fragments by the name of their member; the name is None for a single table."""

_CHANGE: Final = "changes existing rows"
_OF_NO_ROWS: Final = CreateIndex | ReserveFragments | UpdateConfig | UpdateBases
_OF_THE_SAME_ROWS: Final = Rewrite | Merge | Project


@dataclass(frozen=True, slots=True)
class Addition:
    """The rows that one version adds.

    Attributes
    ----------
    fragments
        The fragments that have the new rows and no other rows.
    num_rows
        The number of rows in these fragments.
    moves_rows
        Whether rows of earlier versions may be in other fragments, or have other columns.
    takes_back
        That the version changes rows of earlier versions, and how, for a message; None if it does not.
    """

    version: int
    fragments: Fragments = field(default_factory=dict)
    num_rows: int = 0
    moves_rows: bool = False
    takes_back: str | None = None


def additions(newest: Table | NamespaceSnapshot, begin: int, end: int) -> Iterator[Addition]:
    """Yield the additions of each version after ``begin``, up to ``end``.

    Parameters
    ----------
    newest
        Any version of the branch or the namespace.

    Raises
    ------
    VersionNotFoundError
        A version was removed.
    UnsupportedFeatureError
        The versions of a namespace do not name the versions of its members.
    """
    namespace = newest.namespace
    former: NamespaceSnapshot | None = None
    for version in range(begin + 1, end + 1):
        if namespace is not None:
            if version == 1:
                former = _version(namespace, 1)
                yield _addition(former, _of_members(None, former))
                continue
            former = former or _version(namespace, version - 1)
            snapshot = _version(namespace, version)
            yield _addition(snapshot, _of_members(former, snapshot))
            former = snapshot
        else:
            table = _version(newest.committed_table, version)
            yield _addition(table, {None: _of_table(table, _operation(table))})


@dataclass(frozen=True, slots=True)
class _Added:
    """The rows that a version adds to one table.

    Attributes
    ----------
    takes_back
        What the version does to rows of earlier versions, as a verb with its object; None for nothing.
    num_moved
        The number of removed rows that `repartition` has moved to other members in the same version.
    """

    ids: tuple[int, ...] = ()
    num_rows: int = 0
    moves_rows: bool = False
    takes_back: str | None = None
    num_moved: int = 0

    @classmethod
    def of(cls, table: Table, positions: npt.NDArray[np.intp]) -> _Added:
        fragments = table.fragments
        rows = fragments.physical_rows[positions] - fragments.num_deleted[positions]
        return cls(tuple(fragments.ids[positions].tolist()), int(rows.sum()))


def _addition(source: Table | NamespaceSnapshot, by_table: Mapping[str | None, _Added]) -> Addition:
    taken = [each.takes_back for each in by_table.values() if each.takes_back is not None]
    return Addition(
        source.version,
        {name: each.ids for name, each in by_table.items() if each.ids},
        sum(each.num_rows for each in by_table.values()),
        any(each.moves_rows for each in by_table.values()),
        f"{source.uri}: version {source.version} {taken[0]}" if taken else None,
    )


def _version(newest: SourceT, version: int) -> SourceT:
    try:
        return newest.checkout(version)
    except VersionNotFoundError as err:
        raise VersionNotFoundError(
            f"{newest.uri}: version {version} was removed before the stream read it; keep versions for "
            f"longer, or start again with a new checkpoint ({err})"
        ) from err


def _operation(table: Table) -> Operation | None:
    transaction = table.transaction()
    return None if transaction is None else transaction.operation


def _of_table(table: Table, operation: Operation | None) -> _Added:
    """Return the rows that a version adds, by the operation of its transaction."""
    match operation:
        case Append(fragments=fragments):
            return _Added.of(table, _new_positions(table, fragments))
        case Update(removed_fragment_ids=(), updated_fragments=(), new_fragments=fragments):
            return _Added.of(table, _new_positions(table, fragments))  # a merge that only inserts
        case Overwrite() if table.version == 1:
            return _Added.of(table, np.arange(len(table.fragments)))
        case Delete(updated_fragments=(), deleted_fragment_ids=()):
            return _Added()
    if isinstance(operation, _OF_NO_ROWS):
        return _Added()
    if isinstance(operation, _OF_THE_SAME_ROWS):
        return _Added(moves_rows=True)
    return _Added(takes_back=_change(operation))


def _change(operation: Operation | None) -> str:
    name = "an unknown operation" if operation is None else type(operation).__name__
    return f"{_CHANGE} ({name})"


def _new_positions(table: Table, fragments: tuple[Fragment, ...]) -> npt.NDArray[np.intp]:
    """Return the positions of new fragments, which got their ids only in the commit."""
    wanted = {file.path for fragment in fragments for file in fragment.files}
    first = len(table.fragments) - len(fragments)
    if first >= 0 and all(_is_of(fragment, wanted) for fragment in table.fragments[first:]):
        return np.arange(first, len(table.fragments))
    return np.flatnonzero([_is_of(fragment, wanted) for fragment in table.fragments])


def _is_of(fragment: Fragment, paths: set[str]) -> bool:
    return any(file.path in paths for file in fragment.files)


def _of_members(former: NamespaceSnapshot | None, snapshot: NamespaceSnapshot) -> dict[str | None, _Added]:
    manifest = snapshot.manifest
    if not are_pinned(manifest) or (former is not None and not are_pinned(former.manifest)):
        raise UnsupportedFeatureError(
            f"{snapshot.uri}: version {snapshot.version} has partitions without a recorded version, so "
            "their changes are not in its history; any change by lance_df records the versions"
        )
    old = {} if former is None else _different(former, snapshot)
    new = _different(snapshot, former)
    operation = _operation(manifest.table) if snapshot.version > 1 and (old or new) else None
    if isinstance(operation, Overwrite) or (isinstance(operation, Restore) and not _is_stage(operation)):
        return {None: _Added(takes_back=_change(operation))}
    additions_: dict[str | None, _Added] = {
        name: _of_member(old.pop(name, None), member) for name, member in new.items()
    }
    for name, member in old.items():
        if member.open().count_rows():
            additions_[name] = _Added(takes_back=f"removes {member.folder.uri}")
    return _without_moves(additions_)


def _without_moves(by_member: dict[str | None, _Added]) -> dict[str | None, _Added]:
    """Return the additions, or only a move if `repartition` made the version, which adds what it removes."""
    num_moved = sum(each.num_moved for each in by_member.values())
    others = [each for each in by_member.values() if not each.num_moved]
    # if the counts differ, another writer has added rows in the same version, and which ones is not known
    is_move = all(each.takes_back is None for each in others) and num_moved == sum(
        each.num_rows for each in others
    )
    return {None: _Added(moves_rows=True)} if num_moved and is_move else by_member


def _is_stage(operation: Restore) -> bool:
    """Whether a version publishes the last of several detached versions."""
    return bool(operation.version & DETACHED)


def _different(snapshot: NamespaceSnapshot, other: NamespaceSnapshot | None) -> dict[str, Member]:
    """Return the members that another version lacks, or has in another version or location."""
    rows = snapshot.manifest.members
    positions = np.arange(len(rows))
    if other is not None:
        theirs = other.manifest.members
        former_rows = pc.index_in(rows["object_id"], value_set=theirs["object_id"].combine_chunks())
        known = pc.fill_null(former_rows, 0)
        is_same = pc.is_valid(former_rows).combine_chunks().to_numpy(zero_copy_only=False)
        for name in ("location", "read_version", "read_branch") if len(theirs) else ():
            same = pc.equal(
                pc.fill_null(rows[name].cast("string"), ""),
                pc.fill_null(theirs[name].cast("string").take(known), ""),
            )
            is_same &= same.combine_chunks().to_numpy(zero_copy_only=False)
        positions = np.flatnonzero(~is_same)
    return {member.object_id: member for member in members_at(snapshot.root, snapshot.manifest, positions)}


def _of_member(former: Member | None, member: Member) -> _Added:
    """Return the additions to a member, by its published versions only: others may have been undone."""
    table = member.open()
    if former is None:
        return _Added.of(table, np.arange(len(table.fragments)))
    if former.folder.path != member.folder.path or former.branch != member.branch:
        return _Added(takes_back=f"replaces {former.folder.uri} by {table.uri}")
    operation = _operation(table)
    before = former.open()
    is_next = table.version == before.version + 1
    if is_next and isinstance(operation, Append | Update):
        return _of_table(table, operation)
    states, known = _states(table), _states(before)
    if known.items() <= states.items() and not isinstance(operation, Restore | Overwrite):
        ids = np.array([number for number in states if number not in known], np.int64)
        return _Added.of(table, table.fragments.positions(ids))
    if isinstance(operation, _OF_THE_SAME_ROWS) and table.count_rows() == before.count_rows():
        return _Added(moves_rows=True)
    is_emptied = takes_rows_away(operation) and not table.count_rows()
    num_moved = before.count_rows() if is_emptied else 0
    # of several versions, the last operation does not describe the change
    change = _change(operation) if is_next else _CHANGE
    return _Added(takes_back=change, num_moved=num_moved)


def _states(table: Table) -> dict[int, tuple[object, ...]]:
    return {
        fragment.id: (tuple(file.path for file in fragment.files), fragment.deletion_file)
        for fragment in table.fragments
    }
