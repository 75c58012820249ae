"""What old releases left out or got wrong, and contradictions: tables of pylance with edited manifests."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df._pb import rowids_pb2, table_pb2
from lance_df.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lance_df.table.table import Table


def edited(path: Path, edit: Callable[[table_pb2.Manifest], None]) -> Table:
    """Change the newest manifest of a table and open it."""
    file = sorted((path / "_versions").glob("*.manifest"))[0]
    data = file.read_bytes()
    (position,) = struct.unpack_from("<q", data, len(data) - 16)
    manifest = table_pb2.Manifest.FromString(data[position + 4 : -16])
    edit(manifest)
    block = manifest.SerializeToString()
    file.write_bytes(data[:position] + struct.pack("<I", len(block)) + block + data[-16:])
    return open_table(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """90 of 100 rows in two fragments; the first has deletions."""
    table = pa.table({"a": range(100)})
    data = lance.write_dataset(table, tmp_path / "t.lance", max_rows_per_file=60)
    data.delete("a < 10")
    return tmp_path / "t.lance"


@pytest.fixture
def stable(tmp_path: Path) -> Path:
    table = pa.table({"a": range(100)})
    lance.write_dataset(table, tmp_path / "s.lance", max_rows_per_file=60, enable_stable_row_ids=True)
    return tmp_path / "s.lance"


def nothing(_: table_pb2.Manifest) -> None:
    pass


def without_counts(manifest: table_pb2.Manifest) -> None:
    manifest.ClearField("writer_version")
    for fragment in manifest.fragments:
        fragment.ClearField("physical_rows")
        fragment.deletion_file.ClearField("num_deleted_rows")
        if not fragment.deletion_file.read_version:
            fragment.ClearField("deletion_file")


def with_live_rows_as_physical_rows(manifest: table_pb2.Manifest) -> None:
    manifest.ClearField("writer_version")
    manifest.fragments[0].physical_rows = 50


def without_deletion_counts(manifest: table_pb2.Manifest) -> None:
    manifest.fragments[0].deletion_file.ClearField("num_deleted_rows")


def without_rows_though_the_writer_is_known(manifest: table_pb2.Manifest) -> None:
    manifest.fragments[0].ClearField("physical_rows")


def without_what_is_optional(manifest: table_pb2.Manifest) -> None:
    for name in ("timestamp", "data_format", "max_fragment_id", "transaction_file", "transaction_section"):
        manifest.ClearField(name)


def without_flags(manifest: table_pb2.Manifest) -> None:
    manifest.reader_feature_flags = manifest.writer_feature_flags = 0


def with_files_of_release_0_15(manifest: table_pb2.Manifest) -> None:
    manifest.ClearField("data_format")
    manifest.reader_feature_flags |= 4
    for fragment in manifest.fragments:
        for file in fragment.files:
            file.ClearField("file_size_bytes")


def unsorted(manifest: table_pb2.Manifest) -> None:
    fragments = [*manifest.fragments][::-1]
    del manifest.fragments[:]
    manifest.fragments.extend(fragments)


@pytest.mark.parametrize(
    "edit",
    [
        nothing,
        without_counts,
        with_live_rows_as_physical_rows,
        without_deletion_counts,
        without_rows_though_the_writer_is_known,
        without_what_is_optional,
        without_flags,
        with_files_of_release_0_15,
        unsorted,
    ],
)
def test_rows_are_counted_all_the_same(path: Path, edit):
    ours = edited(path, edit)
    assert ours.count_rows() == 90
    by_id = {fragment.id: fragment for fragment in ours.fragments}
    assert [ours.fragment_rows(by_id[i]) for i in (0, 1)] == [60, 40]
    assert [ours.live_rows(by_id[i]) for i in (0, 1)] == [50, 40]
    assert ours.manifest.max_fragment_id == 1
    addresses = np.array([9, 10, 59, 60, 2**32, 2**32 + 39, 2**32 + 40], np.uint64)
    assert ours.row_id_index().lookup(addresses)[1].tolist() == [False, True, True, False, True, True, False]


def test_a_table_without_a_transaction(path: Path):
    assert edited(path, without_what_is_optional).transaction() is None
    assert open_table(path, version=1).transaction() is not None


def test_a_transaction_in_a_file_only(path: Path):
    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.ClearField("transaction_section")

    ours = edited(path, edit)
    assert ours.transaction().operation.predicate == "a < 10"
    for file in (path / "_transactions").iterdir():
        file.unlink()
    with pytest.raises(CorruptDataError, match=r"\.txn.*missing"):
        ours.transaction()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b"])
def test_a_transaction_file_elsewhere(path: Path, name: str):
    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.ClearField("transaction_section")
        manifest.transaction_file = name

    with pytest.raises(CorruptDataError, match="the recorded path"):
        edited(path, edit).transaction()


@pytest.mark.parametrize("rows", [59, 61, 2**32 + 1, 2**64 - 1])
def test_fragments_that_miscount_their_rows(path: Path, rows: int):
    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].physical_rows = rows

    ours = edited(path, edit)
    fragment = ours.fragments[0]
    with pytest.raises(CorruptDataError, match=str(rows)):
        assert ours.fragment_rows(fragment) < ours.open_data_file(fragment, fragment.files[0]).num_rows


def test_deletions_that_are_miscounted(path: Path):
    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].deletion_file.num_deleted_rows = 7

    ours = edited(path, edit)
    with pytest.raises(CorruptDataError, match="lists 10 deleted rows, but the manifest says 7"):
        ours.deletion_vector(ours.fragments[0])


def test_data_files_of_later_releases(path: Path):
    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[1].files[0].file_minor_version = 3

    ours = edited(path, edit)
    with pytest.raises(UnsupportedFeatureError, match=r"fragment 1: data file .* version 2\.3"):
        ours.open_data_file(ours.fragments[1], ours.fragments[1].files[0])
    first = ours.fragments[0]
    assert ours.open_data_file(first, first.files[0]).num_rows == 60


def test_unknown_columns_types_are_named(path: Path):
    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = "quaternion"

    ours = edited(path, edit)
    assert ours.count_rows() == 90
    with pytest.raises(UnsupportedFeatureError, match="quaternion"):
        assert ours.arrow_schema


def test_fragments_by_id(path: Path):
    ours = open_table(path)
    assert ours.fragment(1).physical_rows == 40
    with pytest.raises(NotFoundError, match="no fragment 2"):
        ours.fragment(2)


def test_a_fragment_without_row_ids(stable: Path):
    ours = edited(stable, lambda manifest: manifest.fragments[1].ClearField("inline_row_ids"))
    assert ours.row_ids(ours.fragments[0]).to_numpy().tolist() == list(range(60))
    with pytest.raises(CorruptDataError, match="fragment 1 has no row ids"):
        ours.row_ids(ours.fragments[1])


def test_row_versions_that_are_not_recorded(stable: Path):
    def edit(manifest: table_pb2.Manifest) -> None:
        for fragment in manifest.fragments:
            fragment.ClearField("inline_created_at_versions")
            fragment.ClearField("inline_last_updated_at_versions")

    ours = edited(stable, edit)
    for sequence in ours.row_version_sequences(ours.fragments[1]):
        assert sequence.to_numpy().tolist() == [1] * 40


@pytest.mark.parametrize(
    ("stop", "message"), [(80, None), (100, None), (99, "found 39 row ids, expected 40")]
)
def test_row_ids_of_the_wrong_number_or_given_twice(stable: Path, stop: int, message: str | None):
    def edit(manifest: table_pb2.Manifest) -> None:
        sequence = rowids_pb2.RowIdSequence()
        segment = sequence.segments.add()
        segment.range.start, segment.range.end = (40 if stop == 80 else 60), stop + (stop == 100)
        manifest.fragments[1].inline_row_ids = sequence.SerializeToString()

    ours = edited(stable, edit)
    if message is not None:
        with pytest.raises(CorruptDataError, match=message):
            ours.row_ids(ours.fragments[1])
    elif stop == 100:  # one too many is ignored
        assert ours.row_ids(ours.fragments[1]).to_numpy().tolist() == list(range(60, 100))
    else:
        with pytest.raises(CorruptDataError, match="two rows have the row id 40"):
            ours.row_id_index()


def test_hidden_columns_that_are_not_there(stable: Path):
    def edit(manifest: table_pb2.Manifest) -> None:
        for fragment in manifest.fragments:
            fragment.column_row_ids.SetInParent()

    ours = edited(stable, edit)
    with pytest.raises(CorruptDataError, match=r"hidden column _rowid \(field -3\)"):
        ours.row_ids(ours.fragments[0])


def test_indices_of_old_releases_do_not_say_what_they_cover(path: Path):
    lance.dataset(path).create_scalar_index("a", "BTREE")
    assert [list(index.covered_fragments()) for index in open_table(path).indices] == [[0, 1]]

    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.writer_version.version = "0.8.14"

    assert [index.covered_fragments() for index in edited(path, edit).indices] == [None]


def test_the_first_commit_puts_counts_right(path: Path) -> None:
    """Counts of releases that did not name themselves are wrong; ours are trusted, so they must be right."""

    def of_live_rows(manifest: table_pb2.Manifest) -> None:
        without_counts(manifest)
        manifest.ClearField("data_format")
        manifest.fragments[0].physical_rows = 50

    edited(path, of_live_rows)
    lance_df.dataset(path).delete("a = 20")
    manifest = open_table(path).manifest
    assert manifest.fragments.physical_rows.tolist() == [60, 40]
    assert manifest.fragments.num_deleted.tolist() == [11, 0]
    assert (manifest.data_format, manifest.writer_version.library) == ("2.2", "lance_df")
    theirs = lance.dataset(path)
    theirs.validate()
    assert sorted(theirs.to_table()["a"].to_pylist()) == [a for a in range(10, 100) if a != 20]


CHANGES: dict[str, Callable[[str], object]] = {
    "append": lambda uri: lance_df.write_dataset(pa.table({"a": [100]}), uri, mode="append"),
    "merge": lambda uri: (
        lance_df.dataset(uri).merge_insert("a").when_not_matched_insert_all().execute(pa.table({"a": [100]}))
    ),
    "update": lambda uri: lance_df.dataset(uri).update({"a": "a + 200"}, "a = 20"),
    "delete nothing": lambda uri: lance_df.dataset(uri).delete("false"),
    "add a column": lambda uri: lance_df.dataset(uri).add_columns({"b": "a + 1"}),
    "add a column of NULLs": lambda uri: lance_df.dataset(uri).add_columns(pa.field("b", pa.int32())),
    "cast a column": lambda uri: lance_df.dataset(uri).alter_columns({"path": "a", "data_type": pa.int32()}),
    "index": lambda uri: lance_df.dataset(uri).create_scalar_index("a", "BTREE"),
    "compact": lambda uri: lance_df.dataset(uri).optimize.compact_files(),
    "configure": lambda uri: lance_df.dataset(uri).update_config({"k": "v"}),
    "restore": lambda uri: lance_df.dataset(uri).restore(),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("recorded", ["0.1", None])
def test_the_version_of_the_files_replaces_a_wrong_one(tmp_path: Path, name: str, recorded: str | None):
    """Release 0.16 recorded 0.1 for tables of 2.0 files. Both libraries correct this at the next commit."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(30)}), uri, max_rows_per_file=10, data_storage_version="2.0")

    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.ClearField("data_format")
        if recorded is not None:
            manifest.data_format.file_format, manifest.data_format.version = "lance", recorded

    edited(tmp_path / "t", edit)
    before = recorded or "2.0"
    assert lance_df.dataset(uri).data_storage_version == lance.dataset(uri).data_storage_version == before
    CHANGES[name](uri)
    ours, theirs = lance_df.dataset(uri), lance.dataset(uri)
    assert ours.data_storage_version == theirs.data_storage_version == "2.0"
    assert {file.version for fragment in ours._table.fragments for file in fragment.files} == {"2.0"}
    theirs.validate()
    assert theirs.to_table().equals(ours.to_table())
    lance.write_dataset(ours.to_table(), uri, mode="append")


@pytest.mark.parametrize("recorded", ["0.1", None])
def test_files_of_an_unknown_version_are_not_taken_for_0_1(tmp_path: Path, recorded: str | None):
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1]}), uri, data_storage_version="2.2")

    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.ClearField("data_format")
        if recorded is not None:
            manifest.data_format.file_format, manifest.data_format.version = "lance", recorded
        manifest.fragments[0].files[0].file_minor_version = 3

    edited(tmp_path / "t", edit)
    for name in ("configure", "append"):
        with pytest.raises(UnsupportedFeatureError, match="version"):
            CHANGES[name](uri)
    assert lance_df.dataset(uri).version == 1


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A table with a file of 2.0 and a file of 0.1, as release 0.16 and others could write it."""
    path, legacy = tmp_path / "t", tmp_path / "legacy"
    lance.write_dataset(pa.table({"a": [1, 2]}), path, data_storage_version="2.0")
    lance.write_dataset(pa.table({"a": [3]}), legacy, data_storage_version="legacy")
    (fragment,) = open_table(legacy).fragments.to_proto()
    shutil.copy(legacy / "data" / fragment.files[0].path, path / "data")

    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.data_format.version = "0.1"
        manifest.fragments.append(fragment)
        manifest.fragments[1].id = manifest.max_fragment_id = 1

    edited(path, edit)
    return path


@pytest.mark.parametrize("name", CHANGES)
def test_tables_of_0_1_and_2_x_files_are_not_changed(mixed: Path, name: str):
    """pylance refuses each commit, too."""
    before = sorted(mixed.rglob("*"))
    with pytest.raises(
        InvalidInputError, match=r"mixture of file versions: version 1 has files of 0\.1 and 2\.0"
    ):
        CHANGES[name](str(mixed))
    assert sorted(mixed.rglob("*")) == before
    with pytest.raises(OSError, match="mixture of file versions"):
        lance.dataset(mixed).delete("false")


def test_tables_of_0_1_and_2_x_files_are_overwritten(mixed: Path):
    ours = lance_df.dataset(str(mixed))
    ours = lance_df.write_dataset(ours.to_table(), ours, mode="overwrite")
    lance.write_dataset(pa.table({"a": [4]}), mixed, mode="append")
    theirs = lance.dataset(mixed)
    theirs.validate()
    assert theirs.to_table()["a"].to_pylist() == [1, 2, 3, 4]
    assert {f.version for each in open_table(mixed).fragments for f in each.files} == {"2.0"}
    with pytest.raises(InvalidInputError, match="mixture of file versions"):
        lance_df.dataset(str(mixed), version=1).restore()


@pytest.mark.parametrize("flags", [0, 4])
def test_new_files_of_empty_tables_without_a_version(tmp_path: Path, flags: int):
    versions = []
    for library in (lance, lance_df):
        path = tmp_path / library.__name__
        lance.write_dataset(pa.table({"a": [1]}).slice(1), path, data_storage_version="2.0")

        def edit(manifest: table_pb2.Manifest) -> None:
            manifest.ClearField("data_format")
            manifest.reader_feature_flags = manifest.writer_feature_flags = flags

        edited(path, edit)
        library.write_dataset(pa.table({"a": [1]}), str(path), mode="append")
        table = open_table(path)
        versions.append((table.manifest.data_format, table.fragments[0].files[0].version))
    assert versions[0] == versions[1]
