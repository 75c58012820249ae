"""Compaction that copies pages: the same rows as when they are encoded anew, of files of both libraries."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.v2.page_copy import copied_field_ids
from lance_df.format.operations import Merge
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.maintenance.page_copies import is_worthwhile

FORCE: dict[str, Any] = {"compaction_mode": "force_binary_copy", "target_rows_per_fragment": 700}
FLAT = ("id", "x", "s", "fs", "n", "e", "big", "flag", "half", "dec", "nulls")


def make_table(first: int, num_rows: int = 250) -> pa.Table:
    ids = np.arange(first, first + num_rows)
    items = ids.tolist()
    return pa.table(
        {
            "id": ids,
            "x": np.random.default_rng(first).random(num_rows),
            "s": [f"name-{i % 100}" for i in items],
            "fs": pa.array([[1.0, float(i)] for i in items], pa.list_(pa.float32(), 2)),
            "n": pa.nulls(num_rows, pa.int32()),
            "e": pa.array([f"e{i % 3}" for i in items]).dictionary_encode(),
            "big": [b"z" * 3000 if i % 100 == 0 else b"" for i in items],
            "flag": ids % 2 == 0,
            "half": pa.array((ids % 50).astype(np.float16)),
            "dec": pa.array(ids).cast(pa.decimal128(30, 2)),
            "nulls": [None if i % 3 else i for i in items],
            "l": [None if i % 7 == 0 else [i, None][: i % 3] for i in items],
            "st": [None if i % 5 == 0 else {"a": i, "b": [{"c": str(i)}] * (i % 3)} for i in items],
        }
    )


def same(left: pa.Table, right: pa.Table) -> bool:
    """Compare values: dictionaries may differ."""
    return left.column_names == right.column_names and all(
        left[name].equals(right[name]) or left[name].to_pylist() == right[name].to_pylist()
        for name in left.column_names
    )


@pytest.mark.parametrize("module", [lance, lance_df])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_rows_stay(tmp_path: Path, version: str, module: Any) -> None:
    uri = str(tmp_path / "t.lance")
    stable = version == "2.2"
    for number in range(6):
        table = make_table(250 * number)
        table = table.select(FLAT) if version == "2.0" else table
        module.write_dataset(
            table,
            uri,
            mode="append" if number else "create",
            data_storage_version=version,
            enable_stable_row_ids=stable,
        )
    ours = lance_df.dataset(uri)
    before = ours.to_table(with_row_id=stable)
    pages = sum(page_count(uri, fragment) for fragment in ours.get_fragments())
    assert ours.optimize.compact_files(**FORCE).fragments_added == 2
    assert sum(page_count(uri, fragment) for fragment in ours.get_fragments()) == pages
    theirs = lance.dataset(uri)
    theirs.validate()
    ours.validate()
    assert same(theirs.to_table(with_row_id=stable), before)
    assert same(ours.to_table(with_row_id=stable), before)
    picked = [0, 249, 250, 749, 750, 1499]
    assert same(theirs.take(picked), ours.take(picked))
    assert same(ours.to_table(filter="id = 777"), theirs.to_table(filter="id = 777"))
    assert ours.optimize.compact_files(**FORCE).fragments_removed == 0
    theirs.optimize.compact_files()
    assert same(lance_df.dataset(uri).to_table(with_row_id=stable), before)


def page_count(uri: str, fragment: Any) -> int:
    (file,) = fragment.data_files()
    metadata = lance.file.LanceFileReader(f"{uri}/data/{file.path}").metadata()
    return sum(len(column.pages) for column in metadata.columns)


def test_columns_of_several_files_are_joined_and_dropped_ones_left_out(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(3):
        lance.write_dataset(make_table(250 * number), uri, mode="append" if number else "create")
    theirs = lance.dataset(uri)
    theirs.add_columns({"twice": "id * 2"})
    theirs.drop_columns(["x", "st"])
    theirs.alter_columns({"path": "s", "name": "renamed"})
    before = theirs.to_table()
    ours = lance_df.dataset(uri)
    ours.optimize.compact_files(compaction_mode="force_binary_copy")
    (fragment,) = ours.get_fragments()
    (file,) = fragment.data_files()
    assert list(file.fields) == copied_field_ids(ours._table.schema)
    lance.dataset(uri).validate()
    assert same(lance.dataset(uri).to_table(), before)
    assert same(ours.to_table(), before)


def test_what_cannot_be_copied_is_encoded_anew(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(3):
        lance_df.write_dataset(make_table(250 * number).select(["id", "l"]), uri, mode="append")
    ours = lance_df.dataset(uri)
    ours.add_columns(pa.field("late", pa.int8()))
    before = ours.to_table()
    with pytest.raises(UnsupportedFeatureError, match="cannot be copied"):
        ours.optimize.compact_files(compaction_mode="force_binary_copy")
    assert ours.optimize.compact_files(compaction_mode="try_binary_copy").fragments_added == 1
    assert lance.dataset(uri).to_table() == ours.to_table() == before
    ours.delete("id = 3")
    lance_df.write_dataset(make_table(750).select(["id"]), uri, mode="append")
    ours.checkout_latest()
    assert ours.optimize.compact_files(compaction_mode="try_binary_copy").fragments_added == 1
    assert ours.count_rows() == 999


def test_large_pages_are_copied_and_small_ones_joined(tmp_path: Path) -> None:
    for num_rows, expected in ((1000, False), (20_000, True)):
        uri = str(tmp_path / f"{num_rows}.lance")
        for number in range(2):
            values = np.random.default_rng(number).random(num_rows)
            lance_df.write_dataset(pa.table({"x": values}), uri, mode="append")
        ours = lance_df.dataset(uri)
        assert is_worthwhile(ours._table, ours._table.fragments) is expected
        before = ours.to_table()
        ours.optimize.compact_files()
        (fragment,) = ours.get_fragments()
        assert page_count(uri, fragment) == (2 if expected else 1)
        assert ours.to_table() == lance.dataset(uri).to_table() == before


@pytest.mark.parametrize("what", ["missing", "rows", "torn"])
def test_damage_stops_it_and_nothing_is_left(tmp_path: Path, what: str) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(3):
        lance_df.write_dataset(make_table(100 * number, 100).select(["id"]), uri, mode="append")
    table = lance_df.dataset(uri)._table
    victim = Path(uri) / "data" / table.fragments[1].files[0].path
    if what == "missing":
        victim.unlink()
    elif what == "torn":
        victim.write_bytes(victim.read_bytes()[:-8])
    else:
        wrong = [dataclasses.replace(each, physical_rows=99) for each in table.fragments]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lance_df.table.commit.apply_columns.check_same_rows", lambda *_: None)
            patch.setattr("lance_df.table.commit.row_account.RowAccount.check", lambda *_: None)
            table = commit_change(table, Merge(tuple(wrong), table.schema), rows=NO_ROWS)
    before = {path.name for path in (Path(uri) / "data").iterdir()}
    with pytest.raises(CorruptDataError):
        lance_df.dataset(uri).optimize.compact_files(compaction_mode="force_binary_copy")
    assert {path.name for path in (Path(uri) / "data").iterdir()} == before
    assert lance_df.dataset(uri).version == table.version
