"""The output of `lance-df inspect` for a partitioned namespace, as tables of plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.cli.inspection.tables import Section
from lance_df.cli.usage import UsageError
from lance_df.namespace.metadata.history import HistoryTable
from lance_df.namespace.metadata.partitions import PartitionsTable, SpecsTable
from lance_df.namespace.metadata.runtime_properties import values_as_text
from lance_df.namespace.snapshot import NamespaceSnapshot

if TYPE_CHECKING:
    from lance_df.namespace.metadata.tables import MetadataTable
    from lance_df.storage import Location

# columns that are equal for all partitions, or follow from the id
_HIDDEN = ("location", "read_branch", "read_tag")


def inspect_namespace(root: Location, version: int | str | None, *, limit: int) -> list[Section]:
    """Describe a version of a namespace: its columns, specs, partitions and history.

    Parameters
    ----------
    limit
        How many partitions and versions to describe.
    """
    if isinstance(version, str):
        raise UsageError(f"{root.uri}: the version of a namespace must be a number, got {version!r}")
    snapshot = NamespaceSnapshot.open(root, version)
    schema = snapshot.manifest.schema
    partitions, history = PartitionsTable(snapshot), HistoryTable(snapshot)
    summary = {
        "namespace": root.uri,
        "version": snapshot.version,
        "latest": snapshot.latest_version(),
        "partitions": len(snapshot.manifest.members),
        "spec version": snapshot.manifest.specs.current.id,
    }
    columns = [
        {"column": field.name, "field id": field.id, "type": field.logical_type, "nullable": field.nullable}
        for field in schema.columns.fields
    ]
    return [
        Section("namespace", [summary]),
        Section("columns", columns),
        Section("specs", _all(SpecsTable(snapshot))),
        _first(partitions, partitions.known(), limit, "partitions"),
        _first(history, history.known().sort_by([("version", "descending")]), limit, "versions"),
    ]


def _all(table: MetadataTable) -> list[dict[str, object]]:
    return _plain(table.known(), table.arrow_schema.names)


def _first(table: MetadataTable, known: pa.Table, limit: int, title: str) -> Section:
    rows = table.completed(known.slice(0, limit), frozenset(table.arrow_schema.names))
    names = [name for name in table.arrow_schema.names if name not in _HIDDEN]
    return Section(title, _plain(rows, names), max(0, len(known) - limit))


def _plain(rows: pa.Table, names: list[str]) -> list[dict[str, object]]:
    """Return rows of JSON values, with dates, times, decimals and bytes as text."""
    columns = [rows[name] for name in names]
    plain = [column if _is_plain(column.type) else values_as_text(column) for column in columns]
    return list(pa.table(plain, names).to_pylist())


def _is_plain(data_type: pa.DataType) -> bool:
    if pa.types.is_list(data_type):
        return _is_plain(data_type.value_type)
    tests = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string)
    return any(test(data_type) for test in tests)
