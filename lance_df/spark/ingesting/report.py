"""Pass the report on the commit of an ingest from the Spark driver, which commits, to the caller."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lance_df.records import dataclass
from lance_df.spark.failures import OF_SPARK
from lance_df.spark.sessions import is_connect, make_known

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PREFIX: Final = "lance_df-ingest-"
"""The prefix of the folders of reports among the temporary files of the driver's machine."""

_REPORT: Final = "report.json"
_REMOVES: Final = "removes"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of the commit of a run.

    Attributes
    ----------
    rows_in, rejected
        The number of rows that arrived, and of those that do not fit.
    rows_out, files, bytes, partitions, version
        The additions to the target; the version is None if an earlier run made them.
    rejects_version
        The new version of the table of rejects.
    error
        The name and message of the error that prevented the commit of the rejects, which are missing then.
    """

    rows_in: int = 0
    rejected: int = 0
    rows_out: int = 0
    files: int = 0
    bytes: int = 0
    partitions: int | None = None
    version: int | None = None
    rejects_version: int | None = None
    error: tuple[str, str] | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the report that the sink has written to a folder; see `sink_options`."""
        return cls.parse(_text(folder))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a report."""
        fields = json.loads(text)
        return cls(**{**fields, "error": fields["error"] and tuple(fields["error"])})

    def write(self, folder: Path) -> None:
        """Write the report to a folder."""
        (folder / _REPORT).write_text(json.dumps(asdict(self)), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """A folder on the driver's machine for the report of one write, given by its path or a name."""

    spark: SparkSession
    name: str

    @classmethod
    @contextmanager
    def made(cls, spark: SparkSession) -> Iterator[Self]:
        """Create a folder, and remove it afterwards.

        With Spark Connect, the client has no access to the driver's machine: the sink creates the folder, and
        `ReportSource` reads and removes it.
        """
        if not is_connect(spark):
            with tempfile.TemporaryDirectory(prefix=PREFIX) as path:
                yield cls(spark, path)
            return
        folder = cls(spark, f"{PREFIX}{uuid.uuid4()}")
        try:
            yield folder
        finally:
            # errors of the removal are ignored, so that an error of the write is raised
            with suppress(*OF_SPARK):
                folder._from_driver(removes=True)

    def read(self) -> Report:
        """Return the report that the sink has written."""
        if not is_connect(self.spark):
            return Report.read(Path(self.name))
        return Report.parse(self._from_driver(removes=False))

    def _from_driver(self, *, removes: bool) -> str:
        make_known(self.spark, ReportSource)
        reader = self.spark.read.format(ReportSource.name()).option(_REMOVES, str(removes).lower())
        [row] = reader.load(self.name).collect()
        return str(row[0])


def placed(name: str) -> Path:
    """Return the path of a named folder on the driver's machine; a path is returned as it is."""
    return Path(tempfile.gettempdir(), name)


def make_folder(folder: Path) -> None:
    """Create a folder, which has a random name, if it does not exist."""
    folder.mkdir(mode=0o700, exist_ok=True)


def _remove(folder: Path) -> None:
    """Remove a report, and its folder if nothing else is in it."""
    with suppress(OSError):
        (folder / _REPORT).unlink(missing_ok=True)
        folder.rmdir()


def _text(folder: Path) -> str:
    return (folder / _REPORT).read_text(encoding="utf-8")


class ReportSource(DataSource):
    """Reads a report on the driver's machine, or removes it and returns an empty text."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "lance_df_ingest_report"

    def schema(self) -> str:
        """Return a schema with one text column."""
        return "report string"

    def reader(self, schema: StructType) -> _ReportReader:  # noqa: ARG002 - Spark's, not ours
        """Return a reader of one row."""
        removes = self.options.get(_REMOVES) == "true"
        return _ReportReader(placed(self.options["path"]), removes=removes)


class _ReportReader(DataSourceReader):
    def __init__(self, folder: Path, *, removes: bool) -> None:
        self._folder = folder
        self._removes = removes

    def partitions(self) -> Sequence[InputPartition]:
        # runs on the driver's machine, unlike `read`
        if self._removes:
            _remove(self._folder)
            return [InputPartition("")]
        return [InputPartition(_text(self._folder))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([partition.value])], ["report"])
