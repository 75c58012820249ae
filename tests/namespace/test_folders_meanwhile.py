"""Folders that somebody else has come to need are not removed by a writer who fails."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import fsspec
import lance
import pyarrow as pa
import pytest
from new_processes import answer_of

import lance_df
from lance_df.api.namespaces import namespace as namespace_module
from lance_df.engine.statements import definitions
from lance_df.errors import (
    AlreadyExistsError,
    ConflictError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    LanceError,
    NotFoundError,
)
from lance_df.namespace.changes import pending, publish
from lance_df.table.commit import committer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.engine

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int64())])


def rows(ids: list[int], partition: int) -> pa.Table:
    return pa.table({"id": ids, "p": [partition] * len(ids)}, SCHEMA)


def once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, code: str) -> None:
    """Run a program in another process before a function is called for the first time."""
    original, left = getattr(owner, name), [code]

    def late(*arguments: Any, **options: Any) -> Any:
        if left:
            answer_of(left.pop())
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, late)


def ids(root: str, version: int | None = None) -> list[int]:
    """Return the rows of all members of a version, as pylance reads them."""
    manifest = lance.dataset(f"{root}/__manifest", version=version)
    members = [row for row in manifest.to_table().to_pylist() if row["object_type"] == "table"]
    tables = [
        lance.dataset(f"{root}/{row['location']}", version=row["read_version"]).to_table() for row in members
    ]
    return sorted(value for table in tables for value in table["id"].to_pylist())


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_partition_that_is_rolled_back_keeps_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_made_again: bool
) -> None:
    """Versions before the restore have it."""
    root = str(tmp_path / "n")
    namespace = lance_df.PartitionedNamespace.create(root, SCHEMA, ["p"])
    namespace.append(rows([1, 2], 0))
    first = namespace.version
    namespace.append(rows([10, 11], 1))
    code = f"""
import lance_df, pyarrow as pa
lance_df.dataset({root + "/__manifest"!r}, version={first}).restore()
if {is_made_again}:
    lance_df.PartitionedNamespace.open({root!r}).append(pa.table({{"id": [20], "p": [1]}}))
"""
    once(monkeypatch, pending, "publish", code)
    if is_made_again:
        namespace.append(rows([13], 1))
        assert ids(root) == [1, 2, 13, 20]
    else:
        with pytest.raises(LanceError):
            namespace.append(rows([13], 1))
        assert ids(root) == [1, 2]
    assert ids(root, first + 1) == [1, 2, 10, 11]


ANEW = """
import lance_df, pyarrow as pa, shutil
shutil.rmtree(root)
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int64())])
if is_made_anew:
    namespace = lance_df.PartitionedNamespace.create(root, SCHEMA, ["p"])
    namespace.append(pa.table({"id": [50], "p": [0]}, SCHEMA))
"""


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [(pending, "publish", 1), (committer, "publish_manifest", 1), (committer, "publish_manifest", 2)],
    ids=["before members", "at a member", "at the manifest"],
)
def test_a_namespace_that_is_dropped_under_an_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int, is_made_anew: bool
) -> None:
    """What was written is of the namespace that is gone, and no part of the one that is there now."""
    root = str(tmp_path / "n")
    namespace = lance_df.PartitionedNamespace.create(root, SCHEMA, ["p"])
    namespace.append(rows([1, 2], 0))
    original, calls = getattr(owner, name), []

    def late(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) == number:
            answer_of(ANEW, root=root, is_made_anew=is_made_anew)
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, late)
    with pytest.raises((IncompatibleConflictError, DatasetNotFoundError)):
        namespace.append(rows([10, 11], 0))
    if is_made_anew:
        assert ids(root) == [50]
        assert lance_df.verify(root, deep=True).ok
    else:
        with pytest.raises(NotFoundError):
            lance_df.PartitionedNamespace.open(root)


@pytest.mark.parametrize("rebase", [True, False])
@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("change", ["append", "delete"])
def test_a_namespace_that_is_dropped_under_a_transaction(
    tmp_path: Path, rebase: bool, is_made_anew: bool, change: str
) -> None:
    root = str(tmp_path / "n")
    namespace = lance_df.PartitionedNamespace.create(root, SCHEMA, ["p"])
    namespace.append(rows([1, 2], 0))

    def change_and_drop() -> None:
        with namespace.transaction(rebase=rebase) as transaction:
            if change == "append":
                transaction.append(rows([10], 0))
            else:
                transaction.delete("id = 1")
            answer_of(ANEW, root=root, is_made_anew=is_made_anew)

    is_conflict = is_made_anew or not rebase
    with pytest.raises(IncompatibleConflictError if is_conflict else (ConflictError, NotFoundError)) as error:
        change_and_drop()
    assert not is_conflict or "dropped" in str(error.value)
    if is_made_anew:
        assert ids(root) == [50]
        assert lance_df.verify(root, deep=True).ok


CHANGES: dict[str, Callable[[lance_df.PartitionedNamespace], object]] = {
    "append": lambda namespace: namespace.append(rows([10], 0)),
    "delete": lambda namespace: namespace.delete("id >= 0"),
    "update": lambda namespace: namespace.update({"id": "7"}),
    "upsert": lambda namespace: namespace.upsert(rows([10], 0), on="id"),
    "overwrite_partitions": lambda namespace: namespace.overwrite_partitions(rows([10], 0)),
    "compact": lambda namespace: namespace.compact(),
    "add_columns": lambda namespace: namespace.add_columns({"b": "id"}),
    "drop_columns": lambda namespace: namespace.drop_columns(["id"]),
    "update_partition_spec": lambda namespace: namespace.update_partition_spec(["id"]),
    "repartition": lambda namespace: namespace.repartition(),
    "cleanup_old_versions": lambda namespace: namespace.cleanup_old_versions(dt.timedelta(0)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("num_appends", [1, 2, 3])
def test_changes_of_a_namespace_that_was_replaced(tmp_path: Path, change: str, num_appends: int) -> None:
    """The other namespace has fewer, as many, or more versions."""

    def create(name: str, appends: int) -> lance_df.PartitionedNamespace:
        namespace = lance_df.PartitionedNamespace.create(str(tmp_path / name), SCHEMA, ["p"])
        for number in range(appends):
            namespace.append(rows([number], 0))
        return namespace

    namespace = create("n", 2)
    create("other", num_appends)
    (tmp_path / "n").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "n")
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(IncompatibleConflictError, match="dropped and created again"):
        CHANGES[change](namespace)
    assert sorted(tmp_path.rglob("*")) == files
    assert ids(str(tmp_path / "n")) == [*range(num_appends)]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_through_a_version_that_was_cleaned_up(tmp_path: Path, change: str) -> None:
    root = str(tmp_path / "n")
    namespace = lance_df.PartitionedNamespace.create(root, SCHEMA, ["p"])
    namespace.append(rows([1], 0))
    other = lance_df.PartitionedNamespace.open(root)
    other.append(rows([2], 0))
    other.cleanup_old_versions(dt.timedelta(0))
    CHANGES[change](namespace)
    assert lance_df.verify(root, deep=True).ok


def test_statements_on_a_namespace_that_was_replaced(tmp_path: Path) -> None:
    """A session finds namespaces by their names, so a statement changes the one that is there."""
    for name, value in (("n", 1), ("other", 50)):
        lance_df.PartitionedNamespace.create(str(tmp_path / name), SCHEMA, ["p"]).append(rows([value], 0))
    ctx = lance_df.connect(tmp_path)
    assert ctx.sql("SELECT id FROM n").to_pylist() == [{"id": 1}]
    (tmp_path / "n").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "n")
    assert ctx.sql("SELECT id FROM n").to_pylist() == [{"id": 50}]
    ctx.sql("UPDATE n SET id = id + 1")
    assert ids(str(tmp_path / "n")) == [51]
    assert ids(str(tmp_path / "old")) == [1]


def test_two_writers_create_one_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path / "n")

    def create() -> None:
        lance_df.PartitionedNamespace.create(root, SCHEMA, ["p"])

    holds_namespace = namespace_module.holds_namespace

    def late(location: Any) -> bool:
        monkeypatch.undo()
        found = holds_namespace(location)
        create()
        return found

    monkeypatch.setattr(namespace_module, "holds_namespace", late)
    with pytest.raises(AlreadyExistsError, match="another writer created this namespace at the same time"):
        create()


def test_a_namespace_in_memory_that_is_dropped_under_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    root = "memory://dropped/n"
    namespace = lance_df.PartitionedNamespace.create(root, SCHEMA, ["p"])
    namespace.append(rows([1, 2], 0))
    original, left = publish.publish, [root]

    def late(*arguments: Any, **options: Any) -> Any:
        fsspec.filesystem("memory").rm("/dropped", recursive=True)
        lance_df.PartitionedNamespace.create(left.pop(), SCHEMA, ["p"])
        return original(*arguments, **options)

    monkeypatch.setattr(pending, "publish", late)
    with pytest.raises(IncompatibleConflictError, match="dropped and created again"):
        namespace.append(rows([10, 11], 0))
    assert lance_df.PartitionedNamespace.open(root).count_rows() == 0
    assert lance_df.verify(root, deep=True).ok


def test_two_statements_that_create_one_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "CREATE TABLE n PARTITIONED BY (c) AS SELECT value AS id, value % 2 AS c FROM range(6)"
    code = f"import lance_df; lance_df.connect({str(tmp_path)!r}).sql({sql!r})"
    once(monkeypatch, definitions, "_create_namespace", code)
    with pytest.raises(AlreadyExistsError):
        lance_df.connect(tmp_path).sql(sql)
    assert ids(str(tmp_path / "n")) == [*range(6)]


def test_rows_that_come_before_a_statement_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path / "n")
    code = f"""
import lance_df, pyarrow as pa
namespace = lance_df.PartitionedNamespace.open({root!r})
schema = pa.schema([namespace.schema.field("id"), namespace.schema.field("c")])
namespace.append(pa.table({{"id": [100], "c": [7]}}).cast(schema))
"""
    once(monkeypatch, lance_df.PartitionedNamespace, "append", code)
    ctx = lance_df.connect(tmp_path)
    with pytest.raises(LanceError, match=r"(?i)divide ?by ?zero"):
        ctx.sql(
            "CREATE TABLE n PARTITIONED BY (c) AS SELECT 1 / (value - 5) AS id, value % 2 AS c FROM range(6)"
        )
    assert ids(root) == [100]
    with pytest.raises(LanceError, match=r"(?i)divide ?by ?zero"):
        ctx.sql(
            "CREATE TABLE m PARTITIONED BY (c) AS SELECT 1 / (value - 5) AS id, value % 2 AS c FROM range(6)"
        )
    assert not (tmp_path / "m").exists()


def test_rows_of_a_table_whose_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others find the folder of a table before its row is there."""
    from lance_df.namespace.directory.directory import Directory

    folder = lance_df.DirectoryNamespace(str(tmp_path))
    folder.create_table(["w"], rows([0], 0))
    code = f"""
import lance_df, pyarrow as pa
lance_df.write_dataset(pa.table({{"id": [10], "p": [1]}}), {str(tmp_path / "x.lance")!r}, mode="append")
lance_df.DirectoryNamespace({str(tmp_path)!r}).create_namespace(["x"])
"""
    once(monkeypatch, Directory, "edit", code)
    with pytest.raises(AlreadyExistsError):
        folder.create_table(["x"], rows([1, 2], 0))
    assert sorted(lance_df.dataset(tmp_path / "x.lance").to_table()["id"].to_pylist()) == [1, 2, 10]
