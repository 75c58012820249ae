"""The description of an ingest: named sources, a query over them, and a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any, Final

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.spark.distribution import HASH, check_distribution
from lance_df.storage import open_location

LANCE: Final = "lance"
MODES: Final = ("append", "overwrite", "overwrite-partitions")

_FORMATS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".lance": LANCE,
}
_COMPRESSED: Final = frozenset({".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz"})


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSource:
    """Rows to read, which are the view ``name`` in the query.

    Attributes
    ----------
    format
        Any format that Spark knows, or ``"lance"`` for a table or a namespace. By default it follows from the
        names of the files.
    paths
        Files, folders or patterns as Spark takes them; exactly one path for ``lance``.
    table
        A table of a Spark catalog, in place of ``paths``.
    schema
        The columns as in Spark's DDL, ``"id BIGINT, at TIMESTAMP"``, for formats without a schema.
    options
        Options of the format.
    storage_options
        For ``lance``: options for the fsspec filesystem.
    """

    name: str = "source"
    format: str | None = None
    paths: tuple[str, ...] = ()
    table: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        where = f"source {self.name!r}"
        if not self.name:
            raise InvalidInputError("a source must have a name")
        if self.table is not None and (self.paths or self.format is not None or self.schema is not None):
            raise InvalidInputError(
                f"{where} must have either a table, or paths, a format and a schema, but not both"
            )
        if self.table is None and self.format is None:
            if not self.paths:
                raise InvalidInputError(f"{where} must have a path, a table, or a format that needs neither")
            object.__setattr__(self, "format", format_of(self.paths[0]))
        if self.format == LANCE and (len(self.paths) != 1 or self.schema is not None):
            raise InvalidInputError(f"{where}: a Lance source must have exactly one path and no schema")
        if self.storage_options and self.format != LANCE:
            raise InvalidInputError(
                f"{where}: storage options are only supported for Lance; Spark reads {self.format} with "
                "the settings in conf"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestJob:
    """The description of one ingest.

    Attributes
    ----------
    sources
        The sources, each a view for the query.
    target
        The path of a partitioned namespace or of a table. If it does not exist, it is created: a namespace if
        ``partition_by`` is given, else a table.
    sql
        A Spark SQL query; by default all rows of the only source.
    mode
        ``"append"``; ``"overwrite"``: the target has only the new rows afterwards, and a table only their
        columns; ``"overwrite-partitions"``: only partitions that have new rows are replaced.
    partition_by
        Partition fields such as ``month(ts)``, ``bucket(id, 16)`` or ``expression('ascii(col0)', name)``. An
        existing namespace must have the same fields.
    sort_by
        Columns by which the rows of a file are sorted.
    schema
        The columns to convert rows to, as in Spark's DDL. A target that keeps its columns uses those instead.
    statistics
        Whether to write zone maps of the new rows.
    max_rows_per_file, max_bytes_per_file
        The size at which a task starts the next data file.
    distribution
        ``"hash"`` shuffles the rows by partition before they are written; for ``"none"`` see
        `lance_df.spark.append`.
    storage_options
        Options for the fsspec filesystem of the target.
    rejects
        The path of a table for rows that do not fit. Without it, the job fails at the first such row.
    rejects_storage_options
        Options for the fsspec filesystem of ``rejects``; by default those of the target.
    id
        A name for the job. If an ingest with the same name is complete, another one adds nothing.
    master, conf
        Settings of the Spark session.

    Raises
    ------
    InvalidInputError
        The attributes contradict each other.
    """

    sources: tuple[IngestSource, ...]
    target: str
    sql: str | None = None
    mode: str = "append"
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    schema: str | None = None
    statistics: bool = False
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    distribution: str = HASH
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    rejects: str | None = None
    rejects_storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    id: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InvalidInputError(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}")
        if not self.target:
            raise InvalidInputError("an ingest needs a target: the path of a table or a namespace")
        if not self.sources:
            raise InvalidInputError("an ingest needs a source")
        if len(self.sources) > 1 and self.sql is None:
            raise InvalidInputError(f"{len(self.sources)} sources require a query that combines them")
        names = [source.name.lower() for source in self.sources]
        if len(set(names)) < len(names):
            raise InvalidInputError(f"names of sources must not differ only in case: {', '.join(names)}")
        if self.id == "":
            raise InvalidInputError("the id of an ingest must not be empty")
        for name, number in (
            ("max_rows_per_file", self.max_rows_per_file),
            ("max_bytes_per_file", self.max_bytes_per_file),
        ):
            if number is not None and number < 1:
                raise InvalidInputError(f"{name} must be at least 1, got {number}")
        check_distribution(self.distribution)
        self._check_rejects()

    def _check_rejects(self) -> None:
        if self.rejects is None:
            return
        if not self.rejects:
            raise InvalidInputError("the table of rejects needs a path")
        target = open_location(self.target, dict(self.storage_options) or None).uri.rstrip("/")
        rejects = open_location(self.rejects, dict(self.storage_of_rejects) or None).uri.rstrip("/")
        if f"{rejects}/".startswith(f"{target}/") or f"{target}/".startswith(f"{rejects}/"):
            raise InvalidInputError(
                "the table of rejects must not be inside or around the target: the table of rejects is "
                f"{rejects}, the target is {target}"
            )

    @property
    def storage_of_rejects(self) -> Mapping[str, Any]:
        """Options for the fsspec filesystem of the table of rejects."""
        return self.storage_options if self.rejects_storage_options is None else self.rejects_storage_options


def format_of(path: str) -> str:
    """Return the format of a file by the suffix of its name.

    Raises
    ------
    InvalidInputError
        The name has no known suffix.
    """
    suffixes = [suffix.lower() for suffix in PurePosixPath(path.rstrip("/")).suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    name = _FORMATS.get(suffixes[-1]) if suffixes else None
    if name is None:
        known = ", ".join(sorted(set(_FORMATS.values())))
        raise InvalidInputError(
            f"{path}: the format is unclear from the file name; specify one, such as {known}"
        )
    return name
