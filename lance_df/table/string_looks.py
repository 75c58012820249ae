"""What columns of strings are like, by a look at their first values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.plan import RowRange
from lance_df.errors import LanceError
from lance_df.scan.source import SampledStrings
from lance_df.table.reading.observed import sampled_fragment

if TYPE_CHECKING:
    from collections.abc import Collection

    from lance_df.table.table import Table

# what lies within a view itself
_VIEW_BYTES: Final = 12
_LOOKED_AT: Final = 1024
_MOSTLY: Final = 0.75


def look_at_strings(table: Table, names: Collection[str]) -> SampledStrings | None:
    """Look at some top-level columns of strings; None where nothing can be read, as who scans them tells."""
    reader = sampled_fragment(table)
    if reader is None:
        return None

    def look() -> SampledStrings:
        rows = RowRange(0, min(_LOOKED_AT, reader.num_rows))
        arrays = reader.read([table.schema.field(name) for name in names], rows, keep_dictionaries=True)
        found = dict(zip(names, arrays, strict=True))
        return SampledStrings(
            frozenset(name for name, array in found.items() if _is_short(array)),
            frozenset(name for name, array in found.items() if pa.types.is_dictionary(array.type)),
        )

    try:
        return table.shared.observed.sample("strings", reader, tuple(names), look)
    except LanceError:
        return None


def _is_short(values: pa.Array) -> bool:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    share = pc.mean(pc.less_equal(pc.binary_length(values), _VIEW_BYTES)).as_py()
    return share is None or bool(share >= _MOSTLY)
