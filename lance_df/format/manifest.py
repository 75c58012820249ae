"""The model of the manifest, which holds everything that one version of a table consists of.

Spec: table format, `Manifest`, `BasePath`, `IndexMetadata`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from lance_df._pb import table_pb2
from lance_df._pb.summary_pb2 import ManifestSummary
from lance_df.cache import PROCESS, CacheKind, Entries
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragment_list import FragmentList
from lance_df.format.messages import parse_message
from lance_df.format.roaring import read_roaring
from lance_df.format.schema import Schema
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap

    from lance_df._pb import file_pb2

NANOS = 1_000_000_000
# from this number on, parsing the manifest again as a summary is faster than reading fragments one by one
_MANY_FRAGMENTS = 64
_FIRST_GOOD_COVERAGE = (0, 8, 15)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MAX_ROW_IDS = 2**64 - 1
DATA_FORMATS = ("0.1", "2.0", "2.1", "2.2")


@dataclass(frozen=True, slots=True)
class WriterVersion:
    """The library that wrote a manifest, and its semantic version without a leading v."""

    library: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePath:
    """Another folder with files of the table.

    Attributes
    ----------
    path
        An absolute path or a URI.
    is_dataset_root
        Whether ``path`` has the folders of a table; otherwise it contains the files directly.
    """

    id: int
    path: str
    is_dataset_root: bool = False
    name: str | None = None
    origin: table_pb2.BasePath | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_proto(cls, message: table_pb2.BasePath) -> Self:
        return cls(
            id=message.id,
            path=message.path,
            is_dataset_root=message.is_dataset_root,
            name=message.name if message.HasField("name") else None,
            origin=message,
        )

    def to_proto(self) -> table_pb2.BasePath:
        message = table_pb2.BasePath()
        if self.origin is not None:
            message.CopyFrom(self.origin)
        message.id = self.id
        message.path = self.path
        message.is_dataset_root = self.is_dataset_root
        message.ClearField("name")
        if self.name is not None:
            message.name = self.name
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMetadata:
    """One segment of an index; segments of an index share its name.

    Attributes
    ----------
    fields
        Ids of the indexed fields.
    dataset_version
        The version that the index was built from.
    fragment_bitmap
        Serialized set of the covered fragment ids; ``None`` if the coverage is unknown. It may include ids of
        fragments that no longer exist.
    details_type_url, details
        `index_details`: the type URL names the kind of index.
    files
        (path relative to the index folder, size in bytes) of each file; empty if not recorded.
    covering_fields
        Other fields whose values the index holds as well.
    """

    uuid: UUID
    fields: tuple[int, ...]
    name: str
    dataset_version: int
    fragment_bitmap: bytes | None = None
    details_type_url: str | None = None
    details: bytes = b""
    index_version: int | None = None
    created_at_ms: int | None = None
    base_id: int | None = None
    files: tuple[tuple[str, int], ...] = ()
    covering_fields: tuple[int, ...] = ()
    origin: table_pb2.IndexMetadata | None = field(default=None, repr=False, compare=False)

    @property
    def kind(self) -> str | None:
        """The kind of index in lower case, for example ``"btreeindexdetails"``; None in old tables.

        As in pylance, only the name after the last dot of the type URL counts, in any case.
        """
        if self.details_type_url is None:
            return None
        return self.details_type_url.rpartition("/")[2].rpartition(".")[2].lower()

    @property
    def created_at(self) -> dt.datetime | None:
        """When the segment was created, in UTC; None if it is not recorded or outside the calendar."""
        if self.created_at_ms is None:
            return None
        try:
            return _EPOCH + dt.timedelta(milliseconds=self.created_at_ms)
        except OverflowError:
            return None

    def covered_fragments(self) -> BitMap | None:
        """Return the ids of the fragments that were covered when the index was built, or None if unknown.

        Raises
        ------
        CorruptDataError
            The stored set is damaged.
        """
        if self.fragment_bitmap is None:
            return None
        return read_roaring(self.fragment_bitmap, source=f"index {self.name!r} ({self.uuid})")

    @classmethod
    def from_proto(cls, message: table_pb2.IndexMetadata, *, source: str) -> Self:
        """Convert a message.

        Raises
        ------
        CorruptDataError
            The message has no valid uuid.
        """
        if len(message.uuid.uuid) != 16:
            raise CorruptDataError(
                f"{source}: index {message.name!r} has a uuid of {len(message.uuid.uuid)} bytes, expected 16"
            )
        has_details = message.HasField("index_details")
        return cls(
            uuid=UUID(bytes=message.uuid.uuid),
            fields=tuple(message.fields),
            name=message.name,
            dataset_version=message.dataset_version,
            fragment_bitmap=message.fragment_bitmap or None,
            details_type_url=message.index_details.type_url if has_details else None,
            details=message.index_details.value if has_details else b"",
            index_version=message.index_version if message.HasField("index_version") else None,
            created_at_ms=message.created_at if message.HasField("created_at") else None,
            base_id=message.base_id if message.HasField("base_id") else None,
            files=tuple((file.path, file.size_bytes) for file in message.files),
            covering_fields=tuple(message.covering_fields),
            origin=message,
        )

    def to_proto(self) -> table_pb2.IndexMetadata:
        message = table_pb2.IndexMetadata()
        if self.origin is not None:
            message.CopyFrom(self.origin)
            for name in ("fields", "files", "covering_fields", "fragment_bitmap", "index_details"):
                message.ClearField(name)
            for name in ("index_version", "created_at", "base_id"):
                message.ClearField(name)
        message.uuid.uuid = self.uuid.bytes
        message.fields.extend(self.fields)
        message.name = self.name
        message.dataset_version = self.dataset_version
        if self.fragment_bitmap is not None:
            message.fragment_bitmap = self.fragment_bitmap
        if self.details_type_url is not None:
            message.index_details.type_url = self.details_type_url
            message.index_details.value = self.details
        if self.index_version is not None:
            message.index_version = self.index_version
        if self.created_at_ms is not None:
            message.created_at = self.created_at_ms
        if self.base_id is not None:
            message.base_id = self.base_id
        for path, size in self.files:
            message.files.add(path=path, size_bytes=size)
        message.covering_fields.extend(self.covering_fields)
        return message


def parse_indices(data: bytes | pa.Buffer, *, source: str) -> tuple[IndexMetadata, ...]:
    """Parse the index section of a manifest file."""
    section = parse_message(table_pb2.IndexSection, data, source=source, what="the index section")
    return tuple(IndexMetadata.from_proto(message, source=source) for message in section.indices)


def serialize_indices(indices: Iterable[IndexMetadata]) -> bytes:
    """Serialize an index section, without its length prefix."""
    return table_pb2.IndexSection(indices=[index.to_proto() for index in indices]).SerializeToString()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a table.

    Attributes
    ----------
    timestamp_ns
        Commit time in nanoseconds since the epoch, UTC; ``None`` when not recorded.
    max_fragment_id
        The highest fragment id ever used; ``None`` if there never was one. Computed if not recorded.
    data_format
        The file version that the manifest records; ``None`` in old tables. Existing files name their own
        version.
    index_section, transaction_section
        Position of the section in the manifest file; ``None`` if there is none. 0 is a valid position.
    branch
        ``None`` on the main branch.
    origin
        The message that the manifest was read from, without fragments; it preserves unknown fields.
    origin_schema
        The schema in ``origin``.
    """

    version: int
    schema: Schema
    fragments: FragmentList = field(repr=False)
    timestamp_ns: int | None = None
    reader_feature_flags: int = 0
    writer_feature_flags: int = 0
    max_fragment_id: int | None = None
    transaction_file: str = ""
    writer_version: WriterVersion | None = None
    next_row_id: int = 0
    data_format: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    table_metadata: Mapping[str, str] = field(default_factory=dict)
    base_paths: tuple[BasePath, ...] = ()
    branch: str | None = None
    index_section: int | None = None
    transaction_section: int | None = None
    max_allocated_field_id: int | None = None
    origin: table_pb2.Manifest | None = field(default=None, repr=False, compare=False)
    origin_schema: Schema | None = field(default=None, repr=False, compare=False)

    @property
    def timestamp(self) -> dt.datetime | None:
        """Commit time in UTC, truncated to microseconds; None if not recorded or outside the calendar."""
        if self.timestamp_ns is None:
            return None
        try:
            return _EPOCH + dt.timedelta(microseconds=self.timestamp_ns // 1000)
        except OverflowError:
            return None

    @property
    def trusts_index_coverage(self) -> bool:
        """Whether the fragment coverage that indices record is reliable; up to 0.8.14 it is not."""
        writer = self.writer_version
        if writer is None:
            return False
        numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", writer.version)
        if writer.library != "lance" or numbers is None:
            return writer.library != "lance"
        return tuple(map(int, numbers.groups())) >= _FIRST_GOOD_COVERAGE

    @property
    def file_version(self) -> str:
        """The version of new data files.

        Releases before 0.16 recorded none, and 0.16 recorded 0.1 for tables of 2.0 files, too: the existing
        files decide then.
        """
        if self.data_format not in (None, "0.1"):
            return self.data_format
        empty = "2.2" if self.writer_feature_flags & FeatureFlag.V2_FORMAT else "0.1"
        return max(self.fragments.file_versions, default=self.data_format or empty)

    @classmethod
    def parse(cls, data: bytes | pa.Buffer, *, source: str) -> Self:
        """Parse the manifest block of a manifest file.

        Raises
        ------
        CorruptDataError
            The block is not a manifest, or contradicts itself.
        UnsupportedFeatureError
            The manifest names a data format that this release does not know.
        """
        message = parse_message(table_pb2.Manifest, data, source=source, what="the manifest")
        summary = None
        if len(message.fragments) >= _MANY_FRAGMENTS:
            summary = parse_message(ManifestSummary, data, source=source, what="the manifest").fragments
        fragments = FragmentList(message.fragments, source=source, summary=summary)
        # the list keeps the fragments; the rest of the message is copied into every later version
        message.ClearField("fragments")
        schema = _schema(message, source)
        return cls(
            version=message.version,
            schema=schema,
            fragments=fragments,
            timestamp_ns=message.timestamp.seconds * NANOS + message.timestamp.nanos
            if message.HasField("timestamp")
            else None,
            reader_feature_flags=message.reader_feature_flags,
            writer_feature_flags=message.writer_feature_flags,
            max_fragment_id=_max_fragment_id(message, fragments),
            transaction_file=message.transaction_file,
            writer_version=WriterVersion(message.writer_version.library, message.writer_version.version)
            if message.HasField("writer_version")
            else None,
            next_row_id=message.next_row_id,
            data_format=_data_format(message, source),
            config=dict(message.config),
            table_metadata=dict(message.table_metadata),
            base_paths=_base_paths(message, source),
            branch=message.branch if message.HasField("branch") else None,
            index_section=message.index_section if message.HasField("index_section") else None,
            transaction_section=_transaction_section(message),
            max_allocated_field_id=message.max_allocated_field_id
            if message.HasField("max_allocated_field_id")
            else None,
            origin=message,
            origin_schema=schema,
        )

    def serialized(self, *, index_section: int | None, transaction_section: int | None) -> tuple[bytes, Self]:
        """Return the manifest block, and the manifest that parsing the block would return.

        Parameters
        ----------
        index_section, transaction_section
            The positions of these sections in the file that will contain the block.

        Raises
        ------
        CorruptDataError
            The previous version left no row ids for new rows.
        """
        message = self._to_proto()
        if index_section is not None:
            message.index_section = index_section
        if transaction_section is not None:
            message.transaction_section = transaction_section
        # concatenating serialized parts of a message gives the serialized message
        data = message.SerializeToString() + self.fragments.serialize()
        made = dataclasses.replace(
            self,
            index_section=index_section,
            transaction_section=transaction_section,
            origin=message,
            origin_schema=self.schema,
        )
        return data, made

    def _to_proto(self) -> table_pb2.Manifest:
        """Return the message without fragments: the fields of this model, and unknown ones of ``origin``."""
        message = table_pb2.Manifest()
        if self.origin is not None:
            message.CopyFrom(self.origin)
            for name in _REPLACED:
                message.ClearField(name)
        message.version = self.version
        if self.origin is None or self.origin_schema is not self.schema:
            message.ClearField("fields")
            message.ClearField("schema_metadata")
            message.fields.extend(_schema_to_proto(self.schema, self.origin.fields if self.origin else ()))
            message.schema_metadata.update(self.schema.metadata)
        if self.timestamp_ns is not None:
            message.timestamp.seconds, message.timestamp.nanos = divmod(self.timestamp_ns, NANOS)
        message.reader_feature_flags = self.reader_feature_flags
        message.writer_feature_flags = self.writer_feature_flags
        message.transaction_file = self.transaction_file
        if self.next_row_id > MAX_ROW_IDS:
            raise CorruptDataError(
                f"the next row id of version {self.version} would be {self.next_row_id}, expected at most "
                f"{MAX_ROW_IDS}: the manifest of the previous version assigns row ids that are too high"
            )
        message.next_row_id = self.next_row_id
        message.config.update(self.config)
        message.table_metadata.update(self.table_metadata)
        message.base_paths.extend(base.to_proto() for base in self.base_paths)
        if self.writer_version is not None:
            _set_writer(message, self.writer_version)
        if self.data_format is not None:
            message.data_format.file_format = "lance"
            message.data_format.version = self.data_format
        for name in _OPTIONAL:
            if (value := getattr(self, name)) is not None:
                setattr(message, name, value)
        return message


_OPTIONAL: tuple[Any, ...] = ("max_fragment_id", "branch", "max_allocated_field_id")
_REPLACED: tuple[Any, ...] = (
    *_OPTIONAL,
    *("index_section", "transaction_section", "transaction_section_deprecated", "timestamp"),
    *("config", "table_metadata", "base_paths", "data_format"),
)


# Tables of one kind, for example the members of a namespace, share a schema.
_MAX_SCHEMAS = 64
_FIELD_BYTES = 1024
_schemas: Entries[Schema] = PROCESS.part(_MAX_SCHEMAS).entries(CacheKind.SCHEMAS)


def _schema(message: table_pb2.Manifest, source: str) -> Schema:
    key = (
        tuple(field.SerializeToString() for field in message.fields),
        tuple(sorted(message.schema_metadata.items())),
    )
    known = _schemas.find(key)
    if known is not None:
        return known
    schema = Schema.from_proto(message.fields, message.schema_metadata, source=source)
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise CorruptDataError(f"{source}: two columns are called {twice[0]!r}")
    return _schemas.put(key, schema, _FIELD_BYTES * len(message.fields))


def _max_fragment_id(message: table_pb2.Manifest, fragments: FragmentList) -> int | None:
    if message.HasField("max_fragment_id"):
        return message.max_fragment_id
    # Releases before 0.30 did not distinguish 0 from absent.
    return int(fragments.ids.max()) if len(fragments) else None


def _transaction_section(message: table_pb2.Manifest) -> int | None:
    if message.HasField("transaction_section"):
        return message.transaction_section
    if message.HasField("transaction_section_deprecated"):
        return message.transaction_section_deprecated
    return None


def _data_format(message: table_pb2.Manifest, source: str) -> str | None:
    version = message.data_format.version
    if not message.HasField("data_format") or not version:
        return None
    if version not in DATA_FORMATS:
        raise UnsupportedFeatureError(
            f"{source}: data format {version!r} is unknown; this release supports {', '.join(DATA_FORMATS)}"
        )
    return version


def _base_paths(message: table_pb2.Manifest, source: str) -> tuple[BasePath, ...]:
    bases = tuple(BasePath.from_proto(base) for base in message.base_paths)
    if len({base.id for base in bases}) != len(bases):
        raise CorruptDataError(f"{source}: two base paths have the same id")
    return bases


def _set_writer(message: table_pb2.Manifest, writer: WriterVersion) -> None:
    same = (message.writer_version.library, message.writer_version.version) == (
        writer.library,
        writer.version,
    )
    if not same:
        message.ClearField("writer_version")
    message.writer_version.library = writer.library
    message.writer_version.version = writer.version


def _schema_to_proto(schema: Schema, origin: Sequence[file_pb2.Field]) -> list[file_pb2.Field]:
    """Return the fields; what the model lacks is copied from the field of ``origin`` with the same id."""
    before = {message.id: message for message in origin if message.id >= 0}
    return [_merged(before.get(message.id), message) for message in schema.to_proto()]


def _merged(old: file_pb2.Field | None, new: file_pb2.Field) -> file_pb2.Field:
    if old is None:
        return new
    message = type(new)()
    message.CopyFrom(old)
    for name in _MODELLED_FIELD:
        message.ClearField(name)
    message.MergeFrom(new)
    return message


_MODELLED_FIELD: tuple[Any, ...] = (
    *("name", "id", "parent_id", "logical_type", "nullable", "encoding", "dictionary", "extension_name"),
    *("metadata", "unenforced_primary_key", "unenforced_primary_key_position"),
)
