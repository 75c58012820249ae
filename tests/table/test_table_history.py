"""Table histories written by pylance: versions, fragments, counts, deletions, row ids and schemas agree."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lance_df.errors import VersionNotFoundError
from lance_df.format.fragment_list import num_live_rows
from lance_df.storage import Location, open_location
from lance_df.table.metadata.history import History, version_sources
from lance_df.table.metadata.manifest_io import read_manifest
from lance_df.table.metadata.versions import VERSIONS_DIR, NamingScheme
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from pathlib import Path

    from lance_df.table.table import Table


def rows(start: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, stop), pa.int64()),
            "s": [f"s{i}" for i in range(start, stop)],
            "st": [{"x": i, "y": {"z": float(i)}} for i in range(start, stop)],
            "l": [[i, i + 1] for i in range(start, stop)],
        },
        metadata={"made": "here"},
    )


def history(uri: str, *, stable: bool, **options: object) -> None:
    """Do about everything that makes a version."""
    data = lance.write_dataset(
        rows(0, 100), uri, max_rows_per_file=30, enable_stable_row_ids=stable, **options
    )
    data = lance.write_dataset(rows(100, 150), data, mode="append")
    data.delete("id % 7 = 0")
    data.update({"s": "'new'"}, where="id > 95 and id < 110")
    data.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(140, 160))
    data.add_columns({"twice": "id * 2"})
    if options["data_storage_version"] != "0.1":
        data.add_columns(pa.schema([pa.field("nothing", pa.int32())]))
    data.alter_columns({"path": "s", "name": "text"}, {"path": "twice", "data_type": pa.int32()})
    data.drop_columns(["l"])
    data.delete("id < 60")
    data.optimize.compact_files(target_rows_per_fragment=1000)
    data.update({"text": "'again'"}, where="id % 2 = 0")
    data.update_config({"a.b": "c"})
    data.restore()
    lance.dataset(uri, version=3).restore()
    data = lance.write_dataset(rows(0, 10), uri, mode="overwrite")
    data.delete("id = 5")


def same(ours: Table, theirs: lance.LanceDataset) -> None:
    """Compare one version."""
    assert ours.version == theirs.version
    assert ours.count_rows() == theirs.count_rows()
    assert ours.arrow_schema.equals(theirs.schema, check_metadata=True)
    assert ours.fragments.ids.tolist() == [fragment.fragment_id for fragment in theirs.get_fragments()]
    for fragment, other in zip(ours.fragments, theirs.get_fragments(), strict=True):
        metadata = other.metadata
        assert fragment.physical_rows == metadata.physical_rows
        assert ours.live_rows(fragment) == metadata.num_rows
        assert [file.path for file in fragment.files] == [file.path for file in metadata.files]
        assert [list(file.fields) for file in fragment.files] == [file.fields for file in metadata.files]
        assert [file.size_bytes for file in fragment.files] == [
            file.file_size_bytes for file in metadata.files
        ]
        scanned = other.scanner(columns=[], with_row_id=True, with_row_address=True).to_table()
        deleted = ours.deletion_vector(fragment)
        live = np.setdiff1d(np.arange(fragment.physical_rows), [] if deleted is None else deleted.to_array())
        addresses = live.astype(np.uint64) + np.uint64(fragment.id << 32)
        row_ids = ours.row_ids(fragment).to_numpy()[live]
        assert addresses.tolist() == scanned["_rowaddr"].to_pylist()
        assert row_ids.tolist() == scanned["_rowid"].to_pylist()
        found = ours.row_id_index().lookup(row_ids)
        assert found[0].tolist() == addresses.tolist()
        assert found[1].all()
        if ours.uses_stable_row_ids:
            columns = ["_row_created_at_version", "_row_last_updated_at_version"]
            versions = other.scanner(columns=columns).to_table()
            for sequence, column in zip(ours.row_version_sequences(fragment), columns, strict=True):
                assert sequence.to_numpy()[live].tolist() == versions[column].to_pylist()


def same_versions(ours: Table, theirs: lance.LanceDataset) -> None:
    mine, others = ours.versions(), theirs.versions()
    assert [each["version"] for each in mine] == [each["version"] for each in others]
    assert [each["metadata"] for each in mine] == [each["metadata"] for each in others]
    for each, other in zip(mine, others, strict=True):
        # pylance divides nanoseconds as floats, which is a microsecond off now and then
        assert abs(each["timestamp"] - other["timestamp"]) <= dt.timedelta(microseconds=1)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("v2_names", [True, False], ids=["V2", "V1"])
def test_histories(tmp_path: Path, version: str, *, stable: bool, v2_names: bool):
    uri = str(tmp_path / "t.lance")
    history(uri, stable=stable, data_storage_version=version, enable_v2_manifest_paths=v2_names)
    latest = lance.dataset(uri)
    ours = open_table(uri)
    assert ours.uses_stable_row_ids is stable
    assert ours.latest_version() == latest.version
    same_versions(ours, latest)
    kinds = set()
    for number in [each["version"] for each in latest.versions()]:
        table = open_table(uri, version=number)
        same(table, lance.dataset(uri, version=number))
        kinds.add(type(table.transaction().operation).__name__)
    assert kinds == {
        *("Overwrite", "Append", "Delete", "Update", "Merge", "Project"),
        *("Rewrite", "ReserveFragments", "UpdateConfig", "Restore"),
    }


def test_versions_that_are_deleted_while_they_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for _ in range(3):
        lance.write_dataset(rows(0, 5), tmp_path, mode="append")
    ours = open_table(tmp_path)
    numbers = History.numbers

    def delete_one(history: History) -> list[int]:
        found = numbers(history)
        (tmp_path / "_versions" / NamingScheme.V2.file_name(2)).unlink()
        return found

    monkeypatch.setattr(History, "numbers", delete_one)
    assert [each["version"] for each in ours.versions()] == [1, 3]


def test_row_ids_of_rows_that_are_gone_are_not_found(tmp_path: Path):
    for stable in (False, True):
        uri = str(tmp_path / f"{stable}.lance")
        data = lance.write_dataset(rows(0, 20), uri, max_rows_per_file=10, enable_stable_row_ids=stable)
        data.delete("id in (3, 4, 19)")
        ours = open_table(uri)
        gone = [3, 4, 19] if stable else [3, 4, 2**32 + 9]
        beyond = [20, 10**6, 2**63] if stable else [10, 2 * 2**32, 2**63]
        addresses, found = ours.row_id_index().lookup(np.array([*gone, *beyond, 0], np.uint64))
        assert found.tolist() == [False] * 6 + [True]
        assert addresses.tolist() == [0] * 7
        assert ours.row_id_index().lookup(np.array([], np.uint64))[0].tolist() == []


def test_large_deletions_are_bitmaps(tmp_path: Path):
    uri = str(tmp_path / "t.lance")
    data = lance.write_dataset(pa.table({"id": range(20_000)}), uri)
    for condition, extension in (("id < 4999", "arrow"), ("id < 5003", "bin"), ("id % 2 = 0", "bin")):
        data.delete(condition)
        ours = open_table(uri)
        (fragment,) = ours.fragments
        assert fragment.deletion_file.file_type == extension
        assert ours.count_rows() == data.count_rows()
        expected = data.scanner(columns=["id"]).to_table()["id"].to_pylist()
        deleted = ours.deletion_vector(fragment)
        assert sorted(set(range(20_000)) - set(deleted)) == expected


def test_spilled_sequences(tmp_path: Path):
    uri = str(tmp_path / "t.lance")
    data = lance.write_dataset(rows(0, 4000), uri, enable_stable_row_ids=True, max_rows_per_file=1000)
    data.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"})
    data.delete("id % 3 = 1")
    data.update({"s": "'x'"}, where="id % 5 = 2")
    data.optimize.compact_files(target_rows_per_fragment=2000)
    ours = open_table(uri)
    assert ours.manifest.reader_feature_flags & 2048
    assert any(fragment.row_ids is not None and fragment.file_of(-3) for fragment in ours.fragments)
    same(ours, lance.dataset(uri))


def test_a_pinned_table_does_not_move_and_a_newer_one_is_seen(tmp_path: Path):
    uri = str(tmp_path / "t.lance")
    data = lance.write_dataset(rows(0, 5), uri)
    ours = open_table(uri)
    assert ours.latest() is ours
    lance.write_dataset(rows(5, 9), data, mode="append")
    assert (ours.count_rows(), ours.latest_version(), ours.latest().count_rows()) == (5, 2, 9)
    assert ours.checkout(None).version == 2
    assert ours.latest().checkout(1).count_rows() == 5


def test_a_table_that_was_made_anew_at_the_same_place_is_seen(tmp_path: Path):
    uri = tmp_path / "t.lance"
    lance.write_dataset(rows(0, 5), uri)
    ours = open_table(uri)
    for file in (uri / "_versions").iterdir():
        file.unlink()
    lance.write_dataset(rows(0, 5), uri)
    latest = ours.latest()
    assert latest is not ours
    assert latest.fragments[0].files[0].path != ours.fragments[0].files[0].path


def test_time_travel_by_time(tmp_path: Path):
    uri = str(tmp_path / "t.lance")
    for _ in range(3):
        lance.write_dataset(rows(0, 5), uri, mode="append")
    table = open_table(uri)
    times = [table.checkout(version).manifest.timestamp for version in (1, 2, 3)]
    tick = dt.timedelta(microseconds=1)
    assert [open_table(uri, asof=time).version for time in times] == [1, 2, 3]
    assert [open_table(uri, asof=time + tick).version for time in times] == [1, 2, 3]
    assert open_table(uri, asof=times[2] - tick).version == 2
    assert open_table(uri, asof=dt.datetime.now() + dt.timedelta(days=1)).version == 3
    zone = dt.timezone(dt.timedelta(hours=9))
    assert open_table(uri, asof=times[1].astimezone(zone)).version == 2


def test_detached_versions_are_reached_by_number_only(tmp_path: Path):
    uri = str(tmp_path / "t.lance")
    data = lance.write_dataset(rows(0, 5), uri)
    append = lance.fragment.write_fragments(rows(5, 9), uri)
    detached = lance.LanceDataset.commit(
        data, lance.LanceOperation.Append(append), read_version=1, detached=True
    )
    assert detached.version >> 63 == 1
    ours = open_table(uri, version=detached.version)
    assert (ours.version, ours.count_rows()) == (detached.version, 9)
    assert (open_table(uri).version, open_table(uri).latest_version()) == (1, 1)
    assert [each["version"] for each in open_table(uri).versions()] == [1]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_indices(tmp_path: Path, version: int):
    data = lance.write_dataset(rows(0, 50), tmp_path / "t.lance", max_rows_per_file=10)
    data.create_scalar_index("id", "BTREE")
    data.create_scalar_index("s", "BITMAP", name="by text")
    theirs = data.checkout_version(version)
    ours = open_table(data.uri, version=theirs.version)
    expected = {
        (str(segment.uuid), index.name, tuple(sorted(segment.fragment_ids)))
        for index in theirs.describe_indices()
        for segment in index.segments
    }
    assert expected == {
        (str(index.uuid), index.name, tuple(index.covered_fragments())) for index in ours.indices
    }
    for index in ours.indices:
        names = {entry.name for entry in ours.index_location(index).list()}
        assert {name for name, _ in index.files} == names


def test_versions_of_many_tables_of_a_store(tmp_path: Path) -> None:
    """Manifests of either name are found, and what is missing is told."""
    fs = MemoryFileSystem()
    asked = []
    for number in range(4):
        lance.write_dataset(rows(0, number + 1), tmp_path / f"{number}")
        (file,) = (tmp_path / f"{number}" / VERSIONS_DIR).glob("*.manifest")
        if number == 2:
            file = file.rename(file.with_name(NamingScheme.V1.file_name(1)))
        fs.pipe_file(f"/many/{number}/{VERSIONS_DIR}/{file.name}", file.read_bytes())
        asked.append((Location(f"memory://many/{number}", f"/many/{number}", fs), 1))
    for tables in (asked, [(open_location(tmp_path / f"{number}"), 1) for number in range(4)]):
        found = [read_manifest(source).manifest for source in version_sources(tables)]
        assert [num_live_rows(manifest.fragments.to_proto()) for manifest in found] == [1, 2, 3, 4]
        with pytest.raises(VersionNotFoundError, match="1: version 7 does not exist"):
            list(version_sources([tables[0], (tables[1][0], 7), tables[3]]))
