"""Columns that indices can be of, the names of these indices, and the values of the columns in scans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np

from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.maintenance.sorted_entries import Entries
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from lance_df.format.schema import Field
    from lance_df.table.table import Table


def scanned_fields(table: Table) -> Iterator[tuple[str, Field]]:
    """Yield the name by which a scan reads each field, through structs only."""

    def below(fields: Iterable[Field], prefix: str) -> Iterator[tuple[str, Field]]:
        for field in fields:
            yield prefix + field.name, field
            if field.is_struct and not field.is_blob:
                yield from below(field.children, f"{prefix}{field.name}.")

    seen: set[str] = set()
    # a column whose name has dots hides the field of a struct that is called the same
    for name, field in [
        *((each.name, each) for each in table.schema.fields),
        *below(table.schema.fields, ""),
    ]:
        if name not in seen:
            seen.add(name)
            yield name, field


def free_index_name(table: Table, column: str, field: Field, kind: str) -> str:
    """Return the default name of an index: that of one of its kind on the column, or one that is free."""
    taken = {index.name for index in table.indices if index.fields != (field.id,) or index.kind != kind}
    default = f"{column}_idx"
    names = chain([default], (f"{default}_{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def scanned_entries(
    table: Table, column: str, fragment_ids: Iterable[int], *, by_row_id: bool = False
) -> Iterator[Entries]:
    """Yield the values of the live rows of some fragments in their order, with row addresses or row ids."""
    request = ScanRequest(
        columns=(column,),
        with_row_id=by_row_id,
        with_row_address=not by_row_id,
        fragment_ids=tuple(fragment_ids),
        requires=Promise.COMPLETE | Promise.ORDERED,
    )
    for batch in run_tasks(plan_scan(table, request).tasks):
        yield Entries(batch.column(0), np.asarray(batch.column(1)))
