"""Writes single files with pylance, the same rows as Arrow IPC beside them, and the cases about them."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import lance
import lance.file
import pyarrow as pa

from lance_df.conformance.values import from_table
from lance_df.file import LanceFileReader
from lance_df.file.describe import describe_file, encoding_text
from lance_df.file.v2.container import Container
from lance_df.format.encodings_v2_1 import ConstantLayout, MiniBlockLayout
from lance_df.format.page_layout_messages import parse_page_layout
from lance_df.storage import ByteSource, open_location
from tools.corpus.columns import ALL, SINCE_2_1, ColumnCase, column_cases
from tools.corpus.damages import CONTAINER_DAMAGES, PAGE_DAMAGES, PylanceProcess, flip_bit


def write_files(corpus: Path) -> None:
    """Write ``files`` and ``cases/files.json``."""
    folder = corpus / "files"
    shutil.rmtree(folder, ignore_errors=True)
    cases = [_write(folder, column, version) for column in column_cases() for version in column.versions]
    for version in ALL:
        sound = (folder / version / "type_int32.lance").read_bytes()
        for name, (what, damage) in CONTAINER_DAMAGES.items():
            cases.append(_damaged(folder, version, name, what, damage(sound)))
    with PylanceProcess() as pylance:
        for flip in PAGE_DAMAGES:
            for version in flip.versions:
                content = flip_bit(folder, version, flip, pylance)
                cases.append(_damaged(folder, version, f"page_{flip.name}", flip.sentence, content))
    (corpus / "cases").mkdir(exist_ok=True)
    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (corpus / "cases" / "files.json").write_text(f"[\n{text}\n]\n", "utf-8")


def _write(folder: Path, column: ColumnCase, version: str) -> dict[str, Any]:
    field = pa.field("c", column.array.type, column.nullable, column.metadata or None)
    table = pa.table([column.array], schema=pa.schema([field]))
    path = folder / version / f"{column.name}.lance"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = _legacy(path, table) if version == "0.1" else _file(path, table, version, column.page_bytes)
    ours = LanceFileReader(str(path)).read_all().to_table()
    if from_table(ours) != from_table(rows) or not ours.schema.equals(rows.schema):
        raise SystemExit(f"{path}: pylance reads other rows or types than lance_df")
    arrow = folder / "arrow" / f"{column.name}.arrow"
    content = _ipc(rows)
    if arrow.exists() and arrow.read_bytes() != content:
        arrow = arrow.with_name(f"{column.name}-{version}.arrow")
    arrow.parent.mkdir(exist_ok=True)
    arrow.write_bytes(content)
    source = open_location(str(path)).open()
    encodings = {page.encoding for each in describe_file(source).columns for page in each.pages}
    if version in SINCE_2_1:
        encodings |= _level_encodings(source)
    return {
        "id": f"{version}/{column.name}",
        "sentence": f"{version}: {column.sentence}",
        "encodings": sorted(encodings),
        "operation": "read_file",
        "arguments": {"file": str(path.relative_to(folder.parent))},
        "same_as": {"operation": "read_arrow", "arguments": {"arrow": str(arrow.relative_to(folder.parent))}},
    }


def _level_encodings(source: ByteSource) -> set[str]:
    """Return how levels are encoded, which descriptions of pages leave out."""
    container = Container(source)
    container.load_columns(range(container.num_columns))
    pages = [page for number in range(container.num_columns) for page in container.column(number).pages]
    layouts = [parse_page_layout(page.encoding_url, page.encoding, source=container.path) for page in pages]
    return {
        f"levels of {encoding_text(encoding)}"
        for layout in layouts
        if isinstance(layout, MiniBlockLayout | ConstantLayout)
        for encoding in (layout.repetition, layout.definition)
        if encoding is not None
    }


def _damaged(folder: Path, version: str, name: str, what: str, content: bytes) -> dict[str, Any]:
    path = folder / "damaged" / version / f"{name}.lance"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    arguments = {"file": str(path.relative_to(folder.parent))}
    sentence = f"{version}: {what} is refused"
    return {
        "id": f"{version}/damaged_{name}", "sentence": sentence, "operation": "read_file",
        "arguments": arguments, "error": "refused",
    }  # fmt: skip


def _file(path: Path, table: pa.Table, version: str, page_bytes: int | None) -> pa.Table:
    with lance.file.LanceFileWriter(
        str(path), table.schema, version=version, max_page_bytes=page_bytes
    ) as writer:
        for batch in table.to_batches(max_chunksize=None if page_bytes is None else 300):
            writer.write_batch(batch)
    return lance.file.LanceFileReader(str(path)).read_all().to_table()


def _legacy(path: Path, table: pa.Table) -> pa.Table:
    """Write a table of one file, whose name is of chance, and move the file."""
    with tempfile.TemporaryDirectory() as scratch:
        dataset = lance.write_dataset(table, f"{scratch}/t", data_storage_version="legacy")
        rows = dataset.to_table()
        (written,) = Path(scratch, "t", "data").iterdir()
        shutil.move(written, path)
    return rows


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    bare = table.replace_schema_metadata(None)
    bare = bare.cast(pa.schema([field.remove_metadata() for field in bare.schema]))
    with pa.ipc.new_file(sink, bare.schema) as writer:
        writer.write_table(bare.combine_chunks())
    return sink.getvalue().to_pybytes()
