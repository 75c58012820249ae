"""The selected rows of a window, computed once for all columns and applied to each in the cheapest way."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.arrays import fixed_array
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.gather import find_positions, is_view, take, word_bytes
from lance_df.encodings.kernels import gather
from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    from typing import Self

_Mask: TypeAlias = npt.NDArray[np.bool_]
_Positions: TypeAlias = npt.NDArray[np.int64]

# If fewer than one in this many rows is dropped, values are copied from one dropped row to the next.
_RARE = 16
# If fewer than one in this many rows is selected, values of any type are taken one by one.
_SPARSE = 8


class SelectedRows:
    """Some of the rows of a window. Immutable and thread-safe.

    Attributes
    ----------
    count
        The number of selected rows.
    num_rows
        The number of rows of the window.
    """

    __slots__ = ("_arrow", "_dropped", "_mask", "_positions", "count", "num_rows")

    def __init__(self, mask: _Mask, count: int | None = None) -> None:
        """Select the rows for which the mask is true; ``count`` is their number, if it is known."""
        self._mask: _Mask | None = mask
        self.num_rows = len(mask)
        self.count = int(np.count_nonzero(mask)) if count is None else count
        self._positions: _Positions | None = None
        self._dropped: _Positions | None = None
        self._arrow: pa.BooleanArray | None = None

    @classmethod
    def everything(cls, num_rows: int) -> Self:
        """Return all rows of a window."""
        return cls._uniform(num_rows, num_rows)

    @classmethod
    def nothing(cls, num_rows: int) -> Self:
        """Return no row of a window."""
        return cls._uniform(num_rows, 0)

    @classmethod
    def _uniform(cls, num_rows: int, count: int) -> Self:
        rows = cls.__new__(cls)
        rows.num_rows, rows.count = num_rows, count
        rows._mask = rows._positions = rows._dropped = rows._arrow = None
        return rows

    @property
    def is_all(self) -> bool:
        """Whether every row is selected."""
        return self.count == self.num_rows

    @property
    def mask(self) -> _Mask:
        """Whether each row is selected."""
        if self._mask is None:
            self._mask = np.full(self.num_rows, bool(self.count))
        return self._mask

    def __and__(self, other: SelectedRows) -> SelectedRows:
        """Return the rows that both select."""
        if not self.count or other.is_all:
            return self
        if not other.count or self.is_all:
            return other
        return SelectedRows(self.mask & other.mask)

    def __or__(self, other: SelectedRows) -> SelectedRows:
        """Return the rows that either selects."""
        if not self.count or other.is_all:
            return other
        if not other.count or self.is_all:
            return self
        return SelectedRows(self.mask | other.mask)

    @property
    def positions(self) -> _Positions:
        """The positions of the selected rows, ascending."""
        if self._positions is None:
            self._positions = self._find(wanted=True)
        return self._positions

    def _find(self, *, wanted: bool) -> _Positions:
        return find_positions(self.mask, self.count if wanted else self.num_rows - self.count, wanted=wanted)

    def of(self, values: pa.Array) -> pa.Array:
        """Return the values of the selected rows, as an array of the same type.

        Raises
        ------
        InvalidInputError
            The strings are too long for one array.
        """
        if self.is_all:
            return values
        if not kernels.COMPILED:
            return take(values, self.positions) if is_view(values.type) else self._filtered(values)
        if isinstance(values, pa.DictionaryArray):
            return pa.DictionaryArray.from_arrays(
                self.of(values.indices), values.dictionary, ordered=values.type.ordered, safe=False
            )
        width = word_bytes(values.type)
        if width and self.drops_few and not values.null_count:
            return self._copied(values, width)
        is_sparse = self.count * _SPARSE < self.num_rows
        if is_sparse or (width and not self.drops_few) or is_view(values.type):
            return take(values, self.positions)
        return self._filtered(values)

    def _filtered(self, values: pa.Array) -> pa.Array:
        return unsliced(values).filter(self._as_arrow)

    @property
    def _as_arrow(self) -> pa.BooleanArray:
        if self._arrow is None:
            # pa.array would import the masked arrays of numpy, which takes longer than a small query
            self._arrow = fixed_array(pa.bool_(), self.num_rows, bitmap(self.mask))
        return self._arrow

    @property
    def drops_few(self) -> bool:
        """Whether so few rows are dropped that there are long runs of the others."""
        return (self.num_rows - self.count) * _RARE < self.num_rows

    def _copied(self, values: pa.Array, width: int) -> pa.Array:
        if self._dropped is None:
            self._dropped = self._find(wanted=False)
        _, data, *shared = values.buffers()
        source = np.frombuffer(data, np.uint8, self.num_rows * width, values.offset * width)
        selected = pa.allocate_buffer(self.count * width)
        if self.count:
            gather.copy_between(source, width, self._dropped, np.frombuffer(selected, np.uint8))
        return pa.Array.from_buffers(values.type, self.count, [None, selected, *shared], null_count=0)
