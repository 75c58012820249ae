"""Results of statements, and how two of them differ."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final

import datafusion
import pyarrow as pa

from tools.conformance.statements import Ordering

_MOST_SHOWN: Final = 300
_RELATIVE: Final = 1e-9

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement returns: the schema of its frame and its batches, or an error.

    ``is_planned`` tells whether DataFusion took the statement; an error comes of its rows then.
    """

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]
    error: str | None = None
    is_planned: bool = True

    def rows(self) -> list[Row]:
        """Return the rows; columns of one name stay apart."""
        return [
            row
            for batch in self.batches
            for row in (
                zip(*(_values(batch.select([index])) for index in range(batch.num_columns)), strict=True)
                if batch.num_columns
                else [()] * batch.num_rows
            )
        ]


def _values(column: pa.RecordBatch) -> list[Any]:
    """Return the values of a batch of one column; what Python cannot represent as integers or text."""
    kind = column.schema.types[0]
    try:
        if pa.types.is_temporal(kind):
            width = pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()
            return column.column(0).cast(width).to_pylist()
        return column.column(0).to_pylist()
    except (KeyError, ValueError, OverflowError, pa.ArrowException):
        ctx = datafusion.SessionContext()
        ctx.register_record_batches("t", [[column.rename_columns(["value"])]])
        texts = ctx.sql("SELECT arrow_cast(value, 'Utf8') FROM t").collect()
        return [value for batch in texts for value in batch.column(0).to_pylist()]


def answer(ctx: Any, sql: str) -> Answer:
    """Run a statement. Whatever DataFusion raises is an error of it, a panic too."""
    is_planned = False
    try:
        frame = ctx.sql(sql)
        is_planned = True
        batches = tuple(frame.collect())
        if not batches and len(frame.schema()):  # the plan that is executed knows what batches would be
            batches = (pa.RecordBatch.from_pylist([], schema=frame.cache().schema()),)
        return Answer(frame.schema(), batches)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as err:  # noqa: BLE001 - panics of Rust derive from BaseException
        return Answer(pa.schema([]), (), f"{type(err).__name__}: {err}", is_planned)


def difference(ours: Answer, theirs: Answer, ordering: Ordering | None) -> str | None:
    """Return in what an answer differs from the one in memory; None where it does not.

    Names, types and nullability are compared, those of the batches too. Rows are compared in order where the
    statement orders them, up to rows of equal keys (all rows, where it orders by what it does not return),
    floats up to the order of additions.
    """
    if ours.error is not None or theirs.error is not None:
        if (ours.error is None) == (theirs.error is None):
            return None
        side, error = ("ours", ours.error) if ours.error is not None else ("memory", theirs.error)
        return f"only {side} fails: {str(error)[:_MOST_SHOWN]}"
    what = _of_schemas(ours, theirs)
    if what is not None or _are_identical(ours, theirs, is_ordered=ordering is not None):
        return what
    return row_difference(ours.rows(), theirs.rows(), ordering)


def difference_of_rows(ours: Answer, theirs: Answer, *, is_ordered: bool) -> str | None:
    """Return in which rows two answers differ, whose types may be Arrow's and Lance's for the same values."""
    if _are_identical(ours, theirs, is_ordered=is_ordered):
        return None
    return row_difference(ours.rows(), theirs.rows(), Ordering((), is_complete=False) if is_ordered else None)


def _are_identical(ours: Answer, theirs: Answer, *, is_ordered: bool) -> bool:
    """Whether rows are the same bit by bit, in order or sorted; without a Python object for each value."""
    # in some releases the batches of a union are not all declared NULL or all NOT NULL
    if any(len(_batch_schemas(each)) > 1 for each in (ours, theirs)):
        return False
    names = [str(index) for index in range(len(ours.schema))]
    found, wanted = (
        pa.Table.from_batches([batch.rename_columns(names) for batch in each.batches]).combine_chunks()
        if each.batches
        else None
        for each in (ours, theirs)
    )
    if found is None or wanted is None or found.schema != wanted.schema or not names:
        return False
    if _has_floats(found.schema):  # zeros of two signs are equal there
        return False
    if found.equals(wanted):
        return True
    if is_ordered or any(pa.types.is_nested(column) for column in found.schema.types):
        return False
    keys = [(name, "ascending") for name in names]
    try:
        return bool(found.sort_by(keys).equals(wanted.sort_by(keys)))
    except (pa.ArrowException, KeyError):  # no order for this type
        return False


def _has_floats(schema: pa.Schema) -> bool:
    return any(re.search(r"float|double", str(kind)) for kind in schema.types)


def _of_schemas(ours: Answer, theirs: Answer) -> str | None:
    found, wanted = _batch_schemas(ours), _batch_schemas(theirs)
    if found - wanted and wanted:
        return (
            f"batches have the schemas {sorted(map(_shown, found))}, in memory {sorted(map(_shown, wanted))}"
        )
    if ours.schema == theirs.schema:
        return None
    # a frame of DataFusion does not know what a union makes of its columns; its batches have the types
    if wanted and all(_columns(ours.schema) == _columns(schema) for schema in wanted):
        return None
    return f"the schema is {_shown(ours.schema)}, in memory {_shown(theirs.schema)}"


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _batch_schemas(of: Answer) -> set[pa.Schema]:
    return {batch.schema.remove_metadata() for batch in of.batches}


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)[
        :_MOST_SHOWN
    ]


def row_difference(
    ours: list[Row], theirs: list[Row], ordering: Ordering | None, *, relative: float = _RELATIVE
) -> str | None:
    """Return in what rows differ from those in memory; None where they do not.

    They are compared in order where there is an ordering, up to rows of equal keys, and of a limited result
    without those of the first and the last key. Floats may differ by ``relative``: by the order of additions.
    """
    equal = partial(_equal, relative=relative)
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, in memory {len(theirs)}"
    if equal(ours, theirs):
        return None
    if ordering is None:
        return _of_sets(ours, theirs, equal)
    keys = ordering.keys
    mine, other = ([tuple(row[key] for key in keys) for row in rows] for rows in (ours, theirs))
    for index, (found, wanted) in enumerate(zip(mine, other, strict=True)):
        if not equal(found, wanted):
            return f"row {index} in order has the keys {found!r}, in memory {wanted!r}"[:_MOST_SHOWN]
    if not ordering.is_complete:
        return _of_sets(ours, theirs, equal) or "the rows are in another order"
    if not ordering.is_limited:
        return _of_sets(ours, theirs, equal)
    # of rows with the first and the last key a limit and an offset may take any
    cut = (repr(mine[0]), repr(mine[-1]))
    whole = [index for index, key in enumerate(mine) if repr(key) not in cut]
    return _of_sets([ours[index] for index in whole], [theirs[index] for index in whole], equal)


def _of_sets(ours: list[Row], theirs: list[Row], equal: Callable[[Any, Any], bool]) -> str | None:
    found, wanted = Counter(map(repr, ours)), Counter(map(repr, theirs))
    if found == wanted:
        return None
    if equal(sorted(ours, key=_rounded), sorted(theirs, key=_rounded)):
        return None
    more, fewer = list((found - wanted).elements()), list((wanted - found).elements())
    shown = f"such as {more[0][:_MOST_SHOWN]}; in memory {fewer[0][:_MOST_SHOWN]}"
    return f"{len(more)} of {len(ours)} rows differ, {shown}"


def _rounded(value: Any) -> str:
    match value:
        case float():
            return f"{value:.6g}"
        case tuple() | list():
            return f"({','.join(map(_rounded, value))})"
        case dict():
            return f"({','.join(f'{key}:{_rounded(each)}' for key, each in value.items())})"
    return repr(value)


def _equal(ours: Any, theirs: Any, relative: float) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        is_close = math.isclose(ours, theirs, rel_tol=relative)
        return is_close and math.copysign(1, ours) == math.copysign(1, theirs)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(_equal, ours, theirs, repeat(relative)))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(
            map(_equal, ours.values(), theirs.values(), repeat(relative))
        )
    return type(ours) is type(theirs) and bool(ours == theirs)
