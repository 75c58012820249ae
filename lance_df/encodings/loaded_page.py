"""The interface of pages in memory, whether mapped as a whole or fetched for some rows."""

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
    """The form of arrays: plain ones of their type, strings (of 32-bit offsets) as views, or dictionaries.

    A dictionary is returned only if the page is stored with one; views are not made in that case.
    """

    PLAIN = 0
    DICTIONARY = 1
    VIEWS = 2


class LoadedPage(Protocol):
    """Reads rows of one page whose bytes are in memory."""

    def reader(self, form: Form) -> RowReader:
        """Return a reader of the rows from a first to a last (exclusive), at least one; all must exist.

        It is made once, and several threads may call it. If the stored data are invalid, it raises
        `CorruptDataError`, which names neither file nor column.
        """
        ...

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows, which must exist. Raises as readers do."""
        ...

    def page_take(self) -> PageTake | None:
        """Return the object by which kernels take single rows of this and other pages, or None.

        It exists for pages without nulls, unless null is a value of their dictionary.
        """
        ...


def read_rows(page: LoadedPage, rows: Rows, form: Form) -> pa.Array:
    """Return rows of a page, at least one; single rows are never views."""
    if isinstance(rows, RowRange):
        return page.reader(form)(rows.start, rows.stop)
    return page.take(rows, form)


def viewed(read: RowReader, form: Form) -> RowReader:
    """Return a reader that converts strings to views if ``form`` asks for them."""
    if Form.VIEWS not in form:
        return read

    def read_views(start: int, stop: int) -> pa.Array:
        array = read(start, stop)
        return as_views(array) if array.type == pa.string() else array

    return read_views


def is_plain_type(data_type: pa.DataType) -> bool:
    """Return whether values are words or strings, the types of plain columns."""
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
