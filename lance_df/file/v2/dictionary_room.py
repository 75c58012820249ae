"""Check that the dictionary values of all pages of a file can be numbered by their index types.

Readers join the dictionaries of all pages that they read at once, which fails if the index type cannot
number all values. Only indices of 8 and 16 bits are checked: more values than a larger type can number need
more than one file anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_df.format.schema import Field

_MOST_VALUES: Final = {"int8": 2**7, "uint8": 2**8, "int16": 2**15, "uint16": 2**16}


class DictionaryRoom:
    """The dictionary values that a file has so far, of the columns with small indices."""

    def __init__(self, fields: Sequence[Field]) -> None:
        columns = [list(_columns(field, field.name, ())) for field in fields]
        self._columns = [(number, column) for number, each in enumerate(columns) for column in each]

    def has_room(self, arrays: Sequence[pa.Array]) -> bool:
        """Whether no column has too many values after adding further rows."""
        return all(column.has_room(arrays[number]) for number, column in self._columns)

    def add(self, arrays: Sequence[pa.Array]) -> None:
        """Add the values of further rows.

        Raises
        ------
        InvalidInputError
            A column would have too many values.
        """
        for number, column in self._columns:
            column.add(arrays[number])


class _Column:
    """One dictionary column, with the path of child numbers that leads to it from a top-level column."""

    def __init__(self, path: str, way: tuple[int, ...], index_type: str) -> None:
        self.path = path
        self._way = way
        self._index_type = index_type
        self._last: pa.Array | None = None
        self._values: set[Any] = set()

    def has_room(self, array: pa.Array) -> bool:
        dictionary = self._dictionary(array)
        if self._last is None or dictionary is None or dictionary.equals(self._last):
            return True
        # a single dictionary is stored as is, even if no index refers to some of its values
        return len(self._values.union(_keys(dictionary))) <= _MOST_VALUES[self._index_type]

    def add(self, array: pa.Array) -> None:
        if not self.has_room(array):
            raise InvalidInputError(
                f"column {self.path!r}: the dictionaries of its batches have more values than indices of "
                f"type {self._index_type} can address ({_MOST_VALUES[self._index_type]}); use a larger "
                "index type, or write several files"
            )
        dictionary = self._dictionary(array)
        if dictionary is not None and (self._last is None or not dictionary.equals(self._last)):
            self._values.update(_keys(dictionary))
            self._last = dictionary

    def _dictionary(self, array: pa.Array) -> pa.Array | None:
        for child in self._way:
            if isinstance(array, pa.StructArray):
                array = array.field(child)
            elif isinstance(array, pa.MapArray):
                array = array.keys if child == 0 else array.items
            else:
                array = array.values
        return array.dictionary if len(array) else None


def _keys(dictionary: pa.Array) -> list[Any]:
    """Return one key for each value. Readers compare bytes, so 0.0 and -0.0 have different keys."""
    if pa.types.is_floating(dictionary.type):
        dictionary = dictionary.view(f"uint{dictionary.type.bit_width}")
    keys: list[Any] = dictionary.to_pylist()
    return keys


def has_small_index(field: Field) -> bool:
    """Whether a field is a dictionary whose values may become too many for its index type in one file."""
    return field.has_dictionary and _index_type(field) in _MOST_VALUES


def _index_type(field: Field) -> str:
    return field.logical_type.split(":")[-2]


def _columns(field: Field, path: str, way: tuple[int, ...]) -> Iterator[_Column]:
    if has_small_index(field):
        yield _Column(path, way, _index_type(field))
    # the entries of maps are not a level of their own in arrays
    below = field.children[0] if field.logical_type == "map" else field
    for number, child in enumerate(below.children):
        yield from _columns(child, f"{path}.{child.name}", (*way, number))
