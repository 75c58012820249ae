"""`murmur3` and `murmur3_multi` as DataFusion UDFs: thin wrappers of `lance_df.hashing`.

A UDF made in Python has one exact signature. So a plain context gets

* ``murmur3(x)`` for integers: DataFusion casts all but uint64 to int64, and refuses other types;
* ``murmur3_<type>(x)`` for the types of `PLAIN_TYPES`;
* ``murmur3_multi(make_array(murmur3_key_<type>(a), murmur3_key_<type>(b)))`` for several columns.

A `lance_df.SessionContext` understands ``murmur3(x)`` and ``murmur3_multi(a, b, …)`` for any types: it
replaces the calls by UDFs that :func:`typed_udf` makes for the types at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from datafusion import udf

PLAIN_TYPES = {
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "utf8": pa.string(),
    "binary": pa.binary(),
    "date32": pa.date32(),
    "timestamp_us": pa.timestamp("us"),
}


def plain_udfs() -> Iterator[Any]:
    """Yield the UDFs with fixed signatures."""
    yield from hash_udfs()
    for name, data_type in PLAIN_TYPES.items():
        yield udf(_murmur3, [data_type], pa.int32(), "immutable", name=f"murmur3_{name}")
        yield udf(_key, [data_type], pa.binary(), "immutable", name=f"murmur3_key_{name}")


def hash_udfs() -> Iterator[Any]:
    """Yield ``murmur3`` of integers, and ``murmur3_multi`` of lists of keys."""
    yield udf(_murmur3, [pa.int64()], pa.int32(), "immutable", name="murmur3")
    yield udf(_of_lists, [pa.list_(pa.binary())], pa.int32(), "immutable", name="murmur3_multi")


def typed_udf(function: str, types: Sequence[pa.DataType], name: str) -> Any:
    """Return the UDF ``name`` that computes `murmur3` or `murmur3_multi` of exactly ``types``."""
    body = _murmur3 if function == "murmur3" else _multi
    return udf(body, list(types), pa.int32(), "immutable", name=name)


# each session has these functions, and few call them: what they need is imported then


def _murmur3(values: pa.Array) -> pa.Array:
    from lance_df.hashing import murmur3

    return murmur3(values)


def _of_lists(keys: pa.Array) -> pa.Array:
    from lance_df.hashing import murmur3_of_lists

    return murmur3_of_lists(keys)


def _key(values: pa.Array) -> pa.Array:
    from lance_df.hashing import canonical_bytes

    return canonical_bytes(values).cast(pa.binary())


def _multi(*columns: pa.Array) -> pa.Array:
    from lance_df.hashing import murmur3_multi

    return murmur3_multi(columns)
