"""What programs written for pylance rely on: error types, names and small behaviour, in both libraries."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import lance
import lance.dataset
import pyarrow as pa
import pytest

import lance_df
import lance_df.commit
import lance_df.dataset
import lance_df.progress
import lance_df.util

LIBRARIES = (lance, lance_df)
ROWS = pa.table({"a": range(10), "s": [str(n) for n in range(10)], "st": [{"a": n} for n in range(10)]})
INTERVALS = pa.array([(1, 2, 3)], pa.month_day_nano_interval())


MISTAKES = [
    (ValueError, lambda lib, ds: lib.dataset(ds.uri + "x")),
    (ValueError, lambda lib, ds: lib.dataset(ds.uri, version=99)),
    (ValueError, lambda lib, ds: lib.dataset(ds.uri, version="nope")),
    (ValueError, lambda lib, ds: ds.to_table(columns=["nope"])),
    (OSError, lambda lib, ds: ds.delete("nope = 1")),
    (OSError, lambda lib, ds: ds.take([99])),
    (OSError, lambda lib, ds: lib.write_dataset(ROWS, ds.uri)),
    (OSError, lambda lib, ds: lib.write_dataset(pa.table({"z": [1]}), ds.uri, mode="append")),
    (ValueError, lambda lib, ds: (ds.tags.create("t", 1), ds.tags.create("t", 1))),
    (ValueError, lambda lib, ds: ds.tags.delete("nope")),
    (RuntimeError, lambda lib, ds: ds.drop_index("nope")),
    (KeyError, lambda lib, ds: ds.stats.index_stats("nope")),
    (KeyError, lambda lib, ds: ds.create_scalar_index("nope", "BTREE")),
    (ValueError, lambda lib, ds: ds.update({"st.a": "1"})),
    (OSError, lambda lib, ds: lib.write_dataset(pa.table({"a": INTERVALS}), ds.uri + "x")),
]


@pytest.mark.parametrize(("error", "call"), MISTAKES, ids=map(str, range(len(MISTAKES))))
def test_error_types(tmp_path: Path, error: type[Exception], call: Any) -> None:
    for library in LIBRARIES:
        dataset = library.write_dataset(ROWS, str(tmp_path / library.__name__))
        with pytest.raises(error):
            call(library, dataset)


@pytest.mark.parametrize("text", ["a > 7;", "a > 7 ; ;", "a > 7; -- so"])
def test_a_filter_may_end_with_a_semicolon(tmp_path: Path, text: str) -> None:
    for library in LIBRARIES:
        dataset = library.write_dataset(ROWS, str(tmp_path / library.__name__))
        assert dataset.to_table(["a"], filter=text).num_rows == 2
        assert dataset.count_rows(text) == 2


# words of messages that both have; pylance names types as DataFusion does
MESSAGES = [
    ("Invalid user input: ", lambda lib, ds: ds.to_table(filter="a AN")),
    ("Invalid user input: ", lambda lib, ds: ds.to_table(filter="🥞")),
    ("No field named nope", lambda lib, ds: ds.to_table(filter="nope = 7")),
    ("does not return a boolean", lambda lib, ds: ds.to_table(filter="a")),
    (
        "Can't cast value 300 to type Int8",
        lambda lib, ds: ds.alter_columns({"path": "b", "data_type": pa.int8()}),
    ),
    (
        'Cannot cast column "a" from Int64 to Utf8',
        lambda lib, ds: ds.alter_columns({"path": "a", "data_type": pa.string()}),
    ),
    ('Column "q" does not exist', lambda lib, ds: ds.alter_columns({"path": "q", "name": "z"})),
    ("Unknown key: type", lambda lib, ds: ds.alter_columns({"path": "a", "type": "string"})),
    ("At least one of name, nullable, or data_type", lambda lib, ds: ds.alter_columns({"path": "a"})),
    ("with_row_id is false", lambda lib, ds: ds.to_table(include_deleted_rows=True)),
]


@pytest.mark.parametrize(("words", "call"), MESSAGES, ids=map(str, range(len(MESSAGES))))
def test_words_of_messages(tmp_path: Path, words: str, call: Any) -> None:
    rows = ROWS.append_column("b", pa.array([*range(9), 300]))
    for library in LIBRARIES:
        dataset = library.write_dataset(rows, str(tmp_path / library.__name__))
        with pytest.raises((ValueError, OSError, NotImplementedError), match=words):
            call(library, dataset)


def test_the_value_that_a_cast_refuses_is_the_first_one(tmp_path: Path) -> None:
    values = [None, 1, 2, -129, 5, 1000]
    dataset = lance_df.write_dataset(pa.table({"a": values}), tmp_path / "t")
    with pytest.raises(lance_df.InvalidInputError, match="Can't cast value -129 to type Int8"):
        dataset.alter_columns({"path": "a", "data_type": pa.int8()})
    assert dataset.to_table()["a"].to_pylist() == values


def test_conflicts_name_the_version(tmp_path: Path) -> None:
    for library in LIBRARIES:
        dataset = library.write_dataset(ROWS, str(tmp_path / library.__name__))
        old = library.dataset(dataset.uri)
        dataset.add_columns({"b": "a + 1"})
        with pytest.raises(OSError, match="conflict for version 2"):
            old.add_columns({"b": "a + 2"})


def test_pyarrow_schemas_of_merges_are_deprecated(tmp_path: Path) -> None:
    for library in LIBRARIES:
        dataset = library.write_dataset(ROWS, str(tmp_path / library.__name__))
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        with pytest.warns(DeprecationWarning, match="LanceSchema"):
            library.LanceOperation.Merge(fragments, dataset.schema)
        assert repr(dataset.lance_schema).startswith("Schema {")


def test_indices_by_their_configuration(tmp_path: Path) -> None:
    for library in LIBRARIES:
        config = importlib.import_module(f"{library.__name__}.indices").IndexConfig
        dataset = library.write_dataset(ROWS, str(tmp_path / library.__name__))
        dataset.create_scalar_index("a", config(index_type="zonemap", parameters={"rows_per_zone": 4}))
        (segment,) = dataset.stats.index_stats("a_idx")["indices"]
        assert (segment["rows_per_zone"], segment["num_zones"]) == (4, 3)
        dataset.create_scalar_index("s", config("btree", {}), name="by_s")
        assert {index.name for index in dataset.describe_indices()} == {"a_idx", "by_s"}
    with pytest.raises(lance_df.UnsupportedFeatureError, match="'fill'"):
        dataset.create_scalar_index("s", config("btree", {"fill": 3}))


def test_conflicts_are_os_errors(tmp_path: Path) -> None:
    dataset = lance_df.write_dataset(ROWS, tmp_path / "t")
    old = lance_df.dataset(tmp_path / "t")
    dataset.add_columns({"b": "a + 1"})
    with pytest.raises(lance_df.commit.CommitConflictError) as caught:
        old.add_columns({"b": "a + 2"})
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value.retryable, bool)


@pytest.mark.parametrize(
    "name",
    [
        *("LANCE_COMMIT_MESSAGE_KEY", "AutoCleanupConfig", "DatasetOptimizer", "MergeInsertBuilder"),
        *("CleanupStats", "Version", "Tag", "Branch", "UpdateResult", "DeleteResult", "ExecuteResult"),
        *("BatchUDF", "Compaction", "CompactionMetrics", "DataFile", "FragmentMetadata", "BlobFile"),
        *("IndexConfig", "ScanStatistics", "td_to_micros", "batch_udf", "DatasetBasePath"),
    ],
)
def test_names_in_the_module_of_datasets(name: str) -> None:
    modules = [importlib.import_module(f"{library.__name__}.dataset") for library in LIBRARIES]
    assert all(hasattr(module, name) for module in modules)


@pytest.mark.parametrize(
    "name",
    [
        *("LanceBufferDescriptor", "LanceColumnMetadata", "LanceFileMetadata", "LanceFileStatistics"),
        *("LancePageMetadata", "LanceFileReader", "LanceFileSession", "LanceFileWriter"),
    ],
)
def test_names_in_the_module_of_files(name: str) -> None:
    modules = [importlib.import_module(f"{library.__name__}.file") for library in LIBRARIES]
    assert all(hasattr(module, name) for module in modules)


def test_versions() -> None:
    assert lance_df.file.stable_version() == lance.file.stable_version()
    assert lance_df.__version__


def test_schemas_as_json() -> None:
    fields = [
        pa.field("i", pa.int8(), False, {"k": "v"}),
        pa.field("t", pa.timestamp("ns", "UTC")),
        pa.field("d", pa.decimal128(10, 2)),
        pa.field("l", pa.list_(pa.struct([("x", pa.string())]))),
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("f", pa.binary(5)),
        pa.field("c", pa.dictionary(pa.int8(), pa.string())),
    ]
    schema = pa.schema(fields, {"m": "n"})
    described = lance_df.schema_to_json(schema)
    assert described == lance.schema_to_json(schema)
    assert lance_df.json_to_schema(described).equals(lance.json_to_schema(described), check_metadata=True)
    for library in LIBRARIES:
        with pytest.raises(ValueError, match="fields"):
            library.json_to_schema({"x": 1})
    with pytest.raises(lance_df.UnsupportedFeatureError):
        lance_df.schema_to_json(pa.schema([pa.field("a", pa.string_view())]))


def test_take_of_a_column_twice(tmp_path: Path) -> None:
    for library in LIBRARIES:
        dataset = library.write_dataset(ROWS, tmp_path / library.__name__)
        taken = dataset.take([3, 1], columns=["_rowid", "a", "_rowid"])
        assert taken.column_names == ["_rowid", "a", "_rowid"]
        assert taken.column(2).to_pylist() == [3, 1]
        for take in (dataset.take, dataset.get_fragments()[0].take):
            assert take([1, 3], columns=["a", "s", "a"]).column_names == ["a", "s"]


def test_a_star_names_all_columns(tmp_path: Path) -> None:
    for library in LIBRARIES:
        dataset = library.write_dataset(ROWS, tmp_path / library.__name__)
        for read in (dataset.to_table, dataset.get_fragments()[0].to_table):
            assert read(columns=["*"]).schema == ROWS.schema
        assert dataset.to_table(columns=["*"], with_row_id=True).column_names == [
            *ROWS.column_names,
            "_rowid",
        ]
        with pytest.raises(ValueError, match=r"."):
            dataset.to_table(columns=["*", "a"])


def test_batches_end_with_fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in LIBRARIES:
        dataset = library.write_dataset(ROWS, tmp_path / library.__name__, max_rows_per_file=5)
        assert [each.num_rows for each in dataset.to_batches(batch_size=3)] == [3, 2, 3, 2]
        monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", "4")
        assert [each.num_rows for each in dataset.to_batches()] == [4, 1, 4, 1]
        monkeypatch.delenv("LANCE_DEFAULT_BATCH_SIZE")
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", "many")
    with pytest.raises(lance_df.InvalidInputError, match="LANCE_DEFAULT_BATCH_SIZE"):
        dataset.to_table()


def test_null_constants_need_no_data(tmp_path: Path) -> None:
    for library in LIBRARIES:
        dataset = library.write_dataset(ROWS, tmp_path / library.__name__)
        files = dataset.get_fragments()[0].data_files()
        dataset.add_columns({"n": "CAST(NULL AS INT)"})
        assert dataset.get_fragments()[0].data_files() == files
        assert dataset.schema.field("n").type == pa.int32()
        assert dataset.to_table().column("n").null_count == 10


def test_max_bytes_per_file(tmp_path: Path) -> None:
    batch = pa.record_batch([pa.array(["0" * 1024] * 1024 * 8)], ["a"])
    for library in LIBRARIES:
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch, batch])
        fragments = library.fragment.write_fragments(
            reader, tmp_path / library.__name__, max_bytes_per_file=1024
        )
        assert len(fragments) == 2


def test_unquoted_text_in_an_update(tmp_path: Path) -> None:
    dataset = lance_df.write_dataset(ROWS, tmp_path / "t")
    with pytest.raises(lance_df.ColumnNotFoundError, match=r"quote it: .'s': \"'Oslo'\""):
        dataset.update({"s": "Oslo"})
    assert dataset.update({"s": "'Oslo'"}) == {"num_rows_updated": 10}


def test_files_of_progress(tmp_path: Path) -> None:
    progress = lance_df.progress.FileSystemFragmentWriteProgress(tmp_path / "progress", {"worker": "3"})
    lance_df.fragment.LanceFragment.create(tmp_path / "t", ROWS, fragment_id=2, progress=progress)
    assert [path.name for path in (tmp_path / "progress").iterdir()] == ["fragment_2.json"]
    assert json.loads((tmp_path / "progress" / "fragment_2.json").read_text())["id"] == 2


def test_tables_of_namespaces(tmp_path: Path) -> None:
    namespace = lance_df.DirectoryNamespace(tmp_path)
    namespace.create_namespace("sales")
    namespace.create_table("sales$orders", ROWS)
    dataset = lance_df.dataset(namespace_client=namespace, table_id=["sales", "orders"])
    assert dataset.count_rows() == 10
    with pytest.raises(lance_df.InvalidInputError, match="table_id"):
        lance_df.dataset(namespace_client=namespace)
    with pytest.raises(lance_df.InvalidInputError, match="not both"):
        lance_df.dataset("x", namespace_client=namespace, table_id=["a"])


def test_sessions_and_small_conversions(tmp_path: Path) -> None:
    dataset = lance_df.write_dataset(ROWS, tmp_path / "t")
    assert dataset.session().is_same_as(lance_df.Session(1, 2))
    assert dataset.session().size_bytes() >= 0
    times = lance_df.util.sanitize_ts("2025-01-31 12:00:00"), lance.util.sanitize_ts("2025-01-31 12:00:00")
    assert times[0] == times[1]
    assert [value.read() if value else None for value in lance_df.BlobColumn(pa.array([b"a", None]))] == [
        b"a",
        None,
    ]
    with pytest.raises(ValueError, match="binary"):
        lance_df.BlobColumn(pa.array([1]))
