"""Convert rows to the columns of a target, with the reason and the text of rows that do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from lance_df.errors import ColumnNotFoundError, InvalidInputError
from lance_df.format.column_path import quoted_name
from lance_df.records import dataclass
from lance_df.spark.ingesting.conversions import converted, lacks
from lance_df.spark.ingesting.held_values import stored

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

BAD: Final = "__lance_df_bad"
"""A column of checked rows, which is null, or a struct of `BAD_FIELDS` for a row that does not fit."""
BAD_FIELDS: Final = ("source", "column", "code", "reason", "row")
CORRUPT: Final = "__lance_df_corrupt"
"""A column of rows of a source, which has the text of an unreadable record, else null."""


UNREADABLE_RECORD: Final = "UNREADABLE_RECORD"
VALUE_DOES_NOT_FIT: Final = "VALUE_DOES_NOT_FIT"
NULL_NOT_ALLOWED: Final = "NULL_NOT_ALLOWED"

_BAD_TYPE: Final = "struct<source string, `column` string, code string, reason string, `row` string>"
_SHOWN: Final = 100
# Spark's own formats end with milliseconds
_JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_UNREADABLE: Final = "the record cannot be read with the schema of its source"
_SHOWN_TYPES: Final = (
    ArrayType
    | BinaryType
    | BooleanType
    | CharType
    | DateType
    | MapType
    | NumericType
    | StringType
    | StructType
    | TimestampNTZType
    | TimestampType
    | VarcharType
)


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column to convert rows to; ``stored`` is its type in the files, or None if it is Spark's type."""

    field: StructField
    stored: pa.DataType | None = None


def checked(rows: DataFrame, columns: list[TargetColumn], source: str | None) -> DataFrame:
    """Return the rows with the columns of a target, and with `BAD` if some may not fit.

    Parameters
    ----------
    rows
        The rows, perhaps with `CORRUPT`, of distinct columns. They may lack columns that may be null.
    source
        The source of the rows; None for a query over several sources.

    Raises
    ------
    ColumnNotFoundError
        The rows have a column that the target lacks, or lack one that must not be null.
    InvalidInputError
        A column cannot be converted at all.
    """
    types = {each.name: each.dataType for each in rows.schema if each.name != CORRUPT}
    _check_names(rows, columns)
    wanted = [each for each in columns if each.field.name in types]
    reasons: list[Column] = []
    values: list[Column] = []
    if CORRUPT in rows.columns:
        why = _why(None, UNREADABLE_RECORD, F.lit(_UNREADABLE))
        reasons.append(F.when(named(CORRUPT).isNotNull(), why))
    for each in wanted:
        value, column_reasons = _column(each, types[each.field.name])
        values.append(value.alias(each.field.name))
        reasons += column_reasons
    if not reasons:
        return rows.select(*values)
    row = _text_of(rows)
    reason = F.coalesce(*reasons)
    bad = F.when(
        reason.isNotNull(),
        F.struct(
            F.lit(source).alias("source"),
            reason["column"].alias("column"),
            reason["code"].alias("code"),
            reason["reason"].alias("reason"),
            row.alias("row"),
        ),
    )
    return rows.select(*values, bad.cast(_BAD_TYPE).alias(BAD))


def unreadable(rows: DataFrame, columns: list[TargetColumn], source: str) -> DataFrame:
    """Return the unreadable records of a source in the form of checked rows."""
    why = F.lit(UNREADABLE_RECORD), F.lit(_UNREADABLE)
    bad = F.struct(F.lit(source), F.lit(None), *why, _text_of(rows)).cast(_BAD_TYPE)
    empty = [F.lit(None).cast(each.field.dataType).alias(each.field.name) for each in columns]
    return rows.where(named(CORRUPT).isNotNull()).select(*empty, bad.alias(BAD))


def named(name: str) -> Column:
    """Return a column by its name, which may have any characters."""
    return F.col(quoted_name(name))


def _check_names(rows: DataFrame, columns: list[TargetColumn]) -> None:
    names = [name for name in rows.columns if name != CORRUPT]
    known = [each.field.name for each in columns]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ColumnNotFoundError(
            f"column {unknown[0]!r} does not exist in the target; the columns are {', '.join(known)}"
        )
    missing = [
        each.field.name for each in columns if each.field.name not in names and not each.field.nullable
    ]
    if missing:
        raise ColumnNotFoundError(
            f"column {missing[0]!r} of the target is not nullable, but is missing in the data; the columns "
            f"of the data are {', '.join(names)}"
        )


def _column(wanted: TargetColumn, data_type: DataType) -> tuple[Column, list[Column]]:
    """Return the values of a column, and expressions for the reasons why a value does not fit."""
    field = wanted.field
    value = named(field.name)
    conversion = converted(value, data_type, field.dataType)
    if conversion is None:
        raise InvalidInputError(
            f"column {field.name!r} has type {data_type.simpleString()}, but type "
            f"{field.dataType.simpleString()} in the target; cast it in the query"
        )
    target = field.dataType.simpleString()
    if wanted.stored is not None:
        narrowed = stored(conversion, wanted.stored)
        target = target if narrowed is conversion else str(wanted.stored)
        conversion = narrowed
    wrong = []
    if conversion.fits is not None:
        reason = F.concat(
            F.lit(f"{data_type.simpleString()[:_SHOWN]} '"),
            _shown(value, data_type),
            F.lit(f"' does not fit {target}"),
        )
        misfit = value.isNotNull() & ~F.coalesce(conversion.fits, F.lit(False))
        wrong.append(F.when(misfit, _why(field.name, VALUE_DOES_NOT_FIT, reason)))
    null = lacks(value, field.dataType, nullable=field.nullable)
    if null is not None:
        reason = F.lit(f"{target} must not be null")
        wrong.append(F.when(null, _why(field.name, NULL_NOT_ALLOWED, reason)))
    return conversion.value, wrong


def _why(column: str | None, code: str, reason: Column) -> Column:
    return F.struct(
        F.lit(column).cast("string").alias("column"), F.lit(code).alias("code"), reason.alias("reason")
    )


def _shown(value: Column, data_type: DataType) -> Column:
    """Return the beginning of a value on one line."""
    is_nested = isinstance(data_type, ArrayType | MapType | StructType)
    text = F.to_json(F.struct(value.alias("v")), _JSON_OPTIONS) if is_nested else value.cast("string")
    return F.regexp_replace(F.substring(text, 1, _SHOWN), r"[\r\n]+", " ")


def _text_of(rows: DataFrame) -> Column:
    """Return a row as JSON, or the original text of an unreadable record."""
    columns = [
        (
            named(each.name) if isinstance(each.dataType, _SHOWN_TYPES) else named(each.name).cast("string")
        ).alias(each.name)
        for each in rows.schema
        if each.name != CORRUPT
    ]
    text = F.to_json(F.struct(*columns), _JSON_OPTIONS)
    # the bytes of a record that is not UTF-8 are why it cannot be read
    return F.coalesce(F.make_valid_utf8(named(CORRUPT)), text) if CORRUPT in rows.columns else text
