"""Values that take no bytes: binary of size 0, and fixed-size lists of nulls, which have validity only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lance_df

if TYPE_CHECKING:
    from pathlib import Path

NULLS = pa.list_(pa.null(), 2)
EMPTY = pa.binary(0)

LISTS = {
    "with nulls": pa.array([[None, None], None, [None, None], None], NULLS),
    "without nulls": pa.array([[None, None]] * 3000, NULLS),
    "nested": pa.array([[[None, None], None], None], pa.list_(NULLS, 2)),
    "wide": pa.array([[None] * 300, None] * 50, pa.list_(pa.null(), 300)),
    "in lists": pa.array([[[None, None]], None, [], [[None, None], None]], pa.list_(NULLS)),
    "in structs": pa.array([{"a": [None, None]}, {"a": None}] * 2, pa.struct([("a", NULLS)])),
    "no rows": pa.array([], NULLS),
    "of no numbers": pa.FixedSizeListArray.from_arrays(pa.nulls(16 * 256, pa.int64()), 16),
    "of no numbers, with nulls": pa.FixedSizeListArray.from_arrays(
        pa.nulls(16 * 256, pa.int64()), 16, mask=pa.array([number > 4 for number in range(256)])
    ),
    "of no flags, with nulls": pa.FixedSizeListArray.from_arrays(
        pa.nulls(3 * 256, pa.bool_()), 3, mask=pa.array([number % 2 > 0 for number in range(256)])
    ),
}
BINARY = {
    "with nulls": pa.array([b"", None] * 2500, EMPTY),
    "without nulls": pa.array([b""] * 4, EMPTY),
    "in lists": pa.array([[b""], [], None, [b"", b""]] * 1500, pa.list_(EMPTY)),
    "in structs": pa.array([{"a": b""}, None], pa.struct([("a", EMPTY)])),
    "no rows": pa.array([], EMPTY),
}


def check(root: Path, column: pa.Array, version: str) -> None:
    """Write with each library, read with each, whole and by row."""
    for writer in (lance, lance_df):
        path = root / f"{writer.__name__}.lance"
        writer.write_dataset(pa.table({"c": column}), path, data_storage_version=version)
        for reader in (lance, lance_df):
            ds = reader.dataset(path)
            assert ds.to_table()["c"].combine_chunks().equals(column)
            if len(column):
                rows = [len(column) - 1, 0]
                assert ds.take(rows)["c"].combine_chunks().equals(column.take(rows))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("case", LISTS)
def test_fixed_size_lists_of_null(tmp_path: Path, case: str, version: str):
    check(tmp_path, LISTS[case], version)


@pytest.mark.parametrize("case", BINARY)
def test_binary_of_size_0(tmp_path: Path, case: str):
    check(tmp_path, BINARY[case], "2.2")


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1"])
def test_versions_without_binary_of_size_0(tmp_path: Path, version: str):
    # pylance writes such files but cannot read them
    with pytest.raises(lance_df.UnsupportedFeatureError, match="column 'c': values of size 0"):
        lance_df.write_dataset(
            pa.table({"c": BINARY["without nulls"]}), tmp_path / "t", data_storage_version=version
        )
    assert not list(tmp_path.iterdir())
