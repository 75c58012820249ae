"""Cut a stream of rows into data files, one for each new fragment."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from lance_df.errors import InvalidInputError, LanceError
from lance_df.expr.text_views import parts_of_texts
from lance_df.file.blobs.sidecars import remove_sidecars, sidecar_folder
from lance_df.file.open_writer import open_writer
from lance_df.file.v2.writer import PAGE_BYTES
from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.legacy_metadata import LEGACY_VERSION
from lance_df.interrupts import check_stopped, undisturbed
from lance_df.records import as_integer, dataclass
from lance_df.storage.sink import ByteSink
from lance_df.table.blobs.references import BlobReferences
from lance_df.table.metadata.base_paths import DATA_DIR, DELETIONS_DIR, DataTarget
from lance_df.table.writing.conform import conform
from lance_df.table.writing.job_names import is_of_job, names_start_with, part_of_job
from lance_df.table.writing.uncommitted import UncommittedFiles, uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lance_df.file.open_writer import DataFileWriter
    from lance_df.file.v2.writer import WrittenFile
    from lance_df.format.schema import Schema
    from lance_df.storage import Location
    from lance_df.storage.unsynced import Unsynced
    from lance_df.table.writing.zone_map_writer import ZoneMapBuilder


# slices count in 64 bits, and groups of rows are rounded up to
_MOST: Final = 2**62
# smaller pages are more description than data
_MIN_PAGE_BYTES = 4096


class WriteProgress(Protocol):
    """Is called with data files as they begin and as they are complete."""

    def begin(self, fragment: Fragment) -> object:
        """Take note of a fragment whose data file is about to be written."""
        ...

    def complete(self, fragment: Fragment) -> object:
        """Take note of a fragment whose data file is complete; others do not see it yet."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """When to start the next data file: when either is reached; bytes are checked after each batch.

    Files of version 0.1 consist of groups of ``max_rows_per_group`` rows, and end with a whole one. In others
    a column's rows become a page when their bytes are more than its share of ``data_cache_bytes``, or
    ``max_page_bytes``.
    """

    max_rows: int = 1024 * 1024
    max_bytes: int = 90 * 1024**3
    max_rows_per_group: int = 1024
    data_cache_bytes: int | None = None
    max_page_bytes: int | None = None

    def __post_init__(self) -> None:
        numbers = (
            ("max_rows_per_file", "max_rows", 1),
            ("max_bytes_per_file", "max_bytes", 1),
            ("max_rows_per_group", "max_rows_per_group", 1),
            ("data_cache_bytes", "data_cache_bytes", 0),
            ("max_page_bytes", "max_page_bytes", 1),
        )
        for argument, name, least in numbers:
            if (value := getattr(self, name)) is None:
                continue
            number = as_integer(value)
            if number is None or number < least:
                raise InvalidInputError(f"{argument} must be a number of at least {least}, got {value!r}")
            object.__setattr__(self, name, min(number, _MOST))

    @classmethod
    def given(cls, **limits: int | None) -> FileLimits:
        """Return the limits that a caller gives; None is what is by default."""
        return cls(**{name: limit for name, limit in limits.items() if limit is not None})

    def page_bytes(self, num_columns: int) -> int:
        """Return the Arrow bytes that become one page."""
        page_bytes = PAGE_BYTES
        if self.data_cache_bytes is not None:
            page_bytes = self.data_cache_bytes // max(1, num_columns)
        if self.max_page_bytes is not None:
            page_bytes = min(page_bytes, self.max_page_bytes)
        # a file ends between pages
        page_bytes = min(page_bytes, self.max_bytes // max(1, num_columns))
        return max(page_bytes, _MIN_PAGE_BYTES)

    @property
    def rows_per_group(self) -> int:
        return min(self.max_rows_per_group, self.max_rows)

    def rows_of_file(self, version: str) -> int:
        """Return how many rows a file holds that is full."""
        if version != "0.1":
            return self.max_rows
        return -(-self.max_rows // self.rows_per_group) * self.rows_per_group


@contextmanager
def fragments_written(
    table: Location,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    version: str,
    limits: FileLimits,
    zone_maps: ZoneMapBuilder | None = None,
    dictionaries: dict[int, pa.Array] | None = None,
    targets: Sequence[DataTarget] = (),
    progress: WriteProgress | None = None,
    unsynced: Unsynced | None = None,
    references: BlobReferences | None = None,
    num_encoders: int | None = None,
) -> Iterator[tuple[Fragment, ...]]:
    """Write batches into data files, and remove these again when what is done with them fails.

    Parameters
    ----------
    table
        The root of the table.
    schema
        The fields that the batches bring, with the table's ids.
    version
        ``"0.1"``, ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    zone_maps
        Is shown all rows.
    dictionaries
        Is called with the values of dictionary columns of 0.1 that have none in ``schema``, by field id.
    targets
        Where the files go, in turn; by default all go below the root of the table.
    unsynced
        Takes note of the files, which then are not durable yet.
    references
        What blobs may refer to; by default to nothing elsewhere.
    num_encoders
        Pages of a 2.x file to encode at a time, by default as many as there are processors.

    Yields
    ------
    The new fragments, all with id 0: ids are given out by the commit.
    """
    writer = FragmentWriter(
        table,
        schema,
        version=version,
        limits=limits,
        zone_maps=zone_maps,
        dictionaries=dictionaries,
        targets=targets,
        progress=progress,
        unsynced=unsynced,
        references=references,
        num_encoders=num_encoders,
    )
    try:
        with writer.files_watched():
            for batch in batches:
                check_stopped()
                writer.write(batch)
            yield writer.finish()
    except BaseException:
        writer.remove_empty_folders()
        raise


class FragmentWriter:
    """Cuts batches into data files, of which one is open at a time. See `fragments_written`."""

    def __init__(
        self,
        table: Location,
        schema: Schema,
        *,
        version: str,
        limits: FileLimits,
        zone_maps: ZoneMapBuilder | None = None,
        dictionaries: dict[int, pa.Array] | None = None,
        targets: Sequence[DataTarget] = (),
        progress: WriteProgress | None = None,
        unsynced: Unsynced | None = None,
        references: BlobReferences | None = None,
        num_encoders: int | None = None,
    ) -> None:
        self._targets = tuple(targets) or (DataTarget(table / DATA_DIR),)
        self._schema = schema
        self._version = version
        self._limits = limits
        self._zone_maps = zone_maps
        self._dictionaries = {} if dictionaries is None else dictionaries
        self._progress = progress
        self._unsynced = unsynced
        self._references = references or BlobReferences(table)
        self._num_encoders = num_encoders
        self._has_blobs = any(field.is_blob for field in schema.walk())
        self._max_rows = limits.rows_of_file(version)
        self._open: DataFileWriter | None = None
        self._name = ""
        self._fragments: list[Fragment] = []
        self._files = UncommittedFiles()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, which may begin and finish files."""
        if batch.num_rows and not self._schema.fields:
            raise InvalidInputError(f"{batch.num_rows} rows without any column cannot be stored")
        for part in parts_of_texts(batch):
            self._write_part(part)

    def _write_part(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            if self._open is None:
                self._open = self._begin_file()
            room = self._max_rows - self._open.num_rows
            arrays = conform(batch.slice(0, room), self._schema)
            if not self._open.has_room(arrays):
                self._finish_file()
                continue
            if self._has_blobs:
                arrays = self._references.resolve(arrays, self._schema)
            self._open.write_batch(arrays)
            if self._zone_maps is not None:
                self._zone_maps.add(arrays)
            batch = batch.slice(room)
            if self._open.num_rows >= self._max_rows or self._open.position >= self._limits.max_bytes:
                self._finish_file()

    def flush(self) -> None:
        """Write all rows that were added, and hold none of them; the open file takes more."""
        if self._open is not None:
            self._open.flush()
        if self._zone_maps is not None:
            self._zone_maps.copy_pending()

    def abort(self) -> None:
        """Remove the files, whether they are finished or not."""
        if self._open is not None:
            undisturbed(self._open.abort)
        self._files.remove()
        self.remove_empty_folders()

    def finish(self) -> tuple[Fragment, ...]:
        """Finish the open file and return all fragments, with id 0: ids are given out by the commit."""
        self._finish_file()
        return tuple(self._fragments)

    @contextmanager
    def files_watched(self) -> Iterator[None]:
        """Remove the files when the context fails, but for those that a version may refer to."""
        try:
            with uncommitted_files() as self._files:
                yield
        except BaseException:
            if self._open is not None:
                undisturbed(self._open.abort)
            raise

    def remove_empty_folders(self) -> None:
        """Remove the folders of files, if nothing is in them."""
        for target in self._targets:
            target.folder.remove_empty_folder()

    @property
    def _target(self) -> DataTarget:
        return self._targets[len(self._fragments) % len(self._targets)]

    def _begin_file(self) -> DataFileWriter:
        self._name = data_file_name()
        if self._progress is not None:
            self._progress.begin(Fragment(id=0, files=()))
        file = self._target.folder / self._name
        self._files.add(self._name, partial(remove_data_file, file) if self._has_blobs else file.remove)
        return open_writer(
            ByteSink(file, unsynced=self._unsynced),
            self._schema,
            version=self._version,
            page_bytes=self._limits.page_bytes(len(self._schema.fields)),
            rows_per_group=self._limits.rows_per_group,
            dictionaries=self._dictionaries,
            blob_placement=self._references.placement(file, self._unsynced) if self._has_blobs else None,
            num_encoders=self._num_encoders,
        )

    def _finish_file(self) -> None:
        if self._open is None:
            return
        written = self._open.finish()
        self._open = None
        if self._zone_maps is not None:
            self._zone_maps.end_fragment()
        file = data_file(self._name, written, base_id=self._target.base_id)
        self._fragments.append(Fragment(id=0, files=(file,), physical_rows=written.num_rows))
        if self._progress is not None:
            self._progress.complete(self._fragments[-1])


def data_file_name() -> str:
    """Return a new random name, whose start spreads over the key space of object stores."""
    random, job = uuid.uuid4().bytes, part_of_job()
    rest = job + random[3 + len(job) :]
    return f"{int.from_bytes(random[:3]):024b}{rest.hex()}.lance"


def remove_files_of_job(table: Location, job: uuid.UUID) -> None:
    """Remove the files whose names were given for a job that failed, as far as the store lets us.

    Parameters
    ----------
    table
        The root of the table or branch.
    """
    wanted = names_start_with(job)
    with suppress(LanceError):
        for name in (table / DATA_DIR).names():
            if name[24:].startswith(wanted):
                # a file, or the folder of its blobs
                remove_data_file(table / DATA_DIR / f"{name.removesuffix('.lance')}.lance")
    with suppress(LanceError):
        for name in (table / DELETIONS_DIR).names():
            number = name.rpartition("-")[2].partition(".")[0]
            if number.isdecimal() and is_of_job(job, int(number)):
                (table / DELETIONS_DIR / name).remove()
    (table / DELETIONS_DIR).remove_empty_folder()


def copy_data_file(file: Location, target: Location) -> None:
    """Copy a data file with its blobs, durably.

    Raises
    ------
    StorageError
        One of the stores failed.
    """
    from lance_df.storage.copy import copy_file

    source, folder = sidecar_folder(file), sidecar_folder(target)
    if source is not None and folder is not None:
        for name in source.names():
            copy_file(source / name, folder / name)
    copy_file(file, target)


def remove_data_file(file: Location) -> None:
    """Remove a data file that will not be committed, with its blobs, as far as the store lets us."""
    with suppress(LanceError):
        file.remove()
    remove_sidecars(file)


def data_file(name: str, written: WrittenFile, *, base_id: int | None = None) -> DataFile:
    """Return what manifests say of a file that was just written."""
    if written.version == "0.1":
        major, minor = LEGACY_VERSION
    else:
        major, minor = (int(part) for part in written.version.split("."))
    return DataFile(
        path=name,
        fields=written.fields,
        column_indices=written.column_indices,
        major_version=major,
        minor_version=minor,
        size_bytes=written.size_bytes,
        base_id=base_id,
    )
