"""Check the number of rows of each commit before it is published, against what the change states.

Rows before, minus deleted rows, plus added rows, must equal the rows after; and each fragment loses the rows
that were selected in it. All numbers come from manifests; no data is read. Counts that another program left
out of its operation (0 for a deletion file) are unknown until the next commit counts them; checks that depend
on them are skipped. Spec: table format, chapters 4 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lance_df.errors import RowCountMismatchError
from lance_df.format.fragment_list import num_live_rows
from lance_df.format.operations import (
    Append,
    Clone,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    Restore,
    Rewrite,
    Update,
)
from lance_df.records import dataclass
from lance_df.table.metadata.row_counts import live_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from lance_df.format.fragment_list import FragmentList
    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.table.table import Table

    Numbers: TypeAlias = npt.NDArray[np.int64]
    Flags: TypeAlias = npt.NDArray[np.bool_]

_REPLACING: Final = (Overwrite, Restore, Clone)
# Up to so many names are searched in the serialized list of fragments; for more, its files are listed.
_FEW_NAMES: Final = 16
_NUM_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class RowChange:
    """How many rows a change adds and deletes, as counted by the code that selected them.

    It must not be computed from the fragments of the operation, as it serves to check these.

    Attributes
    ----------
    added
        Rows in new fragments; None if only the operation has the number.
    deleted
        Live rows that are removed from fragments, by fragment id. A row that is rewritten is deleted and
        added.
    replaces_all
        Whether no previous row remains, so that the added rows are all rows.
    """

    added: int | None = 0
    deleted: Mapping[int, int] = field(default_factory=dict, hash=False)
    replaces_all: bool = False

    @classmethod
    def replacing(cls, added: int | None) -> RowChange:
        """Return the change that replaces all rows by this number of rows."""
        return cls(added, replaces_all=True)

    @classmethod
    def emptying(cls, table: Table) -> RowChange:
        """Return the change that deletes all rows of a version."""
        return cls(deleted=live_counts(table, table.fragments.ids))

    @classmethod
    def restoring(cls, table: Table) -> RowChange:
        """Return the change that brings back the rows of a version."""
        return cls.replacing(num_live_rows(table.fragments.to_proto()) if table.trusts_row_counts else None)


NO_ROWS: Final = RowChange()
"""The change of operations that neither add nor delete rows."""


@dataclass(frozen=True, slots=True)
class RowAccount:
    """The previous state and the stated change of a commit, to compare with the version that it makes.

    Attributes
    ----------
    uri, version
        The table, and the version before; 0 for a new table.
    before
        The fragments of that version.
    operation
        The operation as it is published, after any rebase.
    rows
        The stated change; None if another program computed the operation. Then the effect of the operation
        must agree with its own content.
    restored
        The fragments of the version that is restored or cloned.
    """

    uri: str
    version: int
    before: FragmentList
    operation: Operation
    rows: RowChange | None
    restored: FragmentList | None = None

    def check(self, after: FragmentList) -> None:
        """Check the fragments of the version that is about to be published.

        Raises
        ------
        RowCountMismatchError
            Fragments or rows would be lost or duplicated.
        """
        if after is self.before and self.rows in (None, NO_ROWS) and not isinstance(self.operation, Restore):
            return
        if isinstance(self.operation, _REPLACING):
            self._check_replaced(after)
        else:
            self._check_changed(after)

    def _check_replaced(self, after: FragmentList) -> None:
        """Check an operation whose fragments replace all others."""
        source = self.restored
        faults = [] if after is source else _repeated(after)
        brought = self.operation.fragments if isinstance(self.operation, Overwrite) else ()
        expected = sum(fragment.physical_rows for fragment in brought) if source is None else _total(source)
        if source is not None and not np.array_equal(source.ids, after.ids):
            faults.append(
                f"the new version has {len(after)} fragments, the restored version has {len(source)}"
            )
        if self.rows is not None and not self.rows.replaces_all:
            faults.append("the operation replaces all rows, but does not declare it")
        if self.rows is not None and self.rows.added is not None:
            expected = self.rows.added
        if faults or _total(after) != expected:
            self._refuse(after, _total(self.before), expected, expected, faults)

    def _check_changed(self, after: FragmentList) -> None:
        """Check an operation that leaves most fragments as they are."""
        if self._only_adds(after):
            return
        scope = _Scope.of(self.operation, self.before)
        pair = _Pair(self.before, after, scope)
        faults = [*_repeated(after), *pair.faults()]
        added, stated = scope.added, pair.lost
        if self.rows is None:
            faults += pair.undue_losses()
            faults += self._files_twice(after, scope)
        else:
            stated, unknown = self._stated()
            added = added if self.rows.added is None else self.rows.added
            faults += unknown
            faults += _wrong(self.before.ids, pair.lost, stated)
            if self.rows.replaces_all:
                faults.append("the operation declares that it replaces all rows, but it does not")
        if isinstance(self.operation, Rewrite):
            faults += _uneven_groups(self.operation, self.before)
        if pair.num_new != added:
            faults.append(f"new fragments have {pair.num_new} rows")
        deleted = int(stated.sum())
        is_even = _total(self.before) - deleted + added == _total(after)
        if faults or (not is_even and not pair.is_unknown.any()):
            self._refuse(after, deleted, added, _total(self.before) - deleted + added, faults)

    def _only_adds(self, after: FragmentList) -> bool:
        """Check cheaply whether an append adds the stated rows, and nothing else changes."""
        rows = self.rows
        return (
            isinstance(self.operation, Append)
            and rows is not None
            and not (rows.deleted or rows.replaces_all or len(after.repeated_ids()))
            and after.extends(self.before)
            and after.rows_from(len(self.before)) == rows.added
        )

    def _stated(self) -> tuple[Numbers, list[str]]:
        """Return the rows to delete for each previous fragment, and faults for missing fragments."""
        stated = np.zeros(len(self.before), np.int64)
        deleted = {} if self.rows is None else self.rows.deleted
        if not deleted:
            return stated, []
        ids, counts = (np.fromiter(each, np.int64, len(deleted)) for each in (deleted, deleted.values()))
        positions = self.before.positions(ids)
        stated[positions[positions >= 0]] = counts[positions >= 0]
        missing = ids[(positions < 0) & (counts > 0)]
        return stated, [f"rows are deleted from missing {_named(missing)}"] if len(missing) else []

    def _files_twice(self, after: FragmentList, scope: _Scope) -> list[str]:
        """Return faults for data files of the operation that are also in another fragment.

        Appends are not checked: they remove no rows, and those of pylance may name a file that is in the
        table.
        """
        if isinstance(self.operation, Append):
            return []
        if scope.changing is None:
            return _twice_in(self.operation.fragments) if isinstance(self.operation, Merge) else []
        files_before = {
            fragment.id: {_key(file) for file in fragment.files}
            for fragment in _at(self.before, scope.changing)
        }
        new = [_key(file) for fragment in scope.new for file in fragment.files]
        for fragment in _at(after, scope.changing):
            new += {_key(file) for file in fragment.files} - files_before.get(fragment.id, set())
        wanted = dict.fromkeys(new, 0)
        if not wanted:
            return []
        data = after.serialize() if len(wanted) <= _FEW_NAMES else b""
        if data and all(data.count(path.encode()) == 1 for _, path in wanted):
            return []
        for fragment in after:
            for file in fragment.files:
                if (key := _key(file)) in wanted:
                    wanted[key] += 1
        return [
            f"data file {path!r} belongs to {count} fragments"
            for (_, path), count in wanted.items()
            if count > 1
        ]

    def _refuse(
        self, after: FragmentList, deleted: int, added: int, expected: int, faults: list[str]
    ) -> None:
        more = [*faults[:_NUM_SHOWN], *(["…"] if len(faults) > _NUM_SHOWN else [])]
        raise RowCountMismatchError(
            f"{self.uri}: {type(self.operation).__name__} on version {self.version}: "
            f"{_total(self.before)} rows before, {deleted} deleted, {added} added, {expected} expected; "
            f"the new version would have {_total(after)} rows{': ' if more else ''}{'; '.join(more)}. "
            "Nothing was published. Trying again does not help; please report this as a bug of the "
            "program that computed the change"
        )


@dataclass(frozen=True, slots=True)
class _Scope:
    """The fragments that an operation names.

    Attributes
    ----------
    leaving
        The ids of fragments that are removed.
    changing
        The ids of fragments that are changed; None for any of them.
    shrinks
        Whether rows of these may be deleted.
    new
        The new fragments.
    """

    leaving: Numbers
    changing: Numbers | None
    shrinks: bool = False
    new: tuple[Fragment, ...] = ()

    @classmethod
    def of(cls, operation: Operation, before: FragmentList) -> _Scope:
        match operation:
            case Append(fragments):
                return cls(_NO_IDS, _NO_IDS, new=fragments)
            case Delete(updated, gone):
                return cls(_ids(gone), _ids_of(updated), shrinks=True)
            case Update(gone, updated, new):
                return cls(_ids(gone), _ids_of(updated), shrinks=True, new=new)
            case Rewrite(groups):
                old = _ids_of(fragment for group in groups for fragment in group.old_fragments)
                return cls(old, _NO_IDS, new=tuple(new for group in groups for new in group.new_fragments))
            case Merge(fragments):
                known = before.positions(_ids_of(fragments)) >= 0
                new = tuple(each for each, is_known in zip(fragments, known, strict=True) if not is_known)
                return cls(_NO_IDS, None, new=new)
            case Project():
                return cls(_NO_IDS, None)
            case DataReplacement(replacements):
                return cls(_NO_IDS, _ids(fragment_id for fragment_id, _ in replacements))
            case _:
                return cls(_NO_IDS, _NO_IDS)

    @property
    def added(self) -> int:
        """The number of rows that the operation itself adds."""
        return sum(fragment.physical_rows for fragment in self.new)


class _Pair:
    """A comparison of the fragments of two versions.

    Attributes
    ----------
    lost
        For each previous fragment, how many live rows it lost.
    num_new
        Rows in new fragments.
    is_unknown
        For each previous fragment, whether its row count in the new version is unknown.
    """

    def __init__(self, before: FragmentList, after: FragmentList, scope: _Scope) -> None:
        self._before, self._after, self._scope = before, after, scope
        self._stays = np.ones(len(before), np.bool_)
        if len(scope.leaving):
            self._stays = ~np.isin(before.ids, scope.leaving)
        self._now = _positions_after(before, after, self._stays)
        self._missing = self._stays & (self._now < 0)
        self._here = np.flatnonzero(self._stays & ~self._missing)
        now = self._now[self._here]
        is_new = np.ones(len(after), np.bool_)
        is_new[now] = False
        live = _live(after)
        self.lost: Numbers = _live(before).copy()
        self.lost[self._here] -= live[now]
        self.num_new = int(live[is_new].sum())
        self.is_unknown = np.zeros(len(before), np.bool_)
        self.is_unknown[self._here] = (after.has_deletions & (after.num_deleted == 0))[now]
        self._changes = np.ones(len(before), np.bool_)
        if scope.changing is not None:
            self._changes = np.isin(before.ids, scope.changing) if len(scope.changing) else ~self._changes

    def faults(self) -> Iterator[str]:
        """Yield faults that no operation of this kind may have, whatever it states."""
        ids = self._before.ids
        if self._missing.any():
            yield f"{_named(ids[self._missing])} would be removed without being listed in the operation"
        here, now = self._here, self._now[self._here]
        if (gained := here[self.lost[here] < 0]).size:
            yield f"{_named(ids[gained])} would regain deleted rows, or gain rows"
        other = self._before.physical_rows[here] != self._after.physical_rows[now]
        if other.any():
            yield f"{_named(ids[here[other]])} would have a different number of physical rows"
        if self._scope.changing is None:
            return
        same = ~self._changes[here]
        if not self._before.is_same(here[same], self._after, now[same]):
            yield "fragments would change without being listed in the operation"

    def undue_losses(self) -> Iterator[str]:
        """Yield faults for fragments that would lose rows, though the operation does not name them."""
        may = ~self._stays
        if self._scope.shrinks:
            may |= self._changes
        undue = (self.lost > 0) & ~may & ~self._missing & ~self.is_unknown
        if undue.any():
            yield f"{_named(self._before.ids[undue])} would lose rows without being listed in the operation"


_NO_IDS: Final[Numbers] = np.empty(0, np.int64)


def _positions_after(before: FragmentList, after: FragmentList, stays: Flags) -> npt.NDArray[np.intp]:
    """Return the position of each previous fragment in ``after``; -1 if it is missing or does not stay."""
    count = len(before)
    if stays.all() and np.array_equal(before.ids, after.ids[:count]):
        return np.arange(count)
    return np.where(stays, after.positions(before.ids), -1)


def _live(fragments: FragmentList) -> Numbers:
    live: Numbers = fragments.physical_rows - fragments.num_deleted
    return live


def _total(fragments: FragmentList) -> int:
    return int(_live(fragments).sum())


def _wrong(ids: Numbers, lost: Numbers, stated: Numbers) -> Iterator[str]:
    for position in np.flatnonzero(lost != stated).tolist():
        yield (
            f"fragment {ids[position]} would lose {lost[position]} rows, but the operation declares "
            f"{stated[position]}"
        )


def _repeated(fragments: FragmentList) -> list[str]:
    repeated = fragments.repeated_ids()
    return [f"{_named(repeated)} would appear twice"] if len(repeated) else []


def _uneven_groups(operation: Rewrite, before: FragmentList) -> Iterator[str]:
    for group in operation.groups:
        ids = _ids_of(group.old_fragments)
        positions = before.positions(ids)
        old = int(_live(before)[positions[positions >= 0]].sum())
        new = sum(fragment.physical_rows for fragment in group.new_fragments)
        if old != new:
            yield f"{_named(ids)} had {old} rows, the replacement has {new}"


def _twice_in(fragments: Iterable[Fragment]) -> list[str]:
    seen: set[tuple[int | None, str]] = set()
    twice = []
    for fragment in fragments:
        for key in {_key(file) for file in fragment.files}:
            if key in seen:
                twice.append(f"data file {key[1]!r} belongs to several fragments")
            seen.add(key)
    return twice


def _key(file: DataFile) -> tuple[int | None, str]:
    return file.base_id, file.path


def _at(fragments: FragmentList, ids: Numbers) -> list[Fragment]:
    return [fragments[position] for position in fragments.positions(ids).tolist() if position >= 0]


def _ids(values: Iterable[int]) -> Numbers:
    return np.fromiter(values, np.int64)


def _ids_of(fragments: Iterable[Fragment]) -> Numbers:
    return _ids(fragment.id for fragment in fragments)


def _named(ids: Numbers) -> str:
    shown = ", ".join(map(str, ids[:_NUM_SHOWN].tolist()))
    more = f" and {len(ids) - _NUM_SHOWN} more" if len(ids) > _NUM_SHOWN else ""
    return f"fragment{'s' if len(ids) > 1 else ''} {shown}{more}"
