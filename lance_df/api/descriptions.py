"""HTML for notebooks of tables and namespaces. Data that cannot be read is reported in it, not raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.display.cells import cell_text
from lance_df.display.elements import escaped, heading, html_table, note
from lance_df.display.numbers import number_text, size_text
from lance_df.display.partition_map import Tile, partition_map
from lance_df.display.rows import MAX_COLUMNS, NUM_ROWS, columns_html, rows_html
from lance_df.errors import LanceError
from lance_df.namespace.metadata.partitions import PartitionsTable, value_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lance_df.api.dataset_calls import DatasetCalls
    from lance_df.format.schema import Schema
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.table.table import Table

_SIZES: Final = ("rows", "bytes")
# manifests are read for the sizes of partitions
_MAX_PARTITIONS: Final = 1_000
_MAX_PARTITIONS_FAR: Final = 100
_MAX_LABEL: Final = 120
MAX_LISTED: Final = 100
"""Names in a list."""
_NUM_NAMED: Final = 10


def table_html(dataset: DatasetCalls, table: Table) -> str:
    """Return HTML for a version of a table: sizes, columns and first rows."""
    branch = [] if table.branch is None else [f"branch {table.branch}"]
    facts = ["Lance table", f"version {table.version}", *branch, *_table_facts(table)]
    return _page(heading(table.uri, facts), dataset)


def namespace_html(dataset: DatasetCalls, snapshot: NamespaceSnapshot) -> str:
    """Return HTML for a version of a namespace: sizes, a map of its partitions, columns and first rows."""
    total = len(snapshot.manifest.members)
    facts = ["partitioned namespace", f"version {snapshot.version}", number_text(total, "partition")]
    spec = ", ".join(field.field_id for field in snapshot.manifest.specs.current.fields)
    facts += [f"by {spec}"] if spec else []
    shown, svg = min(total, _MAX_PARTITIONS if snapshot.is_local else _MAX_PARTITIONS_FAR), ""
    try:
        tiles = _tiles(snapshot, shown)
        svg = partition_map(tiles)
        if shown == total:
            num_bytes = sum(tile.num_bytes for tile in tiles)
            facts += [number_text(sum(tile.num_rows for tile in tiles), "row"), size_text(num_bytes)]
        else:
            svg += note(f"The map has the first {shown:,} of {total:,} partitions.")
    except LanceError as err:
        svg = note(f"The partitions cannot be read: {err}")
    return _page(heading(snapshot.uri, facts) + svg, dataset)


def directory_html(
    uri: str, namespaces: Callable[[], Sequence[str]], tables: Callable[[], Sequence[str]]
) -> str:
    """Return HTML with the names of the namespaces and tables of a directory."""
    try:
        names = [("namespace", name) for name in namespaces()] + [("table", name) for name in tables()]
        listed = html_table(("kind", "name"), [(kind, escaped(name)) for kind, name in names[:MAX_LISTED]])
    except LanceError as err:
        listed = note(f"The names cannot be read: {err}")
    return f"<div>{heading(uri, ['directory namespace'])}{listed}</div>"


def schema_html(schema: Schema) -> str:
    """Return HTML with the fields of a schema, including those of structs, and their ids."""
    fields = list(schema.walk())
    rows = [
        (str(each.id), escaped(each.name), escaped(each.logical_type), "yes" if each.nullable else "no")
        for each in fields[:MAX_LISTED]
    ]
    more = len(fields) - len(rows)
    table = html_table(("id", "name", "type", "may be null"), rows)
    return f"<div>{table}{note(f'… {more:,} more fields') if more > 0 else ''}</div>"


def refs_html(refs: Mapping[str, Mapping[str, Any]], titles: Sequence[str]) -> str:
    """Return tags or branches as an HTML table with some of their properties."""
    rows = [
        (escaped(name), *(escaped(ref[title]) for title in titles))
        for name, ref in list(refs.items())[:MAX_LISTED]
    ]
    more = len(refs) - len(rows)
    table = html_table(("name", *(title.replace("_", " ") for title in titles)), rows)
    return f"<div>{table}{note(f'… {more:,} more') if more > 0 else ''}</div>"


def refs_text(refs: Mapping[str, Mapping[str, Any]], key: str) -> str:
    """Return tags or branches with their versions, in one line."""
    named = [f"{name!r} at {ref[key]}" for name, ref in list(refs.items())[:_NUM_NAMED]]
    more = [f"… {len(refs):,} in all"] if len(refs) > _NUM_NAMED else []
    return ", ".join([*named, *more]) or "none"


def sizes_text(table: Table) -> str:
    """Return the rows, fragments and bytes of a table, in one line."""
    try:
        return ", ".join(_table_facts(table))
    except LanceError as err:
        return str(err)


def _table_facts(table: Table) -> list[str]:
    sizes = table.fragments.file_bytes
    facts = [number_text(len(table.fragments), "fragment")]
    if (sizes > 0).all():
        facts.append(size_text(int(sizes.sum())))
    try:
        return [number_text(table.count_rows(), "row"), *facts]
    except LanceError:
        return ["rows unknown", *facts]


def _page(top: str, dataset: DatasetCalls) -> str:
    try:
        schema = dataset.schema
        parts = [columns_html(schema)]
        columns = schema.names[:MAX_COLUMNS] if len(schema) > MAX_COLUMNS else None
        parts.append(rows_html(dataset.scanner(columns, limit=NUM_ROWS).to_table(), len(schema)))
    except LanceError as err:
        parts = [note(f"The rows cannot be read: {err}")]
    return f'<div style="color: inherit">{top}{"".join(parts)}</div>'


def _tiles(snapshot: NamespaceSnapshot, shown: int) -> list[Tile]:
    table = PartitionsTable(snapshot)
    rows = table.completed(table.known().slice(0, shown), frozenset(_SIZES))
    names = [field.name for field in value_fields(snapshot, ()) if field.name in rows.column_names]
    columns = [rows[name] for name in names]
    counts = zip(rows["rows"].to_pylist(), rows["bytes"].to_pylist(), strict=True)
    tiles = []
    for number, (num_rows, num_bytes) in enumerate(counts):
        values = [cell_text(column[number]) for column in columns]
        title = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        tiles.append(Tile(", ".join(values)[:_MAX_LABEL], title[:_MAX_LABEL], num_bytes or 0, num_rows or 0))
    return tiles
