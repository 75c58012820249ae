"""Read plain pages: values of equal width back to back, booleans as bits. There are no nulls.

::

    value 0 | value 1 | ...

Spec: file format 0.1, 5.1. Fixed-size lists are stored as their items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.arrays import fixed_array, fixed_width_bits
from lance_df.encodings.legacy.page import count_values, fetch_values
from lance_df.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.legacy.page import Wanted
    from lance_df.encodings.plan import IoPlan


def read_plain(data_type: pa.DataType, wanted: Wanted) -> IoPlan[pa.Array]:
    """Plan to read values of fixed width."""
    bits = fixed_width_bits(data_type)
    if bits is None:
        raise UnsupportedFeatureError(f"values of type {data_type} are not supported in 0.1 files")
    data = yield from fetch_values(wanted, bits)
    return fixed_array(data_type, count_values(wanted), data)
