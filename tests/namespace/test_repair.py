"""Namespaces that pylance's `DirectoryNamespace` has rewritten, and their repair."""

import datetime as dt
import io
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import lance_namespace as requests
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as TheirNamespace

import lance_df
from lance_df import PartitionedNamespace
from lance_df.errors import (
    CorruptDataError,
    IncompatibleConflictError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_df.namespace.health import repair as repair_module
from lance_df.namespace.health.repair_report import RepairKind

ROWS = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "day": [dt.date(2024 + i % 2, 1 + i % 3, 1) for i in range(40)],
        "kind": [["a", "b", None][i % 3] for i in range(40)],
    }
)


def as_stream(rows):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def create(root, rows=ROWS):
    """Make a namespace of two spec versions with all rows twice."""
    namespace = PartitionedNamespace.create(root, rows.schema, ["year(day)", "kind"])
    namespace.append(rows)
    namespace.update_partition_spec(["month(day)"])
    namespace.append(rows)
    return namespace


def state(root):
    namespace = PartitionedNamespace.open(root)
    rows = namespace.to_table().sort_by([("id", "ascending")])
    return namespace.partitions().sort_by("object_id"), rows


def rewrite(root, name="other"):
    """Let pylance change the directory, which loses all columns that it does not know."""
    TheirNamespace(root=str(root)).create_namespace(requests.CreateNamespaceRequest(id=[name]))
    assert lance.dataset(Path(root) / "__manifest").schema.names[-1] == "base_objects"


def forget_history(root):
    manifest = lance.dataset(Path(root) / "__manifest")
    manifest.cleanup_old_versions(older_than=dt.timedelta(0), delete_unverified=True)
    assert len(manifest.versions()) == 1


def member_ids(root):
    return PartitionedNamespace.open(root).partitions()["object_id"].to_pylist()


def manifest_rows(root):
    """Return the rows but those of what pylance made beside the namespace."""
    rows = lance.dataset(Path(root) / "__manifest").to_table().sort_by("object_id")
    assert len(rows["object_id"].unique()) == len(rows)
    return rows.filter(pa.compute.match_substring_regex(rows["object_id"], r"^v\d")).combine_chunks()


def test_t70_columns_come_back_from_an_older_version(tmp_path):
    namespace = create(tmp_path)
    before, rows = manifest_rows(tmp_path), state(tmp_path)
    rewrite(tmp_path)
    for use in (
        lambda: PartitionedNamespace.open(tmp_path),
        namespace.checkout_latest,
        lambda: namespace.append(ROWS),
        lambda: namespace.delete("id = 1"),
        lambda: namespace.update_partition_spec(["kind"]),
    ):
        with pytest.raises(CorruptDataError, match="repair"):
            use()

    tried = PartitionedNamespace.repair(tmp_path, dry_run=True)
    assert tried.is_dry_run
    assert "would be repaired" in str(tried)
    with pytest.raises(CorruptDataError, match="repair"):
        PartitionedNamespace.open(tmp_path)
    done = PartitionedNamespace.repair(tmp_path)
    assert done.actions == tried.actions
    assert [action.kind for action in done.actions] == [RepairKind.COLUMNS, RepairKind.RECALLED]
    after = manifest_rows(tmp_path)
    assert after == before
    assert state(tmp_path) == rows
    again = PartitionedNamespace.repair(tmp_path)
    assert (again.actions, again.version) == ((), done.version)
    assert "nothing to repair" in str(again)
    lance.dataset(tmp_path / "__manifest").validate()

    PartitionedNamespace.open(tmp_path).append(ROWS)
    assert PartitionedNamespace.open(tmp_path).count_rows() == 3 * len(ROWS)
    rewrite(tmp_path, "once_more")
    PartitionedNamespace.repair(tmp_path)
    assert PartitionedNamespace.open(tmp_path).count_rows("kind = 'a'") == 3 * 14
    assert lance_df.verify(tmp_path, deep=True).ok


def test_t70_columns_come_back_from_the_members(tmp_path):
    create(tmp_path)
    before, rows = manifest_rows(tmp_path), state(tmp_path)
    rewrite(tmp_path)
    forget_history(tmp_path)
    with pytest.raises(CorruptDataError, match="repair"):
        PartitionedNamespace.open(tmp_path)
    done = PartitionedNamespace.repair(tmp_path)
    assert len(done.of_kind(RepairKind.READ)) == len(rows[0])
    after = manifest_rows(tmp_path)
    assert after == before
    assert state(tmp_path) == rows
    assert not PartitionedNamespace.repair(tmp_path).actions
    assert lance_df.verify(tmp_path, deep=True).ok


@pytest.mark.parametrize("has_history", [True, False])
def test_values_of_every_type_come_back(tmp_path, has_history):
    values = {
        "ns": pa.array([-1, 2**62, None], pa.timestamp("ns")),
        "far": pa.array([-(2**40), 2**40, None], pa.timestamp("s", "UTC")),
        "date": pa.array([-719_528, 2_932_896, None], pa.date32()),
        "number": pa.array([1, -1, None], pa.decimal128(38, 2)),
        "float": pa.array([float("nan"), -0.0, None], pa.float64()),
        "data": pa.array([b"\xff", b"", None], pa.binary()),
        "text": pa.array(["", "a$b/ü", None], pa.large_string()),
        "flag": pa.array([True, False, None]),
        "word": pa.array(["x", "y", None]).dictionary_encode(),
    }
    rows = pa.table(values)
    namespace = PartitionedNamespace.create(tmp_path, rows.schema, list(values))
    namespace.append(rows)
    before = manifest_rows(tmp_path)
    rewrite(tmp_path)
    if not has_history:
        forget_history(tmp_path)
    PartitionedNamespace.repair(tmp_path)
    after = manifest_rows(tmp_path)
    assert after.schema == before.schema
    assert [str(column) for column in after.columns] == [str(column) for column in before.columns]
    assert PartitionedNamespace.open(tmp_path).count_rows() == 3


def test_what_pylance_did_to_members(tmp_path):
    create(tmp_path)
    partitions, rows = state(tmp_path)
    theirs = TheirNamespace(root=str(tmp_path))
    removed, dropped, *_ = partitions["object_id"].to_pylist()
    theirs.deregister_table(requests.DeregisterTableRequest(id=removed.split("$")))
    theirs.drop_table(requests.DropTableRequest(id=dropped.split("$")))
    parent = dropped.split("$")[:-1]
    fits = partitions.filter(pa.compute.equal(partitions["object_id"], dropped)).to_pylist()[0]
    is_fitting = [
        (row["kind"], row["day"].year) == (fits["kind"], fits["day_year"]) for row in ROWS.to_pylist()
    ]
    fitting = ROWS.filter(pa.array(is_fitting))
    assert len(fitting)
    theirs.create_table(requests.CreateTableRequest(id=[*parent, "dataset"]), as_stream(fitting.slice(1)))
    for name in (["v1", "x"], ["v1", "x", "y"], ["v1", "empty"], ["v9"]):
        theirs.create_namespace(requests.CreateNamespaceRequest(id=name))
    strange = {
        "v1$shallow": ROWS,
        "v1$x$y$dataset": ROWS,
        "v9$deep$dataset": ROWS,
        "v2$x$dataset": ROWS.select(["id"]),
        "v2$y$dataset": ROWS,
    }
    theirs.create_namespace(requests.CreateNamespaceRequest(id=["v9", "deep"]))
    for name in ("x", "y"):
        theirs.create_namespace(requests.CreateNamespaceRequest(id=["v2", name]))
    for name, table in strange.items():
        theirs.create_table(requests.CreateTableRequest(id=name.split("$")), as_stream(table))

    report = PartitionedNamespace.repair(tmp_path)
    assert [action.subject for action in report.of_kind(RepairKind.BROUGHT_BACK)] == [removed]
    assert [action.subject for action in report.of_kind(RepairKind.READ)] == [dropped]
    aside = {action.subject for action in report.of_kind(RepairKind.SET_ASIDE)}
    assert strange.keys() < aside
    after, found = state(tmp_path)
    assert after["object_id"] == partitions["object_id"]
    assert len(found) == len(rows) - 1
    directory = lance_df.DirectoryNamespace(tmp_path)
    for name, table in strange.items():
        location = directory.describe_table(["set_aside", name.replace("$", ".")]).location
        assert lance.dataset(location).to_table() == table
    assert lance_df.verify(tmp_path, deep=True).ok
    assert not PartitionedNamespace.repair(tmp_path).actions


def test_a_second_table_for_the_same_values_is_set_aside(tmp_path):
    namespace = PartitionedNamespace.create(tmp_path, ROWS.schema, ["kind"])
    namespace.append(ROWS)
    theirs = TheirNamespace(root=str(tmp_path))
    theirs.create_namespace(requests.CreateNamespaceRequest(id=["v1", "k" * 16]))
    more = ROWS.filter(pa.compute.equal(ROWS["kind"], "a"))
    request = requests.CreateTableRequest(id=["v1", "k" * 16, "dataset"])
    location = theirs.create_table(request, as_stream(more)).location
    (action, *_) = PartitionedNamespace.repair(tmp_path).of_kind(RepairKind.SET_ASIDE)
    assert "same partition values" in action.text
    assert PartitionedNamespace.open(tmp_path).count_rows() == len(ROWS)
    assert lance.dataset(location).count_rows() == len(more)


def edit(root, change):
    """Change the rows of ``__manifest`` as another program might."""
    path = Path(root) / "__manifest"
    table = lance.dataset(path)
    lance.write_dataset(change(table.to_table()), path, mode="overwrite")


def with_column(rows, name, values):
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(name), pa.array(values, rows.schema.field(name).type))


@pytest.mark.parametrize(
    "wiped",
    [["partition_field_kind"], ["partition_field_kind", "read_version"], ["partition_field_day_year"]],
)
def test_values_that_were_wiped_come_back(tmp_path, wiped):
    create(tmp_path)
    before = manifest_rows(tmp_path)

    def change(rows):
        for name in wiped:
            values = rows[name].to_pylist()
            is_table = [kind == "table" for kind in rows["object_type"].to_pylist()]
            values = [None if table else value for table, value in zip(is_table, values, strict=True)]
            rows = with_column(rows, name, values)
        return rows

    edit(tmp_path, change)
    report = lance_df.verify(tmp_path)
    assert not report.ok
    assert "run repair" in str(report)
    PartitionedNamespace.repair(tmp_path)
    # a row that has all but its version is whole
    after = manifest_rows(tmp_path)
    assert after.drop_columns(["read_version"]) == before.drop_columns(["read_version"])
    assert "read_version" in wiped or after == before
    assert lance_df.verify(tmp_path, deep=True).ok


def update(root, values, where):
    """Change rows of ``__manifest`` in a version of its own."""
    lance.dataset(Path(root) / "__manifest").update(values, where=where)


def of_kind_a(root):
    """Return the row of a member and a condition for it."""
    row = next(row for row in PartitionedNamespace.open(root).partitions().to_pylist() if row["kind"] == "a")
    return row, f"object_id = '{row['object_id']}'"


def create_by_kind(root):
    namespace = PartitionedNamespace.create(root, ROWS.schema, ["kind"])
    namespace.append(ROWS.slice(0, 20))
    namespace.append(ROWS.slice(20))
    return manifest_rows(root)


@pytest.mark.parametrize("has_history", [True, False])
def test_values_that_were_wiped_come_back_though_others_have_written_since(tmp_path, has_history):
    before = create_by_kind(tmp_path)
    member, own = of_kind_a(tmp_path)
    update(tmp_path, {"partition_field_kind": "NULL"}, own)
    # a version of which nobody knows is not published by the way
    lance.write_dataset(ROWS.slice(0, 1), tmp_path / member["location"], mode="append")
    update(tmp_path, {"partition_field_kind": "NULL"}, "object_type = 'table' AND partition_field_kind = 'b'")
    if not has_history:
        forget_history(tmp_path)
    report = PartitionedNamespace.repair(tmp_path)
    assert len(report.of_kind(RepairKind.RECALLED if has_history else RepairKind.READ)) == 2
    assert manifest_rows(tmp_path) == before
    assert not PartitionedNamespace.repair(tmp_path).actions


@pytest.mark.parametrize(
    "values",
    [
        {"location": "NULL"},
        {"object_type": "'thing'"},
        {"location": "'{other}'"},
        {"read_version": "NULL", "read_branch": "'main2'"},
        {"read_tag": "'golden'"},
        {"read_tag": "'golden'", "read_version": "NULL", "read_branch": "'b'"},
    ],
)
def test_rows_that_say_what_cannot_be_are_as_they_were(tmp_path, values):
    before = create_by_kind(tmp_path)
    member, own = of_kind_a(tmp_path)
    lance.dataset(tmp_path / member["location"]).tags.create("golden", member["read_version"])
    other = next(
        row["location"]
        for row in before.to_pylist()
        if row["partition_field_kind"] == "b" and row["location"]
    )
    update(tmp_path, {name: text.format(other=other) for name, text in values.items()}, own)
    report = lance_df.verify(tmp_path)
    assert not report.ok
    assert "run repair" in str(report)
    PartitionedNamespace.repair(tmp_path)
    assert manifest_rows(tmp_path) == before
    assert lance_df.verify(tmp_path, deep=True).ok
    assert not PartitionedNamespace.repair(tmp_path).actions


def test_rows_that_are_there_twice_are_there_once(tmp_path):
    before = create_by_kind(tmp_path)
    member, own = of_kind_a(tmp_path)
    path = tmp_path / "__manifest"
    (row,) = lance.dataset(path).to_table(filter=own).to_pylist()
    elsewhere = shutil.copytree(tmp_path / member["location"], tmp_path / "elsewhere").name
    again = [row, {**row, "read_version": 1}, {**row, "location": elsewhere}]
    lance.write_dataset(pa.Table.from_pylist(again, lance.dataset(path).schema), path, mode="append")
    namespace = PartitionedNamespace.open(tmp_path)
    for read in (
        namespace.count_rows,
        namespace.to_table,
        lambda: namespace.to_table(filter="kind = 'a'"),
        lambda: namespace.delete("id = 1"),
        lambda: namespace.update({"id": "id + 1"}),
        lambda: lance_df.connect(tmp_path.parent).sql(f'SELECT count(*) FROM "{tmp_path.name}"').collect(),
    ):
        with pytest.raises(CorruptDataError, match=r"4 tables have the id .*; repair the namespace"):
            read()
    # what needs none of them is answered
    assert namespace.to_table(filter="kind = 'b'").num_rows == ROWS["kind"].to_pylist().count("b")
    assert "run repair" in str(lance_df.verify(tmp_path))
    report = PartitionedNamespace.repair(tmp_path)
    assert [action.subject for action in report.of_kind(RepairKind.REPEATED)] == [row["object_id"]] * 2
    assert manifest_rows(tmp_path) == before
    (aside,) = report.of_kind(RepairKind.SET_ASIDE)
    directory = lance_df.DirectoryNamespace(tmp_path)
    location = directory.describe_table(["set_aside", aside.subject.replace("$", ".")]).location
    assert Path(location).name == elsewhere
    assert lance_df.verify(tmp_path, deep=True).ok


def test_a_table_with_the_values_of_another_one_gets_its_own_again(tmp_path):
    create_by_kind(tmp_path)
    before = state(tmp_path)
    member, own = of_kind_a(tmp_path)
    parent = member["object_id"].rpartition("$")[0]
    update(tmp_path, {"partition_field_kind": "'b'"}, f"{own} OR object_id = '{parent}'")
    assert PartitionedNamespace.open(tmp_path).count_rows("kind = 'a'") == 0
    assert not lance_df.verify(tmp_path).ok
    assert PartitionedNamespace.repair(tmp_path).actions
    assert state(tmp_path) == before
    assert PartitionedNamespace.open(tmp_path).count_rows("kind = 'a'") > 0
    assert lance_df.verify(tmp_path, deep=True).ok


@pytest.mark.parametrize("version", [1, 99])
def test_a_wrong_version_is_not_kept_when_values_are_restored(tmp_path, version):
    before = create_by_kind(tmp_path)
    _, own = of_kind_a(tmp_path)
    update(tmp_path, {"partition_field_kind": "NULL", "read_version": str(version)}, own)
    assert PartitionedNamespace.repair(tmp_path).of_kind(RepairKind.RECALLED)
    assert manifest_rows(tmp_path) == before
    assert lance_df.verify(tmp_path, deep=True).ok


def test_a_later_version_is_kept_when_values_are_restored(tmp_path):
    create_by_kind(tmp_path)
    member, own = of_kind_a(tmp_path)
    PartitionedNamespace.open(tmp_path).append(ROWS.filter(pa.compute.equal(ROWS["kind"], "a")))
    before = manifest_rows(tmp_path)
    PartitionedNamespace.open(tmp_path).append(ROWS.filter(pa.compute.equal(ROWS["kind"], "b")))
    update(tmp_path, {"partition_field_kind": "NULL"}, own)
    PartitionedNamespace.repair(tmp_path)
    kept = next(row for row in manifest_rows(tmp_path).to_pylist() if row["object_id"] == member["object_id"])
    assert kept in before.to_pylist()


def test_what_verify_advises_where_values_are_wrong(tmp_path):
    create_by_kind(tmp_path)
    before = state(tmp_path)[1]
    member, own = of_kind_a(tmp_path)
    parent = member["object_id"].rpartition("$")[0]
    update(tmp_path, {"partition_field_kind": "'x'"}, f"{own} OR object_id = '{parent}'")
    assert PartitionedNamespace.open(tmp_path).delete("kind = 'a'") == {"num_deleted_rows": 0}
    assert "delete them from the table itself" in str(lance_df.verify(tmp_path, deep=True))
    assert not PartitionedNamespace.repair(tmp_path).actions
    table = lance_df.dataset(tmp_path / member["location"])
    rows = table.to_table()
    table.delete("true")
    PartitionedNamespace.repair(tmp_path, publish_newer=True)
    PartitionedNamespace.open(tmp_path).append(rows)
    assert lance_df.verify(tmp_path, deep=True).ok
    assert state(tmp_path)[1] == before
    assert PartitionedNamespace.open(tmp_path).to_table(filter="kind = 'a'").num_rows == len(rows)
    assert not PartitionedNamespace.repair(tmp_path).actions


def test_a_tag_that_is_gone(tmp_path):
    before = create_by_kind(tmp_path)
    _, own = of_kind_a(tmp_path)
    update(tmp_path, {"read_version": "NULL", "read_tag": "'gone'"}, own)
    (problem,) = lance_df.verify(tmp_path).problems
    assert "publish_newer=True" in problem.advice
    assert not PartitionedNamespace.repair(tmp_path).actions
    PartitionedNamespace.repair(tmp_path, publish_newer=True)
    assert manifest_rows(tmp_path) == before


def test_a_namespace_without_read_versions_is_whole(tmp_path):
    """The columns are optional in the specification: all members are at their newest version then."""
    create(tmp_path)
    before = state(tmp_path)
    PartitionedNamespace.open(tmp_path).delete("id < 6")
    partitions, rows = state(tmp_path)
    assert len(rows) < len(before[1])
    path = tmp_path / "__manifest"
    lance.dataset(path).drop_columns(["read_version", "read_branch", "read_tag"])
    forget_history(tmp_path)
    assert lance_df.verify(tmp_path, deep=True).ok
    assert not PartitionedNamespace.repair(tmp_path).actions
    after, found = state(tmp_path)
    assert after.drop_columns("read_version") == partitions.drop_columns("read_version")
    assert (after["read_version"].null_count, found) == (len(partitions), rows)
    # what is lost besides is read from the tables
    rewrite(tmp_path)
    forget_history(tmp_path)
    report = PartitionedNamespace.repair(tmp_path)
    assert len(report.of_kind(RepairKind.READ)) == len(partitions)
    assert not report.of_kind(RepairKind.SET_ASIDE)
    after, found = state(tmp_path)
    assert after.sort_by("object_id") == partitions.sort_by("object_id")
    assert found == rows
    assert lance_df.verify(tmp_path, deep=True).ok


def test_repairs_at_once_are_one(tmp_path):
    create(tmp_path)
    rows = state(tmp_path)
    rewrite(tmp_path)
    before = lance.dataset(tmp_path / "__manifest").version
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: PartitionedNamespace.repair(tmp_path), range(4)))
    assert sorted(bool(report.actions) for report in reports) == [False, False, False, True]
    assert lance.dataset(tmp_path / "__manifest").version == before + 1
    assert state(tmp_path) == rows


def test_a_repair_that_died_is_done_again(tmp_path, monkeypatch):
    create(tmp_path)
    rows = state(tmp_path)
    lance.dataset(tmp_path / "__manifest").update_metadata({"schema": "{"})
    rewrite(tmp_path)
    commit, commits = repair_module.commit_change, []

    def dies(*args, **options):
        commits.append(args)
        if len(commits) == 2:
            raise StorageError("the store is away")
        return commit(*args, **options)

    monkeypatch.setattr(repair_module, "commit_change", dies)
    with pytest.raises(StorageError):
        PartitionedNamespace.repair(tmp_path)
    with pytest.raises(CorruptDataError):
        PartitionedNamespace.open(tmp_path)
    PartitionedNamespace.repair(tmp_path)
    assert state(tmp_path) == rows


def test_metadata_come_back(tmp_path):
    create(tmp_path)
    manifest = lance.dataset(tmp_path / "__manifest")
    before, rows = manifest.metadata, state(tmp_path)
    for broken in (
        {"partition_spec_v1": "{"},
        {"schema": '{"fields":[{"name":"x","type":{"type":"strange"}}]}', "partition_spec_v2": "[]"},
        {"schema": None},
        {"partition_spec_v2": before["partition_spec_v2"].replace("month", "fortnight")},
        dict.fromkeys(before),
    ):
        lance.dataset(tmp_path / "__manifest").update_metadata(broken)
        if broken != dict.fromkeys(before):
            assert not lance_df.verify(tmp_path).ok
        with pytest.raises((CorruptDataError, NotFoundError, UnsupportedFeatureError)):
            PartitionedNamespace.open(tmp_path)
        report = PartitionedNamespace.repair(tmp_path)
        assert {action.subject for action in report.of_kind(RepairKind.METADATA)} == broken.keys()
        assert lance.dataset(tmp_path / "__manifest").metadata == before
        assert state(tmp_path) == rows
    lance.dataset(tmp_path / "__manifest").update_metadata({"schema": "null"})
    forget_history(tmp_path)
    version = lance.dataset(tmp_path / "__manifest").version
    with pytest.raises(CorruptDataError, match="schema"):
        PartitionedNamespace.repair(tmp_path)
    assert lance.dataset(tmp_path / "__manifest").version == version


def test_t69_what_pylance_commits_to_a_member_shows_when_it_is_asked_for(tmp_path):
    namespace = PartitionedNamespace.create(tmp_path, ROWS.schema, ["kind"])
    namespace.append(ROWS)
    rows = {row["kind"]: row for row in namespace.partitions().to_pylist()}
    folder = {kind: tmp_path / row["location"] for kind, row in rows.items()}
    lance.write_dataset(ROWS.filter(pa.compute.equal(ROWS["kind"], "a")), folder["a"], mode="append")
    lance.write_dataset(ROWS, folder["b"], mode="append")
    assert namespace.count_rows() == len(ROWS)
    report = namespace.verify()
    assert {problem.subject for problem in report.problems} == {rows[kind]["object_id"] for kind in "ab"}
    assert not PartitionedNamespace.repair(tmp_path).actions
    done = PartitionedNamespace.repair(tmp_path, publish_newer=True)
    assert {action.kind: action.subject for action in done.actions} == {
        RepairKind.PUBLISHED: rows["a"]["object_id"],
        RepairKind.NOT_PUBLISHED: rows["b"]["object_id"],
    }
    after = PartitionedNamespace.open(tmp_path)
    assert after.count_rows("kind = 'a'") == 28
    assert after.count_rows() == len(ROWS) + 14
    # what is not shown is no reason for another version of the namespace
    assert not PartitionedNamespace.repair(tmp_path, publish_newer=True).changes
    assert PartitionedNamespace.open(tmp_path).version == after.version
    # the version that was published before may go, and then only the newest can be read
    lance.dataset(folder["b"]).cleanup_old_versions(older_than=dt.timedelta(0), delete_unverified=True)
    assert "version" in {problem.kind for problem in after.verify().problems}


def test_a_member_that_is_gone(tmp_path):
    namespace = PartitionedNamespace.create(tmp_path, ROWS.schema, ["kind"])
    namespace.append(ROWS)
    row = namespace.partitions().to_pylist()[0]
    shutil.rmtree(tmp_path / row["location"])
    opened = PartitionedNamespace.open(tmp_path)
    with pytest.raises(NotFoundError, match=row["location"].split("$")[1]):
        opened.to_table()
    report = PartitionedNamespace.repair(tmp_path)
    assert [(action.kind, action.subject) for action in report.actions] == [
        (RepairKind.MISSING, row["object_id"])
    ]
    assert not report.changes
    (action,) = PartitionedNamespace.repair(tmp_path, forget_missing=True).actions
    assert (action.kind, action.subject) == (RepairKind.FORGOTTEN, row["object_id"])
    left = PartitionedNamespace.open(tmp_path)
    assert left.count_rows() == sum(kind != row["kind"] for kind in ROWS["kind"].to_pylist())
    left.append(ROWS)
    assert lance_df.verify(tmp_path, deep=True).ok


def test_a_member_of_which_only_files_without_a_manifest_are_left(tmp_path):
    namespace = PartitionedNamespace.create(tmp_path, ROWS.schema, ["kind"])
    namespace.append(ROWS)
    row = namespace.partitions().to_pylist()[0]
    shutil.rmtree(tmp_path / row["location"] / "_versions")
    assert ("missing", row["object_id"]) in {
        (each.kind, each.subject) for each in namespace.verify().problems
    }
    assert not PartitionedNamespace.repair(tmp_path).actions
    (action,) = PartitionedNamespace.repair(tmp_path, forget_missing=True).actions
    assert (action.kind, action.subject) == (RepairKind.FORGOTTEN, row["object_id"])
    left = PartitionedNamespace.open(tmp_path)
    left.append(ROWS)
    assert left.count_rows() == ROWS.num_rows + sum(kind != row["kind"] for kind in ROWS["kind"].to_pylist())


def test_what_a_write_left_in_the_folder_of_a_member_that_is_gone_brings_nothing_back(tmp_path):
    namespace = PartitionedNamespace.create(tmp_path, ROWS.schema, ["kind"])
    namespace.append(ROWS)
    row = namespace.partitions().to_pylist()[0]
    shutil.rmtree(tmp_path / row["location"])
    with pytest.raises(NotFoundError):
        PartitionedNamespace.open(tmp_path).append(ROWS)
    (tmp_path / row["location"] / "data").mkdir(parents=True)  # as a killed writer leaves it
    (action,) = PartitionedNamespace.repair(tmp_path, forget_missing=True).actions
    assert action.kind == RepairKind.FORGOTTEN
    rows = PartitionedNamespace.open(tmp_path).to_table()
    (left,) = [each for each in lance_df.verify(tmp_path).problems if each.kind == "orphan"]
    assert "is not a table" in left.found
    assert not PartitionedNamespace.repair(tmp_path).actions
    assert PartitionedNamespace.open(tmp_path).to_table().equals(rows)


def make_old(folder, days):
    for place, _, names in os.walk(folder):
        for name in (*names, "."):
            age = dt.datetime.now().timestamp() - days * 86_400
            os.utime(Path(place) / name, (age, age))


def test_orphans_go_when_nobody_can_need_them(tmp_path):
    namespace = create(tmp_path)
    first = namespace.partitions().to_pylist()[0]
    folders = {
        "old": tmp_path / ("00000001_" + "v1$" + "a" * 16 + "$" + "b" * 16 + "$dataset"),
        "new": tmp_path / ("00000002_" + "v1$" + "a" * 16 + "$" + "b" * 16 + "$dataset"),
        "strange": tmp_path / "notes",
        "table": tmp_path / "x.lance",
    }
    for name, folder in folders.items():
        lance.write_dataset(ROWS, folder)
        if name != "new":
            make_old(folder, 8)
    # named by older versions only, which may still be read
    removed = first["object_id"].split("$")
    TheirNamespace(root=str(tmp_path)).deregister_table(requests.DeregisterTableRequest(id=removed))
    make_old(tmp_path / first["location"], 8)
    kept = {path.name for path in tmp_path.iterdir()}
    report = lance_df.verify(tmp_path)
    assert folders["old"].name in {problem.subject for problem in report.problems}
    tried = PartitionedNamespace.repair(tmp_path, remove_orphans=True, dry_run=True)
    assert {path.name for path in tmp_path.iterdir()} == kept
    done = PartitionedNamespace.repair(tmp_path, remove_orphans=True)
    assert tried.actions == done.actions
    assert [action.subject for action in done.of_kind(RepairKind.REMOVED)] == [folders["old"].name]
    assert {path.name for path in tmp_path.iterdir()} == kept - {folders["old"].name}
    with pytest.raises(InvalidInputError, match="older_than"):
        PartitionedNamespace.repair(tmp_path, remove_orphans=True, older_than=dt.timedelta(-1))
    again = PartitionedNamespace.repair(tmp_path, remove_orphans=True, older_than=dt.timedelta(0))
    assert [action.subject for action in again.actions] == [folders["new"].name]
    assert lance_df.verify(tmp_path, deep=True).ok


def test_folders_that_a_killed_writer_left_empty_go(tmp_path):
    create(tmp_path)
    names = [f"0000000{number}_v1$" + "a" * 16 + "$dataset" for number in range(3)]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / names[1] / "data").mkdir()
    make_old(tmp_path / names[0], 8)
    assert {problem.subject for problem in lance_df.verify(tmp_path).problems} == set(names)
    done = PartitionedNamespace.repair(tmp_path, remove_orphans=True)
    assert [action.subject for action in done.of_kind(RepairKind.REMOVED)] == names[:1]
    done = PartitionedNamespace.repair(tmp_path, remove_orphans=True, older_than=dt.timedelta(0))
    assert [action.subject for action in done.of_kind(RepairKind.REMOVED)] == names[1:]
    assert lance_df.verify(tmp_path, deep=True).ok


def test_what_is_no_namespace_is_not_repaired(tmp_path):
    with pytest.raises(NotFoundError, match="not a namespace"):
        PartitionedNamespace.repair(tmp_path / "nowhere")
    lance_df.DirectoryNamespace(tmp_path).create_namespace("a")
    for call in (PartitionedNamespace.repair, lance_df.verify):
        with pytest.raises(NotFoundError):
            call(tmp_path)
    create(tmp_path / "n")
    manifest = lance.dataset(tmp_path / "n" / "__manifest")
    manifest.update_metadata({"lance.namespace.manifest.writer_feature_flags": "8"})
    with pytest.raises(UnsupportedFeatureError, match="writer"):
        PartitionedNamespace.repair(tmp_path / "n")


@pytest.mark.parametrize("kinds", [["a", "b"], ["c", "d"]])
def test_t71_writers_of_a_namespace_that_was_made_anew_are_refused(tmp_path, kinds):
    def make():
        shutil.rmtree(tmp_path / "n", ignore_errors=True)
        namespace = PartitionedNamespace.create(tmp_path / "n", ROWS.schema, ["kind"])
        namespace.append(ROWS)
        return namespace

    stale = make()
    assert len(stale.to_table()) == len(ROWS)
    make()
    more = ROWS.slice(0, 2).set_column(2, "kind", pa.array(kinds))
    with pytest.raises(LanceError), stale.transaction(rebase=False) as transaction:
        transaction.append(more)
    report = lance_df.verify(tmp_path / "n", deep=True)
    assert report.ok, report
    assert PartitionedNamespace.open(tmp_path / "n").version == 2
    with pytest.raises(IncompatibleConflictError, match="was dropped and created again; open it again"):
        stale.append(more)
    assert PartitionedNamespace.open(tmp_path / "n").count_rows() == len(ROWS)
