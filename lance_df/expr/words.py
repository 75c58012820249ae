"""Find words that strings must contain for a LIKE to be TRUE, which is faster than matching patterns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.kernels.word_search import find_words
from lance_df.encodings.selected_rows import SelectedRows
from lance_df.expr.nodes import Column, Unknown
from lance_df.expr.terms import Call, Value
from lance_df.expr.walk import conjuncts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_df.expr.nodes import Predicate

_WILDCARDS: Final = re.compile("[%_]")
_ESCAPE: Final = "\\"
_LEAST_BYTES: Final = 2
# If more than one in this many rows contains the words, skipping the other rows does not pay.
_FREQUENT: Final = 4
_OFFSET_BYTES: Final = {pa.string(): 4, pa.large_string(): 8}


class WordMatcher:
    """Finds the rows whose strings contain some words. Safe to share between threads.

    If the search does not pay, the result also contains rows without the words. The words are a necessary
    condition for a row, not a sufficient one.

    Parameters
    ----------
    path
        The path of the column.
    words
        The words in the order in which they must occur, without overlaps.
    """

    __slots__ = ("_bytes", "_num_rows", "_num_selected", "_rarest", "_sizes", "path", "words")

    def __init__(self, path: tuple[str, ...], words: tuple[bytes, ...]) -> None:
        self.path = path
        self.words = words
        self._bytes = np.frombuffer(b"".join(words), np.uint8)
        self._sizes = np.array([len(word) for word in words], np.int64)
        self._rarest = int(self._sizes.argmax())
        self._num_rows = self._num_selected = 0

    def rows(
        self, columns: Mapping[tuple[str, ...], pa.Array | pa.ChunkedArray], num_rows: int
    ) -> SelectedRows:
        """Return the rows that may be needed; see `lance_df.expr.matching.Matcher`."""
        values = columns[self.path]
        if self._num_selected * _FREQUENT > self._num_rows or not kernels.COMPILED:
            return SelectedRows.everything(num_rows)
        selected = (
            self._of_indices(values) if isinstance(values, pa.DictionaryArray) else self._of_values(values)
        )
        if selected is None:
            return SelectedRows.everything(num_rows)
        # lost counts of other threads do no harm
        self._num_rows += num_rows
        self._num_selected += selected.count
        return selected

    def _of_values(self, values: pa.Array | pa.ChunkedArray) -> SelectedRows | None:
        if values.type not in _OFFSET_BYTES or not isinstance(values, pa.Array):
            return None
        if not len(values):
            return SelectedRows.nothing(0)
        width = _OFFSET_BYTES[values.type]
        _, offsets, data = values.buffers()
        mask = np.zeros(len(values), np.bool_)
        count = find_words(
            np.frombuffer(offsets, np.uint8)[values.offset * width :],
            width,
            np.frombuffer(data or b"", np.uint8),
            self._bytes,
            self._sizes,
            self._rarest,
            mask.view(np.uint8),
        )
        return SelectedRows(mask, count)

    def _of_indices(self, values: pa.DictionaryArray) -> SelectedRows | None:
        if len(values.dictionary) > len(values) or not len(values.dictionary):
            return None
        in_dictionary = self._of_values(values.dictionary)
        if in_dictionary is None:
            return None
        if not in_dictionary.count:
            return SelectedRows.nothing(len(values))
        indices = values.indices
        width = indices.type.bit_width // 8
        numbers = np.frombuffer(indices.buffers()[1], f"<u{width}", len(indices), indices.offset * width)
        # indices at nulls are arbitrary
        return SelectedRows(in_dictionary.mask.take(numbers, mode="clip"))


def word_matchers(pruning_predicate: Predicate) -> Iterator[WordMatcher]:
    """Yield a matcher for each LIKE on a column that a condition requires."""
    for part in conjuncts(pruning_predicate):
        match part:
            case Unknown(_, Call("LIKE", (Column(path), Value(pattern)), "")) if pattern.is_valid:
                words = words_of(pattern.as_py())
                if max(map(len, words), default=0) >= _LEAST_BYTES:
                    yield WordMatcher(path, words)


def words_of(pattern: str) -> tuple[bytes, ...]:
    """Return the words between the wildcards of a LIKE pattern; none if it has escapes."""
    if _ESCAPE in pattern:
        return ()
    return tuple(word.encode() for word in _WILDCARDS.split(pattern) if word)
