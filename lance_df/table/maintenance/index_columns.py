"""Columns that can be indexed, the names of their indices, and their values in scans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np

from lance_df.format.column_path import path_step
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.maintenance.sorted_entries import Entries
from lance_df.table.scan.columns import resolve_name
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from lance_df.format.schema import Field
    from lance_df.table.table import Table


def scanned_fields(table: Table) -> Iterator[tuple[str, Field]]:
    """Yield each field with its name in scans, descending into structs only.

    Names on the path to a field are in backquotes if necessary.
    """

    def below(field: Field, way: str) -> Iterator[tuple[str, Field]]:
        if field.is_struct and not field.is_blob:
            for child in field.children:
                name = f"{way}.{path_step(child.name)}"
                yield name, child
                yield from below(child, name)

    # a column whose name has dots hides the struct field of the same name
    names = {field.name: field for field in table.schema.fields}
    for top in table.schema.fields:
        for name, field in below(top, path_step(top.name)):
            names.setdefault(name, field)
    yield from names.items()


def scanned_field(table: Table, column: str) -> tuple[str, Field] | None:
    """Return a column or field with its name from `scanned_fields`; None if it is not among these.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    """
    path = resolve_name(table.schema, column).path
    field = next((each for each in table.schema.fields if each.name == path[0]), None)
    for name in path[1:]:
        field = None if field is None else next(each for each in field.children if each.name == name)
    return next((each for each in scanned_fields(table) if each[1] is field), None)


def free_index_name(table: Table, column: str, field: Field, kind: str) -> str:
    """Return the default name of an index: that of an index of this kind on the column, or an unused one."""
    taken = {index.name for index in table.indices if index.fields != (field.id,) or index.kind != kind}
    default = f"{column}_idx"
    names = chain([default], (f"{default}_{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def scanned_entries(
    table: Table, column: str, fragment_ids: Iterable[int], *, by_row_id: bool = False
) -> Iterator[Entries]:
    """Yield the values of the live rows of the given fragments in order, with row addresses or row ids."""
    request = ScanRequest(
        columns=(column,),
        with_row_id=by_row_id,
        with_row_address=not by_row_id,
        fragment_ids=tuple(fragment_ids),
        requires=Promise.COMPLETE | Promise.ORDERED,
    )
    for batch in run_tasks(plan_scan(table, request).tasks):
        yield Entries(batch.column(0), np.asarray(batch.column(1)))
