"""What errors say of places: files where folders are needed, tables that are gone, URLs without a path."""

from __future__ import annotations

import pickle
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import (
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for call in (
        lambda path: lance_df.write_dataset(ROWS, path),
        lambda path: lance_df.PartitionedNamespace.create(path, ROWS.schema, ["b"]),
        lance_df.DirectoryNamespace,
        lance_df.connect,
    ):
        for path in (str(file), "/dev/null"):
            is_root = call is lance_df.connect and path == str(file)
            error = InvalidInputError if is_root else StorageError
            with pytest.raises(error, match=f"{path}: expected a folder, got a file"):
                call(path)
    assert file.read_text() == "x"


def test_urls_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match="file://: names no path"):
        lance_df.write_dataset(ROWS, "file://")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match="s3://: names no bucket"):
        lance_df.dataset("s3://", storage_options={"key": "k", "secret": "s"})
    with pytest.raises(InvalidInputError, match="without NUL characters"):
        lance_df.dataset("a\0b")


def test_namespaces_on_web_servers() -> None:
    with pytest.raises(UnsupportedFeatureError, match="a web server cannot list files"):
        lance_df.PartitionedNamespace.create("http://localhost:1/x", ROWS.schema, ["b"])


def test_buckets_that_do_not_exist(s3_options: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError, match="cannot be written; 'no-such-bucket' does not exist"):
        lance_df.write_dataset(ROWS, "s3://no-such-bucket/t.lance", storage_options=s3_options)


def test_tables_that_are_gone(tmp_path: Path) -> None:
    data = lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    shutil.rmtree(data.uri)
    with pytest.raises(VersionNotFoundError, match=r"t\.lance: the table was dropped"):
        data.to_table()


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (pa.array([Decimal(1)], pa.decimal32(9, 2)), r"; cast it to decimal128\(9, 2\)"),
        (pa.array([[1]], pa.list_view(pa.int64())), "; cast it to a list"),
        (pa.RunEndEncodedArray.from_arrays([1], [5]), "; cast it to int64"),
        (pa.nulls(1, pa.month_day_nano_interval()), "interval$"),
    ],
    ids=["decimal", "list", "run-end encoded", "interval"],
)
def test_types_that_lance_lacks(tmp_path: Path, values: pa.Array, advice: str) -> None:
    nested = pa.table({"other": [1], "s": pa.StructArray.from_arrays([values], ["x"])})
    with pytest.raises(
        UnsupportedFeatureError, match=f"column 's.x': Lance does not support Arrow type .*{advice}"
    ):
        lance_df.write_dataset(nested, tmp_path / "t.lance")


def test_statements(tmp_path: Path) -> None:
    lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    session = lance_df.connect(tmp_path)
    for statement in ("GRANT ALL ON t TO x", "CREATE USER x", "ANALYZE TABLE t"):
        with pytest.raises(UnsupportedFeatureError, match="this kind of statement is not supported"):
            session.sql(statement)
    with pytest.raises(lance_df.ColumnNotFoundError) as caught:
        session.sql("SELECT q FROM t")
    assert (
        str(caught.value) == "No field named q; the columns are t.a, t.b (in the statement: SELECT q FROM t)"
    )


def test_scanners_are_pickled(tmp_path: Path) -> None:
    data = lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", ROWS.schema, ["b"])
    namespace.append(ROWS)
    for scanner in (
        data.scanner(["b"], "a > 1"),
        data.scanner({"c": "a + 1"}, pc.field("a") > 1, limit=1),
        data.get_fragments()[0].scanner(columns=["a"]),
        namespace.scanner(["a"], "b = 'y'"),
    ):
        copied = pickle.loads(pickle.dumps(scanner))
        assert type(copied) is type(scanner)
        assert copied.to_table() == scanner.to_table()


def test_builders_are_described(tmp_path: Path) -> None:
    data = lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    assert repr(data.merge_insert("a").when_not_matched_insert_all()) == (
        f"<lance_df.MergeInsertBuilder of {data.uri} version 1: on=[a], when_matched=keep, "
        "when_not_matched=insert, when_not_matched_by_source=keep>"
    )
