"""Statistics of index segments from their files, with the names of pylance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_df.errors import CorruptDataError
from lance_df.table.maintenance.bitmap_files import num_bitmaps
from lance_df.table.maintenance.bloom_filter_files import FilterSize, num_zones
from lance_df.table.maintenance.bloom_filter_index import BLOOM_FILTER
from lance_df.table.maintenance.btree_files import btree_bounds
from lance_df.table.maintenance.entry_index import BITMAP, BTREE
from lance_df.table.maintenance.index_builder import segment_folder
from lance_df.table.maintenance.zone_map_files import zone_counts
from lance_df.table.maintenance.zone_map_index import ZONE_MAP

if TYPE_CHECKING:
    from lance_df.format.manifest import IndexMetadata
    from lance_df.table.indices.index_file import IndexFolder
    from lance_df.table.table import Table


def segment_statistics(table: Table, segment: IndexMetadata) -> dict[str, Any]:
    """Return the statistics of a segment; they are empty for kinds that this package does not build.

    Raises
    ------
    CorruptDataError
        A file is missing or damaged.
    VersionNotFoundError
        A file is missing, as the version was cleaned up, or the table dropped.
    UnsupportedFeatureError
        A file has a form that this release does not read.
    """
    statistics = _STATISTICS.get(segment.kind or "")
    try:
        return {} if statistics is None else statistics(segment_folder(table, segment))
    except CorruptDataError as err:
        table.check_not_gone(err)
        raise


def _of_btree(folder: IndexFolder) -> dict[str, Any]:
    minimum, maximum, num_pages = btree_bounds(folder)
    if minimum is None or maximum is None or not maximum.is_valid:
        return {"min": "N/A", "max": "N/A", "num_pages": num_pages}
    return {"min": _text(minimum), "max": _text(maximum), "num_pages": num_pages}


def _of_bloom_filter(folder: IndexFolder) -> dict[str, Any]:
    size = FilterSize.read(folder)
    return {
        "type": "BloomFilter",
        "num_blocks": num_zones(folder),
        "number_of_items": size.num_rows,
        "probability": float(size.probability),
    }


def _of_zone_map(folder: IndexFolder) -> dict[str, Any]:
    count, rows_per_zone = zone_counts(folder.location)
    return {"num_zones": count, "rows_per_zone": rows_per_zone}


_STATISTICS: Final[Mapping[str, Callable[[IndexFolder], dict[str, Any]]]] = {
    BTREE.kind: _of_btree,
    BITMAP.kind: lambda folder: {"num_bitmaps": num_bitmaps(folder)},
    BLOOM_FILTER.kind: _of_bloom_filter,
    ZONE_MAP.kind: _of_zone_map,
}


def _text(value: pa.Scalar) -> str:
    data_type, types = value.type, pa.types
    if types.is_decimal(data_type):
        digits = f"Some({int(value.as_py().scaleb(data_type.scale))})" if value.is_valid else "None"
        return f"{digits},{data_type.precision},{data_type.scale}"
    if not value.is_valid:
        return "NULL"
    if types.is_floating(data_type):
        number = value.as_py()
        return "NaN" if np.isnan(number) else np.format_float_positional(number, trim="-")
    if any(each(data_type) for each in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)):
        return bytes(value.as_buffer()).hex().upper()
    if types.is_date(data_type):
        return str(value.cast(pa.date32()))
    if types.is_temporal(data_type):
        return str(value.value)
    text = str(value.as_py())
    return text.lower() if types.is_boolean(data_type) else text
