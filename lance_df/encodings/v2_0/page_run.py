"""Decode many small pages of one encoding as one page.

This covers values of equal width and strings, neither compressed, with or without nulls, since their buffers
can be concatenated. `flat`, `nullable` and `binary` describe the content of the pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import fixed_array, null_array, variable_array, with_validity_bitmap
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.fetch import check_size
from lance_df.encodings.flat.page import bits_of
from lance_df.errors import CorruptDataError
from lance_df.format import encodings_v2_0 as enc
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.encodings.decoder import BufferTable
    from lance_df.encodings.plan import IoPlan

    Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page of a run."""

    encoding: enc.Encoding
    num_values: int
    buffers: BufferTable


def kind_of(encoding: enc.Encoding) -> object | None:
    """Return a key that the pages of a run share, or None if a page cannot be part of a run."""
    match encoding:
        case enc.NoNulls(values):
            return kind_of(values)
        case enc.AllNulls():
            return "nulls"
        case enc.SomeNulls(enc.Flat(1, _, None) | enc.NoNulls(enc.Flat(1, _, None)), values):
            inner = kind_of(values)
            return None if inner is None else ("some nulls", inner)
        case enc.Flat(bits, _, None) if bits % 8 == 0 or bits == 1:
            return bits
        case enc.Binary(
            enc.Flat(64, _, None) | enc.NoNulls(enc.Flat(64, _, None)),
            enc.Flat(8, _, None) | enc.NoNulls(enc.Flat(8, _, None)),
        ):
            return "strings"
    return None


def read_run(pages: Sequence[StoredPage], data_type: pa.DataType) -> IoPlan[pa.Array]:
    """Plan to read all values of pages of one kind.

    Raises
    ------
    CorruptDataError
        When the plan runs: a page is damaged, or has values of another type.
    """
    first = _plain(pages[0].encoding)
    match first:
        case enc.AllNulls():
            return null_array(data_type, sum(page.num_values for page in pages))
        case enc.SomeNulls():
            validity = yield from _bits([_part(page, "validity") for page in pages])
            values = yield from read_run([_part(page, "values") for page in pages], data_type)
            return with_validity_bitmap(values, bitmap(validity))
        case enc.Binary():
            return (yield from _strings(pages, data_type))
        case enc.Flat(bits) if bits == bits_of(data_type):
            total = sum(page.num_values for page in pages)
            if bits == 1:
                packed = yield from _bits(pages)
                return fixed_array(data_type, total, bitmap(packed))
            words = yield from _words(pages, bits)
            return fixed_array(data_type, total, pa.py_buffer(words))
    raise CorruptDataError(f"pages with encoding {type(first).__name__} cannot hold values of {data_type}")


def _plain(encoding: enc.Encoding) -> enc.Encoding:
    while isinstance(encoding, enc.NoNulls):
        encoding = encoding.values
    return encoding


def _part(page: StoredPage, name: str) -> StoredPage:
    return StoredPage(getattr(_plain(page.encoding), name), page.num_values, page.buffers)


def _words(pages: Sequence[StoredPage], bits: int) -> IoPlan[bytes]:
    """Plan to read values back to back; the values of each page start at a byte boundary."""
    wanted = []
    for page in pages:
        encoding = _plain(page.encoding)
        if not isinstance(encoding, enc.Flat):
            raise CorruptDataError(
                f"expected a page of flat values, found encoding {type(encoding).__name__}"
            )
        buffer = page.buffers.resolve(encoding.buffer)
        check_size(buffer, page.num_values, bits, "flat values")
        wanted.append(ByteRange(buffer.start, buffer.start + (page.num_values * bits + 7) // 8))
    return b"".join((yield wanted))


def _bits(pages: Sequence[StoredPage]) -> IoPlan[Bools]:
    packed = np.frombuffer((yield from _words(pages, 1)), np.uint8)
    counts = _counts(pages)
    skipped = np.cumsum(-counts % 8) - (-counts % 8)
    indices = np.arange(int(counts.sum())) + np.repeat(skipped, counts)
    return np.unpackbits(packed, bitorder="little").view(np.bool_)[indices]


def _strings(pages: Sequence[StoredPage], data_type: pa.DataType) -> IoPlan[pa.Array]:
    encodings = [encoding for page in pages if isinstance(encoding := _plain(page.encoding), enc.Binary)]
    if len(encodings) != len(pages):
        raise CorruptDataError("expected pages of strings only, found pages with another encoding")
    index_pages = [_part(page, "indices") for page in pages]
    raw = np.frombuffer((yield from _words(index_pages, 64)), "<u8")
    data_ranges = [
        page.buffers.resolve(_flat_buffer(encoding.data))
        for page, encoding in zip(pages, encodings, strict=True)
    ]
    counts = _counts(pages)
    adjustments = np.fromiter((encoding.null_adjustment for encoding in encodings), np.uint64, len(pages))
    adjustment = np.repeat(adjustments, counts)
    is_null = raw >= adjustment
    stored = np.where(is_null, raw - adjustment, raw)
    stored[adjustment == 0] = 0
    sizes = np.fromiter((wanted.num_bytes for wanted in data_ranges), np.uint64, len(pages))
    if (stored > np.repeat(sizes, counts)).any():
        raise CorruptDataError("a value ends beyond the bytes of its page")
    last = np.zeros(len(pages), np.int64)
    filled = counts > 0
    last[filled] = stored.astype(np.int64)[np.cumsum(counts)[filled] - 1]
    data = yield [
        ByteRange(wanted.start, wanted.start + size)
        for wanted, size in zip(data_ranges, last.tolist(), strict=True)
    ]
    before = np.repeat(np.cumsum(last) - last, counts)
    ends = np.concatenate((np.zeros(1, np.int64), stored.astype(np.int64) + before))
    if (ends[1:] < ends[:-1]).any():
        raise CorruptDataError("a value ends before its start")
    valid = bitmap(~is_null) if is_null.any() else None
    return variable_array(data_type, ends, pa.py_buffer(b"".join(data)), valid)


def _flat_buffer(encoding: enc.Encoding) -> enc.BufferRef:
    flat = _plain(encoding)
    if not isinstance(flat, enc.Flat):
        raise CorruptDataError(
            f"expected the bytes of strings as flat values, found encoding {type(flat).__name__}"
        )
    return flat.buffer


def _counts(pages: Sequence[StoredPage]) -> npt.NDArray[np.int64]:
    return np.fromiter((page.num_values for page in pages), np.int64, len(pages))
