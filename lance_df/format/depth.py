"""Check how deeply columns are nested; the limit is that of Arrow's C interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH = 62


def levels_within(logical_type: str) -> int:
    """Return how many nested Arrow types the logical type itself stands for, not counting child fields."""
    return logical_type.count("fixed_size_list:") + logical_type.count("dict:")


def check_depth(schema: pa.Schema) -> None:
    """Check that no column is nested too deeply.

    The check does not recurse, so the code that follows may safely walk the types by recursion.

    Raises
    ------
    UnsupportedFeatureError
        A column is nested too deeply.
    """
    for field in schema:
        types: list[pa.DataType] = [field.type]
        depth = 0
        while types := [child for data_type in types for child in _children(data_type)]:
            depth += 1
            if depth > MAX_DEPTH:
                raise UnsupportedFeatureError(
                    f"column {field.name!r} is nested deeper than {MAX_DEPTH} levels, which Arrow cannot read"
                )


def _children(data_type: pa.DataType) -> Iterable[pa.DataType]:
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    if pa.types.is_dictionary(data_type):
        return (data_type.value_type,)
    return (data_type.field(position).type for position in range(data_type.num_fields))
