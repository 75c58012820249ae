"""Change protobuf messages inside of files and put the files together again, valid but for what they say."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from google.protobuf.any_pb2 import Any

from lance_df._pb import encodings_v2_0_pb2, encodings_v2_1_pb2, file_pb2, rowids_pb2, table_pb2

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

_LENGTH = struct.Struct("<I")
_MANIFEST_FOOTER = struct.Struct("<qHH4s")
_FILE_FOOTER = struct.Struct("<QQQIIHH4s")
_INSIDE = {
    "/lance.encodings.ArrayEncoding": encodings_v2_0_pb2.ArrayEncoding,
    "/lance.encodings.ColumnEncoding": encodings_v2_0_pb2.ColumnEncoding,
    "/lance.encodings21.PageLayout": encodings_v2_1_pb2.PageLayout,
}
_ROW_SEQUENCES = ("inline_row_ids", "inline_created_at_versions", "inline_last_updated_at_versions")
_NUMBERS = (
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**60,
    2**63 - 1,
    2**64 - 1,
)
_TEXTS = (
    "",
    "..",
    "/",
    "a" * 5000,
    "\0",
    "ü",
    "../x",
    "list",
    "struct",
    "int8",
    "string",
    "decimal:128:50:2",
)
_LIMITS = {  # of the C++ types of fields
    1: (-(2**31), 2**31 - 1),
    2: (-(2**63), 2**63 - 1),
    3: (0, 2**32 - 1),
    4: (0, 2**64 - 1),
    8: (-(2**31), 2**31 - 1),
}


def mutate_file(content: bytes, name: str, rng: random.Random) -> bytes:
    """Return a file with one field changed in one of its messages."""
    if name.endswith(".manifest"):
        return mutate_manifest(content, lambda manifest: change(manifest, rng))
    if name.endswith(".txn"):
        return content
    return _mutate_data_file(content, rng)


# -- files ------------------------------------------------------------------------------------------------


def mutate_manifest(content: bytes, alter: Callable[[Message], None]) -> bytes:
    """Return a manifest file whose `Manifest` is altered."""
    position, *rest = _MANIFEST_FOOTER.unpack(content[-_MANIFEST_FOOTER.size :])
    manifest = table_pb2.Manifest.FromString(_block(content, position))
    alter(manifest)
    data = manifest.SerializeToString()
    return content[:position] + _LENGTH.pack(len(data)) + data + _MANIFEST_FOOTER.pack(position, *rest)


def mutate_indices(content: bytes, alter: Callable[[Message], None]) -> bytes:
    """Return a manifest file whose `IndexSection` is altered, and lies behind the manifest."""
    position, *rest = _MANIFEST_FOOTER.unpack(content[-_MANIFEST_FOOTER.size :])
    manifest = table_pb2.Manifest.FromString(_block(content, position))
    section = table_pb2.IndexSection.FromString(_block(content, manifest.index_section))
    alter(section)
    body = content[: -_MANIFEST_FOOTER.size]
    data = section.SerializeToString()
    manifest.index_section = len(body)
    body += _LENGTH.pack(len(data)) + data
    data, position = manifest.SerializeToString(), len(body)
    return body + _LENGTH.pack(len(data)) + data + _MANIFEST_FOOTER.pack(position, *rest)


def forget_sizes(path: Path) -> None:
    """Let a manifest say nothing about the sizes of its files."""

    def forget(manifest: Message) -> None:
        for fragment in manifest.fragments:  # type: ignore[attr-defined]
            for file in fragment.files:
                file.file_size_bytes = 0

    path.write_bytes(mutate_manifest(path.read_bytes(), forget))


def mutate_columns(content: bytes, alter: Callable[[int, Message], None]) -> bytes:
    """Return a 2.x file whose `ColumnMetadata` messages are altered, by number."""
    footer = _FILE_FOOTER.unpack(content[-_FILE_FOOTER.size :])
    columns = list(struct.iter_unpack("<QQ", content[footer[1] : footer[1] + 16 * footer[4]]))
    table, start = b"", len(content)
    body = content
    for number, (offset, size) in enumerate(columns):
        message = file_pb2.ColumnMetadata.FromString(content[offset : offset + size])
        alter(number, message)
        data = message.SerializeToString()
        table += struct.pack("<QQ", len(body), len(data))
        body += data
    return _ended(body + table, footer, start=start, columns=len(body), buffers=None, content=content)


def mutate_descriptor(content: bytes, alter: Callable[[Message], None]) -> bytes:
    """Return a 2.x file whose `FileDescriptor` is altered."""
    footer = _FILE_FOOTER.unpack(content[-_FILE_FOOTER.size :])
    offset, size = struct.unpack_from("<QQ", content, footer[2])
    message = file_pb2.FileDescriptor.FromString(content[offset : offset + size])
    alter(message)
    data = message.SerializeToString()
    body = content + bytes(-len(content) % 64)
    entry = struct.pack("<QQ", len(body), len(data))
    return _ended(body + data, footer, start=footer[0], columns=footer[1], buffers=entry, content=content)


def mutate_page(content: bytes, alter: Callable[[Message], None], *, column: int, page: int = 0) -> bytes:
    """Return a 2.x file in which the encoding of one page is altered."""

    def alter_column(number: int, message: Message) -> None:
        if number == column:
            _alter_encoding(message.pages[page].encoding, alter)  # type: ignore[attr-defined]

    return mutate_columns(content, alter_column)


def _ended(
    body: bytes, footer: tuple[int, ...], *, start: int, columns: int, buffers: bytes | None, content: bytes
) -> bytes:
    old = content[footer[2] : footer[2] + 16 * footer[3]]
    table = old if buffers is None else buffers + old[16:]
    return body + table + _FILE_FOOTER.pack(start, columns, len(body), *footer[3:])


def _block(content: bytes, position: int) -> bytes:
    (length,) = _LENGTH.unpack_from(content, position)
    return content[position + 4 : position + 4 + length]


def _mutate_data_file(content: bytes, rng: random.Random) -> bytes:
    major, minor = struct.unpack("<HH", content[-8:-4])
    if (major, minor) <= (0, 2):
        return _mutate_legacy_file(content, rng)
    if rng.random() < 0.1:
        return mutate_descriptor(content, lambda message: change(message, rng))
    num_columns = _FILE_FOOTER.unpack(content[-_FILE_FOOTER.size :])[4]
    chosen = rng.randrange(max(1, num_columns))

    def alter(number: int, message: Message) -> None:
        if number != chosen:
            return
        pages = message.pages  # type: ignore[attr-defined]
        if pages and rng.random() < 0.75:
            _alter_encoding(rng.choice(pages).encoding, lambda inner: change(inner, rng))
        else:
            change(message, rng)

    return mutate_columns(content, alter)


def _mutate_legacy_file(content: bytes, rng: random.Random) -> bytes:
    position, *rest = _MANIFEST_FOOTER.unpack(content[-_MANIFEST_FOOTER.size :])
    metadata = file_pb2.Metadata.FromString(_block(content, position))
    change(metadata, rng)
    data = metadata.SerializeToString()
    return content + _LENGTH.pack(len(data)) + data + _MANIFEST_FOOTER.pack(len(content), *rest)


def _alter_encoding(encoding: Message, alter: Callable[[Message], None]) -> None:
    wrapped = Any.FromString(encoding.direct.encoding)  # type: ignore[attr-defined]
    inner = _INSIDE[wrapped.type_url].FromString(wrapped.value)
    alter(inner)
    wrapped.value = inner.SerializeToString()
    encoding.direct.encoding = wrapped.SerializeToString()  # type: ignore[attr-defined]


# -- messages -----------------------------------------------------------------------------------------------


def change(message: Message, rng: random.Random) -> None:
    """Change one field, somewhere in a tree of messages."""
    holders = list(_tree(message))
    holder = rng.choice(holders)
    present = [descriptor for descriptor, _ in holder.ListFields()]
    descriptors = present if present and rng.random() < 0.75 else list(holder.DESCRIPTOR.fields)
    if not descriptors:
        return change(message, rng) if len(holders) > 1 else None
    _change_field(holder, rng.choice(descriptors), rng)
    return None


def _tree(message: Message) -> Iterator[Message]:
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for child in value if descriptor.is_repeated else [value]:
            yield from _tree(child)


def _change_field(holder: Message, descriptor: FieldDescriptor, rng: random.Random) -> None:
    name = descriptor.name
    value = getattr(holder, name)
    if rng.random() < 0.15:
        holder.ClearField(name)
    elif descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
        value.clear()
    elif descriptor.is_repeated:
        _change_list(value, descriptor, rng)
    elif descriptor.message_type is not None:
        _replace_message(holder, value, rng)
    elif name in _ROW_SEQUENCES and value:
        sequence = rowids_pb2.RowIdSequence.FromString(value)
        change(sequence, rng)
        setattr(holder, name, sequence.SerializeToString())
    else:
        setattr(holder, name, _other_scalar(descriptor, value, rng))


def _change_list(values: object, descriptor: FieldDescriptor, rng: random.Random) -> None:
    kind = rng.choice(("drop", "repeat", "swap", "alter", "alter"))
    if not len(values) or kind == "repeat":  # type: ignore[arg-type]
        if descriptor.message_type is not None:
            new = rng.choice(values) if len(values) else descriptor.message_type._concrete_class()
            values.add().CopyFrom(new)  # type: ignore[attr-defined]
        else:
            values.append(_other_scalar(descriptor, values[0] if len(values) else None, rng))
    elif kind == "drop":
        del values[rng.randrange(len(values))]  # type: ignore[attr-defined]
    elif kind == "swap":
        values.reverse()  # type: ignore[attr-defined]
    elif descriptor.message_type is None:
        place = rng.randrange(len(values))
        values[place] = _other_scalar(descriptor, values[place], rng)
    else:
        change(rng.choice(values), rng)


def _replace_message(holder: Message, value: Message, rng: random.Random) -> None:
    """Set a message empty, or to another of its type from elsewhere in the tree."""
    value.SetInParent()
    others = [m for m in _tree(holder) if m.DESCRIPTOR is value.DESCRIPTOR and m is not value]
    if others and rng.random() < 0.7:
        copied = type(value)()
        copied.CopyFrom(rng.choice(others))
        value.CopyFrom(copied)
    else:
        value.Clear()
        value.SetInParent()


def _other_scalar(descriptor: FieldDescriptor, value: object, rng: random.Random) -> object:
    if descriptor.type == descriptor.TYPE_STRING:
        return rng.choice(_TEXTS)
    if descriptor.type == descriptor.TYPE_BYTES:
        old = bytes(value or b"")  # type: ignore[arg-type]
        at = rng.randrange(len(old) + 1)
        return rng.choice(
            (b"", old[:at], old + bytes(8), old[:at] + b"\xff" + old[at + 1 :], rng.randbytes(64))
        )
    if descriptor.type == descriptor.TYPE_BOOL:
        return not value
    if descriptor.enum_type is not None:
        return rng.choice([number.number for number in descriptor.enum_type.values] + [99])
    low, high = _LIMITS[descriptor.cpp_type]
    old = int(value or 0)  # type: ignore[call-overload]
    number = rng.choice((*_NUMBERS, -1, old + 1, old - 1, old * 2, old // 2, -old))
    return min(max(number, low), high)
