"""Sets of strings or binary values: some words, or all values except some words."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.kernels.compare import strings_equal
from lance_df.expr.nodes import Operator

if TYPE_CHECKING:
    import numpy.typing as npt

# The words, and whether the set is their complement.
Words: TypeAlias = tuple[frozenset[bytes], bool]

_OFFSET_BYTES = {pa.string(): 4, pa.binary(): 4, pa.large_string(): 8, pa.large_binary(): 8}


class Vocabulary:
    """A `ValueSets` for strings and binary values."""

    nothing: Words = frozenset(), False
    everything: Words = frozenset(), True

    def __init__(self, data_type: pa.DataType) -> None:
        self.data_type = data_type
        self.kernel = strings_equal
        self._width = _OFFSET_BYTES[data_type]

    @classmethod
    def of(cls, data_type: pa.DataType) -> Vocabulary | None:
        """Return the sets for a type; None for types other than strings and binary."""
        return cls(data_type) if data_type in _OFFSET_BYTES else None

    def operands(self, values: pa.Array) -> tuple[npt.NDArray[np.uint8], int, npt.NDArray[np.uint8]]:
        """Return the offsets, the number of bytes per offset, and the data of values."""
        _, offsets, data = values.buffers()
        ends = np.frombuffer(offsets, np.uint8, (len(values) + 1) * self._width, values.offset * self._width)
        return ends, self._width, np.frombuffer(data or b"", np.uint8)

    def compared(self, operator: Operator, value: pa.Scalar) -> Words | None:
        """Return the set of words that equal or differ from a value; None for other operators."""
        if operator not in (Operator.EQ, Operator.NE):
            return None
        return frozenset([value.as_buffer().to_pybytes()]), operator is Operator.NE

    def listed(self, values: pa.Array) -> Words:
        """Return the set of words in ``values``."""
        return frozenset(value.as_buffer().to_pybytes() for value in values), False

    def union(self, *sets: Words) -> Words:
        """Return the union of the sets."""
        included = frozenset[bytes]().union(*(words for words, others in sets if not others))
        excluded = [words for words, others in sets if others]
        return (frozenset.intersection(*excluded) - included, True) if excluded else (included, False)

    def complement(self, words: Words) -> Words:
        """Return the complement of a set."""
        return words[0], not words[1]

    def parts(self, words: Words) -> tuple[list[npt.NDArray[np.uint8]], bool]:
        """Return the bytes of each word, and whether the set is their complement."""
        return [np.frombuffer(word, np.uint8) for word in sorted(words[0])], words[1]
