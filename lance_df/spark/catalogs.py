"""Support for tables in a Spark catalog: ``CREATE TABLE … USING lance_df LOCATION …``.

Spark passes the location of a catalog table to a Python source only once, to get the columns for the catalog.
Later it passes only these columns, so their metadata store the options of a read. A write gets the metadata
of its rows' columns, which may come from another table, so the metadata are not used there.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructField, StructType

from lance_df.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY: Final = "lance_df.table"
_OPTION: Final = "option."
_STORAGE: Final = "storage."


def options_of_new_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of ``CREATE TABLE``, or None for the options of another statement.

    Raises
    ------
    UnsupportedFeatureError
        The location is missing, or there are options of a filesystem, which may be secret.
    """
    given = {name.lower(): value for name, value in options.items()}
    if "owner" not in given:  # only catalog tables have an owner
        return None
    reader_options = {
        name.removeprefix(_OPTION): value for name, value in given.items() if name.startswith(_OPTION)
    }
    if "path" not in given:
        raise UnsupportedFeatureError(
            "CREATE TABLE … USING lance_df requires the LOCATION '…' of an existing table or namespace"
        )
    if any(name.startswith(_STORAGE) for name in reader_options):
        raise UnsupportedFeatureError(
            "CREATE TABLE … USING lance_df: the catalog would show storage options to everybody; pass "
            "them where the table is read, SELECT … FROM name WITH (`storage.…` = '…')"
        )
    # Spark writes file:/path without escapes; URLs with three slashes stay
    return {**reader_options, "path": re.sub("^file:(?=/[^/])", "", given["path"])}


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return columns whose metadata store the options of a read."""
    metadata = {_KEY: json.dumps(dict(options))}
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, _others(each) | metadata)
            for each in schema.fields
        ]
    )


def without_table_options(schema: StructType) -> StructType:
    """Return columns without the options of a read in their metadata."""
    return StructType(
        [StructField(each.name, each.dataType, each.nullable, _others(each)) for each in schema.fields]
    )


def options_of_read(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read, with those in the metadata of catalog columns.

    The metadata are ignored if there is a path: the user may have given the schema of another table.
    """
    if any(name.lower() == "path" for name in options):
        return dict(options)
    for each in schema.fields:
        if _KEY in each.metadata:
            return {**json.loads(each.metadata[_KEY]), **options}
    return dict(options)


def _others(field: StructField) -> dict[str, Any]:
    return {key: value for key, value in field.metadata.items() if key != _KEY}
