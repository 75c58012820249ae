"""`write`: write the rows of a DataFrame in any of Spark's save modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from lance_df.errors import AlreadyExistsError, DatasetNotFoundError, InvalidInputError
from lance_df.format.column_path import quoted_name
from lance_df.namespace.snapshot import NamespaceSnapshot, holds_namespace
from lance_df.spark.appending import append, write_options
from lance_df.spark.assignment import with_target_columns
from lance_df.spark.column_names import check_new_names
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.overwriting import session_mode
from lance_df.spark.paths import path_for_driver
from lance_df.spark.sessions import check_frame, register
from lance_df.spark.source import LanceSource
from lance_df.spark.types import spark_schema
from lance_df.spark.writing import has_run, run_mark
from lance_df.storage import open_location
from lance_df.table.open import open_table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from lance_df.namespace.spec.partition_by import PartitionBy
    from lance_df.table.table import Table

_MODES: Final = ("append", "overwrite", "ignore", "errorifexists")
_AS_SPARK: Final = {"error": "errorifexists", "default": "errorifexists"}


def write(
    df: DataFrame,
    path: str | os.PathLike[str],
    *,
    mode: str = "errorifexists",
    partition_by: Sequence[PartitionBy | str] | None = None,
    partition_overwrite_mode: str | None = None,
    run_id: str | None = None,
    overwrite_schema: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write the rows of a DataFrame to a table or a partitioned namespace, in one version.

    Columns are matched by name, ignoring case unless ``spark.sql.caseSensitive`` is true.

    Parameters
    ----------
    path
        Path of a table or a namespace, which is created if it does not exist.
    mode
        ``"append"``; ``"overwrite"``; ``"ignore"``, which writes nothing if the target exists; or
        ``"errorifexists"``, the default. The last two check before they write: if two writers begin at the
        same time, both may write.
    partition_by
        Partition fields of a new namespace. An existing namespace keeps its own.
    partition_overwrite_mode
        Which part of a namespace ``"overwrite"`` replaces: everything (``"static"``), or the partitions that
        occur in the rows (``"dynamic"``). The default is ``spark.sql.sources.partitionOverwriteMode``.
    run_id
        A name for this write. A second write with the same name adds nothing, in any mode.
    overwrite_schema
        Whether ``"overwrite"`` gives a table the columns of the rows. Otherwise the table keeps its columns
        and types, and columns that the rows lack are NULL. A namespace always keeps its columns.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    AlreadyExistsError
        The target exists, and the mode is ``"errorifexists"``; or it is a table, and ``partition_by`` is
        given.
    InvalidInputError
        The mode is unknown, or the rows do not fit.
    LanceError
        A task or the commit failed. Spark's error is the cause.
    """
    wanted = str(mode).lower()
    wanted = _AS_SPARK.get(wanted, wanted)
    if wanted not in _MODES:
        raise InvalidInputError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    check_frame(df, "write expects")
    if not df.columns:
        raise InvalidInputError("rows without columns cannot be written")
    mark = run_mark(run_id)
    spark = df.sparkSession
    register(spark)
    path = path_for_driver(path)
    location = open_location(path, storage_options)
    is_namespace = holds_namespace(location)
    table = None if is_namespace else _open_table(path, storage_options)
    exists = is_namespace or table is not None
    if exists and wanted == "ignore":
        return
    if exists and mark is not None:
        target = NamespaceSnapshot.open(location) if table is None else table
        if has_run(target, mark):
            return
    if exists and wanted == "errorifexists":
        raise AlreadyExistsError(
            f"{location.uri}: already exists; write with mode append, overwrite or ignore"
        )
    if exists and not is_namespace and partition_by is not None:
        raise AlreadyExistsError(
            f"{location.uri}: a table already exists, but partition_by requires a namespace"
        )
    if wanted != "overwrite" or not exists:
        wanted = "append"
    if not exists or (table is not None and wanted == "overwrite" and overwrite_schema):
        check_new_names(df)
    if wanted == "append" and (is_namespace or partition_by is not None):
        append(df, path, partition_by=partition_by, run_id=run_id, storage_options=storage_options)
        return
    options = write_options(
        storage_options,
        runId=run_id,
        partitionOverwriteMode=partition_overwrite_mode or session_mode(spark),
    )
    if is_namespace:
        df = with_target_columns(df, NamespaceSnapshot.open(location).arrow_schema)
    elif table is not None and (wanted == "append" or not overwrite_schema):
        df = with_target_columns(df, table.arrow_schema)
        if wanted == "overwrite":
            df = _with_all_columns(df, table)
            options["overwriteSchema"] = "false"
    with errors_of_spark():
        df.write.format(LanceSource.name()).options(**options).mode(wanted).save(path)


def _with_all_columns(df: DataFrame, table: Table) -> DataFrame:
    """Return rows with all columns of a table in its order; columns that the rows lack are NULL.

    Raises
    ------
    InvalidInputError
        The rows lack a column that must not be NULL, or have a column that the table lacks.
    """
    stored = table.arrow_schema
    if unknown := [name for name in df.columns if name not in stored.names]:
        raise InvalidInputError(
            f"{table.uri}: column {unknown[0]!r} does not exist; the columns are {', '.join(stored.names)}"
        )
    columns: list[Column] = []
    for field, plain in zip(spark_schema(stored), stored, strict=True):
        if field.name in df.columns:
            columns.append(F.col(quoted_name(field.name)))
        elif plain.nullable:
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
        else:
            raise InvalidInputError(
                f"{table.uri}: column {field.name!r} is not nullable, but is missing in the data"
            )
    return df.select(*columns)


def _open_table(path: str, storage_options: Mapping[str, Any] | None) -> Table | None:
    try:
        return open_table(path, storage_options=storage_options)
    except DatasetNotFoundError:
        return None
