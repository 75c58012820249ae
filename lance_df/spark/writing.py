"""The writers of the data source: tasks write data files, and one commit on the driver publishes them."""

from __future__ import annotations

import hashlib
import pickle
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lance_df.errors import DatasetNotFoundError, InvalidInputError
from lance_df.namespace.changes.staged import (
    StagedPartitions,
    publish_staged_partitions,
    stage_partitions,
    staged_files,
)
from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.namespace.snapshot import NamespaceSnapshot, holds_namespace
from lance_df.spark.decimals import from_integers, without_integers
from lance_df.spark.opened import SourceRef
from lance_df.spark.options import refuse
from lance_df.spark.row_batches import joined
from lance_df.spark.types import arrow_schema, to_stored
from lance_df.storage import open_location
from lance_df.table.commit.marks import AlreadyCommittedError, Mark
from lance_df.table.commit.options import CommitOptions
from lance_df.table.open import open_table
from lance_df.table.writing.fragment_writer import FileLimits
from lance_df.table.writing.staged_write import StagedFile, StagedWrite
from lance_df.table.writing.write import StagedRows, WriteOptions, publish_staged, stage_rows
from lance_df.table.writing.zone_map_writer import with_zone_maps

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_df.namespace.kind import Source
    from lance_df.spark.options import SourceOptions
    from lance_df.storage import Location
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.writing.write import Mode


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The result of a task, pickled because Spark keeps the messages of all tasks until the commit."""

    id: str
    packed: bytes

    @classmethod
    def of(cls, staged: StagedRows | StagedPartitions) -> Written:
        """Return the message with a unique id."""
        return cls(uuid.uuid4().hex, pickle.dumps(staged))

    @property
    def staged(self) -> StagedRows | StagedPartitions:
        """The staged rows or partitions, unpickled on each access."""
        staged: StagedRows | StagedPartitions = pickle.loads(self.packed)
        return staged


class _Parts(Iterable[StagedRows | StagedPartitions]):
    """The results of all tasks, unpickled one at a time in each iteration."""

    def __init__(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._messages = messages

    def __iter__(self) -> Iterator[StagedRows | StagedPartitions]:
        return (message.staged for message in self._messages if isinstance(message, Written))


class LanceWriter(DataSourceArrowWriter):
    """Writes one job. Spark sends it to tasks and back to the driver, which knows its tasks by ``job``."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._sent = schema
        self._schema = arrow_schema(without_integers(schema) if options.decimals_as_integers else schema)
        self._overwrite = overwrite
        self._job = str(uuid.uuid4())
        self._mark = run_mark(options.run_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task into data files."""
        return Written.of(self._stage(map(self._received, joined(iterator))))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible."""
        self.commit_once(messages, self._mark)
        self.add_statistics(messages)

    def commit_once(self, messages: Sequence[WriterCommitMessage | None], mark: Mark | None) -> int | None:
        """Make the rows of all tasks visible, unless an earlier call did.

        Returns
        -------
        The new version, or None if an earlier call committed the rows.

        Raises
        ------
        RetryableConflictError
            Another process has aborted the write. No rows are visible.
        LanceError
            See `lance_df.table.writing.write.publish_staged` and `publish_staged_partitions`.
        """
        write = self._staged_write(messages)
        with write.committing():
            try:
                return self._publish(_Parts(messages), mark)
            except AlreadyCommittedError:
                write.remove()
                return None

    def add_statistics(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Add the statistics of tasks to the rows of `commit_once`, unless the commit included them."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files that tasks wrote, unless they are or may become visible.

        Spark calls this in another process, also after a commit that failed or whose success got lost.
        """
        self._staged_write(messages).abort()

    def _staged_write(self, messages: Sequence[WriterCommitMessage | None]) -> StagedWrite:
        # Spark passes the same messages to abort as to commit. They are the only name of the write that its
        # processes share: each process creates new writers of streams.
        ids = "".join(message.id for message in messages if isinstance(message, Written))
        write_id = hashlib.sha256(ids.encode()).hexdigest()[:32]
        return StagedWrite(self._committed_table, write_id, partial(self._files, _Parts(messages)))

    @abstractmethod
    def _stage(self, rows: Iterator[pa.RecordBatch]) -> StagedRows | StagedPartitions:
        """Write rows into data files that are not visible yet."""

    @abstractmethod
    def _publish(self, staged: Iterable[StagedRows | StagedPartitions], mark: Mark | None) -> int:
        """Commit, and return the new version."""

    @abstractmethod
    def _files(self, staged: Iterable[StagedRows | StagedPartitions]) -> Iterator[StagedFile]:
        """Yield the data files that tasks wrote."""

    def _received(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._options.decimals_as_integers:
            batch = from_integers(batch, self._sent)
        return to_stored(batch, self._schema)

    @property
    def _location(self) -> Location:
        return open_location(self._options.path, self._options.storage or None)

    @property
    def _committed_table(self) -> Location:
        """The path of the table whose next version publishes the rows."""
        return self._location

    @property
    def _limits(self) -> FileLimits:
        return FileLimits(
            max_rows=self._options.max_rows_per_file, max_bytes=self._options.max_bytes_per_file
        )


class TableWriter(LanceWriter):
    """Writes a table, which may be new."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._made: ManifestFile | None = None
        self._columns: pa.Schema | None = None
        if overwrite and options.overwrite_schema:
            return
        if overwrite:
            self._columns = pa.schema([])  # if there is no table
        with suppress(DatasetNotFoundError):
            table = open_table(options.path, storage_options=options.storage or None)
            self._schema = _target(self._schema, table.arrow_schema, table.uri)
            if overwrite and (lost := set(table.arrow_schema.names).difference(self._schema.names)):
                raise InvalidInputError(
                    f"{table.uri}: column {min(lost)!r} is missing in the data, and overwriteSchema is "
                    "false; write with lance_df.spark.write(…, overwrite_schema=False), which adds NULLs"
                )
            if overwrite:
                self._columns = table.arrow_schema

    @property
    def _mode(self) -> Mode:
        return "overwrite" if self._overwrite else "append"

    def add_statistics(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Add zone maps in a separate version, because a transaction adds either rows or indices."""
        zone_maps = [
            each.zone_maps for each in _Parts(messages) if isinstance(each, StagedRows) and each.zone_maps
        ]
        if self._made is None or not zone_maps:
            return
        for each in zone_maps[1:]:
            zone_maps[0].extend(each)
        with_zone_maps(self._location, self._made, zone_maps[0])

    def _write_options(self, mark: Mark | None = None) -> WriteOptions:
        return WriteOptions(
            limits=self._limits,
            data_storage_version=self._options.data_storage_version,
            statistics=self._options.statistics,
            commit_options=CommitOptions(marks=() if mark is None else (mark,), columns=self._columns),
        )

    def _stage(self, rows: Iterator[pa.RecordBatch]) -> StagedRows:
        return stage_rows(self._location, self._schema, rows, mode=self._mode, options=self._write_options())

    def _publish(self, staged: Iterable[StagedRows | StagedPartitions], mark: Mark | None) -> int:
        parts = [each for each in staged if isinstance(each, StagedRows)]
        options = self._write_options(mark)
        self._made = publish_staged(self._location, self._schema, parts, mode=self._mode, options=options)
        return self._made.manifest.version

    def _files(self, staged: Iterable[StagedRows | StagedPartitions]) -> Iterator[StagedFile]:
        table = self._location
        for each in staged:
            for fragment in each.fragments if isinstance(each, StagedRows) else ():
                for file in fragment.files:
                    yield StagedFile(table, file.path)


class NamespaceWriter(LanceWriter):
    """Writes a partitioned namespace; all partitions become visible, or none."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        snapshot = NamespaceSnapshot.open(self._location)
        self._namespace = SourceRef.of(snapshot, options)
        self._schema = _target(self._schema, snapshot.arrow_schema, snapshot.uri)

    def _stage(self, rows: Iterator[pa.RecordBatch]) -> StagedPartitions:
        snapshot = self._snapshot()
        return stage_partitions(
            snapshot.root,
            snapshot.manifest,
            self._schema,
            rows,
            self._job,
            limits=self._limits,
            statistics=self._options.statistics,
        )

    def _publish(self, staged: Iterable[StagedRows | StagedPartitions], mark: Mark | None) -> int:
        snapshot = self._snapshot()
        parts = (each for each in staged if isinstance(each, StagedPartitions))
        if (first := next(parts, None)) is not None:
            # this writer may be newer than that of the tasks, and at another version
            snapshot = snapshot.checkout(first.version)
            parts = (part for some in ([first], parts) for part in some)
        made = publish_staged_partitions(
            snapshot.root,
            snapshot.manifest,
            parts,
            overwrite=self._options.partition_overwrite if self._overwrite else None,
            mark=mark,
        )
        return made.version

    def _files(self, staged: Iterable[StagedRows | StagedPartitions]) -> Iterator[StagedFile]:
        parts = (each for each in staged if isinstance(each, StagedPartitions))
        return staged_files(self._location, parts)

    @property
    def _committed_table(self) -> Location:
        return self._location / MANIFEST_FOLDER

    def _snapshot(self) -> NamespaceSnapshot:
        return self._namespace.open_namespace()


def writer_for(options: SourceOptions, schema: StructType, *, overwrite: bool) -> LanceWriter:
    """Return the writer for the namespace or table at a path, or for a new table.

    Raises
    ------
    InvalidInputError
        The columns do not fit, or an option is only for reading.
    """
    for_reading = {
        "version or tag": options.version,
        "branch": options.branch,
        "columns": options.columns,
        "filter": options.filter,
    }
    refuse(for_reading | options.of_streams, "is only for reading")
    location = open_location(options.path, options.storage or None)
    kind = NamespaceWriter if holds_namespace(location) else TableWriter
    return kind(options, schema, overwrite=overwrite)


def run_mark(run_id: object) -> Mark | None:
    """Return the mark of a change with this id in the config of its target, or None without an id.

    Raises
    ------
    InvalidInputError
        The id is empty, or no text.
    """
    if run_id is None:
        return None
    if not (isinstance(run_id, str) and run_id):
        # all changes that lost their names would share an empty name
        raise InvalidInputError(f"the run id must not be empty, and must be a text, got {run_id!r:.100}")
    return Mark(f"lance_df.run.{run_id}")


def has_run(target: Source, mark: Mark | None) -> bool:
    """Whether a table or a namespace has the rows of a write with this mark."""
    return mark is not None and mark.is_in(target.committed_table.manifest.config)


def _target(schema: pa.Schema, stored: pa.Schema, uri: str) -> pa.Schema:
    """Return the schema of the rows to write: the stored columns that the rows have."""
    unknown = [name for name in schema.names if name not in stored.names]
    if unknown:
        raise InvalidInputError(
            f"{uri}: column {unknown[0]!r} does not exist; the columns are {', '.join(stored.names)}"
        )
    missing = [each.name for each in stored if each.name not in schema.names and not each.nullable]
    if missing:
        raise InvalidInputError(f"{uri}: column {missing[0]!r} is not nullable, but is missing in the data")
    return pa.schema([each for each in stored if each.name in schema.names], metadata=stored.metadata)
