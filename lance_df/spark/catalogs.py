"""Tables in a catalog of Spark: ``CREATE TABLE … USING lance_df LOCATION …``.

Spark passes a Python source the location of such a table once, when it asks for the columns of the catalog.
Later it passes these columns alone, so their metadata hold the options of a read. A write has the metadata of
the columns of its rows, which may be those of another table, so that nothing can be concluded from them.
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
    """Return the options of ``CREATE TABLE``; None if that is not what they are of.

    Raises
    ------
    UnsupportedFeatureError
        There is no location, or there are options of a filesystem, which may be secret.
    """
    given = {name.lower(): value for name, value in options.items()}
    if "owner" not in given:  # only tables have one
        return None
    reader_options = {
        name.removeprefix(_OPTION): value for name, value in given.items() if name.startswith(_OPTION)
    }
    if "path" not in given:
        raise UnsupportedFeatureError("CREATE TABLE … USING lance_df needs LOCATION '…', of what is there")
    if any(name.startswith(_STORAGE) for name in reader_options):
        raise UnsupportedFeatureError(
            "CREATE TABLE … USING lance_df: the catalog would show storage options to everybody; give them "
            "where the table is read, SELECT … FROM name WITH (`storage.…` = '…')"
        )
    # not a URL as others write them, with three slashes and escapes
    return {**reader_options, "path": re.sub("^file:(?=/[^/])", "", given["path"])}


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return columns that say what is read."""
    metadata = {_KEY: json.dumps(dict(options))}
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, _others(each) | metadata)
            for each in schema.fields
        ]
    )


def without_table_options(schema: StructType) -> StructType:
    """Return columns that say nothing of where they were read."""
    return StructType(
        [StructField(each.name, each.dataType, each.nullable, _others(each)) for each in schema.fields]
    )


def options_of_read(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Return what a read was asked for: its own options, and those that columns of a catalog say.

    Columns say nothing where there is a path: a schema of the user's may be that of another table.
    """
    if any(name.lower() == "path" for name in options):
        return dict(options)
    for each in schema.fields:
        if _KEY in each.metadata:
            return {**json.loads(each.metadata[_KEY]), **options}
    return dict(options)


def _others(field: StructField) -> dict[str, Any]:
    return {key: value for key, value in field.metadata.items() if key != _KEY}
