"""Transactions that change rows and columns: each change sees those before it, and all show at once."""

import datetime as dt
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import PartitionedNamespace
from lance_df.errors import ColumnNotFoundError, ConflictError, InvalidInputError
from lance_df.namespace.changes import stages

SCHEMA = pa.schema([("k", pa.int32()), ("country", pa.string()), ("day", pa.date32())])


def rows(*numbers):
    return pa.table(
        {
            "k": list(numbers),
            "country": [["US", "DE", None][i % 3] for i in numbers],
            "day": [dt.date(2024, 1 + i % 3, 1) for i in numbers],
        },
        SCHEMA,
    )


def found(namespace):
    return sorted(map(str, namespace.to_table().to_pylist()))


def detached(namespace):
    names = (Path(namespace.uri) / "__manifest" / "_versions").iterdir()
    return [each.name for each in names if each.name.startswith("d")]


def transact(namespace, *works, **options):
    with namespace.transaction(**options) as tx:
        for work in works:
            work(tx)


@pytest.fixture
def namespace(tmp_path):
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["k", "month(day)"])
    made.append(rows(1, 2, 3))
    made.update_partition_spec(["country"])
    made.append(rows(4, 5, 6))
    return made


def everything(change):
    """Changes of every kind, each of which needs the columns to be as those before have made them."""
    change.append(rows(7))
    change.delete("k = 1")
    change.rename_column("k", "key")
    change.append(rows(8, 1).rename_columns(["key", "country", "day"]))
    change.add_columns({"twice": "key * 2"})
    change.update({"twice": "twice + 1", "country": "'FR'"}, where="key IN (2, 8)")
    change.alter_columns({"path": "key", "data_type": pa.int64()})
    big = {"key": [2**40, 3], "twice": pa.array([0, 1], pa.int64())}
    change.upsert(pa.table(big), on="key")
    change.drop_columns(["day"])
    change.add_columns(pa.field("day", pa.string()))
    change.overwrite_partitions(pa.table({"country": ["DE"], "key": [9], "day": ["x"]}))


def test_a_transaction_of_rows_and_columns_is_the_same_as_one_change_after_the_other(namespace, tmp_path):
    other = PartitionedNamespace.create(tmp_path / "other", SCHEMA, ["k", "month(day)"])
    other.append(rows(1, 2, 3))
    other.update_partition_spec(["country"])
    other.append(rows(4, 5, 6))
    everything(other)
    before, version = found(namespace), namespace.version
    with namespace.transaction() as tx:
        everything(tx)
        assert found(PartitionedNamespace.open(namespace.uri)) == before
    assert namespace.version == version + 1
    assert (namespace.schema, found(namespace)) == (other.schema, found(other))
    assert found(PartitionedNamespace.open(namespace.uri)) == found(other)
    assert found(namespace.at(version)) == before
    assert lance_df.verify(namespace.uri, deep=True).ok
    assert not detached(namespace)
    for row in namespace.partitions().to_pylist():
        lance.dataset(Path(namespace.uri) / row["location"], version=row["read_version"]).validate()
    namespace.append(pa.table({"key": [2**41]}))
    assert namespace.to_table(["key"], filter=f"key >= {2**40}")["key"].to_pylist() in (
        [2**40, 2**41],
        [2**41, 2**40],
    )


def test_nothing_is_left_of_what_fails(namespace):
    before, version = found(namespace), namespace.version
    with pytest.raises(ZeroDivisionError):
        transact(
            namespace,
            lambda tx: tx.append(rows(7)),
            lambda tx: tx.rename_column("k", "key"),
            lambda _: 1 // 0,
        )
    for change, error in (
        (lambda tx: tx.append(rows(8)), InvalidInputError),
        (lambda tx: tx.drop_columns(["k"]), ColumnNotFoundError),
        (lambda tx: tx.add_columns({"more": "k + 1"}), ColumnNotFoundError),
        (lambda tx: tx.add_columns(lambda batch: batch), InvalidInputError),
        (lambda tx: tx.rename_column("key", "day"), InvalidInputError),
    ):
        with pytest.raises(error):
            transact(namespace, lambda tx: tx.rename_column("k", "key"), change)
    assert found(namespace) == before
    assert PartitionedNamespace.open(namespace.uri).version == namespace.version == version
    assert not detached(namespace)
    with namespace.transaction() as tx:
        tx.rename_column("k", "key")
        tx.rename_column("key", "k")
    assert found(namespace) == before
    with pytest.raises(InvalidInputError, match="ended"):
        tx.drop_columns(["k"])


@pytest.mark.parametrize("step", [0, 1, 3, 6, 9, 12])
def test_a_writer_that_dies_leaves_what_was(namespace, monkeypatch, step):
    """Commits to members and to `__manifest`, detached or not, one of which is not made."""
    before, calls, original = found(namespace), [], stages.commit_change

    def commit_change(*arguments, **options):
        if len(calls) == step:
            raise KeyboardInterrupt
        calls.append(arguments)
        return original(*arguments, **options)

    for module in ("namespace.changes.stages", "namespace.changes.schema_publish", "namespace.member"):
        monkeypatch.setattr(f"lance_df.{module}.commit_change", commit_change)
    monkeypatch.setattr("lance_df.table.commit.loop.commit_change", commit_change)  # imported when called
    with pytest.raises(KeyboardInterrupt):
        transact(
            namespace,
            lambda tx: tx.delete("k = 1"),
            lambda tx: tx.rename_column("k", "key"),
            lambda tx: tx.delete("key = 4"),
        )
    monkeypatch.undo()
    opened = PartitionedNamespace.open(namespace.uri)
    assert found(opened) == before
    opened.append(rows(9))
    assert opened.count_rows() == len(before) + 1


def test_others_publish_meanwhile(namespace, monkeypatch):
    original, calls = stages.changed_members, []

    def changed_members(*arguments):
        if not calls:
            calls.append(arguments)
            PartitionedNamespace.open(namespace.uri).append(rows(4, 40, 41))
        return original(*arguments)

    monkeypatch.setattr(stages, "changed_members", changed_members)
    with namespace.transaction() as tx:
        tx.delete("k = 4")
        tx.rename_column("k", "key")
        tx.append(pa.table({"key": pa.array([40, 42], pa.int32())}))
    assert sorted(namespace.to_table()["key"].to_pylist()) == [1, 2, 3, 5, 6, 40, 40, 41, 42]
    assert lance_df.verify(namespace.uri, deep=True).ok
    calls.clear()

    def renamed(*arguments):
        if not calls:
            calls.append(arguments)
            PartitionedNamespace.open(namespace.uri).rename_column("country", "land")
        return original(*arguments)

    monkeypatch.setattr(stages, "changed_members", renamed)
    with pytest.raises(ConflictError, match="schema"):
        transact(
            namespace,
            lambda tx: tx.drop_columns(["day"]),
            lambda tx: tx.append(pa.table({"country": ["US"]})),
        )
    monkeypatch.undo()
    stale = PartitionedNamespace.open(namespace.uri)
    PartitionedNamespace.open(namespace.uri).delete("key = 40")
    with pytest.raises(ConflictError):
        transact(stale, lambda tx: tx.drop_columns(["day"]), rebase=False)
    stale = PartitionedNamespace.open(namespace.uri)
    with stale.transaction(rebase=False) as tx:
        tx.drop_columns(["day"])
    assert stale.schema.names == ["key", "land"]
    assert not detached(stale)
