"""The mistakes of writers that corrupt tables silently: none in ours, and each of them would be seen here."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
import written_tables
from pyroaring import BitMap

import lance_df
from lance_df._pb import table_pb2

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"näme {i % 7}" if i % 5 else None for i in ids],
            "place": [{"x": i / 2, "tags": ["a"] * (i % 3)} for i in ids],
            "score": pa.array([i % 11 for i in ids], pa.int32()),
        }
    )


def write_history(root: Path, version: str, *, stable: bool, v2_names: bool) -> None:
    """Every kind of change, one after the other."""
    ds = lance_df.write_dataset(
        rows(0, 60),
        root,
        data_storage_version=version,
        enable_stable_row_ids=stable,
        enable_v2_manifest_paths=v2_names,
        max_rows_per_file=20,
    )
    ds.update_config({"owner": "us"})
    if version != "0.1":
        ds.create_scalar_index("id", "ZONEMAP")
    ds.insert(rows(60, 30))
    ds.delete("id % 10 = 3")
    ds.delete("id BETWEEN 20 AND 39")
    ds.update({"score": "score + 1"}, where="id % 10 = 4")
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(80, 25))
    ds.add_columns({"twice": "score * 2"})
    ds.alter_columns({"path": "name", "name": "title"}, {"path": "score", "data_type": pa.int64()})
    ds.delete("id > 100")
    ds.optimize.compact_files(target_rows_per_fragment=1000)
    ds.drop_columns(["twice"])
    ds = lance_df.write_dataset(ds.to_table().slice(0, 5), root, mode="append")
    ds.delete("id = 0")
    lance_df.dataset(root, version=5).restore()
    ds = lance_df.dataset(root)
    ds.insert(rows(200, 5))
    lance_df.write_dataset(rows(300, 30), root, mode="overwrite")
    lance_df.dataset(root).delete("true")


@pytest.mark.parametrize(
    ("version", "stable", "v2_names"),
    [("0.1", False, True), ("2.0", False, False), ("2.1", True, False), ("2.2", True, True)],
)
def test_no_version_of_a_long_history_has_a_mistake(
    tmp_path: Path, version: str, stable: bool, v2_names: bool
):
    write_history(tmp_path / "t.lance", version, stable=stable, v2_names=v2_names)
    assert len(written_tables.manifest_paths(tmp_path / "t.lance")) >= 17
    assert written_tables.problems(tmp_path / "t.lance") == []
    lance.dataset(tmp_path / "t.lance", version=10).validate()


def edit(root: Path, change: Callable[[table_pb2.Manifest, list[table_pb2.IndexMetadata]], None]) -> None:
    """Change the newest manifest as a careless writer would have written it."""
    paths = written_tables.manifest_paths(root)
    path = paths[max(paths)]
    manifest, indices, transaction = written_tables.read_sections(path)
    change(manifest, indices)
    written_tables.write_sections(path, manifest, indices, transaction)


def swap_columns(manifest: table_pb2.Manifest, _: object) -> None:
    columns = manifest.fragments[0].files[0].column_indices
    columns[0], columns[-1] = columns[-1], columns[0]


def set_deleted(manifest: table_pb2.Manifest, _: object) -> None:
    manifest.fragments[0].deletion_file.num_deleted_rows += 1


def cover(_: object, indices: list[table_pb2.IndexMetadata]) -> None:
    indices[0].fragment_bitmap = BitMap([0, 1, 2, 77]).serialize()


def cover_unindexed(manifest: table_pb2.Manifest, indices: list[table_pb2.IndexMetadata]) -> None:
    indices[0].fragment_bitmap = BitMap([f.id for f in manifest.fragments]).serialize()


def first_file(**values: object) -> Callable[[table_pb2.Manifest, object], None]:
    return lambda manifest, _: [setattr(manifest.fragments[0].files[0], *item) for item in values.items()]


def in_manifest(**values: object) -> Callable[[table_pb2.Manifest, object], None]:
    return lambda manifest, _: [setattr(manifest, *item) for item in values.items()]


MISTAKES: dict[str, tuple[Callable[..., object], str]] = {
    "no column indices": (lambda m, _: m.fragments[0].files[0].ClearField("column_indices"), "columns"),
    "column indices swapped": (swap_columns, "columns"),
    "an unknown field": (lambda m, _: m.fragments[0].files[0].fields.__setitem__(0, 77), "not listed"),
    "a negative field": (lambda m, _: m.fragments[0].files[0].fields.__setitem__(0, -1), "not listed"),
    "physical_rows too small": (lambda m, _: setattr(m.fragments[0], "physical_rows", 19), "rows, not 19"),
    "physical_rows too big": (lambda m, _: setattr(m.fragments[0], "physical_rows", 21), "rows, not 21"),
    "num_deleted_rows wrong": (set_deleted, "rows deleted"),
    "next_row_id too low": (in_manifest(next_row_id=3), "next_row_id"),
    "an index over a fragment that never was": (cover, "covers fragment 77"),
    "an index over a fragment that it does not hold": (cover_unindexed, "a filter on the ids from 60"),
    "file_size_bytes wrong": (first_file(file_size_bytes=17), "bytes, not 17"),
    "a file of another version": (first_file(file_minor_version=9), "of version"),
    "an unknown data format": (lambda m, _: setattr(m.data_format, "version", "stable"), "data format"),
    "an unknown logical type": (lambda m, _: setattr(m.fields[0], "logical_type", "???"), "logical type"),
    "a parent that comes later": (lambda m, _: setattr(m.fields[0], "parent_id", 5), "no earlier field"),
    "a field id twice": (lambda m, _: setattr(m.fields[1], "id", m.fields[0].id), "field id"),
    "a fragment id twice": (lambda m, _: setattr(m.fragments[1], "id", m.fragments[0].id), "fragment ids"),
    "fragments out of order": (lambda m, _: m.fragments.sort(key=lambda f: -f.id), "fragment ids"),
    "max_fragment_id too low": (in_manifest(max_fragment_id=0), "max_fragment_id"),
    "row ids of some fragments only": (
        lambda m, _: m.fragments[0].ClearField("inline_row_ids"),
        "fragments have row ids",
    ),
    "the flag of row ids without any": (
        lambda m, _: [fragment.ClearField("inline_row_ids") for fragment in m.fragments],
        "fragments have row ids",
    ),
    "deletion files without a flag": (in_manifest(reader_feature_flags=2), "without their flag"),
    "half of a paired flag": (lambda m, _: setattr(m, "reader_feature_flags", 256 | 3), "paired flags"),
    "an unknown flag": (lambda m, _: setattr(m, "writer_feature_flags", 2**40 | 3), "unknown flags"),
    "another version inside": (in_manifest(version=2), "says to be version 2"),
    "config lost": (lambda m, _: m.ClearField("config"), "config lost"),
    "a field id given again": (in_manifest(max_allocated_field_id=1), "max_allocated_field_id"),
}


@pytest.fixture(scope="module")
def stable_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("written") / "t.lance"
    ds = lance_df.write_dataset(
        rows(0, 60), root, data_storage_version="2.1", enable_stable_row_ids=True, max_rows_per_file=20
    )
    ds.update_config({"owner": "us"})
    ds.create_scalar_index("id", "ZONEMAP")
    ds.insert(rows(60, 10))
    ds.delete("id = 5")
    assert ds.version == 5
    assert written_tables.problems(root) == []
    return root


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_seen(tmp_path: Path, stable_table: Path, mistake: str):
    root = tmp_path / "t.lance"
    shutil.copytree(stable_table, root)
    change, expected = MISTAKES[mistake]
    edit(root, change)
    assert any(expected in problem for problem in written_tables.problems(root, since=5))


# what no single version shows, or every reader takes as it is
TOLERATED = ["config lost", "fragments out of order", "an unknown flag"]


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name not in TOLERATED])
def test_tables_with_a_mistake_are_not_validated(tmp_path: Path, stable_table: Path, mistake: str):
    root = tmp_path / "t.lance"
    shutil.copytree(stable_table, root)
    edit(root, MISTAKES[mistake][0])
    with pytest.raises(lance_df.LanceError):
        lance_df.dataset(root).validate()
