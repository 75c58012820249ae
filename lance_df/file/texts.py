"""Check that strings to be written are UTF-8; otherwise readers refuse all strings of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.loaded_page import is_text
from lance_df.encodings.text import check_utf8
from lance_df.errors import CorruptDataError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.schema import Field

_SHOWN_BYTES = 32


def check_texts(
    fields: Sequence[Field], arrays: Sequence[pa.Array], *, has_null_structs: bool = True
) -> None:
    """Check the strings of columns to be written, at any depth.

    Parameters
    ----------
    fields, arrays
        The columns.
    has_null_structs
        Whether the file can store null structs. 0.1 cannot: it stores the values below them.

    Raises
    ------
    InvalidInputError
        A string is not UTF-8.
    """
    for field, array in zip(fields, arrays, strict=True):
        if not field.is_blob:
            _check(array, field.name, has_null_structs)


def _check(array: pa.Array, path: str, has_null_structs: bool) -> None:
    types, data_type = pa.types, array.type
    if is_text(data_type):
        _check_values(array, path)
    elif types.is_dictionary(data_type):
        _check(array.dictionary, path, has_null_structs)
    elif types.is_struct(data_type):
        children = array.flatten() if has_null_structs else map(array.field, range(len(data_type)))
        for field, child in zip(data_type, children, strict=True):
            _check(child, f"{path}.{field.name}", has_null_structs)
    elif types.is_map(data_type):
        if array.null_count:  # the values below a null may be anything
            array = array.drop_null()
        offsets = array.offsets
        start, stop = offsets[0].as_py(), offsets[-1].as_py()
        for part in (array.keys, array.items):
            _check(part.slice(start, stop - start), path, has_null_structs)
    elif types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        _check(array.flatten(), path, has_null_structs)


def _check_values(array: pa.Array, path: str) -> None:
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return
    dtype = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
    bounds = np.frombuffer(offsets, dtype, len(array) + 1, array.offset * dtype.itemsize)
    try:
        check_utf8(data, bounds)
    except CorruptDataError:
        # the values below a null may be anything
        for number, value in enumerate(array.cast(pa.large_binary()).to_pylist()):
            if value is not None and not _is_utf8(value):
                raise InvalidInputError(
                    f"column {path!r}: the string {value[:_SHOWN_BYTES]!r} (number {number} of its batch) "
                    "is not UTF-8; store such bytes as binary"
                ) from None


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
