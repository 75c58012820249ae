"""`append`: rows of any DataFrame into the partitions of a namespace."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from lance_df.api.namespaces import PartitionedNamespace
from lance_df.errors import AlreadyExistsError, CommitStateUnknownError, InvalidInputError, LanceError
from lance_df.namespace.names import MANIFEST_FOLDER, is_member_folder
from lance_df.namespace.snapshot import NamespaceSnapshot, holds_namespace
from lance_df.spark.assignment import with_target_columns
from lance_df.spark.column_names import check_new_names
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
from lance_df.spark.writing import run_mark
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
# Of rows as Spark shuffles them, compressed; writers keep a quarter of a gigabyte. It is Spark's default.
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

    Columns are matched by name, whatever their case unless ``spark.sql.caseSensitive`` is true.
    Rows are brought together by partition first, so that each partition is written by as few tasks as its
    size needs; large ones are split among tasks (Spark's ``rebalance``, by
    ``spark.sql.adaptive.advisoryPartitionSizeInBytes``). ``distribution`` can leave that out.

    Parameters
    ----------
    root
        Of the namespace.
    partition_by
        Partition fields, to make the namespace if there is none; those of one that exists stay as they are.
    sort_by
        Columns by which rows are sorted within a file, for better statistics.
    max_rows_per_file, max_bytes_per_file
        When a task starts the next data file of a partition.
    run_id
        Names the rows: when rows of this name were appended before, nothing is added, however long ago.
    distribution
        ``"hash"``, or ``"none"``: tasks write the rows that they have, each a file of its own into every
        partition of these. That saves the shuffle for rows that are clustered already, or where a task has
        enough rows of every partition; elsewhere there are many small files, for `compact` to join.
    storage_options
        For the fsspec filesystem.

    Raises
    ------
    NotFoundError
        There is no namespace, and ``partition_by`` is not given.
    AlreadyExistsError
        There is a table.
    InvalidInputError
        There is no such distribution, or ``sort_by`` is no list.
    LanceError
        What went wrong in a task or in the commit, with Spark's error as its cause.
    """
    check_distribution(distribution)
    if isinstance(sort_by, str):
        raise InvalidInputError(f"sort_by is a list of columns, not {sort_by!r}")
    register(df.sparkSession)
    root = path_for_driver(root)
    location = open_location(root, storage_options)
    made: Location | None = None
    if partition_by is not None and not holds_namespace(location):
        check_new_names(df)
        try:
            schema = arrow_schema(new_schema(df.schema))
            PartitionedNamespace.create(root, schema, partition_by, storage_options=storage_options)
            made = location
        except AlreadyExistsError:
            if not holds_namespace(location):
                raise
    snapshot = NamespaceSnapshot.open(location)
    options = write_options(
        storage_options, maxRowsPerFile=max_rows_per_file, maxBytesPerFile=max_bytes_per_file, runId=run_id
    )
    if run_id is not None and run_mark(run_id).is_in(snapshot.manifest.table.manifest.config):
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
    """Remove a namespace that was made for rows which then were not written, unless others have used it."""
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
    """Remove a namespace that has no partitions, and of which nobody writes any."""
    snapshot = NamespaceSnapshot.open(made)
    # who writes to it has folders of partitions in it before they are published
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
    """Return the rows of a DataFrame so that each task has one partition after the other, or few rows."""
    rows = df.withColumn(_ROUTE, route(df, ref, snapshot))
    if distribution == HASH:
        rows = rows.hint("rebalance", _ROUTE)
        if not sort_by and _rebalances_to_few_bytes(df.sparkSession):
            return rows.drop(_ROUTE)
    return rows.sortWithinPartitions(_ROUTE, *sort_by).drop(_ROUTE)


def _rebalances_to_few_bytes(spark: SparkSession) -> bool:
    """Whether a writer can keep what a task has, and bring partitions together in less time than Spark."""
    if str(spark.conf.get(_ADAPTIVE)).lower() != "true":
        return False
    size = _SIZE.fullmatch(str(spark.conf.get(_TASK_BYTES)).strip().lower())
    return size is not None and int(size[1]) * _UNITS[size[2] or "b"] <= _FEW_BYTES


def write_options(storage_options: Mapping[str, Any] | None, **options: object) -> dict[str, str]:
    """Return the options of a write as Spark takes them; None is left out."""
    given = {name: str(value) for name, value in options.items() if value is not None}
    return given | {f"storage.{name}": json.dumps(value) for name, value in (storage_options or {}).items()}
