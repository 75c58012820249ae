"""Pages whose bytes are in memory, be they mapped as a whole, or fetched for some rows."""

from __future__ import annotations

from enum import Flag
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from lance_df.encodings.plan import RowRange
from lance_df.encodings.string_views import as_views

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions, Rows

    RowReader: TypeAlias = Callable[[int, int], pa.Array]


class Form(Flag):
    """What arrays are: plain ones of their type, strings (of 32-bit offsets) as views, or dictionaries.

    Only where a page is stored with a dictionary it is kept; then views are not made.
    """

    PLAIN = 0
    DICTIONARY = 1
    VIEWS = 2


class LoadedPage(Protocol):
    """Reads rows of one page whose bytes are in memory."""

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows from a first to a last (exclusive), at least one, all of which exist.

        It is made once, and may be called by several threads. Where what is stored is impossible, it raises
        `CorruptDataError`, which names neither file nor column.
        """
        ...

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows, which exist. Raises as readers do."""
        ...

    def page_take(self) -> PageTake | None:
        """Return how kernels take single rows, of this page and others; None where they do not.

        It is for pages that have no nulls, unless null is a value of their dictionary.
        """
        ...


def read_rows(page: LoadedPage, rows: Rows, form: Form) -> pa.Array:
    """Return rows, at least one, of a page; single ones never as views."""
    if isinstance(rows, RowRange):
        return page.reader(form)(rows.start, rows.stop)
    return page.take(rows, form)


def viewed(read: RowReader, form: Form) -> RowReader:
    """Return a reader of strings as views, if that is the form, for one of arrays of their type."""
    if Form.VIEWS not in form:
        return read

    def read_views(start: int, stop: int) -> pa.Array:
        array = read(start, stop)
        return as_views(array) if array.type == pa.string() else array

    return read_views


def is_plain_type(data_type: pa.DataType) -> bool:
    """Return whether values are words or strings, as pages of plain columns have them."""
    types = pa.types
    return (
        is_text(data_type)
        or is_bytes(data_type)
        or types.is_decimal(data_type)
        or types.is_fixed_size_binary(data_type)
        or (types.is_primitive(data_type) and data_type.bit_width >= 8)
    )


def is_text(data_type: pa.DataType) -> bool:
    """Return whether values are strings."""
    return pa.types.is_string(data_type) or pa.types.is_large_string(data_type)


def is_bytes(data_type: pa.DataType) -> bool:
    """Return whether values are binaries of any width."""
    return pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type)


def is_large(data_type: pa.DataType) -> bool:
    """Return whether offsets of strings or binaries have 64 bits."""
    return pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
