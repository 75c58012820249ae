"""Compress strings: with FSST symbols, or long ones each by itself. Format: docs/format/index.md."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lance_df.encodings.fsst.train import TABLE_BYTES, train_symbols
from lance_df.encodings.general import codecs as compression
from lance_df.format.encodings_v2_1 import Fsst, General

if TYPE_CHECKING:
    from lance_df.encodings.codecs.encode_options import EncodingOptions
    from lance_df.encodings.fsst.train import SymbolCoder
    from lance_df.encodings.leaf_values import VariableValues
    from lance_df.format.schema import Field

_MIN_BYTES = 32 * 1024
_MIN_LENGTH = 5
# Above this ratio, decoding a string costs more than reading the saved bytes.
_WORTHWHILE_RATIO = 0.9
# For fewer bytes, training symbols takes longer than encoding.
_SMALL_BYTES = 4 * 1024 * 1024
# After so many uses, other symbols may be better.
_USES = 15
_TOLERANCE = 0.05
_MAX_FORMER = 256
_LONG_BYTES = 32 * 1024
_LONG_SHARE = 0.25
_LONG_SAMPLE = 4


class _Symbols(NamedTuple):
    """The symbols of a page, and the ratio of encoded to original size."""

    coder: SymbolCoder
    ratio: float
    uses_left: int


_former: dict[Field, _Symbols] = {}


def with_symbols(
    values: VariableValues, options: EncodingOptions, *, is_text: bool, column: Field
) -> VariableValues:
    """Encode values with FSST if requested, or if text becomes smaller by it.

    Small pages reuse the symbols of a former page of the column, as long as these compress about equally
    well.
    """
    if options.is_plain or not len(values.data):
        return values
    if not options.use_fsst and not (is_text and _may_shrink(values)):
        return values
    if len(values.data) < _SMALL_BYTES and (coded := _coded_as_before(values, column)) is not None:
        return coded
    coder, ratio = train_symbols(values.offsets, values.data)
    if not options.use_fsst and len(values.data) * ratio + TABLE_BYTES > len(values.data) * _WORTHWHILE_RATIO:
        return values
    coded = _coded(values, coder)
    if len(values.data) < _SMALL_BYTES:
        if len(_former) >= _MAX_FORMER:
            _former.clear()
        _former[column] = _Symbols(coder, len(coded.data) / len(values.data), _USES)
    return coded


def _coded_as_before(values: VariableValues, column: Field) -> VariableValues | None:
    former = _former.get(column)
    if former is None or not former.uses_left:
        return None
    coded = _coded(values, former.coder)
    ratio = len(coded.data) / len(values.data)
    # also for a better ratio: the texts have changed, and new symbols may compress even better
    if abs(ratio - former.ratio) > former.ratio * _TOLERANCE:
        return None
    _former[column] = former._replace(uses_left=former.uses_left - 1)
    return coded


def _coded(values: VariableValues, coder: SymbolCoder) -> VariableValues:
    offsets, codes = coder.encode(values.offsets, values.data)
    table = coder.serialize()
    return replace(values, offsets=offsets, data=codes, wrap=lambda inner: Fsst(table, inner))


def _may_shrink(values: VariableValues) -> bool:
    return len(values.data) >= _MIN_BYTES and int(np.diff(values.offsets).max()) >= _MIN_LENGTH


def with_compression(values: VariableValues, options: EncodingOptions) -> VariableValues | None:
    """Compress each value by itself if values are long or it is requested; None if that does not help."""
    lengths = np.diff(values.offsets)
    if options.is_plain or options.use_fsst or len(values.data) < _MIN_BYTES:
        return None
    is_long = int(lengths[lengths > _LONG_BYTES].sum()) > len(values.data) * _LONG_SHARE
    if not is_long and options.compression is None:
        return None
    level = options.compression.level if options.compression is not None else None
    data = values.data.data
    spans = list(zip(values.offsets[:-1].tolist(), values.offsets[1:].tolist(), strict=True))
    longest = [spans[i] for i in np.argsort(lengths)[-_LONG_SAMPLE:].tolist()]
    sampled = sum(len(compression.compress("zstd", data[start:stop], level=level)) for start, stop in longest)
    if sampled > sum(stop - start for start, stop in longest) * _WORTHWHILE_RATIO:
        return None
    pieces = [
        compression.compress("zstd", data[start:stop], level=level) if stop > start else b""
        for start, stop in spans
    ]
    ends = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    return replace(
        values,
        offsets=ends,
        data=np.frombuffer(b"".join(pieces), np.uint8),
        wrap=lambda inner: General("zstd", level, inner),
    )
