"""Blobs in files of their own go where the rows go, whoever makes the partition first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.blob import Blob, blob_array
from lance_df.errors import UnsupportedFeatureError

SIZES = (100, 200_000, 5_000_000)  # in the data file, beside others in a file, in a file of its own


def rows(keys: list[int], partition: int, size: int) -> pa.Table:
    blobs = blob_array([bytes([key]) * size for key in keys])
    return pa.table({"k": keys, "p": pa.array([partition] * len(keys), pa.int32()), "x": blobs})


def blobs(namespace: lance_df.PartitionedNamespace) -> dict[tuple[int, int], bytes]:
    """Return the blobs by partition and key, as both libraries read them."""
    read: list[dict[tuple[int, int], bytes]] = [{}, {}]
    for row in namespace.partitions().to_pylist():
        for api, values in zip((lance_df, lance), read, strict=True):
            member: Any = api.dataset(f"{namespace.uri}/{row['location']}", version=row["read_version"])
            table = member.to_table(columns=["k"], with_row_address=True)
            for key, address in zip(table["k"].to_pylist(), table["_rowaddr"].to_pylist(), strict=True):
                (blob,) = member.take_blobs("x", addresses=[address])
                values[row["p"], key] = blob.read()
    assert read[0] == read[1]
    return read[0]


@pytest.mark.parametrize("size", SIZES)
def test_two_writers_of_a_new_partition(tmp_path: Path, size: int) -> None:
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows([1], 0, 9).schema, ["p"])
    with namespace.transaction() as transaction:
        transaction.append(rows([1, 2], 0, size))
        lance_df.PartitionedNamespace.open(namespace.uri).append(rows([3], 0, size))
    assert blobs(namespace) == {(0, key): bytes([key]) * size for key in (1, 2, 3)}
    namespace.cleanup_old_versions(delete_unverified=True)
    assert not namespace.verify(deep=True).problems
    assert len(blobs(namespace)) == 3


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "change",
    [
        lambda transaction: transaction.update({"p": "9"}, "k = 1"),
        lambda transaction: transaction.upsert(pa.table({"k": [1], "p": pa.array([9], pa.int32())}), "k"),
    ],
    ids=["update", "upsert"],
)
def test_rows_that_come_to_a_new_partition_in_two_ways(
    tmp_path: Path, size: int, change: Callable[[Any], None]
) -> None:
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows([1], 0, 9).schema, ["p"])
    namespace.append(rows([1, 2], 0, size))
    with namespace.transaction() as transaction:
        transaction.append(rows([3], 9, size))
        change(transaction)
    assert blobs(namespace) == {(p, key): bytes([key]) * size for key, p in {1: 9, 2: 0, 3: 9}.items()}


def test_blobs_in_base_paths_of_one_partition_do_not_move(tmp_path: Path) -> None:
    """Another partition has no such base path, or another one of this number."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base/blob.bin").write_bytes(b"there")
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows([1], 0, 9).schema, ["p"])
    namespace.append(pa.concat_tables([rows([1], 0, 9), rows([2], 1, 9)]))
    (member,) = (row for row in namespace.partitions().to_pylist() if row["p"] == 0)
    uri = f"{namespace.uri}/{member['location']}"
    lance_df.dataset(uri).add_bases([lance_df.DatasetBasePath(str(tmp_path / "base"), "base", False)])
    new = blob_array([Blob.from_uri((tmp_path / "base/blob.bin").as_uri())])
    changed = lance_df.write_dataset(
        pa.table({"k": [5], "p": pa.array([0], pa.int32()), "x": new}), uri, mode="append"
    )
    manifest = lance.dataset(f"{namespace.uri}/__manifest")
    manifest.update({"read_version": str(changed.version)}, where=f"location = '{member['location']}'")
    namespace = lance_df.PartitionedNamespace.open(namespace.uri)
    expected = {(0, 1): bytes([1]) * 9, (0, 5): b"there", (1, 2): bytes([2]) * 9}
    assert blobs(namespace) == expected
    for change in (
        lambda: namespace.update({"p": "1"}, "k = 5"),
        lambda: namespace.upsert(pa.table({"k": [5], "p": pa.array([1], pa.int32())}), "k"),
    ):
        with pytest.raises(UnsupportedFeatureError, match="base paths of its own"):
            change()
        assert blobs(namespace) == expected
    namespace.update({"k": "k + 1"}, "p = 1")
    namespace.compact()
    assert blobs(lance_df.PartitionedNamespace.open(namespace.uri)) == {
        **{key: blob for key, blob in expected.items() if key[0] == 0},
        (1, 3): bytes([2]) * 9,
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("damage", ["removed", "cut off"])
def test_blobs_that_are_missing_are_found(tmp_path: Path, size: int, damage: str) -> None:
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows([1], 0, 9).schema, ["p"])
    namespace.append(pa.concat_tables([rows([1, 2], 0, size), rows([3], 1, size)]))
    namespace.delete("k = 3")
    (row,) = (row for row in namespace.partitions().to_pylist() if row["p"] == 0)
    member = lance_df.dataset(f"{namespace.uri}/{row['location']}", version=row["read_version"])
    member.validate()
    for file in Path(namespace.uri).glob("*/data/*/*.blob"):
        if damage == "removed":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-1])
    if size == SIZES[0]:
        member.validate()  # they are in the data file
        return
    with pytest.raises(lance_df.errors.CorruptDataError, match="blob"):
        member.validate()
    (problem,) = namespace.verify(deep=True).problems  # no live row needs those of the other partition
    assert ".blob" in problem.found
