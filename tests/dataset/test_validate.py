"""What is wrong with a table is found, also what readers pass over, and the message names the file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from manifest_edits import edit_manifest
from pyroaring import BitMap

import lance_df
from lance_df.errors import CorruptDataError
from lance_df.format.row_ids import (
    constant_versions,
    row_id_range,
    serialize_row_ids,
    serialize_versions,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with deletions, a second data file, an index and stable row ids, by pylance."""
    uri = str(tmp_path_factory.mktemp("whole") / "t")
    data = pa.table({"a": range(40), "s": [str(i) for i in range(40)], "n": [{"x": i} for i in range(40)]})
    ds = lance.write_dataset(data, uri, max_rows_per_file=20, enable_stable_row_ids=True)
    ds.add_columns({"b": "a + a"})
    ds.delete("a in (3, 4)")
    ds.create_scalar_index("a", "BTREE")
    return uri


@pytest.fixture
def table(whole: str, tmp_path: Path) -> str:
    return shutil.copytree(whole, str(tmp_path / "t"))


def test_a_whole_table_is_fine(whole: str) -> None:
    ds = lance_df.dataset(whole)
    ds.validate()
    for fragment in ds.get_fragments():
        fragment.validate()


def test_tables_of_every_version_are_fine(tmp_path: Path) -> None:
    data = pa.table({"a": range(9), "n": [{"x": i, "l": [i]} for i in range(9)]})
    for version in ("0.1", "2.0", "2.1", "2.2"):
        uri = str(tmp_path / version)
        ds = lance.write_dataset(data, uri, data_storage_version=version, max_rows_per_file=4)
        ds.delete("a = 5")
        lance_df.dataset(uri).validate()
        lance.write_dataset(data.slice(0, 0), uri, mode="overwrite", data_storage_version=version)
        lance_df.dataset(uri).validate()


def one_fragment_id(manifest: Any) -> None:
    manifest.fragments[1].id = manifest.fragments[0].id


def low_fragment_id(manifest: Any) -> None:
    manifest.max_fragment_id = 0


def no_columns(manifest: Any) -> None:
    del manifest.fragments[0].files[0].column_indices[:]


def no_column(manifest: Any) -> None:
    manifest.fragments[0].files[0].column_indices[1] = -1


def one_column_twice(manifest: Any) -> None:
    manifest.fragments[0].files[0].column_indices[1] = 0


def swapped_columns(manifest: Any) -> None:
    manifest.fragments[1].files[0].column_indices[:] = [2, 1, 0]


def field_in_two_files(manifest: Any) -> None:
    manifest.fragments[0].files[1].fields[0] = manifest.fragments[0].files[0].fields[0]


def missing_required_field(manifest: Any) -> None:
    manifest.fields[0].nullable = False
    manifest.fragments[0].files[0].fields[0] = 99


def too_few_rows(manifest: Any) -> None:
    manifest.fragments[1].physical_rows -= 1


def too_many_rows(manifest: Any) -> None:
    manifest.fragments[1].physical_rows += 1


def wrong_deletions(manifest: Any) -> None:
    manifest.fragments[0].deletion_file.num_deleted_rows += 1


def other_version(manifest: Any) -> None:
    manifest.data_format.version = "2.1"


def wrong_size(manifest: Any) -> None:
    manifest.fragments[0].files[0].file_size_bytes += 1


def other_file(manifest: Any) -> None:
    manifest.fragments[0].files[0].path = "nowhere.lance"


def low_row_id(manifest: Any) -> None:
    manifest.next_row_id = 39


def one_row_id_twice(manifest: Any) -> None:
    manifest.fragments[1].inline_row_ids = serialize_row_ids(row_id_range(5, 25))


def too_few_row_ids(manifest: Any) -> None:
    manifest.fragments[1].inline_row_ids = serialize_row_ids(row_id_range(20, 39))


def versions_to_come(manifest: Any) -> None:
    manifest.fragments[1].inline_created_at_versions = serialize_versions(constant_versions(99, 20))


def too_few_versions(manifest: Any) -> None:
    manifest.fragments[1].inline_last_updated_at_versions = serialize_versions(constant_versions(1, 19))


def negative_field(manifest: Any) -> None:
    manifest.fields[0].id = -7


DAMAGE: dict[str, tuple[Callable[[Any], None], str]] = {
    "two fragments with one id": (one_fragment_id, "manifest: fragment id 0 appears twice"),
    "a fragment id that was not given out": (
        low_fragment_id,
        "manifest: .* highest assigned fragment id is 0",
    ),
    "no column indices": (no_columns, r"fragment 0: .*\.lance.* 0 column indices"),
    "a field without a column": (
        no_column,
        r"fragment 0: .*\.lance.*the manifest lists field 1 without a column",
    ),
    "a column for two fields": (one_column_twice, r"fragment 0: .*\.lance.*column 0 appears twice"),
    "columns of one type in another order": (swapped_columns, r"fragment 1: .*\.lance.*to the columns"),
    "a field in two files": (field_in_two_files, "fragment 0: field 0 appears twice"),
    "no file for what must not be null": (missing_required_field, "fragment 0: no data file has column 'a'"),
    "too few rows": (too_few_rows, r"\.lance: the file has 20 rows, but fragment 1 has 19"),
    "too many rows": (too_many_rows, r"\.lance: the file has 20 rows, but fragment 1 has 21"),
    "a wrong count of deletions": (
        wrong_deletions,
        r"_deletions.*lists 2 deleted rows, but the manifest says 3",
    ),
    "files of another version": (other_version, r"fragment 0: .*\.lance.* has file version 2.2"),
    "a wrong size": (wrong_size, r"\.lance: the file has \d+ bytes, but the manifest says"),
    "a file that is not there": (other_file, r"nowhere\.lance: this data file is missing"),
    "a row id to be given out again": (low_row_id, "manifest: row id 39 is in use, .* assigned is 39"),
    "two rows with one id": (one_row_id_twice, "manifest: two rows have the row id 5"),
    "too few row ids": (too_few_row_ids, "fragment 1.*19 row ids for 20 rows|fragment 1: .*row ids"),
    "rows of a version to come": (versions_to_come, "fragment 1: a row has version 99"),
    "too few row versions": (too_few_versions, "fragment 1.*"),
    "a field id that is none": (negative_field, "manifest: a field of the schema has the invalid id -7"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(table: str, name: str) -> None:
    edit, message = DAMAGE[name]
    edit_manifest(table, edit)
    with pytest.raises(CorruptDataError, match=message):
        lance_df.dataset(table).validate()


def unknown_index_field(index: Any) -> None:
    index.fields[0] = 77


def unknown_index_fragment(index: Any) -> None:
    index.fragment_bitmap = BitMap([0, 7]).serialize()


def index_version_to_come(index: Any) -> None:
    index.dataset_version = 99


def wrong_index_size(index: Any) -> None:
    index.files[0].size_bytes += 1


def other_index_file(index: Any) -> None:
    index.files[0].path = "nowhere.lance"


INDEX_DAMAGE: dict[str, tuple[Callable[[Any], None], str]] = {
    "an index on no field": (unknown_index_field, "manifest: index 'a_idx' .*field 77"),
    "an index of no fragment": (unknown_index_fragment, "manifest: index 'a_idx' .*covers fragment 7"),
    "an index of a version to come": (index_version_to_come, "manifest: index 'a_idx' .*version 99"),
    "a wrong size of an index": (
        wrong_index_size,
        r"_indices.*\.lance: the file has \d+ bytes, but the manifest says",
    ),
    "a file of an index that is not there": (other_index_file, r"_indices.*nowhere\.lance: .* missing"),
}


@pytest.mark.parametrize("name", INDEX_DAMAGE)
def test_damaged_indices_are_found(table: str, name: str) -> None:
    edit, message = INDEX_DAMAGE[name]
    edit_manifest(table, lambda manifest: None, edit_index=edit)
    with pytest.raises(CorruptDataError, match=message):
        lance_df.dataset(table).validate()


def test_damaged_files_are_found(table: str) -> None:
    ds = lance_df.dataset(table)
    (deletion,) = (Path(table) / "_deletions").iterdir()
    deletion.unlink()
    with pytest.raises(CorruptDataError, match="deletion file is missing"):
        lance_df.dataset(table).validate()
    ds.get_fragments()[1].validate()
    path = Path(table) / "data" / ds.get_fragments()[1].data_files()[0].path
    data = bytearray(path.read_bytes())
    data[:64] = bytes(64)
    data[-40:] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match=path.name):
        lance_df.dataset(table).get_fragments()[1].validate()
