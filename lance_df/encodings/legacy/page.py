"""What decoders of 0.1 are given: stretches of wanted rows, one for each page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.fetch import fetch_bits, fetch_fixed, pack_bits
from lance_df.encodings.plan import together
from lance_df.encodings.rows import item_rows
from lance_df.errors import CorruptDataError
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.plan import IoPlan, Rows


@dataclass(frozen=True, slots=True)
class Stretch:
    """The wanted ``rows`` of the page at ``position``, which holds ``num_values``.

    ``stop`` is where the page must have ended: the size of the file.
    """

    position: int
    num_values: int
    stop: int
    rows: Rows

    def bytes_of(self, num_values: int, bits: int) -> ByteRange:
        """Return the range of that many values; raises CorruptDataError if it leaves the file."""
        stop = self.position + (num_values * bits + 7) // 8
        if not 0 <= self.position <= stop <= self.stop:
            raise CorruptDataError(
                f"a page of {num_values} values of {bits} bits at byte {self.position} "
                f"does not end in the file of {self.stop} bytes"
            )
        return ByteRange(self.position, stop)


def fetch_values(stretches: Sequence[Stretch], bits: int) -> IoPlan[pa.Buffer]:
    """Return the values of all stretches back to back; a view if there is one range of whole bytes."""
    if bits % 8:
        return (yield from _fetch_bits(stretches, bits))
    if bits == 0:
        return pa.py_buffer(b"")
    parts = yield from together(
        [
            fetch_fixed(stretch.bytes_of(stretch.num_values, bits), bits // 8, stretch.rows)
            for stretch in stretches
        ]
    )
    return join(parts)


def join(parts: Sequence[pa.Buffer]) -> pa.Buffer:
    """Return buffers as one."""
    return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))


def _fetch_bits(stretches: Sequence[Stretch], bits: int) -> IoPlan[pa.Buffer]:
    wanted = [item_rows(stretch.rows, bits) for stretch in stretches]
    parts = yield from together(
        [
            fetch_bits(stretch.bytes_of(stretch.num_values, bits), rows)
            for stretch, rows in zip(stretches, wanted, strict=True)
        ]
    )
    if len(parts) == 1:
        return parts[0]
    # Pages start on a fresh byte, rows do not.
    unpacked = [
        np.unpackbits(np.frombuffer(part, np.uint8), count=len(rows), bitorder="little")
        for part, rows in zip(parts, wanted, strict=True)
    ]
    return pack_bits(np.concatenate(unpacked) if unpacked else np.zeros(0, np.uint8))
