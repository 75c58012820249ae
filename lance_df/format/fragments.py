"""The model of fragments: horizontal slices of a table, with data files and a deletion file.

Spec: table format, `DataFragment`, `DataFile`, `DeletionFile`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Self, TypeAlias

from lance_df._pb import table_pb2
from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

TOMBSTONE = -2
ROW_ID_FIELD = -3
CREATED_AT_FIELD = -4
LAST_UPDATED_AT_FIELD = -5

MAX_FRAGMENT_ID = 2**32 - 1
MAX_ROWS = 2**32

FILE_VERSIONS = {
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
        The stored path, relative to the data folder of its base path; not checked yet.
    fields
        Field ids. They may include ids that the schema lacks (dropped columns) and negative ones (-2 for
        tombstones, -3 to -5 for hidden columns).
    column_indices
        2.x: the file's column for each entry of ``fields``, or -1. 0.1: empty.
    size_bytes
        0 when unknown.
    base_id
        Key into the manifest's base paths; ``None`` is the table's own root.
    origin
        The message that the file was read from; it preserves unknown fields.
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
            The file has another version.
        """
        version = (self.major_version, self.minor_version)
        if version not in FILE_VERSIONS:
            raise UnsupportedFeatureError(
                f"data file {self.path!r} has format version {version[0]}.{version[1]}; "
                "this release reads 0.1, 2.0, 2.1 and 2.2"
            )
        return FILE_VERSIONS[version]

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

    def without_fields(self, ids: AbstractSet[int]) -> DataFile:
        """Return the file with tombstones instead of some field ids.

        Raises
        ------
        InvalidInputError
            It is a 0.1 file with one of them, whose first id is needed to find its pages.
        """
        if ids.isdisjoint(self.fields):
            return self
        if self.version == "0.1":
            raise InvalidInputError(
                f"{self.path}: single columns of a data file of version 0.1 cannot be replaced; replace all "
                "of its columns"
            )
        fields = tuple(TOMBSTONE if each in ids else each for each in self.fields)
        return dataclasses.replace(self, fields=fields)

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
    """How deleted offsets are stored; the value is the extension of the file name."""

    ARROW = "arrow"
    BITMAP = "bin"


_DELETION_TYPES = (DeletionFileType.ARROW, DeletionFileType.BITMAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """The file with the deleted offsets of one fragment. ``num_deleted_rows`` is 0 if not in the manifest."""

    file_type: DeletionFileType
    read_version: int
    id: int
    num_deleted_rows: int = 0
    base_id: int | None = None
    origin: table_pb2.DeletionFile | None = field(default=None, repr=False, compare=False)

    def name(self, fragment_id: int) -> str:
        """Return the file's name, given the id of its fragment."""
        return f"{fragment_id}-{self.read_version}-{self.id}.{self.file_type}"

    @classmethod
    def from_proto(cls, message: table_pb2.DeletionFile) -> Self:
        """Convert a message.

        Raises
        ------
        UnsupportedFeatureError
            This release does not know the kind of file.
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
    """Marks a sequence that is stored as a hidden column of one of the fragment's data files."""

    COLUMN = "column"


SequenceRef: TypeAlias = bytes | Spilled | None
"""A serialized sequence, the mark that it is a hidden column, or no sequence."""


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
        The message that the fragment was read from; it preserves unknown fields.
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
