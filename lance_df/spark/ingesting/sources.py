"""Read sources, and separate the unreadable records of CSV and JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lance_df.errors import InvalidInputError
from lance_df.spark.column_names import is_case_sensitive
from lance_df.spark.failures import OF_SPARK
from lance_df.spark.ingesting.checked_rows import CORRUPT, named
from lance_df.spark.ingesting.csv_text import PATTERN, check_names, check_text, headers, shown
from lance_df.spark.ingesting.job import LANCE
from lance_df.spark.source import LanceSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.spark.ingesting.job import IngestSource

_CSV: Final = "csv"
_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    # by RFC 4180; columns are matched by the names in the header, which Spark ignores if it has a schema
    _CSV: {"header": "true", "escape": '"', "enforceSchema": "false"},
    # otherwise Spark takes the columns of one file
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
}
_TEXTUAL: Final = (_CSV, "json")
_LEAST_HASH: Final = -(2**63)
_UNMERGED: Final = "[CANNOT_MERGE_SCHEMAS]"
_STRUCT: Final = re.compile(r'^"STRUCT<(.*)>"', re.MULTILINE)
# the line that `lance_df.spark.failures` searches for
_RAISED: Final = "\nlance_df.errors.InvalidInputError: "


def read_source(spark: SparkSession, source: IngestSource) -> DataFrame:
    """Return the rows of a source, with `CORRUPT` if it may have unreadable records.

    Raises
    ------
    InvalidInputError
        The columns of the source are unknown or have different types in its files, or the text of a CSV file
        is damaged; see `check_text`.
    """
    if source.table is not None:
        return spark.read.options(**dict(source.options)).table(source.table)
    if source.format == LANCE:
        storage = lance_storage(source.storage_options)
        return _loaded(spark, LanceSource.name(), source, {**source.options, **storage}, None)
    given = {name.lower(): value for name, value in source.options.items()}
    defaults = _DEFAULTS.get(source.format or "", {})
    options = {name: value for name, value in defaults.items() if name.lower() not in given}
    options |= source.options
    if source.format == _CSV and source.paths:
        multi_line = check_text(spark, source.paths, given)
        if "multiline" not in given:
            options["multiLine"] = str(multi_line).lower()
        if multi_line and source.schema is None:
            check_names(spark, source.paths, given)
    if not _finds_corrupt(source):
        try:
            return _loaded(spark, source.format, source, options, source.schema)
        except OF_SPARK as err:
            if _UNMERGED not in str(err):
                raise
            columns = " and ".join(_STRUCT.findall(str(err)))
            raise InvalidInputError(
                f"source {source.name!r}: columns of its files have different types: {columns}; give the "
                "source a schema, or the option mergeSchema = false to take the columns of one file"
            ) from err
    options["columnNameOfCorruptRecord"] = CORRUPT
    known = _loaded(spark, source.format, source, options, source.schema).schema
    fields = [each for each in known if each.name != CORRUPT]
    names = [each.name for each in fields]
    has_header = given.get("header", "true").lower() == "true" and "enforceschema" not in given
    if source.format == _CSV and source.schema is None and has_header and _may_be_made(names):
        _check_headers(spark, source, options)
        options["enforceSchema"] = "true"
    if not fields:
        raise InvalidInputError(
            f"source {source.name!r} has no columns, because there is no data in {', '.join(source.paths)}"
        )
    schema = StructType([*fields, StructField(CORRUPT, StringType())])
    return _loaded(spark, source.format, source, options, schema)


def readable(rows: DataFrame, source: IngestSource, *, fail: bool) -> DataFrame:
    """Return the rows of a source for a query; with ``fail`` an unreadable record fails the job."""
    if CORRUPT not in rows.columns:
        return rows
    # The hash reads all columns: Spark parses only the columns in use, and a record may be wrong in others.
    nulls = [named(name).isNull() for name in rows.columns]
    is_row = named(CORRUPT).isNull() & (F.xxhash64(*nulls) >= _LEAST_HASH)
    if fail:
        text = F.regexp_replace(F.substring(named(CORRUPT), 1, 500), r"[\r\n]+", " ")
        begin = F.lit(f"{_RAISED}{source.name}: the record cannot be read; row ")
        message = F.concat(begin, text, F.lit("\n"))
        is_row = F.when(is_row, F.lit(True)).otherwise(F.raise_error(message).cast("boolean"))
    return rows.where(is_row).drop(CORRUPT)


def lance_storage(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options for the fsspec filesystem in the form of ``format("lance_df")``."""
    return {f"storage.{name}": json.dumps(value) for name, value in options.items()}


def _finds_corrupt(source: IngestSource) -> bool:
    """Whether unreadable records are separated, rather than handled by the user's ``mode``."""
    modes = [value for name, value in source.options.items() if name.lower() == "mode"]
    return source.format in _TEXTUAL and all(mode.upper() == "PERMISSIVE" for mode in modes)


def _may_be_made(names: list[str]) -> bool:
    """Whether Spark may have made names, for columns whose name is empty or repeated in the header."""
    return any(name.endswith(str(at)) for at, name in enumerate(names))


def _check_headers(spark: SparkSession, source: IngestSource, options: Mapping[str, str]) -> None:
    """Check that the headers of the files give the same names, which Spark cannot compare with its own."""
    given = {name.lower(): value for name, value in options.items()}
    multi_line = given.get("multiline") == "true"
    texts: dict[bytes, str] = {}
    for file, text in headers(spark, source.paths, given, multi_line=multi_line).items():
        texts.setdefault(text, file)
    if len(texts) < 2:
        return
    first, *others = texts.values()
    folded = str if is_case_sensitive(spark) else str.lower
    names = _columns(spark, options, first)
    for file in others:
        columns = _columns(spark, options, file)
        if [*map(folded, columns)] != [*map(folded, names)]:
            raise InvalidInputError(
                f"{shown(file)}: the header has the columns {', '.join(columns)}, but that of {shown(first)} "
                f"has {', '.join(names)}; read them as two sources"
            )


def _columns(spark: SparkSession, options: Mapping[str, str], file: str) -> list[str]:
    path = PATTERN.sub(r"\\\g<0>", unquote(file))
    return spark.read.format(_CSV).options(**options).load(path).columns


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
