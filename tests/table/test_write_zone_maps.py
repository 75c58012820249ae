"""Zone maps that are built while rows are written: pylance lists them, uses them, and gets the same rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lance_df
from lance_df.errors import StorageError
from lance_df.table.maintenance import zone_map_files
from lance_df.table.writing import zone_map_writer

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = ("2.0", "2.1", "2.2")
N = 20_000


def make_table(first: int = 0) -> pa.Table:
    ids = np.arange(first, first + N)
    return pa.table(
        {
            "id": ids,
            "half": pa.array((ids % 1000).astype(np.float16)),
            "f": pa.array(
                [None if i % 7 == 0 else math.nan if i % 9000 == 1 else float(i) for i in ids.tolist()]
            ),
            "s": [f"{i:06d}" for i in ids.tolist()],
            "flag": pa.array(ids < first + N // 2),
            "day": pa.array(ids, pa.int32()).cast(pa.date32()),
            "at": pa.array(ids, pa.timestamp("us", "UTC")),
            "lasts": pa.array(ids, pa.duration("ms")),
            "price": pa.array(ids).cast(pa.decimal128(30, 2)),
            "empty": pa.nulls(N, pa.int64()),
            "list": pa.array([[1]] * N),
            "essay": ["x" * 5000 if i == 5 else "a" for i in range(N)],
        }
    )


FILTERS = [
    "id = 12345", "id < 10", "f > 19990", "f < 3", "f is null", "isnan(f)", "s = '000077'", "flag = false",
    "day = date '1970-02-03'", "at > timestamp '1970-01-01 00:00:00.015'", "price = 5", "empty is null",
    "half = 5.0", "id in (1, 15000)",
]  # fmt: skip


def zones(uri: str, name: str) -> list[dict[str, Any]]:
    (index,) = [found for found in lance_df.dataset(uri).list_indices() if found["name"] == name]
    return LanceFileReader(f"{uri}/_indices/{index['uuid']}/zonemap.lance").read_all().to_table().to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_pylance_uses_them(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(
        make_table(), uri, statistics=True, max_rows_per_file=12_000, data_storage_version=version
    )
    ours = lance_df.write_dataset(make_table(N), uri, mode="append", statistics=True)
    assert ours.version == 4
    theirs = lance.dataset(uri)
    theirs.validate()
    names = {index.name for index in theirs.describe_indices()}
    assert names == {f"{name}_zonemap" for name in make_table().column_names if name not in ("list", "essay")}
    for text in FILTERS:
        expected = theirs.scanner(filter=text, use_scalar_index=False, columns=["id"]).to_table()
        assert theirs.scanner(filter=text, columns=["id"]).to_table().equals(expected), text
        assert ours.to_table(columns=["id"], filter=text).equals(expected), text
        assert expected.num_rows, text
    plan = theirs.scanner(filter="id = 12345").explain_plan(verbose=True)
    assert "ScalarIndexQuery: query=[id = 12345]@id_zonemap(ZoneMap)" in plan
    theirs.optimize.optimize_indices()
    theirs.delete("id < 100")
    theirs.optimize.compact_files()
    assert lance.dataset(uri).count_rows("id >= 0 and id < 39999") == 2 * N - 101
    assert lance_df.dataset(uri).count_rows("id >= 0 and id < 39999") == 2 * N - 101


def test_zones_are_cut_within_fragments(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = make_table().select(["id"])
    # batches of odd sizes: zones do not follow them
    batches = table.to_batches(max_chunksize=777)
    lance_df.write_dataset(iter(batches), uri, schema=table.schema, statistics=True, max_rows_per_file=10_000)
    assert zones(uri, "id_zonemap") == [
        {
            "min": start,
            "max": start + length - 1,
            "null_count": 0,
            "nan_count": 0,
            "fragment_id": start // 10_000,
            "zone_start": start % 10_000,
            "zone_length": length,
        }
        for start, length in ((0, 8192), (8192, 1808), (10_000, 8192), (18_192, 1808))
    ]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_bounds_of_floats(tmp_path: Path, kind: pa.DataType) -> None:
    uri = str(tmp_path / "t.lance")
    values = pa.array([0.0, None, math.nan, -0.0, 1.0] + [-1.0] * 10, pa.float64()).cast(kind)
    lance_df.write_dataset(pa.table({"f": values}), uri, statistics=True)
    (zone,) = zones(uri, "f_zonemap")
    assert (zone["min"], zone["null_count"], zone["nan_count"]) == (-1.0, 1, 1)
    assert math.isnan(zone["max"])
    # zeros of both signs are inside of the bounds, in an order that tells them apart
    lance_df.write_dataset(
        pa.table({"f": pa.array([0.0, -0.0], pa.float64()).cast(kind)}),
        uri,
        mode="overwrite",
        statistics=True,
    )
    (zone,) = zones(uri, "f_zonemap")
    assert (math.copysign(1, zone["min"]), math.copysign(1, zone["max"])) == (-1, 1)
    lance_df.write_dataset(
        pa.table({"f": pa.array([math.nan] * 3).cast(kind)}), uri, mode="overwrite", statistics=True
    )
    (zone,) = zones(uri, "f_zonemap")
    assert zone["min"] is None
    assert math.isnan(zone["max"])


def test_a_zone_map_of_pylance_is_extended(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = make_table().select(["id"])
    lance.write_dataset(table, uri).create_scalar_index("id", "ZONEMAP")
    lance_df.write_dataset(make_table(N).select(["id"]), uri, mode="append", statistics=True)
    theirs = lance.dataset(uri)
    (index,) = theirs.describe_indices()
    assert (index.name, len(index.segments)) == ("id_idx", 2)
    assert theirs.count_rows("id = 5") == theirs.count_rows(f"id = {N + 5}") == 1


def test_rows_without_statistics_are_rows_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t.lance")

    def fail(*_: Any, **__: Any) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr(zone_map_writer, "commit", fail)
    with pytest.warns(
        RuntimeWarning, match="version 1 was committed, but its statistics could not be computed: disk full"
    ):
        found = lance_df.write_dataset(make_table(), uri, statistics=True)
    assert found.version == 1
    assert lance.dataset(uri).count_rows() == N
    assert not list((tmp_path / "t.lance/_indices").iterdir())


def test_no_suitable_column_makes_no_version(tmp_path: Path) -> None:
    table = pa.table({"list": pa.array([[1], [2]])})
    assert lance_df.write_dataset(table, str(tmp_path / "t.lance"), statistics=True).version == 1
    empty = pa.table({"a": pa.array([], pa.int64())})
    assert lance_df.write_dataset(empty, str(tmp_path / "e.lance"), statistics=True).version == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_small_files_are_those_of_the_writer_of_large_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    contents = []
    for name, most in (("small", zone_map_files._MAX_SMALL_BYTES), ("large", 0)):
        monkeypatch.setattr(zone_map_files, "_MAX_SMALL_BYTES", most)
        uri = str(tmp_path / name)
        lance_df.write_dataset(
            make_table(), uri, statistics=True, max_rows_per_file=12_000, data_storage_version=version
        )
        indices = sorted(lance_df.dataset(uri).list_indices(), key=lambda index: index["name"])
        contents.append(
            [(tmp_path / name / "_indices" / each["uuid"] / "zonemap.lance").read_bytes() for each in indices]
        )
    assert len(contents[0]) == 10
    assert contents[0] == contents[1]
