"""`upsert_batches` merges the batches of a stream by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.spark.pipeline.tasks import map_batches

pytestmark = pytest.mark.spark


def rows(path: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lance_df.dataset(path).to_table().to_pylist())


def test_the_rows_that_are_merged_are_those_whose_keys_are_checked(spark, tmp_path):
    path, seen = tmp_path / "t", tmp_path / "seen"
    lance_df.write_dataset(pa.table({"id": [1], "v": [0]}), path)

    def other_keys_in_a_second_run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            keys = [2, 2] if seen.exists() else [1, 2]
            seen.touch()
            yield pa.RecordBatch.from_pydict({"id": keys, "v": [7, 8]})

    one = spark.range(1, numPartitions=1)
    batch = map_batches(one, other_keys_in_a_second_run, "id long, v long")
    lance_df.spark.upsert_batches(path, on="id", sink_id="s")(batch, 0)
    assert rows(path) == [(1, 7), (2, 8)]


def test_clauses_are_added_by_a_function_whatever_it_returns(spark, tmp_path):
    path = tmp_path / "t"
    lance_df.write_dataset(pa.table({"id": [1], "v": [0]}), path)

    def clauses(merge: lance_df.spark.MergeBuilder) -> None:
        merge.when_matched_update({"v": "source.v + target.v"})

    batch = spark.sql("SELECT explode(array(1L, 2L)) AS id, 5L AS v")
    lance_df.spark.upsert_batches(path, on="id", sink_id="s", clauses=clauses)(batch, 0)
    assert rows(path) == [(1, 5)]
    with pytest.raises(InvalidInputError, match="clauses must be a function"):
        lance_df.spark.upsert_batches(path, on="id", sink_id="s", clauses="update")
