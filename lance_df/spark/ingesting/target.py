"""The target of an ingest and its table of rejects, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from lance_df.api.namespaces.namespace import PartitionedNamespace
from lance_df.dataset import LanceDataset
from lance_df.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    DatasetNotFoundError,
    InvalidInputError,
)
from lance_df.namespace.snapshot import NamespaceSnapshot, holds_namespace
from lance_df.namespace.spec.partition_by import resolve_all
from lance_df.records import dataclass
from lance_df.spark.column_names import partition_fields
from lance_df.spark.ingesting.checked_rows import BAD_FIELDS, TargetColumn
from lance_df.spark.types import arrow_schema, check_collations, spark_schema
from lance_df.spark.writing import has_run, run_mark
from lance_df.storage import open_location
from lance_df.table.maintenance.zone_map_coverage import lacks_zone_maps
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from lance_df.namespace.kind import Source
    from lance_df.spark.ingesting.job import IngestJob


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a job; ``source`` is None if it does not exist yet."""

    job: IngestJob
    source: Source | None

    @classmethod
    def open(cls, job: IngestJob) -> Target:
        """Open the newest version.

        Raises
        ------
        InvalidInputError
            The job has partition fields, and the target is a table or has other fields; or the job
            overwrites partitions, and the target has none.
        """
        target = cls(job, _opened(job.target, job.storage_options))
        target._check()
        return target

    @property
    def snapshot(self) -> NamespaceSnapshot | None:
        """The namespace, or None if the target is not one."""
        return None if self.source is None else self.source.namespace

    @property
    def version(self) -> int | None:
        """The version of the target, or None if it does not exist."""
        return None if self.source is None else self.source.version

    def has(self, run: str) -> bool:
        """Whether the target has the rows of a run."""
        return self.source is not None and has_run(self.source, run_mark(run))

    @property
    def lacks_statistics(self) -> bool:
        """Whether a table lacks zone maps that a run writes in a version after that of the rows.

        In a namespace, zone maps become visible together with the rows.
        """
        if not self.job.statistics or self.source is None or self.source.is_partitioned:
            return False
        return lacks_zone_maps(self.source.committed_table)

    def columns(
        self, rows: StructType, wanted: StructType | None, *, case_sensitive: bool
    ) -> list[TargetColumn]:
        """Return the columns to convert rows to.

        Parameters
        ----------
        rows
            The schema of the rows.
        wanted
            The schema of the job.
        case_sensitive
            Whether names that differ only in case are different columns.

        Raises
        ------
        ColumnNotFoundError
            A column of ``sort_by`` does not exist.
        UnsupportedFeatureError
            A column of a new target has a collation.
        """
        keeps_columns = self.snapshot is not None or self.job.mode == "append"
        if self.source is not None and keeps_columns:
            stored = self.source.arrow_schema
            known = spark_schema(stored)
            columns = [
                TargetColumn(
                    StructField(each.name, each.dataType, each.nullable), stored.field(each.name).type
                )
                for each in known
            ]
        else:
            columns = [TargetColumn(each) for each in (rows if wanted is None else wanted)]
            check_collations(struct_of(columns))
        names = [each.field.name for each in columns]
        known_names = names if case_sensitive else [name.lower() for name in names]
        for name in self.job.sort_by:
            if (name if case_sensitive else name.lower()) not in known_names:
                raise ColumnNotFoundError(
                    f"sort_by: column {name!r} does not exist; the columns are {', '.join(names)}"
                )
        return columns

    def made(self, columns: StructType, *, case_sensitive: bool) -> Target:
        """Return the target after creating the namespace of the job, if there is none yet."""
        job = self.job
        if self.source is not None or not job.partition_by:
            return self
        schema = arrow_schema(columns)
        try:
            PartitionedNamespace.create(
                job.target,
                schema,
                partition_fields(job.partition_by, schema, case_sensitive=case_sensitive),
                storage_options=dict(job.storage_options) or None,
            )
        except AlreadyExistsError:
            if not holds_namespace(_location(job.target, job.storage_options)):
                raise
        return Target.open(job)

    def _check(self) -> None:
        job, snapshot = self.job, self.snapshot
        if snapshot is None:
            if self.source is not None and job.partition_by:
                raise InvalidInputError(f"{job.target} is a table and cannot be partitioned")
            if job.mode == "overwrite-partitions" and not job.partition_by:
                raise InvalidInputError(
                    f"{job.target} is not a partitioned namespace, so it has no partitions to overwrite"
                )
        elif job.partition_by:
            specs = snapshot.manifest.specs
            schema = snapshot.manifest.schema
            # before a session says whether case matters; an exact match comes first in any case
            fields = partition_fields(job.partition_by, schema.arrow, case_sensitive=False)
            wanted = resolve_all(fields, schema, specs)
            if wanted != specs.current.fields:
                there = ", ".join(str(field) for field in specs.current.fields)
                raise InvalidInputError(
                    f"{job.target} is partitioned by {there}, not by {', '.join(job.partition_by)}"
                )


def rejects_have(job: IngestJob, run: str) -> bool:
    """Whether the rejects of a run are in their table; True for a job without a table of rejects."""
    if job.rejects is None:
        return True
    source = _opened(job.rejects, job.storage_of_rejects)
    return source is not None and has_run(source, run_mark(run))


def prepare_rejects(job: IngestJob) -> None:
    """Add the columns that a table of rejects of an earlier release lacks; existing rows get NULL."""
    if job.rejects is None:
        return
    source = _opened(job.rejects, job.storage_of_rejects)
    if source is None:
        return
    missing = [pa.field(name, pa.string()) for name in BAD_FIELDS if name not in source.arrow_schema.names]
    if missing:
        storage = dict(job.storage_of_rejects) or None
        if source.is_partitioned:
            PartitionedNamespace.open(job.rejects, storage_options=storage).add_columns(pa.schema(missing))
        else:
            LanceDataset(job.rejects, storage_options=storage).add_columns(pa.schema(missing))


def struct_of(columns: Sequence[TargetColumn]) -> StructType:
    """Return columns as a Spark schema."""
    return StructType([each.field for each in columns])


def stored_schema(columns: Sequence[TargetColumn]) -> pa.Schema:
    """Return columns in the types of the files, or in the null type where they have Spark's type."""
    return pa.schema([(each.field.name, each.stored or pa.null()) for each in columns])


def _opened(path: str, storage: Mapping[str, Any]) -> Source | None:
    location = _location(path, storage)
    if holds_namespace(location):
        return NamespaceSnapshot.open(location)
    try:
        return open_table(path, storage_options=dict(storage) or None)
    except DatasetNotFoundError:
        return None


def _location(path: str, storage: Mapping[str, Any]) -> Any:
    return open_location(path, dict(storage) or None)
