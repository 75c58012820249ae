"""Many partitions, many writers: what is shared, what is bounded, and what stays one state."""

import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.namespace import row_counts
from lance_df.namespace.changes import partition_files, partition_index, publish, routing
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.manifest_rows import ManifestRows, take_rows
from lance_df.namespace.manifest_table import NamespaceManifest
from lance_df.namespace.names import partition_names
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.scan.request import ScanRequest
from lance_df.storage import open_location
from lance_df.storage.unsynced import Unsynced

pytestmark = pytest.mark.engine


def rows(*pairs):
    return pa.table({"p": pa.array([p for p, _ in pairs], pa.string()), "k": [k for _, k in pairs]})


def found(namespace, **options):
    return in_order(namespace.to_table(**options))


def in_order(table):
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=lambda row: (row[0] or "", row[1]))


@pytest.fixture
def limits():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def namespace(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", rows(("a", 1)).schema, ["p"])
    made.append(rows(("a", 1), ("b", 2), (None, 3)))
    return made


def reopened(namespace):
    return lance_df.PartitionedNamespace.open(namespace.uri)


def test_partitions_beyond_those_that_are_made_at_once(namespace, monkeypatch):
    monkeypatch.setattr(publish, "_WAITING", 3)
    monkeypatch.setattr(partition_index, "_AT_ONCE", 4)
    new = [(f"new {number}", number) for number in range(10)]
    namespace.append(rows(*new, ("b", 5)))
    assert found(reopened(namespace)) == [(None, 3), ("a", 1), ("b", 2), ("b", 5), *new]
    assert found(reopened(namespace), filter="p = 'new 7'") == [("new 7", 7)]
    assert publish.map_commits(str, range(7)) == ["0", "1", "2", "3", "4", "5", "6"]


def run_together(namespace, works):
    """Let transactions begin while another one is publishing; return their errors."""
    line = publish.line_of(open_location(namespace.uri))
    errors = [None] * len(works)

    def run(number, work):
        try:
            with reopened(namespace).transaction() as tx:
                work(tx)
        except Exception as err:  # noqa: BLE001 - looked at by the test
            errors[number] = err

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    with line._publishes:
        for thread in threads:
            before = len(line._waiting)
            thread.start()
            while len(line._waiting) == before and thread.is_alive():
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    return errors


def test_waiting_transactions_share_a_commit(namespace):
    at = namespace.version
    works = [lambda tx, p=p: tx.append(rows((p, 10), ("new" + p, 11))) for p in "abcd"]
    works.append(lambda tx: tx.delete("k = 1"))
    assert run_together(namespace, works[:4]) == [None] * 4
    assert reopened(namespace).version == at + 1
    # a deletion has to know what new partitions hold, so it comes after those who make them
    assert run_together(namespace, [lambda tx: tx.append(rows(("e", 1))), works[4]]) == [None] * 2
    expected = [("b", 2)] + [pair for p in "abcd" for pair in ((p, 10), ("new" + p, 11))]
    namespace.checkout_latest()
    assert found(namespace, filter="p IS NOT NULL") == sorted(expected)
    assert namespace.version == at + 3


def test_trap_63_creators_of_one_partition_in_one_process(namespace):
    works = [lambda tx, k=k: tx.append(rows(("z", k))) for k in range(4)]
    assert run_together(namespace, works) == [None] * 4
    namespace.checkout_latest()
    assert found(namespace, filter="p = 'z'") == [("z", k) for k in range(4)]
    partitions = namespace.partitions().to_pylist()
    assert len(partitions) == len({row["p"] for row in partitions}) == 4
    folders = {path.name for path in Path(namespace.uri).iterdir()} - {"__manifest"}
    assert folders == {row["location"] for row in partitions}


def test_one_that_fails_keeps_no_other_from_its_commit(namespace, monkeypatch):
    original = publish.Waiting.apply

    def apply(self, draft):
        original(self, draft)
        if any(change._written[0].key == poisoned for change in self.changes):
            raise InvalidInputError("poison")

    with namespace.transaction() as tx:
        tx.append(rows(("poison", 0)))
        poisoned = tx._open().rows._changes[0]._written[0].key
    monkeypatch.setattr(publish.Waiting, "apply", apply)
    at = namespace.version
    errors = run_together(
        namespace,
        [
            lambda tx: tx.append(rows(("a", 7))),
            lambda tx: tx.append(rows(("poison", 1), ("a", 8), ("never", 9))),
            lambda tx: tx.append(rows(("a", 9))),
        ],
    )
    assert [type(err) for err in errors] == [type(None), InvalidInputError, type(None)]
    namespace.checkout_latest()
    assert namespace.version == at + 1
    assert found(namespace, filter="k >= 7") == [("a", 7), ("a", 9)]
    assert found(namespace, filter="p IN ('poison', 'never')") == [("poison", 0)]


def test_new_versions_read_what_is_new_in_them(namespace, monkeypatch):
    read = []
    original = ManifestRows.read.__func__

    def counted(cls, table, former=None):
        rows = original(cls, table, former)
        before = {id(part) for part in former._parts} if former is not None else set()
        read.append(sum(len(part.rows) for part in rows._parts if id(part) not in before))
        return rows

    namespace.append(rows(*((f"p{number}", number) for number in range(1200))))
    monkeypatch.setattr(ManifestRows, "read", classmethod(counted))
    for number in range(12):
        namespace.append(rows((f"p{number}", -number), (f"new{number}", number)))
        newest = namespace._table.manifest
        anew = NamespaceManifest(newest.table)
        assert newest.rows.sort_by("object_id").equals(anew.rows.sort_by("object_id"))
        assert newest.members.num_rows == 1204 + number
        assert len(newest.table.fragments) <= 4
    assert np.median(read) > 1000  # what is read anew, which is every second
    assert np.median(read[::2]) < 2500
    assert namespace.count_rows() == 3 + 1200 + 24


def test_rows_are_taken_from_chunks():
    table = pa.concat_tables(
        [pa.table({"a": np.arange(low, high)}) for low, high in ((0, 3), (3, 3), (3, 9))]
    )
    for places in ([], [0], [2, 3], [8], [0, 1, 2, 3, 8]):
        assert take_rows(table, np.array(places, np.intp))["a"].to_pylist() == places


def test_names_are_drawn_at_random():
    names = partition_names(5000)
    assert len(set(names)) == 5000
    assert all(re.fullmatch("[a-z0-9]{16}", name) for name in names)
    assert set("".join(names)) == set("abcdefghijklmnopqrstuvwxyz0123456789")
    assert partition_names(0) == []


def test_many_partitions_in_little_memory(namespace, monkeypatch):
    """What waits is written, and what is left is copied: the buffers of all rows are not kept."""
    waiting, original = [], routing.PartitionWriter._make_room

    def make_room(self, threads):
        original(self, threads)
        parts = [part for each in self._partitions.values() for part in each.waiting.parts]
        batches = {id(batch): batch._rows for batch, _, _ in parts}
        num_rows = sum(each.waiting.num_rows for each in self._partitions.values())
        assert sum(rows.num_rows for rows in batches.values()) == num_rows
        waiting.append(sum(rows.get_total_buffer_size() for rows in batches.values()))

    monkeypatch.setattr(routing.PartitionWriter, "_make_room", make_room)
    monkeypatch.setitem(routing.PartitionWriter.__init__.__kwdefaults__, "buffer_bytes", 4000)
    batches = []
    for number in range(40):
        many = [("hot", number * 100 + k) for k in range(60)]
        few = [(f"cold{number * 7 % 13}", number), (f"only{number}", number), (None, number)]
        batches += rows(*many, *few).to_batches()
    namespace.append(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert len(waiting) >= 5
    assert max(waiting) <= 4000
    table = pa.concat_tables([rows(("a", 1), ("b", 2), (None, 3)), pa.Table.from_batches(batches)])
    assert found(namespace) == in_order(table)
    assert namespace.count_rows("p IS NULL") == 41
    assert namespace.partitions().num_rows == 3 + 1 + 13 + 40


def test_files_are_made_durable_together(tmp_path, monkeypatch):
    for limit in (1000, 4):
        monkeypatch.setattr("lance_df.storage.unsynced._MANY", limit)
        unsynced, folder = Unsynced(), open_location(tmp_path / str(limit))
        synced = []
        monkeypatch.setattr("os.fsync", lambda descriptor, synced=synced: synced.append(descriptor))
        for number in range(6):
            assert unsynced.create(folder / f"{number}/file", b"data")
            assert not unsynced.create(folder / f"{number}/file", b"other")
        unsynced.sync()
        # files, their folders and those above; or the file system and what came after that was put off
        assert len(synced) == (6 + 6 + 2 if limit == 1000 else 4 + 1)
        unsynced.sync()
        assert len(synced) == (14 if limit == 1000 else 5)
        assert (tmp_path / str(limit) / "5/file").read_bytes() == b"data"


def test_trap_61_both_sides_of_a_join_are_one_version(namespace, monkeypatch):
    plans, original = [], NamespaceSnapshot.plan

    def plan_scan(self, request):
        plan = original(self, request)
        plans.append(self.version)
        if len(plans) == 1:
            reopened(namespace).append(rows(("a", 1), ("c", 4)))
        return plan

    context = lance_df.SessionContext()
    lance_df.register(context, "t", namespace.uri)
    monkeypatch.setattr(NamespaceSnapshot, "plan", plan_scan)
    joined = context.sql("SELECT l.p, r.k FROM t l JOIN t r ON l.k = r.k ORDER BY 2").to_arrow_table()
    assert joined["k"].to_pylist() == [1, 2, 3]
    assert set(plans) == {2}
    assert context.sql("SELECT k FROM t").to_arrow_table().num_rows == 5


def publish_otherwise(namespace, where, **values):
    manifest = lance_df.dataset(Path(namespace.uri) / "__manifest")
    manifest.update(values, where=f"object_type = 'table' AND {where}")
    namespace.checkout_latest()


def test_trap_68_a_tag_that_moves_during_a_query(namespace, monkeypatch):
    namespace.append(rows(("a", 4), ("b", 5), (None, 6)))
    members = [
        lance_df.dataset(Path(namespace.uri) / name)
        for name in namespace.partitions()["location"].to_pylist()
    ]
    for member in members:
        member.tags.create("golden", 1)
    publish_otherwise(namespace, "true", read_version="NULL", read_tag="'golden'")
    assert namespace.count_rows() == 3
    plans, original = [], NamespaceSnapshot.plan

    def plan_scan(self, request):
        nonlocal plans
        plan = original(self, request)
        plans += [plan] if plan.tasks else []
        if len(plans) == 1:
            for member in members:
                member.tags.update("golden", 2)
        return plan

    context = lance_df.SessionContext()
    lance_df.register(context, "t", namespace.uri)
    monkeypatch.setattr(NamespaceSnapshot, "plan", plan_scan)
    query = "SELECT l.k FROM t l JOIN t r ON l.k = r.k"
    assert context.sql(query).to_arrow_table().num_rows == 3
    assert context.sql(query).to_arrow_table().num_rows == 6
    namespace.checkout_latest()
    assert namespace.count_rows() == 6


def test_a_change_of_members_that_are_read_at_a_tag_pins_them(namespace):
    for location in namespace.partitions()["location"].to_pylist():
        lance_df.dataset(Path(namespace.uri) / location).tags.create("golden", 1)
    publish_otherwise(namespace, "true", read_version="NULL", read_tag="'golden'")
    namespace.append(rows(("a", 4)))
    read = {row["p"]: (row["read_version"], row["read_tag"]) for row in namespace.partitions().to_pylist()}
    assert read == {"a": (2, None), "b": (None, "golden"), None: (None, "golden")}
    assert found(namespace) == [(None, 3), ("a", 1), ("a", 4), ("b", 2)]


def test_members_that_are_read_from_a_branch_are_not_written(namespace):
    location = namespace.partitions().to_pylist()[0]["location"]
    member = lance_df.dataset(Path(namespace.uri) / location)
    branch = member.create_branch("dev")
    lance_df.write_dataset(rows(("a", 77)), branch, mode="append")
    version = member.checkout_version(("dev", None)).version
    publish_otherwise(
        namespace,
        f"location = '{location}'",
        read_version=f"CAST({version} AS BIGINT UNSIGNED)",
        read_branch="'dev'",
    )
    assert found(namespace, filter="p = 'a'") == [("a", 1), ("a", 77)]
    with pytest.raises(UnsupportedFeatureError, match="branch 'dev'"):
        namespace.append(rows(("a", 5)))
    namespace.append(rows(("b", 5)))
    assert namespace.count_rows() == 5


def test_small_members_are_read_as_fragments_of_one_table(tmp_path, limits):
    data = pa.table(
        {"p": np.repeat(np.arange(30), 4), "k": np.arange(120), "s": [f"s{k}" for k in range(120)]}
    )
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, ["p"])
    made.append(data)
    made.append(data.slice(0, 12))
    made.delete("k = 41")
    joined = {}
    for name in ("joined", "apart"):
        if name == "apart":
            limits.enter_context(NAMESPACE_LIMITS.replaced(min_joined_members=1000))
        fresh = reopened(made)
        plans = [
            len(list(fresh._table._tables_of(ScanRequest(), fresh._table.selected_members(ScanRequest()))))
        ]
        joined[name] = [
            fresh.to_table(filter=where, columns=columns).sort_by([("k", "ascending"), ("p", "ascending")])
            for where in (None, "k > 50", "p IN (1, 2, 3, 9, 10, 11, 12) AND s <> 's5'", "p < 12 OR k = 100")
            for columns in (None, ["k", "p"])
        ]
        joined[name].append(fresh.count_rows("s > 's5'"))
        joined[name].append(str(fresh.plan_scan(pc.field("p") < 20).report.partitions))
        # rows that changed are the last ones: that is the member of which a row is deleted
        assert plans == [2 if name == "joined" else 30]
    assert joined["joined"] == joined["apart"]
    assert joined["joined"][0].num_rows == 131


def test_rows_are_counted_by_manifests_alone(tmp_path, monkeypatch):
    data = pa.table({"p": np.arange(60) % 20, "k": np.arange(60)})
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, ["p"])
    made.append(data)
    made.delete("k < 5")
    made.append(data.slice(0, 3))
    opened = []
    monkeypatch.setattr(NamespaceSnapshot, "_opened", lambda self, member: opened.append(member))
    fresh = reopened(made)
    assert fresh.count_rows() == 58
    assert not opened
    # another version counts what is new in it alone
    monkeypatch.undo()
    made.append(data.slice(0, 1))
    fresh.checkout_latest()
    read = []
    sources = row_counts.manifest_sources
    monkeypatch.setattr(
        row_counts, "manifest_sources", lambda members: read.extend(members) or sources(members)
    )
    assert fresh.count_rows() == 59
    assert len(read) == 1


def test_members_with_other_manifests_are_counted(tmp_path):
    """Files of several versions, deleted rows, flags, settings and columns of their own."""
    schema = pa.schema({"p": pa.int64(), "k": pa.int64()})
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", schema, ["p"])
    made.append(pa.table({"p": np.arange(60) % 12, "k": np.arange(60)}, schema=schema))
    rows = made.partitions().to_pylist()
    for version, row in zip(("0.1", "2.0", "2.1", "2.2"), rows, strict=False):
        path = tmp_path / "n" / row["location"]
        content = lance.dataset(path).to_table()
        lance.write_dataset(content, path, mode="overwrite", data_storage_version=version)
    for row in rows[4:6]:
        lance.dataset(tmp_path / "n" / row["location"]).update_config({"kind": "warm"})
    lance_df.PartitionedNamespace.repair(tmp_path / "n", publish_newer=True)
    made.checkout_latest()
    made.delete("k < 9")
    made.append(pa.table({"p": np.arange(1, 7), "k": np.arange(6)}, schema=schema))
    fresh = reopened(made)
    assert fresh.count_rows() == fresh.to_table().num_rows == 57


def test_small_and_large_partitions_are_the_same_files(tmp_path, monkeypatch):
    """Nested columns, nulls, and texts, written whole or page by page, and read by pylance."""
    count = 500
    data = pa.table(
        {
            "p": pa.array([None if k % 9 == 0 else f"é{k % 3}" for k in range(count)]),
            "k": np.arange(count),
            "st": pa.array([None if k % 5 == 0 else {"a": k, "b": [str(k)] * (k % 4)} for k in range(count)]),
            "none": pa.nulls(count, pa.int32()),
            "d": pa.array([f"x{k % 2}" for k in range(count)]).dictionary_encode(),
        }
    )
    contents = []
    for most in (partition_files.SMALL_BYTES, 0):
        monkeypatch.setattr(partition_files, "SMALL_BYTES", most)
        root = tmp_path / str(most)
        made = lance_df.PartitionedNamespace.create(root, data.schema, ["p"])
        made.append(data.slice(0, 300))
        made.append(data.slice(300))
        files = []
        for row in sorted(made.partitions().to_pylist(), key=lambda row: str(row["p"])):
            member = lance.dataset(root / row["location"], version=row["read_version"])
            member.validate()
            for fragment in member.get_fragments():
                (file,) = fragment.metadata.files
                path = root / row["location"] / "data" / file.path
                files.append((file.fields, file.column_indices, file.file_size_bytes, path.read_bytes()))
        assert made.to_table().sort_by("k").equals(data.combine_chunks())
        contents.append(files)
    assert contents[0] == contents[1]
    assert len(contents[0]) == 8


def test_small_scans_are_planned_once(tmp_path, monkeypatch):
    rows = pa.table({"k": [0, 0, 1, 2], "x": [1, 2, 3, None]})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n.lance", rows.schema, ["k"])
    namespace.append(rows)
    ctx = lance_df.connect(tmp_path)
    planned = []
    original = NamespaceSnapshot._planned
    monkeypatch.setattr(
        NamespaceSnapshot,
        "_planned",
        lambda self, request: (planned.append(request), original(self, request))[1],
    )

    def found(condition):
        planned.clear()
        return sorted(
            map(str, ctx.sql(f"SELECT x FROM n WHERE {condition}").to_arrow_table()["x"].to_pylist())
        )

    assert [found("k = 0"), bool(planned)] == [["1", "2"], True]
    assert [found("k = 0"), planned] == [["1", "2"], []]
    assert [found("k = 0 AND x > 1"), found("k = 0 AND x > 2")] == [["2"], []]
    namespace.append(pa.table({"k": [0], "x": [9]}))
    assert [found("k = 0"), bool(planned)] == [["1", "2", "9"], True]
    namespace.delete("x = 1")
    assert found("k = 0") == ["2", "9"]
