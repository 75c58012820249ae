"""What sessions are started with."""

from __future__ import annotations

import os
import sys

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_df
from lance_df.spark import arrow_checks, sessions

pytestmark = pytest.mark.spark

UNSAFE, NULLS = "arrow.enable_unsafe_memory_access", "arrow.enable_null_check_for_get"


class Builder:
    """Starts nothing, and keeps what it was told."""

    def __init__(self, spark):
        self.conf = {}
        self.spark = spark

    def master(self, _):
        return self

    def config(self, key, value):
        self.conf[key] = value
        return self

    def getOrCreate(self):
        return self.spark


@pytest.fixture
def builder(spark, monkeypatch):
    builder = Builder(spark)
    monkeypatch.setattr(SparkSession, "builder", builder)
    return builder


@pytest.fixture
def system(spark):
    system = spark._sc._jvm.java.lang.System
    former = {name: system.getProperty(name) for name in (UNSAFE, NULLS)}
    yield system
    for name, value in former.items():
        system.setProperty(name, value)


SOCKETS = "spark.python.unix.domain.socket.enabled"


def test_a_spark_that_is_started_does_without_checks_unless_told_otherwise(builder, system, monkeypatch):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "is_running", lambda: False)
    system.clearProperty(UNSAFE)
    system.setProperty(NULLS, "true")
    of_executors = "spark.executorEnv.ARROW_ENABLE_NULL_CHECK_FOR_GET"
    sessions.session("local[2]", conf={of_executors: "true"})
    assert (system.getProperty(UNSAFE), system.getProperty(NULLS)) == ("true", "true")
    assert builder.conf == {**arrow_checks.EXECUTORS, of_executors: "true", SOCKETS: "true"}
    system.clearProperty(NULLS)
    sessions.session("local[2]")
    assert system.getProperty(NULLS) == "false"


def test_workers_of_this_machine_have_unix_sockets_unless_told_otherwise(builder, system, monkeypatch):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "is_running", lambda: False)
    for master, conf, expected in (
        ("local[2]", {}, "true"),
        (None, {}, "true"),
        ("local[2]", {SOCKETS: "false"}, "false"),
        ("spark://elsewhere:7077", {}, None),
    ):
        builder.conf.clear()
        sessions.session(master, conf=conf)
        assert builder.conf.get(SOCKETS) == expected


def test_workers_run_the_python_of_the_session_unless_told_otherwise(builder, monkeypatch):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "is_running", lambda: False)
    for master, conf, python in (
        ("local[2]", {}, sys.executable),
        ("local[2]", {"spark.pyspark.python": "/other"}, None),
        ("spark://elsewhere:7077", {}, None),
    ):
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
        sessions.session(master, conf=conf)
        assert os.environ.get("PYSPARK_PYTHON") == python
    monkeypatch.setenv("PYSPARK_PYTHON", "/mine")
    sessions.session("local[2]")
    assert os.environ["PYSPARK_PYTHON"] == "/mine"


def test_a_spark_that_runs_is_left_as_it_is(builder, system):
    system.clearProperty(UNSAFE)
    sessions.session("local[2]")
    assert system.getProperty(UNSAFE) is None
    assert builder.conf == {}


def test_the_settings_are_those_that_arrow_knows(spark, tmp_path):
    lance_df.write_dataset(pa.table({"k": [1, None]}), tmp_path / "t.lance")
    assert sorted(map(str, lance_df.spark.read(spark, tmp_path / "t.lance").toArrow()["k"])) == ["1", "None"]
    arrow = spark._sc._jvm.org.apache.arrow
    assert not arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED
    assert not arrow.vector.NullCheckingForGet.NULL_CHECKING_ENABLED
