"""Encode columns for 2.1 and 2.2 files, in which only leaves have columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.encoded_page import EncodedPage
from lance_df.encodings.levels.encode import leaf_columns
from lance_df.encodings.v2_1.encode_page import encode_page
from lance_df.format.column_metadata import PAGE_LAYOUT_URL
from lance_df.format.page_layout_messages import layout_to_proto

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.levels.encode import LeafColumn
    from lance_df.format.schema import Field


def column_field_ids(field: Field) -> list[int]:
    """Return the field ids of the file columns of a top-level column."""
    if field.has_column:
        return [field.id]
    return [column for child in field.children for column in column_field_ids(child)]


def encode_column(field: Field, array: pa.Array, *, version: str) -> list[list[EncodedPage]]:
    """Encode rows of a top-level column.

    Parameters
    ----------
    field, array
        The column, and at least one row of its storage type.
    version
        ``"2.1"`` or ``"2.2"``.

    Returns
    -------
    The pages of each file column, in the order of :func:`column_field_ids`.

    Raises
    ------
    InvalidInputError
        A value is null, but the schema does not allow it.
    UnsupportedFeatureError
        The format cannot store the data.
    """
    return [[_serialized(leaf, version)] for leaf in leaf_columns(field, array)]


def _serialized(leaf: LeafColumn, version: str) -> EncodedPage:
    page = encode_page(leaf, version=version)
    encoding = layout_to_proto(page.layout).SerializeToString()
    return EncodedPage(PAGE_LAYOUT_URL, encoding, page.buffers, page.num_rows)
