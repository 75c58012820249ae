"""What users may get wrong in namespaces, and values at the edges of types."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df

open_namespace = lance_df.PartitionedNamespace.open


def test_arguments_of_other_types_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "k": ["a", "b"]})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["k"])
    namespace.append(rows)
    calls: list[Any] = [
        *(lambda size=size: namespace.repartition(step_bytes=size) for size in ("x", None, 0, -5, 1.5, True)),
        *(lambda each=each: namespace.append(rows, statistics=each) for each in (-1, "yes", [])),
        lambda: namespace.overwrite_partitions(rows, statistics=-1),
        *(lambda each=each: open_namespace(tmp_path / "n", version=each) for each in (True, 1.0, "1", -1)),
        *(lambda each=each: namespace.at(each) for each in (True, 1.0, "1", -1)),
        lambda: namespace.drop_columns(None),
        lambda: namespace.alter_columns({"path": "k", "nullable": "x"}),
        lambda: namespace.append({"id": [2**63], "k": ["c"]}),
        lambda: namespace.append([{"id": 2**64, "k": "c"}]),
        lambda: lance_df.write_dataset({"id": [2**63]}, tmp_path / "t"),
    ]
    for call in calls:
        with pytest.raises(lance_df.InvalidInputError):
            call()
    assert namespace.to_table().num_rows == 2


def test_integers_of_numpy_are_integers(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "k": ["a", "b"]})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["k"])
    namespace.append(rows)
    for number, count in ((np.int64(1), 0), (np.uint8(2), 2)):
        assert open_namespace(tmp_path / "n", version=number).count_rows() == count
        assert namespace.at(number).count_rows() == count
    assert namespace.to_table(limit=np.int64(1)).num_rows == 1
    namespace.repartition(step_bytes=np.int64(100))
    namespace.cleanup_old_versions(retain_versions=np.int64(1), delete_rate_limit=np.int64(1000))
    assert namespace.count_rows() == 2


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC", None])
def test_ranges_at_the_ends_of_times_in_seconds(tmp_path: Path, zone: str | None) -> None:
    kind = pa.timestamp("s", zone)
    moments = pa.array([0, 86_400, 2**63 - 1, -(2**63) + 1, None], pa.int64()).cast(kind)
    rows = pa.table({"t": moments, "i": range(5)})
    for number, spec in enumerate(
        (["year(t)"], ["year(t)", "month(t)"], ["month(t)"], ["day(t)", "hour(t)"])
    ):
        namespace = lance_df.PartitionedNamespace.create(tmp_path / f"n{number}", rows.schema, spec)
        namespace.append(rows)
        for end in moments.drop_null():
            for condition in (pc.field("t") <= end, pc.field("t") >= end, pc.field("t") == end):
                found = namespace.to_table(filter=condition)["i"].to_pylist()
                assert sorted(found) == rows.filter(condition)["i"].to_pylist(), (spec, str(condition))
                assert namespace.count_rows(condition) == len(found)


@pytest.mark.engine
def test_groups_of_dictionaries_with_nulls_are_made_by_partition(tmp_path: Path) -> None:
    texts = pa.array(["a", None, "b", None, "a"] * 4, pa.dictionary(pa.int32(), pa.string()))
    rows = pa.table({"k": range(20), "j": texts, "v": range(20)})
    lance_df.PartitionedNamespace.create(tmp_path / "a", rows.schema, ["bucket(k, 4)"]).append(rows)
    ctx = lance_df.connect(str(tmp_path), partitioned_joins="always")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        groups = ctx.sql("SELECT k, j, count(*) AS n FROM a GROUP BY k, j ORDER BY k").to_pylist()
    assert groups == [{"k": k, "j": texts[k].as_py(), "n": 1} for k in range(20)]
