"""Blobs of every kind of place, as pylance reads them."""

import datetime as dt
import io
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.blob import Blob, blob_array, blob_field
from lance_df.errors import ColumnNotFoundError, CorruptDataError, InvalidInputError

_VALUES = [b"a" * 10, b"b" * 100_000, b"c" * 5_000_000, None, b"", b"d" * 80_000]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with blobs in the data file, in shared and own files, and outside; one row is deleted."""
    folder = tmp_path_factory.mktemp("blobs")
    (folder / "outside.bin").write_bytes(b"0123456789")
    uri = (folder / "outside.bin").as_uri()
    values = [*_VALUES, lance.Blob(uri=uri, position=2, size=5), lance.Blob(uri=uri)]
    rows = pa.table(
        {"id": pa.array(range(8)), "b": lance.blob_array(values)},
        schema=pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")]),
    )
    dataset = lance.write_dataset(
        rows, str(folder / "t"), data_storage_version="2.2", allow_external_blob_outside_bases=True
    )
    dataset.delete("id = 5")
    return folder / "t"


def test_blobs_read_as_pylance_reads_them(folder: Path) -> None:
    ours, theirs = lance_df.dataset(str(folder)), lance.dataset(str(folder))
    selections: list[dict[str, Any]] = [
        {"indices": [6, 0, 3, 1, 2, 5, 4, 4]},
        {"addresses": [7, 1, 0]},
        {"ids": pa.array([2, 6, 3])},
    ]
    for selection in selections:
        assert ours.read_blobs("b", **selection) == theirs.read_blobs("b", **selection)
        pairs = zip(ours.take_blobs("b", **selection), theirs.take_blobs("b", **selection), strict=True)
        for blob, expected in pairs:
            assert (blob is None) == (expected is None)
            if blob is not None and expected is not None:
                assert (blob.size(), blob.readall()) == (expected.size(), expected.readall())
    requests = [(0, 1, 2), (5, 1, 2), (3, 0, 5), (2, 4_999_990, 10), (0, 10, 0), (4, 0, 0)]
    assert ours.read_blob_ranges("b", requests, selector="indices") == theirs.read_blob_ranges(
        "b", requests, selector="indices"
    )


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_of_older_files(tmp_path: Path, version: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = [b"x" * 9, None, b"", b"y" * 3000]
    rows = pa.table({"b": pa.array(values, pa.large_binary())}, schema=pa.schema([field]))
    for module, name in ((lance, "theirs"), (lance_df, "ours")):
        module.write_dataset(rows, str(tmp_path / name), data_storage_version=version)
        found = lance_df.dataset(str(tmp_path / name)).read_blobs("b", indices=[3, 2, 1, 0])
        assert [value for _, value in found] == values[::-1]


def test_a_blob_is_a_file(folder: Path) -> None:
    (blob, null) = lance_df.dataset(str(folder)).take_blobs("b", indices=[5, 3])
    assert blob is not None
    assert null is None
    assert (blob.read(2), blob.tell(), blob.read_range(0, 5), blob.tell()) == (b"23", 2, b"23456", 2)
    assert (blob.seek(-1, io.SEEK_END), blob.read(), blob.read()) == (4, b"6", b"")
    blob.seek(1)
    buffered = io.BufferedReader(blob)
    assert buffered.read(3) == b"345"
    buffered.detach()
    assert blob.read_ranges([(0, 1), (4, 1)]) == [b"2", b"6"]
    blob.seek(0)
    assert (blob.read1(2), blob.readinto1(memoryview(bytearray(2))), blob.read1()) == (b"23", 2, b"6")
    for call in (blob.seek, blob.read):
        with pytest.raises(TypeError, match="float"):
            call(1.0)
    assert (blob.tell(), blob.seek(np.int64(5))) == (5, 5)
    with pytest.raises(io.UnsupportedOperation, match="write"):
        blob.write(b"x")
    with pytest.raises(InvalidInputError, match="the blob has 5"):
        blob.read_range(3, 3)
    blob.close()
    with pytest.raises(InvalidInputError, match="closed"):
        blob.read()


def test_wrong_requests(folder: Path) -> None:
    dataset = lance_df.dataset(str(folder))
    with pytest.raises(InvalidInputError, match="not a blob column"):
        dataset.take_blobs("id", indices=[0])
    with pytest.raises(ColumnNotFoundError, match="zz"):
        dataset.take_blobs("zz", indices=[0])
    with pytest.raises(InvalidInputError, match="exactly one"):
        dataset.take_blobs("b", indices=[0], ids=[0])
    with pytest.raises(NotImplementedError, match="of the 2 rows given as addresses, 1 are deleted"):
        dataset.read_blobs("b", addresses=[5, 0])
    with pytest.raises(InvalidInputError, match="selector"):
        dataset.read_blob_ranges("b", [(0, 0, 1)], selector="rows")
    with pytest.raises(InvalidInputError, match="are out of range, the blob has"):
        dataset.read_blob_ranges("b", [(0, 8, 3)], selector="indices")


def test_missing_and_cut_files_are_named(folder: Path, tmp_path: Path) -> None:
    dataset = lance_df.dataset(str(folder))
    for kept, number in ((100, 1), (None, 2)):
        file = dataset.take_blobs("b", indices=[number])[0]
        assert file is not None
        path = Path(file._location.location.path)
        data = path.read_bytes()
        path.unlink()
        if kept is not None:
            path.write_bytes(data[:kept])
        try:
            with pytest.raises(CorruptDataError, match=path.name):
                dataset.read_blobs("b", indices=[number])
        finally:
            path.write_bytes(data)


def test_blobs_that_are_written(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"0123456789")
    uri = (tmp_path / "outside").as_uri()
    values = [b"one", None, b"", Blob(uri=uri, position=1, size=3), uri]
    schema = pa.schema([blob_field("b")])
    rows = pa.table([blob_array(values)], schema=schema)
    lance_df.write_dataset(
        rows, str(tmp_path / "t"), data_storage_version="2.2", allow_external_blob_outside_bases=True
    )
    expected = [b"one", None, b"", b"123", b"0123456789"]
    for module in (lance, lance_df):
        found = module.dataset(str(tmp_path / "t")).read_blobs("b", indices=[0, 1, 2, 3, 4])
        assert [value for _, value in found] == expected
    for wrong in (
        {"data": b"", "uri": "x"},
        {},
        {"uri": ""},
        {"uri": "x", "size": 1},
        {"data": b"", "size": 1},
    ):
        with pytest.raises(InvalidInputError):
            Blob(**wrong)
    with pytest.raises(InvalidInputError, match="inline_size_threshold"):
        blob_field("b", inline_size_threshold=-1)


def test_clean_up_keeps_blobs_that_a_version_needs_and_removes_the_others(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")])

    def write(mode: str, *numbers: int) -> None:
        blobs = lance.blob_array([bytes([number]) * 70_000 for number in numbers])
        rows = pa.table({"id": pa.array(numbers), "b": blobs}, schema=schema)
        lance.write_dataset(rows, uri, mode=mode, data_storage_version="2.2")

    def sidecars() -> set[Path]:
        return set((tmp_path / "t" / "data").glob("*/*.blob"))

    write("create", 1, 2)
    write("append", 3)
    lance.dataset(uri).tags.create("kept", 1)
    write("overwrite", 4)
    write("append", 5)
    assert len(sidecars()) == 4
    # of no version, as that of a writer that has not committed yet
    stranger = tmp_path / "t" / "data" / ("0" * 50) / f"{'1' * 32}.blob"
    stranger.parent.mkdir()
    stranger.write_bytes(b"under way")
    lance_df.dataset(uri).cleanup_old_versions(dt.timedelta(0), error_if_tagged_old_versions=False)
    assert len(sidecars()) == 4
    assert stranger.exists()
    for version, numbers in (("kept", [1, 2]), (None, [4, 5])):
        for module in (lance_df, lance):
            dataset = module.dataset(uri, version=version)
            found = dataset.read_blobs("b", indices=range(len(numbers)))
            assert [value for _, value in found] == [bytes([number]) * 70_000 for number in numbers]


def test_scans_return_the_bytes_of_blobs(folder: Path) -> None:
    ours, theirs = (
        module.dataset(str(folder)).to_table(blob_handling="all_binary", filter=pc.field("id") != 2)
        for module in (lance_df, lance)
    )
    assert ours.schema.field("b").type == pa.large_binary()
    assert ours.to_pydict() == theirs.to_pydict()
    taken = lance_df.dataset(str(folder)).scanner(["b"], limit=1, offset=1, blob_handling="all_binary")
    assert taken.to_table().to_pydict() == {"b": [_VALUES[1]]}
    described = lance_df.dataset(str(folder)).to_table().column("b").combine_chunks()
    kinds = [None if value is None else value["kind"] for value in described.to_pylist()]
    assert kinds == [0, 1, 2, None, 0, 3, 3]
