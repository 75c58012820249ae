"""One Spark session for all tests of a worker: a JVM takes seconds to start."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lance_df

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PRELOAD = Path(__file__).resolve().parent / "preload"


@pytest.fixture(scope="session")
def spark_conf() -> dict[str, str]:
    """Return settings for small jobs, which are over before a JVM has compiled well what they take."""
    return {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "OFF",
        "spark.python.task.killTimeout": "100ms",
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_conf: dict[str, str]) -> Iterator[SparkSession]:
    """Return a session with two workers, that knows the data source."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(PRELOAD), str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["PRELOAD_IN_WORKERS"] = (
        "lance_df.spark.source lance_df.spark.reading lance_df.spark.streaming pyspark.sql.pandas.functions"
    )
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        # else every worker would compile all that it imports
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "lance_df-pycache")
    from pyspark.sql import SparkSession

    from lance_df.spark.arrow_checks import leave_out_on_driver

    builder = SparkSession.builder.master("local[2, 2]")  # two attempts for each task
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    for key, value in spark_conf.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    # as in sessions that lance_df starts
    leave_out_on_driver(session)
    lance_df.spark.register(session)
    yield session
    session.stop()
