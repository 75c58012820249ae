"""Schemas as trees of fields with ids. The ids, not names or positions, tie columns to data files.

Spec: table format, `Field`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field as attribute
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df._pb import file_pb2
from lance_df.cache import PROCESS, CacheKind, Entries
from lance_df.errors import ColumnNotFoundError, CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.format import logical_types
from lance_df.format.depth import MAX_DEPTH, check_depth, levels_within
from lance_df.format.extension_types import extension_metadata
from lance_df.records import dataclass

if TYPE_CHECKING:
    from typing import Self

EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"
BLOB_KEY = "lance-encoding:blob"
BLOB_EXTENSION = b"lance.blob.v2"
# The metadata key by which an Arrow field gives its id. Stored schemas have ids of their own, not this key.
FIELD_ID_KEY = "lance:field_id"
PRIMARY_KEY = "lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION = "lance-schema:unenforced-primary-key:position"
PACKED_KEYS = ("lance-encoding:packed", "packed")

STORED_JSON, SHOWN_JSON = b"lance.json", b"arrow.json"
"""The extension names of JSON: stored in files as binary, shown to users as strings."""
_JSON_STORAGE = {
    "string": (SHOWN_JSON,),
    "large_string": (SHOWN_JSON,),
    "large_binary": (STORED_JSON,),
}

MAX_FIELD_ID = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column, or one node of a nested column.

    ``id`` is unique in a schema and never reused; ``-1`` marks children to which the writer gave no id.
    ``dictionary`` is the (offset, length) of the values of a 0.1 dictionary column in the file that the field
    was read from; ``dictionary_values`` are these values, once they have been read or if they are to be
    written.
    """

    id: int
    name: str
    logical_type: str
    nullable: bool = True
    children: tuple[Field, ...] = ()
    metadata: Mapping[str, bytes] = attribute(default_factory=dict, hash=False)
    dictionary: tuple[int, int] | None = None
    dictionary_values: pa.Array | None = attribute(default=None, repr=False, compare=False)
    encoding: int = 0
    primary_key_position: int | None = None

    def __hash__(self) -> int:
        # cached, since fields are looked up for every window of a scan
        return hash((self.id, self.name))

    @property
    def is_leaf(self) -> bool:
        """Whether the field has no children. (Packed structs and blobs have them, but only one column.)"""
        return not self.children

    @property
    def is_blob(self) -> bool:
        return self.metadata.get(BLOB_KEY, b"").lower() == b"true" or (
            self.metadata.get(EXTENSION_NAME) == BLOB_EXTENSION
        )

    @property
    def is_json(self) -> bool:
        return self.logical_type == "json"

    @property
    def is_packed(self) -> bool:
        """Whether this is a struct stored as one column; for other types the metadata keys have no effect."""
        return self.is_struct and any(self.metadata.get(key, b"").lower() == b"true" for key in PACKED_KEYS)

    @property
    def has_column(self) -> bool:
        """Whether a 2.1 or 2.2 file has a column for this field itself, not for the fields below it."""
        return self.is_leaf or self.is_blob or self.is_packed

    @property
    def is_struct(self) -> bool:
        return self.logical_type == "struct"

    @property
    def is_nested(self) -> bool:
        """Whether the field is a struct or list of fields that files store on their own; a map is a unit."""
        is_unit = self.is_leaf or self.is_packed or self.is_blob
        return not is_unit and (self.is_struct or self.is_list)

    @property
    def is_list(self) -> bool:
        return self.logical_type in logical_types.LIST_TYPES

    def arrow_type(self) -> pa.DataType:
        """Return the Arrow storage type (extension types are named only in the field's metadata).

        Raises
        ------
        CorruptDataError, UnsupportedFeatureError
            The logical type of this field, or of one below it, is impossible or unknown.
        """
        children = [child.to_arrow() for child in self.children]
        try:
            return logical_types.to_arrow(self.logical_type, children)
        except (CorruptDataError, UnsupportedFeatureError) as err:
            raise type(err)(f"field {self.name!r}: {err}") from err

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field, of storage type and with metadata. Raises as `arrow_type` does."""
        data_type = self.arrow_type()
        if pa.types.is_null(data_type) and not self.nullable:  # keys of a map may be such a field
            raise UnsupportedFeatureError(f"field {self.name!r} is of the null type, but declared not null")
        return pa.field(self.name, data_type, self.nullable, _arrow_metadata(self.metadata))

    def walk(self) -> Iterator[Field]:
        """Yield this field and all below it, depth first, parents before children."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def has_dictionary(self) -> bool:
        return self.logical_type.startswith("dict:")

    def with_dictionaries(self, values: Mapping[int, pa.Array]) -> Field:
        """Return the field, and all below it, with the values of dictionaries, given by field id."""
        if self.has_dictionary:
            return dataclasses.replace(self, dictionary_values=values.get(self.id, self.dictionary_values))
        return self.with_children(child.with_dictionaries(values) for child in self.children)

    def leaves(self) -> Iterator[Field]:
        """Yield the fields without children at or below this one."""
        return (node for node in self.walk() if node.is_leaf)

    def with_children(self, children: Iterable[Field]) -> Field:
        """Return the field with other children and the same id."""
        changed = tuple(children)
        return dataclasses.replace(self, children=changed) if changed or self.children else self

    def only(self, ids: frozenset[int] | set[int]) -> Field | None:
        """Return the field reduced to the leaves with the given ids, or None if none of them is left."""
        if self.is_leaf:
            return self if self.id in ids else None
        if self.id in ids and not any(node.id in ids for child in self.children for node in child.walk()):
            return self
        selected = [child for child in (child.only(ids) for child in self.children) if child is not None]
        return self.with_children(selected) if selected else None


class _Derived:
    """The attribute of a schema that is derived from its fields when it is first needed; never pickled."""

    __slots__ = ("_by_name",)
    _by_name: Mapping[str, Field]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(_Derived):
    """The fields of a table or a file, and the Arrow schema metadata."""

    fields: tuple[Field, ...]
    metadata: Mapping[str, bytes] = attribute(default_factory=dict, hash=False)

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    @property
    def by_name(self) -> Mapping[str, Field]:
        """Every top-level field by its name; the first one, if a name occurs twice."""
        try:
            return self._by_name
        except AttributeError:
            by_name = {field.name: field for field in reversed(self.fields)}
            object.__setattr__(self, "_by_name", by_name)
            return by_name

    def walk(self) -> Iterator[Field]:
        """Yield every field, depth first, parents before children."""
        for field in self.fields:
            yield from field.walk()

    def with_dictionaries(self, values: Mapping[int, pa.Array]) -> Schema:
        """Return the schema with the values of 0.1 dictionary columns, given by field id."""
        return dataclasses.replace(
            self, fields=tuple(field.with_dictionaries(values) for field in self.fields)
        )

    @property
    def primary_key(self) -> tuple[int, ...]:
        """The ids of the primary key fields, in the order of the key; their values are meant to be unique."""
        keys = [(field.primary_key_position, field.id) for field in self.walk()]
        return tuple(id_ for position, id_ in sorted(key for key in keys if key[0] is not None))

    @property
    def max_field_id(self) -> int:
        """The highest id in use; -1 for an empty schema."""
        return max((field.id for field in self.walk()), default=-1)

    def by_id(self) -> dict[int, Field]:
        """Return every field by its id."""
        return {field.id: field for field in self.walk()}

    def field(self, name: str) -> Field:
        """Return the top-level field called ``name``.

        Raises
        ------
        ColumnNotFoundError
            There is no such field; the message lists the names that exist.
        """
        if (field := self.by_name.get(name)) is not None:
            return field
        raise ColumnNotFoundError(
            f"column {name!r} does not exist; the columns are {', '.join(map(repr, self.names))}"
        )

    @property
    def arrow_metadata(self) -> dict[bytes, bytes] | None:
        """The metadata in the form that Arrow schemas use; None if there is none."""
        return _arrow_metadata(self.metadata)

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema, of storage types and with all metadata."""
        return pa.schema([field.to_arrow() for field in self.fields], self.arrow_metadata)

    @classmethod
    def from_proto(
        cls, messages: Iterable[file_pb2.Field], metadata: Mapping[str, bytes] | None = None, *, source: str
    ) -> Self:
        """Build the tree from the flat list that manifests and files hold.

        Parameters
        ----------
        messages
            Parents before children, as stored.
        metadata
            Arrow schema metadata.
        source
            The file that the messages came from, for error messages.

        Raises
        ------
        CorruptDataError
            A field names a parent that is not listed before it, or two fields share an id.
        """
        return cls(fields=_build_tree(list(messages), source), metadata=dict(metadata or {}))

    def to_proto(self) -> list[file_pb2.Field]:
        """Return the flat list, parents before children. Copy messages before changing them."""
        known = _recent_messages.find(id(self.fields))
        if known is not None and known[0] is self.fields:
            return list(known[1])
        messages: list[file_pb2.Field] = []
        for field in self.fields:
            _flatten(field, -1, messages)
        _recent_messages.put(id(self.fields), (self.fields, messages), _MESSAGE_BYTES * len(messages))
        return list(messages)


# For writing many tables with the same schemas. An entry holds its fields, so that their `id()` stays theirs.
_MAX_RECENT = 64
_MESSAGE_BYTES = 512
_recent_messages: Entries[tuple[tuple[Field, ...], list[file_pb2.Field]]] = PROCESS.part(_MAX_RECENT).entries(
    CacheKind.SCHEMAS
)


def _arrow_metadata(metadata: Mapping[str, bytes]) -> dict[bytes, bytes] | None:
    """Return metadata that Arrow accepts. It is stored as bytes, but engines rely on UTF-8.

    Keys are sorted, since maps of protobuf have no order; schemas that are written keep the order of the
    user.
    """
    items = sorted(metadata.items())
    return {key.encode(): value.decode("utf-8", "replace").encode() for key, value in items} or None


def _build_tree(messages: Sequence[file_pb2.Field], source: str) -> tuple[Field, ...]:
    children: dict[int, list[int]] = {}
    depth: dict[int, int] = {}
    top: list[int] = []
    blob_parent: int | None = None
    for position, message in enumerate(messages):
        if "\0" in message.name:  # Arrow passes names as C strings
            raise CorruptDataError(f"{source}: the name of field {message.name!r} has a NUL character")
        if message.id == -1 and message.parent_id == -1 and blob_parent is not None:
            # (2.2 files) the descriptor children of a blob column have no ids and follow their parent
            children[messages[blob_parent].id].append(position)
            continue
        if message.id in depth:
            raise CorruptDataError(f"{source}: two fields of the schema have id {message.id}")
        if message.parent_id == -1:
            depth[message.id] = 0
            top.append(position)
        elif message.parent_id in depth:
            depth[message.id] = depth[message.parent_id] + 1
            children[message.parent_id].append(position)
        else:
            raise CorruptDataError(
                f"{source}: field {message.name!r} has parent {message.parent_id}, "
                "which is not a field listed before it"
            )
        if depth[message.id] + levels_within(message.logical_type) > MAX_DEPTH:
            raise CorruptDataError(
                f"{source}: field {message.name!r} is nested deeper than {MAX_DEPTH} levels"
            )
        children[message.id] = []
        blob_parent = position if BLOB_KEY in message.metadata or _is_blob_v2(message) else None

    def build(position: int) -> Field:
        message = messages[position]
        below = children.get(message.id, ()) if message.id != -1 else ()
        return _from_proto(message, tuple(build(child) for child in below))

    return tuple(build(position) for position in top)


def _is_blob_v2(message: file_pb2.Field) -> bool:
    return message.logical_type == "struct" and message.metadata.get(EXTENSION_NAME) == BLOB_EXTENSION


def _from_proto(message: file_pb2.Field, children: tuple[Field, ...]) -> Field:
    return Field(
        id=message.id,
        name=message.name,
        logical_type=message.logical_type,
        nullable=message.nullable,
        children=children,
        metadata=dict(message.metadata),
        dictionary=(message.dictionary.offset, message.dictionary.length)
        if message.HasField("dictionary")
        else None,
        encoding=message.encoding,
        primary_key_position=message.unenforced_primary_key_position
        if message.unenforced_primary_key
        else None,
    )


def _flatten(field: Field, parent_id: int, out: list[file_pb2.Field]) -> None:
    message = file_pb2.Field(
        name=field.name,
        id=field.id,
        parent_id=parent_id,
        logical_type=field.logical_type,
        nullable=field.nullable,
        encoding=field.encoding,  # type: ignore[arg-type]
        metadata=dict(field.metadata),
    )
    if extension := field.metadata.get(EXTENSION_NAME):
        message.extension_name = extension.decode()
    if field.dictionary is not None:
        message.dictionary.offset, message.dictionary.length = field.dictionary
    if field.primary_key_position is not None:
        message.unenforced_primary_key = True
        message.unenforced_primary_key_position = field.primary_key_position
    out.append(message)
    for child in field.children:
        # (2.2 files) a child without an id is not a node of the tree; it follows its parent
        _flatten(child, -1 if child.id == -1 else field.id, out)


def schema_from_arrow(schema: pa.Schema, *, first_id: int = 0) -> Schema:
    """Assign ids depth first from ``first_id`` to the fields of an Arrow schema.

    Raises
    ------
    UnsupportedFeatureError
        The format cannot hold a type, or a type is nested too deeply.
    InvalidInputError
        A key or value of metadata is not UTF-8.
    """
    check_depth(schema)
    next_id = first_id

    def convert(arrow: pa.Field, path: str) -> Field:
        nonlocal next_id
        field_id = next_id
        next_id += 1
        metadata = _decoded_metadata(arrow.metadata, f"field {arrow.name!r}")
        metadata.pop(FIELD_ID_KEY, None)
        data_type = arrow.type
        if isinstance(data_type, pa.BaseExtensionType):
            metadata[EXTENSION_NAME] = data_type.extension_name.encode()
            metadata[EXTENSION_METADATA] = extension_metadata(data_type)
            data_type = data_type.storage_type
        try:
            logical_type = logical_types.from_arrow(data_type)
        except UnsupportedFeatureError as err:
            raise UnsupportedFeatureError(f"column {path!r}: {err}") from err
        if metadata.get(EXTENSION_NAME) in _JSON_STORAGE.get(logical_type, ()):
            logical_type = "json"
            metadata |= {EXTENSION_NAME: STORED_JSON, EXTENSION_METADATA: b""}
        return Field(
            id=field_id,
            name=arrow.name,
            logical_type=logical_type,
            nullable=arrow.nullable,
            children=tuple(convert(child, f"{path}.{child.name}") for child in _child_fields(data_type)),
            metadata=metadata,
            encoding=_legacy_encoding(logical_type),
            primary_key_position=_primary_key_position(metadata),
        )

    fields = tuple(convert(arrow, arrow.name) for arrow in schema)
    return Schema(fields=fields, metadata=_decoded_metadata(schema.metadata, "the schema"))


def check_field_id(field_id: int, source: str) -> None:
    """Check that a new field can have an id.

    Raises
    ------
    CorruptDataError
        The id is too high, because ``source`` claims that impossibly high ids are in use.
    """
    if field_id > MAX_FIELD_ID:
        raise CorruptDataError(
            f"{source}: cannot assign a new field id: ids up to {field_id - 1} are in use, expected ids of "
            f"at most {MAX_FIELD_ID}"
        )


def _decoded_metadata(metadata: Mapping[bytes, bytes] | None, what: str) -> dict[str, bytes]:
    """Return Arrow metadata in the form that is stored; keys and values must be texts.

    Raises
    ------
    InvalidInputError
        A key or value is not UTF-8, which other readers of Lance refuse.
    """
    decoded: dict[str, bytes] = {}
    for key, value in (metadata or {}).items():
        try:
            value.decode()
            decoded[key.decode()] = value
        except UnicodeDecodeError as err:
            where = f"the key {key!r}" if err.object is key else f"a value under {key!r}"
            raise InvalidInputError(f"the metadata of {what} is not UTF-8 text: {where}") from None
    return decoded


def _primary_key_position(metadata: Mapping[str, bytes]) -> int | None:
    """Return the position in the primary key given by Arrow field metadata; 0 if the key has no position."""
    position = metadata.get(PRIMARY_KEY_POSITION, b"")
    if position.isdigit() and len(position) <= 10 and int(position) < 2**32:
        return int(position)
    return 0 if metadata.get(PRIMARY_KEY, b"").lower() in (b"true", b"1", b"yes") else None


def _child_fields(data_type: pa.DataType) -> list[pa.Field]:
    types = pa.types
    if types.is_struct(data_type):
        return list(data_type)
    if types.is_list(data_type) or types.is_large_list(data_type):
        return [data_type.value_field]
    if types.is_map(data_type):
        entries = pa.struct([data_type.key_field.with_nullable(False), data_type.item_field])
        return [pa.field("entries", entries, nullable=False)]
    if types.is_fixed_size_list(data_type) and types.is_struct(data_type.value_type):
        return [data_type.value_field]
    return []


def _legacy_encoding(logical_type: str) -> int:
    """Return `Field.encoding`, which writers to 0.1 tables need; readers of 2.x ignore it."""
    kind = logical_type.partition(":")[0]
    if kind in ("struct", "null", "map"):
        return int(file_pb2.Field.NONE)
    if kind in ("string", "binary", "large_string", "large_binary", "json"):
        return int(file_pb2.Field.VAR_BINARY)
    return int(file_pb2.Field.DICTIONARY if kind == "dict" else file_pb2.Field.PLAIN)
