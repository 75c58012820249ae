"""Pages of 2.0 files in memory. See `encodings.resident`; what is stored how, the decoders say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import null_array
from lance_df.encodings.plan import RowRange
from lance_df.encodings.resident import CodedValues, is_plain_type
from lance_df.encodings.v2_0.dictionary import DictionaryCodedDecoder
from lance_df.encodings.v2_0.flat import FlatDecoder, bits_of
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.encodings.plan import IoPlan
    from lance_df.encodings.resident import ResidentPage
    from lance_df.encodings.v2_0.decoder import Decoder
    from lance_df.storage import ByteRange

    Run = Callable[[IoPlan[Any]], Any]


def open_resident(decoder: Decoder, run: Run) -> ResidentPage | None:
    """Return the reader of a page in memory; None for one that only its decoder reads.

    Parameters
    ----------
    run
        Runs the plans of decoders.
    """
    if not is_plain_type(decoder.data_type):
        return None
    match decoder:
        case FlatDecoder():
            return _flat(decoder, run)
        case DictionaryCodedDecoder(indices=FlatDecoder() as indices, items=items):
            stored = _flat(indices, run)
            values = run(items.read(RowRange(0, items.num_values)))
            if stored is None or values.null_count:
                return None
            values = pa.concat_arrays([null_array(decoder.data_type, 1), values])
            return ResidentDictionary(stored, CodedValues(values, null_first=True))
    return None


@dataclass(frozen=True, slots=True)
class ResidentFlat:
    """Views of the file."""

    data_type: pa.DataType
    width: int
    data: pa.Buffer

    def read(self, start: int, stop: int, *, keep_dictionary: bool = False) -> pa.Array:
        """Return rows. See `ResidentPage`."""
        del keep_dictionary
        return pa.Array.from_buffers(self.data_type, stop - start, [None, self.bytes(start, stop)], 0)

    def bytes(self, start: int, stop: int) -> pa.Buffer:
        """Return the bytes of rows."""
        return self.data.slice(start * self.width, (stop - start) * self.width)


@dataclass(frozen=True, slots=True)
class ResidentDictionary:
    """Indices, of which 0 is null, into values."""

    indices: ResidentFlat
    values: CodedValues

    def read(self, start: int, stop: int, *, keep_dictionary: bool) -> pa.Array:
        """Return rows. See `ResidentPage`."""
        data = self.indices.bytes(start, stop)
        numbers = np.frombuffer(data, f"<u{self.indices.width}") if stop > start else np.empty(0, np.uint8)
        return self.values.read(numbers, data, keep_dictionary=keep_dictionary)


def _flat(decoder: FlatDecoder, run: Run) -> ResidentFlat | None:
    data_type = decoder.data_type
    width = bits_of(data_type) // 8
    if not width:  # strings of no bytes
        return None
    data = run(_whole(decoder.buffer))
    if data.size < decoder.num_values * width:
        raise CorruptDataError(f"{decoder.num_values} values of {width} bytes in {data.size} bytes")
    is_aligned = pa.types.is_fixed_size_binary(data_type) or data.address % min(width, 8) == 0
    return ResidentFlat(data_type, width, data) if is_aligned else None


def _whole(buffer: ByteRange) -> IoPlan[pa.Buffer]:
    (data,) = yield [buffer]
    return data
