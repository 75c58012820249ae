"""Zone maps for new fragments: bounds of every column over runs of rows, collected while rows are written.

The index is Lance's own (table format, 14.1), so that other readers list it, use it or ignore it. It is
committed after the rows, in a version of its own: without it the table is complete, only slower.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lance_df.errors import LanceError
from lance_df.file.writer import FileWriter
from lance_df.format.manifest import IndexMetadata
from lance_df.format.operations import CreateIndex
from lance_df.format.schema import schema_from_arrow
from lance_df.format.transaction import Transaction
from lance_df.storage.sink import ByteSink
from lance_df.table.base_paths import INDICES_DIR
from lance_df.table.commit.loop import commit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.schema import Field, Schema
    from lance_df.storage import Location
    from lance_df.table.manifest_io import ManifestFile

ROWS_PER_ZONE = 8192
DETAILS_URL = "/lance.table.ZoneMapIndexDetails"

_FILE = "zonemap.lance"
_KIND = "zonemapindexdetails"
# a column with longer bounds is text to read, not to look up
_MAX_BOUND_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _Zone:
    minimum: pa.Scalar
    maximum: pa.Scalar
    null_count: int
    nan_count: int
    fragment: int
    start: int
    length: int


@dataclass(slots=True)
class _Column:
    field: Field
    zones: list[_Zone] = attribute(default_factory=list)
    pending: list[pa.Array] = attribute(default_factory=list)
    num_pending: int = 0
    zone_start: int = 0
    is_suitable: bool = True

    def add(self, array: pa.Array, fragment: int) -> None:
        while len(array) and self.is_suitable:
            piece = array.slice(0, ROWS_PER_ZONE - self.num_pending)
            array = array.slice(len(piece))
            self.pending.append(piece)
            self.num_pending += len(piece)
            if self.num_pending == ROWS_PER_ZONE:
                self.close_zone(fragment)

    def close_zone(self, fragment: int) -> None:
        if not self.num_pending or not self.is_suitable:
            return
        values = pa.chunked_array(self.pending)
        minimum, maximum, nan_count = _bounds(values)
        self.zones.append(
            _Zone(minimum, maximum, values.null_count, nan_count, fragment, self.zone_start, len(values))
        )
        self.zone_start += len(values)
        self.pending, self.num_pending = [], 0
        self.is_suitable = _size(minimum) <= _MAX_BOUND_BYTES and _size(maximum) <= _MAX_BOUND_BYTES

    def end_fragment(self, fragment: int) -> None:
        self.close_zone(fragment)
        self.zone_start = 0

    def table(self, fragment_ids: Sequence[int]) -> pa.RecordBatch:
        data_type = self.field.arrow_type()
        counts: dict[str, Any] = {
            "null_count": pa.array([zone.null_count for zone in self.zones], pa.uint32()),
            "nan_count": pa.array([zone.nan_count for zone in self.zones], pa.uint32()),
            "fragment_id": pa.array([fragment_ids[zone.fragment] for zone in self.zones], pa.uint64()),
            "zone_start": pa.array([zone.start for zone in self.zones], pa.uint64()),
            "zone_length": pa.array([zone.length for zone in self.zones], pa.uint64()),
        }
        bounds = [
            pa.array([getattr(zone, name) for zone in self.zones], data_type)
            for name in ("minimum", "maximum")
        ]
        fields = [pa.field("min", data_type), pa.field("max", data_type)]
        fields += [pa.field(name, array.type, nullable=False) for name, array in counts.items()]
        return pa.RecordBatch.from_arrays([*bounds, *counts.values()], schema=pa.schema(fields))


class ZoneMapBuilder:
    """Collects the bounds of all suitable top-level columns of new fragments."""

    def __init__(self, schema: Schema) -> None:
        self._columns = {
            position: _Column(field) for position, field in enumerate(schema.fields) if is_suitable(field)
        }
        self._fragment = 0

    def add(self, arrays: Sequence[pa.Array]) -> None:
        """Take note of rows: one array for each field of the schema."""
        for position, column in self._columns.items():
            column.add(arrays[position], self._fragment)

    def end_fragment(self) -> None:
        """Say that the rows that follow belong to the next fragment."""
        for column in self._columns.values():
            column.end_fragment(self._fragment)
        self._fragment += 1

    def commit(self, table: Location, latest: ManifestFile, fragment_ids: Sequence[int]) -> int:
        """Write an index segment for each column and publish them in one new version.

        Parameters
        ----------
        table
            The root of the table.
        latest
            The version that has the fragments.
        fragment_ids
            The ids that the fragments got, in the order in which they were written.

        Returns
        -------
        The version that has the indices, or ``latest`` if no column is suitable.

        Raises
        ------
        LanceError
            The indices could not be written or committed; what was written of them is removed.
        """
        columns = [column for column in self._columns.values() if column.is_suitable and column.zones]
        manifest = latest.manifest
        if not columns:
            return manifest.version
        existing = latest.read_indices()
        written: list[IndexMetadata] = []
        try:
            for column in columns:
                if (name := _index_name(column.field, existing)) is None:
                    continue
                batch = column.table(fragment_ids)
                index = _write_index(table, column.field, batch, name=name, latest=latest)
                written.append(index)
            operation = CreateIndex(tuple(written), ())
            transaction = Transaction(
                read_version=manifest.version, uuid=str(uuid.uuid4()), operation=operation
            )
            return commit(table, transaction)
        except LanceError:
            for index in written:
                folder = table / INDICES_DIR / str(index.uuid)
                (folder / _FILE).remove()
                folder.remove_empty_folder()
            raise


def is_suitable(field: Field) -> bool:
    """Whether values of a field have an order that bounds can be of."""
    if field.children:
        return False
    data_type = field.arrow_type()
    types = pa.types
    return bool(
        types.is_integer(data_type)
        or types.is_floating(data_type)
        or types.is_boolean(data_type)
        or types.is_decimal(data_type)
        or types.is_temporal(data_type)
        or types.is_string(data_type)
        or types.is_large_string(data_type)
    )


def _bounds(values: pa.ChunkedArray) -> tuple[pa.Scalar, pa.Scalar, int]:
    """Return the smallest and the largest value, null if there is none, and the number of NaNs.

    The largest of values with a NaN is NaN. Zeros are widened to both signs, which readers tell apart.
    """
    data_type = values.type
    if not pa.types.is_floating(data_type):
        storage = pa.int64() if pa.types.is_duration(data_type) else data_type
        found = pc.min_max(values.cast(storage))
        return found["min"].cast(data_type), found["max"].cast(data_type), 0
    floats = values.drop_null().to_numpy()
    numbers = floats[~np.isnan(floats)]
    nan_count = len(floats) - len(numbers)
    smallest = largest = None
    if len(numbers):
        smallest, largest = numbers.min(), numbers.max()
        smallest = numbers.dtype.type(-0.0) if smallest == 0 else smallest
        largest = numbers.dtype.type(0.0) if largest == 0 else largest
    if nan_count:
        largest = floats.dtype.type(np.nan)
    return pa.scalar(smallest, data_type), pa.scalar(largest, data_type), nan_count


def _size(bound: pa.Scalar) -> int:
    is_text = pa.types.is_string(bound.type) or pa.types.is_large_string(bound.type)
    return bound.as_buffer().size if is_text and bound.is_valid else 0


def _index_name(field: Field, existing: Sequence[IndexMetadata]) -> str | None:
    """Return the name under which a segment for the field goes, or None when the name is taken."""
    for index in existing:
        if index.kind == _KIND and index.fields == (field.id,):
            return index.name
    name = f"{field.name}_zonemap"
    return None if any(index.name == name for index in existing) else name


def _write_index(
    table: Location, field: Field, batch: pa.RecordBatch, *, name: str, latest: ManifestFile
) -> IndexMetadata:
    index_id = uuid.uuid4()
    sink = ByteSink(table / INDICES_DIR / str(index_id) / _FILE)
    schema = schema_from_arrow(batch.schema)
    writer = FileWriter(sink, schema, version=latest.manifest.data_format or "2.2")
    try:
        writer.write_batch(batch.columns)
        file = writer.finish(metadata={"rows_per_zone": str(ROWS_PER_ZONE).encode()})
    except BaseException:
        writer.abort()
        raise
    fragment_ids = BitMap(batch.column("fragment_id").to_numpy().astype(np.uint32))
    return IndexMetadata(
        uuid=index_id,
        fields=(field.id,),
        name=name,
        dataset_version=latest.manifest.version,
        fragment_bitmap=fragment_ids.serialize(),
        details_type_url=DETAILS_URL,
        index_version=0,
        created_at_ms=time.time_ns() // 1_000_000,
        files=((_FILE, file.size_bytes),),
    )
