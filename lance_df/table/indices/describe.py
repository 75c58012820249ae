"""Descriptions of the indices of a table, in the form of pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from pyroaring import BitMap

from lance_df.format.column_path import path_step
from lance_df.format.fragment_reuse import SYSTEM_PREFIX

if TYPE_CHECKING:
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field, Schema
    from lance_df.table.table import Table

_NAMES = {
    "btreeindexdetails": "BTree",
    "bitmapindexdetails": "Bitmap",
    "zonemapindexdetails": "ZoneMap",
    "bloomfilterindexdetails": "BloomFilter",
    "labellistindexdetails": "LabelList",
    "invertedindexdetails": "Inverted",
    "ngramindexdetails": "NGram",
    "rtreeindexdetails": "RTree",
    "vectorindexdetails": "Vector",
}


class IndexInformation(TypedDict):
    """One segment of an index. ``fragment_ids`` are the covered fragments that still exist."""

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: set[int]
    base_id: int | None


def describe_indices(table: Table) -> list[IndexInformation]:
    """Return every index segment of a table version, ordered by name."""
    present = BitMap(table.fragments.ids.tolist())
    paths = _paths(table.schema)
    segments = [index for index in table.indices if not index.name.startswith(SYSTEM_PREFIX)]
    return [_describe(index, paths, present) for index in sorted(segments, key=lambda index: index.name)]


def _describe(index: IndexMetadata, paths: dict[int, str], present: BitMap) -> IndexInformation:
    covered = index.covered_fragments()
    kind = index.kind
    return IndexInformation(
        name=index.name,
        type="Unknown" if kind is None else _NAMES.get(kind, kind.removesuffix("indexdetails")),
        uuid=str(index.uuid),
        fields=[paths[field_id] for field_id in index.fields if field_id in paths],
        version=index.dataset_version,
        fragment_ids=set() if covered is None else set(present & covered),
        base_id=index.base_id,
    )


def _paths(schema: Schema) -> dict[int, str]:
    """Return the path of each field by id, in the form that `parse_path` reads."""
    paths: dict[int, str] = {}

    def visit(field: Field, prefix: str) -> None:
        paths[field.id] = prefix + path_step(field.name)
        for child in field.children:
            visit(child, f"{paths[field.id]}.")

    for field in schema.fields:
        visit(field, "")
    return paths
