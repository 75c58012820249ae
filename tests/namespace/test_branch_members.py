"""Members that are read from a branch, or by a tag: what touches them is refused, and nothing else.

Spec: partitioning, "Read Behavior".
"""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import PartitionedNamespace
from lance_df.errors import UnsupportedFeatureError
from lance_df.namespace.health.findings import ProblemKind, Severity

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])
NAMES = ("branch", "tag of the branch")


def reopened(namespace):
    return PartitionedNamespace.open(namespace.uri)


def found(namespace, **options):
    return sorted(tuple(row.values()) for row in reopened(namespace).to_table(**options).to_pylist())


def published(namespace, where, **columns):
    """Let rows of ``__manifest`` name other things to read, as another program may."""
    lance_df.dataset(Path(namespace.uri) / "__manifest").update(
        columns, where=f"object_type = 'table' AND {where}"
    )


def versions(namespace):
    return {row["a"]: row["read_version"] for row in reopened(namespace).partitions().to_pylist()}


@pytest.fixture(params=NAMES)
def namespace(tmp_path, request):
    """Four partitions of three fragments; partition 1 is read from a branch that has a row more."""
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["a"])
    for b in range(3):
        made.append(pa.table({"a": [0, 1, 2, 3], "b": [b] * 4}))
    row = made.partitions().to_pylist()[1]
    assert row["a"] == 1
    member = lance_df.dataset(tmp_path / "n" / row["location"])
    branch = member.create_branch("dev")
    branch = lance_df.write_dataset(pa.table({"a": [1], "b": [77]}), branch, mode="append")
    if request.param == "branch":
        named = {"read_version": str(branch.version), "read_branch": "'dev'"}
    else:
        member.tags.create("golden", ("dev", branch.version))
        named = {"read_version": "NULL", "read_tag": "'golden'"}
    published(made, "partition_field_a = 1", **named)
    made.checkout_latest()
    return made


@pytest.fixture
def rows(namespace):
    assert namespace.count_rows() == 13
    return found(namespace)


def check(namespace, expected, **verified):
    """The rows, by each way to read, and what `verify` says."""
    assert found(namespace) == expected
    assert reopened(namespace).count_rows() == len(expected)
    context = lance_df.connect(Path(namespace.uri).parent)
    names = ", ".join(reopened(namespace).schema.names)
    assert (
        sorted(tuple(row.values()) for row in context.sql(f"SELECT {names} FROM n").to_pylist()) == expected
    )
    problems = [
        each
        for each in lance_df.verify(namespace.uri, deep=True).problems
        if each.severity is not Severity.INFO
    ]
    assert problems == []


def test_changes_of_other_partitions(namespace, rows):
    namespace.append(pa.table({"a": [2, 9], "b": [50, 51]}))
    expected = sorted([*rows, (2, 50), (9, 51)])
    namespace.delete("a = 0 AND b = 0")
    namespace.update({"b": "b + 100"}, where="a = 3")
    expected.remove((0, 0))
    expected = sorted((a, b + 100 if a == 3 else b) for a, b in expected)
    namespace.upsert(pa.table({"a": [2], "b": [1]}), on=["a", "b"])
    check(namespace, expected)


@pytest.mark.engine
def test_conditions_that_no_row_of_it_fulfils(namespace, rows):
    """Partition values do not tell that: its rows do."""
    assert namespace.delete("b = 12345") == {"num_deleted_rows": 0}
    assert namespace.update({"b": "0"}, where="b = 12345") == {"num_rows_updated": 0}
    check(namespace, rows)
    namespace.append(pa.table({"a": [3], "b": [12345]}))
    assert namespace.delete("b = 12345") == {"num_deleted_rows": 1}
    check(namespace, rows)


CHANGES = {
    "append": lambda namespace: namespace.append(pa.table({"a": [1, 2], "b": [5, 5]})),
    "overwrite": lambda namespace: namespace.overwrite_partitions(pa.table({"a": [1, 2], "b": [5, 5]})),
    "delete": lambda namespace: namespace.delete("b = 0"),
    "delete all": lambda namespace: namespace.delete("a = 1"),
    "update": lambda namespace: namespace.update({"b": "b + 1"}),
    "upsert": lambda namespace: namespace.upsert(pa.table({"a": [1], "b": [77]}), on=["a", "b"]),
    "computed": lambda namespace: namespace.add_columns({"c": "a + b"}),
    "not null": lambda namespace: namespace.alter_columns({"path": "b", "nullable": False}),
}


def test_what_touches_it_is_refused_and_changes_nothing(namespace, rows):
    version, before = namespace.version, versions(namespace)
    (name,) = (row["object_id"] for row in namespace.partitions().to_pylist() if row["a"] == 1)
    for kind, change in CHANGES.items():
        with pytest.raises(UnsupportedFeatureError, match="is read from branch 'dev'") as error:
            change(namespace)
        assert name in str(error.value), kind
        assert (reopened(namespace).version, versions(namespace)) == (version, before), kind
    check(namespace, rows)


def test_a_wider_type_is_refused(tmp_path):
    made = PartitionedNamespace.create(
        tmp_path / "n", pa.schema([("a", pa.int64()), ("b", pa.int32())]), ["a"]
    )
    made.append(pa.table({"a": [0, 1], "b": pa.array([1, 2], pa.int32())}))
    (location,) = (row["location"] for row in made.partitions().to_pylist() if row["a"] == 1)
    branch = lance_df.dataset(tmp_path / "n" / location).create_branch("dev")
    published(made, "partition_field_a = 1", read_version=str(branch.version), read_branch="'dev'")
    made.checkout_latest()
    with pytest.raises(UnsupportedFeatureError, match="branch 'dev'"):
        made.alter_columns({"path": "b", "data_type": pa.int64()})
    check(made, [(0, 1), (1, 2)])


def test_the_others_are_compacted(namespace, rows):
    before = versions(namespace)
    metrics = namespace.compact()
    assert (metrics.fragments_removed, metrics.fragments_added) == (9, 3)
    after = versions(namespace)
    assert {value for value in before if after[value] != before[value]} == {0, 2, 3}
    check(namespace, rows)
    assert namespace.compact().fragments_removed == 0


def test_columns_are_renamed_dropped_and_added_by_their_ids(namespace, rows):
    namespace.rename_column("b", "c")
    check(namespace, rows)
    assert found(namespace, filter="c = 77") == [(1, 77)]
    assert found(namespace, filter="c < 1") == [(0, 0), (1, 0), (2, 0), (3, 0)]
    namespace.add_columns(pa.schema([("d", pa.string())]))
    check(namespace, [(*row, None) for row in rows])
    namespace.drop_columns(["c"])
    assert {d for _, d in found(namespace)} == {None}
    namespace.append(pa.table({"a": [2], "d": ["x"]}))
    assert found(namespace, filter="d IS NOT NULL") == [(2, "x")]
    infos = lance_df.verify(namespace.uri, deep=True).of_kind(ProblemKind.SCHEMA)
    (name,) = (row["object_id"] for row in reopened(namespace).partitions().to_pylist() if row["a"] == 1)
    assert {(each.severity, each.subject) for each in infos} == {(Severity.INFO, name)}
    for row in reopened(namespace).partitions().to_pylist():
        if row["a"] != 1:
            assert lance.dataset(Path(namespace.uri) / row["location"]).schema.names == ["a", "d"]


def test_a_dropped_name_does_not_come_back_with_its_old_values(namespace, rows):
    namespace.drop_columns(["b"])
    with pytest.raises(UnsupportedFeatureError, match="branch 'dev'"):
        namespace.add_columns(pa.schema([("b", pa.int64())]))
    check(namespace, [(a,) for a, _ in rows])


def test_a_column_that_must_not_be_null_any_more(tmp_path):
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.int64(), nullable=False)])
    made = PartitionedNamespace.create(tmp_path / "n", schema, ["a"])
    made.append(pa.table({"a": [0, 1], "b": [1, 2]}, schema=schema))
    (location,) = (row["location"] for row in made.partitions().to_pylist() if row["a"] == 1)
    branch = lance_df.dataset(tmp_path / "n" / location).create_branch("dev")
    published(made, "partition_field_a = 1", read_version=str(branch.version), read_branch="'dev'")
    made.checkout_latest()
    made.alter_columns({"path": "b", "nullable": True})
    made.append(pa.table({"a": [0], "b": pa.array([None], pa.int64())}))
    assert found(made, filter="b IS NOT NULL") == [(0, 1), (1, 2)]
    assert made.count_rows("b IS NULL") == 1
    assert lance_df.verify(made.uri, deep=True).ok


def test_the_others_are_repartitioned(namespace, rows):
    namespace.update_partition_spec(["b"])
    with pytest.raises(UnsupportedFeatureError, match=r"4 rows of v1\$\w+\$dataset were not moved .*'dev'"):
        namespace.repartition()
    check(namespace, rows)
    counts = {}
    for row in reopened(namespace).partitions().to_pylist():
        spec = row["object_id"].split("$")[0]
        counts[spec] = counts.get(spec, 0)
        if row["a"] != 1:
            table = lance.dataset(Path(namespace.uri) / row["location"], version=row["read_version"])
            counts[spec] += table.count_rows()
    assert counts == {"v1": 0, "v2": 9}


def test_an_empty_one_does_not_matter_to_repartition(namespace):
    namespace.checkout_latest()
    (row,) = (row for row in namespace.partitions().to_pylist() if row["a"] == 1)
    member = lance_df.dataset(Path(namespace.uri) / row["location"], version=("dev", None))
    member.delete("true")
    if row["read_tag"] is None:
        published(namespace, "partition_field_a = 1", read_version=str(member.version))
    else:
        member.tags.update("golden", ("dev", member.version))
    namespace = reopened(namespace)
    assert namespace.count_rows() == 9
    namespace.update_partition_spec(["b"])
    assert namespace.repartition().rows == 9
    assert reopened(namespace).count_rows() == 9


def test_one_that_is_put_on_a_branch_meanwhile(namespace, rows, monkeypatch):
    """What was compacted by then is a version of main, whose number the branch may have, too."""
    from lance_df.namespace.changes import compaction

    real = compaction.committed_rewrites
    done = []

    def committed(folder, version, groups):
        made = real(folder, version, groups)
        if not done:
            done.append(folder)
            value = next(
                row["a"] for row in namespace.partitions().to_pylist() if row["location"] == folder.name
            )
            branch = lance_df.dataset(folder.path, version=version).create_branch("late")
            published(
                namespace,
                f"partition_field_a = {value}",
                read_version=str(branch.version),
                read_branch="'late'",
            )
        return made

    monkeypatch.setattr(compaction, "committed_rewrites", committed)
    namespace.compact()
    check(namespace, rows)
    branches = [row["read_branch"] for row in reopened(namespace).partitions().to_pylist()]
    assert branches.count("late") == 1


def test_a_tag_of_main_is_no_obstacle(tmp_path):
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["a"])
    for b in range(3):
        made.append(pa.table({"a": [0, 1], "b": [b] * 2}))
    row = made.partitions().to_pylist()[1]
    # two of the three rows: the tag is what counts, not the newest version
    lance_df.dataset(tmp_path / "n" / row["location"]).tags.create("golden", row["read_version"] - 1)
    published(made, "partition_field_a = 1", read_version="NULL", read_tag="'golden'")
    made.checkout_latest()
    expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    check(made, expected)
    made.compact()
    check(made, expected)
    made.rename_column("b", "c")
    check(made, expected)
    made.update_partition_spec(["c"])
    assert made.repartition().rows == 5
    check(made, expected)
