"""Write conditions on times as SQL, with Spark's microseconds in the unit of the stored column.

DataFusion truncates a time of a finer unit to the unit of the column, so the values here are in the column's
unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_MICROS: Final = {"s": 1_000_000, "ms": 1000, "us": 1}
_NANOS: Final = 1000
_INT64: Final = 2**63
_UNITS: Final = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


def compared_time(name: str, data_type: pa.TimestampType, operator: str, micros: int) -> str | None:
    """Return a filter that is true for the same rows as a comparison of a column with a time in Spark.

    Parameters
    ----------
    name
        The quoted name of the column.
    """
    if data_type.unit == "ns":
        return _compared_nanos(name, data_type, operator, micros)
    below, rest = divmod(micros, _MICROS[data_type.unit])
    if not rest:
        return f"{name} {operator} {_literal(below, data_type)}"
    match operator:  # the value is between this one and the next
        case "=":
            return "false"
        case "<>":
            return f"{name} IS NOT NULL"
        case "<" | "<=":
            return f"{name} <= {_literal(below, data_type)}"
        case _:
            return f"{name} > {_literal(below, data_type)}"


def times_listed_in(
    name: str, data_type: pa.TimestampType, values: Iterable[int], *, negated: bool
) -> str | None:
    """Return a filter for the times in a list, or if negated for all others; not for nanoseconds."""
    pairs = [divmod(micros, _MICROS[data_type.unit]) for micros in values]
    texts = [_literal(time, data_type) for time, rest in pairs if not rest]
    if not texts:
        return f"{name} IS NOT NULL" if negated else "false"
    return f"{name} {'NOT ' if negated else ''}IN ({', '.join(texts)})"


def _compared_nanos(name: str, data_type: pa.TimestampType, operator: str, micros: int) -> str | None:
    """Return a comparison for times in nanoseconds, which Spark rounds down to microseconds."""
    if not -_INT64 < (micros - 1) * _NANOS <= (micros + 1) * _NANOS < _INT64:
        return None
    this, following = (_literal(each * _NANOS, data_type) for each in (micros, micros + 1))
    return {
        "=": f"({name} >= {this} AND {name} < {following})",
        "<": f"{name} < {this}",
        "<=": f"{name} < {following}",
        ">": f"{name} >= {following}",
        ">=": f"{name} >= {this}",
    }.get(operator)


def _literal(value: int, data_type: pa.TimestampType) -> str:
    zone = "None" if data_type.tz is None else f'Some("{data_type.tz}")'
    return f"arrow_cast({value}, 'Timestamp({_UNITS[data_type.unit]}, {zone})')"
