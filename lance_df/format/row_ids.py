"""Row id sequences and row version sequences: one number for each physical row of a fragment.

In memory both are a :class:`RunSequence`: runs that count up (row ids) or repeat one value (versions). So a
billion consecutive ids need almost no memory, and neither does a maliciously large length.

Spec: table format, row ids; `RowIdSequence`, `U64Segment`, `EncodedU64Array`, `RowDatasetVersionSequence`.
The order of bits in `RangeWithBitmap` (least significant first) was observed in files of pylance 14.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df._pb import rowids_pb2
from lance_df.errors import CorruptDataError
from lance_df.format.messages import parse_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Ids = npt.NDArray[np.uint64]

_U64 = 2**64
_MAX_ITEMS = 2**40  # far above the 2^32 rows of a fragment, far below an overflow of int64


@dataclass(frozen=True, slots=True, eq=False)
class RunSequence:
    """Numbers in runs: run ``i`` counts up from ``firsts[i]`` in steps of ``step``.

    Attributes
    ----------
    firsts
        uint64, the first number of each run.
    ends
        int64, strictly ascending: the position after the last item of each run.
    step
        1 for row ids, 0 for versions.
    """

    firsts: Ids
    ends: npt.NDArray[np.int64]
    step: int

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def begins(self) -> npt.NDArray[np.int64]:
        """The position of the first item of each run."""
        begins = np.zeros(len(self.ends), dtype=np.int64)
        begins[1:] = self.ends[:-1]
        return begins

    def take(self, positions: npt.NDArray[np.int64]) -> Ids:
        """Return the numbers at the given positions, which must be in range."""
        run = np.searchsorted(self.ends, positions, side="right")
        if not self.step:
            return self.firsts[run]
        return self.firsts[run] + (positions - self.begins[run]).astype(np.uint64)

    def slice(self, start: int, stop: int) -> Ids:
        """Return the numbers at positions ``start`` (inclusive) to ``stop`` (exclusive)."""
        if start >= stop:
            return np.empty(0, dtype=np.uint64)
        first, last = np.searchsorted(self.ends, (start, stop - 1), side="right")
        runs = np.s_[first : last + 1]
        begins = self.begins[runs]
        counts = np.minimum(self.ends[runs], stop) - np.maximum(begins, start)
        if not self.step:
            return np.repeat(self.firsts[runs], counts)
        # value = first + (position - begin of run) = position + (first - begin), modulo 2^64
        shift = self.firsts[runs] - begins.astype(np.uint64)
        positions: Ids = np.arange(start, stop, dtype=np.uint64)
        return np.repeat(shift, counts) + positions

    def to_numpy(self) -> Ids:
        """Return all the numbers."""
        return self.slice(0, len(self))

    def head(self, num_items: int) -> RunSequence:
        """Return the first ``num_items`` numbers."""
        runs = int(np.searchsorted(self.ends, num_items, side="left")) + 1
        ends = np.minimum(self.ends[:runs], num_items)
        keep = ends > self.begins[:runs]
        return RunSequence(self.firsts[:runs][keep], ends[keep], self.step)


def row_id_range(start: int, stop: int) -> RunSequence:
    """Return the ids from ``start`` (inclusive) to ``stop`` (exclusive), as an append assigns them."""
    if start == stop:
        return RunSequence(np.empty(0, np.uint64), np.empty(0, np.int64), 1)
    return RunSequence(np.array([start], np.uint64), np.array([stop - start], np.int64), 1)


def row_ids_of(ids: npt.ArrayLike) -> RunSequence:
    """Return a sequence of these ids, in this order."""
    values = np.asarray(ids, dtype=np.uint64)
    if not len(values):
        return row_id_range(0, 0)
    # an id of 0 never continues a run, although 2^64 - 1 plus one overflows to 0
    breaks = np.flatnonzero((values[1:] != values[:-1] + np.uint64(1)) | (values[1:] == 0)) + 1
    begins = np.concatenate([np.zeros(1, np.int64), breaks])
    return RunSequence(values[begins], np.append(breaks, len(values)).astype(np.int64), 1)


def constant_versions(version: int, num_rows: int) -> RunSequence:
    """Return a sequence that repeats one version for all rows."""
    if not num_rows:
        return RunSequence(np.empty(0, np.uint64), np.empty(0, np.int64), 0)
    return RunSequence(np.array([version], np.uint64), np.array([num_rows], np.int64), 0)


def versions_of(versions: npt.ArrayLike) -> RunSequence:
    """Return a sequence of these versions, in this order."""
    values = np.asarray(versions, dtype=np.uint64)
    if not len(values):
        return constant_versions(0, 0)
    breaks = np.flatnonzero(values[1:] != values[:-1]) + 1
    begins = np.concatenate([np.zeros(1, np.int64), breaks])
    return RunSequence(values[begins], np.append(breaks, len(values)).astype(np.int64), 0)


def parse_row_ids(data: bytes, *, num_rows: int | None, source: str) -> RunSequence:
    """Parse the row ids of ``num_rows`` physical rows of a fragment, or all ids if ``num_rows`` is ``None``.

    Ids beyond the last row are ignored, as in pylance.

    Raises
    ------
    CorruptDataError
        The bytes are not a sequence, contradict themselves, or hold fewer ids than there are rows.
    """
    message = parse_message(rowids_pb2.RowIdSequence, data, source=source, what="a row id sequence")
    segments = [_segment_runs(segment, source) for segment in message.segments]
    return _checked(_joined(segments, step=1, source=source), num_rows, source, "row ids")


def parse_versions(data: bytes, *, num_rows: int, source: str) -> RunSequence:
    """Parse the version of each of ``num_rows`` physical rows; see :func:`parse_row_ids`."""
    message = parse_message(
        rowids_pb2.RowDatasetVersionSequence, data, source=source, what="a row version sequence"
    )
    counts = [_segment_length(run.span, source) for run in message.runs]
    versions = np.array([run.version for run in message.runs], dtype=np.uint64)
    lengths = np.array(counts, dtype=np.int64)
    runs = _joined([(versions, lengths)], step=0, source=source)
    return _checked(runs, num_rows, source, "row versions")


def _checked(runs: RunSequence, num_rows: int | None, source: str, what: str) -> RunSequence:
    if num_rows is None:
        return runs
    if len(runs) < num_rows:
        raise CorruptDataError(f"{source}: found {len(runs)} {what}, expected {num_rows}, one for each row")
    return runs.head(num_rows) if len(runs) > num_rows else runs


def _joined(segments: Iterable[tuple[Ids, npt.NDArray[np.int64]]], *, step: int, source: str) -> RunSequence:
    parts = list(segments)
    firsts = np.concatenate([first for first, _ in parts]) if parts else np.empty(0, np.uint64)
    lengths = np.concatenate([length for _, length in parts]) if parts else np.empty(0, np.int64)
    keep = lengths > 0
    firsts, lengths = firsts[keep], lengths[keep]
    if len(lengths) and float(lengths.sum(dtype=np.float64)) > _MAX_ITEMS:
        raise CorruptDataError(f"{source}: a sequence has more than {_MAX_ITEMS} items")
    return RunSequence(firsts.astype(np.uint64), np.cumsum(lengths, dtype=np.int64), step)


def _segment_runs(segment: rowids_pb2.U64Segment, source: str) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Return (first id, length) of each run of consecutive ids."""
    match segment.WhichOneof("segment"):
        case "range":
            _check_span(segment.range.start, segment.range.end, source)
            return _single(segment.range.start, segment.range.end)
        case "range_with_holes":
            return _runs_between_holes(segment.range_with_holes, source)
        case "range_with_bitmap":
            return _runs_of_bitmap(segment.range_with_bitmap, source)
        case "sorted_array":
            return _runs_of_array(_decode_array(segment.sorted_array, source))
        case "array":
            return _runs_of_array(_decode_array(segment.array, source))
        case _:
            raise CorruptDataError(f"{source}: a row id segment is of an unknown type")


def _segment_length(segment: rowids_pb2.U64Segment, source: str) -> int:
    match segment.WhichOneof("segment"):
        case "range":
            _check_span(segment.range.start, segment.range.end, source)
            return segment.range.end - segment.range.start
        case _:
            _, lengths = _segment_runs(segment, source)
            return int(lengths.sum())


def _single(start: int, stop: int) -> tuple[Ids, npt.NDArray[np.int64]]:
    return np.array([start], np.uint64), np.array([stop - start], np.int64)


def _check_span(start: int, stop: int, source: str) -> None:
    if not 0 <= stop - start <= _MAX_ITEMS:
        raise CorruptDataError(
            f"{source}: row id range {start} to {stop} is invalid, expected 0 to {_MAX_ITEMS} ids"
        )


def _runs_between_holes(
    segment: rowids_pb2.U64Segment.RangeWithHoles, source: str
) -> tuple[Ids, npt.NDArray[np.int64]]:
    start, stop = segment.start, segment.end
    _check_span(start, stop, source)
    holes = _decode_array(segment.holes, source)
    if not len(holes):
        return _single(start, stop)
    if bool((holes[1:] <= holes[:-1]).any()) or int(holes[0]) < start or int(holes[-1]) >= stop:
        raise CorruptDataError(
            f"{source}: the holes of row id range {start} to {stop} must ascend and lie within it"
        )
    begins = np.concatenate([np.array([start], np.uint64), holes + np.uint64(1)])
    ends = np.append(holes, np.uint64(stop))
    return begins, (ends - begins).astype(np.int64)


def _runs_of_bitmap(
    segment: rowids_pb2.U64Segment.RangeWithBitmap, source: str
) -> tuple[Ids, npt.NDArray[np.int64]]:
    span = segment.end - segment.start
    _check_span(segment.start, segment.end, source)
    if span > 8 * len(segment.bitmap):
        raise CorruptDataError(
            f"{source}: a row id bitmap of {len(segment.bitmap)} bytes is too small for a range of {span} ids"
        )
    packed = np.frombuffer(segment.bitmap, np.uint8)
    bits = np.unpackbits(packed, count=span, bitorder="little")
    edges = np.flatnonzero(np.diff(bits.astype(np.int8), prepend=0, append=0))
    begins, ends = edges[::2], edges[1::2]
    return begins.astype(np.uint64) + np.uint64(segment.start), (ends - begins).astype(np.int64)


def _runs_of_array(values: Ids) -> tuple[Ids, npt.NDArray[np.int64]]:
    runs = row_ids_of(values)
    return runs.firsts, runs.ends - runs.begins


def _decode_array(array: rowids_pb2.EncodedU64Array, source: str) -> Ids:
    match array.WhichOneof("array"):
        case "u16_array":
            return _based(array.u16_array.base, array.u16_array.offsets, "<u2", source)
        case "u32_array":
            return _based(array.u32_array.base, array.u32_array.offsets, "<u4", source)
        case "u64_array":
            return _based(0, array.u64_array.values, "<u8", source)
        case _:
            return np.empty(0, dtype=np.uint64)


def _based(base: int, offsets: bytes, dtype: str, source: str) -> Ids:
    width = np.dtype(dtype).itemsize
    if len(offsets) % width:
        raise CorruptDataError(
            f"{source}: a row id array has {len(offsets)} bytes, expected a multiple of {width}"
        )
    values = np.frombuffer(offsets, dtype).astype(np.uint64)
    if len(values) and base + int(values.max()) >= _U64:
        raise CorruptDataError(f"{source}: a row id array has ids of more than 64 bits")
    return values + np.uint64(base)


def serialize_row_ids(sequence: RunSequence) -> bytes:
    """Serialize a sequence of row ids, in one segment."""
    return rowids_pb2.RowIdSequence(segments=[_choose_segment(sequence)]).SerializeToString()


def serialize_versions(sequence: RunSequence) -> bytes:
    """Serialize a sequence of row versions: one run for each range of equal versions."""
    message = rowids_pb2.RowDatasetVersionSequence()
    bounds = zip(sequence.firsts.tolist(), sequence.begins.tolist(), sequence.ends.tolist(), strict=True)
    for version, start, stop in bounds:
        run = message.runs.add(version=version)
        run.span.range.start, run.span.range.end = start, stop
    return message.SerializeToString()


def _choose_segment(sequence: RunSequence) -> rowids_pb2.U64Segment:
    """Encode ids as the reference writer does: in the smallest form that can hold them."""
    segment = rowids_pb2.U64Segment()
    count = len(sequence)
    if not count:
        segment.range.SetInParent()
        return segment
    firsts, lengths = sequence.firsts, sequence.ends - sequence.begins
    lasts = firsts + (lengths - 1).astype(np.uint64)
    # A range has an exclusive end, and nothing follows the highest id.
    if bool((firsts[1:] <= lasts[:-1]).any()) or int(lasts[-1]) == _U64 - 1:
        segment.array.CopyFrom(_encode_array(sequence.to_numpy()))
        return segment
    start, span = int(firsts[0]), int(lasts[-1]) - int(firsts[0]) + 1
    if span == count:
        segment.range.start, segment.range.end = start, start + span
        return segment
    # Ties are decided by this order, as in the reference writer.
    sizes = {
        "range_with_holes": 24 + 4 * (span - count),
        "range_with_bitmap": 24 + -(-span // 8),
        "sorted_array": 24 + 2 * count,
    }
    match min(sizes, key=lambda kind: sizes[kind]):
        case "range_with_holes":
            _fill_holes(segment.range_with_holes, firsts, lasts)
        case "range_with_bitmap":
            bits = np.zeros(span, dtype=np.uint8)
            bits[(sequence.to_numpy() - np.uint64(start)).astype(np.int64)] = 1
            segment.range_with_bitmap.start, segment.range_with_bitmap.end = start, start + span
            segment.range_with_bitmap.bitmap = np.packbits(bits, bitorder="little").tobytes()
        case _:
            segment.sorted_array.CopyFrom(_encode_array(sequence.to_numpy()))
    return segment


def _fill_holes(segment: rowids_pb2.U64Segment.RangeWithHoles, firsts: Ids, lasts: Ids) -> None:
    begins = lasts[:-1] + np.uint64(1)
    gaps = row_ids_of_runs(begins, (firsts[1:] - begins).astype(np.int64))
    segment.start, segment.end = int(firsts[0]), int(lasts[-1]) + 1
    segment.holes.CopyFrom(_encode_array(gaps.to_numpy()))


def row_ids_of_runs(firsts: Ids, lengths: Sequence[int] | npt.NDArray[np.int64]) -> RunSequence:
    """Return the ids of runs of consecutive ids; empty runs are dropped."""
    return _joined([(firsts, np.asarray(lengths, np.int64))], step=1, source="row ids")


def _encode_array(values: Ids) -> rowids_pb2.EncodedU64Array:
    message = rowids_pb2.EncodedU64Array()
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low <= 0xFFFF:
        message.u16_array.base = low
        message.u16_array.offsets = (values - np.uint64(low)).astype("<u2").tobytes()
    elif high - low <= 0xFFFFFFFF:
        message.u32_array.base = low
        message.u32_array.offsets = (values - np.uint64(low)).astype("<u4").tobytes()
    else:
        message.u64_array.values = values.astype("<u8").tobytes()
    return message
