"""Compute the partition values of stored rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.namespace.changes.routing import values_of_rows
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.table.table import Table


def values_of_table(table: Table, spec: PartitionSpec, schema: NamespaceSchema) -> Iterator[pa.RecordBatch]:
    """Yield the partition values of a table's rows, batch by batch."""
    paths = [schema.path(field_id) for field in spec.fields for field_id in field.source_ids]
    names = tuple(dict.fromkeys(path[0] for path in paths if path is not None))
    plan = plan_scan(table, ScanRequest(columns=names, requires=Promise.COMPLETE))
    for batch in run_tasks(plan.tasks):
        if batch.num_rows:
            yield values_of_rows(spec, schema, batch)
