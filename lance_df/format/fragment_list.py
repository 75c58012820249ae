"""The list of all fragments of a version.

A table may have a hundred thousand fragments, so :class:`FragmentList` keeps the protobuf messages that the
manifest was parsed from, answers questions about all fragments with arrays, and makes a :class:`Fragment`
only on access. A list derived from another one takes over its arrays, so the cost of the next version of a
table depends only on what has changed. Spec: table format, `DataFragment`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Self, TypeVar, overload

import numpy as np

from lance_df._pb import table_pb2
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.fragments import FILE_VERSIONS, MAX_FRAGMENT_ID, MAX_ROWS, DataFile, Fragment

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df._pb.summary_pb2 import FragmentsSummary

T = TypeVar("T", bound=np.generic)

# the tag of `fragments` in `Manifest`, which a length follows
_FIELD_TAG = b"\x12"
_NOWHERE = np.array([], dtype=np.intp)
_FACTS = ("physical_rows", "has_deletions", "num_deleted", "num_files", "file_bytes", "version_bits")
# bits of `version_bits`
_VERSION_BITS = {numbers: 1 << bit for bit, numbers in enumerate(FILE_VERSIONS)}
_OTHER_VERSION = 1 << len(FILE_VERSIONS)
# for shorter lists, computing the arrays anew costs less than extending them at each of many small commits
_LONG = 1000


class FragmentList(Sequence[Fragment]):
    """The fragments of one version, in table order. Immutable; items are made on access.

    In some tables of release 0.16, two fragments share an id. Such tables can be read, but not changed.

    The arrays are read-only and have one entry for each fragment:

    - ``ids``: int64
    - ``physical_rows``: int64, 0 where unknown
    - ``has_deletions``: bool, whether there is a deletion file
    - ``num_deleted``: int64, 0 where there is no deletion file or the manifest does not say
    - ``num_files``: int64, data files
    - ``file_bytes``: int64, bytes in the data files, as far as the manifest says
    - ``version_bits``: int64, a bit for each of `FILE_VERSIONS` that a data file has, and one for all others

    Parameters
    ----------
    messages
        The fragments. With a ``summary`` they are not copied, and the list owns them from then on.
    summary
        Counts of all fragments, parsed from the same bytes as the messages by the caller that parses a
        manifest.

    Raises
    ------
    CorruptDataError
        An id is impossible, or another number is, in which case its array raises on access.
    """

    def __init__(
        self,
        messages: Iterable[table_pb2.DataFragment],
        *,
        source: str = "fragments",
        summary: FragmentsSummary | None = None,
    ) -> None:
        self._source = source
        self._listed_rows: list[int] | None = None
        ids = None
        if summary is None or not isinstance(messages, Sequence):
            self._messages: Sequence[table_pb2.DataFragment] = list(messages)
        else:
            self._messages = messages
            ids = self._one_each(summary.ids, messages[0].id if messages else 0)
            self._listed_rows = self._one_each(
                summary.physical_rows, messages[0].physical_rows if messages else 0
            )
            if not summary.deletion_files:
                self.has_deletions = _frozen(np.zeros(len(messages), dtype=np.bool_))
        if ids is None:
            ids = [m.id for m in self._messages]
        self.ids = self._array(ids, limit=MAX_FRAGMENT_ID, what="a fragment id")

    def _one_each(self, counts: Iterable[int], first: int) -> list[int] | None:
        """Return a number for each fragment, or None if some omit the default 0 and it is unknown which.

        If a single number is missing, it is that of the first fragment, whose id mostly is 0.
        """
        numbers = list(counts)
        if len(numbers) + 1 == len(self._messages) and not first:
            numbers.insert(0, 0)
        return numbers if len(numbers) == len(self._messages) else None

    @classmethod
    def of(cls, fragments: Iterable[Fragment], *, source: str = "fragments") -> Self:
        """Make a list of fragments that were built in memory."""
        return cls([fragment.to_proto() for fragment in fragments], source=source)

    @classmethod
    def joined(cls, moved: Iterable[bytes]) -> Self:
        """Make a list of fragments of other tables, as returned by :func:`.moved_if_small`."""
        messages = []
        for number, data in enumerate(moved):
            message = table_pb2.DataFragment.FromString(data)
            message.id = number
            messages.append(message)
        return cls(messages)

    @cached_property
    def physical_rows(self) -> npt.NDArray[np.int64]:
        rows = self._listed_rows or [m.physical_rows for m in self._messages]
        self._listed_rows = None
        return self._array(rows, limit=MAX_ROWS, what="the row count of a fragment")

    @cached_property
    def has_deletions(self) -> npt.NDArray[np.bool_]:
        return _frozen(np.array([m.HasField("deletion_file") for m in self._messages], dtype=np.bool_))

    @cached_property
    def num_deleted(self) -> npt.NDArray[np.int64]:
        sums = np.zeros(len(self), dtype=np.int64)
        positions = np.flatnonzero(self.has_deletions)
        sums[positions] = self._array(
            [self._messages[position].deletion_file.num_deleted_rows for position in positions.tolist()],
            limit=MAX_ROWS,
            what="the number of deleted rows of a fragment",
        )
        return _frozen(sums)

    @cached_property
    def num_files(self) -> npt.NDArray[np.int64]:
        return self._array(
            [len(m.files) for m in self._messages], limit=MAX_ROWS, what="the number of files of a fragment"
        )

    @cached_property
    def file_bytes(self) -> npt.NDArray[np.int64]:
        return self._array(
            [sum(file.file_size_bytes for file in m.files) for m in self._messages],
            limit=2**62,
            what="the size of the files of a fragment",
        )

    @cached_property
    def version_bits(self) -> npt.NDArray[np.int64]:
        return _frozen(np.array([_version_bits(m) for m in self._messages], dtype=np.int64))

    @cached_property
    def file_versions(self) -> frozenset[str]:
        """The versions of all data files.

        Raises
        ------
        UnsupportedFeatureError
            A file has a version that this release does not know.
        """
        bits = int(np.bitwise_or.reduce(self.version_bits))
        if bits & _OTHER_VERSION:
            raise UnsupportedFeatureError(
                "a data file has a format version that this release does not know; it reads 0.1, 2.0, 2.1 "
                "and 2.2"
            )
        return frozenset(FILE_VERSIONS[numbers] for numbers, bit in _VERSION_BITS.items() if bits & bit)

    @cached_property
    def has_any_deletions(self) -> bool:
        """Whether any fragment has a deletion file."""
        if len(self) >= _LONG:
            return bool(self.has_deletions.any())
        return any(m.HasField("deletion_file") for m in self._messages)

    @cached_property
    def is_counted(self) -> bool:
        """Whether all rows and all deleted rows are counted; old releases left counts out."""
        if len(self) >= _LONG:
            return not len(self.uncounted())
        return all(
            (m.physical_rows or not m.files)
            and (not m.HasField("deletion_file") or m.deletion_file.num_deleted_rows)
            for m in self._messages
        )

    def uncounted(self) -> npt.NDArray[np.intp]:
        """Return the indices of fragments that lack a count."""
        is_amiss = (self.physical_rows == 0) & (self.num_files > 0)
        is_amiss |= self.has_deletions & (self.num_deleted == 0)
        return np.flatnonzero(is_amiss)

    @cached_property
    def _is_ascending(self) -> bool:
        return len(self) < 2 or bool((self.ids[1:] > self.ids[:-1]).all())

    @cached_property
    def _positions(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    @cached_property
    def _serialized(self) -> tuple[bytes, list[int]]:
        """The fragments as serialized in a manifest, and the number of bytes of each."""
        parts = [_delimited(message.SerializeToString()) for message in self._messages]
        return b"".join(parts), list(map(len, parts))

    def position(self, fragment_id: int) -> int | None:
        """Return the index of the first fragment with this id, or None."""
        positions = self.positions(np.array([fragment_id], dtype=np.int64))
        return int(positions[0]) if positions[0] >= 0 else None

    def positions(self, fragment_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the index of each fragment id, or -1 if there is no such fragment."""
        order, ordered = self._positions
        if not len(ordered):
            return np.full(len(fragment_ids), -1, dtype=np.intp)
        near = np.minimum(np.searchsorted(ordered, fragment_ids), len(ordered) - 1)
        return np.where(ordered[near] == fragment_ids, order[near], -1)

    def repeated_ids(self) -> npt.NDArray[np.int64]:
        """Return the ids that more than one fragment has."""
        if self._is_ascending:
            return self.ids[:0]
        values, counts = np.unique(self.ids, return_counts=True)
        repeated: npt.NDArray[np.int64] = values[counts > 1]
        return repeated

    def extends(self, other: FragmentList) -> bool:
        """Whether the list begins with all fragments of another list, in the same order."""
        # messages that the two lists share are compared by identity
        count = len(other)
        return count <= len(self) and self._messages[:count] == other._listed()

    def rows_from(self, position: int) -> int:
        """Return the live rows of the fragments from a position on, as far as they are known."""
        return sum(m.physical_rows - m.deletion_file.num_deleted_rows for m in self._messages[position:])

    def is_same(
        self, positions: npt.NDArray[np.intp], other: FragmentList, others: npt.NDArray[np.intp]
    ) -> bool:
        """Whether the fragments at some positions equal those at positions of another list, one by one."""
        return self._messages_at(positions) == other._messages_at(others)

    def _messages_at(self, positions: npt.NDArray[np.intp]) -> list[table_pb2.DataFragment]:
        # messages that the two lists share are compared by identity
        count = len(positions)
        messages = self._listed()
        if np.array_equal(positions, np.arange(count)):
            return messages[:count]
        if count < 2:
            return [messages[position] for position in positions.tolist()]
        return list(itemgetter(*positions.tolist())(messages))

    def _listed(self) -> list[table_pb2.DataFragment]:
        """Return the messages as a list, since a parsed sequence makes them anew at each access."""
        if not isinstance(self._messages, list):
            self._messages = list(self._messages)
        return self._messages

    def edited(
        self,
        *,
        replaced: Mapping[int, Fragment] | None = None,
        removed: Iterable[int] = (),
        added: Iterable[Fragment] = (),
    ) -> FragmentList:
        """Return a list with fragments replaced or removed by id, and others added, in ascending order of id.

        Untouched fragments are not converted.

        Raises
        ------
        CorruptDataError
            Two fragments share an id.
        """
        if len(repeated := self.repeated_ids()):
            raise CorruptDataError(f"{self._source}: two fragments have id {int(repeated[0])}")
        gone = set(removed)
        if not gone and not replaced:
            return self._joined(_NOWHERE, FragmentList.of(added, source=self._source))
        changed = {key: fragment for key, fragment in (replaced or {}).items() if key not in gone}
        outdated = self.positions(np.fromiter((*gone, *changed), np.int64))
        known = self.positions(np.fromiter(changed, np.int64)) >= 0
        new = [fragment for fragment, is_known in zip(changed.values(), known, strict=True) if is_known]
        return self._joined(outdated[outdated >= 0], FragmentList.of([*new, *added], source=self._source))

    def _joined(self, outdated: npt.NDArray[np.intp], new: FragmentList) -> FragmentList:
        """Return the list with new fragments and without those at some positions, ascending by id."""
        if not len(outdated) and new._follows(self):
            return self._extended(new)
        order = None
        if len(outdated):
            order = np.delete(np.arange(len(self) + len(new)), outdated)
        ids = np.concatenate([self.ids, new.ids])
        chosen = ids if order is None else ids[order]
        if not (chosen[1:] > chosen[:-1]).all():
            by_id = np.argsort(chosen, kind="stable")
            order = by_id if order is None else order[by_id]
        return self._chosen(order, new)

    def _follows(self, other: FragmentList) -> bool:
        """Whether the ids of both lists ascend, and those of this list begin after those of the other."""
        if not (self._is_ascending and other._is_ascending):
            return False
        return not len(self) or not len(other) or bool(self.ids[0] > other.ids[-1])

    def _extended(self, new: FragmentList) -> FragmentList:
        """Return the fragments of this list, followed by those of a list that follows it."""
        made = self._chosen(None, new)
        made._is_ascending = True
        for name in ("has_any_deletions", "is_counted"):
            if name in self.__dict__:
                ours, theirs = getattr(self, name), getattr(new, name)
                made.__dict__[name] = ours and theirs if name == "is_counted" else ours or theirs
        return made

    def _chosen(self, order: npt.NDArray[np.intp] | None, new: FragmentList) -> FragmentList:
        """Concatenate this list and another, and return the fragments in ``order``, or all if it is None."""
        made = FragmentList.__new__(FragmentList)
        messages = [*self._listed(), *new._listed()]
        made._messages = messages if order is None else [messages[position] for position in order.tolist()]
        made._source = self._source
        made._listed_rows = None
        for name in ("ids", *(_FACTS if len(self) >= _LONG else ())):
            if name in self.__dict__:
                both = np.concatenate([getattr(self, name), getattr(new, name)])
                made.__dict__[name] = _frozen(both if order is None else both[order])
        if "_serialized" in self.__dict__:
            made.__dict__["_serialized"] = _spliced(self._serialized, new._serialized, order)
        return made

    def with_bases(self, base_of: Callable[[int | None], int | None]) -> FragmentList:
        """Return the fragments with the base path of each data and deletion file mapped by ``base_of``."""
        moved = []
        for message in self._messages:
            copy = table_pb2.DataFragment()
            copy.CopyFrom(message)
            files = [*copy.files, *([copy.deletion_file] if copy.HasField("deletion_file") else ())]
            for file in files:
                base_id = base_of(file.base_id if file.HasField("base_id") else None)
                file.ClearField("base_id")
                if base_id is not None:
                    file.base_id = base_id
            moved.append(copy)
        return FragmentList(moved, source=self._source)

    def files_at(self, position: int) -> tuple[DataFile, ...]:
        """Return only the data files of the fragment at an index."""
        return tuple([DataFile.from_proto(file) for file in self._messages[position].files])

    def to_proto(self) -> Sequence[table_pb2.DataFragment]:
        """Return the messages, which belong to this list: copy one before changing it."""
        return self._messages

    def serialize(self) -> bytes:
        """Serialize the fragments as a part of a manifest."""
        return self._serialized[0]

    def serialized_at(self, positions: Iterable[int]) -> tuple[bytes, ...]:
        """Return the serialized fragments at some indices."""
        return tuple(self._messages[position].SerializeToString() for position in positions)

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fragment, ...]: ...
    def __getitem__(self, index: int | slice) -> Fragment | tuple[Fragment, ...]:
        if isinstance(index, slice):
            return tuple(map(self._fragment, self._messages[index], self.ids[index].tolist()))
        return self._fragment(self._messages[index], int(self.ids[index]))

    def __iter__(self) -> Iterator[Fragment]:
        return map(self._fragment, self._messages, self.ids.tolist())

    def __repr__(self) -> str:
        return f"<FragmentList of {len(self)} fragments>"

    def _fragment(self, message: table_pb2.DataFragment, expected_id: int) -> Fragment:
        if message.id != expected_id:  # if a field occurs twice in a message
            raise CorruptDataError(
                f"{self._source}: fragment id {message.id} does not match the expected id {expected_id}"
            )
        try:
            return Fragment.from_proto(message)
        except UnsupportedFeatureError as err:
            raise UnsupportedFeatureError(f"{self._source}: fragment {message.id}: {err}") from err

    def _array(self, values: list[int], *, limit: int, what: str) -> npt.NDArray[np.int64]:
        if (largest := max(values, default=0)) > limit:
            raise CorruptDataError(f"{self._source}: {what} is {largest}, expected at most {limit}")
        return _frozen(np.array(values, dtype=np.int64))


def num_live_rows(messages: Iterable[table_pb2.DataFragment]) -> int | None:
    """Return the number of rows of fragments that are not deleted, or None if a fragment lacks a count."""
    total = 0
    for message in messages:
        rows, deleted = message.physical_rows, 0
        if message.HasField("deletion_file"):
            deleted = message.deletion_file.num_deleted_rows
            if not deleted:
                return None
        if not rows or not deleted <= rows <= MAX_ROWS:
            return None
        total += rows - deleted
    return total


def _version_bits(message: table_pb2.DataFragment) -> int:
    bits = 0
    for file in message.files:
        bits |= _VERSION_BITS.get((file.file_major_version, file.file_minor_version), _OTHER_VERSION)
    return bits


def _frozen(array: npt.NDArray[T]) -> npt.NDArray[T]:
    array.flags.writeable = False
    return array


def _delimited(message: bytes) -> bytes:
    """Return an entry of a repeated field: tag, length and message."""
    length = len(message)
    varint = bytearray()
    while length > 0x7F:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    varint.append(length)
    return _FIELD_TAG + varint + message


def _spliced(
    first: tuple[bytes, list[int]], second: tuple[bytes, list[int]], order: npt.NDArray[np.intp] | None
) -> tuple[bytes, list[int]]:
    """Return the entries of two serialized lists that ``order`` selects, copied in runs."""
    data, lengths = first[0] + second[0], first[1] + second[1]
    if order is None:
        return data, lengths
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    starts, stops = offsets[order], offsets[order + 1]
    breaks = np.flatnonzero(starts[1:] != stops[:-1]) + 1
    runs = (
        zip(starts[[0, *breaks]].tolist(), stops[[*(breaks - 1), -1]].tolist(), strict=True)
        if len(order)
        else ()
    )
    joined = b"".join(data[start:stop] for start, stop in runs)
    return joined, (stops - starts).tolist()
