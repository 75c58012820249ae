"""Move rows that cannot be members to a separate namespace, in which they stay tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.namespace.health.check_rows import twin_ids
from lance_df.namespace.health.repair_report import RepairKind
from lance_df.namespace.health.row_tables import joined, with_column, without_values
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.manifest_table import NAMESPACE, TABLE
from lance_df.namespace.names import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_df.namespace.health.rebuild import Rebuild

SET_ASIDE: Final = "set_aside"


def set_aside(rebuild: Rebuild) -> None:
    """Move the remaining rows to a separate namespace, in which `DirectoryNamespace` finds them."""
    _drop_shared(rebuild)
    # if they were set aside, dropping them would remove the folder of the other table
    rebuild.good, rebuild.misplaced = joined(rebuild.good, rebuild.misplaced), rebuild.misplaced.slice(0, 0)
    for name in rebuild.spare["object_id"].to_pylist():
        rebuild.add_action(RepairKind.SET_ASIDE, name, "another row has the same id")
    rebuild.open, rebuild.spare = joined(rebuild.open, rebuild.spare), rebuild.spare.slice(0, 0)
    if not len(rebuild.open):
        return
    names = rebuild.open["object_id"].to_pylist()
    for name, kind in zip(names, rebuild.open["object_type"].to_pylist(), strict=True):
        if kind != TABLE:
            rebuild.add_action(RepairKind.SET_ASIDE, name, "no table of the namespace is below it")
    rows, rebuild.open = rebuild.open, rebuild.open.slice(0, 0)
    add_others(rebuild, rows, [f"{SET_ASIDE}{SEPARATOR}{name.replace(SEPARATOR, '.')}" for name in names])


def set_aside_twins(rebuild: Rebuild, rows: pa.Table, is_empty: Callable[[str], bool]) -> pa.Table:
    """Return rows; if several tables have the same partition, the empty ones are set aside.

    Parameters
    ----------
    is_empty
        Whether the table with an id is empty.
    """
    twins: list[str] = []
    for spec in rebuild.specs:
        is_in_spec = pc.starts_with(rows["object_id"], spec.name + SEPARATOR)
        tables = rows.filter(pc.and_(is_in_spec, pc.equal(rows["object_type"], TABLE)))
        for names in twin_ids(tables, spec):
            empty = [name for name in names if is_empty(name)]
            twins += empty if len(empty) < len(names) else empty[1:]
    is_twin = pc.is_in(rows["object_id"], pa.array(twins, pa.string()))
    is_member_row = pc.and_(is_spec_row(rows), pc.invert(is_twin))
    rebuild.good, rebuild.open = rows.filter(is_member_row), rows.filter(is_twin)
    rebuild.other = rows.filter(pc.invert(pc.or_(is_member_row, is_twin)))
    for name in twins:
        rebuild.add_action(
            RepairKind.SET_ASIDE, name, "another table has the same partition values and also has rows"
        )
    set_aside(rebuild)
    return rebuild.rows()


def add_others(rebuild: Rebuild, rows: pa.Table, wanted: Sequence[str]) -> list[str]:
    """Add rows outside the partitioned namespace, and return their ids: those wanted, or with a suffix."""
    taken = set(rebuild.other["object_id"].to_pylist())
    names = []
    for base in wanted:
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}.{number}"
        taken.add(name)
        names.append(name)
    rows = with_column(without_values(rows, rebuild.specs), "object_id", pa.array(names, pa.string()))
    rebuild.other = joined(rebuild.other, rows)
    is_aside = any(name.startswith(SET_ASIDE + SEPARATOR) for name in names)
    if is_aside and SET_ASIDE not in taken:
        row = {"object_id": SET_ASIDE, "object_type": NAMESPACE, "metadata": "{}"}
        rebuild.other = joined(rebuild.other, pa.Table.from_pylist([row], rebuild.columns))
    return names


def _drop_shared(rebuild: Rebuild) -> None:
    """Drop rows that name the folder of another table that has a correct row."""
    is_shared = pc.is_in(rebuild.misplaced["location"], one_array(rebuild.good["location"].drop_null()))
    for name, location in zip(
        *(rebuild.misplaced.filter(is_shared)[each].to_pylist() for each in ("object_id", "location")),
        strict=True,
    ):
        rebuild.add_action(RepairKind.SHARED, name, location)
    rebuild.misplaced = rebuild.misplaced.filter(pc.invert(is_shared))
