"""Match columns of DataFrames to the names of a target, ignoring case unless Spark is case-sensitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import types as T

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

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


def with_target_names(rows: DataFrame, target: Sequence[str]) -> DataFrame:
    """Return rows with their columns renamed to the matching columns of a target.

    Raises
    ------
    InvalidInputError
        A name matches several columns of the target, or several columns match the same one; or two columns
        have the same name.
    """
    schema = schema_with_target_names(rows, target)
    return rows if schema.names == rows.columns else rows.toDF(*schema.names)


def schema_with_target_names(rows: DataFrame, target: Sequence[str]) -> T.StructType:
    """Return the schema of `with_target_names`.

    Spark finds columns of ``rows`` itself by these names, as the names differ only in case.
    """
    check_distinct(rows.columns)
    schema = rows.schema
    if is_case_sensitive(rows.sparkSession):
        return schema
    renamed = target_names(schema.names, target)
    return T.StructType(
        [T.StructField(renamed[each.name], each.dataType, each.nullable, each.metadata) for each in schema]
    )


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


def target_name(spark: SparkSession, name: str, target: Sequence[str]) -> str:
    """Return the column of a target that a name means, or the name itself if none does.

    Raises
    ------
    InvalidInputError
        The name matches several columns.
    """
    return name if is_case_sensitive(spark) else target_names([name], target)[name]


def target_names(names: Collection[str], target: Sequence[str]) -> Mapping[str, str]:
    """Return the matching column of a target for each name, or the name itself if none matches.

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
                f"column {name!r} is ambiguous, it may be {' or '.join(map(repr, others))} of the target; "
                f"rename it, or set {_CASE_SENSITIVE}"
            )
        meant = name if name in others or not others else others[0]
        if meant_by.get(meant, name) != name:
            raise InvalidInputError(
                f"columns {meant_by[meant]!r} and {name!r} both match column {meant!r} of the target; "
                "rename one"
            )
        meanings[name], meant_by[meant] = meant, name
    return meanings
