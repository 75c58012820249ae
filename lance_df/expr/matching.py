"""Find the rows for which a predicate is TRUE. A predicate is prepared once for many windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.gather import FEW
from lance_df.encodings.kernels.compare import look_up_truth
from lance_df.encodings.selected_rows import SelectedRows
from lance_df.expr.column_tests import column_test
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import And, Or
from lance_df.expr.walk import by_column, columns
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.expr.column_tests import ColumnTest, ListedNumbers
    from lance_df.expr.nodes import Predicate

    _Columns: TypeAlias = Mapping[tuple[str, ...], pa.Array | pa.ChunkedArray]

# The maximum size of cached dictionary results per column, and the overhead of a dictionary.
_MAX_JUDGED_BYTES = 1024 * 1024
_DICTIONARY_BYTES = 1024


class Matcher(Protocol):
    """A predicate that is prepared for many windows. Safe to share between threads."""

    def rows(self, columns: _Columns, num_rows: int) -> SelectedRows:
        """Return the rows for which the predicate is TRUE, neither FALSE nor NULL.

        Takes the arguments of `evaluate`, and raises the same errors. Operands of AND and OR that cannot
        change the result are not evaluated.
        """
        ...


def matcher(predicate: Predicate, *, by_dictionary: bool = True) -> Matcher:
    """Prepare a predicate. In each window, the columns may or may not be dictionaries.

    Parameters
    ----------
    by_dictionary
        Whether a predicate on one column is evaluated once for each value of a dictionary.
    """
    paths = columns(predicate)
    if len(paths) == 1:
        return _OfColumn(predicate, paths.pop(), by_dictionary=by_dictionary)
    if isinstance(predicate, And | Or) and paths:
        parts = by_column(type(predicate), predicate.operands)
        if len(parts) > 1:
            matchers = tuple(matcher(part, by_dictionary=by_dictionary) for part in parts)
            return _Junction(matchers, is_and=isinstance(predicate, And))
    return _Generally(predicate)


class _Junction:
    __slots__ = ("_is_and", "_parts")

    def __init__(self, parts: tuple[Matcher, ...], *, is_and: bool) -> None:
        self._parts = parts
        self._is_and = is_and

    def rows(self, columns: _Columns, num_rows: int) -> SelectedRows:
        first, *others = self._parts
        selected = first.rows(columns, num_rows)
        for part in others:
            if selected.count == (0 if self._is_and else num_rows):
                break
            more = part.rows(columns, num_rows)
            selected = selected & more if self._is_and else selected | more
        return selected


class _Generally:
    __slots__ = ("_predicate",)

    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate

    def rows(self, columns: _Columns, num_rows: int) -> SelectedRows:
        return SelectedRows(_true_values(evaluate(self._predicate, columns, num_rows)))


class _OfColumn:
    """A predicate on one column."""

    __slots__ = ("_by_dictionary", "_judged", "_judged_bytes", "_num_judged", "_path", "_predicate", "_test")

    def __init__(self, predicate: Predicate, path: tuple[str, ...], *, by_dictionary: bool) -> None:
        self._by_dictionary = by_dictionary
        self._predicate = predicate
        self._path = path
        self._test: _Test | None = None
        self._judged: dict[tuple[int, ...], _JudgedDictionary] = {}
        self._judged_bytes = 0
        self._num_judged = 0

    def rows(self, columns: _Columns, num_rows: int) -> SelectedRows:
        values = columns.get(self._path)
        if not isinstance(values, pa.Array) or len(values) != num_rows:
            return self._evaluated(columns, num_rows)
        if isinstance(values, pa.DictionaryArray):
            return self._of_indices(values) if self._by_dictionary else self._evaluated(columns, num_rows)
        return self._of_values(values)

    def _evaluated(self, columns: _Columns, num_rows: int) -> SelectedRows:
        return SelectedRows(_true_values(evaluate(self._predicate, columns, num_rows)))

    def _of_values(self, values: pa.Array) -> SelectedRows:
        self._num_judged += len(values)
        if self._num_judged < FEW or not kernels.COMPILED:
            return self._evaluated({self._path: values}, len(values))
        test = self._test
        if test is None or test.data_type != values.type:
            in_set = column_test(self._predicate, values.type)
            test = self._test = _Test(values.type, in_set, null_matches=self._null_matches(values.type))
        if test.in_set is None:
            return self._evaluated({self._path: values}, len(values))
        return _with_nulls(values, test.in_set.rows(values), null_matches=test.null_matches)

    def _null_matches(self, data_type: pa.DataType) -> bool:
        return bool(self._evaluated({self._path: pa.nulls(1, data_type)}, 1).count)

    def _of_indices(self, values: pa.DictionaryArray) -> SelectedRows:
        """Evaluate the predicate once for each value of a dictionary, and look up the results."""
        dictionary, count = values.dictionary, len(values)
        key = len(dictionary), dictionary.offset, *map(_address, dictionary.buffers())
        judged = self._judged.get(key)
        if judged is None:
            if len(dictionary) > count or not len(dictionary):
                return self._evaluated({self._path: values}, count)
            judged = self._judge(key, dictionary)
        num_nulls = values.null_count
        if not judged.count and not (num_nulls and judged.null_matches):
            return SelectedRows.nothing(count)
        return _with_nulls(values, judged.look_up(values), null_matches=judged.null_matches)

    def _judge(self, key: tuple[int, ...], dictionary: pa.Array) -> _JudgedDictionary:
        matching = self._of_values(dictionary)
        judged = _JudgedDictionary(dictionary, matching, null_matches=self._null_matches(dictionary.type))
        if (num_bytes := _DICTIONARY_BYTES + dictionary.nbytes) <= _MAX_JUDGED_BYTES:
            if self._judged_bytes + num_bytes > _MAX_JUDGED_BYTES:
                self._judged, self._judged_bytes = {}, 0
            self._judged[key] = judged
            self._judged_bytes += num_bytes
        return judged


@dataclass(frozen=True, slots=True)
class _Test:
    """The test for plain values of a type. Without a set, `evaluate` is used."""

    data_type: pa.DataType
    in_set: ColumnTest | ListedNumbers | None
    null_matches: bool


class _JudgedDictionary:
    """The values of a dictionary for which a predicate is TRUE.

    Holds a reference to the dictionary, so that no other one can get the same memory address.
    """

    __slots__ = ("_dictionary", "_last", "_truth", "count", "null_matches")

    def __init__(self, dictionary: pa.Array, matching: SelectedRows, *, null_matches: bool) -> None:
        self._dictionary = dictionary
        self._last = len(dictionary) - 1
        self._truth = matching.mask.view(np.uint8)
        self.count = matching.count
        self.null_matches = null_matches

    def look_up(self, values: pa.DictionaryArray) -> SelectedRows:
        """Return the rows whose values match. Nulls may count as any value."""
        indices, count = values.indices, len(values)
        width = indices.type.bit_width // 8
        numbers: npt.NDArray[np.unsignedinteger[Any]] = np.frombuffer(
            indices.buffers()[1], f"<u{width}", count, indices.offset * width
        )
        if values.null_count:  # indices at nulls are arbitrary
            numbers = np.minimum(numbers, numbers.dtype.type(min(self._last, np.iinfo(numbers.dtype).max)))
        if not kernels.COMPILED:
            return SelectedRows(self._truth.take(numbers).view(np.bool_))
        mask = np.empty(count, np.bool_)
        num_true = look_up_truth(self._truth, numbers.view(np.uint8), width, mask.view(np.uint8))
        return SelectedRows(mask, num_true)


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else int(buffer.address)


def _with_nulls(values: pa.Array, rows: SelectedRows, *, null_matches: bool) -> SelectedRows:
    """Return the rows, corrected for values that are null."""
    if not values.null_count or rows.count == (len(values) if null_matches else 0):
        return rows
    valid = _unpacked(values.buffers()[0], values.offset, len(values))
    return SelectedRows(rows.mask | ~valid if null_matches else rows.mask & valid)


def _true_values(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Return which values are TRUE, neither FALSE nor NULL."""
    if values.null_count:
        values = values.fill_null(False)
    # several times as fast as pyarrow's own conversion
    return _unpacked(values.buffers()[1], values.offset, len(values))


def _unpacked(bitmap: pa.Buffer | None, offset: int, count: int) -> npt.NDArray[np.bool_]:
    packed = np.frombuffer(bitmap or b"", np.uint8)
    stop = offset + count
    bits = np.unpackbits(packed[: -(-stop // 8)], count=stop, bitorder="little")
    return bits[offset:].view(np.bool_)
