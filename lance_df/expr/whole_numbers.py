"""Compare integers, dates and times as numbers with numpy, several times as fast as with pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.expr.nodes import Operator

if TYPE_CHECKING:
    from collections.abc import Callable

ARRAY_COMPARISONS: Final[dict[Operator, Callable[..., Any]]] = {
    Operator.EQ: np.equal,
    Operator.NE: np.not_equal,
    Operator.LT: np.less,
    Operator.LE: np.less_equal,
    Operator.GT: np.greater,
    Operator.GE: np.greater_equal,
}


def whole_numbers(values: pa.Array) -> npt.NDArray[np.integer[Any]] | None:
    """Return the values as numbers, arbitrary at nulls; None for other types."""
    types, kind = pa.types, "i"
    if types.is_unsigned_integer(values.type):
        kind = "u"
    elif not (types.is_integer(values.type) or types.is_temporal(values.type)):
        return None
    width = values.type.bit_width // 8
    return np.frombuffer(values.buffers()[1] or b"", f"<{kind}{width}", len(values), values.offset * width)


def compared_numbers(
    operator: Operator, numbers: npt.NDArray[np.integer[Any]], value: pa.Scalar
) -> npt.NDArray[np.bool_]:
    """Return the result of comparing numbers with a literal of their original type."""
    literal = whole_numbers(pa.repeat(value, 1))
    assert literal is not None
    result: npt.NDArray[np.bool_] = ARRAY_COMPARISONS[operator](numbers, literal[0])
    return result
