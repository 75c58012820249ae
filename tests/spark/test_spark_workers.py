"""Python workers of Spark that are used again do not look through modules for garbage."""

from __future__ import annotations

import gc
import operator

import pyarrow as pa
import pytest

import lance_df

pytestmark = pytest.mark.spark


@pytest.fixture
def table(tmp_path):
    lance_df.write_dataset(pa.table({"id": pa.array(range(10), pa.int64())}), tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


@pytest.fixture
def new_workers(monkeypatch):
    from lance_df.spark import workers

    monkeypatch.setattr(workers, "_num_frozen", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("is_reused", [True, False])
def test_modules_are_kept_only_in_workers_that_are_used_again(table, new_workers, monkeypatch, is_reused):
    from lance_df.spark import workers
    from lance_df.spark.opened import SourceRef, open_source
    from lance_df.spark.options import SourceOptions

    options = SourceOptions(table)
    ref = SourceRef.of(open_source(options), options)
    workers._num_frozen = 0
    gc.unfreeze()
    if is_reused:
        monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    ref.open()
    assert (gc.get_freeze_count() > 10_000) == is_reused
    if is_reused:
        later = [[number] for number in range(1000)]
        ref.open()  # nothing was imported in between
        assert {id(each) for each in later} <= {id(each) for each in gc.get_objects()}


def test_workers_that_read_keep_their_modules(spark, table):
    from lance_df.spark.pipeline.tasks import run_in_tasks

    for _ in range(2):
        assert lance_df.spark.read(spark, table).count() == 10
    assert max(run_in_tasks(spark, operator.call, [gc.get_freeze_count] * 2)) > 10_000
