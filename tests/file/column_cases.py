"""Columns of every type with nulls at every level, and row selections, for readers of all file versions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings.plan import RowRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_df.encodings.plan import Rows

WORDS = ["", "a", "naïve", "日本語", "x" * 40, "zebra"]

_FIXED: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    **{
        str(kind): (
            kind,
            lambda i, bits=kind.bit_width, unsigned="u" in str(kind): _integer(i, bits, unsigned),
        )
        for kind in (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
        )
    },
    "halffloat": (pa.float16(), lambda i: np.float16(i % 2000)),
    "float": (pa.float32(), lambda i: i / 4),
    "double": (pa.float64(), lambda i: [i / 3, float("inf"), -0.0][i % 3]),
    "bool": (pa.bool_(), lambda i: i % 3 == 0),
    "decimal128": (pa.decimal128(30, 4), lambda i: Decimal(i * 10**20 - 7).scaleb(-4)),
    "decimal256": (pa.decimal256(60, 4), lambda i: Decimal(i * 10**40 - 7).scaleb(-4)),
    "date32": (pa.date32(), lambda i: dt.date(1970, 1, 1) + dt.timedelta(i - 500)),
    "date64": (pa.date64(), lambda i: dt.date(1970, 1, 1) + dt.timedelta(i)),
    "time32_s": (pa.time32("s"), lambda i: dt.time(i % 24, i % 60)),
    "time32_ms": (pa.time32("ms"), lambda i: dt.time(i % 24, i % 60)),
    "time64_us": (pa.time64("us"), lambda i: dt.time(i % 24, i % 60)),
    "time64_ns": (pa.time64("ns"), lambda i: dt.time(i % 24, i % 60)),
    "timestamp_s": (pa.timestamp("s"), lambda i: i * 1000),
    "timestamp_us_zone": (pa.timestamp("us", "Europe/Berlin"), lambda i: i * 10**9),
    "timestamp_ns_offset": (pa.timestamp("ns", "+05:30"), lambda i: i * 10**12),
    "duration_ms": (pa.duration("ms"), lambda i: i),
    "fixed_size_binary": (pa.binary(3), lambda i: b"%03d" % (i % 1000)),
    "fsl_float": (pa.list_(pa.float32(), 3), lambda i: [i, i + 1, i + 2]),
    "fsl_bool": (pa.list_(pa.bool_(), 3), lambda i: [i % 2 == 0, i % 3 == 0, True]),
    "fsl_fsl": (pa.list_(pa.list_(pa.int8(), 2), 2), lambda i: [[i % 100, 1], [2, 3]]),
}
_VARIABLE: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "string": (pa.string(), lambda i: f"{i}-{WORDS[i % 6]}"),
    "string_few": (pa.string(), lambda i: WORDS[i % 6]),
    "large_string": (pa.large_string(), lambda i: WORDS[i % 6] * (i % 3)),
    "binary": (pa.binary(), lambda i: bytes([i % 256]) * (i % 5)),
    "large_binary": (pa.large_binary(), lambda i: b"%d" % i),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda i: f"v{i % 100}"),
    "dictionary_numbers": (pa.dictionary(pa.uint16(), pa.int64()), lambda i: i % 300),
    "list": (pa.list_(pa.int32()), lambda i: [*range(i % 4)]),
    "large_list": (pa.large_list(pa.string()), lambda i: [WORDS[j] for j in range(i % 4)]),
    "list_list": (pa.list_(pa.list_(pa.string())), lambda i: [WORDS[:j] for j in range(i % 4)]),
    "list_struct": (
        pa.list_(pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())})),
        lambda i: [{"x": j, "y": [str(i)] * j} for j in range(i % 3)],
    ),
}  # fmt: skip


def _integer(i: int, bits: int, unsigned: bool) -> int:
    value = (i * 2654435761) % 2**bits
    return value if unsigned else value - 2 ** (bits - 1)


def _columns(num_rows: int, every: int | None) -> Iterator[tuple[str, pa.Array]]:
    for name, (data_type, make) in (_FIXED | _VARIABLE).items():
        values = [None if every and i % every == 0 else make(i) for i in range(num_rows)]
        yield name, pa.array(values, data_type)


def table_without_nulls(num_rows: int) -> pa.Table:
    """Return a column of every type, none of them null."""
    columns = dict(_columns(num_rows, None))
    columns["struct"] = pa.array(
        [{"a": i, "b": {"c": str(i)}} for i in range(num_rows)],
        pa.struct({"a": pa.int32(), "b": pa.struct({"c": pa.string()})}),
    )
    return pa.table(columns)


def table_with_nulls(num_rows: int) -> pa.Table:
    """Return a column of every type with nulls, and others that are null throughout or below the top."""
    columns = dict(_columns(num_rows, 3))
    columns |= {
        f"all_null_{name}": pa.nulls(num_rows, kind) for name, (kind, _) in (_FIXED | _VARIABLE).items()
    }
    columns["null"] = pa.nulls(num_rows)
    columns["null_items"] = pa.array(
        [[None, i, None] if i % 2 else None for i in range(num_rows)], pa.list_(pa.int16(), 3)
    )
    columns["null_list_items"] = pa.array(
        [[None, str(i), None] if i % 2 else [] for i in range(num_rows)], pa.list_(pa.string())
    )
    columns["only_empty_lists"] = pa.array(
        [[] if i % 2 else None for i in range(num_rows)], pa.list_(pa.int64())
    )
    columns["struct_of_nulls"] = pa.array(
        [{"a": None if i % 2 else i, "b": None} for i in range(num_rows)],
        pa.struct({"a": pa.int32(), "b": pa.string()}),
    )
    return pa.table(columns)


def selections(num_rows: int) -> Iterator[Rows]:
    """Yield ranges and positions: all, none, the ends, odd places, near and far ones."""
    yield RowRange(0, num_rows)
    yield RowRange(num_rows, num_rows)
    yield np.zeros(0, np.int64)
    if num_rows:
        yield RowRange(num_rows - 1, num_rows)
        yield RowRange(num_rows // 3, num_rows - num_rows // 5)
        yield np.array([0], np.int64)
        yield np.arange(0, num_rows, 2)
        yield np.flatnonzero(np.random.default_rng(1).random(num_rows) < 0.02)
        yield np.unique(np.array([0, num_rows // 2, num_rows - 1]))


def selected(column: pa.ChunkedArray, rows: Rows) -> pa.ChunkedArray:
    """Return what a reader must return for ``rows``."""
    if isinstance(rows, RowRange):
        return column.slice(rows.start, len(rows))
    return column.take(pa.array(rows))


def assert_same(found: pa.Array, expected: pa.ChunkedArray) -> None:
    """Compare types and values (NaN equals NaN), and that the array keeps Arrow's rules."""
    found.validate(full=True)
    assert found.type == expected.type
    if not pa.chunked_array([found]).equals(expected):
        assert found.to_pylist() == expected.to_pylist()
