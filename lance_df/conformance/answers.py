"""Answer the requests of the corpus, with one method for each operation of its protocol."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lance_df.api.directory.namespace import DirectoryNamespace
from lance_df.api.namespaces.changes import NamespaceTransaction
from lance_df.api.namespaces.namespace import PartitionedNamespace
from lance_df.compute.calculator import evaluator
from lance_df.conformance.values import from_array, from_table, to_array, to_table
from lance_df.dataset import dataset
from lance_df.engine import SessionContext, register
from lance_df.errors import LanceError
from lance_df.file import LanceFileReader
from lance_df.hashing import murmur3, murmur3_multi
from lance_df.namespace.joins.compatibility import JoinSide, common_grouping
from lance_df.namespace.manifest_table import NamespaceManifest
from lance_df.namespace.names import MANIFEST_FOLDER, partition_names
from lance_df.namespace.spec.expression_demands import checked_result_type
from lance_df.namespace.spec.json_arrow import schema_from_json, schema_to_json, type_from_json, type_to_json
from lance_df.namespace.spec.namespace_schema import SCHEMA_KEY, NamespaceSchema
from lance_df.namespace.spec.partition_by import PartitionBy
from lance_df.namespace.spec.partition_spec import PartitionField, PartitionSpec, PartitionSpecs
from lance_df.namespace.spec.partition_values import partition_values
from lance_df.namespace.spec.transforms import Transform
from lance_df.storage import open_location

_Arguments = Mapping[str, Any]
_SOURCE: Final = "the request"
_HASHES: Final[Mapping[str, Callable[[list[pa.Array]], pa.Array]]] = {
    "murmur3": lambda columns: murmur3(*columns),
    "murmur3_multi": murmur3_multi,
}


class Answers:
    """Answers requests, and keeps transactions open between them."""

    def __init__(self) -> None:
        self._transactions: dict[str, tuple[ExitStack, NamespaceTransaction, pa.Schema]] = {}

    def answer(self, operation: str, arguments: _Arguments) -> dict[str, Any]:
        """Return ``{"result": …}``, or ``{"error": {"kind": …, "message": …}}``."""
        method = getattr(self, f"op_{operation}", None)
        if method is None:
            return _error("not implemented", f"operation {operation!r} does not exist")
        try:
            return {"result": method(**arguments)}
        except LanceError as err:
            return _error("refused", f"{type(err).__name__}: {err}")
        except Exception:  # noqa: BLE001 - a defect is also an answer
            return _error("failed", traceback.format_exc(limit=-3))

    # specs, transforms, hashes

    def op_read_metadata(self, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Read the metadata of a ``__manifest`` table."""
        specs = PartitionSpecs.from_metadata(metadata, source=_SOURCE)
        if specs is None:
            return {"partitioned": False}
        schema = NamespaceSchema.from_json(metadata.get(SCHEMA_KEY, ""), source=_SOURCE)
        return {"partitioned": True, "specs": _specs_json(specs.versions), "schema": _schema_json(schema)}

    def op_transform(self, transform: object, types: Sequence[object]) -> dict[str, Any]:
        """Return the SQL expression of a transform, and its result type."""
        parsed = Transform.from_json(transform, source=_SOURCE)
        sources = [type_from_json(each, source=_SOURCE) for each in types]
        result_type = parsed.result_type(sources)
        return {"expression": parsed.expression(sources), "result_type": type_to_json(result_type)}

    def op_partition_values(self, field: object, columns: Sequence[_Arguments]) -> dict[str, Any]:
        """Compute partition values from source columns."""
        parsed = PartitionField.from_json(field, source=_SOURCE)
        values = partition_values(parsed, [to_array(column) for column in columns])
        return {"type": type_to_json(values.type), "values": from_array(values)}

    def op_check_expression(
        self, expression: str, types: Sequence[object], result_type: object = None
    ) -> dict[str, Any]:
        """Check the requirements of the specification for a partition expression."""
        sources = [type_from_json(each, source=_SOURCE) for each in types]
        declared = None if result_type is None else type_from_json(result_type, source=_SOURCE)
        return {"result_type": type_to_json(checked_result_type(expression, sources, declared, evaluator()))}

    def op_hash(self, function: str, columns: Sequence[_Arguments]) -> dict[str, Any]:
        """Compute ``murmur3`` or ``murmur3_multi``."""
        return {"values": from_array(_HASHES[function]([to_array(column) for column in columns]))}

    def op_partition_names(self, number: int) -> dict[str, Any]:
        """Generate names for partition namespaces."""
        return {"names": partition_names(number)}

    # namespaces, read

    def op_open(self, namespace: str, version: int | None = None) -> dict[str, Any]:
        """Describe a namespace and its partitions."""
        manifest = NamespaceManifest.open(open_location(namespace), version)
        rows = from_table(manifest.members.select(["object_id", "location", "read_version"]))
        partitions = _partitions(manifest)
        return {
            "specs": _specs_json(manifest.specs.versions),
            "schema": _schema_json(manifest.schema),
            "partitions": [
                {"partition": partition, **row} for partition, row in zip(partitions, rows, strict=True)
            ],
        }

    def op_scan(
        self,
        namespace: str,
        filter: str | None = None,
        version: int | None = None,
    ) -> dict[str, Any]:
        """Read rows that match a condition."""
        opened = PartitionedNamespace.open(namespace, version)
        return {"rows": from_table(opened.to_table(filter=filter))}

    def op_prune(self, namespace: str, filter: str) -> dict[str, Any]:
        """Return the partitions that the reported query over ``__manifest`` selects for a condition."""
        session = SessionContext()
        register(session, "rows", namespace)
        reports = session.explain_scan(f"SELECT * FROM rows WHERE {filter}").tables
        manifest = NamespaceManifest.open(open_location(namespace))
        session.from_arrow(manifest.rows, name=MANIFEST_FOLDER)
        every = f"SELECT object_id FROM {MANIFEST_FOLDER}"
        ids = {
            object_id
            for report in reports
            for object_id in session.sql(report.manifest_query or every).to_pydict()["object_id"]
        }
        members = zip(manifest.members["object_id"].to_pylist(), _partitions(manifest), strict=True)
        return {"partitions": [partition for object_id, partition in members if object_id in ids]}

    def op_query(self, namespaces: Mapping[str, str], sql: str) -> dict[str, Any]:
        """Answer a statement over namespaces, joined by partition where that is correct."""
        session = SessionContext(partitioned_joins="always")
        for name, path in namespaces.items():
            register(session, name, path)
        return {"rows": from_table(session.sql(sql).to_arrow_table())}

    def op_join_groups(self, left: str, right: str, on: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return the groups of partitions that a join has to combine, or null if there are none."""
        sides = [
            _join_side(path, [pair[position] for pair in on]) for position, path in enumerate((left, right))
        ]
        grouping = common_grouping(sides)
        if isinstance(grouping, str):
            return {"groups": None, "reason": grouping}
        values = [_partitions(side.manifest) for side in sides]
        groups = [
            {
                name: [values[side][row] for row in np.flatnonzero(grouping.codes[side] == number)]
                for side, name in enumerate(("left", "right"))
            }
            for number in range(grouping.num_groups)
        ]
        return {"groups": groups}

    def op_describe_namespace(self, namespace: str, id: Sequence[str]) -> dict[str, Any]:
        """Return the properties of a namespace below the root."""
        return {
            "properties": dict(DirectoryNamespace(namespace).describe_namespace(list(id)).properties or {})
        }

    def op_manifest(self, namespace: str, filter: str | None = None) -> dict[str, Any]:
        """Return the rows of ``__manifest`` as a table; with a filter, only those that match."""
        table = dataset(f"{namespace}/{MANIFEST_FOLDER}")
        fields = schema_to_json(table.schema.remove_metadata())["fields"]
        columns = {field["name"]: {"type": field["type"], "nullable": field["nullable"]} for field in fields}
        return {
            "version": table.version,
            "metadata": dict(table.metadata),
            "columns": columns,
            "rows": from_table(table.to_table(filter=filter)),
        }

    # namespaces, changed

    def op_create(self, namespace: str, schema: object, fields: Sequence[_Arguments]) -> dict[str, Any]:
        """Create an empty namespace."""
        columns = schema_from_json(schema, source=_SOURCE)
        PartitionedNamespace.create(namespace, columns, [_partition_by(field) for field in fields])
        return {}

    def op_evolve(self, namespace: str, fields: Sequence[_Arguments]) -> dict[str, Any]:
        """Add a version of the partition spec."""
        opened = PartitionedNamespace.open(namespace)
        opened.update_partition_spec([_partition_by(field) for field in fields])
        return {"spec": _specs_json(opened.specs)[-1]}

    def op_append(
        self, rows: Sequence[_Arguments], namespace: str | None = None, transaction: str | None = None
    ) -> dict[str, Any]:
        """Add rows, in a transaction or alone."""
        if namespace is not None:
            opened = PartitionedNamespace.open(namespace)
            opened.append(to_table(rows, opened.schema))
        elif transaction is not None:
            _, changes, schema = self._transactions[transaction]
            changes.append(to_table(rows, schema))
        return {}

    def op_delete(
        self,
        filter: str,
        namespace: str | None = None,
        transaction: str | None = None,
    ) -> dict[str, Any]:
        """Delete rows, in a transaction or alone."""
        if namespace is not None:
            PartitionedNamespace.open(namespace).delete(filter)
        elif transaction is not None:
            self._transactions[transaction][1].delete(filter)
        return {}

    def op_begin(self, namespace: str, transaction: str, rebase: bool = True) -> dict[str, Any]:
        """Begin a transaction, to which later requests refer by name."""
        opened, stack = PartitionedNamespace.open(namespace), ExitStack()
        changes = stack.enter_context(opened.transaction(rebase=rebase))
        self._transactions[transaction] = stack, changes, opened.schema
        return {}

    def op_commit(self, transaction: str) -> dict[str, Any]:
        """Commit a transaction."""
        self._transactions.pop(transaction)[0].close()
        return {}

    def op_rename_column(self, namespace: str, old: str, new: str) -> dict[str, Any]:
        """Rename a column."""
        PartitionedNamespace.open(namespace).rename_column(old, new)
        return {}

    def op_add_column(self, namespace: str, column: str, type: object) -> dict[str, Any]:
        """Add a column of nulls."""
        field = pa.field(column, type_from_json(type, source=_SOURCE))
        PartitionedNamespace.open(namespace).add_columns(pa.schema([field]))
        return {}

    def op_drop_column(self, namespace: str, column: str) -> dict[str, Any]:
        """Remove a column."""
        PartitionedNamespace.open(namespace).drop_columns([column])
        return {}

    # files and tables

    def op_read_file(self, file: str) -> dict[str, Any]:
        """Read a Lance file."""
        return _content(LanceFileReader(file).read_all().to_table())

    def op_read_table(self, table: str, version: int | None = None) -> dict[str, Any]:
        """Read a Lance table."""
        return _content(dataset(table, version).to_table())

    def op_read_arrow(self, arrow: str) -> dict[str, Any]:
        """Read an Arrow IPC file."""
        with pa.OSFile(arrow) as source:
            return _content(pa.ipc.open_file(source).read_all())


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}


def _content(table: pa.Table) -> dict[str, Any]:
    names = table.column_names
    types = [{**type_to_json(field.type), "arrow": str(field.type)} for field in table.schema]
    nullable = [field.nullable for field in table.schema]
    values = [[value for chunk in each.chunks for value in from_array(chunk)] for each in table.itercolumns()]
    columns = [
        {"name": name, "type": data_type, "nullable": each, "values": column}
        for name, data_type, each, column in zip(names, types, nullable, values, strict=True)
    ]
    return {"num_rows": len(table), "columns": columns}


def _specs_json(specs: Sequence[PartitionSpec]) -> list[dict[str, Any]]:
    return [{"id": spec.id, "fields": [field.to_json() for field in spec.fields]} for spec in specs]


def _schema_json(schema: NamespaceSchema) -> list[dict[str, Any]]:
    fields = schema_to_json(schema.arrow.remove_metadata())["fields"]
    return [
        {"id": column.id, "name": column.name, "nullable": column.nullable, "type": field["type"]}
        for column, field in zip(schema.columns.fields, fields, strict=True)
    ]


def _partition_by(field: _Arguments) -> PartitionBy:
    transform = field.get("transform")
    result_type = field.get("result_type")
    return PartitionBy(
        tuple(field["columns"]),
        None if transform is None else Transform.from_json(transform, source=_SOURCE),
        field.get("expression"),
        field.get("field_id"),
        None if result_type is None else type_from_json(result_type, source=_SOURCE),
    )


def _join_side(path: str, columns: Sequence[str]) -> JoinSide:
    manifest = NamespaceManifest.open(open_location(path))
    keys = tuple(manifest.schema.find(column).id for column in columns)
    return JoinSide(manifest, np.ones(len(manifest.members), np.bool_), keys)


def _partitions(manifest: NamespaceManifest) -> list[list[Any]]:
    """Return the spec version and the partition values of each member."""
    members, specs = manifest.members, {spec.name: spec for spec in manifest.specs}
    columns = [field.column for field in manifest.specs.fields.values()]
    owners = [specs[name.partition("$")[0]] for name in members["object_id"].to_pylist()]
    return [
        [spec.id, *(row[field.column] for field in spec.fields)]
        for spec, row in zip(owners, from_table(members.select(columns)), strict=True)
    ]
