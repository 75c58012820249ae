"""The memory of pages: byte views, writable Arrow buffers, and the same buffer of many chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.kernels import variable
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from lance_df.encodings.plan import IoPlan

Bytes: TypeAlias = npt.NDArray[np.uint8]
Counts: TypeAlias = npt.NDArray[np.int64]


def as_bytes(buffer: pa.Buffer) -> Bytes:
    """Return a read-only view aligned to 8 bytes; a copy if the buffer is not aligned."""
    data = np.frombuffer(buffer, np.uint8) if buffer.size else np.empty(0, np.uint8)
    if buffer.address % 8:
        data = data.copy()
    data.flags.writeable = False
    return data


def allocate(num_bytes: int) -> tuple[pa.Buffer, Bytes]:
    """Return uninitialised Arrow memory, and a writable view of it."""
    buffer = pa.allocate_buffer(num_bytes)
    return buffer, np.frombuffer(buffer, np.uint8) if num_bytes else np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Chunked:
    """The same buffer of many chunks: chunk i has ``sizes[i]`` bytes of ``data``, starting at ``starts[i]``.

    All chunks lie within ``data``. Chunks read from a file start at multiples of 8.
    """

    data: Bytes
    starts: Counts
    sizes: Counts

    @classmethod
    def single(cls, data: Bytes) -> Chunked:
        """Return ``data`` as a single chunk."""
        return cls(data, np.zeros(1, np.int64), np.array([len(data)], np.int64))

    @classmethod
    def consecutive(cls, data: Bytes, sizes: Counts) -> Chunked:
        """Return consecutive chunks of the given sizes."""
        return cls(data, np.cumsum(sizes) - sizes, sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def chunk(self, index: int) -> Bytes:
        """Return a view of one chunk."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])]

    def require(self, sizes: Counts | int, what: str) -> None:
        """Raise `CorruptDataError` if a chunk has less than ``sizes`` bytes."""
        short = self.sizes < sizes
        if short.any():
            first = int(short.argmax())
            wanted = int(np.broadcast_to(sizes, short.shape)[first])
            raise CorruptDataError(
                f"the buffer of {what} has {self.sizes[first]} bytes, expected at least {wanted}"
            )

    def words(self, num_bytes: int) -> npt.NDArray[Any]:
        """Return the whole of ``data`` as unsigned words."""
        whole = len(self.data) // num_bytes * num_bytes
        return self.data[:whole].view(f"<u{num_bytes}")

    def join(self, sizes: Counts) -> Bytes:
        """Return the first ``sizes[i]`` bytes of each chunk, back to back; a view if there is one chunk."""
        if len(self) == 1:
            return self.chunk(0)[: int(sizes[0])]
        stops = np.cumsum(sizes)
        _, out = allocate(int(stops[-1]) if len(stops) else 0)
        variable.copy_spans(self.data, self.starts, sizes, out, stops - sizes)
        return out

    def copy_to(self, out: Bytes, starts: Counts) -> None:
        """Copy every chunk to its position in ``out``."""
        spans = [np.ascontiguousarray(each, np.int64) for each in (self.starts, self.sizes, starts)]
        variable.copy_spans(self.data, spans[0], spans[1], out, spans[2])


def align8(sizes: Counts) -> Counts:
    """Round up to multiples of 8."""
    return (sizes + 7) & ~7


def read_spans(
    buffer: ByteRange, starts: Counts, stops: Counts, *, mapped: bool
) -> IoPlan[tuple[Bytes, Counts]]:
    """Read ascending, disjoint spans of a page buffer.

    Parameters
    ----------
    buffer
        The page buffer. Spans are relative to it, and checked against it.
    mapped
        Whether the file is memory-mapped, in which case the whole buffer is requested at no cost.

    Returns
    -------
    The bytes, and the start of each span in them. Adjacent spans share a request.
    """
    if len(starts) == 0:
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    if starts[0] < 0 or stops[-1] > buffer.num_bytes or (stops < starts).any():
        raise CorruptDataError(
            f"bytes {int(starts[0])} to {int(stops[-1])} are out of range, the buffer has "
            f"{buffer.num_bytes} bytes"
        )
    if mapped:
        (whole,) = yield [buffer]
        return as_bytes(whole), starts
    first = np.flatnonzero(np.concatenate(([True], starts[1:] != stops[:-1])))
    run_starts, run_stops = starts[first], stops[np.append(first[1:], len(stops)) - 1]
    parts = yield [
        ByteRange(buffer.start + start, buffer.start + stop)
        for start, stop in zip(run_starts.tolist(), run_stops.tolist(), strict=True)
    ]
    if len(parts) == 1:
        return as_bytes(parts[0]), starts - starts[0]
    filled = [np.frombuffer(part, np.uint8) for part in parts if part.size]
    data = np.concatenate(filled) if filled else np.empty(0, np.uint8)
    data.flags.writeable = False
    sizes = run_stops - run_starts
    shift = np.repeat(np.cumsum(sizes) - sizes - run_starts, np.diff(np.append(first, len(starts))))
    return data, starts + shift


def bitmap(flags: npt.NDArray[np.bool_] | npt.NDArray[np.uint8], *, offset: int = 0) -> pa.Buffer:
    """Return an Arrow bitmap of flags, preceded by ``offset`` bits without meaning."""
    bits: npt.NDArray[Any] = np.concatenate((np.ones(offset, np.bool_), flags)) if offset else flags
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def with_validity(values: pa.Array, valid: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Return ``values``, which have no nulls themselves, with null where ``valid`` is false.

    The fields of structs are null there too, because engines read a field without its struct.
    """
    if valid is None or valid.all():
        return values
    if pa.types.is_null(values.type):
        return values
    num_nulls = len(valid) - int(np.count_nonzero(valid))
    mask = bitmap(valid, offset=values.offset)
    data_type = values.type
    if pa.types.is_dictionary(data_type):
        indices = with_validity(values.indices, valid)
        return pa.DictionaryArray.from_arrays(indices, values.dictionary, safe=False)
    if pa.types.is_struct(data_type):
        children = [with_validity(child, valid) for child in values.flatten()]
        return pa.Array.from_buffers(
            data_type, len(values), [bitmap(valid)], null_count=num_nulls, children=children
        )
    if pa.types.is_fixed_size_list(data_type):
        return pa.Array.from_buffers(
            data_type, len(values), [mask], num_nulls, values.offset, children=[values.values]
        )
    buffers = values.buffers()
    return pa.Array.from_buffers(data_type, len(values), [mask, *buffers[1:]], num_nulls, values.offset)
