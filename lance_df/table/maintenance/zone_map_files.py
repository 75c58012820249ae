"""Write, read and join the files of zone map indices.

The index is Lance's own (table format, 14.1), so that other readers list it, use it or ignore it.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.encodings.plan import RowRange
from lance_df.file.v2.small_file import encode_small, small_file
from lance_df.file.v2.writer import FileWriter
from lance_df.format.file_tail import serialize_descriptor
from lance_df.format.manifest import IndexMetadata
from lance_df.format.schema import schema_from_arrow
from lance_df.records import dataclass
from lance_df.storage.sink import ByteSink
from lance_df.table.indices.index_file import IndexFile
from lance_df.table.maintenance.zones import ROWS_PER_ZONE, zone_schema
from lance_df.table.metadata.base_paths import INDICES_DIR

if TYPE_CHECKING:
    from lance_df.encodings.encoded_page import EncodedPage
    from lance_df.format.manifest import Manifest
    from lance_df.format.schema import Field, Schema
    from lance_df.storage import Location
    from lance_df.storage.unsynced import Unsynced
    from lance_df.table.writing.uncommitted import UncommittedFiles

DETAILS_URL = "/lance.table.ZoneMapIndexDetails"
KIND = "zonemapindexdetails"

FILE = "zonemap.lance"
_ROWS_PER_ZONE = "rows_per_zone"
_NUM_BOUNDS = 2
# Larger zone maps are written page by page.
_MAX_SMALL_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class ZoneMapData:
    """The zones of some fragments, as columns of the file; some of ``fragment_ids`` may have no zones."""

    zones: pa.RecordBatch
    fragment_ids: BitMap
    rows_per_zone: int = ROWS_PER_ZONE


def write_zone_map(
    table: Location,
    manifest: Manifest,
    field: Field,
    data: ZoneMapData,
    *,
    name: str,
    files: UncommittedFiles,
    unsynced: Unsynced | None = None,
) -> IndexMetadata:
    """Write a zone map; return its entry for a manifest.

    Parameters
    ----------
    manifest
        The version that the zones were computed from.
    files
        Registers the file before it is created.
    unsynced
        Records the file for a later sync; it is not durable until then.
    """
    index_id = uuid.uuid4()
    folder = table / INDICES_DIR / str(index_id)
    files.add(str(index_id), partial(_remove, folder))
    file = folder / FILE
    # as in pylance, which has no index files of version 0.1
    version = "2.0" if manifest.data_format in (None, "0.1") else manifest.data_format
    is_small = data.zones.num_rows and data.zones.nbytes <= _MAX_SMALL_BYTES
    size_bytes = (_put if is_small else _write)(file, data, version, unsynced)
    return IndexMetadata(
        uuid=index_id,
        fields=(field.id,),
        name=name,
        dataset_version=manifest.version,
        fragment_bitmap=data.fragment_ids.serialize(),
        details_type_url=DETAILS_URL,
        index_version=0,
        created_at_ms=time.time_ns() // 1_000_000,
        files=((FILE, size_bytes),),
    )


def _write(file: Location, data: ZoneMapData, version: str, unsynced: Unsynced | None) -> int:
    schema = _schema(data.zones.column(0).type)
    writer = FileWriter(ByteSink(file, unsynced=unsynced), schema, version=version)
    try:
        writer.write_batch(data.zones.columns)
        return writer.finish(metadata=_metadata(data.rows_per_zone)).size_bytes
    except BaseException:
        writer.abort()
        raise


def _put(file: Location, data: ZoneMapData, version: str, unsynced: Unsynced | None) -> int:
    """Write a small zone map; encoded counts are cached, as many columns and tables share them."""
    minima, maxima, *counts = data.zones.columns
    fields = _schema(minima.type).fields
    pages = [
        *encode_small(fields[0], minima, version=version),
        *encode_small(fields[1], maxima, version=version),
        *(
            _encoded_counts(number, array.to_numpy().tobytes(), version)
            for number, array in enumerate(counts, start=_NUM_BOUNDS)
        ),
    ]
    descriptor = _descriptor(minima.type, len(minima), data.rows_per_zone)
    content = small_file(descriptor, pages, version=version)
    if unsynced is not None:
        unsynced.put_new(file, content)
        return len(content)
    sink = ByteSink(file)
    try:
        sink.write(content)
        sink.close()
    except BaseException:
        sink.abort()
        raise
    return len(content)


@lru_cache(maxsize=1024)
def _encoded_counts(column: int, values: bytes, version: str) -> EncodedPage:
    data_type = zone_schema(pa.null()).field(column).type
    num_values = len(values) * 8 // data_type.bit_width
    array = pa.Array.from_buffers(data_type, num_values, [None, pa.py_buffer(values)])
    (page,) = encode_small(_schema(pa.null()).fields[column], array, version=version)
    return page


@lru_cache(maxsize=256)
def _descriptor(data_type: pa.DataType, num_rows: int, rows_per_zone: int) -> bytes:
    schema = dataclasses.replace(_schema(data_type), metadata=_metadata(rows_per_zone))
    return serialize_descriptor(schema, num_rows)


@lru_cache(maxsize=256)
def _schema(data_type: pa.DataType) -> Schema:
    return schema_from_arrow(zone_schema(data_type))


def _metadata(rows_per_zone: int) -> dict[str, bytes]:
    return {_ROWS_PER_ZONE: str(rows_per_zone).encode()}


def read_segments(
    segments: Iterable[IndexMetadata],
    locate: Callable[[IndexMetadata], Location],
    field: Field,
    fragment_ids: BitMap,
) -> list[ZoneMapData]:
    """Read the zones of some fragments; each fragment is in at most one of the results.

    Parameters
    ----------
    locate
        Returns the folder of a segment.

    Raises
    ------
    CorruptDataError
        A file is missing or damaged.
    """
    missing, parts = BitMap(fragment_ids), []
    for segment in segments:
        covered = (segment.covered_fragments() or BitMap()) & missing
        part = read_zone_map(locate(segment), field, covered) if covered else None
        if part is not None:
            parts.append(part)
            missing -= covered
    return parts


def zone_counts(folder: Location) -> tuple[int, int]:
    """Return the number of zones of a zone map, and the maximum number of rows of a zone."""
    file = IndexFile(folder / FILE)
    return file.num_rows, file.number(_ROWS_PER_ZONE)


def read_zone_map(folder: Location, field: Field, fragment_ids: BitMap) -> ZoneMapData | None:
    """Read the zones of some fragments; return ``None`` if their values have another type."""
    file = IndexFile(folder / FILE)
    schema = zone_schema(field.arrow_type())
    if any(file.type_of(column.name) != column.type for column in schema):
        return None
    arrays = file.read(schema.names, RowRange(0, file.num_rows))
    zones = pa.RecordBatch.from_arrays(arrays, schema=schema)
    wanted = np.isin(zones.column("fragment_id").to_numpy(), np.asarray(fragment_ids.to_array(), np.uint64))
    return ZoneMapData(zones.filter(pa.array(wanted)), fragment_ids, file.number(_ROWS_PER_ZONE))


def joined(parts: Sequence[ZoneMapData]) -> ZoneMapData:
    """Join one or more parts for different fragments into one zone map."""
    zones = pa.Table.from_batches([part.zones for part in parts])
    zones = zones.sort_by([("fragment_id", "ascending"), ("zone_start", "ascending")]).combine_chunks()
    batch = next(iter(zones.to_batches()), parts[0].zones)
    return ZoneMapData(batch, BitMap.union(*(part.fragment_ids for part in parts)), parts[0].rows_per_zone)


def _remove(folder: Location) -> None:
    (folder / FILE).remove()
    folder.remove_empty_folder()
