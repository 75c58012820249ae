"""Write checked rows in one pass: rows that fit to the target, the others to the table of rejects.

The driver first commits the rows of the target with the id of the run, then the rejects with the same id. If
it dies at any time, the target has all rows of the run or none, and rejects exist only for runs whose rows
are in the target. If the rejects are missing, the run is not complete, and the next run adds only them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

from lance_df.errors import CommitStateUnknownError, InvalidInputError, LanceError
from lance_df.namespace.changes.staged import StagedPartitions
from lance_df.sliced_lists import unsliced
from lance_df.spark.ingesting.checked_rows import BAD, BAD_FIELDS
from lance_df.spark.ingesting.report import Report, make_folder, placed
from lance_df.spark.options import SourceOptions
from lance_df.spark.writing import Written, run_mark, writer_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lance_df.format.fragments import Fragment
    from lance_df.spark.writing import LanceWriter
    from lance_df.table.commit.marks import Mark

REJECTS: Final = StructType([StructField(name, StringType()) for name in ("run", *BAD_FIELDS)])
"""The columns of a table of rejects."""

# options of the sink; all other options belong to the target
_COLUMNS, _FOLDER, _RUN = "ingest.columns", "ingest.folder", "ingest.run"
_TO_TARGET, _MARKED = "ingest.rows", "ingest.marked"
_OF_REJECTS: Final = "rejects."
# the bytes of rejects that a task collects before it writes them
_WAITING_BYTES: Final = 32 * 1024 * 1024
_MAX_ROW_TEXT: Final = 500


def sink_options(
    target: Mapping[str, str],
    columns: StructType,
    run: str,
    folder: str,
    *,
    is_marked: bool,
    rejects: Mapping[str, str] | None,
    to_target: bool,
) -> dict[str, str]:
    """Return the options of a write to `IngestSink`.

    Parameters
    ----------
    target, rejects
        Options of ``format("lance_df")``. Without a table of rejects, a row that does not fit fails the job.
    columns
        The columns of the target.
    folder
        The name of a `ReportFolder` for only this write.
    is_marked
        Whether the commit stores the id of the run, so that another try adds nothing.
    to_target
        Whether to write the rows that fit; otherwise only the rejects are written.
    """
    job_options = {
        _COLUMNS: columns.json(),
        _FOLDER: folder,
        _RUN: run,
        _MARKED: json.dumps(is_marked),
        _TO_TARGET: json.dumps(to_target),
    }
    return {
        **target,
        **{f"{_OF_REJECTS}{name}": value for name, value in (rejects or {}).items()},
        **job_options,
    }


class IngestSink(DataSource):
    """The data sink, which Spark creates in a separate process for each write."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "lance_df_ingest"

    def writer(self, schema: StructType, overwrite: bool) -> IngestWriter:  # noqa: ARG002 - Spark's, not ours
        """Return a writer of checked rows."""
        options = dict(self.options.items())
        job_options = {name: options.pop(name) for name in (_COLUMNS, _FOLDER, _RUN, _MARKED, _TO_TARGET)}
        rejects = {name: options.pop(name) for name in list(options) if name.startswith(_OF_REJECTS)}
        to_target = None
        if json.loads(job_options[_TO_TARGET]):
            columns = StructType.fromJson(json.loads(job_options[_COLUMNS]))
            to_target = writer_for(SourceOptions.parse(options), columns, overwrite=overwrite)
        to_rejects = None
        if rejects:
            parsed = SourceOptions.parse(
                {name.removeprefix(_OF_REJECTS): value for name, value in rejects.items()}
            )
            to_rejects = writer_for(parsed, REJECTS, overwrite=False)
        mark = run_mark(job_options[_RUN]) if json.loads(job_options[_MARKED]) else None
        return IngestWriter(to_target, to_rejects, job_options[_RUN], mark, placed(job_options[_FOLDER]))


@dataclass
class Ingested(WriterCommitMessage):
    """The rows and rejects that a task wrote."""

    rows: Written | None = None
    rejects: list[Written] = field(default_factory=list)
    num_rows: int = 0
    num_rejected: int = 0


class IngestWriter(DataSourceArrowWriter):
    """Writes one run. Spark sends it to tasks and back to the driver."""

    def __init__(
        self,
        target: LanceWriter | None,
        rejects: LanceWriter | None,
        run: str,
        mark: Mark | None,
        folder: Path,
    ) -> None:
        self._target = target
        self._rejects = rejects
        self._run = run
        self._mark = mark
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Ingested:
        """Write the rows of a task into data files of the target and of the rejects."""
        task = _Task(self._rejects, self._run)
        try:
            rows = task.fitting(iterator)
            if self._target is not None:
                task.done.rows = self._target.write(rows)
            else:
                for _ in rows:
                    pass
            task.flush()
        except BaseException:
            self._abort([task.done])
            raise
        return task.done

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows and the rejects visible, and write a report."""
        done = [message for message in messages if isinstance(message, Ingested)]
        report = Report(sum(each.num_rows for each in done), sum(each.num_rejected for each in done))
        make_folder(self._folder)
        if self._target is not None:
            version = self._target.commit_once([each.rows for each in done], self._mark)
            if version is not None:
                report = _added(report, version, done)
        report = self._with_rejects(report, done)
        if self._target is not None:
            self._target.add_statistics([each.rows for each in done])
        report.write(self._folder)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files that tasks wrote, unless they are or may become visible."""
        self._abort([message for message in messages if isinstance(message, Ingested)])

    def _with_rejects(self, report: Report, done: Sequence[Ingested]) -> Report:
        """Make rejects visible; errors are reported, not raised, so that Spark does not abort the job."""
        if self._rejects is None:
            return report
        staged: list[WriterCommitMessage | None] = [message for each in done for message in each.rejects]
        try:
            return replace(report, rejects_version=self._rejects.commit_once(staged, self._mark))
        except CommitStateUnknownError as err:
            return replace(report, error=(type(err).__name__, str(err)))
        except LanceError as err:
            self._rejects.abort(staged)
            return replace(report, error=(type(err).__name__, str(err)))

    def _abort(self, done: Sequence[Ingested]) -> None:
        if self._target is not None:
            self._target.abort([each.rows for each in done])
        if self._rejects is not None:
            self._rejects.abort([message for each in done for message in each.rejects])


class _Task:
    """Separates the rows of one task; `done` has the results so far."""

    def __init__(self, rejects: LanceWriter | None, run: str) -> None:
        self.done = Ingested()
        self._rejects = rejects
        self._run = run
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def fitting(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that fit; write the others as rejects, or raise an error."""
        for batch in batches:
            self.done.num_rows += batch.num_rows
            if BAD not in batch.schema.names:
                yield batch
                continue
            bad = batch.column(BAD)
            batch = batch.drop_columns([BAD])  # noqa: PLW2901 - the same rows
            if bad.null_count == len(bad):
                yield batch
                continue
            self._take(bad.drop_null())
            yield unsliced(batch).filter(pc.is_null(bad))

    def flush(self) -> None:
        """Write the collected rejects."""
        if self._waiting and self._rejects is not None:
            self.done.rejects.append(self._rejects.write(iter(self._waiting)))
            self._waiting, self._waiting_bytes = [], 0

    def _take(self, bad: pa.StructArray) -> None:
        if self._rejects is None:
            raise _misfit(bad[0].as_py())
        self.done.num_rejected += len(bad)
        columns = [pa.repeat(self._run, len(bad)), *bad.flatten()]
        self._waiting.append(pa.RecordBatch.from_arrays(columns, REJECTS.names))
        self._waiting_bytes += self._waiting[-1].nbytes
        if self._waiting_bytes > _WAITING_BYTES:
            self.flush()


def _misfit(bad: Mapping[str, str | None]) -> InvalidInputError:
    """Return the error for a row that does not fit."""
    source = "" if bad["source"] is None else f"{bad['source']}: "
    column = "" if bad["column"] is None else f"column {bad['column']!r}: "
    row = " ".join((bad["row"] or "").split())
    if len(row) > _MAX_ROW_TEXT:
        row = f"{row[: _MAX_ROW_TEXT - 1]}…"
    return InvalidInputError(f"{source}{column}{bad['reason']}; row {row}")


def _added(report: Report, version: int, done: Sequence[Ingested]) -> Report:
    """Add the numbers of rows, files and bytes that tasks wrote to the target."""
    rows = files = size = 0
    folders: set[str] = set()
    is_partitioned = False
    for message in done:
        if message.rows is None:
            continue
        staged = message.rows.staged
        fragments: Iterable[Fragment]
        if isinstance(staged, StagedPartitions):
            is_partitioned = True
            folders.update(staged.folders)
            fragments = chain.from_iterable(staged.fragments)
        else:
            fragments = staged.fragments
        for fragment in fragments:
            rows += fragment.physical_rows
            files += len(fragment.files)
            size += sum(file.size_bytes or 0 for file in fragment.files)
    return replace(
        report,
        version=version,
        rows_out=rows,
        files=files,
        bytes=size,
        partitions=len(folders) if is_partitioned else None,
    )
