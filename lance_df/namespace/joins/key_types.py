"""Check for which types, and casts, equal join keys have equal hashes and partition values.

Partition values agree between types of one class (see `lance_df.hashing`). A cast of a column in a join
condition is allowed only if different values stay different.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lance_df.expr.literals import is_bytes, is_text

_UNITS: Final = ("s", "ms", "us", "ns")


def key_class(data_type: pa.DataType) -> str | None:
    """Return the class of values, whatever their width; None for types that cannot be partition values.

    >>> key_class(pa.int8()) == key_class(pa.uint64()), key_class(pa.timestamp("us", "UTC"))
    (True, 'timestamp of UTC')
    """
    kind, kinds = _plain(data_type), pa.types
    if kinds.is_timestamp(kind):
        return "timestamp" if kind.tz is None else f"timestamp of {kind.tz}"
    for name, belongs in (
        ("boolean", kinds.is_boolean),
        ("integer", kinds.is_integer),
        ("float", kinds.is_floating),
        ("decimal", kinds.is_decimal),
        ("text", is_text),
        ("binary", is_bytes),
        ("date", kinds.is_date),
        ("time", kinds.is_time),
        ("duration", kinds.is_duration),
    ):
        if belongs(kind):
            return name
    return None


def keeps_apart(types: Sequence[pa.DataType]) -> bool:
    """Whether each cast to the next type either fails or keeps different values different."""
    return all(_keeps_apart(_plain(source), _plain(target)) for source, target in itertools.pairwise(types))


def _keeps_apart(source: pa.DataType, target: pa.DataType) -> bool:
    kinds = pa.types
    if source == target:
        return True
    if kinds.is_integer(source):
        return kinds.is_integer(target) or (kinds.is_decimal(target) and target.scale >= 0)
    if kinds.is_floating(source):
        return kinds.is_floating(target) and target.bit_width >= source.bit_width
    if kinds.is_decimal(source):
        return kinds.is_decimal(target) and target.scale >= source.scale
    if kinds.is_date(source):
        return kinds.is_date(target) and target.bit_width >= source.bit_width
    if kinds.is_timestamp(source):
        return kinds.is_timestamp(target) and source.tz == target.tz and _is_finer(source, target)
    if kinds.is_time(source):
        return kinds.is_time(target) and _is_finer(source, target)
    if kinds.is_duration(source):
        return kinds.is_duration(target) and _is_finer(source, target)
    return (is_text(source) and is_text(target)) or (is_bytes(source) and is_bytes(target))


def _is_finer(source: pa.DataType, target: pa.DataType) -> bool:
    return _UNITS.index(target.unit) >= _UNITS.index(source.unit)


def _plain(data_type: pa.DataType) -> pa.DataType:
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type
