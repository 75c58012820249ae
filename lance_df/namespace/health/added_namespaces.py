"""Add missing rows of namespaces above tables, and of spec versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.namespace.health.repair_report import RepairKind
from lance_df.namespace.health.row_tables import joined, with_column
from lance_df.namespace.manifest_table import NAMESPACE, READ_FIELDS
from lance_df.namespace.names import SEPARATOR

if TYPE_CHECKING:
    from lance_df.namespace.health.rebuild import Rebuild
    from lance_df.namespace.spec.partition_spec import PartitionSpec


def add_namespaces(rebuild: Rebuild) -> None:
    """Add missing spec versions, and missing namespaces of tables with the partition values of these."""
    for spec in rebuild.specs:
        _add_spec(rebuild, spec)
        for level in range(len(spec.fields), 0, -1):
            _add_level(rebuild, spec, level)


def _add_spec(rebuild: Rebuild, spec: PartitionSpec) -> None:
    if not pc.any(pc.equal(rebuild.good["object_id"], spec.name)).as_py():
        row = {"object_id": spec.name, "object_type": NAMESPACE, "metadata": "{}"}
        rebuild.good = joined(rebuild.good, pa.Table.from_pylist([row], rebuild.columns))
        rebuild.add_action(RepairKind.NAMESPACE, spec.name, "each spec version has one")


def _add_level(rebuild: Rebuild, spec: PartitionSpec, level: int) -> None:
    """Add the missing namespaces of a level: the parents of the rows one level below."""
    depth = pc.count_substring(rebuild.good["object_id"], SEPARATOR)
    is_below = pc.and_(
        pc.starts_with(rebuild.good["object_id"], spec.name + SEPARATOR), pc.equal(depth, level + 1)
    )
    below = rebuild.good.filter(is_below)
    parents = one_array(pc.replace_substring_regex(below["object_id"], r"\$[^$]*$", ""))
    missing = parents.filter(pc.invert(pc.is_in(parents, value_set=one_array(rebuild.good["object_id"]))))
    if not len(missing):
        return
    distinct = missing.unique()
    rows = below.take(pc.index_in(distinct, value_set=parents))
    rows = with_column(rows, "object_id", distinct)
    rows = with_column(rows, "object_type", pa.repeat(NAMESPACE, len(rows)))
    # an open row of the namespace may have its properties
    indices = pc.index_in(distinct, value_set=one_array(rebuild.open["object_id"]))
    metadata = pc.fill_null(one_array(rebuild.open["metadata"]).take(indices), "{}")
    rows = with_column(rows, "metadata", metadata)
    hidden = [each.column for each in spec.fields[level:]]
    for name in ("location", *hidden, *(each.name for each in READ_FIELDS)):
        rows = with_column(rows, name, pa.nulls(len(rows), rows.schema.field(name).type))
    rebuild.good = joined(rebuild.good, rows)
    rebuild.open = rebuild.open.filter(pc.invert(pc.is_in(rebuild.open["object_id"], distinct)))
    for name in distinct.to_pylist():
        rebuild.add_action(RepairKind.NAMESPACE, name, "with the values of the tables in it")
