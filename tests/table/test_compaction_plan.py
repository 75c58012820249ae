"""Which fragments a compaction joins, beside pylance's plan of the same table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction as TheirCompaction
from manifest_edits import edit_manifest
from pyroaring import BitMap

import lance_df
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.optimize import Compaction

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (100, 100, 300, 10, 250, 30, 30, 30, 400, 5, 299, 299, 1)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("plan") / "t.lance")
    start = 0
    for size in SIZES:
        lance_df.write_dataset(pa.table({"a": range(start, start + size)}), uri, mode="append")
        start += size
    lance_df.dataset(uri).delete("a < 50 or (a >= 200 and a < 230) or (a >= 910 and a < 930)")
    lance.dataset(uri).create_scalar_index("a", "BTREE", fragment_ids=None)
    return uri


def plan(module: Any, uri: str, **options: Any) -> list[list[int]]:
    compaction = TheirCompaction if module is lance else Compaction
    tasks = compaction.plan(module.dataset(uri), options).tasks
    return [[fragment.id for fragment in task.fragments] for task in tasks]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target_rows_per_fragment": 300},
        {"target_rows_per_fragment": 100},
        {"target_rows_per_fragment": 1},
        {"target_rows_per_fragment": 300, "materialize_deletions": False},
        {"target_rows_per_fragment": 300, "materialize_deletions_threshold": 0.0},
        {"target_rows_per_fragment": 300, "materialize_deletions_threshold": 0.6},
        {"target_rows_per_fragment": 300, "materialize_deletions_threshold": 1.0},
        {"target_rows_per_fragment": 300, "excluded_fragment_ids": [4, 4, 99]},
        {"target_rows_per_fragment": 300, "max_source_fragments": 4},
        {"target_rows_per_fragment": 300, "max_source_rows": 400},
        {"target_rows_per_fragment": 300, "max_source_bytes": 5000},
        {"target_rows_per_fragment": 300, "max_source_fragments": 1},
    ],
)
def test_plans_are_pylances(uri: str, options: dict[str, Any]) -> None:
    assert plan(lance_df, uri, **options) == plan(lance, uri, **options)


def test_fragments_that_an_index_covers_are_joined_among_themselves(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(6):
        lance.write_dataset(pa.table({"a": [number]}), uri, mode="append" if number else "create")
        if number == 2:
            lance.dataset(uri).create_scalar_index("a", "BITMAP")
    assert plan(lance_df, uri) == plan(lance, uri) == [[0, 1, 2], [3, 4, 5]]


def test_segments_of_one_index_do_not_keep_fragments_apart(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(4):
        lance_df.write_dataset(pa.table({"a": [number]}), uri, mode="append", statistics=True)
    assert len(lance_df.dataset(uri).list_indices()) == 4
    assert plan(lance_df, uri) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_indices_that_cover_billions_of_fragments_are_cheap(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t.lance")
    dataset = lance_df.write_dataset(pa.table({"a": range(40)}), uri, max_rows_per_file=10)
    dataset.create_scalar_index("a", kind)
    covered = (BitMap([1, 2, 3]) | BitMap(range(1000, 2**32 - 1))).serialize()
    edit_manifest(uri, lambda _: None, edit_index=lambda index: setattr(index, "fragment_bitmap", covered))
    dataset = lance_df.dataset(uri)
    assert plan(lance_df, uri) == [[1, 2, 3]]
    assert [index["fragment_ids"] for index in dataset.list_indices()] == [{1, 2, 3}]
    assert dataset.describe_indices()[0].segments[0].fragment_ids == {1, 2, 3}
    dataset.optimize.compact_files()
    assert dataset.to_table(filter="a >= 8 and a < 12")["a"].to_pylist() == [8, 9, 10, 11]


def test_options_come_from_the_configuration_too(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(6):
        lance.write_dataset(pa.table({"a": [number]}), uri, mode="append" if number else "create")
    config = {"target_rows_per_fragment": "2", "materialize_deletions": "false", "of_a_later_release": "?"}
    lance.dataset(uri).update_config({f"lance.compaction.{key}": text for key, text in config.items()})
    assert plan(lance_df, uri) == plan(lance, uri) == [[0, 1], [2, 3], [4, 5]]
    assert plan(lance_df, uri, target_rows_per_fragment=3) == [[0, 1, 2], [3, 4, 5]]
    lance.dataset(uri).update_config({"lance.compaction.batch_size": "many"})
    with pytest.raises(InvalidInputError, match=r"lance.compaction.batch_size = 'many'"):
        plan(lance_df, uri)


@pytest.mark.parametrize(
    "options",
    [
        {"target_rows_per_fragment": 0},
        {"target_rows_per_fragment": "9"},
        {"max_bytes_per_file": -1},
        {"num_threads": 0},
        {"batch_size": True},
        {"materialize_deletions": 1},
        {"materialize_deletions_threshold": float("nan")},
        {"materialize_deletions_threshold": "all"},
        {"excluded_fragment_ids": ["x"]},
        {"compaction_mode": "quick"},
        {"max_source_rows": 0},
        {"no_such_option": 1},
    ],
)
def test_wrong_options_are_refused(uri: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        plan(lance_df, uri, **options)


def test_what_is_not_done_is_refused(uri: str) -> None:
    dataset = lance_df.dataset(uri)
    with pytest.raises(UnsupportedFeatureError, match="reuse index"):
        dataset.optimize.compact_files(defer_index_remap=True)
    with pytest.raises(UnsupportedFeatureError, match=r"2\.0"):
        dataset.optimize.compact_files(data_storage_version="2.0")
    with pytest.raises(UnsupportedFeatureError, match="Copying requires that no rows are deleted"):
        dataset.optimize.compact_files(compaction_mode="force_binary_copy")
    assert lance_df.dataset(uri).version == dataset.version
