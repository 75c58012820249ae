"""What sources have: rows, and records of CSV and JSON that are none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lance_df.errors import InvalidInputError
from lance_df.spark.ingesting.checked_rows import CORRUPT, named
from lance_df.spark.ingesting.job import LANCE
from lance_df.spark.source import LanceSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.spark.ingesting.job import IngestSource

# as RFC 4180 has it; and columns by the names in the header, which Spark passes over where it has a schema
_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "csv": {"header": "true", "escape": '"', "enforceSchema": "false"}
}
_TEXTUAL: Final = ("csv", "json")
_LEAST_HASH: Final = -(2**63)
# the line that `lance_df.spark.failures` looks for
_RAISED: Final = "\nlance_df.errors.InvalidInputError: "


def read_source(spark: SparkSession, source: IngestSource) -> DataFrame:
    """Return the rows of a source, with `CORRUPT` if it may have records that cannot be read.

    Raises
    ------
    InvalidInputError
        Nothing says what the columns are.
    """
    if source.table is not None:
        return spark.read.options(**dict(source.options)).table(source.table)
    if source.format == LANCE:
        storage = lance_storage(source.storage_options)
        return _loaded(spark, LanceSource.name(), source, {**source.options, **storage}, None)
    options = {**_DEFAULTS.get(source.format or "", {}), **source.options}
    if not _finds_corrupt(source):
        return _loaded(spark, source.format, source, options, source.schema)
    options["columnNameOfCorruptRecord"] = CORRUPT
    known = _loaded(spark, source.format, source, options, source.schema).schema
    fields = [each for each in known if each.name != CORRUPT]
    if not fields:
        raise InvalidInputError(
            f"source {source.name!r} has no columns: there is nothing in {', '.join(source.paths)}"
        )
    schema = StructType([*fields, StructField(CORRUPT, StringType())])
    return _loaded(spark, source.format, source, options, schema)


def readable(rows: DataFrame, source: IngestSource, *, fail: bool) -> DataFrame:
    """Return the rows of a source for a query; with ``fail`` a record that cannot be read ends the job."""
    if CORRUPT not in rows.columns:
        return rows
    # that asks for all columns: records are parsed as far as they are needed, and may be wrong elsewhere
    nulls = [named(name).isNull() for name in rows.columns]
    is_row = named(CORRUPT).isNull() & (F.xxhash64(*nulls) >= _LEAST_HASH)
    if fail:
        text = F.regexp_replace(F.substring(named(CORRUPT), 1, 500), r"[\r\n]+", " ")
        begin = F.lit(f"{_RAISED}{source.name}: the record cannot be read; row ")
        message = F.concat(begin, text, F.lit("\n"))
        is_row = F.when(is_row, F.lit(True)).otherwise(F.raise_error(message).cast("boolean"))
    return rows.where(is_row).drop(CORRUPT)


def lance_storage(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options of the fsspec filesystem as ``format("lance_df")`` takes them."""
    return {f"storage.{name}": json.dumps(value) for name, value in options.items()}


def _finds_corrupt(source: IngestSource) -> bool:
    """Whether records that cannot be read are separated, and not handled by the user's ``mode``."""
    modes = [value for name, value in source.options.items() if name.lower() == "mode"]
    return source.format in _TEXTUAL and all(mode.upper() == "PERMISSIVE" for mode in modes)


def _loaded(
    spark: SparkSession,
    format_: str | None,
    source: IngestSource,
    options: Mapping[str, str],
    schema: str | StructType | None,
) -> DataFrame:
    reader = spark.read.format(format_ or "parquet").options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    match list(source.paths):
        case []:
            return reader.load()
        case [path]:
            return reader.load(path)
        case paths:
            return reader.load(paths)
