"""`append`: write the rows of any DataFrame into the partitions of a namespace."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from lance_df.api.namespaces.namespace import PartitionedNamespace
from lance_df.errors import AlreadyExistsError, CommitStateUnknownError, InvalidInputError, LanceError
from lance_df.namespace.names import MANIFEST_FOLDER, is_member_folder
from lance_df.namespace.snapshot import NamespaceSnapshot, holds_namespace
from lance_df.spark.assignment import with_target_columns
from lance_df.spark.column_names import check_new_names, is_case_sensitive, partition_fields
from lance_df.spark.decimals import DIGITS, can_cross_as_integers, with_digits
from lance_df.spark.distribution import HASH, check_distribution
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.opened import SourceRef
from lance_df.spark.options import SourceOptions
from lance_df.spark.paths import path_for_driver
from lance_df.spark.routes import route
from lance_df.spark.row_batches import bounded_by_rows
from lance_df.spark.sessions import register
from lance_df.spark.source import LanceSource
from lance_df.spark.types import arrow_schema, new_schema
from lance_df.spark.writing import has_run, run_mark
from lance_df.storage import open_location

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.namespace.spec.partition_by import PartitionBy
    from lance_df.storage import Location

_ROUTE: Final = "__lance_df_route"
_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_TASK_BYTES: Final = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_SIZE: Final = re.compile(r"(\d+)([bkmgtp]?)b?")
_UNITS: Final = {unit: 1024**power for power, unit in enumerate("bkmgtp")}
# Bytes of compressed shuffle rows; writers keep a quarter of a gigabyte. It is Spark's default.
_FEW_BYTES: Final = 64 * 1024 * 1024


def append(
    df: DataFrame,
    root: str | os.PathLike[str],
    *,
    partition_by: Sequence[PartitionBy | str] | None = None,
    sort_by: Sequence[str] = (),
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    run_id: str | None = None,
    distribution: str = HASH,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Append the rows of a DataFrame to a partitioned namespace: to all partitions at once, or to none.

    Columns are matched by name, ignoring case unless ``spark.sql.caseSensitive`` is true.
    By default, Spark first shuffles the rows by partition, so that few tasks write each partition. It splits
    large partitions among tasks (Spark's ``rebalance``, by
    ``spark.sql.adaptive.advisoryPartitionSizeInBytes``). ``distribution="none"`` skips this shuffle.

    Parameters
    ----------
    root
        Path of the namespace.
    partition_by
        Partition fields of the namespace if it has to be created. An existing namespace keeps its own.
    sort_by
        Columns by which rows are sorted within a file, for better statistics.
    max_rows_per_file, max_bytes_per_file
        The size at which a task starts the next data file of a partition.
    run_id
        A name for this append. If an append with the same name was ever committed, nothing is added.
    distribution
        ``"hash"`` shuffles the rows by partition. With ``"none"``, each task writes the rows that it has, in
        a separate file for each of their partitions. That saves the shuffle if rows are clustered already,
        or if each task has enough rows of every partition. Otherwise it makes many small files, which
        `compact` can join.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    NotFoundError
        The namespace does not exist, and ``partition_by`` is not given.
    AlreadyExistsError
        The path holds a table.
    InvalidInputError
        The distribution is unknown, or ``sort_by`` is not a list.
    LanceError
        A task or the commit failed. Spark's error is the cause.
    """
    check_distribution(distribution)
    if isinstance(sort_by, str):
        raise InvalidInputError(f"sort_by must be a list of columns, got {sort_by!r}")
    mark = run_mark(run_id)
    register(df.sparkSession)
    root = path_for_driver(root)
    location = open_location(root, storage_options)
    made: Location | None = None
    if partition_by is not None and not holds_namespace(location):
        check_new_names(df)
        try:
            schema = arrow_schema(new_schema(df.schema))
            sensitive = is_case_sensitive(df.sparkSession)
            partition_by = partition_fields(partition_by, schema, case_sensitive=sensitive)
            PartitionedNamespace.create(root, schema, partition_by, storage_options=storage_options)
            made = location
        except AlreadyExistsError:
            if not holds_namespace(location):
                raise
    snapshot = NamespaceSnapshot.open(location)
    options = write_options(
        storage_options, maxRowsPerFile=max_rows_per_file, maxBytesPerFile=max_bytes_per_file, runId=run_id
    )
    if has_run(snapshot, mark):
        return
    ref = SourceRef.of(snapshot, SourceOptions(root, storage=dict(storage_options or {})))
    with _removed_after_failure(made), errors_of_spark():
        rows = with_target_columns(df, snapshot.arrow_schema)
        rows = routed(rows, ref, snapshot, sort_by, distribution=distribution)
        if can_cross_as_integers(df.sparkSession):
            rows, options = with_digits(rows), options | DIGITS
        with bounded_by_rows(df.sparkSession, rows.schema):
            rows.write.format(LanceSource.name()).options(**options).mode("append").save(root)


@contextmanager
def _removed_after_failure(made: Location | None) -> Iterator[None]:
    """On an error, remove the namespace that was created for the rows, unless others have used it."""
    try:
        yield
    except CommitStateUnknownError:
        raise
    except Exception:
        if made is not None:
            with suppress(LanceError):
                _remove_if_unused(made)
        raise


def _remove_if_unused(made: Location) -> None:
    """Remove a namespace that has no partitions and that nobody writes to."""
    snapshot = NamespaceSnapshot.open(made)
    # a writer creates the folders of its partitions before it publishes them
    is_used = snapshot.version > 1 or any(map(is_member_folder, made.names()))
    if not is_used and not len(snapshot.manifest.members):
        (made / MANIFEST_FOLDER).remove_tree()
        made.remove_empty_folder()


def routed(
    df: DataFrame,
    ref: SourceRef,
    snapshot: NamespaceSnapshot,
    sort_by: Sequence[str] = (),
    *,
    distribution: str,
) -> DataFrame:
    """Return the rows distributed so that each task has one partition after the other, or few rows."""
    rows = df.withColumn(_ROUTE, route(df, ref, snapshot))
    if distribution == HASH:
        rows = rows.hint("rebalance", _ROUTE)
        if not sort_by and _rebalances_to_few_bytes(df.sparkSession):
            return rows.drop(_ROUTE)
    return rows.sortWithinPartitions(_ROUTE, *sort_by).drop(_ROUTE)


def _rebalances_to_few_bytes(spark: SparkSession) -> bool:
    """Whether a task has so few bytes that the writer groups its rows by partition faster than Spark does."""
    if str(spark.conf.get(_ADAPTIVE)).lower() != "true":
        return False
    size = _SIZE.fullmatch(str(spark.conf.get(_TASK_BYTES)).strip().lower())
    return size is not None and int(size[1]) * _UNITS[size[2] or "b"] <= _FEW_BYTES


def write_options(storage_options: Mapping[str, Any] | None, **options: object) -> dict[str, str]:
    """Return the options of a write in the form that Spark takes, without those that are None."""
    given = {name: str(value) for name, value in options.items() if value is not None}
    return given | {f"storage.{name}": json.dumps(value) for name, value in (storage_options or {}).items()}
