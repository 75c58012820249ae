"""Byte ranges, and merging of neighbouring ranges into fewer requests."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """Bytes ``start`` (inclusive) to ``stop`` (exclusive) of one file."""

    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start


def coalesce(
    ranges: Sequence[ByteRange], *, max_gap_bytes: int, max_request_bytes: int
) -> list[tuple[ByteRange, list[int]]]:
    """Merge ranges that are close to each other.

    Parameters
    ----------
    ranges
        In any order; they may overlap.
    max_gap_bytes
        Ranges with at most this many unwanted bytes between them share a request.
    max_request_bytes
        A request is not extended beyond this size; a single larger range is not split.

    Returns
    -------
    Requests in ascending order, each with the indices into ``ranges`` that it covers.
    """
    order = sorted(range(len(ranges)), key=lambda i: ranges[i].start)
    merged: list[tuple[ByteRange, list[int]]] = []
    for index in order:
        wanted = ranges[index]
        if merged:
            last, members = merged[-1]
            stop = max(last.stop, wanted.stop)
            if wanted.start <= last.stop + max_gap_bytes and (
                stop - last.start <= max_request_bytes or stop == last.stop
            ):
                members.append(index)
                merged[-1] = (ByteRange(last.start, stop), members)
                continue
        merged.append((wanted, [index]))
    return merged
