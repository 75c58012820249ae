"""`ingest`: read with Spark, transform with SQL, check, and commit to a table or a namespace."""

from __future__ import annotations

import time
import uuid
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lance_df import errors
from lance_df.errors import InvalidInputError, LanceError
from lance_df.format.column_path import quoted_name
from lance_df.records import dataclass
from lance_df.spark.appending import routed, write_options
from lance_df.spark.column_names import is_case_sensitive, with_target_names
from lance_df.spark.decimals import DIGITS, can_cross_as_integers, with_digits, with_integers
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.ingesting.checked_rows import BAD, CORRUPT, checked, named, unreadable
from lance_df.spark.ingesting.own_session import ingest_session
from lance_df.spark.ingesting.progress import watched
from lance_df.spark.ingesting.report import Report, ReportFolder
from lance_df.spark.ingesting.sink import IngestSink, sink_options
from lance_df.spark.ingesting.sources import read_source, readable
from lance_df.spark.ingesting.target import (
    Target,
    prepare_rejects,
    rejects_have,
    stored_schema,
    struct_of,
)
from lance_df.spark.opened import SourceRef
from lance_df.spark.options import SourceOptions
from lance_df.spark.paths import path_for_driver
from lance_df.spark.pipeline.statistics import build_statistics
from lance_df.spark.row_batches import bounded_by_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.spark.ingesting.checked_rows import TargetColumn
    from lance_df.spark.ingesting.job import IngestJob
    from lance_df.spark.ingesting.progress import IngestProgress


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """The result of an ingest.

    Attributes
    ----------
    id
        The id of the job, or a new one.
    version
        The version of the target that has the rows.
    rows_in, rows_out, rows_rejected
        Numbers of rows: rows of the query and unreadable records; rows in the target; rows in the table of
        rejects.
    files, bytes, partitions
        Numbers of data files, of their bytes, and of partitions with new rows (None for a table).
    rejects, rejects_version
        The table of rejects, if there is one, and its version with the rejects of this ingest.
    is_repeated
        Whether an earlier run with the same id committed the rows, so that this run added none.
    """

    id: str
    target: str
    version: int
    rows_in: int
    rows_out: int
    rows_rejected: int
    files: int
    bytes: int
    partitions: int | None
    rejects: str | None
    rejects_version: int | None
    is_repeated: bool
    seconds: float


def ingest(
    job: IngestJob,
    spark: SparkSession | None = None,
    *,
    on_progress: Callable[[IngestProgress], None] | None = None,
) -> IngestSummary:
    """Run a job: add all rows that fit to the target in one new version, or change nothing.

    Parameters
    ----------
    spark
        By default the active session. If there is none, a session with the job's settings is started, and
        stopped afterwards. The job has separate views and configuration in any case.
    on_progress
        Called twice a second with the progress of the job, in a separate thread. With Spark Connect, it is
        called when the server reports, in the calling thread.

    Raises
    ------
    InvalidInputError
        A row does not fit, and the job has no table of rejects; or the query or an option is invalid.
    NotFoundError
        A source does not exist.
    RetryableConflictError
        The columns of the target were changed meanwhile.
    LanceError
        A task or the commit failed in another way. Spark's error is the cause.
    """
    run = job.id or str(uuid.uuid4())
    began = time.perf_counter()
    target = Target.open(job)
    report = Report()
    is_done = target.has(run) and rejects_have(job, run)
    if not is_done or target.lacks_statistics:
        with errors_of_spark(), ingest_session(job, spark) as session, watched(session, on_progress):
            if not is_done:
                report = _Run(job, run, target, session).report()
            # also adds the statistics of an earlier run that failed between its rows and these
            if Target.open(job).lacks_statistics:
                _build_statistics(job, session)
    return _summary(job, run, report, time.perf_counter() - began)


class _Run:
    """One run of a job."""

    def __init__(self, job: IngestJob, run: str, target: Target, spark: SparkSession) -> None:
        self._job = job
        self._run = run
        self._target = target
        self._spark = spark

    def report(self) -> Report:
        """Read, check and write the rows, and return the report."""
        job = self._job
        rows, unread = self._rows()
        wanted = None if job.schema is None else _schema(job.schema)
        plain = StructType([each for each in rows.schema if each.name != CORRUPT])
        columns = self._target.columns(plain, wanted, case_sensitive=is_case_sensitive(self._spark))
        rows = with_target_names(rows, stored_schema(columns))
        source = job.sources[0].name if len(job.sources) == 1 else None
        checked_rows = checked(rows, columns, source)
        for name, records in unread.items():
            checked_rows = _joined(checked_rows, unreadable(records, columns, name), columns)
        prepare_rejects(job)
        to_target = not self._target.has(self._run)
        if to_target:
            self._target = self._target.made(
                struct_of(columns), case_sensitive=is_case_sensitive(self._spark)
            )
            checked_rows = self._arranged(checked_rows)
        elif BAD in checked_rows.columns:
            checked_rows = checked_rows.where(named(BAD).isNotNull())
        else:
            checked_rows = checked_rows.limit(0)
        return self._written(checked_rows, columns, to_target=to_target)

    def _rows(self) -> tuple[DataFrame, dict[str, DataFrame]]:
        """Return the rows of the query, and the unreadable records of each source that has some."""
        job = self._job
        frames = {source.name: read_source(self._spark, source) for source in job.sources}
        if job.sql is None:
            [rows] = frames.values()
            return rows, {}
        for source in job.sources:
            view = readable(frames[source.name], source, fail=job.rejects is None)
            view.createOrReplaceTempView(quoted_name(source.name))
        # in parentheses, so that only a query is valid
        rows = self._spark.sql(f"SELECT * FROM (\n{job.sql.rstrip().rstrip(';')}\n)")
        if job.rejects is None:
            return rows, {}
        return rows, {name: source for name, source in frames.items() if CORRUPT in source.columns}

    def _arranged(self, rows: DataFrame) -> DataFrame:
        """Shuffle rows by partition, and sort them."""
        job, snapshot = self._job, self._target.snapshot
        if snapshot is not None:
            ref = SourceRef.of(snapshot, SourceOptions(job.target, storage=dict(job.storage_options)))
            keys = [quoted_name(name) for name in job.sort_by]
            return routed(rows, ref, snapshot, keys, distribution=job.distribution)
        return rows.sortWithinPartitions(*map(named, job.sort_by)) if job.sort_by else rows

    def _written(self, rows: DataFrame, columns: list[TargetColumn], *, to_target: bool) -> Report:
        job = self._job
        schema = struct_of([each for each in columns if each.field.name in rows.columns])
        target = self._target_options()
        if can_cross_as_integers(self._spark):
            rows, schema, target = with_digits(rows), with_integers(schema), target | DIGITS
        with ReportFolder.made(self._spark) as folder:
            options = sink_options(
                target,
                schema,
                self._run,
                folder.name,
                is_marked=job.id is not None or job.rejects is not None,
                rejects=None
                if job.rejects is None
                else {
                    "path": path_for_driver(job.rejects),
                    **write_options(job.storage_of_rejects),
                },
                to_target=to_target,
            )
            mode = "append" if job.mode == "append" else "overwrite"
            with bounded_by_rows(self._spark, rows.schema):
                rows.write.format(IngestSink.name()).options(**options).mode(mode).save()
            report = folder.read()
        if self._target.snapshot is not None and report.version is not None:
            report = replace(report, partitions=report.partitions or 0)
        if report.error is not None:
            raise _without_rejects(job, self._run, *report.error)
        return report

    def _target_options(self) -> dict[str, str]:
        job = self._job
        return {
            "path": path_for_driver(job.target),
            "partitionOverwriteMode": "dynamic" if job.mode == "overwrite-partitions" else "static",
            **write_options(
                job.storage_options,
                maxRowsPerFile=job.max_rows_per_file,
                maxBytesPerFile=job.max_bytes_per_file,
                statistics=str(job.statistics).lower(),
            ),
        }


def _schema(text: str) -> StructType:
    schema = StructType.fromDDL(text)
    if not isinstance(schema, StructType):
        raise InvalidInputError(f"the schema of the target must have the form 'name TYPE, …', got {text!r}")
    return schema


def _joined(rows: DataFrame, records: DataFrame, columns: list[TargetColumn]) -> DataFrame:
    if BAD not in rows.columns:
        rows = rows.withColumn(BAD, F.lit(None).cast(records.schema[BAD].dataType))
    names = [each.field.name for each in columns if each.field.name in rows.columns]
    return rows.unionByName(records.select(*map(named, names), named(BAD)))


def _without_rejects(job: IngestJob, run: str, name: str, message: str) -> LanceError:
    kind = getattr(errors, name, LanceError)
    return kind(
        f"{job.rejects}: {message}. The rows that fit are in {job.target}; run the ingest again with the "
        f"id {run!r} to add the rejected rows here"
    )


def _build_statistics(job: IngestJob, spark: SparkSession) -> None:
    """Add the zone maps of committed rows. A failure is only a warning."""
    try:
        build_statistics(spark, job.target, storage_options=dict(job.storage_options) or None)
    except LanceError as err:
        warnings.warn(
            f"{job.target}: the rows were committed, but their statistics could not be computed: {err}",
            RuntimeWarning,
            stacklevel=3,
        )


def _summary(job: IngestJob, run: str, report: Report, seconds: float) -> IngestSummary:
    version = report.version
    is_repeated = version is None
    if version is None:
        version = Target.open(job).version or 0
    return IngestSummary(
        id=run,
        target=job.target,
        version=version,
        rows_in=report.rows_in,
        rows_out=report.rows_out,
        rows_rejected=report.rejected if report.rejects_version is not None else 0,
        files=report.files,
        bytes=report.bytes,
        partitions=report.partitions,
        rejects=job.rejects,
        rejects_version=report.rejects_version,
        is_repeated=is_repeated,
        seconds=seconds,
    )
