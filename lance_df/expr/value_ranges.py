"""Map the values of ordered types to numbers, and represent sets of them as ranges.

Integers, dates and times are numbers. Floats are numbered in the order of `lance_df.expr.floats`, and
decimals by their unscaled value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.kernels import compare
from lance_df.expr.floats import bit_values, float_values, order_keys
from lance_df.expr.nodes import Operator
from lance_df.expr.whole_numbers import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

# Ascending ranges with inclusive ends, which neither touch nor overlap.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

_WORD: Final = 2**64


class NumberLine:
    """A `ValueSets` for types whose values map to numbers.

    Parameters
    ----------
    dtype, width
        The type of the words of a value, and the number of words of a value.
    """

    nothing: Ranges = ()

    def __init__(
        self, data_type: pa.DataType, kernel: Callable[..., int], dtype: np.dtype[Any], width: int
    ) -> None:
        self.data_type = data_type
        self.kernel = kernel
        self._dtype = dtype
        self._width = width
        if width == 1:
            self._lowest, self._highest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        else:
            self._lowest, self._highest = -(2**127), 2**127 - 1
        self._is_float = pa.types.is_floating(data_type)
        self.everything: Ranges = ((self._lowest, self._highest),)

    @classmethod
    def of(cls, data_type: pa.DataType) -> NumberLine | None:
        """Return the numbers of a type; None for types that are compared differently."""
        if pa.types.is_decimal128(data_type):
            return cls(data_type, compare.pairs_within, np.dtype("<u8"), 2)
        if not pa.types.is_primitive(data_type):
            return None
        empty = pa.array([], data_type)
        if pa.types.is_floating(data_type):
            return cls(data_type, compare.floats_within, bit_values(float_values(empty)).dtype, 1)
        numbers = whole_numbers(empty)
        return None if numbers is None else cls(data_type, compare.numbers_within, numbers.dtype, 1)

    def operands(self, values: pa.Array) -> tuple[npt.NDArray[np.uint8], int]:
        """Return the bytes of values and the size of a value. The values at nulls are arbitrary."""
        size = self._width * self._dtype.itemsize
        data = np.frombuffer(values.buffers()[1], np.uint8, len(values) * size, values.offset * size)
        return data, size

    def _number(self, value: pa.Scalar) -> int:
        words = np.frombuffer(pa.repeat(value, 1).buffers()[1], self._dtype, self._width)
        if self._is_float:
            words = order_keys(words.view(f"f{words.itemsize}"))
        if self._width == 1:
            return int(words[0])
        low, high = words.tolist()
        return int(low + _WORD * (high - _WORD if high >> 63 else high))

    def compared(self, operator: Operator, value: pa.Scalar) -> Ranges:
        """Return the set of numbers for which a comparison with a value is true."""
        number = self._number(value)
        point: Ranges = ((number, number),)
        below: Ranges = ((self._lowest, number - 1),) if number > self._lowest else ()
        above: Ranges = ((number + 1, self._highest),) if number < self._highest else ()
        match operator:
            case Operator.EQ:
                return point
            case Operator.NE:
                return below + above
            case Operator.LT:
                return below
            case Operator.LE:
                return self.union(below, point)
            case Operator.GT:
                return above
            case Operator.GE:
                return self.union(point, above)

    def listed(self, values: pa.Array) -> Ranges | None:
        """Return the numbers of values; None for floats, because lists compare their bits."""
        if self._is_float:
            return None
        return self.union(*(((number, number),) for number in map(self._number, values)))

    def union(self, *sets: Ranges) -> Ranges:
        """Return the union of the sets."""
        joined: list[tuple[int, int]] = []
        for low, high in sorted(each for ranges in sets for each in ranges):
            if joined and low <= joined[-1][1] + 1:
                joined[-1] = joined[-1][0], max(joined[-1][1], high)
            else:
                joined.append((low, high))
        return tuple(joined)

    def complement(self, numbers: Ranges) -> Ranges:
        """Return the complement of a set."""
        edges = [edge for low, high in numbers for edge in (low, high + 1)]
        edges = [self._lowest, *edges, self._highest + 1]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return tuple((low, stop - 1) for low, stop in pairs if low < stop)

    def parts(self, numbers: Ranges) -> tuple[list[npt.NDArray[np.uint64]], bool]:
        """Return the bounds of each range for the kernel, and whether they are those of the complement."""
        others = self.complement(numbers)
        inverted = len(others) < len(numbers)
        return [self._bounds(low, high) for low, high in (others if inverted else numbers)], inverted

    def _bounds(self, low: int, high: int) -> npt.NDArray[np.uint64]:
        size = 8 * self._width
        return np.frombuffer(b"".join(_two_complement(each, size) for each in (low, high - low)), "<u8")


def _two_complement(number: int, num_bytes: int) -> bytes:
    return (number % (1 << 8 * num_bytes)).to_bytes(num_bytes, "little")
