"""`verify` and `repair`: as those of `lance_df`, with the work on each table in Spark's tasks."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lance_df.namespace.health.orphans import ORPHAN_AGE
from lance_df.namespace.health.repair import RepairOptions, repair_namespace
from lance_df.namespace.health.verify import verify_namespace, verify_table
from lance_df.namespace.snapshot import holds_namespace
from lance_df.spark.opened import SourceRef
from lance_df.spark.options import SourceOptions
from lance_df.spark.paths import path_for_driver
from lance_df.spark.pipeline.tasks import map_in_tasks, run_in_tasks
from lance_df.storage import open_location
from lance_df.table.open import open_table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from lance_df.namespace.health.findings import VerifyReport
    from lance_df.namespace.health.repair_report import RepairReport

# Members to check in one task, at least: opening one takes a few milliseconds, reading it may take long.
_SEEN_AT_ONCE: Final = 64


def verify(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    deep: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """Check a table or a partitioned namespace, and change nothing: `lance_df.verify`, with its report.

    Tasks check the members; one task checks a single table.

    Parameters
    ----------
    root
        Of a table or a namespace; of the latter also where `PartitionedNamespace.open` refuses it.
    deep
        Of a namespace: read all rows, and compare their partition values with those that queries are pruned
        by. A table is always read.
    storage_options
        For the fsspec filesystem.

    Raises
    ------
    DatasetNotFoundError
        There is neither.
    CorruptDataError
        The manifest cannot be read at all.
    """
    root = path_for_driver(root)
    location = open_location(root, storage_options)
    if holds_namespace(location):
        spread = partial(map_in_tasks, spark, least=1 if deep else _SEEN_AT_ONCE)
        return verify_namespace(location, deep=deep, spread=spread)
    options = SourceOptions(path=root, storage=dict(storage_options or {}))
    ref = SourceRef.of(open_table(root, storage_options=storage_options), options)
    [report] = run_in_tasks(spark, _verified, [ref])
    return report


def repair(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    publish_newer: bool = False,
    forget_missing: bool = False,
    remove_orphans: bool = False,
    older_than: dt.timedelta = ORPHAN_AGE,
    storage_options: Mapping[str, Any] | None = None,
) -> RepairReport:
    """Repair a namespace: `PartitionedNamespace.repair`, with its arguments and its report.

    Tasks check the members, and read the rows of those whose partition values are known from nothing else.

    Raises
    ------
    NotFoundError
        There is no partitioned namespace.
    CorruptDataError
        No version of ``__manifest`` has what is needed.
    ConflictError
        Others were faster again and again.
    CommitStateUnknownError
        It is not known whether the repair was published. Repairing again does no harm.
    """
    options = RepairOptions(
        dry_run=dry_run,
        publish_newer=publish_newer,
        forget_missing=forget_missing,
        remove_orphans=remove_orphans,
        older_than=older_than,
    )
    spread = partial(map_in_tasks, spark, least=_SEEN_AT_ONCE)
    return repair_namespace(open_location(root, storage_options), options, spread=spread)


def _verified(ref: SourceRef) -> VerifyReport:
    # anew: what a process knows already of a table may not be in its files any more
    storage = dict(ref.storage) or None
    table = open_table(ref.uri, version=ref.version, branch=ref.branch, storage_options=storage)
    return verify_table(table)
