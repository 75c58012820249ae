"""What the commit of an ingest tells: from the driver of Spark, where it runs, to who has asked for it."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lance_df.records import dataclass
from lance_df.spark.sessions import is_connect, make_known

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PREFIX: Final = "lance_df-ingest-"
"""The names of folders of reports begin with it, among the temporary files of the driver's machine."""

_REPORT: Final = "report.json"
_READ_WITHIN_SECONDS: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Report:
    """What the commit of a run did.

    Attributes
    ----------
    rows_in, rejected
        Rows that came, and those of them that do not fit.
    rows_out, files, bytes, partitions, version
        What was added to the target; no version if an earlier run did that.
    rejects_version
        Of the table of rejects.
    error
        What was raised when the rejects were to be made visible, as name and message: they are missing.
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
        """Read what the sink has left in a folder; see `sink_options`."""
        return cls.parse(_text(folder))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a report."""
        found = json.loads(text)
        return cls(**{**found, "error": found["error"] and tuple(found["error"])})

    def write(self, folder: Path) -> None:
        """Leave it in a folder."""
        (folder / _REPORT).write_text(json.dumps(asdict(self)), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """A folder of the driver's machine for one write: its path, or a name for the driver to place."""

    spark: SparkSession
    name: str

    @classmethod
    @contextmanager
    def made(cls, spark: SparkSession) -> Iterator[Self]:
        """Make one, and remove it afterwards.

        Through Spark Connect nothing of the driver's machine can be seen: the sink makes the folder, and
        later writes remove it.
        """
        if is_connect(spark):
            yield cls(spark, f"{PREFIX}{uuid.uuid4()}")
            return
        folder = tempfile.mkdtemp(prefix=PREFIX)
        try:
            yield cls(spark, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def read(self) -> Report:
        """Return what the sink has left there."""
        if not is_connect(self.spark):
            return Report.read(Path(self.name))
        make_known(self.spark, ReportSource)
        [row] = self.spark.read.format(ReportSource.name()).load(self.name).collect()
        return Report.parse(row[0])


def placed(name: str) -> Path:
    """Return the folder of a name, on the driver's machine; a path stands for itself."""
    return Path(tempfile.gettempdir(), name)


def make_folder(folder: Path) -> None:
    """Make a folder for a report, if it is not there, and remove those that nobody reads any more."""
    oldest = time.time() - _READ_WITHIN_SECONDS
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone meanwhile
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _text(folder: Path) -> str:
    return (folder / _REPORT).read_text(encoding="utf-8")


class ReportSource(DataSource):
    """Reads the report of a folder where the driver is."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "lance_df_ingest_report"

    def schema(self) -> str:
        """One text."""
        return "report string"

    def reader(self, schema: StructType) -> _ReportReader:  # noqa: ARG002 - Spark's, not ours
        """Return a reader of one row."""
        return _ReportReader(placed(self.options["path"]))


class _ReportReader(DataSourceReader):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def partitions(self) -> Sequence[InputPartition]:
        # on the driver's machine, unlike `read`
        return [InputPartition(_text(self._folder))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([partition.value])], ["report"])
