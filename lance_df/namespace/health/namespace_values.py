"""Correct the partition values of namespaces that contradict all members below them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.namespace.health.check_members import derived_columns, member_rows
from lance_df.namespace.health.check_rows import row_keys
from lance_df.namespace.health.examine import read_member
from lance_df.namespace.health.orphans import is_id_of_folder
from lance_df.namespace.health.row_tables import joined, with_column
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import NAMESPACE, TABLE
from lance_df.namespace.names import SEPARATOR, member_of_folder

if TYPE_CHECKING:
    from lance_df.namespace.health.check_members import MemberRow
    from lance_df.namespace.health.examine import VersionAndValues
    from lance_df.namespace.health.spread import Spread
    from lance_df.namespace.health.survey import Survey
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs


def with_namespace_values(
    survey: Survey, specs: PartitionSpecs, schema: NamespaceSchema, rows: pa.Table, spread: Spread
) -> tuple[pa.Table, list[str]]:
    """Return rows in which namespaces have the values of their members, and the ids of changed namespaces.

    A namespace is changed if the row of no member below it has its values, and the rows of these members
    belong to one other partition.
    """
    changed: list[str] = []
    for spec in specs if survey.has_values else ():
        derived = derived_columns(spec, schema)
        for level in range(1, len(spec.fields) + 1):
            columns = [field.column for field in spec.fields[:level]]
            if columns != derived[:level]:
                break  # rows do not have these values
            for (name, key), tables in _contradicted(rows, spec, columns).items():
                members = member_rows(survey, tables)
                if any(map(_has_folder_of_other, members)):
                    continue
                read = spread(partial(read_member, survey.root, specs, schema), members)
                values = _common_values(tables, columns, read)
                if values is not None and value_keys(values.columns)[0].as_py() != key:
                    rows = _with_values(rows, name, values)
                    changed.append(name)
    return rows, changed


def ids_above(ids: pa.ChunkedArray, level: int) -> pa.ChunkedArray:
    """Return the ids of the namespaces of a level; ids of this level or above it are returned as they are."""
    return pc.replace_substring_regex(ids, rf"^((?:[^$]*\$){{{level}}}[^$]*)\$.*$", r"\1")


def _contradicted(
    rows: pa.Table, spec: PartitionSpec, columns: list[str]
) -> dict[tuple[str, bytes], pa.Table]:
    """Return the member rows below each namespace of a level whose values none of them has, by id and key."""
    level = len(columns)
    below = rows.filter(pc.starts_with(rows["object_id"], spec.name + SEPARATOR))
    is_table = pc.equal(below["object_type"], TABLE)
    depth = pc.count_substring(below["object_id"], SEPARATOR)
    tables = below.filter(pc.and_(is_table, pc.greater(depth, level)))
    namespaces = below.filter(pc.and_(pc.equal(below["object_type"], NAMESPACE), pc.equal(depth, level)))
    if not len(tables) or not len(namespaces):
        return {}
    parents = one_array(ids_above(tables["object_id"], level))
    indices = pc.index_in(parents, value_set=one_array(namespaces["object_id"]))
    keys = row_keys(namespaces, columns).take(indices)
    same = pc.equal(row_keys(tables, columns), keys)
    names = parents.filter(pc.invert(pc.fill_null(same, True))).unique()
    agreed = parents.filter(pc.fill_null(same, False))
    wrong = names.filter(pc.invert(pc.is_in(names, value_set=agreed)))
    keys = keys.take(pc.index_in(wrong, value_set=parents))
    return {
        (name, key): tables.filter(pc.equal(parents, name))
        for name, key in zip(wrong.to_pylist(), keys.to_pylist(), strict=True)
    }


def _has_folder_of_other(member: MemberRow) -> bool:
    """Whether the folder of a member is that of another id, so that the id may be wrong."""
    name, location = member.object_id, member.location
    return (
        location is not None
        and member_of_folder(location) is not None
        and not is_id_of_folder(name, location)
    )


def _common_values(
    tables: pa.Table, columns: list[str], read: list[VersionAndValues | str]
) -> pa.RecordBatch | None:
    """Return the values of the rows of all members that can be read, or None if there are none or several."""
    tuples = {}
    for number, result in enumerate(read):
        if isinstance(result, str):
            continue
        # no row contradicts the values of an empty table
        values = (
            result[1] if result[1] is not None else tables.slice(number, 1).combine_chunks().to_batches()[0]
        )
        values = values.select(columns)
        tuples[value_keys(values.columns)[0].as_py()] = values
    return next(iter(tuples.values())) if len(tuples) == 1 else None


def _with_values(rows: pa.Table, name: str, values: pa.RecordBatch) -> pa.Table:
    is_named = pc.equal(rows["object_id"], name)
    row = rows.filter(is_named)
    for column, value in zip(values.schema.names, values.columns, strict=True):
        row = with_column(row, column, value)
    return joined(rows.filter(pc.invert(is_named)), row)
