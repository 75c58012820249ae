"""Another version of the partition spec; what is stored stays where it is, and is read by its own version.

Spec: partitioning, "Partition Evolution".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError, RetryableConflictError
from lance_df.format.operations import UpdateConfig
from lance_df.namespace.manifest_table import NAMESPACE, STRICT, NamespaceManifest
from lance_df.namespace.spec.partition_by import resolve_all
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.evolution.add_columns import null_columns
from lance_df.table.evolution.metadata import map_update

if TYPE_CHECKING:
    from lance_df.namespace.spec.partition_by import PartitionBy
    from lance_df.namespace.spec.partition_spec import PartitionSpecs

_ATTEMPTS: Final = 50


def with_new_spec(
    manifest: NamespaceManifest, partition_by: Sequence[PartitionBy | str]
) -> NamespaceManifest:
    """Publish a new spec version and return the namespace that has it.

    Columns for its partition values come first, then its namespace, and the spec itself last: what a writer
    that dies half-way leaves means nothing to anybody.

    Raises
    ------
    InvalidInputError, ColumnNotFoundError
        The fields do not fit the schema, those of earlier versions, or a column that a writer left that died.
    RetryableConflictError
        Others were faster again and again.
    """
    for _ in range(_ATTEMPTS):
        fields = resolve_all(partition_by, manifest.schema, manifest.specs)
        specs = manifest.specs.evolved(fields)
        try:
            return _published(_with_row(_with_columns(manifest, specs), specs), specs)
        except RetryableConflictError:
            manifest = manifest.latest()
    raise RetryableConflictError(
        f"{manifest.table.uri}: others were faster {_ATTEMPTS} times in a row; try again"
    )


def _with_columns(manifest: NamespaceManifest, specs: PartitionSpecs) -> NamespaceManifest:
    known = {field.name: field.type for field in manifest.table.arrow_schema}
    for field in specs.fields.values():
        if known.get(field.column, field.result_type) != field.result_type:
            raise InvalidInputError(
                f"partition field {field.field_id!r}: {field.column} is there already, of type "
                f"{known[field.column]}; give the field another field_id"
            )
    new = [
        pa.field(field.column, field.result_type)
        for field in specs.fields.values()
        if field.column not in known
    ]
    if not new:
        return manifest
    operation = null_columns(manifest.table, pa.schema(new))
    return NamespaceManifest(commit_change(manifest.table, operation, rows=NO_ROWS, options=STRICT))


def _with_row(manifest: NamespaceManifest, specs: PartitionSpecs) -> NamespaceManifest:
    name = specs.current.name
    if pc.any(pc.equal(manifest.rows["object_id"], name)).as_py():
        return manifest
    row = {"object_id": name, "object_type": NAMESPACE, "metadata": "{}"}
    return manifest.changed(pa.Table.from_pylist([row], manifest.table.arrow_schema), {})


def _published(manifest: NamespaceManifest, specs: PartitionSpecs) -> NamespaceManifest:
    spec = specs.current
    operation = UpdateConfig(table_metadata=map_update({spec.key: spec.to_json()}))
    return NamespaceManifest(commit_change(manifest.table, operation, rows=NO_ROWS, options=STRICT))
