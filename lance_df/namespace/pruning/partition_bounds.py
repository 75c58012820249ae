"""What the values of partitions say about their source columns: bounds, and whether there are NULLs.

One entry for each partition. Nothing known is a null bound; a wrong bound would lose rows.
Spec: partitioning, "Partition Pruning".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.bounds import ZoneBounds
from lance_df.expr.literals import integer_limits
from lance_df.namespace.pruning.calendar_ranges import DAY_SECONDS, TICKS_PER_SECOND, YEARS, zone_slack
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_spec import PartitionField, PartitionSpec
from lance_df.namespace.spec.transforms import CALENDAR_PARTS, TransformKind

_Path = tuple[str, ...]
_CODE_POINT_LIMIT: Final = 0x10FFFF


def partition_bounds(
    spec: PartitionSpec, schema: NamespaceSchema, values: Mapping[str, pa.Array], wanted: Collection[_Path]
) -> dict[_Path, ZoneBounds]:
    """Return bounds of source columns by path.

    Parameters
    ----------
    values
        The partition values by name of the column in ``__manifest``.
    wanted
        The columns that are asked for.
    """
    found: dict[_Path, ZoneBounds] = {}
    calendars: dict[int, dict[TransformKind, pa.Array]] = {}
    for field in spec.fields:
        if not any(schema.path(field_id) in wanted for field_id in field.source_ids):
            continue
        own = values[field.column]
        kind = None if field.transform is None else field.transform.kind
        if kind in CALENDAR_PARTS and kind is not None:
            calendars.setdefault(field.source_ids[0], {})[kind] = own
            continue
        for field_id in field.source_ids:
            column = _column(schema, field_id)
            if column is not None:
                bounds = _of_transform(field, own, column[1])
                if bounds is not None and _is_better(bounds, found.get(column[0])):
                    found[column[0]] = bounds
    for field_id, parts in calendars.items():
        column = _column(schema, field_id)
        if column is not None and column[0] not in found and TransformKind.YEAR in parts:
            found[column[0]] = _of_calendar(parts, column[1])
    return found


def shared_values(
    spec: PartitionSpec, schema: NamespaceSchema, values: Mapping[str, pa.Array], wanted: Collection[_Path]
) -> dict[_Path, pa.Array]:
    """Return the source columns that have one value in all rows of a partition, by path.

    Floats are not among them: of the zeros, and of NaN, a partition may have several.

    Parameters
    ----------
    values, wanted
        As for `partition_bounds`.
    """
    found = {}
    for field in spec.fields:
        if field.transform is not None and field.transform.kind is TransformKind.IDENTITY:
            column = _column(schema, field.source_ids[0])
            if column is not None and column[0] in wanted and not pa.types.is_floating(field.result_type):
                found[column[0]] = _cast(values[field.column], column[1])
    return found


def _column(schema: NamespaceSchema, field_id: int) -> tuple[_Path, pa.DataType] | None:
    """Return path and type of a source column, None when it is gone."""
    path = schema.path(field_id)
    return None if path is None else (path, schema.columns.by_id()[field_id].arrow_type())


def _is_better(new: ZoneBounds, old: ZoneBounds | None) -> bool:
    return old is None or new.min.null_count < old.min.null_count


def _exact(values: pa.Array) -> ZoneBounds:
    """Return the bounds of values that all rows of a partition share; a float zero stands for both."""
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    count = len(values)
    if not pa.types.is_floating(values.type):
        return _bounds(values, values, is_null)
    floats = values.to_numpy(zero_copy_only=False)
    is_nan = np.isnan(floats) & ~is_null
    lowest = np.where(floats == 0, np.array(-0.0, floats.dtype), floats)
    return ZoneBounds(
        min=pa.array(lowest, values.type, mask=is_null | is_nan),
        max=pa.array(floats, values.type, mask=is_null | is_nan),
        null_count=is_null.astype(np.int64),
        nan_count=is_nan.astype(np.int64),
        num_rows=np.ones(count, np.int64),
    )


def _bounds(low: pa.Array, high: pa.Array, is_null: npt.NDArray[np.bool_]) -> ZoneBounds:
    return ZoneBounds(
        min=low,
        max=high,
        null_count=is_null.astype(np.int64),
        num_rows=np.ones(len(low), np.int64),
    )


def _of_known(low: pa.Array, high: pa.Array, known: npt.NDArray[np.bool_]) -> ZoneBounds:
    """Return bounds of columns that are not NULL where they are known, and may be anything elsewhere."""
    rows = np.full(len(low), 2, np.int64)
    return ZoneBounds(min=low, max=high, null_count=(~known).astype(np.int64), num_rows=rows)


def _of_transform(field: PartitionField, values: pa.Array, data_type: pa.DataType) -> ZoneBounds | None:
    if field.transform is None:
        return None
    kind, width = field.transform.kind, field.transform.width
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    unknown = pa.nulls(len(values), data_type)
    if kind is TransformKind.IDENTITY:
        return _exact(_cast(values, data_type))
    if kind is TransformKind.BUCKET:
        return _bounds(unknown, unknown, is_null)
    if kind is TransformKind.MULTI_BUCKET:
        # a bucket may hold rows in which this column is NULL, and another is not
        return None
    if width is None:
        return None
    if pa.types.is_integer(data_type):
        return _bounds(*_of_steps(values, width, data_type), is_null)
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        return _bounds(*_of_prefixes(values, width, data_type), is_null)
    return _bounds(unknown, unknown, is_null)


def _cast(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return the values in the type that the column has by now."""
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    return values if values.type == data_type else values.cast(data_type)


def _of_steps(values: pa.Array, width: int, data_type: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return the ends of truncated numbers: 10 stands for 10 to 19, 0 for -9 to 9, -10 for -19 to -10."""
    lowest, highest = integer_limits(data_type)

    def ends(value: int) -> tuple[int, int]:
        low = max(lowest, value - (width - 1)) if value <= 0 else value
        return low, min(highest, value + (width - 1)) if value >= 0 else value

    return _each_distinct(values, ends, data_type)


def _of_prefixes(values: pa.Array, width: int, data_type: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return the ends of truncated texts: what is shorter than the width is the text itself."""
    return _each_distinct(values, lambda text: (text, text if len(text) < width else _after(text)), data_type)


def _each_distinct(
    values: pa.Array, ends: Callable[[Any], tuple[object, object]], data_type: pa.DataType
) -> tuple[pa.Array, pa.Array]:
    encoded = values.dictionary_encode()
    both = [ends(value) for value in encoded.dictionary.to_pylist()]
    low, high = (pa.array([pair[side] for pair in both], data_type) for side in (0, 1))
    return low.take(encoded.indices), high.take(encoded.indices)


def _after(prefix: str) -> str | None:
    """Return a text that is above all that begin with a prefix; None if there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < _CODE_POINT_LIMIT:
            following = 0xE000 if 0xD7FF <= code < 0xE000 else code + 1
            return prefix[: end - 1] + chr(following)
    return None


def _of_calendar(parts: Mapping[TransformKind, pa.Array], data_type: pa.DataType) -> ZoneBounds:
    """Return the ends of years, or of what is left of them by months, days and hours of the same column."""
    years = parts[TransformKind.YEAR]
    known = pc.and_(
        pc.fill_null(pc.greater_equal(years, YEARS[0]), False),
        pc.fill_null(pc.less_equal(years, YEARS[1]), False),
    ).to_numpy(zero_copy_only=False)
    first = (pc.fill_null(years, 1970).to_numpy(zero_copy_only=False).astype(np.int64) - 1970).astype(
        "datetime64[Y]"
    )
    start, stop = _seconds(first), _seconds(first + 1)
    for kind, unit, base in (
        (TransformKind.MONTH, "M", 1),
        (TransformKind.DAY, "D", 1),
        (TransformKind.HOUR, "h", 0),
    ):
        if kind not in parts:
            break
        number = pc.fill_null(parts[kind], base).to_numpy(zero_copy_only=False).astype(np.int64) - base
        known &= ~parts[kind].is_null().to_numpy(zero_copy_only=False)
        begin = start.astype("datetime64[s]").astype(f"datetime64[{unit}]") + number
        start, stop = _seconds(begin), _seconds(begin + 1)
    return _of_seconds(start, stop, known, data_type)


def _seconds(moments: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    return moments.astype("datetime64[s]").astype(np.int64)


def _of_seconds(
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_],
    data_type: pa.DataType,
) -> ZoneBounds:
    """Return bounds of a column of dates or timestamps; ``stop`` is exclusive."""
    if pa.types.is_date32(data_type):
        days = pa.date32()
        low = pa.array((start // DAY_SECONDS).astype(np.int32), days, mask=~known)
        last = (stop - 1) // DAY_SECONDS
        high = pa.array(last.astype(np.int32), days, mask=~known)
        return _of_known(low, high, known)
    slack = zone_slack(data_type)
    start, stop = start - slack, stop + slack
    per_second = TICKS_PER_SECOND["ms" if pa.types.is_date64(data_type) else data_type.unit]
    limit = (2**63 - 1) // per_second
    known = known & (np.abs(start) < limit) & (np.abs(stop) < limit)
    ticks = [np.where(known, moment, 0) * per_second for moment in (start, stop)]
    ends = (ticks[0], ticks[1] - 1)
    low, high = (pa.array(each, pa.int64(), mask=~known).cast(data_type) for each in ends)
    return _of_known(low, high, known)
