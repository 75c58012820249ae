"""`write`: the rows of a DataFrame, in each of Spark's save modes."""

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
from lance_df.spark.paths import path_for_driver
from lance_df.spark.sessions import check_frame, overwrites_dynamically, register
from lance_df.spark.source import LanceSource
from lance_df.spark.types import spark_schema
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

    Columns are matched by name, whatever their case unless ``spark.sql.caseSensitive`` is true.

    Parameters
    ----------
    path
        Of a table or a namespace, which is made if there is none.
    mode
        ``"append"``; ``"overwrite"``; ``"ignore"``, which writes nothing if there is something; or
        ``"errorifexists"``, the default. The last two look before they write: of two writers that begin at
        the same time, both may write.
    partition_by
        Partition fields of a new namespace; those of one that exists stay as they are.
    partition_overwrite_mode
        What ``"overwrite"`` replaces of a namespace: everything (``"static"``), or the partitions that occur
        in the rows (``"dynamic"``). By default what ``spark.sql.sources.partitionOverwriteMode`` says.
    run_id
        Names the rows: a second write of the same id adds nothing.
    overwrite_schema
        Whether ``"overwrite"`` gives a table the columns of the rows. Otherwise it keeps its own, in their
        types; those that the rows lack are NULL. A namespace keeps its columns in any case.
    storage_options
        For the fsspec filesystem.

    Raises
    ------
    AlreadyExistsError
        There is a table or a namespace, and the mode is ``"errorifexists"``; or a table where
        ``partition_by`` asks for a namespace.
    InvalidInputError
        There is no such mode, or the rows do not fit.
    LanceError
        What went wrong in a task or in the commit, with Spark's error as its cause.
    """
    wanted = str(mode).lower()
    wanted = _AS_SPARK.get(wanted, wanted)
    if wanted not in _MODES:
        raise InvalidInputError(f"mode is {', '.join(_MODES)}, not {mode!r}")
    check_frame(df, "write takes")
    if not df.columns:
        raise InvalidInputError("rows without columns cannot be stored")
    spark = df.sparkSession
    register(spark)
    path = path_for_driver(path)
    location = open_location(path, storage_options)
    is_namespace = holds_namespace(location)
    table = None if is_namespace else _open_table(path, storage_options)
    exists = is_namespace or table is not None
    if exists and wanted == "ignore":
        return
    if exists and wanted == "errorifexists":
        raise AlreadyExistsError(f"{location.uri}: there is one; write with mode append, overwrite or ignore")
    if exists and not is_namespace and partition_by is not None:
        raise AlreadyExistsError(f"{location.uri}: there is a table, where partition_by asks for a namespace")
    if wanted != "overwrite" or not exists:
        wanted = "append"
    if not exists or (table is not None and wanted == "overwrite" and overwrite_schema):
        check_new_names(df)
    if wanted == "append" and (is_namespace or partition_by is not None):
        append(df, path, partition_by=partition_by, run_id=run_id, storage_options=storage_options)
        return
    overwrite = partition_overwrite_mode or ("dynamic" if overwrites_dynamically(spark) else "static")
    options = write_options(storage_options, runId=run_id, partitionOverwriteMode=overwrite)
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
    """Return rows with NULL for the columns of a table that they lack, in its order.

    Raises
    ------
    InvalidInputError
        One of these must not be NULL, or the rows have others.
    """
    stored = table.arrow_schema
    if unknown := [name for name in df.columns if name not in stored.names]:
        raise InvalidInputError(f"{table.uri}: no column {unknown[0]!r}; there are {', '.join(stored.names)}")
    columns: list[Column] = []
    for field, plain in zip(spark_schema(stored), stored, strict=True):
        if field.name in df.columns:
            columns.append(F.col(quoted_name(field.name)))
        elif plain.nullable:
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
        else:
            raise InvalidInputError(f"{table.uri}: column {field.name!r} is missing, and must not be null")
    return df.select(*columns)


def _open_table(path: str, storage_options: Mapping[str, Any] | None) -> Table | None:
    try:
        return open_table(path, storage_options=storage_options)
    except DatasetNotFoundError:
        return None
