"""Tables of file version 0.1 that ours writes: pylance reads, filters, changes and compacts them."""

from __future__ import annotations

import decimal
import itertools
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.errors import InvalidInputError, LanceError, StorageError, UnsupportedFeatureError
from lance_df.file.legacy.reader import LegacyFileReader
from lance_df.fragment import write_fragments
from lance_df.storage import open_location
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    from pathlib import Path

N = 2500


def rows(start: int = 0, count: int = N) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "t": [None if i % 7 == 0 else f"text {i}" for i in numbers],
            "b": [i % 3 == 0 for i in numbers],
            "d": pa.DictionaryArray.from_arrays(
                pa.array([i % 3 for i in numbers], pa.int8()), ["x", "y", "z"]
            ),
            "l": pa.array([[i] * (i % 4) for i in numbers], pa.list_(pa.int32())),
            "s": [{"u": i, "v": [{"w": str(i)}]} for i in numbers],
            "f": pa.array([[i, 2.0] for i in numbers], pa.list_(pa.float32(), 2)),
            "m": pa.array([decimal.Decimal(i) for i in numbers], pa.decimal128(12, 2)),
            "n": pa.nulls(count),
        }
    )


def groups(uri: str) -> list[list[int]]:
    """Return the lengths of the batches of each file."""
    found = []
    for fragment in lance.dataset(uri).get_fragments():
        (file,) = fragment.data_files()
        reader = LegacyFileReader(open_location(f"{uri}/data/{file.path}").open())
        starts = reader.page_starts(reader.schema.fields)
        found.append(np.diff(np.append(starts, reader.num_rows)).tolist())
    return found


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


@pytest.mark.parametrize("version", ["legacy", "0.1"])
def test_both_read_what_was_written(uri: str, version: str) -> None:
    dataset = lance_df.write_dataset(rows(), uri, data_storage_version=version)
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.data_storage_version == dataset.data_storage_version == "0.1"
    for found in (dataset.to_table(), theirs.to_table()):
        assert found.schema == rows().schema
        assert found.to_pydict() == rows().to_pydict()
    (fragment,) = theirs.get_fragments()
    (file,) = fragment.data_files()
    assert (file.file_major_version, file.file_minor_version) == (0, 2)
    assert file.fields == list(range(14))
    assert list(file.column_indices) == []


FILTERS = [
    "a = 1500",
    "a < 3",
    "a > 2497",
    "t = 'text 1501'",
    "m > 2498",
    "s.u = 7",
    "t is null and a < 10",
    "d = 'y' and a < 5",
]


def test_filters_with_and_without_statistics(uri: str) -> None:
    dataset = lance_df.write_dataset(rows(), uri, data_storage_version="legacy", max_rows_per_group=100)
    theirs = lance.dataset(uri)
    for predicate in FILTERS:
        ours = dataset.to_table(filter=predicate, columns=["a"])["a"].to_pylist()
        assert len(ours) > 0
        for use_stats in (True, False):
            scanner = theirs.scanner(filter=predicate, columns=["a"], use_stats=use_stats)
            assert scanner.to_table()["a"].to_pylist() == ours, predicate


def test_pylance_changes_what_was_written(uri: str) -> None:
    lance_df.write_dataset(rows(), uri, data_storage_version="legacy")
    lance.write_dataset(rows(N, 10), uri, mode="append")
    lance_df.write_dataset(rows(N + 10, 10), uri, mode="append")
    theirs = lance.dataset(uri)
    theirs.delete("a = 5 or a = 2512")
    theirs.add_columns({"twice": "a * 2"})
    theirs.update({"t": "'changed'"}, where="a = 6")
    theirs.optimize.compact_files()
    theirs.validate()
    expected = [each for each in rows(0, N + 20).to_pylist() if each["a"] not in (5, 2512)]
    for each in expected:
        each["twice"] = each["a"] * 2
    next(each for each in expected if each["a"] == 6)["t"] = "changed"
    for dataset in (lance.dataset(uri), lance_df.dataset(uri)):
        assert sorted(dataset.to_table().to_pylist(), key=lambda each: each["a"]) == expected
    lance_df.write_dataset(rows(0, 3), uri, mode="overwrite", data_storage_version="legacy")
    assert lance.dataset(uri).to_table().to_pydict() == rows(0, 3).to_pydict()
    assert lance.dataset(uri, version=1).count_rows() == N


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_rows_per_group": 8}, [[8, 8, 8, 1]]),
        ({"max_rows_per_group": 8, "max_rows_per_file": 10}, [[8, 8], [8, 1]]),
        ({"max_rows_per_group": 100, "max_rows_per_file": 10}, [[10], [10], [5]]),
        ({"max_rows_per_group": 10, "max_rows_per_file": 10}, [[10], [10], [5]]),
        ({}, [[25]]),
    ],
)
def test_groups_are_cut_as_pylance_cuts_them(uri: str, limits: dict[str, int], expected: Any) -> None:
    lance.write_dataset(rows(0, 25), uri, data_storage_version="legacy", **limits)
    assert groups(uri) == expected
    lance_df.write_dataset(rows(0, 25), uri, mode="overwrite", data_storage_version="legacy", **limits)
    assert groups(uri) == expected
    assert lance.dataset(uri).to_table().to_pydict() == rows(0, 25).to_pydict()


def test_manifests_hand_dictionaries_on(uri: str) -> None:
    """Values lie in the manifest file of each version, behind which further sections move."""
    kind = pa.dictionary(pa.int8(), pa.string())
    table = pa.table({"a": [1, 2], "d": pa.array(["x", "y"]).dictionary_encode().cast(kind)})
    lance_df.write_dataset(table, uri, data_storage_version="legacy", statistics=True)
    other = pa.table({"a": [3, 4], "d": pa.array(["y", "y"]).dictionary_encode().cast(kind)})
    lance_df.write_dataset(other, uri, mode="append")
    assert lance.dataset(uri).to_table().to_pydict() == {"a": [1, 2, 3, 4], "d": ["x", "y", "y", "y"]}
    lance.write_dataset(table, uri, mode="append")
    before = lance.dataset(uri).version
    new = pa.table({"a": [3], "d": pa.array(["q"]).dictionary_encode().cast(kind)})
    with pytest.raises(InvalidInputError, match="'q' is not in the dictionary of 2 values"):
        lance_df.write_dataset(new, uri, mode="append")
    assert lance.dataset(uri).version == before
    assert lance_df.dataset(uri).to_table()["d"].to_pylist() == ["x", "y", "y", "y", "x", "y"]
    lance_df.write_dataset(new, uri, mode="overwrite", data_storage_version="legacy")
    assert lance.dataset(uri).to_table()["d"].to_pylist() == ["q"]


def test_dictionary_columns_are_not_added(uri: str) -> None:
    """A table that was committed with such a column would be lost: its manifest has no values."""
    lance_df.write_dataset(pa.table({"a": [1]}), uri, data_storage_version="legacy")
    new = pa.table({"d": pa.array(["x"]).dictionary_encode()})
    with pytest.raises(OSError, match="missing dictionary metadata"):
        lance.dataset(uri).add_columns(new.to_reader())
    with pytest.raises(InvalidInputError, match="cannot get new ones later"):
        lance_df.dataset(uri).add_columns(new.to_reader())
    assert lance_df.dataset(uri).to_table().column_names == ["a"]


def test_dictionaries_of_staged_rows(uri: str) -> None:
    table = pa.table({"d": pa.array(["x", "y"]).dictionary_encode()})
    staged = write_fragments(table, uri, data_storage_version="legacy")
    with pytest.raises(InvalidInputError, match="cannot get new ones later"):
        lance_df.LanceDataset.commit(uri, lance_df.LanceOperation.Overwrite(table.schema, staged))
    lance_df.write_dataset(table, uri, data_storage_version="legacy")
    staged = write_fragments(table.slice(1), uri, mode="append")
    lance_df.LanceDataset.commit(uri, lance_df.LanceOperation.Append(staged), read_version=1)
    assert lance.dataset(uri).to_table()["d"].to_pylist() == ["x", "y", "y"]


def test_options_of_new_tables(uri: str) -> None:
    lance_df.write_dataset(
        rows(0, 5),
        uri,
        data_storage_version="legacy",
        enable_stable_row_ids=True,
        enable_v2_manifest_paths=False,
    )
    theirs = lance.dataset(uri)
    assert theirs.has_stable_row_ids
    theirs.delete("a = 1")
    theirs.optimize.compact_files()
    assert theirs.to_table(columns=["a"], with_row_id=True)["_rowid"].to_pylist() == [0, 2, 3, 4]


MAP = pa.map_(pa.string(), pa.int8())
REFUSED = {
    "map": pa.array([[("k", 1)]], MAP),
    "struct without fields": pa.array([{}], pa.struct([])),
    "lists of strings": pa.array([["a", "b"]], pa.list_(pa.string(), 2)),
    "lists of structs": pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int8())]), 1)),
    "lists of nulls": pa.array([[None]], pa.list_(pa.null(), 1)),
    "dictionary of floats": pa.array([1.5]).dictionary_encode(),
    "dictionary of booleans": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), [True]),
    "dictionary of dates": pa.array([1], pa.date32()).dictionary_encode(),
    "decimal32": pa.array([1], pa.decimal32(5)),
    "values of no bytes": pa.array([b""], pa.binary(0)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_types_that_0_1_does_not_have(tmp_path: Path, uri: str, case: str) -> None:
    table = pa.table({"c": REFUSED[case]})

    def write_and_read() -> None:
        lance.write_dataset(table, tmp_path / "theirs", data_storage_version="legacy")
        lance.dataset(tmp_path / "theirs").to_table()

    with pytest.raises(BaseException):  # noqa: B017, PT011 - it panics, or cannot read what it wrote
        write_and_read()
    with pytest.raises(UnsupportedFeatureError):
        lance_df.write_dataset(table, uri, data_storage_version="legacy")
    assert not (tmp_path / "t.lance").exists()


NOT_NULL = pa.schema([pa.field("a", pa.int64(), nullable=False)])
BAD: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "null": (pa.table({"a": pa.array([1, None])}, schema=NOT_NULL), {}),
    "no dictionary": (pa.table({"d": pa.array([], pa.dictionary(pa.int8(), pa.string()))}), {}),
    "only nulls in a dictionary": (
        pa.table({"d": pa.array([None], pa.dictionary(pa.int8(), pa.string()))}),
        {},
    ),
    "two columns": (pa.table([[1], [2]], names=["a", "a"]), {}),
    "no rows in a group": (pa.table({"a": [1]}), {"max_rows_per_group": 0}),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_leaves_nothing(tmp_path: Path, uri: str, case: str) -> None:
    table, options = BAD[case]
    with pytest.raises(LanceError):
        lance_df.write_dataset(table, uri, data_storage_version="legacy", **options)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_at_any_moment(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = ByteSink.write, [0]

    def limited(sink: ByteSink, data: bytes | memoryview) -> None:
        if not left[0]:
            raise StorageError("the disk is full")
        left[0] -= 1
        write(sink, data)

    monkeypatch.setattr(ByteSink, "write", limited)
    for limit in itertools.count():
        left[0] = limit
        try:
            lance_df.write_dataset(rows(0, 25), uri, data_storage_version="legacy", max_rows_per_file=12)
        except StorageError:
            assert not list(tmp_path.iterdir())
        else:
            break
    assert limit > 15
    assert lance.dataset(uri).count_rows() == 25


@pytest.mark.parametrize(
    "data",
    [
        rows(0, 5).drop(["t"]),
        rows(0, 5).set_column(5, "s", pa.array([{"u": 1}] * 5)),
        rows(0, 5).append_column("more", [[1] * 5]),
        rows(0, 5).set_column(0, "a", pa.array([1.5] * 5)),
    ],
    ids=["missing", "missing in a struct", "unknown", "of another type"],
)
def test_appended_rows_have_all_columns(uri: str, data: pa.Table) -> None:
    lance_df.write_dataset(rows(0, 5), uri, data_storage_version="legacy")
    with pytest.raises(OSError):  # noqa: PT011 - what it says is pylance's
        lance.write_dataset(data, uri, mode="append")
    with pytest.raises(InvalidInputError):
        lance_df.write_dataset(data, uri, mode="append")
    reordered = rows(5, 5).select(rows().column_names[::-1])
    lance_df.write_dataset(reordered, uri, mode="append")
    assert lance.dataset(uri).to_table().to_pydict() == rows(0, 10).to_pydict()


@pytest.mark.parametrize(("own", "other"), [("legacy", "2.0"), ("2.0", "legacy")])
def test_versions_are_not_mixed(uri: str, own: str, other: str) -> None:
    table = pa.table({"a": [1]})
    lance_df.write_dataset(table, uri, data_storage_version=own)
    with pytest.raises(InvalidInputError, match="cannot be appended"):
        lance_df.write_dataset(table, uri, mode="append", data_storage_version=other)
    lance_df.write_dataset(table, uri, mode="overwrite", data_storage_version=other)
    lance.write_dataset(table, uri, mode="append")
    assert lance.dataset(uri).data_storage_version == other.replace("legacy", "0.1")
    assert lance.dataset(uri).count_rows() == lance_df.dataset(uri).count_rows() == 2


def test_streams_of_small_batches(uri: str) -> None:
    parts = [batch for start in range(0, N, 30) for batch in rows(start, min(30, N - start)).to_batches()]
    reader = pa.RecordBatchReader.from_batches(rows().schema, iter(parts))
    lance_df.write_dataset(reader, uri, data_storage_version="legacy", max_rows_per_file=1024)
    assert groups(uri) == [[1024], [1024], [N - 2048]]
    assert lance.dataset(uri).to_table().to_pydict() == rows().to_pydict()


@pytest.mark.parametrize(
    "values",
    [pa.array(["a", None, "c"]), pa.array(["a", "", "c"]), pa.array([b"a", None, b"c"], pa.large_binary())],
    ids=str,
)
@pytest.mark.parametrize("library", [lance, lance_df])
def test_nulls_among_the_values_of_a_dictionary(uri: str, library: Any, values: pa.Array) -> None:
    keys = pa.array([0, 1, 2, 0], pa.int8())
    data = pa.table({"id": range(4), "d": pa.DictionaryArray.from_arrays(keys, values)})
    library.write_dataset(data, uri, data_storage_version="0.1")
    first, _, last = values.to_pylist()

    def found() -> dict[int, Any]:
        read = [each.dataset(uri).to_table().sort_by("id") for each in (lance_df, lance)]
        assert read[0].to_pydict() == read[1].to_pydict()
        return dict(zip(read[0]["id"].to_pylist(), read[0]["d"].to_pylist(), strict=True))

    assert found() == {0: first, 1: None, 2: last, 3: first}
    assert lance_df.dataset(uri).count_rows("d IS NULL") == 1
    assert lance_df.dataset(uri).count_rows(pc.field("d").is_null()) == 1
    lance_df.dataset(uri).update({"id": "id + 5"}, where="id < 2")
    assert found() == {2: last, 3: first, 5: first, 6: None}
    lance_df.dataset(uri).delete("id = 2")
    lance_df.dataset(uri).optimize.compact_files()
    assert found() == {3: first, 5: first, 6: None}
    more = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int8()), values)
    lance_df.write_dataset(pa.table({"id": [7, 8], "d": more}), uri, mode="append")
    assert found() == {3: first, 5: first, 6: None, 7: None, 8: None}
