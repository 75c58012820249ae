"""What a writer of Lance tables must get right, checked on the raw protobuf of every version.

Independent of the package's own models: bytes, generated messages, and pylance for what is in the files.
Spec: table format, chapter 17.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lance_df._pb import file_pb2, rowids_pb2, table_pb2, transaction_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PAIRED_FLAGS = (256, 1024, 16384, 65536)
DATA_FORMATS = ("0.1", "2.0", "2.1", "2.2")
_V2_BASE = 2**64 - 1


def manifest_paths(root: Path) -> dict[int, Path]:
    """The manifest files of a table by the version in their name."""
    return {version_in(path.name): path for path in (root / "_versions").glob("*.manifest")}


def version_in(name: str) -> int:
    stem = name.removesuffix(".manifest")
    return _V2_BASE - int(stem) if len(stem) == 20 else int(stem)


def read_sections(path: Path) -> tuple[table_pb2.Manifest, list[table_pb2.IndexMetadata], bytes | None]:
    """The manifest, the indices and the bytes of the transaction of a manifest file."""
    data = path.read_bytes()
    (position,) = struct.unpack("<q", data[-16:-8])
    manifest = table_pb2.Manifest.FromString(_block(data, position))
    indices: list[table_pb2.IndexMetadata] = []
    if manifest.HasField("index_section"):
        indices.extend(table_pb2.IndexSection.FromString(_block(data, manifest.index_section)).indices)
    transaction = (
        _block(data, manifest.transaction_section) if manifest.HasField("transaction_section") else None
    )
    return manifest, indices, transaction


def write_sections(
    path: Path,
    manifest: table_pb2.Manifest,
    indices: Iterable[table_pb2.IndexMetadata],
    transaction: bytes | None,
) -> None:
    """Replace a manifest file; dictionaries of 0.1 are lost."""
    content = b""
    manifest.ClearField("index_section")
    manifest.ClearField("transaction_section")
    section = table_pb2.IndexSection(indices=indices)
    if section.indices:
        manifest.index_section = 0
        content = _with_length(section.SerializeToString())
    if transaction is not None:
        manifest.transaction_section = len(content)
        content += _with_length(transaction)
    footer = struct.pack("<qHH4s", len(content), 0, 2, b"LANC")
    path.write_bytes(content + _with_length(manifest.SerializeToString()) + footer)


def _block(data: bytes, position: int) -> bytes:
    (length,) = struct.unpack("<I", data[position : position + 4])
    assert position + 4 + length <= len(data) - 16
    return data[position + 4 : position + 4 + length]


def _with_length(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def problems(root: Path, since: int = 1) -> list[str]:
    """What is wrong with a local table: one line each, over all its versions from one on."""
    paths = manifest_paths(root)
    found = list(_name_problems(paths))
    versions = sorted(version for version in paths if version >= since)
    previous = read_sections(paths[since - 1])[0] if since > 1 else None
    for version in versions:
        manifest, indices, transaction = read_sections(paths[version])
        found += [
            f"version {version}: {problem}"
            for problem in (
                *_manifest_problems(manifest, version),
                *_schema_problems(manifest),
                *_history_problems(previous, manifest),
                *_transaction_problems(transaction),
                *_fragment_problems(root, manifest),
                *_row_id_problems(manifest),
                *_index_problems(manifest, indices),
            )
        ]
        previous = manifest
    return found or [problem for version in versions for problem in _silent_problems(root, version)]


def _name_problems(paths: dict[int, Path]) -> Iterator[str]:
    if len({len(path.name) == 20 + len(".manifest") for path in paths.values()}) > 1:
        yield "naming schemes are mixed"


def _manifest_problems(manifest: table_pb2.Manifest, version: int) -> Iterator[str]:
    if manifest.version != version:
        yield f"says to be version {manifest.version}"
    if manifest.data_format.version not in DATA_FORMATS or manifest.data_format.file_format != "lance":
        yield f"data format {manifest.data_format}"
    if not manifest.timestamp.seconds or not manifest.writer_version.library:
        yield "no timestamp or writer"
    if not re.fullmatch(r"\d+\.\d+\.\d+", manifest.writer_version.version):
        yield f"writer version {manifest.writer_version.version!r}"
    reader, writer = manifest.reader_feature_flags, manifest.writer_feature_flags
    if any((reader ^ writer) & flag for flag in PAIRED_FLAGS):
        yield f"paired flags: {reader} and {writer}"
    if (reader | writer) >= 2 * max(PAIRED_FLAGS):
        yield f"unknown flags: {reader} and {writer}"
    if any(fragment.HasField("deletion_file") for fragment in manifest.fragments) and not reader & writer & 1:
        yield "deletion files without their flag"
    ids = [fragment.id for fragment in manifest.fragments]
    if ids != sorted(set(ids)):
        yield f"fragment ids {ids}"
    if ids and (not manifest.HasField("max_fragment_id") or manifest.max_fragment_id < max(ids)):
        yield f"max_fragment_id {manifest.max_fragment_id} below fragment {max(ids)}"


def _schema_problems(manifest: table_pb2.Manifest) -> Iterator[str]:
    seen: set[int] = set()
    for field in manifest.fields:
        if field.id in seen or field.id < 0:
            yield f"field id {field.id} of {field.name!r}"
        if field.parent_id != -1 and field.parent_id not in seen:
            yield f"parent {field.parent_id} of {field.name!r} is no earlier field"
        if manifest.data_format.version == "0.1" and field.type == file_pb2.Field.LEAF and not field.encoding:
            yield f"no encoding of {field.name!r}"
        if not re.fullmatch(r"[a-z0-9_]+(:[\w,.:-]+)*", field.logical_type):
            yield f"logical type {field.logical_type!r} of {field.name!r}"
        seen.add(field.id)
    if manifest.HasField("max_allocated_field_id") and manifest.max_allocated_field_id < max(seen):
        yield f"max_allocated_field_id {manifest.max_allocated_field_id}"


def _history_problems(previous: table_pb2.Manifest | None, manifest: table_pb2.Manifest) -> Iterator[str]:
    if previous is None:
        return
    for name in ("max_fragment_id", "next_row_id", "max_allocated_field_id"):
        if getattr(manifest, name) < getattr(previous, name):
            yield f"{name} went back"
    for name in ("config", "table_metadata"):
        lost = dict(getattr(previous, name)).keys() - dict(getattr(manifest, name)).keys()
        if lost:
            yield f"{name} lost {lost}"
    if len(manifest.base_paths) < len(previous.base_paths) or manifest.branch != previous.branch:
        yield "base paths or branch lost"


def _transaction_problems(transaction: bytes | None) -> Iterator[str]:
    if transaction is None:
        yield "no transaction"
    elif not transaction_pb2.Transaction.FromString(transaction).uuid:
        yield "a transaction without a uuid"


def _fragment_problems(root: Path, manifest: table_pb2.Manifest) -> Iterator[str]:
    known = {field.id for field in manifest.fields}
    for fragment in manifest.fragments:
        for file in fragment.files:
            for problem in _file_problems(root, manifest, fragment, file, known):
                yield f"fragment {fragment.id}: {file.path}: {problem}"
        told = {field for file in fragment.files for field in file.fields}
        for file in fragment.files:
            if manifest.data_format.version != "0.1":
                untold = known.intersection(own_columns(root / "data" / file.path)) - told
                if untold:
                    yield f"fragment {fragment.id}: {file.path} has fields {untold}, which are not listed"
        if fragment.HasField("deletion_file"):
            for problem in _deletion_problems(root, fragment):
                yield f"fragment {fragment.id}: {problem}"


def _file_problems(
    root: Path,
    manifest: table_pb2.Manifest,
    fragment: table_pb2.DataFragment,
    file: table_pb2.DataFile,
    known: set[int],
) -> Iterator[str]:
    path = root / "data" / file.path
    if "/" in file.path or not re.fullmatch(r"[01]{24}[0-9a-f]{26}\.lance", file.path):
        yield "not a name of a data file"
    size = path.stat().st_size
    if file.file_size_bytes not in (0, size):
        yield f"{size} bytes, not {file.file_size_bytes}"
    legacy = manifest.data_format.version == "0.1"
    named = f"{file.file_major_version}.{file.file_minor_version}"
    if named not in (("0.0", "0.1", "0.2") if legacy else (manifest.data_format.version,)):
        yield f"of version {named}"
    if not known.intersection(file.fields):
        yield f"fields {list(file.fields)} are none of the table's"
    if legacy:
        if file.column_indices or list(file.fields) != sorted(file.fields) or -2 in file.fields:
            yield f"fields {list(file.fields)}, columns {list(file.column_indices)}"
        rows = lance.dataset(root, version=manifest.version).get_fragment(fragment.id).physical_rows
    else:
        yield from _column_problems(path, file)
        rows = lance.file.LanceFileReader(str(path)).metadata().num_rows
    if rows != fragment.physical_rows:
        yield f"{rows} rows, not {fragment.physical_rows}"


def _column_problems(path: Path, file: table_pb2.DataFile) -> Iterator[str]:
    """Compare with the schema that a 2.x file holds itself, whose ids are the table's when it was written."""
    if len(file.fields) != len(file.column_indices):
        yield f"{len(file.fields)} fields in {len(file.column_indices)} columns"
        return
    told = {
        field: column
        for field, column in zip(file.fields, file.column_indices, strict=True)
        if column >= 0 and field >= 0
    }
    own = {field: column for column, field in enumerate(own_columns(path)) if field in file.fields}
    if told != own:
        yield f"columns {told}, the file has {own}"


def own_columns(path: Path) -> list[int]:
    """The field ids of the columns of a 2.x file, as it says itself."""
    data = path.read_bytes()
    (buffers,) = struct.unpack("<Q", data[-24:-16])
    major, minor = struct.unpack("<HH", data[-8:-4])
    start, size = struct.unpack("<QQ", data[buffers : buffers + 16])
    fields = file_pb2.FileDescriptor.FromString(data[start : start + size]).schema.fields
    parents = {field.parent_id for field in fields} if (major, minor) >= (2, 1) else set()
    return [field.id for field in fields if field.id not in parents]


def _deletion_problems(root: Path, fragment: table_pb2.DataFragment) -> Iterator[str]:
    told = fragment.deletion_file
    suffix = "bin" if told.file_type == table_pb2.DeletionFile.BITMAP else "arrow"
    path = root / "_deletions" / f"{fragment.id}-{told.read_version}-{told.id}.{suffix}"
    if suffix == "bin":
        offsets = np.array(BitMap.deserialize(path.read_bytes()).to_array())
    else:
        reader = pa.ipc.open_file(path)
        if reader.num_record_batches != 1:
            yield f"{reader.num_record_batches} batches of deleted rows"
        if reader.schema != pa.schema([pa.field("row_id", pa.uint32(), nullable=False)]):
            yield f"deleted rows as {reader.schema}"
        offsets = reader.read_all().column(0).to_numpy()
    if told.num_deleted_rows not in (0, len(set(offsets.tolist()))):
        yield f"{len(offsets)} rows deleted, not {told.num_deleted_rows}"
    if len(offsets) and offsets.max() >= fragment.physical_rows:
        yield f"row {offsets.max()} deleted of {fragment.physical_rows}"


def _row_id_problems(manifest: table_pb2.Manifest) -> Iterator[str]:
    having = [f for f in manifest.fragments if f.WhichOneof("row_id_sequence")]
    stable = bool(manifest.writer_feature_flags & 2)
    if stable != bool(manifest.reader_feature_flags & 2) or len(having) != stable * len(manifest.fragments):
        yield f"{len(having)} of {len(manifest.fragments)} fragments have row ids, flag {stable}"
    for fragment in having:
        if not rowids_pb2.RowIdSequence.FromString(fragment.inline_row_ids).segments:
            yield f"fragment {fragment.id}: no row ids"


def _index_problems(manifest: table_pb2.Manifest, indices: list[table_pb2.IndexMetadata]) -> Iterator[str]:
    known = {field.id for field in manifest.fields}
    for index in indices:
        covered = BitMap.deserialize(index.fragment_bitmap)
        if covered and covered.max() > manifest.max_fragment_id:
            yield f"index {index.name!r} covers fragment {covered.max()}"
        if not known.issuperset(index.fields):
            yield f"index {index.name!r} is on fields {list(index.fields)}"


def _silent_problems(root: Path, version: int) -> Iterator[str]:
    """What shows in pylance's answers only: counts, nulls, row ids, rows that statistics or indices hide."""
    dataset = lance.dataset(root, version=version)
    manifest, _, _ = read_sections(manifest_paths(root)[version])
    rows = dataset.to_table(columns=["id"])
    if dataset.count_rows() != len(rows):
        yield f"version {version}: {len(rows)} rows, {dataset.count_rows()} counted"
    if rows["id"].null_count:
        yield f"version {version}: {rows['id'].null_count} ids are null"
    for start in range(0, 400, 20):
        condition = (pc.field("id") >= start) & (pc.field("id") < start + 20)
        answer = dataset.to_table(columns=["id"], filter=f"id >= {start} AND id < {start + 20}")
        if not answer.equals(rows.filter(condition)):
            yield f"version {version}: a filter on the ids from {start} finds {len(answer)} rows"
    ids = dataset.scanner(columns=[], with_row_id=True).to_table()["_rowid"].to_numpy()
    if len(np.unique(ids)) != len(ids):
        yield f"version {version}: row ids are there twice"
    if manifest.writer_feature_flags & 2 and len(ids) and ids.max() >= manifest.next_row_id:
        yield f"version {version}: next_row_id {manifest.next_row_id}, there is a row id {ids.max()}"
