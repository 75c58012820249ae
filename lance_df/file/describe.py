"""Describe a data file for people: columns, pages, sizes and the names of encodings."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from lance_df.errors import LanceError
from lance_df.file.open import open_file
from lance_df.file.v2.container import Container
from lance_df.format.encodings_v2_0 import parse_array_encoding
from lance_df.format.page_layout_messages import parse_page_layout
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.file.reader import FileReader
    from lance_df.format.column_metadata import PageInfo
    from lance_df.format.schema import Field, Schema
    from lance_df.storage import ByteSource

_LEGACY_ENCODINGS = {1: "plain", 2: "var-binary", 3: "dictionary", 4: "rle"}
_SHOWN_NUMBERS = (
    "bits_per_value",
    "bits_per_offset",
    "packed_bits",
    "items_per_value",
    "dimension",
    "byte_width",
)
_PARTS = (
    "values",
    "indices",
    "items",
    "offsets",
    "data",
    "binary",
    "run_lengths",
    "children",
    "fields",
    "dictionary",
)


@dataclass(frozen=True, slots=True)
class PageDescription:
    """One page; ``num_rows`` counts list items in 2.0 files."""

    num_rows: int
    num_bytes: int
    encoding: str


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column of a file; ``name`` is the dotted path of the field."""

    name: str
    logical_type: str
    pages: tuple[PageDescription, ...]

    @property
    def num_bytes(self) -> int:
        return sum(page.num_bytes for page in self.pages)


@dataclass(frozen=True, slots=True)
class FileDescription:
    """A whole file."""

    path: str
    version: str
    num_rows: int
    num_bytes: int
    columns: tuple[ColumnDescription, ...]


def describe_file(source: ByteSource, reader: FileReader | None = None) -> FileDescription:
    """Describe a data file of any version; only metadata is read.

    Parameters
    ----------
    source
        The file.
    reader
        The reader of the file, if it is open already.

    Raises
    ------
    LanceError
        As `open_file`. A page with an unknown encoding raises no error, but is described.
    """
    reader = reader or open_file(source)
    columns = _legacy_columns(reader) if reader.version == "0.1" else _columns(Container(source), reader)
    return FileDescription(reader.path, reader.version, reader.num_rows, source.size, tuple(columns))


def _columns(container: Container, reader: FileReader) -> Iterator[ColumnDescription]:
    container.load_columns(range(container.num_columns))
    fields = {
        reader.column_of[field.id]: (name, field)
        for name, field in _named_fields(container.schema)
        if field.id in reader.column_of
    }
    for number in range(container.num_columns):
        name, logical_type = f"column {number}", ""
        if number in fields:
            name, logical_type = fields[number][0], fields[number][1].logical_type
        pages = container.column(number).pages
        yield ColumnDescription(
            name, logical_type, tuple(_page(page, container.version, container.path) for page in pages)
        )


def _page(page: PageInfo, version: str, path: str) -> PageDescription:
    try:
        encoding: Any = (
            parse_array_encoding(page.encoding_url, page.encoding)
            if version == "2.0"
            else parse_page_layout(page.encoding_url, page.encoding, source=path)
        )
        text = encoding_text(encoding)
    except LanceError as error:
        text = f"? {error}"
    return PageDescription(page.num_rows, sum(buffer.num_bytes for buffer in page.buffers), text)


def encoding_text(encoding: Any) -> str:
    """Return a short text for an encoding, for example ``"mini-block(fsst(variable(32)))"``."""
    parts = []
    for name in (field.name for field in dataclasses.fields(encoding)):
        value = getattr(encoding, name)
        if name in ("scheme", "compression") and value:
            parts.append(value)
        elif name in _SHOWN_NUMBERS and value is not None:
            parts.append("+".join(map(str, value)) if isinstance(value, tuple) else str(value))
        elif name in _PARTS and value is not None:
            inner = value if isinstance(value, tuple) else (value,)
            label = "dictionary of " if name == "dictionary" else ""
            parts += [label + encoding_text(part) for part in inner]
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(encoding).__name__.removesuffix("Layout")).lower()
    return f"{title}({', '.join(parts)})" if parts else title


def _legacy_columns(reader: FileReader) -> Iterator[ColumnDescription]:
    for name, field in _named_fields(reader.schema):
        if field.id in reader.column_of and field.encoding in _LEGACY_ENCODINGS:
            yield ColumnDescription(name, field.logical_type, tuple(_legacy_pages(reader, field)))


def _legacy_pages(reader: FileReader, field: Field) -> Iterator[PageDescription]:
    leaf = field if field.is_leaf else field.with_children(())
    pages = reader.page_bytes(leaf)
    ends = [first for first, _ in pages[1:]] + [reader.num_rows]
    for (first, num_bytes), end in zip(pages, ends, strict=True):
        yield PageDescription(end - first, num_bytes, _LEGACY_ENCODINGS[field.encoding])


def _named_fields(schema: Schema) -> Iterator[tuple[str, Field]]:
    def below(prefix: str, field: Field) -> Iterator[tuple[str, Field]]:
        yield prefix + field.name, field
        for child in field.children:
            yield from below(f"{prefix}{field.name}.", child)

    for field in schema.fields:
        yield from below("", field)
