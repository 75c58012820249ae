"""Columns of a namespace get wider types while members have zone maps, which follow; old versions stay."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from new_processes import answer_of

import lance_df
from lance_df.errors import InvalidInputError, UnsupportedFeatureError

WIDE = {"path": "v", "data_type": pa.int64()}


def rows(partitions: int, each: int = 3) -> pa.Table:
    numbers = range(partitions * each)
    return pa.table(
        {
            "p": pa.array([i % partitions for i in numbers], pa.int16()),
            "k": pa.array(numbers, pa.int64()),
            "v": pa.array([None if i % 7 == 0 else i for i in numbers], pa.int32()),
            "s": [f"t{i:05}" for i in numbers],
        }
    )


def members(namespace: lance_df.PartitionedNamespace) -> list[lance.LanceDataset]:
    return [
        lance.dataset(Path(namespace.uri) / row["location"], version=row["read_version"])
        for row in namespace.partitions().to_pylist()
    ]


def check(namespace: lance_df.PartitionedNamespace, expected: pa.Table, *, column: str = "v") -> None:
    """Compare the rows by both readers, with filters that zone maps answer."""
    expected = expected.sort_by("k")
    assert namespace.to_table().sort_by("k") == expected
    for value in (8, 30, 5000, *([2**40] if expected.schema.field(column).type == pa.int64() else [])):
        text = f"{column} = {value}"
        wanted = [
            k for k, v in zip(*(expected[c].to_pylist() for c in ("k", column)), strict=True) if v == value
        ]
        assert sorted(namespace.to_table(filter=text)["k"].to_pylist()) == wanted
        found = [k for each in members(namespace) for k in each.to_table(filter=text)["k"].to_pylist()]
        assert sorted(found) == wanted
    for each in members(namespace):
        each.validate()
        assert each.schema == expected.schema
    namespace.verify(deep=True).raise_for_errors()


def zone_maps(namespace: lance_df.PartitionedNamespace) -> list[set[str]]:
    return [{index.name for index in each.describe_indices()} for each in members(namespace)]


@pytest.fixture
def namespace(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", rows(1).schema, ["p"])
    made.append(rows(8), statistics=True)
    more = rows(8)
    made.append(more.set_column(1, "k", pa.array(range(100, 100 + len(more)))), statistics=True)
    made.delete("k in (8, 9, 101)")
    return made


def test_zone_maps_of_members_follow(namespace):
    before, old = namespace.to_table(), namespace.version
    assert zone_maps(namespace) == [{"k_zonemap", "v_zonemap", "s_zonemap"}] * 8
    namespace.alter_columns(WIDE, {"path": "s", "data_type": pa.large_string()})
    assert namespace.version == old + 1
    after = before.cast(namespace.schema)
    check(namespace, after)
    assert zone_maps(namespace) == [{"k_zonemap", "v_zonemap", "s_zonemap"}] * 8
    new = pa.table({"p": pa.array([3, 90], pa.int16()), "k": [1000, 1001], "v": [2**40] * 2})
    namespace.append(new, statistics=True)
    program = """
import lance_df
ns = lance_df.PartitionedNamespace.open(uri)
then = ns.at(old)
answer = [ns.count_rows(), ns.count_rows(f"v = {2**40}"), ns.count_rows("v = 10"), then.count_rows(),
    then.count_rows("v = 10"), str(then.schema.field("v").type)]
"""
    assert answer_of(program, uri=namespace.uri, old=old) == [47, 2, 2, 45, 2, "int32"]
    assert namespace.at(old).to_table().sort_by("k") == before.sort_by("k")


def test_three_hundred_partitions_in_one_version(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", rows(1).schema, ["p"])
    made.append(rows(300, 2), statistics=True)
    before, old = made.to_table(), made.version
    made.alter_columns(WIDE)
    fresh = lance_df.PartitionedNamespace.open(made.uri)
    assert fresh.version == old + 1
    assert fresh.to_table().sort_by("k") == before.cast(fresh.schema).sort_by("k")
    assert all("v_zonemap" in names for names in zone_maps(fresh))
    assert fresh.count_rows("v = 8") == 1
    assert fresh.count_rows("v = 7") == 0


def test_a_partition_column_widens_with_its_zone_maps(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", rows(1).schema, ["bucket(v, 4)"])
    made.append(rows(10, 4), statistics=True)
    made.update_partition_spec(["truncate(v, 10)", "p"])
    made.append(rows(3, 5).set_column(1, "k", pa.array(range(100, 115))), statistics=True)
    before = made.to_table()
    made.alter_columns(WIDE, {"path": "p", "data_type": pa.int64()})
    check(made, before.cast(made.schema))
    made.append(pa.table({"p": [2**35], "k": [2000], "v": [2**40]}), statistics=True)
    fresh = lance_df.PartitionedNamespace.open(made.uri)
    check(fresh, fresh.to_table())
    assert fresh.count_rows(f"v = {2**40} and p = {2**35}") == 1


def test_what_would_move_rows_is_refused_and_leaves_zone_maps_alone(tmp_path):
    data = rows(4).set_column(2, "v", pa.array([i + 0.7 for i in range(12)], pa.float32()))
    by = lance_df.partition.expression("CAST(col0 * 10 AS BIGINT)", ["v"])
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, [by])
    made.append(data, statistics=True)
    before, old = made.to_table(), made.version
    with pytest.raises(InvalidInputError, match="different values"):
        made.alter_columns({"path": "v", "data_type": pa.float64()})
    assert lance_df.PartitionedNamespace.open(made.uri).version == old
    check(made, before)
    assert all("v_zonemap" in names for names in zone_maps(made))


def test_an_index_that_others_have_made_is_refused_and_named(namespace):
    table = members(namespace)[0]
    lance.dataset(table.uri).create_scalar_index("v", "BTREE", name="theirs")
    lance_df.PartitionedNamespace.repair(namespace.uri, publish_newer=True)
    fresh = lance_df.PartitionedNamespace.open(namespace.uri)
    before = fresh.to_table()
    with pytest.raises(UnsupportedFeatureError, match=r"drop_index.*'theirs'"):
        fresh.alter_columns(WIDE)
    check(lance_df.PartitionedNamespace.open(namespace.uri), before)
    lance.dataset(table.uri).drop_index("theirs")
    lance_df.PartitionedNamespace.repair(namespace.uri, publish_newer=True)
    fresh = lance_df.PartitionedNamespace.open(namespace.uri)
    fresh.alter_columns(WIDE)
    check(fresh, before.cast(fresh.schema))


def test_changes_of_rows_around_it_in_one_transaction(namespace):
    with namespace.transaction() as change:
        change.delete("k = 10")
        change.alter_columns(WIDE)
        change.append(pa.table({"p": pa.array([1], pa.int16()), "k": [3000], "v": [2**40]}), statistics=True)
    fresh = lance_df.PartitionedNamespace.open(namespace.uri)
    assert fresh.count_rows(f"v = {2**40}") == 1
    assert fresh.count_rows("k = 10") == 0
    check(fresh, fresh.to_table())


def test_a_change_that_fails_leaves_the_zone_maps_that_are_read(namespace, monkeypatch):
    before, old = namespace.to_table(), namespace.version

    def fail(*_args, **_options):
        raise InvalidInputError("no")

    with monkeypatch.context() as patch:
        patch.setattr("lance_df.namespace.changes.schema_publish.check_same", fail)
        with pytest.raises(InvalidInputError):
            namespace.alter_columns(WIDE)
    fresh = lance_df.PartitionedNamespace.open(namespace.uri)
    assert fresh.version == old
    assert fresh.to_table().sort_by("k") == before.sort_by("k")
    fresh.alter_columns(WIDE)
    check(fresh, before.cast(fresh.schema))


def test_columns_with_zone_maps_are_dropped(tmp_path: Path) -> None:
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "ns", rows(3).schema, ["p"])
    namespace.append(rows(3), statistics=True)
    assert all("v_zonemap" in names for names in zone_maps(namespace))
    namespace.drop_columns(["v"])
    namespace.drop_columns(["p"])
    expected = rows(3).drop_columns(["v", "p"])
    assert namespace.to_table().sort_by("k") == expected
    assert sorted(namespace.to_table(filter="k = 5")["s"].to_pylist()) == ["t00005"]
    namespace.verify(deep=True).raise_for_errors()
    assert [len(names) for names in zone_maps(namespace)] == [2, 2, 2]
