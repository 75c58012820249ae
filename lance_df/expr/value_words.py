"""Sets of strings or binaries: some words, or all but some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.expr.nodes import Operator

if TYPE_CHECKING:
    import numpy.typing as npt

# The words, and whether it is all others that are meant.
Words: TypeAlias = tuple[frozenset[bytes], bool]

_OFFSETS = {
    pa.string(): "<i4",
    pa.binary(): "<i4",
    pa.large_string(): "<i8",
    pa.large_binary(): "<i8",
}


class Vocabulary:
    """The strings or binaries of a type. A `ValueSets`."""

    nothing: Words = frozenset(), False
    everything: Words = frozenset(), True

    def __init__(self, data_type: pa.DataType) -> None:
        self.data_type = data_type
        self.kernel = kernels.strings_equal
        self._offsets = _OFFSETS[data_type]

    @classmethod
    def of(cls, data_type: pa.DataType) -> Vocabulary | None:
        """Return the words of a type; None for types that have none."""
        return cls(data_type) if data_type in _OFFSETS else None

    def operands(self, values: pa.Array) -> tuple[npt.NDArray[Any], ...]:
        """Return the offsets and the bytes of values."""
        _, offsets, data = values.buffers()
        start = values.offset * np.dtype(self._offsets).itemsize
        ends = np.frombuffer(offsets, self._offsets, len(values) + 1, start)
        content = np.frombuffer(data or b"", np.uint8)
        ends.flags.writeable = content.flags.writeable = False  # as kernels are compiled for
        return ends, content

    def compared(self, operator: Operator, value: pa.Scalar) -> Words | None:
        """Return the words that are, or are not, a value; None for an order."""
        if operator not in (Operator.EQ, Operator.NE):
            return None
        return frozenset([value.as_buffer().to_pybytes()]), operator is Operator.NE

    def listed(self, values: pa.Array) -> Words:
        """Return the words of values."""
        return frozenset(value.as_buffer().to_pybytes() for value in values), False

    def union(self, *sets: Words) -> Words:
        """Return the words of any of the sets."""
        included = frozenset[bytes]().union(*(words for words, others in sets if not others))
        excluded = [words for words, others in sets if others]
        return (frozenset.intersection(*excluded) - included, True) if excluded else (included, False)

    def complement(self, words: Words) -> Words:
        """Return the other words."""
        return words[0], not words[1]

    def parts(self, words: Words) -> tuple[list[npt.NDArray[np.uint8]], bool]:
        """Return the bytes of each word, and whether it is all others that are meant."""
        return [np.frombuffer(word, np.uint8) for word in sorted(words[0])], words[1]
