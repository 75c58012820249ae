"""The columns and first rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.display.cells import cell_text
from lance_df.display.elements import escaped, folded, html_table, note, scrolled
from lance_df.display.numbers import number_text

if TYPE_CHECKING:
    import pyarrow as pa

MAX_COLUMNS: Final = 20
"""How many columns are shown with values."""
NUM_ROWS: Final = 5
"""How many rows are shown."""
_MAX_FIELDS: Final = 200
_MAX_TYPE_CHARACTERS: Final = 120


def columns_html(schema: pa.Schema) -> str:
    """Return the columns with their types, as a collapsed list."""
    shown = [schema.field(index) for index in range(min(len(schema), _MAX_FIELDS))]
    rows = [
        (escaped(each.name), escaped(each.type, _MAX_TYPE_CHARACTERS), "yes" if each.nullable else "no")
        for each in shown
    ]
    table = html_table(("column", "type", "may be null"), rows)
    if len(schema) > len(shown):
        table += note(f"… {len(schema) - len(shown):,} more columns")
    return folded(number_text(len(schema), "column"), table)


def rows_html(rows: pa.Table, num_columns: int, num_rows: int = NUM_ROWS) -> str:
    """Return rows as a table.

    Parameters
    ----------
    rows
        The first rows, with the first columns.
    num_columns
        The total number of columns.
    num_rows
        How many rows to show.
    """
    shown = rows.slice(0, num_rows).select(rows.column_names[:MAX_COLUMNS])
    cells = [
        [escaped(cell_text(column[number])) for column in shown.columns] for number in range(shown.num_rows)
    ]
    left = num_columns - shown.num_columns
    return scrolled(html_table(shown.column_names, cells)) + (
        note(f"… {left:,} more columns") if left > 0 else ""
    )
