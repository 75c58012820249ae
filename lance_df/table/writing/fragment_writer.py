"""Write a stream of rows into data files, one for each new fragment."""

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


# slices count in 64 bits, and row counts are rounded up to whole groups
_MOST: Final = 2**62
# smaller pages have more description than data
_MIN_PAGE_BYTES = 4096


class WriteProgress(Protocol):
    """Callbacks at the beginning and at the end of each data file."""

    def begin(self, fragment: Fragment) -> object:
        """Called before the data file of a fragment is written."""
        ...

    def complete(self, fragment: Fragment) -> object:
        """Called when the data file of a fragment is complete, before others can see it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """Limits at which the next data file begins; bytes are checked after each batch.

    Files of version 0.1 consist of groups of ``max_rows_per_group`` rows, and end with a whole one. In other
    files, a column's rows become a page when their bytes exceed its share of ``data_cache_bytes``, or
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
        """Return the limits that a caller gives; None means the default."""
        return cls(**{name: limit for name, limit in limits.items() if limit is not None})

    def page_bytes(self, num_columns: int) -> int:
        """Return the number of Arrow bytes that become one page."""
        page_bytes = PAGE_BYTES
        if self.data_cache_bytes is not None:
            page_bytes = self.data_cache_bytes // max(1, num_columns)
        if self.max_page_bytes is not None:
            page_bytes = min(page_bytes, self.max_page_bytes)
        # a file can only end between pages
        page_bytes = min(page_bytes, self.max_bytes // max(1, num_columns))
        return max(page_bytes, _MIN_PAGE_BYTES)

    @property
    def rows_per_group(self) -> int:
        return min(self.max_rows_per_group, self.max_rows)

    def rows_of_file(self, version: str) -> int:
        """Return the number of rows of a full file."""
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
    """Write batches into data files; delete the files if the block fails.

    Parameters
    ----------
    table
        The root of the table.
    schema
        The fields of the batches, with the table's field ids.
    version
        ``"0.1"``, ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    zone_maps
        Gets all rows, to collect their bounds.
    dictionaries
        Filled, by field id, with the values of dictionary columns of 0.1 that have none in ``schema``.
    targets
        The folders for the files, used in turn; by default that of the table.
    unsynced
        Records the files for a later sync; they are not durable until then.
    references
        The files that blobs may refer to; by default none outside the table.
    num_encoders
        Number of pages of a 2.x file to encode concurrently; by default the number of processors.

    Yields
    ------
    The new fragments, all with id 0; the commit assigns their ids.
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
    """Writes batches into data files, with one file open at a time. See `fragments_written`."""

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
        """Add rows; this may begin and finish files."""
        if batch.num_rows and not self._schema.fields:
            raise InvalidInputError(f"{batch.num_rows} rows without columns cannot be written")
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
        """Write all buffered rows; the open file accepts more."""
        if self._open is not None:
            self._open.flush()
        if self._zone_maps is not None:
            self._zone_maps.copy_pending()

    def abort(self) -> None:
        """Delete the files, whether they are finished or not."""
        if self._open is not None:
            undisturbed(self._open.abort)
        self._files.remove()
        self.remove_empty_folders()

    def finish(self) -> tuple[Fragment, ...]:
        """Finish the open file, and return all fragments with id 0; the commit assigns their ids."""
        self._finish_file()
        return tuple(self._fragments)

    @contextmanager
    def files_watched(self) -> Iterator[None]:
        """Delete the files if the context fails, except those that a version may refer to."""
        try:
            with uncommitted_files() as self._files:
                yield
        except BaseException:
            if self._open is not None:
                undisturbed(self._open.abort)
            raise

    def remove_empty_folders(self) -> None:
        """Delete the folders of files if they are empty."""
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
    """Return a new random name whose start spreads over the key space of object stores."""
    random, job = uuid.uuid4().bytes, part_of_job()
    rest = job + random[3 + len(job) :]
    return f"{int.from_bytes(random[:3]):024b}{rest.hex()}.lance"


def remove_files_of_job(table: Location, job: uuid.UUID) -> None:
    """Delete the files that were named for a failed job, as far as the store allows.

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
    """Delete a data file that will not be committed, with its blobs, as far as the store allows."""
    with suppress(LanceError):
        file.remove()
    remove_sidecars(file)


def data_file(name: str, written: WrittenFile, *, base_id: int | None = None) -> DataFile:
    """Return the manifest entry of a file that was just written."""
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
