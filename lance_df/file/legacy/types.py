"""Which page encoding a type has in 0.1 files."""

from __future__ import annotations

import pyarrow as pa


def is_var_binary(data_type: pa.DataType) -> bool:
    """Return whether values are of variable width."""
    types = pa.types
    return bool(
        types.is_string(data_type)
        or types.is_binary(data_type)
        or types.is_large_string(data_type)
        or types.is_large_binary(data_type)
    )
