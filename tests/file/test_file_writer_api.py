"""`LanceFileWriter`: what it writes, pylance reads; and nothing is left of what fails."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance.file
import pyarrow as pa
import pytest

from lance_df.errors import InvalidInputError, LanceError, StorageError, UnsupportedFeatureError
from lance_df.file import LanceFileReader, LanceFileWriter
from lance_df.storage.sink import ByteSink

TABLE = pa.table({"a": [1, 2, None], "s": ["x", None, ""], "l": [[1.5], [], [2.5, None]]})
SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
ROWS = pa.table({"a": [1], "s": ["x"]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.lance"


def read_by_pylance(path: Path) -> pa.Table:
    return lance.file.LanceFileReader(str(path)).read_all().to_table()


def test_arguments_are_pylances() -> None:
    ours = inspect.signature(LanceFileWriter).parameters
    theirs = inspect.signature(lance.file.LanceFileWriter).parameters
    known = [
        name for name in theirs if name not in ("namespace_client", "table_id", "_inner_writer", "kwargs")
    ]
    assert [name for name in ours if name != "keep_original_array"] == known
    assert {name: ours[name].default for name in known} == {name: theirs[name].default for name in known}


@pytest.mark.parametrize(
    ("version", "found"),
    [(None, (2, 2)), ("stable", (2, 2)), ("2.2", (2, 2)), ("2.1", (2, 1)), ("2.0", (0, 3)), ("0.3", (0, 3))],
)
def test_versions(path: Path, version: str | None, found: tuple[int, int]) -> None:
    with LanceFileWriter(str(path), version=version) as writer:
        writer.write_batch(TABLE)
        writer.write_batch(TABLE.to_batches()[0].slice(1))
    assert writer.size_bytes == path.stat().st_size
    expected = pa.concat_tables([TABLE, TABLE.slice(1)])
    assert read_by_pylance(path).to_pydict() == expected.to_pydict()
    assert LanceFileReader(path).read_all().to_table().to_pydict() == expected.to_pydict()
    metadata = LanceFileReader(path).metadata()
    assert (metadata.major_version, metadata.minor_version) == found


def test_columns_are_found_by_name_and_others_left_out(path: Path) -> None:
    writer = LanceFileWriter(path, SCHEMA)
    writer.write_batch(pa.table({"more": [0], "s": ["x"], "a": [1]}))
    assert (writer.close(), writer.close(), writer.closed) == (1, None, True)
    assert read_by_pylance(path).to_pydict() == {"a": [1], "s": ["x"]}


def test_a_schema_without_rows(path: Path) -> None:
    writer = LanceFileWriter(path, SCHEMA)
    assert not path.exists()
    assert writer.close() == 0
    assert read_by_pylance(path).schema == SCHEMA


def test_schema_metadata_and_global_buffers(path: Path) -> None:
    writer = LanceFileWriter(path)
    writer.add_schema_metadata("late", "no")
    assert writer.add_global_buffer(b"first") == 1
    writer.write_batch(ROWS.replace_schema_metadata({"own": "yes", "late": "yes"}))
    assert writer.add_global_buffer(b"second") == 2
    writer.close()
    for reader in (lance.file.LanceFileReader(str(path)), LanceFileReader(path)):
        assert [reader.read_global_buffer(number) for number in (1, 2)] == [b"first", b"second"]
        assert reader.metadata().schema.metadata == {b"own": b"yes", b"late": b"no"}


@pytest.mark.parametrize("option", ["data_cache_bytes", "max_page_bytes"])
def test_sizes_of_pages(path: Path, option: str) -> None:
    with LanceFileWriter(path, version="2.0", **{option: 8000}) as writer:
        writer.write_batch(pa.table({"a": range(10_000)}))
    assert len(LanceFileReader(path).metadata().columns[0].pages) == 10
    assert read_by_pylance(path)["a"].to_pylist() == list(range(10_000))
    with pytest.raises(InvalidInputError, match=f"{option} must be at least 1, got 0"):
        LanceFileWriter(path, **{option: 0})


STRICT = pa.schema([pa.field("a", pa.int64(), nullable=False)])
STRUCT = pa.schema([("s", pa.struct([("x", pa.int64())]))])
FAILURES: dict[str, tuple[pa.Schema | None, list[pa.Table], str]] = {
    "no schema": (None, [], "no schema was given"),
    "missing column": (SCHEMA, [pa.table({"a": [1]})], "'s' is 0 times in a batch"),
    "column twice in a batch": (
        SCHEMA,
        [pa.table([pa.array([1]), pa.array(["x"]), pa.array([2])], names=["a", "s", "a"])],
        "'a' is 2 times",
    ),
    "another type": (SCHEMA, [pa.table({"a": ["1"], "s": ["x"]})], "is of type int64 in the file"),
    "another type later": (None, [ROWS, pa.table({"a": [1.5], "s": [""]})], "a batch has double"),
    "another extension type": (
        None,
        [
            pa.table({"u": pa.array([b"0" * 16], pa.uuid())}),
            pa.table({"u": pa.array([b"0" * 16], pa.binary(16))}),
        ],
        r"arrow\.uuid",
    ),
    "another struct": (STRUCT, [pa.table({"s": [{"y": 1}]})], r"has the fields \['x'\] in the file"),
    "two columns of a name": (None, [pa.table([[1], [2]], names=["a", "a"])], "two columns are called 'a'"),
    "a dot": (None, [pa.table({"a.b": [1]})], "has a dot"),
    "null": (STRICT, [pa.table({"a": pa.array([1, None])})], "declared not null"),
    "unsupported type": (
        None,
        [pa.table({"u": pa.array([1], pa.decimal32(5, 2))})],
        "no type for Arrow's decimal32",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures_leave_nothing(path: Path, case: str) -> None:
    schema, tables, message = FAILURES[case]
    writer = LanceFileWriter(path, schema)

    def write() -> None:
        for table in tables:
            writer.write_batch(table)
        writer.close()

    with pytest.raises(LanceError, match=message):
        write()
    assert writer.closed
    assert not list(path.parent.iterdir())
    with pytest.raises(InvalidInputError, match="is closed"):
        writer.write_batch(ROWS)


def test_an_exception_within_leaves_the_former_file(path: Path) -> None:
    with LanceFileWriter(path) as writer:
        writer.write_batch(ROWS)
    before = path.read_bytes()

    def interrupted() -> None:
        with LanceFileWriter(path) as writer:
            writer.write_batch(TABLE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [each.read_bytes() for each in path.parent.iterdir()] == [before]
    with LanceFileWriter(path) as writer:
        writer.write_batch(TABLE)
    assert read_by_pylance(path).num_rows == 3


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_a_full_disk_at_any_moment(path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Every single write fails once."""
    write, left = ByteSink.write, [0]

    def limited(sink: ByteSink, data: bytes | memoryview) -> None:
        if not left[0]:
            raise StorageError("the disk is full")
        left[0] -= 1
        write(sink, data)

    monkeypatch.setattr(ByteSink, "write", limited)
    for limit in itertools.count():
        left[0] = limit
        writer = LanceFileWriter(path, TABLE.schema, version=version)
        try:
            writer.write_batch(TABLE)
            writer.add_global_buffer(b"x")
            writer.close()
        except StorageError:
            assert not list(path.parent.iterdir())
        else:
            break
    assert limit > 10
    assert read_by_pylance(path).num_rows == TABLE.num_rows


def test_a_writer_that_is_forgotten_leaves_nothing(path: Path) -> None:
    writer = LanceFileWriter(path, SCHEMA)
    writer.write_batch(ROWS)
    del writer
    assert not list(path.parent.iterdir())


def test_a_file_in_memory() -> None:
    uri = "memory://test_file_writer_api/f.lance"
    with LanceFileWriter(uri) as writer:
        writer.write_batch(ROWS)
    assert LanceFileReader(uri).read_all().to_table().to_pydict() == ROWS.to_pydict()


WRONG: dict[str, tuple[Callable[[Path], object], type[LanceError]]] = {
    "place": (lambda folder: LanceFileWriter(folder / "file" / "f", SCHEMA), StorageError),
    "0.1": (lambda folder: LanceFileWriter(folder / "f", version="0.1"), UnsupportedFeatureError),
    "2.3": (lambda folder: LanceFileWriter(folder / "f", version="2.3"), UnsupportedFeatureError),
    "9": (lambda folder: LanceFileWriter(folder / "f", version="9"), InvalidInputError),
    "schema": (
        lambda folder: LanceFileWriter(folder / "f", pa.schema([("a.b", pa.int8())])),
        InvalidInputError,
    ),
    "batch": (lambda folder: LanceFileWriter(folder / "f").write_batch({"a": [1]}), InvalidInputError),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(tmp_path: Path, case: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    call, error = WRONG[case]
    with pytest.raises(error):
        call(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "f" / "g").mkdir(parents=True)
    writer = LanceFileWriter(tmp_path / "f", SCHEMA)
    with pytest.raises(StorageError):
        writer.close()
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_threads_write_one_file(tmp_path: Path) -> None:
    def rows(number: int) -> pa.Table:
        names = ("a", "b", "c", "d")
        values = [f"{number} {row}" for row in range(50)]
        return pa.table([values] * len(names), names)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with LanceFileWriter(tmp_path / "t.lance", rows(0).schema) as writer, ThreadPoolExecutor(8) as pool:
            list(pool.map(writer.write_batch, map(rows, range(200))))
    finally:
        sys.setswitchinterval(interval)
    found = LanceFileReader(tmp_path / "t.lance").read_all().to_table()
    assert found["a"] == found["b"] == found["c"] == found["d"]
    calls = [found.slice(start, 50) for start in range(0, found.num_rows, 50)]
    assert sorted(call["a"].to_pylist() for call in calls) == sorted(
        rows(n)["a"].to_pylist() for n in range(200)
    )
