"""Match columns of DataFrames to the names of a target, ignoring case unless Spark is case-sensitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

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
    if is_case_sensitive(rows.sparkSession):
        return
    folded = [name.lower() for name in rows.columns]
    if len(set(folded)) < len(folded):
        same = sorted((name for name in rows.columns if folded.count(name.lower()) > 1), key=str.lower)
        raise InvalidInputError(
            f"columns {same[0]!r} and {same[1]!r} differ only in case; rename one, or set {_CASE_SENSITIVE}"
        )


def with_target_names(rows: DataFrame, target: Sequence[str]) -> DataFrame:
    """Return rows with their columns renamed to the matching columns of a target.

    Raises
    ------
    InvalidInputError
        A name matches several columns of the target, or several columns match the same one.
    """
    if is_case_sensitive(rows.sparkSession):
        return rows
    renamed = target_names(rows.columns, target)
    changed = {old: new for old, new in renamed.items() if old != new}
    return rows.toDF(*(renamed[name] for name in rows.columns)) if changed else rows


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
