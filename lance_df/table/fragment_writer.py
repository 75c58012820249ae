"""Cut a stream of rows into data files, one for each new fragment."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_df.errors import CommitStateUnknownError, InvalidInputError, LanceError
from lance_df.file.open_writer import open_writer
from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.legacy_metadata import LEGACY_VERSION
from lance_df.storage.sink import ByteSink
from lance_df.table.base_paths import DATA_DIR
from lance_df.table.conform import conform

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lance_df.file.open_writer import DataFileWriter
    from lance_df.file.writer import WrittenFile
    from lance_df.format.schema import Schema
    from lance_df.storage import Location
    from lance_df.table.zone_map_writer import ZoneMapBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """When to start the next data file: when either is reached; bytes are checked after each batch.

    Files of version 0.1 consist of groups of ``max_rows_per_group`` rows, and end with a whole one.
    """

    max_rows: int = 1024 * 1024
    max_bytes: int = 90 * 1024**3
    max_rows_per_group: int = 1024

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_bytes", "max_rows_per_group"):
            if getattr(self, name) < 1:
                argument = name if name.endswith("group") else f"{name}_per_file"
                raise InvalidInputError(f"{argument} must be at least 1, got {getattr(self, name)}")

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
        Is told the values of those dictionary columns of 0.1 that have none in ``schema``, by field id.

    Yields
    ------
    The new fragments, all with id 0: ids are given out by the commit.
    """
    dictionaries = {} if dictionaries is None else dictionaries
    writer = _FragmentWriter(table / DATA_DIR, schema, version, limits, zone_maps, dictionaries)
    try:
        for batch in batches:
            writer.write(batch)
        yield writer.finish()
    except CommitStateUnknownError:
        raise
    except BaseException:
        writer.remove()
        raise


class _FragmentWriter:
    """Cuts a stream of batches into data files."""

    def __init__(
        self,
        folder: Location,
        schema: Schema,
        version: str,
        limits: FileLimits,
        zone_maps: ZoneMapBuilder | None,
        dictionaries: dict[int, pa.Array],
    ) -> None:
        self._folder = folder
        self._schema = schema
        self._version = version
        self._limits = limits
        self._zone_maps = zone_maps
        self._dictionaries = dictionaries
        self._max_rows = limits.rows_of_file(version)
        self._open: DataFileWriter | None = None
        self._name = ""
        self._fragments: list[Fragment] = []

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            if self._open is None:
                self._name = data_file_name()
                sink = ByteSink(self._folder / self._name)
                self._open = open_writer(
                    sink,
                    self._schema,
                    version=self._version,
                    rows_per_group=self._limits.rows_per_group,
                    dictionaries=self._dictionaries,
                )
            room = self._max_rows - self._open.num_rows
            arrays = conform(batch.slice(0, room), self._schema)
            self._open.write_batch(arrays)
            if self._zone_maps is not None:
                self._zone_maps.add(arrays)
            batch = batch.slice(room)
            if self._open.num_rows >= self._max_rows or self._open.position >= self._limits.max_bytes:
                self._finish_file()

    def finish(self) -> tuple[Fragment, ...]:
        self._finish_file()
        return tuple(self._fragments)

    def remove(self) -> None:
        """Remove all files, as far as the store lets us."""
        if self._open is not None:
            self._open.abort()
        for fragment in self._fragments:
            for file in fragment.files:
                with suppress(LanceError):
                    (self._folder / file.path).remove()

    def _finish_file(self) -> None:
        if self._open is None:
            return
        written = self._open.finish()
        self._open = None
        if self._zone_maps is not None:
            self._zone_maps.end_fragment()
        self._fragments.append(
            Fragment(id=0, files=(data_file(self._name, written),), physical_rows=written.num_rows)
        )


def data_file_name() -> str:
    """Return a new random name, whose start spreads over the key space of object stores."""
    random = uuid.uuid4().bytes
    return f"{int.from_bytes(random[:3]):024b}{random[3:].hex()}.lance"


def data_file(name: str, written: WrittenFile) -> DataFile:
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
    )
