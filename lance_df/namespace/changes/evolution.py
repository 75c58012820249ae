"""Partition evolution: add a version of the spec. Stored rows stay in the partitions of their own version.

Spec: partitioning, "Partition Evolution".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError, RetryableConflictError
from lance_df.format.operations import Restore, UpdateConfig
from lance_df.interrupts import interrupted_once
from lance_df.namespace.changes.schema_publish import DETACHED, remove_staged
from lance_df.namespace.manifest_table import NAMESPACE, STRICT, NamespaceManifest
from lance_df.namespace.object_account import check_none_lost
from lance_df.namespace.spec.partition_by import resolve_all
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS, RowChange
from lance_df.table.evolution.add_columns import null_columns
from lance_df.table.evolution.metadata import map_update

if TYPE_CHECKING:
    from lance_df.namespace.spec.partition_by import PartitionBy
    from lance_df.namespace.spec.partition_spec import PartitionSpecs
    from lance_df.table.table import Table

_ATTEMPTS: Final = 50


def with_new_spec(
    manifest: NamespaceManifest, partition_by: Sequence[PartitionBy | str]
) -> NamespaceManifest:
    """Publish a new spec version in one commit, and return the new version of the namespace.

    The columns for its partition values, its namespace row and the spec itself are added in detached
    versions, which readers never find; see `lance_df.namespace.changes.schema_publish`.

    Raises
    ------
    InvalidInputError, ColumnNotFoundError
        The fields do not fit the schema, earlier spec versions, or a column left by a crashed writer.
    RetryableConflictError
        Other writers were faster again and again.
    """
    for _ in range(_ATTEMPTS):
        fields = resolve_all(partition_by, manifest.schema, manifest.specs)
        specs = manifest.specs.evolved(fields)
        try:
            return _published(manifest, specs)
        except RetryableConflictError:
            manifest = manifest.latest_for_change()
    raise RetryableConflictError(
        f"{manifest.table.uri}: {_ATTEMPTS} attempts in a row failed because other writers published "
        "first; try again"
    )


@interrupted_once()
def _published(manifest: NamespaceManifest, specs: PartitionSpecs) -> NamespaceManifest:
    columns, has_row = _new_columns(manifest, specs), _has_row(manifest, specs)
    spec = specs.current
    update = UpdateConfig(table_metadata=map_update({spec.key: spec.to_json()}))
    if not columns and has_row:
        return NamespaceManifest(commit_change(manifest.table, update, rows=NO_ROWS, options=STRICT))
    staged: list[Table] = []
    try:
        last = manifest
        if columns:
            operation = null_columns(last.table, pa.schema(columns))
            last = _staged(commit_change(last.table, operation, rows=NO_ROWS, options=DETACHED), staged)
        if not has_row:
            row = {"object_id": spec.name, "object_type": NAMESPACE, "metadata": "{}"}
            added = pa.Table.from_pylist([row], last.table.arrow_schema)
            last = _staged(last.changed(added, {}, options=DETACHED).table, staged)
        last = _staged(commit_change(last.table, update, rows=NO_ROWS, options=DETACHED), staged)
        check_none_lost(manifest.table.uri, before=manifest.rows["object_id"], after=last.rows["object_id"])
        rows = RowChange.restoring(last.table)
        table = commit_change(manifest.table, Restore(last.version), rows=rows, options=STRICT)
        return NamespaceManifest(table)
    finally:
        remove_staged(staged)


def _staged(table: Table, staged: list[Table]) -> NamespaceManifest:
    staged.append(table)
    return NamespaceManifest(table)


def _new_columns(manifest: NamespaceManifest, specs: PartitionSpecs) -> list[pa.Field]:
    known = {field.name: field.type for field in manifest.table.arrow_schema}
    for field in specs.fields.values():
        if known.get(field.column, field.result_type) != field.result_type:
            raise InvalidInputError(
                f"partition field {field.field_id!r}: column {field.column} already exists with type "
                f"{known[field.column]}; give the field another field_id"
            )
    return [
        pa.field(field.column, field.result_type)
        for field in specs.fields.values()
        if field.column not in known
    ]


def _has_row(manifest: NamespaceManifest, specs: PartitionSpecs) -> bool:
    return bool(pc.any(pc.equal(manifest.rows["object_id"], specs.current.name)).as_py())
