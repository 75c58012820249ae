"""Access the bytes of string arrays with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def bytes_of(text: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return offsets that begin with 0, and the bytes that they refer to.

    Parameters
    ----------
    text
        An array of type ``large_string`` or ``large_binary``.
    """
    if not len(text):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, offset_buffer, data_buffer = text.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[text.offset : text.offset + len(text) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return offsets - first, data[first:last]


def text_of_bytes(offsets: npt.NDArray[np.int64], data: bytes, valid: pa.Array | None) -> pa.Array:
    """Return a string array with NULL where ``valid`` is false."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    text = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    return text if valid is None else pc.if_else(valid, text, pa.scalar(None, pa.large_string()))


def rows_with(
    offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], wanted: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return which rows contain a byte for which ``wanted``, an array of 256 flags, is true."""
    rows = np.zeros(len(offsets) - 1, np.bool_)
    hits = np.flatnonzero(wanted[data])
    if len(hits):
        rows[np.searchsorted(offsets[1:], hits, side="right")] = True
    return rows


def replaced(text: pa.Array, rows: npt.NDArray[np.bool_], values: pa.Array) -> pa.Array:
    """Return ``text`` with the marked rows replaced by ``values``, in order."""
    return pc.replace_with_mask(text, pa.array(rows), values)


def joined(*parts: pa.Array | str, null: str | None = None) -> pa.Array:
    """Return the concatenation of each row; NULL if a part is NULL, unless ``null`` replaces it."""
    typed = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    options: dict[str, Any] = {} if null is None else {"null_handling": "replace", "null_replacement": null}
    return pc.binary_join_element_wise(*typed, pa.scalar("", pa.large_string()), **options)


def lines_of(lines: pa.Array) -> str:
    """Return rows, which contain no NULL, as text with a line break after each."""
    if not len(lines):
        return ""
    _, data = bytes_of(joined(lines, "\n"))
    return data.tobytes().decode()
