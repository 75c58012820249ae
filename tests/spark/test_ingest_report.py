"""Reports of ingests: whatever becomes of the write, nothing is left in the temporary folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StringType, StructField, StructType

from lance_df.spark.ingesting import report as report_module
from lance_df.spark.ingesting.report import (
    PREFIX,
    Report,
    ReportFolder,
    ReportSource,
    make_folder,
    placed,
)

SCHEMA = StructType([StructField("report", StringType())])


class Reads:
    """The reads of a session of Spark Connect: the driver has this machine's temporary folder."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {}

    def format(self, name: str) -> Reads:
        assert name == ReportSource.name()
        return Reads()

    def option(self, name: str, value: str) -> Reads:
        self._options[name] = value
        return self

    def load(self, path: str) -> Reads:
        self._options["path"] = path
        return self

    def collect(self) -> list[tuple[Any]]:
        reader = ReportSource(self._options).reader(SCHEMA)
        try:
            parts = reader.partitions()
        except OSError as err:
            raise PySparkException(str(err)) from err
        return [(batch["report"][0].as_py(),) for part in parts for batch in reader.read(part)]


@pytest.fixture(params=["driver here", "connect"])
def spark(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(report_module, "make_known", lambda *_: None)
    return SimpleNamespace(_sc=None if request.param == "connect" else object(), read=Reads())


def test_a_report_is_read_and_removed(spark: Any, tmp_path: Path) -> None:
    wanted = Report(rows_in=3, rows_out=2, rejected=1, version=7, error=("StorageError", "full"))
    with ReportFolder.made(spark) as folder:
        make_folder(placed(folder.name))
        [made] = tmp_path.iterdir()
        assert (made.name.startswith(PREFIX), made.stat().st_mode & 0o777) == (True, 0o700)
        wanted.write(placed(folder.name))
        assert folder.read() == folder.read() == wanted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_write_that_fails_leaves_no_folder(spark: Any, tmp_path: Path, has_folder: bool) -> None:
    def fail() -> None:
        with ReportFolder.made(spark) as folder:
            if has_folder:
                make_folder(placed(folder.name))
            raise PySparkException("the write failed")

    with pytest.raises(PySparkException, match="the write failed"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_folders_of_others_stay(spark: Any, tmp_path: Path) -> None:
    other = tmp_path / f"{PREFIX}other"
    other.mkdir()
    (other / "report.json").touch()
    with ReportFolder.made(spark) as folder:
        make_folder(placed(folder.name))
        Report().write(placed(folder.name))
    assert [path.name for path in tmp_path.rglob("*")] == [other.name, "report.json"]
