"""What scans of Spark keep, in the log."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pyarrow as pa
import pytest

import lance_df
from lance_df.engine import query
from lance_df.spark.source import LanceSource

pytestmark = pytest.mark.spark


@pytest.fixture
def months(tmp_path):
    """A namespace of 12 partitions."""
    rows = pa.table({"month": pa.array([number % 12 for number in range(600)], pa.int32()), "n": range(600)})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "months", rows.schema, ["identity(month)"])
    namespace.append(rows)
    return str(tmp_path / "months")


def planned(path, **options):
    source = LanceSource({"path": path, **options})
    return source.reader(source.schema()).partitions()


def test_a_scan_logs_what_it_keeps(months, caplog):
    with caplog.at_level(logging.INFO, "lance_df"):
        splits = planned(months, filter="month = 3", columns="n")
    [text] = [record.getMessage() for record in caplog.records if "Spark reads" in record.getMessage()]
    assert months in text
    assert "partitions 1 of 12" in text
    assert text.endswith(f"in {len(splits)} tasks")


def test_nothing_is_planned_twice_for_a_log_that_nobody_reads(months, caplog, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("planned for the log")

    monkeypatch.setattr(query, "plan_with_sql", fail)
    with caplog.at_level(logging.WARNING, "lance_df"):
        assert planned(months, filter="month = 3")


def test_processes_of_spark_write_to_stderr_as_the_environment_says(months):
    program = (
        "from lance_df.spark.source import LanceSource\n"
        f"source = LanceSource({{'path': {months!r}, 'filter': 'month > 9'}})\n"
        "source.reader(source.schema()).partitions()\n"
    )

    def said(**environment):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | environment,
        )
        return done.returncode, done.stderr

    code, text = said(LANCE_DF_LOG="info")
    assert code == 0
    assert "INFO lance_df: Spark reads" in text
    assert "partitions 2 of 12" in text
    assert said(LANCE_DF_LOG="") == (0, "")
    code, text = said(LANCE_DF_LOG="loud")
    assert code == 1
    assert "InvalidInputError" in text
    assert "'loud'" in text
