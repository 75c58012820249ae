"""Arguments of wrong types are refused, and the error names the argument and what was given."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df import InvalidInputError, LanceDataset
from lance_df.file import LanceFileReader, LanceFileSession, LanceFileWriter

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", None], "ab": [7, 8, 9]})
A = pa.schema([("a", pa.int64())])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    return lance_df.write_dataset(ROWS, tmp_path_factory.mktemp("data") / "t.lance")


def data_file(data: LanceDataset) -> str:
    (file,) = Path(data.uri, "data").iterdir()
    return str(file)


# one text would be read letter by letter
LISTS: dict[str, Callable[[LanceDataset, Any], object]] = {
    "columns of take": lambda d, names: d.take([0], columns=names),
    "columns of sample": lambda d, names: d.sample(1, columns=names),
    "columns of take of a fragment": lambda d, names: d.get_fragments()[0].take([0], columns=names),
    "columns of a session": lambda d, names: d.get_fragments()[0].open_session(columns=names),
    "columns of a file": lambda d, names: LanceFileReader(data_file(d), columns=names),
    "columns to drop": lambda d, names: d.drop_columns(names),
    "columns of a scan": lambda d, names: d.to_table(columns=names),
    "keys": lambda d, names: d.delete_config_keys(names),
    "index_names": lambda d, names: d.optimize.optimize_indices(index_names=names),
    "target_bases": lambda d, names: lance_df.write_dataset(ROWS, f"{d.uri}2", target_bases=names),
    "bases": lambda d, names: d.merge_insert("a").target_bases(names),
}


@pytest.mark.parametrize("names", ["ab", 5, [5]], ids=str)
@pytest.mark.parametrize("case", LISTS)
def test_lists_of_names(data: LanceDataset, case: str, names: Any) -> None:
    with pytest.raises(InvalidInputError):
        LISTS[case](data, names)


def test_keys_are_not_deleted_letter_by_letter(tmp_path: Path) -> None:
    data = lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    data.update_config({"a": "1", "b": "2", "ab": "3"})
    with pytest.raises(InvalidInputError, match="keys must be a list of names, got 'ab'"):
        data.delete_config_keys("ab")
    data.delete_config_keys(["ab"])
    assert data.config() == {"a": "1", "b": "2"}


FLAGS: dict[str, Callable[[LanceDataset], object]] = {
    "dry_run": lambda d: d.cleanup_old_versions(dry_run="no"),
    "delete_unverified": lambda d: d.cleanup_old_versions(delete_unverified="no"),
    "error_if_tagged_old_versions": lambda d: d.cleanup_old_versions(error_if_tagged_old_versions="no"),
    "replace": lambda d: d.create_scalar_index("a", "BTREE", replace="no"),
    "train": lambda d: d.create_scalar_index("a", "BTREE", train=1),
    "retrain": lambda d: d.optimize.optimize_indices(retrain="no"),
    "replace ": lambda d: d.update_config({"k": "v"}, replace=None),
    "detached": lambda d: LanceDataset.commit(d, lance_df.LanceOperation.Restore(1), detached="no"),
    "statistics": lambda d: lance_df.write_dataset(ROWS, f"{d.uri}2", statistics="no"),
    "enable_stable_row_ids": lambda d: lance_df.write_dataset(ROWS, f"{d.uri}2", enable_stable_row_ids="no"),
    "ignore_not_found": lambda d: LanceDataset.drop(f"{d.uri}2", ignore_not_found="no"),
    "read_only": lambda d: lance_df.connect(Path(d.uri).parent, read_only="False"),
    "deep": lambda d: lance_df.verify(d.uri, deep="no"),
    "with_row_id": lambda d: d.to_table(with_row_id="no"),
}


@pytest.mark.parametrize("case", FLAGS)
def test_flags(data: LanceDataset, case: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{case.strip()} must be True or False, got "):
        FLAGS[case](data)


def test_flags_that_are_none(tmp_path: Path) -> None:
    """As in pylance, None stands for the default of these flags."""
    none: Any = None
    uri = tmp_path / "n.lance"
    made = lance_df.write_dataset(
        ROWS,
        uri,
        enable_stable_row_ids=none,
        enable_v2_manifest_paths=none,
        allow_external_blob_outside_bases=none,
        statistics=none,
    )
    assert (made.version, made.has_stable_row_ids) == (1, False)
    assert Path(uri, "_versions", f"{2**64 - 2}.manifest").exists()
    made.create_scalar_index("a", "BTREE", replace=none, train=none)
    made.create_scalar_index("a", "BTREE", replace=none, train=none)
    fragments = lance_df.fragment.write_fragments(
        ROWS, made, return_transaction=none, allow_external_blob_outside_bases=none
    )
    assert [fragment.physical_rows for fragment in fragments] == [3]
    committed = LanceDataset.commit(
        made,
        lance_df.LanceOperation.Append(fragments),
        made.version,
        detached=none,
        enable_stable_row_ids=none,
        enable_v2_manifest_paths=none,
    )
    assert committed.count_rows() == 6
    committed.tags.create("first", 1)
    now = dt.timedelta(0)
    for each in (committed.cleanup_old_versions, committed.explain_cleanup_old_versions):
        with pytest.raises(InvalidInputError, match="has the tag 'first'"):
            each(now, error_if_tagged_old_versions=none)
    assert committed.cleanup_old_versions(versions=[2], delete_unverified=none).old_versions == 1
    LanceDataset.drop(uri, ignore_not_found=none)


WRONG: dict[str, tuple[Callable[[LanceDataset], object], str]] = {
    "rows": (lambda d: d.get_fragments()[0].delete_rows("x"), "offsets must be integers from 0, got 'x'"),
    "no rows": (lambda d: d.get_fragments()[0].delete_rows(None), "offsets must be integers from 0"),
    "no column": (lambda d: d.create_scalar_index(None, "BTREE"), "column must be a list of names, got None"),
    "name": (lambda d: d.create_scalar_index("a", "BTREE", name=5), "name must be text, got 5"),
    "surrogate": (lambda d: d.create_scalar_index("a", "BTREE", name="\ud800"), "without surrogates"),
    "statistics": (lambda d: d.index_statistics([]), r"index_name must be text, got \[\]"),
    "warm": (lambda d: d.prewarm_index([]), "name must be text"),
    "sort": (lambda d: d.sort_by(["x"]), r"sorting must be a column or a list of \(column, order\)"),
    "sort by surrogate": (lambda d: d.sort_by("\ud800"), "cannot be sorted in memory"),
    "join": (lambda d: d.join(None, "a"), "right_dataset must be a dataset, got None"),
    "batch size": (lambda d: d.add_columns({"z": "a"}, batch_size=""), "batch_size must be an integer"),
    "transactions": (lambda d: d.get_transactions(1.5), "recent_transactions must be an integer"),
    "version": (lambda d: next(d.tracked_files(min_version="")), "min_version must be an integer"),
    "fields": (lambda d: d.update_field_metadata(None), "field_updates must be a dict"),
    "bases": (lambda d: d.add_bases("x"), "new_bases must be a list of DatasetBasePath objects"),
    "moves": (lambda d: d.rebase_paths("x"), "moves must be a dict"),
    "ids": (lambda d: d.optimize.compact_files(excluded_fragment_ids=5), "excluded_fragment_ids must be"),
    "cleanup": (lambda d: d.optimize.enable_auto_cleanup(None), "auto_cleanup_config must be a dict"),
    "batch": (lambda d: LanceDataset.commit_batch(d, ["a"]), "an item of transactions must be a Transaction"),
    "options": (
        lambda d: lance_df.dataset(d.uri, storage_options="x"),
        "storage_options must be a dict, got",
    ),
    "params": (lambda d: lance_df.dataset(d.uri, base_store_params="x"), "base_store_params must be a dict"),
    "store": (lambda d: lance_df.dataset(d.uri, external_store="s.db"), "external_store must be a SQLiteM"),
    "config": (lambda d: lance_df.connect(config="x"), "config must be a datafusion.SessionConfig"),
    "path": (lambda d: lance_df.SQLiteManifestStore(b"x"), "path must be the path of a file, got b'x'"),
    "blob": (lambda d: lance_df.Blob.from_bytes(3), "data must be bytes, a bytearray or a memoryview, got 3"),
    "blobs": (lambda d: lance_df.blob_array(None), "values must be a list of blobs, got None"),
    "blob name": (lambda d: lance_df.blob_field(None), "name must be text, got None"),
    "schema": (lambda d: lance_df.schema_to_json(None), "schema must be a pyarrow Schema, got None"),
    "json": (lambda d: lance_df.FragmentMetadata.from_json(None), "expected JSON text, got None"),
    "context": (lambda d: lance_df.register_udfs(None), "ctx must be a datafusion.SessionContext"),
    "text": (lambda d: lance_df.debug.format_schema(None), "dataset must be a LanceDataset, got None"),
    "duration": (lambda d: lance_df.util.td_to_micros(None), "td must be a datetime.timedelta, got None"),
    "versions": (lambda d: d.cleanup_old_versions(versions="12"), "versions must be version numbers, got"),
    "retries": (lambda d: d.delete("a = 1", conflict_retries="x"), "conflict_retries must be an integer"),
    "timeout": (lambda d: d.delete("a = 1", retry_timeout=5), "retry_timeout must be a datetime.timedelta"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types(data: LanceDataset, case: str) -> None:
    call, message = WRONG[case]
    with pytest.raises(InvalidInputError, match=message):
        call(data)


def test_integers_and_flags_of_other_libraries(tmp_path: Path) -> None:
    data = lance_df.write_dataset(ROWS, tmp_path / "t.lance", max_rows_per_file=2)
    system = ["_rowid", "_rowaddr"]
    yes = np.True_
    assert data.to_table(with_row_id=yes, with_row_address=yes).column_names[-2:] == system  # type: ignore[arg-type]
    assert data.sample(pa.scalar(2)).num_rows == 2  # type: ignore[arg-type]
    assert lance_df.SessionContext(read_only=yes).read_only is True  # type: ignore[arg-type]
    data.create_scalar_index("a", "BTREE", replace=None, train=None)
    data.optimize.optimize_indices(num_indices_to_merge=pa.scalar(2))  # type: ignore[arg-type]
    assert data.optimize.compact_files(materialize_deletions=yes).fragments_added == 1  # type: ignore[arg-type]
    assert data.merge_insert("a").explain_plan(verbose=None).startswith("MergeInsert")
    keys: Any = {"a": "left out"}
    assert data.merge_insert(keys).when_matched_update_all().execute(ROWS)["num_updated_rows"] == 3
    with LanceFileWriter(tmp_path / "f", A, data_cache_bytes=pa.scalar(3)) as writer:  # type: ignore[arg-type]
        writer.write_batch(ROWS)
    reader = LanceFileReader(tmp_path / "f")
    for rows in (pa.array([0, 2]), pa.chunked_array([[0], [2]])):
        assert reader.take_rows(rows).to_table()["a"].to_pylist() == [1, 3]
    for bad in (pa.array([0, None]), np.array(1)):
        with pytest.raises(InvalidInputError, match="indices must be a sequence of integers"):
            reader.take_rows(bad)  # type: ignore[arg-type]


def test_base_paths_as_paths(tmp_path: Path) -> None:
    base = lance_df.DatasetBasePath(str(tmp_path / "base"))
    arguments: Any = {"initial_bases": [base], "target_bases": [tmp_path / "base"]}
    data = lance_df.write_dataset(ROWS, tmp_path / "t.lance", **arguments)
    data.merge_insert("a").when_not_matched_insert_all().target_bases([tmp_path / "base"]).execute(
        pa.table({"a": [4], "b": ["z"], "ab": [0]})
    )
    assert len(list((tmp_path / "base").rglob("*.lance"))) == 2


def test_sorting_as_pyarrow(data: LanceDataset) -> None:
    sorting = [("b", "descending", "at_start")]
    try:
        expected = ROWS.sort_by(sorting)
    except ValueError:  # a version of pyarrow without placements
        pytest.skip("pyarrow places nulls at the end")
    assert data.sort_by(sorting).to_table() == expected


def test_schemas_as_json() -> None:
    with pytest.raises(InvalidInputError, match="a schema, field or type must be a JSON object, got 'int64'"):
        lance_df.json_to_schema({"fields": [{"name": "a", "type": "int64", "nullable": True}]})
    with pytest.raises(InvalidInputError, match="'nullable' is missing"):
        lance_df.json_to_schema({"fields": [{"name": "a", "type": {"type": "int64"}}]})


def test_sessions(data: LanceDataset) -> None:
    session = lance_df.SessionContext()
    with pytest.raises(InvalidInputError, match="table must be a table, a frame or a dataset, got 5"):
        session.register_table("q", 5)
    with pytest.raises(InvalidInputError, match="name must be the name of a table, got ''"):
        session.register_dataset("", data)
    with pytest.raises(InvalidInputError, match="name must be the name of a table, got None"):
        session.deregister_table(None)
    with pytest.raises(InvalidInputError, match=r"udf must be a datafusion\.ScalarUDF, got None"):
        session.register_udf(None)
    with pytest.raises(InvalidInputError, match="name must be the name of a table, got 5"):
        session.table(5)


def test_directories(tmp_path: Path) -> None:
    directory = lance_df.DirectoryNamespace(tmp_path)
    directory.create_table(["t"], ROWS)
    for call, message in (
        (lambda: directory.list_tables([], limit=""), "limit must be an integer of at least 1, got ''"),
        (lambda: directory.list_tables([], limit=0), "limit must be at least 1, got 0"),
        (lambda: directory.list_tables([], page_token=5), "page_token must be text, got 5"),
        (lambda: directory.list_table_versions(["t"], descending="no"), "descending must be True or False"),
        (lambda: directory.update_table(["t"], "x"), "updates must be a dict or pairs"),
        (lambda: directory.alter_table_drop_columns(["t"], "ab"), "columns must be a list of names"),
        (lambda: directory.batch_delete_table_versions(["t"], 5), "ranges must be a list"),
        (lambda: directory.describe_transaction([]), "followed by that of a transaction"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()
    assert directory.describe_table({"id": ["t"], "check_declared": True}).is_only_declared is False


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    writer = LanceFileWriter(path, A)
    writer.write_batch(pa.table({"a": [1]}))
    writer.close()
    for late in (lambda: writer.add_global_buffer(b"x"), lambda: writer.add_schema_metadata("k", "v")):
        with pytest.raises(InvalidInputError, match="the writer is closed"):
            late()
    reader, session = LanceFileReader(path), LanceFileSession(tmp_path)
    assert repr(reader) == f"<lance_df.LanceFileReader {path} version 2.2: 1 rows, 1 columns>"
    for call, message in (
        (lambda: reader.read_range("a", 1), "start must be an integer, got 'a'"),
        (lambda: reader.read_all(batch_size="x"), "batch_size must be an integer"),
        (lambda: reader.read_global_buffer("x"), "index must be an integer"),
        (lambda: reader.take_rows(5), "indices must be a sequence of integers"),
        (lambda: LanceFileWriter(tmp_path / "x", 5), "schema must be a pyarrow Schema, got 5"),
        (lambda: LanceFileWriter(tmp_path / "x", version=[]), "data_storage_version .. cannot be written"),
        (lambda: LanceFileWriter(tmp_path / "x", data_cache_bytes=""), "data_cache_bytes must be an integer"),
        (lambda: LanceFileWriter(tmp_path / "x", A).add_schema_metadata("k", 5), "value must be text, got 5"),
        (lambda: session.list(5), "path must be text, got 5"),
        (lambda: session.read_range("a.lance", "a", 1), "offset must be an integer, got 'a'"),
        (lambda: session.upload_file(tmp_path, "y"), "path must be a file, got a folder"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()


def test_namespaces(tmp_path: Path) -> None:
    namespace = lance_df.PartitionedNamespace.create(tmp_path, ROWS.schema, ["b"])
    namespace.append(ROWS)
    for call, message in (
        (lambda: namespace.upsert(ROWS, on=5), "on must be a list of names, got 5"),
        (lambda: namespace.drop_columns("ab"), "columns must be a list of names, got 'ab'"),
        (lambda: namespace.cleanup_old_versions(dry_run="no"), "dry_run must be True or False, got 'no'"),
        (lambda: namespace.repair(tmp_path, dry_run="no"), "dry_run must be True or False, got 'no'"),
        (lambda: namespace.add_columns({"z": "a"}, batch_size=""), "batch_size must be an integer"),
        (lambda: namespace.repair(tmp_path, older_than=5), "older_than must be a datetime.timedelta, got 5"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()
    assert namespace.cleanup_old_versions(older_than=dt.timedelta(days=1)).old_versions == 0
