"""The writers of the data source: tasks write data files, the driver makes them visible in one commit."""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import tempfile
import time
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lance_df.errors import (
    CommitStateUnknownError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    StorageError,
)
from lance_df.namespace.changes.staged import (
    StagedPartitions,
    discard_staged_partitions,
    publish_staged_partitions,
    stage_partitions,
)
from lance_df.namespace.snapshot import NamespaceSnapshot, holds_namespace
from lance_df.spark.decimals import from_integers, without_integers
from lance_df.spark.opened import SourceRef
from lance_df.spark.options import refuse
from lance_df.spark.row_batches import joined
from lance_df.spark.types import arrow_schema, to_stored
from lance_df.storage import open_location
from lance_df.table.base_paths import DATA_DIR
from lance_df.table.commit.marks import AlreadyCommittedError, Mark
from lance_df.table.commit.options import CommitOptions
from lance_df.table.fragment_writer import FileLimits, remove_data_file
from lance_df.table.open import open_table
from lance_df.table.write import StagedRows, WriteOptions, publish_staged, stage_rows
from lance_df.table.zone_map_writer import with_zone_maps

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_df.spark.options import SourceOptions
    from lance_df.storage import Location
    from lance_df.table.manifest_io import ManifestFile
    from lance_df.table.write import Mode

# Spark aborts at once what it could not commit.
_ABORTED_WITHIN_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What a task wrote, packed: Spark keeps the messages of all tasks until the last one of the commit."""

    packed: bytes

    @classmethod
    def of(cls, staged: StagedRows | StagedPartitions) -> Written:
        """Return the message."""
        return cls(pickle.dumps(staged))

    @property
    def staged(self) -> StagedRows | StagedPartitions:
        """What was written, made anew each time."""
        found: StagedRows | StagedPartitions = pickle.loads(self.packed)
        return found


class _Parts(Iterable[StagedRows | StagedPartitions]):
    """What all tasks wrote, one at a time, as often as it is asked for."""

    def __init__(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._messages = messages

    def __iter__(self) -> Iterator[StagedRows | StagedPartitions]:
        return (message.staged for message in self._messages if isinstance(message, Written))


class LanceWriter(DataSourceArrowWriter):
    """Writes one job. Sent to tasks, and back to the driver, which knows its tasks by ``job``."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._sent = schema
        self._schema = arrow_schema(without_integers(schema) if options.decimals_as_integers else schema)
        self._overwrite = overwrite
        self._job = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task into data files."""
        return Written.of(self._stage(map(self._received, joined(iterator))))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make what all tasks wrote visible."""
        run_id = self._options.run_id
        self.commit_once(messages, None if run_id is None else run_mark(run_id), self._job)
        self.add_statistics(messages)

    def commit_once(
        self, messages: Sequence[WriterCommitMessage | None], mark: Mark | None, name: str
    ) -> int | None:
        """Make what all tasks wrote visible, unless that was done already.

        Parameters
        ----------
        name
            Of the attempt, for `abort_attempt`.

        Returns
        -------
        The version that was made, None if it was done already.
        """
        staged = _Parts(messages)
        _forget_old_commits()
        # Once a commit may be there, its files must stay: also when it succeeds, for this process may die
        # before Spark learns of it.
        begun = _begun(name)
        begun.touch()
        try:
            return self._publish(staged, mark)
        except CommitStateUnknownError:
            raise
        except AlreadyCommittedError:
            self._discard(staged)
            return None
        except Exception:
            begun.unlink(missing_ok=True)
            raise

    def add_statistics(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Add what tasks have collected to rows that `commit_once` has made visible, if it has not yet."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks wrote, unless it may be visible. Spark calls this after a failed commit, too."""
        self.abort_attempt(messages, self._job)

    def abort_attempt(self, messages: Sequence[WriterCommitMessage | None], name: str) -> None:
        """Remove what tasks wrote, unless it may be visible."""
        if not _begun(name).exists():
            self._discard(_Parts(messages))

    @abstractmethod
    def _stage(self, rows: Iterator[pa.RecordBatch]) -> StagedRows | StagedPartitions:
        """Write rows into data files that nobody sees yet."""

    @abstractmethod
    def _publish(self, staged: Iterable[StagedRows | StagedPartitions], mark: Mark | None) -> int:
        """Commit, and return the version."""

    @abstractmethod
    def _discard(self, staged: Iterable[StagedRows | StagedPartitions]) -> None:
        """Remove data files."""

    def _received(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._options.decimals_as_integers:
            batch = from_integers(batch, self._sent)
        return to_stored(batch, self._schema)

    @property
    def _location(self) -> Location:
        return open_location(self._options.path, self._options.storage or None)

    @property
    def _limits(self) -> FileLimits:
        return FileLimits(
            max_rows=self._options.max_rows_per_file, max_bytes=self._options.max_bytes_per_file
        )


class TableWriter(LanceWriter):
    """Writes a table, which need not exist."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._made: ManifestFile | None = None
        if overwrite:
            return
        with suppress(DatasetNotFoundError):
            table = open_table(options.path, storage_options=options.storage or None)
            self._schema = _target(self._schema, table.arrow_schema, table.uri)

    @property
    def _mode(self) -> Mode:
        return "overwrite" if self._overwrite else "append"

    def add_statistics(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Add zone maps, which take a version of their own: a transaction adds rows, or it adds indices."""
        found = [
            each.zone_maps for each in _Parts(messages) if isinstance(each, StagedRows) and each.zone_maps
        ]
        if self._made is None or not found:
            return
        for each in found[1:]:
            found[0].extend(each)
        with_zone_maps(self._location, self._made, found[0])

    def _write_options(self, mark: Mark | None = None) -> WriteOptions:
        return WriteOptions(
            limits=self._limits,
            data_storage_version=self._options.data_storage_version,
            statistics=self._options.statistics,
            commit_options=CommitOptions(marks=() if mark is None else (mark,)),
        )

    def _stage(self, rows: Iterator[pa.RecordBatch]) -> StagedRows:
        return stage_rows(self._location, self._schema, rows, mode=self._mode, options=self._write_options())

    def _publish(self, staged: Iterable[StagedRows | StagedPartitions], mark: Mark | None) -> int:
        parts = [each for each in staged if isinstance(each, StagedRows)]
        options = self._write_options(mark)
        self._made = publish_staged(self._location, self._schema, parts, mode=self._mode, options=options)
        return self._made.manifest.version

    def _discard(self, staged: Iterable[StagedRows | StagedPartitions]) -> None:
        discard_rows(self._location, staged)


class NamespaceWriter(LanceWriter):
    """Writes a partitioned namespace: every partition, or none."""

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
            # this writer may be another one than that of the tasks
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

    def _discard(self, staged: Iterable[StagedRows | StagedPartitions]) -> None:
        parts = (each for each in staged if isinstance(each, StagedPartitions))
        discard_staged_partitions(self._location, parts)

    def _snapshot(self) -> NamespaceSnapshot:
        source = self._namespace.open()
        if not isinstance(source, NamespaceSnapshot):
            raise TypeError("the writer of a namespace was given a table")
        return source


def writer_for(options: SourceOptions, schema: StructType, *, overwrite: bool) -> LanceWriter:
    """Return the writer for what a path names, a new table by default.

    Raises
    ------
    InvalidInputError
        The columns do not fit, or options that are for reading.
    """
    for_reading = {
        "version or tag": options.version,
        "branch": options.branch,
        "columns": options.columns,
        "filter": options.filter,
    }
    refuse(for_reading | options.of_streams, "is for reading")
    location = open_location(options.path, options.storage or None)
    kind = NamespaceWriter if holds_namespace(location) else TableWriter
    return kind(options, schema, overwrite=overwrite)


def discard_rows(table: Location, staged: Iterable[StagedRows | StagedPartitions]) -> None:
    """Remove the data files of rows of a table that will not be committed, as far as the store lets us."""
    for each in staged:
        for fragment in each.fragments if isinstance(each, StagedRows) else ():
            for file in fragment.files:
                remove_data_file(table / DATA_DIR / file.path)
    with suppress(LanceError):
        (table / DATA_DIR).remove_empty_folder()
        table.remove_empty_folder()


def run_mark(run_id: str) -> Mark:
    """Return what names a write that is done once, in the config of its target."""
    return Mark(f"lance_df.run.{run_id}")


def _begun(name: str) -> Path:
    """Return the file that says that a commit has begun: Spark commits and aborts on one machine.

    Raises
    ------
    StorageError
        There is no folder for it that is this user's alone.
    """
    return _commit_folder() / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.commit"


def _commit_folder() -> Path:
    """Return a folder of this user's among the temporary files, made if need be."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"lance_df-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as err:
        raise StorageError(f"{folder}: cannot be made, and commits of Spark need it: {err.strerror}") from err
    is_private = os.name == "nt" or (found.st_uid == user and not found.st_mode & 0o077)
    if not (stat.S_ISDIR(found.st_mode) and is_private):
        raise StorageError(f"{folder}: is not a folder of this user's alone (mode 0700); remove it")
    return folder


def _forget_old_commits() -> None:
    """Remove what is left of commits that Spark can no longer abort."""
    oldest = time.time() - _ABORTED_WITHIN_SECONDS
    for path in _commit_folder().glob("*.commit"):
        with suppress(OSError):  # gone meanwhile
            if path.lstat().st_mtime < oldest:
                path.unlink()


def _target(schema: pa.Schema, stored: pa.Schema, uri: str) -> pa.Schema:
    """Return the schema that rows get: the stored columns that the rows have."""
    unknown = [name for name in schema.names if name not in stored.names]
    if unknown:
        raise InvalidInputError(f"{uri}: no column {unknown[0]!r}; there are {', '.join(stored.names)}")
    missing = [each.name for each in stored if each.name not in schema.names and not each.nullable]
    if missing:
        raise InvalidInputError(f"{uri}: column {missing[0]!r} is missing, and must not be null")
    return pa.schema([each for each in stored if each.name in schema.names])
