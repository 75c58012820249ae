"""Describe data files that are already in a table's data folder."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_df.file.open import open_file
from lance_df.format.fragments import DataFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_df.format.schema import Field
    from lance_df.table.table import Table


def describe_data_file(table: Table, path: str, *, base_id: int | None = None) -> tuple[DataFile, int]:
    """Return a file's entry for manifests, and its number of rows.

    Parameters
    ----------
    path
        The path below the data folder of the table, or of the base path ``base_id``.

    Raises
    ------
    CorruptDataError
        There is no such file, or it is damaged.
    InvalidInputError
        The file has columns that the table lacks, or of another type.
    """
    empty = DataFile(path=path, fields=(), base_id=base_id)
    location = table.data_file_location(empty)
    try:
        source = location.open()
    except NotFoundError as err:
        table.check_not_gone(err)
        raise CorruptDataError(f"{location.uri}: this data file is missing") from err
    reader = open_file(source)
    pairs = _pairs(reader.schema.fields, table.schema.fields, reader.path, "")
    ids = {field_of_file.id: field.id for field_of_file, field in pairs}
    held = sorted((column, ids[field_of_file]) for field_of_file, column in reader.column_of.items())
    if reader.version == "0.1":
        if any(field_of_file != ids[field_of_file] for field_of_file in reader.column_of):
            raise InvalidInputError(
                f"{reader.path}: the field ids of this file differ from those of the table"
            )
        columns: tuple[int, ...] = ()
        major, minor = 0, 2
    else:
        columns = tuple(column for column, _ in held)
        major, minor = (int(part) for part in reader.version.split("."))
    described = dataclasses.replace(
        empty,
        fields=tuple(field_id for _, field_id in held),
        column_indices=columns,
        major_version=major,
        minor_version=minor,
        size_bytes=source.size,
    )
    return described, reader.num_rows


def _pairs(
    file_fields: Sequence[Field], fields: Sequence[Field], path: str, within: str
) -> Iterator[tuple[Field, Field]]:
    """Yield each field of a file with the table's field of the same name, at all levels."""
    by_name = {field.name: field for field in fields}
    for each in file_fields:
        field = by_name.get(each.name)
        name = within + each.name
        if field is None:
            raise InvalidInputError(f"{path}: the table has no column {name!r}")
        if field.logical_type != each.logical_type:
            raise InvalidInputError(
                f"{path}: column {name!r} has type {each.logical_type}, but type {field.logical_type} in "
                "the table"
            )
        yield each, field
        yield from _pairs(each.children, field.children, path, f"{name}.")
