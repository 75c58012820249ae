"""Files in other places than the table's own root."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath

from lance_df.errors import CorruptDataError, LanceError
from lance_df.format.fragments import DataFile, DeletionFile, DeletionFileType
from lance_df.format.manifest import BasePath
from lance_df.storage import open_location
from lance_df.table.metadata.base_paths import BasePaths
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from pathlib import Path

GONE = DeletionFile(file_type=DeletionFileType.BITMAP, read_version=1, id=2)


def data_file(path: str, base_id: int | None = None) -> DataFile:
    return DataFile(path=path, fields=(), base_id=base_id)


@pytest.fixture
def bases() -> BasePaths:
    return BasePaths(
        open_location("/own"),
        (
            BasePath(id=9, path="file:///roots/nine", is_dataset_root=True),
            BasePath(id=0, path="/flat/zero/"),
            BasePath(id=4, path=""),
        ),
        source="manifest",
    )


def test_places(bases: BasePaths):
    assert bases.data_file(data_file("x.lance")).path == "/own/data/x.lance"
    assert bases.data_file(data_file("x.lance", 9)).path == "/roots/nine/data/x.lance"
    assert bases.data_file(data_file("x.lance", 0)).path == "/flat/zero/x.lance"
    assert bases.data_file(data_file("sub/x.lance")).path == "/own/data/sub/x.lance"
    assert bases.deletion_file(GONE, 5).path == "/own/_deletions/5-1-2.bin"
    index = uuid.UUID(int=1)
    assert bases.index(index, 9).path == f"/roots/nine/_indices/{index}"
    assert bases.index(index, None).path == f"/own/_indices/{index}"


def test_bases_that_are_not_there(bases: BasePaths):
    with pytest.raises(
        CorruptDataError, match="base path 7, which does not exist; the base paths are: 0, 4, 9"
    ):
        bases.data_file(data_file("x", 7))
    with pytest.raises(CorruptDataError, match="base path 4 has the invalid path ''"):
        bases.data_file(data_file("x", 4))


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "../x", "a/../../x", "..", "a//b", "%2e%2e/x", "..%2fx", "%2Fetc%2Fpasswd"),
        *("..\\x", "\\\\host\\x", "C:\\x", "C:x", "s3://bucket/x", "file:///x", "a\0b", "a%00b"),
    ],
)
@pytest.mark.parametrize("base_id", [None, 0, 9])
def test_names_that_leave_their_folder(bases: BasePaths, path: str, base_id: int | None):
    with pytest.raises(CorruptDataError, match="the recorded path"):
        bases.data_file(data_file(path, base_id))


def test_bases_in_the_store_of_the_table_are_opened_with_its_options(s3_options: dict[str, Any]):
    own = open_location("s3://bucket/own", s3_options)
    bases = BasePaths(
        own,
        (
            BasePath(id=1, path="s3://other/root", is_dataset_root=True),
            BasePath(id=2, path="/flat"),
            BasePath(id=4, path="s3a://other/flat"),
        ),
        source="manifest",
    )
    places = [bases.data_file(data_file("x", base_id)) for base_id in (1, 2, 4)]
    assert [place.path for place in places] == [
        "other/root/data/x",
        "bucket/flat/x",
        "other/flat/x",
    ]
    assert [place.fs is own.fs for place in places] == [True, True, True]
    assert all(s3_options["secret"] not in repr(place) for place in places)


def test_a_base_that_cannot_be_opened_is_an_error_of_ours():
    bases = BasePaths(open_location("/own"), (BasePath(id=1, path="nonsense://x"),), source="manifest")
    with pytest.raises(LanceError):
        bases.data_file(data_file("x", 1))


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("is_root", [True, False])
def test_tables_over_several_bases(tmp_path: Path, scheme: str, *, is_root: bool):
    rows = pa.table({"a": range(10)})
    uri = str(tmp_path / "t.lance")
    bases = [
        DatasetBasePath(f"{scheme}{tmp_path}/{name}", name=name, is_dataset_root=is_root)
        for name in ("hot", "cold")
    ]
    for base in ("hot", "cold"):
        (tmp_path / base).mkdir()
    lance.write_dataset(rows, uri, initial_bases=bases, target_bases=["hot"])
    data = lance.write_dataset(rows, uri, mode="append", target_bases=["cold"])
    data = lance.write_dataset(rows, data, mode="append")
    data.delete("a = 3")
    ours = open_table(uri)
    assert ours.count_rows() == data.count_rows() == 27
    places = []
    for fragment in ours.fragments:
        (file,) = fragment.files
        reader = ours.open_data_file(fragment, file)
        assert reader.num_rows == 10
        assert list(ours.deletion_vector(fragment)) == [3]
        places.append(reader.path.removeprefix(str(tmp_path)).rpartition("/")[0])
    own = "/data" if is_root else ""
    assert places == [f"/hot{own}", f"/cold{own}", "/t.lance/data"]


def test_a_file_that_was_moved_within_a_remote_store(tmp_path: Path):
    fs = fsspec.filesystem("memory")
    lance.write_dataset(pa.table({"a": range(10)}), tmp_path / "t.lance")
    try:
        fs.put(str(tmp_path / "t.lance"), "/base-paths-test/t.lance", recursive=True)
        ours = open_table("memory://base-paths-test/t.lance")
        (fragment,) = ours.fragments
        (file,) = fragment.files
        fs.mkdirs("/base-paths-test/flat", exist_ok=True)
        fs.mv(f"/base-paths-test/t.lance/data/{file.path}", f"/base-paths-test/flat/{file.path}")
        with pytest.raises(CorruptDataError, match="missing"):
            ours.open_data_file(fragment, file)
        base = BasePath(id=1, path="memory://base-paths-test/flat")
        bases = BasePaths(ours.location, (base,), source="manifest")
        place = bases.data_file(data_file(file.path, 1))
        assert place.fs is ours.location.fs
        assert place.exists()
    finally:
        fs.rm("/base-paths-test", recursive=True)
