"""Fragments: horizontal slices of a table, their data files and their deletion file.

A table may have a hundred thousand fragments, so :class:`FragmentList` keeps them as the protobuf message
that the manifest was parsed from, answers questions about all of them with arrays, and makes a
:class:`Fragment` only when one is asked for. Spec: table format, `DataFragment`, `DataFile`, `DeletionFile`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeAlias, overload

import numpy as np

from lance_df._pb import table_pb2
from lance_df.errors import CorruptDataError, UnsupportedFeatureError

if TYPE_CHECKING:
    import numpy.typing as npt

TOMBSTONE = -2
ROW_ID_FIELD = -3
CREATED_AT_FIELD = -4
LAST_UPDATED_AT_FIELD = -5

MAX_FRAGMENT_ID = 2**32 - 1
MAX_ROWS = 2**32

_FILE_VERSIONS = {
    (0, 0): "0.1",
    (0, 1): "0.1",
    (0, 2): "0.1",
    (0, 3): "2.0",
    (2, 0): "2.0",
    (2, 1): "2.1",
    (2, 2): "2.2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file that holds some columns of all rows of a fragment.

    Attributes
    ----------
    path
        As stored: relative to the data folder of its base, not yet checked.
    fields
        Field ids; ids that the schema lacks (dropped columns) and negative ones (-2 tombstones, -3 to -5
        hidden columns) may be among them.
    column_indices
        2.x: the file's column for each entry of ``fields``, or -1. 0.1: empty.
    size_bytes
        0 when unknown.
    base_id
        Key into the manifest's base paths; ``None`` is the table's own root.
    origin
        The message it was read from; unknown fields survive in it.
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...] = ()
    major_version: int = 2
    minor_version: int = 0
    size_bytes: int = 0
    base_id: int | None = None
    origin: table_pb2.DataFile | None = field(default=None, repr=False, compare=False)

    @property
    def version(self) -> str:
        """``"0.1"``, ``"2.0"``, ``"2.1"`` or ``"2.2"``.

        Raises
        ------
        UnsupportedFeatureError
            Another version.
        """
        found = (self.major_version, self.minor_version)
        if found not in _FILE_VERSIONS:
            raise UnsupportedFeatureError(
                f"data file {self.path!r} has format version {found[0]}.{found[1]}; "
                "this release reads 0.1, 2.0, 2.1 and 2.2"
            )
        return _FILE_VERSIONS[found]

    def column_of(self) -> dict[int, int]:
        """Return the column number of each field id that this 2.x file holds.

        Raises
        ------
        CorruptDataError
            ``fields`` and ``column_indices`` do not match.
        """
        if len(self.fields) != len(self.column_indices):
            raise CorruptDataError(
                f"data file {self.path!r} lists {len(self.fields)} fields, "
                f"but {len(self.column_indices)} column indices"
            )
        columns: dict[int, int] = {}
        for field_id, column in zip(self.fields, self.column_indices, strict=True):
            if field_id not in (TOMBSTONE, -1) and column >= 0:
                columns.setdefault(field_id, column)
        return columns

    @classmethod
    def from_proto(cls, message: table_pb2.DataFile) -> Self:
        return cls(
            path=message.path,
            fields=tuple(message.fields),
            column_indices=tuple(message.column_indices),
            major_version=message.file_major_version,
            minor_version=message.file_minor_version,
            size_bytes=message.file_size_bytes,
            base_id=message.base_id if message.HasField("base_id") else None,
            origin=message,
        )

    def to_proto(self) -> table_pb2.DataFile:
        message = table_pb2.DataFile()
        if self.origin is not None:
            message.CopyFrom(self.origin)
            del message.fields[:], message.column_indices[:]
            message.ClearField("base_id")
        message.path = self.path
        message.fields.extend(self.fields)
        message.column_indices.extend(self.column_indices)
        message.file_major_version = self.major_version
        message.file_minor_version = self.minor_version
        message.file_size_bytes = self.size_bytes
        if self.base_id is not None:
            message.base_id = self.base_id
        return message


class DeletionFileType(StrEnum):
    """How deleted offsets are stored; the value is the file name's extension."""

    ARROW = "arrow"
    BITMAP = "bin"


_DELETION_TYPES = (DeletionFileType.ARROW, DeletionFileType.BITMAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """Where the deleted offsets of one fragment are. ``num_deleted_rows`` 0 means: look into the file."""

    file_type: DeletionFileType
    read_version: int
    id: int
    num_deleted_rows: int = 0
    base_id: int | None = None
    origin: table_pb2.DeletionFile | None = field(default=None, repr=False, compare=False)

    def name(self, fragment_id: int) -> str:
        """Return the file's name for the fragment it belongs to."""
        return f"{fragment_id}-{self.read_version}-{self.id}.{self.file_type}"

    @classmethod
    def from_proto(cls, message: table_pb2.DeletionFile) -> Self:
        """Convert.

        Raises
        ------
        UnsupportedFeatureError
            A kind of file that this release does not know.
        """
        if not 0 <= message.file_type < len(_DELETION_TYPES):
            raise UnsupportedFeatureError(
                f"deletion file type {int(message.file_type)} is unknown; this release reads 0 (Arrow) and "
                "1 (bitmap)"
            )
        return cls(
            file_type=_DELETION_TYPES[message.file_type],
            read_version=message.read_version,
            id=message.id,
            num_deleted_rows=message.num_deleted_rows,
            base_id=message.base_id if message.HasField("base_id") else None,
            origin=message,
        )

    def to_proto(self) -> table_pb2.DeletionFile:
        message = table_pb2.DeletionFile()
        if self.origin is not None:
            message.CopyFrom(self.origin)
            message.ClearField("base_id")
        message.file_type = _DELETION_TYPES.index(self.file_type)  # type: ignore[assignment]
        message.read_version = self.read_version
        message.id = self.id
        message.num_deleted_rows = self.num_deleted_rows
        if self.base_id is not None:
            message.base_id = self.base_id
        return message


class Spilled(Enum):
    """Says that a sequence is a hidden column of one of the fragment's data files."""

    COLUMN = "column"


SequenceRef: TypeAlias = bytes | Spilled | None
"""A serialized sequence, the mark that it is a hidden column, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A horizontal slice of a table.

    Attributes
    ----------
    physical_rows
        Rows in the data files, deleted ones included; 0 when unknown (old tables).
    row_ids, created_at, last_updated_at
        The stable row id sequence, and the two version sequences.
    origin
        The message it was read from; unknown fields survive in it.
    """

    id: int
    files: tuple[DataFile, ...]
    deletion_file: DeletionFile | None = None
    physical_rows: int = 0
    row_ids: SequenceRef = None
    created_at: SequenceRef = None
    last_updated_at: SequenceRef = None
    origin: table_pb2.DataFragment | None = field(default=None, repr=False, compare=False)

    def file_of(self, field_id: int) -> DataFile | None:
        """Return the first data file that lists the field, or None."""
        for file in self.files:
            if field_id in file.fields:
                return file
        return None

    @classmethod
    def from_proto(cls, message: table_pb2.DataFragment) -> Self:
        return cls(
            id=message.id,
            files=tuple(DataFile.from_proto(file) for file in message.files),
            deletion_file=DeletionFile.from_proto(message.deletion_file)
            if message.HasField("deletion_file")
            else None,
            physical_rows=message.physical_rows,
            row_ids=_sequence(message, "row_id_sequence"),
            created_at=_sequence(message, "created_at_version_sequence"),
            last_updated_at=_sequence(message, "last_updated_at_version_sequence"),
            origin=message,
        )

    def to_proto(self) -> table_pb2.DataFragment:
        message = table_pb2.DataFragment()
        if self.origin is not None:
            message.CopyFrom(self.origin)
            del message.files[:]
            message.ClearField("deletion_file")
        message.id = self.id
        message.physical_rows = self.physical_rows
        message.files.extend(file.to_proto() for file in self.files)
        if self.deletion_file is not None:
            message.deletion_file.CopyFrom(self.deletion_file.to_proto())
        _set_sequence(message, "row_id_sequence", self.row_ids)
        _set_sequence(message, "created_at_version_sequence", self.created_at)
        _set_sequence(message, "last_updated_at_version_sequence", self.last_updated_at)
        return message


_SEQUENCE_ARMS = {
    "row_id_sequence": ("inline_row_ids", "column_row_ids"),
    "created_at_version_sequence": ("inline_created_at_versions", "column_created_at_versions"),
    "last_updated_at_version_sequence": (
        "inline_last_updated_at_versions",
        "column_last_updated_at_versions",
    ),
}


def _sequence(message: table_pb2.DataFragment, oneof: str) -> SequenceRef:
    arm = message.WhichOneof(oneof)
    inline, _ = _SEQUENCE_ARMS[oneof]
    if arm is None:
        return None
    return getattr(message, inline) if arm == inline else Spilled.COLUMN


def _set_sequence(message: table_pb2.DataFragment, oneof: str, value: SequenceRef) -> None:
    inline, column = _SEQUENCE_ARMS[oneof]
    message.ClearField(inline)
    message.ClearField(column)
    if isinstance(value, Spilled):
        getattr(message, column).SetInParent()
    elif value is not None:
        setattr(message, inline, value)


class FragmentList(Sequence[Fragment]):
    """The fragments of one version, in table order. Immutable; items are made on access.

    Tables of release 0.16 exist in which two fragments share an id. They can be read, but not changed.

    The arrays are read-only and have one entry for each fragment:

    - ``ids``: int64
    - ``physical_rows``: int64, 0 where unknown
    - ``has_deletions``: bool, whether there is a deletion file
    - ``num_deleted``: int64, 0 where there is no deletion file or the manifest does not say
    - ``num_files``: int64, data files
    - ``file_bytes``: int64, bytes in the data files, as far as the manifest says

    Raises
    ------
    CorruptDataError
        An id or, when it is asked for, another number is impossible.
    """

    def __init__(self, messages: Sequence[table_pb2.DataFragment], *, source: str = "fragments") -> None:
        self._messages = messages
        self._source = source
        self.ids = self._array([m.id for m in messages], limit=MAX_FRAGMENT_ID, what="a fragment id")

    @classmethod
    def of(cls, fragments: Iterable[Fragment], *, source: str = "fragments") -> Self:
        """Make a list of fragments that were built in memory."""
        return cls([fragment.to_proto() for fragment in fragments], source=source)

    @cached_property
    def physical_rows(self) -> npt.NDArray[np.int64]:
        return self._array(
            [m.physical_rows for m in self._messages], limit=MAX_ROWS, what="the row count of a fragment"
        )

    @cached_property
    def has_deletions(self) -> npt.NDArray[np.bool_]:
        found = np.array([m.HasField("deletion_file") for m in self._messages], dtype=np.bool_)
        found.flags.writeable = False
        return found

    @cached_property
    def num_deleted(self) -> npt.NDArray[np.int64]:
        found = np.zeros(len(self), dtype=np.int64)
        positions = np.flatnonzero(self.has_deletions)
        found[positions] = self._array(
            [self._messages[position].deletion_file.num_deleted_rows for position in positions.tolist()],
            limit=MAX_ROWS,
            what="the number of deleted rows of a fragment",
        )
        found.flags.writeable = False
        return found

    @cached_property
    def num_files(self) -> npt.NDArray[np.int64]:
        return self._array([len(m.files) for m in self._messages], limit=MAX_ROWS, what="a number of files")

    @cached_property
    def file_bytes(self) -> npt.NDArray[np.int64]:
        return self._array(
            [sum(file.file_size_bytes for file in m.files) for m in self._messages],
            limit=2**62,
            what="the size of the files of a fragment",
        )

    @cached_property
    def _positions(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def position(self, fragment_id: int) -> int | None:
        """Return the index of the (first) fragment with this id, or None."""
        found = self.positions(np.array([fragment_id], dtype=np.int64))
        return int(found[0]) if found[0] >= 0 else None

    def positions(self, fragment_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the index of each fragment id; -1 where there is no such fragment."""
        order, ordered = self._positions
        if not len(ordered):
            return np.full(len(fragment_ids), -1, dtype=np.intp)
        near = np.minimum(np.searchsorted(ordered, fragment_ids), len(ordered) - 1)
        return np.where(ordered[near] == fragment_ids, order[near], -1)

    def edited(
        self,
        *,
        replaced: Mapping[int, Fragment] | None = None,
        removed: Iterable[int] = (),
        added: Iterable[Fragment] = (),
    ) -> FragmentList:
        """Return a list with some fragments replaced or removed by id, and others added, ascending by id.

        Untouched fragments are not converted.

        Raises
        ------
        CorruptDataError
            Two fragments share an id.
        """
        if len(np.unique(self.ids)) != len(self.ids):
            values, counts = np.unique(self.ids, return_counts=True)
            raise CorruptDataError(f"{self._source}: two fragments have id {int(values[counts > 1][0])}")
        gone = frozenset(removed)
        new = {fragment_id: fragment.to_proto() for fragment_id, fragment in (replaced or {}).items()}
        ids = self.ids.tolist()
        kept = [
            new.get(fragment_id, message)
            for fragment_id, message in zip(ids, self._messages, strict=True)
            if fragment_id not in gone
        ]
        kept += (fragment.to_proto() for fragment in added)
        kept.sort(key=operator.attrgetter("id"))
        return FragmentList(kept, source=self._source)

    def with_bases(self, base_of: Callable[[int | None], int | None]) -> FragmentList:
        """Return a list whose data and deletion files lie in other base paths, by their former ids."""
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

    def to_proto(self) -> Sequence[table_pb2.DataFragment]:
        """Return the messages, which belong to this list: copy before changing one."""
        return self._messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fragment, ...]: ...
    def __getitem__(self, index: int | slice) -> Fragment | tuple[Fragment, ...]:
        if isinstance(index, slice):
            return tuple(self._fragment(message) for message in self._messages[index])
        return self._fragment(self._messages[index])

    def __iter__(self) -> Iterator[Fragment]:
        return (self._fragment(message) for message in self._messages)

    def __repr__(self) -> str:
        return f"<FragmentList of {len(self)} fragments>"

    def _fragment(self, message: table_pb2.DataFragment) -> Fragment:
        try:
            return Fragment.from_proto(message)
        except UnsupportedFeatureError as err:
            raise UnsupportedFeatureError(f"{self._source}: fragment {message.id}: {err}") from err

    def _array(self, values: list[int], *, limit: int, what: str) -> npt.NDArray[np.int64]:
        try:
            array = np.array(values, dtype=np.uint64)
        except OverflowError as err:  # a sum
            raise CorruptDataError(f"{self._source}: {what} is {max(values)}, more than {limit}") from err
        if len(array) and (largest := int(array.max())) > limit:
            raise CorruptDataError(f"{self._source}: {what} is {largest}, more than {limit}")
        converted = array.astype(np.int64)
        converted.flags.writeable = False
        return converted
