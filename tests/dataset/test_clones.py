"""Clones that we make, beside pylance: what is in them, who reads and writes them, and where they can go."""

from __future__ import annotations

import dataclasses
import shutil
import uuid
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.blob import Blob, blob_array
from lance_df.errors import (
    AlreadyExistsError,
    CorruptDataError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.storage.copy import copy_file
from lance_df.table import file_copies

if TYPE_CHECKING:
    from pathlib import Path


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"a": range(start, stop), "b": [str(i) for i in range(start, stop)]})


def values(data: Any) -> list[int]:
    found: list[int] = data.to_table()["a"].to_pylist()
    return found


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} if folder.exists() else set()


def make_source(folder: Path, **options: Any) -> lance_df.LanceDataset:
    """Two fragments, with deletions, indices, a tag, configuration and metadata."""
    source = lance.write_dataset(rows(0, 8), folder, max_rows_per_file=4, **options)
    source.create_scalar_index("a", "BTREE")
    source.create_scalar_index("b", "ZONEMAP")
    source.delete("a in (1, 6)")
    source.update_config({"key": "value"})
    source.update_metadata({"owner": "me"})
    source.tags.create("golden", source.version)
    return lance_df.dataset(str(folder))


EXPECTED = [0, 2, 3, 4, 5, 7]


@pytest.fixture
def source(tmp_path: Path) -> lance_df.LanceDataset:
    return make_source(tmp_path / "source")


def described(data: lance_df.LanceDataset) -> dict[str, Any]:
    """Return what a clone is, but for what differs each time."""
    manifest = data._table.manifest
    operation = data._table.transaction()
    assert operation is not None
    return {
        "version": manifest.version,
        "flags": (manifest.reader_feature_flags, manifest.writer_feature_flags),
        "bases": sorted(
            (base.id, base.name, base.path, base.is_dataset_root) for base in manifest.base_paths
        ),
        "fragments": list(manifest.fragments),
        "indices": data._table.manifest_file.read_indices(),
        "maps": (manifest.config, manifest.table_metadata),
        "ids": (manifest.max_fragment_id, manifest.next_row_id, manifest.data_format, manifest.branch),
        "transaction": (operation.read_version, operation.operation),
    }


def without_names(found: dict[str, Any]) -> dict[str, Any]:
    """Return a description without the names of files; deep clones have new ones."""

    def fragment(each: Any) -> Any:
        files = tuple(dataclasses.replace(file, path="") for file in each.files)
        deletions = each.deletion_file and dataclasses.replace(each.deletion_file, id=0)
        return dataclasses.replace(each, files=files, deletion_file=deletions)

    indices = [dataclasses.replace(index, uuid=uuid.UUID(int=0)) for index in found["indices"]]
    return found | {"fragments": list(map(fragment, found["fragments"])), "indices": indices}


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone"])
@pytest.mark.parametrize("options", [{}, {"enable_stable_row_ids": True}, {"data_storage_version": "0.1"}])
def test_clones_as_pylance_makes_them(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    source = make_source(tmp_path / "source", **options)
    theirs = lance.dataset(source.uri)
    expected = getattr(theirs, kind)(str(tmp_path / "theirs"), "golden")
    clone = getattr(source, kind)(tmp_path / "ours", "golden")
    seen = described if kind == "shallow_clone" else lambda data: without_names(described(data))
    assert seen(clone) == seen(lance_df.dataset(expected.uri))
    found = lance.dataset(clone.uri)
    found.validate()
    assert values(found) == values(clone) == EXPECTED
    assert found.to_table(filter="a = 4 and b = '4'").num_rows == 1

    lance.write_dataset(rows(20, 22), clone.uri, mode="append")
    lance.dataset(clone.uri).delete("a = 0")
    clone.checkout_latest()
    clone.delete("a = 2")
    lance_df.write_dataset(rows(30, 31), clone, mode="append")
    found = lance.dataset(clone.uri)
    found.validate()
    assert values(found) == [*EXPECTED[2:], 20, 21, 30]
    ours_in_theirs = lance_df.dataset(expected.uri)
    ours_in_theirs.delete("a >= 4")
    assert values(lance.dataset(expected.uri)) == [0, 2, 3]
    assert values(source) == EXPECTED


def test_a_deep_clone_needs_nothing_else(source: lance_df.LanceDataset, tmp_path: Path) -> None:
    shallow = source.shallow_clone(tmp_path / "shallow")
    shallow.delete("a = 0")
    lance_df.write_dataset(rows(9, 10), shallow, mode="append")
    deep = lance_df.dataset(shallow.uri).deep_clone(tmp_path / "deep", (None, None))
    assert deep.base_paths() == {}
    shutil.rmtree(tmp_path / "source")
    shutil.rmtree(tmp_path / "shallow")
    found = lance.dataset(deep.uri)
    found.validate()
    assert values(found) == values(deep) == [2, 3, 4, 5, 7, 9]
    assert found.to_table(filter="a = 5").num_rows == 1


def test_large_blobs_come_along(tmp_path: Path) -> None:
    blobs = [b"x", None, b"y" * 100_000, b"z" * 5_000_000]
    table = pa.table({"a": range(4), "blob": lance.blob_array(blobs)})
    lance.write_dataset(table, tmp_path / "source", data_storage_version="2.2")
    deep = lance_df.dataset(tmp_path / "source").deep_clone(tmp_path / "deep")
    shutil.rmtree(tmp_path / "source")
    found = lance.dataset(deep.uri).take_blobs("blob", indices=[0, 2, 3])
    assert [blob.read() for blob in found] == [blob for blob in blobs if blob is not None]


def test_clones_of_clones_and_branches(source: lance_df.LanceDataset, tmp_path: Path) -> None:
    first = source.shallow_clone(tmp_path / "first", "golden")
    first.delete("a = 0")
    branch = first.create_branch("br")
    branch.delete("a = 2")
    second = branch.shallow_clone(tmp_path / "second")
    theirs = lance.dataset(branch.uri).shallow_clone(str(tmp_path / "theirs"), ("br", None))
    assert described(second)["bases"] == described(lance_df.dataset(theirs.uri))["bases"]
    assert [base.path for _, base in sorted(second.base_paths().items())] == [
        source.uri,
        first.uri,
        branch.uri,
    ]
    for data in (second, theirs, lance.dataset(second.uri), lance_df.dataset(theirs.uri)):
        assert values(data) == [3, 4, 5, 7]
    # unlike pylance, which looks for all inherited files in the parent of the branch
    shutil.rmtree(tmp_path / "second")
    found = lance.dataset(branch.uri)
    found.validate()
    assert values(found) == [3, 4, 5, 7]


def test_relative_paths_do_not_survive(
    source: lance_df.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clone = lance_df.dataset("source").shallow_clone("ours")
    assert clone.base_paths()[0].path == source.uri
    # pylance keeps what it was given
    lance.dataset("source").shallow_clone("theirs", source.version)
    of_theirs = lance_df.dataset("theirs").shallow_clone("again")
    assert of_theirs.base_paths()[0].path == source.uri
    monkeypatch.chdir("/")
    for name in ("ours", "again"):
        assert values(lance.dataset(str(tmp_path / name))) == EXPECTED


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone"])
def test_refused_clones_leave_nothing(source: lance_df.LanceDataset, tmp_path: Path, kind: str) -> None:
    clone = getattr(source, kind)
    before = files_below(tmp_path)
    with pytest.raises(AlreadyExistsError, match="table already exists"):
        clone(source.uri)
    for missing in (99, "nothing", ("nowhere", None)):
        with pytest.raises(VersionNotFoundError):
            clone(tmp_path / "clone", missing)
    (tmp_path / "file").write_text("")
    before.add("file")
    with pytest.raises(StorageError):
        clone(tmp_path / "file")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone", "create_branch"])
def test_detached_versions_are_not_cloned(source: lance_df.LanceDataset, tmp_path: Path, kind: str) -> None:
    """Such a clone would have no version that is found as its newest."""
    append = lance_df.LanceOperation.Append([])
    detached = lance_df.LanceDataset.commit(source, append, source.version, detached=True)
    before = files_below(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match=f"version {detached.version} is detached"):
        getattr(detached, kind)("b" if kind == "create_branch" else tmp_path / "clone")
    assert files_below(tmp_path) == before


def test_a_copy_that_fails_is_taken_back(
    source: lance_df.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []

    def copy(origin: Any, target: Any) -> None:
        if len(copied) == 3:
            raise StorageError("full")
        copied.append(target)
        copy_file(origin, target)

    monkeypatch.setattr(file_copies, "copy_file", copy)
    with pytest.raises(StorageError, match="full"):
        source.deep_clone(tmp_path / "clone")
    assert len(copied) == 3
    assert not (tmp_path / "clone").exists()


def test_files_of_one_name_are_copied_to_two(source: lance_df.LanceDataset, tmp_path: Path) -> None:
    """Two clones of one table may share the names of files only when somebody copied them by hand."""
    clone = source.shallow_clone(tmp_path / "clone")
    name = source._table.fragments[0].files[0].path
    lance_df.write_dataset(rows(50, 52), clone, mode="append")
    clone.checkout_latest()
    table = clone._table
    own = table.fragments[2].files[0]
    (tmp_path / "clone/data" / own.path).rename(tmp_path / "clone/data" / name)
    table.fragments.to_proto()[2].files[0].path = name
    deep = clone.deep_clone(tmp_path / "deep")
    assert values(deep) == values(lance.dataset(deep.uri)) == [*EXPECTED, 50, 51]


def test_tables_can_be_copied_elsewhere(source: lance_df.LanceDataset, tmp_path: Path) -> None:
    branch = source.create_branch("br")
    branch.delete("a = 7")
    shutil.copytree(tmp_path / "source", tmp_path / "copy")
    copy = lance_df.dataset(tmp_path / "copy")
    copy.delete("a = 0")
    assert values(lance.dataset(copy.uri)) == values(copy) == EXPECTED[1:]
    assert values(source) == EXPECTED
    in_copy = copy.checkout_version(("br", None))
    shutil.rmtree(tmp_path / "source")
    with pytest.raises(CorruptDataError, match="is missing"):
        in_copy.to_table()
    in_copy.rebase_paths({source.uri: copy.uri})
    found = lance.dataset(f"{copy.uri}/tree/br")
    found.validate()
    assert values(found) == values(in_copy) == EXPECTED[:-1]


def test_blobs_of_deep_clones_stay_those_in_base_paths(tmp_path: Path) -> None:
    """Blobs refer to base paths by number: a base path that is added later has another one."""
    for name in ("right", "wrong"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "blob.bin").write_bytes(name.encode())
    blobs = blob_array([Blob.from_uri((tmp_path / "right/blob.bin").as_uri())])
    base = lance_df.DatasetBasePath(str(tmp_path / "right"), "right", False)
    source = lance_df.write_dataset(
        pa.table({"k": [1], "x": blobs}), tmp_path / "t", data_storage_version="2.2", initial_bases=[base]
    )
    clone = source.deep_clone(tmp_path / "c", source.version)
    clone.add_bases([lance_df.DatasetBasePath(str(tmp_path / "wrong"), "wrong", False)])
    for api in (lance_df, lance):
        (blob,) = api.dataset(str(tmp_path / "c")).take_blobs("x", indices=[0])
        assert blob.read() == b"right"
