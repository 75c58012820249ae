"""Examine the tables of incomplete rows: complete the rows of members, set the others aside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.namespace.health.check_members import MemberRow
from lance_df.namespace.health.check_rows import row_keys
from lance_df.namespace.health.examine import NoMemberError, read_member, spec_of_path
from lance_df.namespace.health.repair_report import RepairKind
from lance_df.namespace.health.row_tables import joined, with_column
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import READ_FIELDS, TABLE
from lance_df.namespace.names import SEPARATOR

if TYPE_CHECKING:
    from lance_df.namespace.health.examine import VersionAndValues
    from lance_df.namespace.health.rebuild import Rebuild
    from lance_df.namespace.health.spread import Spread


def examine(rebuild: Rebuild, spread: Spread) -> None:
    """Examine the tables of open rows, and leave those that are not members to be set aside."""
    is_table = pc.equal(rebuild.open["object_type"], TABLE)
    tables, others = rebuild.open.filter(is_table), rebuild.open.filter(pc.invert(is_table))
    paths, taken = _known_values(rebuild)
    aside = []
    names = tables["object_id"].to_pylist()
    rows = tables.select(["object_id", "location", *(each.name for each in READ_FIELDS)]).to_pylist()
    members = [MemberRow(**row, key=None, spec=None) for row in rows]
    read = spread(partial(read_member, rebuild.root, rebuild.specs, rebuild.schema), members)
    for number, (name, result) in enumerate(zip(names, read, strict=True)):
        row = tables.slice(number, 1)
        try:
            rebuild.good = joined(rebuild.good, _examined(rebuild, row, name, result, paths, taken))
        except NoMemberError as err:
            aside.append(row)
            rebuild.add_action(RepairKind.SET_ASIDE, name, str(err))
    rebuild.open = joined(others, *aside)


def _examined(
    rebuild: Rebuild,
    row: pa.Table,
    name: str,
    result: VersionAndValues | str,
    paths: dict[str, bytes],
    taken: dict[tuple[int, bytes], str],
) -> pa.Table:
    """Return the completed row of an open table."""
    if isinstance(result, str):
        raise NoMemberError(result)
    spec, (version, values) = spec_of_path(name, rebuild.specs), result
    if values is None and name in rebuild.valued:
        values = row.select([each.column for each in spec.fields]).combine_chunks().to_batches()[0]
    if values is None:
        raise NoMemberError("it has no rows, so its partition values are unknown")
    key = value_keys(values.columns)[0].as_py()
    if name in rebuild.renamed and row_keys(row, values.schema.names)[0].as_py() != key:
        raise NoMemberError("its version may belong to another table, because its partition values do")
    if (other := taken.get((spec.id, key))) is not None:
        raise NoMemberError(f"{other} has the same partition values; append the rows and drop the table")
    levels = name.split(SEPARATOR)
    for level in range(1, len(spec.fields) + 1):
        prefix = value_keys(values.columns[:level])[0].as_py()
        namespace = SEPARATOR.join(levels[: level + 1])
        if paths.setdefault(namespace, prefix) != prefix:
            raise NoMemberError(f"its rows have other values than the namespace {namespace}")
    rebuild.add_action(RepairKind.READ, name, f"of version {version}, which is read from now on")
    row = with_column(row, "read_version", pa.array([version], pa.uint64()))
    for each in ("read_branch", "read_tag"):
        row = with_column(row, each, pa.nulls(1, row.schema.field(each).type))
    for name_of, column in zip(values.schema.names, values.columns, strict=True):
        row = with_column(row, name_of, column)
    return row


def _known_values(rebuild: Rebuild) -> tuple[dict[str, bytes], dict[tuple[int, bytes], str]]:
    """Return the keys of namespaces and tables with known values; empty if no row is open."""
    paths: dict[str, bytes] = {}
    taken: dict[tuple[int, bytes], str] = {}
    if not len(rebuild.open):
        return paths, taken
    for spec in rebuild.specs:
        columns = [each.column for each in spec.fields]
        below = rebuild.good.filter(pc.starts_with(rebuild.good["object_id"], spec.name + SEPARATOR))
        depth = pc.count_substring(below["object_id"], SEPARATOR)
        is_table = pc.equal(below["object_type"], TABLE)
        tables = below.filter(is_table)
        keys = row_keys(tables, columns).to_pylist()
        names = tables["object_id"].to_pylist()
        taken.update(((spec.id, key), name) for key, name in zip(keys, names, strict=True))
        for level in range(1, len(columns) + 1):
            level_rows = below.filter(pc.and_(pc.invert(is_table), pc.equal(depth, level)))
            keys = row_keys(level_rows, columns[:level]).to_pylist()
            paths.update(zip(level_rows["object_id"].to_pylist(), keys, strict=True))
    return paths, taken
