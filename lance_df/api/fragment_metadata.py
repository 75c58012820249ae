"""The description of a fragment, which distributed writers exchange, with the names of pylance."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from lance_df.api.base import DatasetBase
from lance_df.arguments import checked_text, checked_type
from lance_df.errors import InvalidInputError
from lance_df.format import fragments
from lance_df.format.fragments import DeletionFileType, Fragment, Spilled
from lance_df.table.evolution.data_files import describe_data_file

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset
    from lance_df.format.fragments import SequenceRef

_FILE_TYPES = {DeletionFileType.ARROW: "array", DeletionFileType.BITMAP: "bitmap"}


class _Path(str):
    """The path of a data file. It can be called, because it was a method in old releases of pylance."""

    __slots__ = ()

    def __call__(self) -> str:
        warnings.warn("DataFile.path() is deprecated, use DataFile.path", DeprecationWarning, stacklevel=2)
        return str(self)


@dataclass(slots=True)
class DataFile:
    """A data file of a fragment. ``path`` is relative to the data folder of its base."""

    path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.path, str):
            self.path = _Path(self.path)

    @classmethod
    def create(cls, dataset: LanceDataset, path: str, *, base_id: int | None = None) -> Self:
        """Return the description of a file that is already in the data folder of a table or in a base path.

        Raises
        ------
        CorruptDataError
            There is no such file, or it is damaged.
        InvalidInputError
            The file has columns that the table does not have.
        """
        checked_type(dataset, "dataset", DatasetBase, "a LanceDataset")
        checked_text(path, "path")
        return cls._of(describe_data_file(dataset._table, path, base_id=base_id)[0])

    def field_ids(self) -> list[int]:
        """Return the ids of the fields that the file lists."""
        return self.fields

    @classmethod
    def _of(cls, file: fragments.DataFile) -> Self:
        return cls(
            path=file.path,
            fields=list(file.fields),
            column_indices=list(file.column_indices),
            file_major_version=file.major_version,
            file_minor_version=file.minor_version,
            file_size_bytes=file.size_bytes or None,
            base_id=file.base_id,
        )

    def _to_format(self) -> fragments.DataFile:
        if not isinstance(self.path, str):
            raise InvalidInputError(f"path of a data file must be a string, got {self.path!r:.60}")
        return fragments.DataFile(
            path=self.path,
            fields=_integers(self.fields, "fields"),
            column_indices=_integers(self.column_indices, "column_indices"),
            major_version=_integer(self.file_major_version, "file_major_version", bits=32),
            minor_version=_integer(self.file_minor_version, "file_minor_version", bits=32),
            size_bytes=_integer(self.file_size_bytes or 0, "file_size_bytes", bits=62),
            base_id=None if self.base_id is None else _integer(self.base_id, "base_id", bits=32),
        )

    def _to_dict(self) -> dict[str, Any]:
        return {
            "fields": self.fields,
            "column_indices": self.column_indices,
            "file_major_version": self.file_major_version,
            "file_minor_version": self.file_minor_version,
            "file_size_bytes": self.file_size_bytes,
            "base_id": self.base_id,
            "path": self.path,
        }


@dataclass(slots=True)
class DeletionFile:
    """A deletion file. ``file_type`` is ``"array"`` or ``"bitmap"``."""

    read_version: int
    id: int
    file_type: str
    num_deleted_rows: int
    base_id: int | None = None

    def asdict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return {
            "read_version": self.read_version,
            "id": self.id,
            "file_type": self.file_type,
            "num_deleted_rows": self.num_deleted_rows,
            "base_id": self.base_id,
        }

    def json(self) -> str:
        """Return the fields as JSON."""
        return json.dumps(self.asdict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `json` returned.

        Raises
        ------
        InvalidInputError
            The text is not one that `json` returns.
        """
        try:
            return cls(**_parsed(text))
        except TypeError as err:
            raise InvalidInputError(f"not a deletion file as JSON: {text!r:.80}") from err

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """Return the path, below ``base_uri`` if it is given."""
        suffix = "bin" if self.file_type == "bitmap" else "arrow"
        path = f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{suffix}"
        return path if base_uri is None else f"{base_uri.rstrip('/')}/{path}"

    @classmethod
    def _of(cls, file: fragments.DeletionFile) -> Self:
        return cls(
            read_version=file.read_version,
            id=file.id,
            file_type=_FILE_TYPES[file.file_type],
            num_deleted_rows=file.num_deleted_rows,
            base_id=file.base_id,
        )

    def _to_format(self) -> fragments.DeletionFile:
        types = {name: file_type for file_type, name in _FILE_TYPES.items()}
        if self.file_type not in types:
            raise InvalidInputError(f"file_type is {self.file_type!r}, expected 'array' or 'bitmap'")
        return fragments.DeletionFile(
            file_type=types[self.file_type],
            read_version=_integer(self.read_version, "read_version", bits=64),
            id=_integer(self.id, "id of a deletion file", bits=64),
            num_deleted_rows=_integer(self.num_deleted_rows, "num_deleted_rows", bits=32),
            base_id=None if self.base_id is None else _integer(self.base_id, "base_id", bits=32),
        )


@dataclass(slots=True)
class FragmentMetadata:
    """The description of a fragment in the manifest.

    The ``…_meta`` attributes are the serialized sequences of row ids and row versions, or ``None`` if the
    fragment has none.
    """

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_id_meta: bytes | None = None
    created_at_version_meta: bytes | None = None
    last_updated_at_version_meta: bytes | None = None
    overlays: list[object] = field(default_factory=list)

    @property
    def num_deletions(self) -> int:
        """Return the number of deleted rows, as recorded in the manifest."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Return the number of rows that are not deleted."""
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
        """Return the data files."""
        return self.files

    def to_json(self) -> dict[str, Any]:
        """Return a dict for `json.dumps`, in the layout of pylance."""
        return {
            "id": self.id,
            "files": [file._to_dict() for file in self.files],
            "overlays": self.overlays,
            "physical_rows": self.physical_rows,
            "deletion_file": None if self.deletion_file is None else self.deletion_file.asdict(),
            "row_id_meta": _sequence_to_json(self.row_id_meta, "Inline"),
            "created_at_version_meta": _sequence_to_json(self.created_at_version_meta, "inline"),
            "last_updated_at_version_meta": _sequence_to_json(self.last_updated_at_version_meta, "inline"),
        }

    @classmethod
    def from_json(cls, json_data: str) -> Self:
        """Parse JSON text of a dict that `to_json` of this class or of pylance returned.

        Raises
        ------
        InvalidInputError
            The text is not such JSON.
        """
        values = _parsed(json_data)
        try:
            deletion_file = values.get("deletion_file")
            return cls(
                id=values["id"],
                files=[DataFile(**file) for file in values["files"]],
                physical_rows=values["physical_rows"],
                deletion_file=None if deletion_file is None else DeletionFile(**deletion_file),
                row_id_meta=_sequence_from_json(values.get("row_id_meta")),
                created_at_version_meta=_sequence_from_json(values.get("created_at_version_meta")),
                last_updated_at_version_meta=_sequence_from_json(values.get("last_updated_at_version_meta")),
                overlays=list(values.get("overlays") or []),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as err:
            raise InvalidInputError(f"not fragment metadata as JSON: {json_data!r:.80}") from err

    @classmethod
    def _of(cls, fragment: Fragment) -> Self:
        return cls(
            id=fragment.id,
            files=[DataFile._of(file) for file in fragment.files],
            physical_rows=fragment.physical_rows,
            deletion_file=None
            if fragment.deletion_file is None
            else DeletionFile._of(fragment.deletion_file),
            row_id_meta=_inline(fragment.row_ids),
            created_at_version_meta=_inline(fragment.created_at),
            last_updated_at_version_meta=_inline(fragment.last_updated_at),
        )

    def _to_format(self) -> Fragment:
        return Fragment(
            id=_integer(self.id, "id of a fragment", bits=32),
            files=tuple(file._to_format() for file in self.files),
            deletion_file=None if self.deletion_file is None else self.deletion_file._to_format(),
            physical_rows=_integer(self.physical_rows, "physical_rows", bits=32),
            row_ids=self.row_id_meta,
            created_at=self.created_at_version_meta,
            last_updated_at=self.last_updated_at_version_meta,
        )


def _integer(value: object, name: str, *, bits: int) -> int:
    if type(value) is not int or not 0 <= value < 2**bits:
        raise InvalidInputError(f"{name} must be an integer of {bits} bits, got {value!r:.60}")
    return value


def _integers(values: object, name: str) -> tuple[int, ...]:
    """Check ids and column numbers, which have 32 bits and a sign."""
    if not isinstance(values, list | tuple):
        raise InvalidInputError(f"{name} must be a list of integers, got {values!r:.60}")
    return tuple(
        _integer(value + 2**31 if type(value) is int else value, name, bits=32) - 2**31 for value in values
    )


def _inline(sequence: SequenceRef) -> bytes | None:
    return None if isinstance(sequence, Spilled) else sequence


def _sequence_to_json(data: bytes | None, key: str) -> dict[str, list[int]] | None:
    return None if data is None else {key: list(data)}


def _sequence_from_json(value: Mapping[str, list[int]] | None) -> bytes | None:
    if value is None:
        return None
    (data,) = value.values()
    if not isinstance(data, list):  # of a number, bytes would make as many zeros
        raise TypeError(data)
    return bytes(data)


def _parsed(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (TypeError, ValueError) as err:
        raise InvalidInputError(f"expected JSON text, got {text!r:.80}") from err
    if not isinstance(values, dict):
        raise InvalidInputError(f"expected a JSON object, got {text!r:.80}")
    return values
