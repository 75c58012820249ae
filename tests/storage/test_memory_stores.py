"""Names in memory that are created again: whoever has the older table open keeps it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import fsspec
import pyarrow as pa
import pytest

import lance_df


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def uri() -> Iterator[str]:
    root = f"memory://{uuid.uuid4().hex}"
    yield f"{root}/t.lance"
    fsspec.filesystem("memory").rm(root.removeprefix("memory:/"), recursive=True)


def test_the_older_table_stays(uri: str) -> None:
    first = lance_df.write_dataset(rows(1), uri)
    second = lance_df.write_dataset(pa.table({"b": ["x", "y"]}), uri)
    third = lance_df.write_dataset(rows(5, 6, 7), uri)
    assert [each.version for each in (first, second, third)] == [1, 1, 1]
    assert first.to_table().equals(rows(1))
    assert second.to_table().to_pydict() == {"b": ["x", "y"]}
    assert lance_df.dataset(uri).to_table().equals(rows(5, 6, 7))
    lance_df.write_dataset(rows(2), first, mode="append")
    first.delete("a = 1")
    assert (first.count_rows(), first.latest_version, third.latest_version) == (1, 3, 1)
    lance_df.write_dataset(rows(8), uri, mode="append")
    assert (third.latest_version, third.count_rows(), lance_df.dataset(uri).count_rows()) == (2, 3, 4)


def test_folders_show_the_newer_table(uri: str) -> None:
    lance_df.write_dataset(rows(0), uri)
    ctx = lance_df.connect(uri.rpartition("/")[0])
    for values in ((1, 2), (3,), (4, 5, 6)):
        lance_df.write_dataset(rows(*values), uri)
        assert ctx.sql("SELECT a FROM t ORDER BY a").to_pydict() == {"a": list(values)}
    ctx.sql("DROP TABLE t")
    with pytest.raises(lance_df.DatasetNotFoundError):
        lance_df.dataset(uri)
    assert lance_df.write_dataset(rows(9), uri).version == 1
    assert lance_df.dataset(uri).to_table().equals(rows(9))


def test_a_failed_write_leaves_the_older_table(uri: str) -> None:
    older = lance_df.write_dataset(rows(1, 2), uri)

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(3).to_batches()[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lance_df.write_dataset(pa.RecordBatchReader.from_batches(rows().schema, batches()), uri)
    assert lance_df.dataset(uri).to_table().equals(older.to_table())
    lance_df.write_dataset(rows(4), uri, mode="append")
    older.checkout_latest()
    assert older.to_table().equals(rows(1, 2, 4))


def test_a_table_in_the_root_leaves_those_below_it(uri: str) -> None:
    lance_df.write_dataset(rows(1), uri)
    first = lance_df.write_dataset(rows(2), "memory://")
    second = lance_df.write_dataset(rows(3), "memory://")
    assert first.to_table().equals(rows(2))
    assert second.to_table().equals(rows(3))
    assert lance_df.dataset(uri).to_table().equals(rows(1))
    for folder in ("/_versions", "/_transactions", "/data"):
        fsspec.filesystem("memory").rm(folder, recursive=True)


def test_namespaces_are_not_replaced(uri: str) -> None:
    root = uri.rpartition("/")[0]
    lance_df.DirectoryNamespace(root).create_table("a", rows(1))
    with pytest.raises(lance_df.AlreadyExistsError, match="__manifest"):
        lance_df.write_dataset(rows(2), root)


@pytest.mark.parametrize("name", ["s*", "s?ock", "[st]ock"])
def test_names_that_fsspec_takes_for_patterns_are_names(uri: str, name: str) -> None:
    """Dropping a table drops no others."""
    folder = lance_df.DirectoryNamespace(uri.removesuffix("/t.lance"))
    for each in ("stock", "sales", name):
        folder.create_table([each], rows(1, 2))
    folder.drop_table([name])
    assert sorted(folder.list_tables([]).tables) == ["sales", "stock"]
    for each in ("stock", "sales"):
        assert lance_df.dataset(f"{uri.removesuffix('/t.lance')}/{each}.lance").count_rows() == 2
    folder.create_table([name], rows(3))
    assert len(folder.list_tables([]).tables) == 3
