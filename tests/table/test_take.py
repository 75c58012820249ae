"""Single rows by offset, id and address: the right ones, in order, for few bytes."""

from __future__ import annotations

from pathlib import Path

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.storage import RemoteSource
from lance_df.table.open import open_table
from lance_df.table.reading.take import take_addresses, take_offsets, take_row_ids

NUM_ROWS = 1000


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The same rows with and without stable row ids; some are deleted, some have moved."""
    root = tmp_path_factory.mktemp("take")
    data = pa.table({"key": np.arange(NUM_ROWS), "text": [str(key) for key in range(NUM_ROWS)]})
    for stable in (False, True):
        ds = lance.write_dataset(
            data, root / str(stable), max_rows_per_file=300, enable_stable_row_ids=stable
        )
        ds.delete("key % 4 = 1 OR (key >= 300 AND key < 320)")
        ds.update({"text": "'new'"}, where="key % 100 = 2")
    return {stable: root / str(stable) for stable in (False, True)}


@pytest.fixture(scope="module")
def live(folders: dict[bool, Path]) -> dict[bool, pa.Table]:
    """All live rows, as pylance returns them."""
    return {
        stable: lance.dataset(folder).to_table(columns=["key", "text", "_rowid", "_rowaddr"])
        for stable, folder in folders.items()
    }


@given(data=st.data(), stable=st.booleans())
def test_every_way_gives_the_rows_asked_for(
    folders: dict[bool, Path], live: dict[bool, pa.Table], data: st.DataObject, stable: bool
) -> None:
    table, rows = open_table(folders[stable]), live[stable]
    indices = data.draw(st.lists(st.integers(0, rows.num_rows - 1), max_size=20))
    expected = rows.take(pa.array(indices, pa.int64()))
    columns = rows.schema.names
    assert take_offsets(table, indices, columns=columns).equals(expected)
    assert take_row_ids(table, expected["_rowid"], columns=columns).equals(expected)
    assert take_addresses(table, expected["_rowaddr"].to_numpy(), columns=columns).equals(expected)


def test_deleted_rows_are_left_out(folders: dict[bool, Path]) -> None:
    for stable, folder in folders.items():
        table = open_table(folder)
        assert take_addresses(table, [0, 1, 3])["key"].to_pylist() == [0, 3]
        assert take_row_ids(table, [0, 1, 3])["key"].to_pylist() == [0, 3]
        assert stable or take_row_ids(table, [2])["key"].to_pylist() == []


def test_rows_that_never_were(folders: dict[bool, Path]) -> None:
    plain, stable = open_table(folders[False]), open_table(folders[True])
    assert take_row_ids(stable, [5000, 2**63, 0])["key"].to_pylist() == [0]
    for wrong in ([300], [7 << 32], [2**64 - 1]):
        with pytest.raises(InvalidInputError):
            take_row_ids(plain, wrong)
        with pytest.raises(InvalidInputError):
            take_addresses(stable, wrong)
    num_rows = lance.dataset(folders[False]).count_rows()
    for outside in ([num_rows], [-1], [0, 10**12]):
        with pytest.raises(InvalidInputError, match=f"{num_rows} rows"):
            take_offsets(plain, outside)


@pytest.mark.parametrize("wrong", [[1.5], ["a"], [2**70], [[1]], None, [None], 3, [True]])
def test_what_is_no_row_number(folders: dict[bool, Path], wrong: object) -> None:
    table = open_table(folders[False])
    for take in (take_offsets, take_row_ids, take_addresses):
        with pytest.raises(InvalidInputError, match=r"a list of (non-negative )?integers"):
            take(table, wrong)


def test_no_rows_and_no_columns(folders: dict[bool, Path]) -> None:
    table = open_table(folders[False])
    assert take_offsets(table, []).schema.names == ["key", "text"]
    assert take_offsets(table, [], columns=["text"]).num_rows == 0
    assert take_offsets(table, [3, 3], columns=[]).num_rows == 2


def test_a_fragment_counts_its_own_rows(folders: dict[bool, Path]) -> None:
    table = open_table(folders[False])
    expected = lance.dataset(folders[False]).get_fragments()[1].take([0, 5])
    assert take_offsets(table, [0, 5], fragment_position=1).equals(expected)


def test_few_rows_read_few_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    data = pa.table({"a": rng.integers(0, 2**62, 300_000), "b": rng.random(300_000)})
    lance.write_dataset(data, tmp_path / "t", max_rows_per_file=100_000, data_storage_version="2.1")
    store = fsspec.filesystem("memory")
    store.put(str(tmp_path / "t"), "/take-few", recursive=True)
    table = open_table("memory://take-few")
    read: list[int] = []
    original = RemoteSource._read_ranges

    def spy(self: RemoteSource, ranges: list) -> list[pa.Buffer]:
        read.extend(wanted.num_bytes for wanted in ranges)
        return original(self, ranges)

    monkeypatch.setattr(RemoteSource, "_read_ranges", spy)
    indices = [299_999, 0, 123_456, 0]
    assert take_offsets(table, indices).equals(data.take(indices))
    store.rm("/take-few", recursive=True)
    # three files: the tail of each, and a chunk of each column
    assert sum(read) < 3 * (70_000 + 2 * 20_000)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_dictionaries_with_nulls_of_several_fragments(tmp_path, version):
    for values, mode in ((["a", None, "b"], "create"), (["c", None, "a"], "append")):
        column = pa.array(values).dictionary_encode()
        lance.write_dataset(pa.table({"d": column}), tmp_path / "t", mode=mode, data_storage_version=version)
    wanted = [5, 0, 1, 3, 4, 2]
    found = lance_df.dataset(tmp_path / "t").take(wanted)
    assert found["d"].to_pylist() == lance.dataset(tmp_path / "t").take(wanted)["d"].to_pylist()
    assert found["d"].type == column.type
