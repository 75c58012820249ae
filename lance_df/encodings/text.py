"""Check quickly that the bytes of strings are UTF-8, which engines do not check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt


def check_utf8(data: pa.Buffer, offsets: npt.NDArray[np.integer]) -> None:
    """Raise CorruptDataError unless every value is UTF-8.

    Parameters
    ----------
    data
        The bytes of all values.
    offsets
        The bounds of the values, ascending and within ``data``; one more than values.
    """
    if len(offsets) < 2:
        return
    start, stop = int(offsets[0]), int(offsets[-1])
    content = np.frombuffer(data, np.uint8)[start:stop]
    if is_ascii(content):
        return
    # The whole is valid and no value starts within a character, so each value is valid.
    whole = pa.Array.from_buffers(
        pa.large_string(), 1, [None, pa.py_buffer(np.array([start, stop], np.int64)), data]
    )
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid as err:
        raise CorruptDataError("a string is not UTF-8") from err
    starts = np.asarray(offsets[:-1]) - start
    starts = starts[starts < len(content)]
    if ((content[starts] & 0xC0) == 0x80).any():
        raise CorruptDataError("a string starts in the middle of a UTF-8 character")


def is_ascii(content: npt.NDArray[np.uint8]) -> bool:
    """Return whether all bytes are below 128."""
    return not len(content) or int(content.max()) < 0x80
