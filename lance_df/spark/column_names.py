"""Match columns of DataFrames to the names of a target, ignoring case unless Spark is case-sensitive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lance_df.errors import InvalidInputError
from lance_df.expr.literals import storage_type
from lance_df.format.column_path import quoted_name
from lance_df.namespace.spec.partition_by import parse_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.namespace.spec.partition_by import PartitionBy

V = TypeVar("V")

_CASE_SENSITIVE: Final = "spark.sql.caseSensitive"


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether names that differ only in case are different columns in a session."""
    return str(spark.conf.get(_CASE_SENSITIVE)).lower() == "true"


def check_new_names(rows: DataFrame) -> None:
    """Check that the columns of a new table have distinct names in the session.

    Raises
    ------
    InvalidInputError
        Two names are equal, or differ only in case.
    """
    check_distinct(rows.columns)
    if is_case_sensitive(rows.sparkSession):
        return
    seen: dict[str, str] = {}
    for name in rows.columns:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInputError(
                f"columns {other!r} and {name!r} differ only in case; rename one, or set {_CASE_SENSITIVE}"
            )


def check_distinct(names: Iterable[str]) -> None:
    """Check that no name occurs twice.

    Raises
    ------
    InvalidInputError
        One does.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(f"duplicate column {name!r}; give the columns distinct names, with AS")
        seen.add(name)


def with_target_names(rows: DataFrame, target: pa.Schema) -> DataFrame:
    """Return rows with their columns, and the fields of structs in them, renamed to those of a target.

    Raises
    ------
    InvalidInputError
        A name matches several columns of the target, or several columns match the same one; or two columns
        have the same name. The same applies to the fields of a struct.
    """
    schema, given = schema_with_target_names(rows, target), rows.schema
    if schema.names != given.names:
        rows = rows.toDF(*schema.names)
    casts = {
        new.name: F.col(quoted_name(new.name)).cast(new.dataType)
        for new, old in zip(schema, given, strict=True)
        if new.dataType != old.dataType
    }
    return rows.withColumns(casts) if casts else rows


def schema_with_target_names(rows: DataFrame, target: pa.Schema) -> T.StructType:
    """Return the schema of `with_target_names`.

    Spark finds columns of ``rows`` itself by these names, as the names differ only in case.
    """
    check_distinct(rows.columns)
    schema = rows.schema
    if is_case_sensitive(rows.sparkSession):
        return schema
    renamed = target_names(schema.names, target.names)
    fields = []
    for each in schema:
        name, data_type = renamed[each.name], each.dataType
        if name in target.names:
            data_type = _renamed(name, data_type, target.field(name).type)
        fields.append(T.StructField(name, data_type, each.nullable, each.metadata))
    return T.StructType(fields)


def type_with_target_names(
    spark: SparkSession, path: str, given: T.DataType, target: pa.DataType
) -> T.DataType:
    """Return a type with the field names of a column's type wherever they match, also in lists and maps.

    Raises
    ------
    InvalidInputError
        See `with_target_names`.
    """
    return given if is_case_sensitive(spark) else _renamed(path, given, target)


def _renamed(path: str, given: T.DataType, target: pa.DataType) -> T.DataType:
    target = storage_type(target)
    match given:
        case T.StructType() if pa.types.is_struct(target):
            names = [field.name for field in target]
            renamed = target_names(given.names, names, within=f"{path}.")
            fields = []
            for each in given:
                name, data_type = renamed[each.name], each.dataType
                if name in names:
                    data_type = _renamed(f"{path}.{name}", data_type, target.field(name).type)
                fields.append(T.StructField(name, data_type, each.nullable, each.metadata))
            return T.StructType(fields)
        case T.ArrayType() if _is_list(target):
            item = _renamed(f"{path}.element", given.elementType, target.value_type)
            return T.ArrayType(item, given.containsNull)
        case T.MapType() if pa.types.is_map(target):
            key = _renamed(f"{path}.key", given.keyType, target.key_type)
            value = _renamed(f"{path}.value", given.valueType, target.item_type)
            return T.MapType(key, value, given.valueContainsNull)
    return given


def _is_list(data_type: pa.DataType) -> bool:
    types = pa.types
    return any(is_of(data_type) for is_of in (types.is_list, types.is_large_list, types.is_fixed_size_list))


def by_target_name(spark: SparkSession, values: Mapping[str, V], target: Sequence[str]) -> dict[str, V]:
    """Return the values for the columns of a target that their names mean.

    Raises
    ------
    InvalidInputError
        See `target_names`.
    """
    folded = {name.lower() for name in target}
    differ = any(name not in target and name.lower() in folded for name in values)
    if not differ or is_case_sensitive(spark):
        return dict(values)
    meanings = target_names(values.keys(), target)
    return {meanings[name]: value for name, value in values.items()}


def partition_fields(
    wanted: Sequence[PartitionBy | str], schema: pa.Schema, *, case_sensitive: bool
) -> list[PartitionBy]:
    """Return partition fields of a new namespace with the names of the columns of its schema.

    Raises
    ------
    InvalidInputError
        A name matches several columns, or the argument is not a list of partition fields.
    """
    fields = parse_all(wanted)
    if case_sensitive:
        return fields
    return [
        replace(each, columns=tuple(_path_in(schema, name) or name for name in each.columns))
        for each in fields
    ]


def _path_in(fields: Iterable[pa.Field], path: str) -> str | None:
    """Return the path of a column or a field of a struct as the fields spell it; None if there is none."""
    fields = list(fields)
    names = [field.name for field in fields]
    meant = target_names([path], names)[path]
    if meant in names:
        return meant
    for field in sorted(fields, key=lambda field: not path.startswith(f"{field.name}.")):
        head, rest = path[: len(field.name)], path[len(field.name) :]
        if pa.types.is_struct(field.type) and head.lower() == field.name.lower() and rest.startswith("."):
            inner = _path_in(field.type, rest[1:])
            if inner is not None:
                return f"{field.name}.{inner}"
    return None


def target_names(names: Collection[str], target: Sequence[str], *, within: str = "") -> Mapping[str, str]:
    """Return the matching column of a target for each name, or the name itself if none matches.

    Parameters
    ----------
    within
        The path of a struct and a dot if the names are those of its fields, for messages.

    Raises
    ------
    InvalidInputError
        A name matches several columns of the target, or several names match the same one.
    """
    by_folded: dict[str, list[str]] = {}
    for name in target:
        by_folded.setdefault(name.lower(), []).append(name)
    meanings: dict[str, str] = {}
    meant_by: dict[str, str] = {}
    for name in names:
        others = by_folded.get(name.lower(), [])
        if name not in others and len(others) > 1:
            raise InvalidInputError(
                f"column {within + name!r} is ambiguous, it may be "
                f"{' or '.join(repr(within + other) for other in others)} of the target; "
                f"rename it, or set {_CASE_SENSITIVE}"
            )
        meant = name if name in others or not others else others[0]
        if meant_by.get(meant, name) != name:
            raise InvalidInputError(
                f"columns {within + meant_by[meant]!r} and {within + name!r} both match column "
                f"{within + meant!r} of the target; rename one"
            )
        meanings[name], meant_by[meant] = meant, name
    return meanings
