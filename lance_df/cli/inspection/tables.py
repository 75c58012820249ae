"""The output of `lance-df inspect` for tables and data files, as tables of plain values."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap

from lance_df.file.describe import describe_file
from lance_df.file.open import open_file
from lance_df.records import dataclass
from lance_df.table.open import open_table
from lance_df.table.statistics import bounds_of_files, bounds_of_zone_maps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lance_df.file.describe import ColumnDescription, FileDescription
    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import IndexMetadata
    from lance_df.storage import Location
    from lance_df.table.statistics import ColumnBounds
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table, without ``left_out`` further rows."""

    title: str
    rows: list[dict[str, Any]]
    left_out: int = 0


def inspect_table(
    uri: str, version: int | str | None, storage: Mapping[str, Any] | None, *, limit: int
) -> list[Section]:
    """Describe a version of a table: its history, columns, fragments, indices and statistics.

    Parameters
    ----------
    limit
        How many versions and fragments to describe. Columns and page statistics cover only the described
        fragments.
    """
    table = open_table(uri, version=version, storage_options=storage)
    fragments = list(itertools.islice(table.fragments, limit))
    described = list(_described_fragments(table, fragments))
    readers = [table.open_data_file(fragment, file) for fragment in fragments for file in fragment.files]
    bounds = [*bounds_of_files(readers), *bounds_of_zone_maps(table)]
    files = [file for _, _, files in described for file in files]
    return [
        Section("table", [_summary(table)]),
        _versions(table, limit),
        Section("columns", _columns(files)),
        Section("fragments", [row for row, _, _ in described], max(0, len(table.fragments) - len(described))),
        Section("indices", [_index(table, index) for index in table.indices]),
        Section("statistics", [_bounds(one) for one in bounds]),
    ]


def inspect_file(location: Location, *, pages: bool) -> list[Section]:
    """Describe one data file."""
    source = location.open()
    reader = open_file(source)
    file = describe_file(source, reader)
    summary = {"file": file.path, "version": file.version, "rows": file.num_rows, "bytes": file.num_bytes}
    sections = [
        Section("file", [summary]),
        Section("columns", _columns([file])),
        Section("statistics", [_bounds(one) for one in bounds_of_files([reader])]),
    ]
    return [*sections, Section("pages", list(_pages(file)))] if pages else sections


def _summary(table: Table) -> dict[str, Any]:
    manifest = table.manifest
    writer = manifest.writer_version
    return {
        "table": table.uri,
        "branch": table.branch or "main",
        "version": table.version,
        "latest": table.latest_version(),
        "rows": table.count_rows(),
        "fragments": len(table.fragments),
        "data files": int(table.fragments.num_files.sum()),
        "file version": manifest.data_format or manifest.file_version,
        "row ids": "stable" if table.uses_stable_row_ids else "addresses",
        "written by": f"{writer.library} {writer.version}" if writer else None,
        "tags": ", ".join(f"{name} (version {tag.version})" for name, tag in sorted(table.tags().items()))
        or None,
        "branches": ", ".join(sorted(table.branches())) or None,
    }


def _versions(table: Table, limit: int) -> Section:
    newest = table.versions()[::-1]
    rows = []
    for info in newest[:limit]:
        transaction = table.transaction(info["version"])
        rows.append(
            {
                "version": info["version"],
                "time": info["timestamp"].isoformat(" ", "milliseconds"),
                "operation": type(transaction.operation).__name__.lower() if transaction else None,
                "rows": int(info["metadata"]["total_rows"]),
                "fragments": int(info["metadata"]["total_fragments"]),
                "bytes": int(info["metadata"]["total_files_size"]),
            }
        )
    return Section("versions", rows, max(0, len(newest) - limit))


def _described_fragments(
    table: Table, fragments: Iterable[Fragment]
) -> Iterator[tuple[dict[str, Any], int, list[FileDescription]]]:
    for fragment in fragments:
        files = []
        for data_file in fragment.files:
            source = table.data_file_location(data_file).open()
            files.append(describe_file(source, table.open_data_file(fragment, data_file)))
        num_rows = table.fragment_rows(fragment)
        row = {
            "fragment": fragment.id,
            "rows": table.live_rows(fragment),
            "deleted": num_rows - table.live_rows(fragment),
            "data files": ", ".join(data_file.path for data_file in fragment.files),
            "file version": ", ".join(sorted({file.version for file in files})),
            "columns": sum(len(file.columns) for file in files),
            "bytes": sum(file.num_bytes for file in files),
        }
        yield row, num_rows, files


def _columns(files: Iterable[FileDescription]) -> list[dict[str, Any]]:
    """Return a row for each column, summed over the files."""
    by_name: dict[tuple[str, str], list[ColumnDescription]] = {}
    for file in files:
        for column in file.columns:
            by_name.setdefault((column.name, column.logical_type), []).append(column)
    return [
        {
            "column": name,
            "type": logical_type,
            "pages": sum(len(column.pages) for column in columns),
            "bytes": sum(column.num_bytes for column in columns),
            "encodings": _encodings(columns),
        }
        for (name, logical_type), columns in by_name.items()
    ]


def _encodings(columns: Iterable[ColumnDescription]) -> str:
    counts = Counter(page.encoding for column in columns for page in column.pages)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{count} x {encoding}" for encoding, count in counts.most_common())


def _pages(file: FileDescription) -> Iterator[dict[str, Any]]:
    for column in file.columns:
        for number, page in enumerate(column.pages):
            yield {
                "column": column.name,
                "page": number,
                "rows": page.num_rows,
                "bytes": page.num_bytes,
                "encoding": page.encoding,
            }


def _index(table: Table, index: IndexMetadata) -> dict[str, Any]:
    fields = table.schema.by_id()
    covered = index.covered_fragments()
    present = BitMap(table.fragments.ids)
    return {
        "index": index.name,
        "kind": (index.kind or "?").removesuffix("details").removesuffix("index"),
        "columns": ", ".join(
            fields[number].name if number in fields else f"#{number}" for number in index.fields
        ),
        "built from": index.dataset_version,
        "fragments": None if covered is None else present.intersection_cardinality(covered),
        "bytes": sum(size for _, size in index.files) or None,
    }


def _bounds(bounds: ColumnBounds) -> dict[str, Any]:
    return {
        "column": bounds.column,
        "from": bounds.source,
        "zones": bounds.num_zones,
        "min": None if bounds.minimum is None else str(bounds.minimum),
        "max": None if bounds.maximum is None else str(bounds.maximum),
        "nulls": bounds.null_count,
    }
