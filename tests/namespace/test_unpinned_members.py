"""Members of which ``__manifest`` names neither version nor tag: their newest versions are read.

Spec: partitioning, "Read Behavior".
"""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df import PartitionedNamespace
from lance_df.cache import DEFAULT_CACHE_BYTES
from lance_df.errors import ConflictError, CorruptDataError
from lance_df.namespace.changes import append, pins
from lance_df.namespace.health.findings import ProblemKind, Severity

pytestmark = pytest.mark.engine
READ = ["read_version", "read_branch", "read_tag"]


def rows(*pairs):
    return pa.table({"p": pa.array([p for p, _ in pairs], pa.string()), "k": [k for _, k in pairs]})


def found(source, **options):
    keyed = source.to_table(**options).to_pylist()
    return sorted((row["p"] or "", row["k"]) for row in keyed)


def pinned(namespace):
    return {row["p"]: row["read_version"] for row in namespace.partitions().to_pylist()}


def forget(namespace, where="true"):
    """Let rows name no version, as the specification allows."""
    manifest = lance_df.dataset(Path(namespace.uri) / "__manifest")
    manifest.update({"read_version": "NULL"}, where=f"object_type = 'table' AND {where}")
    namespace.checkout_latest()


def append_directly(namespace, value, k):
    """Append to a member as a program does that knows nothing of the namespace."""
    places = {row["p"]: row["location"] for row in namespace.partitions().to_pylist()}
    lance.write_dataset(rows((value, k)), str(Path(namespace.uri) / places[value]), mode="append")


@pytest.fixture(params=["null", "absent"])
def namespace(tmp_path, request):
    made = PartitionedNamespace.create(tmp_path / "n", rows(("a", 1)).schema, ["p"])
    made.append(rows(("a", 1), ("b", 2), ("c", 3)))
    if request.param == "null":
        forget(made)
    else:
        lance.dataset(tmp_path / "n" / "__manifest").drop_columns(READ)
    return PartitionedNamespace.open(tmp_path / "n")


def test_the_newest_version_is_read(namespace):
    assert namespace.to_table(filter="p = 'a'")["k"].to_pylist() == [1]
    context = lance_df.connect(Path(namespace.uri).parent)
    query = "SELECT p, k FROM n WHERE p <> 'b' ORDER BY k"
    assert context.sql(query).to_pylist() == [{"p": "a", "k": 1}, {"p": "c", "k": 3}]
    append_directly(namespace, "a", 4)
    assert found(PartitionedNamespace.open(namespace.uri)) == [("a", 1), ("a", 4), ("b", 2), ("c", 3)]
    assert [row["k"] for row in context.sql(query).to_pylist()] == [1, 3, 4]
    report = context.explain_scan(query)
    assert (report.partitions.kept, report.partitions.total) == (2, 3)
    assert context.sql("SELECT count(*) n, max(read_version) v FROM n$partitions").to_pylist() == [
        {"n": 3, "v": None}
    ]
    member = namespace.partitions().to_pylist()[0]
    own = context.sql(f"""SELECT count(*) AS n FROM n."{member["object_id"]}" """).to_pylist()
    assert own == [{"n": 2 if member["p"] == "a" else 1}]
    places = {row["p"]: row["object_id"] for row in namespace.partitions().to_pylist()}
    described = PartitionedNamespace.open(namespace.uri).describe_table(places["a"])
    assert described.version == 2
    assert lance_df.verify(namespace.uri, deep=True).ok


def test_an_open_namespace_stays_what_it_was_when_nothing_is_cached(namespace):
    snapshot = namespace._table
    lance_df.set_cache_bytes(0)
    try:
        places = np.arange(3)
        former = [table.version for table in snapshot.open_members(places)]
        append_directly(namespace, "a", 4)
        assert [table.version for table in snapshot.open_members(places)] == former
        assert sorted(table.version for table in snapshot.latest().open_members(places))[-1] == 2
    finally:
        lance_df.set_cache_bytes(DEFAULT_CACHE_BYTES)


def test_a_query_sees_one_version_of_each_member(namespace, monkeypatch):
    context = lance_df.SessionContext()
    lance_df.register(context, "t", namespace.uri)
    original, plans = lance_df.namespace.snapshot.NamespaceSnapshot.plan, []

    def plan_scan(self, request):
        plan = original(self, request)
        if plan.tasks and not plans:
            plans.append(plan)
            append_directly(namespace, "a", 4)
        return plan

    monkeypatch.setattr(lance_df.namespace.snapshot.NamespaceSnapshot, "plan", plan_scan)
    query = "SELECT l.k FROM t l JOIN t r ON l.k = r.k"
    assert context.sql(query).to_arrow_table().num_rows == 3
    assert context.sql(query).to_arrow_table().num_rows == 4


def test_an_older_version_of_the_namespace_reads_the_newest_of_members(namespace):
    former = PartitionedNamespace.open(namespace.uri).at(namespace.version)
    append_directly(namespace, "b", 5)
    assert found(PartitionedNamespace.open(namespace.uri).at(namespace.version))[1:3] == [("b", 2), ("b", 5)]
    namespace.append(rows(("b", 6)))
    # a snapshot that was read keeps what it saw; the row of that version still names none
    assert found(former)[0] == ("a", 1)
    assert ("b", 6) in found(PartitionedNamespace.open(namespace.uri))


def test_a_change_pins_the_members_that_it_may_change_and_no_others(namespace):
    namespace.append(rows(("a", 4), ("d", 5)))
    assert pinned(namespace) == {"a": 2, "b": None, "c": None, "d": 1}
    assert found(namespace) == [("a", 1), ("a", 4), ("b", 2), ("c", 3), ("d", 5)]
    append_directly(namespace, "a", 6)
    append_directly(namespace, "b", 7)
    again = PartitionedNamespace.open(namespace.uri)
    assert found(again) == [("a", 1), ("a", 4), ("b", 2), ("b", 7), ("c", 3), ("d", 5)]
    assert again.delete("p = 'b' AND k = 7") == {"num_deleted_rows": 1}
    assert pinned(again) == {"a": 2, "b": 3, "c": None, "d": 1}


CHANGES = {
    "upsert": lambda ns: ns.upsert(rows(("a", 1), ("c", 2)), on="k"),
    "update": lambda ns: ns.update({"p": "'c'"}, where="k = 2"),
    "overwrite": lambda ns: ns.overwrite_partitions(rows(("c", 3), ("c", 2))),
    "rename": lambda ns: ns.rename_column("k", "key"),
    "add": lambda ns: ns.add_columns({"more": "k + 1"}),
    "compact": lambda ns: ns.compact(),
    "spec": lambda ns: ns.update_partition_spec(["bucket(k, 4)"]),
    "cleanup": lambda ns: ns.cleanup_old_versions(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_what_it_is_where_versions_are_pinned(namespace, tmp_path, change):
    other = PartitionedNamespace.create(tmp_path / "other", rows(("a", 1)).schema, ["p"])
    other.append(rows(("a", 1), ("b", 2), ("c", 3)))
    other.append(rows(("a", 4)))
    append_directly(namespace, "a", 4)
    namespace.checkout_latest()
    for each in (namespace, other):
        change(each)
        each.append(pa.table({"p": ["b"]}))
    assert namespace.schema == other.schema

    def as_text(source):
        return sorted(map(str, source.to_table().to_pylist()))

    assert as_text(PartitionedNamespace.open(namespace.uri)) == as_text(other)
    assert lance_df.verify(namespace.uri, deep=True).ok


def test_nothing_shows_before_a_change_is_published(namespace, monkeypatch):
    """Readers of the newest versions would see half of it; so would everybody, for ever, if it dies."""
    before, original = found(namespace), append.NewRows._commit

    def commit(self, pair):
        original(self, pair)
        raise KeyboardInterrupt

    monkeypatch.setattr(append.NewRows, "_commit", commit)
    with pytest.raises(KeyboardInterrupt), namespace.transaction() as tx:
        tx.append(rows(("a", 10), ("b", 11), ("c", 12)))
    assert found(PartitionedNamespace.open(namespace.uri)) == before
    monkeypatch.undo()
    namespace.append(rows(("a", 10), ("b", 11), ("c", 12)))
    assert found(namespace) == sorted([*before, ("a", 10), ("b", 11), ("c", 12)])


def test_others_publish_while_members_are_pinned(namespace, monkeypatch):
    original, calls = pins.with_pins, []

    def with_pins(root, manifest, members):
        if not calls:
            calls.append(members)
            # others do not wait in this process's line
            with PartitionedNamespace.open(namespace.uri).transaction(rebase=False) as tx:
                tx.append(rows(("a", 20), ("z", 21)))
        return original(root, manifest, members)

    monkeypatch.setattr("lance_df.namespace.changes.publish.with_pins", with_pins)
    monkeypatch.setattr("lance_df.namespace.changes.schema_publish.with_pins", with_pins)
    opened = PartitionedNamespace.open(namespace.uri)
    with pytest.raises(ConflictError), opened.transaction(rebase=False) as tx:
        tx.append(rows(("a", 5)))
    opened = PartitionedNamespace.open(namespace.uri)
    with opened.transaction(rebase=False) as tx:
        tx.append(rows(("b", 5)))
    calls.clear()
    namespace.append(rows(("a", 6), ("c", 6)))
    expected = [("a", 1), ("a", 6), ("a", 20), ("a", 20), ("b", 2), ("b", 5), ("c", 3), ("c", 6)]
    assert found(namespace) == [*expected, ("z", 21), ("z", 21)]
    calls.clear()
    forget(namespace)
    namespace.drop_columns(["k"])
    assert namespace.count_rows() == 12


def test_others_commit_to_members_while_these_are_pinned(namespace, monkeypatch):
    original, calls = pins._check_values, []

    def check(manifest, members, tables):
        original(manifest, members, tables)
        if not calls:
            calls.append(members)
            append_directly(namespace, "a", 30)

    monkeypatch.setattr(pins, "_check_values", check)
    namespace.append(rows(("a", 5), ("b", 6)))
    assert found(namespace) == [("a", 1), ("a", 5), ("a", 30), ("b", 2), ("b", 6), ("c", 3)]
    if pinned(namespace)["c"] is None:
        monkeypatch.setattr(pins, "_check_values", lambda *_: append_directly(namespace, "c", 31))
        opened = PartitionedNamespace.open(namespace.uri)
        with pytest.raises(ConflictError, match="start again"), opened.transaction(rebase=False) as tx:
            tx.append(rows(("c", 7)))
        assert ("c", 31) in found(PartitionedNamespace.open(namespace.uri))


def test_a_row_without_values_may_be_of_a_program_that_knows_nothing_of_partitions(tmp_path):
    """Neither version nor values: the partition of NULL, or any table. Nothing is concluded from them."""
    made = PartitionedNamespace.create(tmp_path / "n", rows(("a", 1)).schema, ["p"])
    made.append(rows((None, 1), ("b", 2), ("a", 3)))
    forget(made, "partition_field_p IS NULL")
    whole = made.at(made.version)
    assert found(whole, filter="p IS NULL") == [("", 1)]
    path = Path(made.uri)
    manifest = lance_df.dataset(path / "__manifest")
    wiped = {"read_version": "NULL", "partition_field_p": "NULL"}
    manifest.update(wiped, where="object_type = 'table' AND partition_field_p = 'a'")
    made.checkout_latest()
    for predicate, expected in {
        "p = 'a'": [("a", 3)],
        "p IS NULL": [("", 1)],
        "p <> 'a'": [("b", 2)],
        "p IS NOT NULL AND k > 0": [("a", 3), ("b", 2)],
        "p IN ('a', 'zz') OR k = 1": [("", 1), ("a", 3)],
    }.items():
        assert found(made, filter=predicate) == expected
    context = lance_df.SessionContext(partitioned_joins="always")
    lance_df.register(context, "t", made.uri)
    query = "SELECT l.k FROM t l JOIN t r ON l.p = r.p"
    assert sorted(row["k"] for row in context.sql(query).to_pylist()) == [2, 3]
    assert "neither a version" in str(context.explain_scan(query).joins)
    made.append(rows(("b", 4)))
    for change in (
        lambda: made.delete("p = 'a'"),
        lambda: made.append(rows((None, 5))),
        lambda: made.upsert(rows(("a", 3)), on="p"),
        lambda: made.rename_column("k", "key"),
    ):
        with pytest.raises(CorruptDataError, match="repair"):
            change()
    assert not lance_df.verify(path).ok
    PartitionedNamespace.repair(path)
    report = lance_df.verify(path, deep=True)
    # the folder of the partition that the upsert would have made
    assert {each.kind for each in report.problems if each.severity != "info"} <= {"orphan"}
    repaired = PartitionedNamespace.open(path)
    assert repaired.delete("p = 'a'") == {"num_deleted_rows": 1}
    assert found(repaired) == [("", 1), ("b", 2), ("b", 4)]


def test_a_branch_without_a_version_says_nothing(tmp_path):
    made = PartitionedNamespace.create(tmp_path / "n", rows(("a", 1)).schema, ["p"])
    made.append(rows(("a", 1), ("b", 2)))
    manifest = lance_df.dataset(tmp_path / "n" / "__manifest")
    manifest.update({"read_version": "NULL", "read_branch": "'dev'"}, where="partition_field_p = 'a'")
    made.checkout_latest()
    assert found(made, filter="p = 'b'") == [("b", 2)]
    with pytest.raises(CorruptDataError, match="branch without a version"):
        made.to_table()


def test_others_commit_to_members_while_their_versions_are_published(namespace, monkeypatch):
    """What readers may have seen stays; what a writer of ours has not published yet does not show."""
    original, calls = pins._published, []

    def published(manifest, pairs):
        calls.append(pairs)
        if len(calls) < 3:
            append_directly(namespace, "a", 30 + len(calls))
        if len(calls) == 2:
            manifest.changed(manifest.table.arrow_schema.empty_table(), {})
        return original(manifest, pairs)

    monkeypatch.setattr(pins, "_published", published)
    namespace.append(rows(("a", 5), ("b", 6)))
    assert len(calls) == 3
    expected = [("a", 1), ("a", 5), ("a", 31), ("a", 32), ("b", 2), ("b", 6), ("c", 3)]
    assert found(namespace) == expected
    if pinned(namespace)["c"] is not None:
        return
    commit = append.NewRows._commit

    def dies(self, pair):
        commit(self, pair)
        raise KeyboardInterrupt

    def and_others_begin(manifest, pairs):
        published = original(manifest, pairs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(append.NewRows, "_commit", dies)
            tx = PartitionedNamespace.open(namespace.uri).transaction(rebase=False)
            with pytest.raises(KeyboardInterrupt), tx as other:
                other.append(rows(("c", 99)))
        append_directly(namespace, "c", 98)
        return published

    monkeypatch.setattr(pins, "_published", and_others_begin)
    namespace.append(rows(("c", 7)))
    assert found(namespace) == sorted([*expected, ("c", 7)])


@pytest.fixture(params=["null", "absent"])
def with_null(tmp_path, request):
    """A namespace with the partition of NULL, none of whose rows names a version."""
    made = PartitionedNamespace.create(tmp_path / "n", rows(("a", 1)).schema, ["p"])
    made.append(rows(("a", 1), (None, 2), ("c", 3)))
    if request.param == "null":
        forget(made)
    else:
        lance.dataset(tmp_path / "n" / "__manifest").drop_columns(READ)
    return PartitionedNamespace.open(tmp_path / "n")


@pytest.mark.parametrize("deep", [False, True])
def test_the_partition_of_null_is_like_any_other(with_null, deep):
    report = lance_df.verify(with_null.uri, deep=deep)
    assert report.ok
    names = with_null.partitions()["object_id"].to_pylist()
    assert sorted(each.subject for each in report.problems) == sorted(names)
    assert {(each.severity, each.kind) for each in report.problems} == {
        (Severity.INFO, ProblemKind.UNPUBLISHED)
    }
    version = with_null.version
    assert PartitionedNamespace.repair(with_null.uri).actions == ()
    assert PartitionedNamespace.open(with_null.uri).version == version
    assert found(with_null, filter="p IS NULL") == [("", 2)]
    assert found(with_null) == [("", 2), ("a", 1), ("c", 3)]


def test_a_program_that_forgets_values_is_found_by_the_rows(with_null):
    """The row is as that of the partition of NULL, but the rows of its table are not."""
    before = found(with_null)
    manifest = lance_df.dataset(Path(with_null.uri) / "__manifest")
    manifest.update({"partition_field_p": "NULL"}, where="partition_field_p = 'a'")
    report = lance_df.verify(with_null.uri)
    (name,) = (row["object_id"] for row in with_null.partitions().to_pylist() if row["p"] == "a")
    assert not report.ok
    assert [
        each.subject for each in report.of_kind(ProblemKind.ROW) if "although its rows" in each.found
    ] == [name]
    repaired = PartitionedNamespace.repair(with_null.uri)
    assert repaired.actions
    again = PartitionedNamespace.open(with_null.uri)
    assert found(again) == before
    assert {row["p"] for row in again.partitions().to_pylist()} == {"a", None, "c"}
    assert found(again, filter="p = 'a'") == [("a", 1)]
    assert lance_df.verify(with_null.uri, deep=True).ok


def test_all_combinations_in_one_namespace(tmp_path):
    """A version, a version of a branch, a tag, and nothing: each is read as the specification says."""
    made = PartitionedNamespace.create(tmp_path / "n", rows(("a", 1)).schema, ["p"])
    made.append(rows(("version", 1), ("branch", 2), ("tag", 3), ("none", 4), (None, 5)))
    folders = {row["p"]: tmp_path / "n" / row["location"] for row in made.partitions().to_pylist()}
    for name, folder in folders.items():
        member = lance_df.dataset(folder)
        if name == "branch":
            branch = member.create_branch("dev")
            for k in (20, 21):
                branch = lance_df.write_dataset(rows((name, k)), branch, mode="append")
        lance.write_dataset(rows((name, 100)), folder, mode="append")
        if name == "tag":
            lance_df.dataset(folder).tags.create("golden", 2)
        lance.write_dataset(rows((name, 200)), folder, mode="append")
    manifest = lance_df.dataset(tmp_path / "n" / "__manifest")
    named = {
        "version": {"read_version": "2"},
        "branch": {"read_version": str(branch.version - 1), "read_branch": "'dev'"},
        "tag": {"read_version": "NULL", "read_tag": "'golden'"},
        "none": {"read_version": "NULL"},
    }
    for name, columns in named.items():
        manifest.update(columns, where=f"object_type = 'table' AND partition_field_p = '{name}'")
        manifest = lance_df.dataset(tmp_path / "n" / "__manifest")
    manifest.update({"read_version": "NULL"}, where="object_type = 'table' AND partition_field_p IS NULL")
    read = {"version": [1, 100], "branch": [2, 20], "tag": [3, 100], "none": [4, 100, 200], "": [5, 100, 200]}
    expected = sorted((name, k) for name, own in read.items() for k in own)
    opened = PartitionedNamespace.open(tmp_path / "n")
    assert found(opened) == expected
    assert opened.count_rows() == len(expected)
    context = lance_df.connect(tmp_path)
    text = "SELECT coalesce(p, '') AS p, k FROM n ORDER BY p, k"
    assert [(row["p"], row["k"]) for row in context.sql(text).to_pylist()] == expected
    for p, k in expected:
        condition = f"p = '{p}'" if p else "p IS NULL"
        assert (p, k) in found(opened, filter=condition)
    kinds = {(each.severity, each.kind) for each in lance_df.verify(tmp_path / "n", deep=True).problems}
    assert kinds == {(Severity.WARNING, ProblemKind.UNPUBLISHED), (Severity.INFO, ProblemKind.UNPUBLISHED)}
    assert PartitionedNamespace.repair(tmp_path / "n").actions == ()
    assert found(PartitionedNamespace.open(tmp_path / "n")) == expected
