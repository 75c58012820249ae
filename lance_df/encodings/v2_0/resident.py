"""Which pages of 2.0 files are read in memory, without a plan. See `encodings.resident`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.arrays import null_array
from lance_df.encodings.dictionary.coded_values import CodedValues
from lance_df.encodings.dictionary.page import DictionaryCodedDecoder
from lance_df.encodings.dictionary.resident import ResidentDictionary
from lance_df.encodings.flat.page import FlatDecoder
from lance_df.encodings.flat.resident import open_flat
from lance_df.encodings.nullable.page import SomeNullsDecoder
from lance_df.encodings.nullable.resident import ResidentNullable
from lance_df.encodings.plan import RowRange
from lance_df.encodings.resident import is_bytes, is_plain_type, is_text
from lance_df.encodings.variable.ends import EndPositions
from lance_df.encodings.variable.page import BinaryDecoder
from lance_df.encodings.variable.resident import ResidentBinary

if TYPE_CHECKING:
    from lance_df.encodings.decoder import Decoder
    from lance_df.encodings.resident import ResidentPage, Run


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
            return open_flat(decoder, run)
        case SomeNullsDecoder(validity=FlatDecoder() as validity, values=FlatDecoder() as values):
            stored = open_flat(values, run)
            return None if stored is None else ResidentNullable(stored, validity, run)
        case DictionaryCodedDecoder(indices=FlatDecoder() as indices, items=items):
            stored = open_flat(indices, run)
            values = run(items.read(RowRange(0, items.num_values)))
            if stored is None or values.null_count:
                return None
            values = pa.concat_arrays([null_array(decoder.data_type, 1), values])
            return ResidentDictionary(stored, CodedValues(values, null_first=True))
        case BinaryDecoder(
            positions=EndPositions(ends=FlatDecoder(data_type=stored_type) as ends), scheme=None
        ) if stored_type == pa.uint64() and (is_text(decoder.data_type) or is_bytes(decoder.data_type)):
            stored = open_flat(ends, run)
            return None if stored is None else ResidentBinary(decoder, stored, run)
    return None
