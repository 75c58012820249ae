"""Ways to damage a file, a source that counts, and what a reader may do about damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.legacy.reader import LegacyFileReader
from lance_df.file.open import open_file
from lance_df.storage import ByteSource, MappedSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lance_df.file.reader import FileReader
    from lance_df.format.schema import Field
    from lance_df.storage import ByteRange


class CountingSource(ByteSource):
    """A file that is read like a remote one, and counts requests and bytes."""

    def __init__(self, path: str) -> None:
        self._file = MappedSource(path)
        self.path = path
        self.size = self._file.size
        self.requests = 0
        self.bytes = 0

    @property
    def is_memory_mapped(self) -> bool:
        return False

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        self.requests += 1
        self.bytes += sum(wanted.num_bytes for wanted in ranges)
        return self._file.read_ranges(ranges)


@dataclass(frozen=True)
class Damage:
    """What to do at a place, which is a fraction of the file, counted from its end for most of them.

    Tails hold all the metadata, so that damage there does the most.
    """

    kind: str
    place: float
    in_tail: bool
    data: bytes

    def apply(self, content: bytes) -> bytes:
        window = min(len(content), 3000) if self.in_tail else len(content)
        at = len(content) - 1 - int(self.place * (window - 1))
        size = len(self.data)
        match self.kind:
            case "flip":
                return content[:at] + bytes([content[at] ^ (1 << self.data[0] % 8)]) + content[at + 1 :]
            case "cut":
                return content[:at] + content[at + size :]
            case "truncate":
                return content[:at]
            case "insert":
                return content[:at] + self.data + content[at:]
            case "overwrite":
                return content[:at] + self.data + content[at + size :]
        return content[:at] + bytes(size) + content[at + size :]


def damages() -> st.SearchStrategy[Damage]:
    """Return damage of all kinds."""
    kinds = st.sampled_from(["flip", "flip", "cut", "truncate", "insert", "overwrite", "zero"])
    return st.builds(Damage, kinds, st.floats(0, 1), st.booleans(), st.binary(min_size=1, max_size=16))


def assert_damage_is_noticed(content: bytes, damage: Damage, path: Path) -> None:
    """Read a damaged file whole and in part: valid arrays come out, or our errors that name the file."""
    path.write_bytes(damage.apply(content))
    errors: list[Exception] = []
    try:
        reader = open_file(MappedSource(str(path)))
        fields = reader.schema.fields
    except (CorruptDataError, UnsupportedFeatureError) as err:
        errors, fields = [err], ()
    for field in fields:
        errors += _read_field(reader, field)
    assert all(str(path) in str(error) for error in errors), errors


def _read_field(reader: FileReader, field: Field) -> list[Exception]:
    limit = min(reader.num_rows, 100_000)
    errors: list[Exception] = []
    for rows in (RowRange(0, limit), RowRange(limit // 3, limit // 2), np.arange(0, limit, 7)):
        try:
            (array,) = reader.read([field], rows)
        except (CorruptDataError, UnsupportedFeatureError) as err:
            errors.append(err)
        else:
            # what is stored in damaged decimals and times need not be one; nobody relies on that
            array.validate(full=not _is_picky(array.type))
            assert len(array) == len(rows)
            assert array.nbytes < 5_000_000
    if isinstance(reader, LegacyFileReader):
        try:
            reader.statistics(field)
        except (CorruptDataError, UnsupportedFeatureError) as err:
            errors.append(err)
    return errors


def _is_picky(data_type: pa.DataType) -> bool:
    return "decimal" in str(data_type) or "time" in str(data_type)
