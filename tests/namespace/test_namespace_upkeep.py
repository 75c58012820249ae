"""Members are compacted together; clean-ups keep what versions of the namespace read."""

import datetime as dt
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from new_processes import answer_of

import lance_df
from lance_df.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_df.format.operations import UpdateConfig
from lance_df.namespace.changes import compaction
from lance_df.namespace.changes.draft import Draft
from lance_df.optimize import CompactionMetrics
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.options import CommitOptions
from lance_df.table.evolution.metadata import map_update

pytestmark = pytest.mark.engine

NOW = dt.timedelta(0)


SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("x", pa.float64())])


def rows(numbers):
    numbers = list(numbers)
    return pa.table({"id": numbers, "p": [i % 3 for i in numbers], "x": [i / 2 for i in numbers]}, SCHEMA)


def in_order(table):
    return sorted(table.to_pylist(), key=str)


def members(namespace):
    return [
        lance.dataset(Path(namespace.uri) / row["location"], version=row["read_version"])
        for row in namespace.partitions().to_pylist()
    ]


def files(namespace):
    return {path: path.stat().st_size for path in Path(namespace.uri).rglob("*") if path.is_file()}


@pytest.fixture
def namespace(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["p"])
    for start in (0, 9, 18):
        made.append(rows(range(start, start + 9)))
    return made


def test_compaction_keeps_rows_and_is_done_once(namespace):
    namespace.delete("p = 2 OR id = 0")
    namespace.drop_columns(["x"])
    before, version = in_order(namespace.to_table()), namespace.version
    metrics = namespace.compact()
    assert metrics == CompactionMetrics(
        fragments_removed=6, fragments_added=2, files_removed=7, files_added=2
    )
    assert namespace.version == version + 1
    assert sorted(len(member.get_fragments()) for member in members(namespace)) == [0, 1, 1]
    assert in_order(namespace.to_table()) == before == in_order(namespace.at(version).to_table())
    assert sum(member.count_rows() for member in members(namespace)) == len(before)
    for member in members(namespace):
        member.validate()
        assert all(fragment.num_deletions == 0 for fragment in member.get_fragments())
    assert namespace.compact() == CompactionMetrics()
    assert namespace.version == version + 1
    namespace.append(rows(range(30, 33)).drop_columns(["x"]))
    assert namespace.compact(target_rows_per_fragment=1) == CompactionMetrics()
    assert namespace.compact(num_threads=1).fragments_added == 2
    with pytest.raises(InvalidInputError, match="target_rows"):
        namespace.compact(target_rows_per_fragment=0)


def test_nothing_is_compacted_where_there_is_nothing(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["p"])
    assert made.compact() == CompactionMetrics()
    assert made.cleanup_old_versions(NOW).old_versions == 0


def test_unpublished_rows_are_not_compacted(namespace):
    """Members that another program wrote to are compacted as they were published."""
    location = namespace.partitions()["location"][0].as_py()
    lance.write_dataset(rows([100]), Path(namespace.uri) / location, mode="append")
    before = in_order(namespace.to_table())
    assert namespace.compact().fragments_removed == 9
    assert in_order(namespace.to_table()) == before
    assert sum(member.count_rows() for member in members(namespace)) == 27


def test_zone_maps_of_members_stay_right(namespace):
    for row in namespace.partitions().to_pylist():
        member = lance_df.dataset(Path(namespace.uri) / row["location"])
        member.create_scalar_index("id", "ZONEMAP")
    published = namespace._table.manifest
    moved = {row["object_id"]: row["read_version"] + 1 for row in namespace.partitions().to_pylist()}
    published.changed(published.table.arrow_schema.empty_table(), moved)
    namespace.checkout_latest()
    assert namespace.compact().fragments_added == 3
    assert in_order(namespace.to_table(filter="id = 13")) == in_order(rows([13]))
    for row in namespace.partitions().to_pylist():
        member = lance_df.dataset(Path(namespace.uri) / row["location"], row["read_version"])
        assert member.index_statistics("id_idx")["num_unindexed_rows"] == 0


def test_a_partition_that_changes_meanwhile_is_compacted_again(namespace, monkeypatch):
    """Others append to a partition and delete from another, after rewriting and before publishing."""
    others = [
        lambda mine: mine.append(rows([300, 303])),
        lambda mine: mine.delete("id = 4"),
        lambda mine: mine.append(rows([500])),
    ]
    rewritten = []
    original = compaction.commits_to_member

    def late(location, published, commit):
        rewritten.append(location.name)
        if others:
            others.pop()(lance_df.PartitionedNamespace.open(namespace.uri))
        return original(location, published, commit)

    monkeypatch.setattr(compaction, "_MEMBERS_AT_ONCE", 1)
    monkeypatch.setattr(compaction, "commits_to_member", late)
    namespace.compact()
    expected = [row for row in rows([*range(27), 300, 303, 500]).to_pylist() if row["id"] != 4]
    assert in_order(namespace.to_table()) == sorted(expected, key=str)
    assert [len(member.get_fragments()) for member in members(namespace)] == [1, 1, 1]
    assert len(rewritten) <= 6
    assert namespace.compact() == CompactionMetrics()


def test_compactions_and_writes_at_once(namespace):
    failures = []

    def run(work):
        try:
            work(lance_df.PartitionedNamespace.open(namespace.uri))
        except BaseException as err:  # noqa: BLE001 - looked at below
            failures.append(err)

    jobs = [
        lambda mine: mine.compact(),
        lambda mine: mine.append(rows(range(100, 106))),
        lambda mine: mine.compact(),
        lambda mine: mine.delete("id < 5"),
    ]
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    namespace.checkout_latest()
    assert in_order(namespace.to_table()) == in_order(rows([*range(5, 27), *range(100, 106)]))
    assert sum(member.count_rows() for member in members(namespace)) == 28


def test_t67_clean_up_keeps_what_versions_of_the_namespace_read(namespace):
    """A version with a tag keeps what it reads of all members, however old."""
    states = {}
    for change in (
        lambda: namespace.delete("p = 1"),
        lambda: namespace.append(rows([200, 202])),
        lambda: namespace.compact(),
        lambda: namespace.drop_columns(["x"]),
    ):
        states[namespace.version] = in_order(namespace.to_table())
        change()
    states[namespace.version] = in_order(namespace.to_table())
    kept = sorted(states)[1]
    manifest = lance_df.dataset(Path(namespace.uri) / "__manifest")
    manifest.tags.create("keep", kept)
    with pytest.raises(InvalidInputError, match="keep"):
        namespace.cleanup_old_versions(NOW)
    before = files(namespace)
    planned = namespace.cleanup_old_versions(NOW, error_if_tagged_old_versions=False, dry_run=True)
    assert files(namespace) == before
    done = namespace.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    after = files(namespace)
    assert planned == done
    assert done.bytes_removed == sum(before.values()) - sum(after.values())
    assert done.old_versions > len(states) - 2
    assert after.keys() < before.keys()
    for version, expected in states.items():
        if version in (kept, namespace.version):
            assert in_order(namespace.at(version).to_table()) == expected
        else:
            with pytest.raises(NotFoundError):
                namespace.at(version)
    assert in_order(lance_df.PartitionedNamespace.open(namespace.uri).to_table()) == states[namespace.version]
    for member in members(namespace):
        member.validate()
    again = namespace.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert again.old_versions == again.bytes_removed == 0
    manifest.tags.delete("keep")
    assert namespace.cleanup_old_versions(NOW).data_files_removed > 0
    assert in_order(namespace.to_table()) == states[namespace.version]
    assert namespace.append(rows([300]).drop_columns(["x"])) is None


def test_clean_up_spares_what_is_new_or_asked_to_stay(namespace):
    old = lance_df.PartitionedNamespace.open(namespace.uri)
    expected = in_order(old.to_table())
    namespace.delete("id < 20")
    namespace.compact()
    assert namespace.cleanup_old_versions().old_versions == 0
    assert old.cleanup_old_versions(NOW).old_versions > 0
    assert in_order(old.to_table()) == expected
    assert in_order(lance_df.PartitionedNamespace.open(namespace.uri, old.version).to_table()) == expected
    assert namespace.cleanup_old_versions(retain_versions=2).old_versions > 0
    assert in_order(namespace.at(namespace.version - 1).to_table()) == in_order(rows(range(20, 27)))
    with pytest.raises(InvalidInputError, match="older_than"):
        namespace.cleanup_old_versions(5)


def test_clean_up_while_others_are_about_to_publish(namespace):
    """What a transaction has made, and has not published, stays."""
    other = lance_df.PartitionedNamespace.open(namespace.uri)
    with other.transaction() as tx:
        tx.append(rows([100, 101, 102]))
        tx.delete("id = 1")
        namespace.cleanup_old_versions(NOW)
    expected = in_order(rows([number for number in (*range(27), 100, 101, 102) if number != 1]))
    assert in_order(other.to_table()) == expected
    for member in members(other):
        member.validate()


def test_clean_up_keeps_files_of_versions_that_others_have_undone(namespace, monkeypatch):
    """A writer that others overtake publishes the files of its version in another version."""
    others = """
import lance_df, pyarrow as pa
namespace = lance_df.PartitionedNamespace.open(root)
namespace.append(pa.table({"id": [200, 201, 202], "p": [2, 0, 1], "x": [None, None, 0.5]}))
stats = namespace.cleanup_old_versions(retain_versions=2)
assert stats.old_versions > 0, stats
"""
    ways = [Draft.publish]

    def late(draft, **options):
        if len(ways) == 1:
            ways.append("overtaken")
            answer_of(others, root=namespace.uri)
        return ways[0](draft, **options)

    monkeypatch.setattr(Draft, "publish", late)
    namespace.append(rows([100, 101, 102]))
    assert ways[1:] == ["overtaken"]
    assert {row["id"] for row in in_order(namespace.to_table())} == {
        *range(27),
        *range(100, 103),
        *range(200, 203),
    }
    assert not namespace.verify(deep=True).problems
    for member in members(namespace):
        member.validate()
    # once nobody can publish them any more, they go
    assert namespace.cleanup_old_versions(NOW, delete_unverified=True).old_versions > 0
    assert namespace.count_rows() == 33


@pytest.mark.parametrize("change", ["append", "delete"])
def test_a_writer_whose_version_is_cleaned_up_starts_again(namespace, monkeypatch, change):
    others = """
import datetime as dt, lance_df, pyarrow as pa
namespace = lance_df.PartitionedNamespace.open(root)
for number in (30, 33, 36):
    namespace.append(pa.table({"id": [number], "p": [0], "x": [0.5]}))
namespace.cleanup_old_versions(dt.timedelta(0))
"""
    name = "members_for" if change == "append" else "_published"
    ways = [getattr(Draft, name)]

    def late(*arguments):
        if len(ways) == 1:
            ways.append("overtaken")
            answer_of(others, root=namespace.uri)
        return ways[0](*arguments)

    monkeypatch.setattr(Draft, name, late)
    if change == "append":
        namespace.append(rows([99]))
    else:
        namespace.delete("id = 0")
    expected = {*range(27), 30, 33, 36} | {99} if change == "append" else {*range(1, 27), 30, 33, 36}
    assert {row["id"] for row in in_order(namespace.to_table())} == expected


def test_clean_up_removes_what_dead_changes_of_columns_have_left(namespace):
    table = namespace._table.manifest.table
    folder = Path(namespace.uri) / "__manifest" / "_versions"
    update = UpdateConfig(table_metadata=map_update({"a": "b"}))
    commit_change(table, update, rows=None, options=CommitOptions(detached=True))
    (left,) = folder.glob("d*")
    namespace.cleanup_old_versions(NOW)
    assert left.exists()
    week = 8 * 24 * 3600
    os.utime(left, (left.stat().st_mtime - week,) * 2)
    namespace.cleanup_old_versions(NOW)
    assert not left.exists()
    assert namespace.count_rows() == 27


CLEAN_UP = """
import datetime as dt
import sys
import lance_df
from lance_df.table.maintenance import removal
from tools.histories.prelude import killed_at
root, number = sys.argv[1], int(sys.argv[2])
removal._REQUESTS_AT_ONCE = 1  # all changes but the last one are done when the process is killed
killed_at(root, number, "__manifest/(data|_deletions)/")
lance_df.PartitionedNamespace.open(root).cleanup_old_versions(dt.timedelta(0))
"""


@pytest.mark.parametrize("changes", [3, 5, 8])
def test_clean_ups_pass_over_versions_that_one_that_was_killed_removed_half(namespace, changes):
    for number in range(4):
        namespace.delete(f"id = {number * 5}")
    namespace.compact()
    expected = in_order(namespace.to_table())
    root, here = Path(namespace.uri), Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(here)}
    killed = subprocess.run(
        [sys.executable, "-c", CLEAN_UP, root, str(changes)], env=environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    older = [number for number in range(1, namespace.version) if (root / manifest_of(number)).exists()]
    unreadable = [number for number in older if not is_readable(root, number)]
    assert unreadable
    opened = lance_df.PartitionedNamespace.open(root)
    planned = opened.cleanup_old_versions(retain_versions=99, dry_run=True)
    assert opened.cleanup_old_versions(retain_versions=99) == planned
    orphan = root / "0123abcd_v1$unpublished$dataset"
    orphan.mkdir()
    (orphan / "left").write_bytes(b"1")
    lance_df.PartitionedNamespace.repair(root, remove_orphans=True, older_than=NOW)
    assert not orphan.exists()
    assert [number for number in older if is_readable(root, number)] == sorted({*older} - {*unreadable})
    opened.delete("id = 7")
    opened.cleanup_old_versions(retain_versions=3)
    opened.cleanup_old_versions(NOW)
    assert in_order(opened.to_table()) == [row for row in expected if row["id"] != 7]
    assert not any((root / manifest_of(number)).exists() for number in older)
    for member in members(opened):
        member.validate()


def manifest_of(version):
    return f"__manifest/_versions/{2**64 - 1 - version}.manifest"


def is_readable(root, version):
    try:
        lance.dataset(root / "__manifest", version=version).to_table()
    except (OSError, ValueError):
        return False
    return True


@pytest.mark.parametrize("damage", ["newest", "tag", "cut"])
def test_clean_ups_stop_at_versions_that_are_damaged(namespace, damage):
    """No clean-up removes files of the newest version, or of one with a tag, and none cuts a file."""
    namespace.delete("id < 5")
    namespace.compact()
    root = Path(namespace.uri)
    files = {
        version: {
            each.path
            for fragment in lance.dataset(root / "__manifest", version=version).get_fragments()
            for each in fragment.data_files()
            if len(fragment.data_files()) == 1
        }
        for version in range(3, namespace.version + 1)
    }
    newest = files.pop(namespace.version)
    version, name = next((v, name) for v, names in files.items() for name in names if name not in newest)
    if damage == "newest":
        name = min(newest)
    elif damage == "tag":
        lance.dataset(root / "__manifest").tags.create("kept", version)
    path = root / "__manifest" / "data" / name
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    else:
        path.unlink()
    orphan = root / "0123abcd_v1$unpublished$dataset"
    orphan.mkdir()
    (orphan / "left").write_bytes(b"1")
    before = sorted(path for path in root.rglob("*") if path.is_file())
    for change in (
        "open(root).cleanup_old_versions(retain_versions=99)",
        "repair(root, remove_orphans=True, older_than=dt.timedelta(0))",
    ):
        # this process may have rows of the file in memory
        program = f"import datetime as dt, lance_df; lance_df.PartitionedNamespace.{change}"
        with pytest.raises(CorruptDataError, match=name):
            answer_of(program, root=str(root))
    assert sorted(path for path in root.rglob("*") if path.is_file()) == before
