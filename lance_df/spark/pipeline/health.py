"""`verify` and `repair`: the functions of `lance_df`, with the work on each table in a Spark task."""

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

# The least number of members that one task checks: a member opens in milliseconds, but may take long to read.
_SEEN_AT_ONCE: Final = 64


def verify(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    deep: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """Check a table or a partitioned namespace without changes, and return the report of `lance_df.verify`.

    Tasks check the members; one task checks a single table.

    Parameters
    ----------
    root
        Path of a table or a namespace, even of a namespace that `PartitionedNamespace.open` refuses.
    deep
        For a namespace: whether to read all rows and compare their partition values with those that prune
        queries. A table is always read.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    DatasetNotFoundError
        The path holds neither.
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
    """Repair a namespace as `PartitionedNamespace.repair` does, with its arguments and its report.

    Tasks check the members. They read the rows of a member if nothing else states its partition values.

    Raises
    ------
    NotFoundError
        The partitioned namespace does not exist.
    CorruptDataError
        No version of ``__manifest`` has what a repair needs.
    ConflictError
        Every attempt conflicted with another commit.
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
    # opened without the cache of the process, which may hold what the files no longer have
    storage = dict(ref.storage) or None
    table = open_table(ref.uri, version=ref.version, branch=ref.branch, storage_options=storage)
    return verify_table(table)
