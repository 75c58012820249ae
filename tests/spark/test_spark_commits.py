"""What the driver makes of the messages of tasks: writers are called as Spark calls them, without Spark."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import datafusion
import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import lance_df
from lance_df.errors import CommitStateUnknownError, InvalidInputError, RetryableConflictError
from lance_df.namespace.changes import staged as staged_module
from lance_df.spark import writing
from lance_df.spark.options import SourceOptions
from lance_df.spark.streaming import LanceStreamWriter, query_id
from lance_df.spark.writing import writer_for
from lance_df.storage import open_location
from lance_df.table.commit import committer as committer_module
from lance_df.table.maintenance.zone_map_coverage import lacks_zone_maps

COLUMNS = StructType([StructField("k", LongType()), StructField("s", StringType())])
ROWS = pa.table({"k": pa.array(range(100), pa.int64()), "s": [f"s{i % 3}" for i in range(100)]})


@pytest.fixture(params=["table", "namespace"])
def target(request, tmp_path):
    """The path of a table or a namespace with a hundred rows."""
    if request.param == "table":
        lance_df.write_dataset(ROWS, tmp_path / "target")
    else:
        lance_df.PartitionedNamespace.create(tmp_path / "target", ROWS.schema, ["identity(s)"]).append(ROWS)
    return str(tmp_path / "target")


def is_namespace(target):
    return (Path(target) / "__manifest").exists()


def opened(target):
    return lance_df.PartitionedNamespace.open(target) if is_namespace(target) else lance_df.dataset(target)


def files(target):
    return sorted(str(path) for path in Path(target).rglob("*.lance") if "__manifest" not in str(path))


def job(target, **options):
    """Return a writer, as it reaches tasks."""
    writer = writer_for(SourceOptions.parse({"path": target, **options}), COLUMNS, overwrite=False)
    return pickle.loads(pickle.dumps(writer))


def task(writer, first=100, count=50):
    """Run a task and return its message, as it reaches the driver."""
    rows = pa.table(
        {"k": pa.array(range(first, first + count), pa.int64()), "s": [f"s{i % 5}" for i in range(count)]}
    )
    return pickle.loads(pickle.dumps(writer.write(iter(rows.to_batches(max_chunksize=20)))))


def test_tasks_show_nothing_before_the_commit_and_all_of_it_after(target):
    before = opened(target).version
    writer = job(target)
    messages = [task(writer), task(writer, 150), task(writer, 200, 0), None]
    assert (opened(target).version, opened(target).count_rows()) == (before, 100)
    writer.commit(messages)
    assert (opened(target).version, opened(target).count_rows()) == (before + 1, 200)


LARGE = 9000  # rows of a task: those of each partition are more than one zone


def large_tasks(target, firsts=(100, 100_000), **options):
    writer = job(target, statistics="true", **options)
    rows = [
        pa.table({"k": pa.array(range(first, first + 3 * LARGE), pa.int64()), "s": ["s0", "s1", "ü"] * LARGE})
        for first in firsts
    ]
    return writer, [pickle.loads(pickle.dumps(writer.write(iter(each.to_batches())))) for each in rows]


def covered(target):
    """Return which rows statistics are known of, of each table."""
    folders = [target]
    if is_namespace(target):
        folders = [path for path in Path(target).iterdir() if path.name != "__manifest"]
    found = []
    for table in map(lance_df.dataset, folders):
        rows = {each.fragment_id: each.count_rows() for each in table.get_fragments()}
        ids = {each["name"]: each["fragment_ids"] for each in table.list_indices()}
        found.append({name: sum(rows[each] for each in set_) for name, set_ in ids.items()})
    return sorted(found, key=str)


def test_statistics_are_collected_by_the_tasks_and_come_with_the_rows(target):
    before = opened(target).version
    writer, messages = large_tasks(target, maxRowsPerFile="5000")
    writer.commit(messages)
    found = opened(target)
    assert found.count_rows() == 100 + 6 * LARGE
    if is_namespace(target):
        # the column that is the same in all rows of a partition needs none
        assert found.version == before + 1
        assert covered(target) == [*[{"k_zonemap": 2 * LARGE}] * 3, {}]
    else:
        assert found.version == before + 2
        assert covered(target) == [{"k_zonemap": 6 * LARGE, "s_zonemap": 6 * LARGE}]
    wanted = found.to_table(filter="k >= 100000 AND k < 100100 OR k = 5").num_rows
    assert wanted == 101
    assert lance_df.verify(target).ok if is_namespace(target) else True


ODD = StructType(
    [StructField("p", StringType()), StructField("f", DoubleType()), StructField("s", StringType())]
)
FILTERS = [
    *("f = 0 AND s = 'ü5'", "f > 2.5", "f < -2.5", "f IS NULL AND s = 'ü7'", "s >= 'ü8' AND f > 2"),
    *("s IS NULL AND f < 0", "p IS NULL AND f > 2", "p = '$ ü' AND f < -2", "p = '' AND s = 'ü1'"),
]


@pytest.mark.parametrize("partition_by", [None, ["identity(p)"]])
def test_statistics_of_odd_values_leave_no_row_out(tmp_path, partition_by):
    rng = np.random.default_rng(7)
    schema = pa.schema([("p", pa.string()), ("f", pa.float64()), ("s", pa.string())])
    root = str(tmp_path / "odd")
    if partition_by is not None:
        lance_df.PartitionedNamespace.create(root, schema, partition_by)
    options = SourceOptions.parse({"path": root, "statistics": "true", "maxRowsPerFile": "20000"})
    writer = writer_for(options, ODD, overwrite=False)
    parts = []
    for count in (26_000, 10, 26_000):
        floats = np.where(rng.random(count) < 0.2, -0.0, rng.standard_normal(count))
        floats[::97] = np.nan
        texts = np.array([None, "", "$ ü"])[rng.integers(0, 3, count)]
        parts.append(
            pa.table(
                [
                    pa.array(texts),
                    pa.array(floats, mask=np.arange(count) < count // 2 if parts else None),
                    pa.array([None if n < 2 else f"ü{n // 50}" for n in rng.integers(0, 500, count)]),
                ],
                schema=schema,
            )
        )
    writer.commit([pickle.loads(pickle.dumps(writer.write(iter(part.to_batches())))) for part in parts])
    context = datafusion.SessionContext()
    context.from_arrow(pa.concat_tables(parts), name="t")
    found = opened(root)
    for text in FILTERS:
        wanted = context.sql(f"SELECT * FROM t WHERE {text}").to_arrow_table()
        rows = found.to_table(filter=text).select(schema.names)
        keys = [sorted(map(repr, each.to_pylist())) for each in (rows, wanted.cast(schema))]
        assert keys[0] == keys[1], text


def test_a_driver_that_dies_before_the_statistics_leaves_the_rows(target, monkeypatch):
    class Killed(BaseException):
        pass

    def die(*args, **kwargs):
        raise Killed

    writer, messages = large_tasks(target, runId="r1")
    name = "publish_staged_partitions" if is_namespace(target) else "with_zone_maps"
    with monkeypatch.context() as patched:
        patched.setattr(writing, name, die)
        with pytest.raises(Killed):
            writer.commit(messages)
    writer.abort(messages)  # of a driver that has lost a process, and lives
    assert opened(target).to_table().num_rows == (100 if is_namespace(target) else 100 + 6 * LARGE)
    writer, messages = large_tasks(target, runId="r1")
    writer.commit(messages)
    assert opened(target).to_table().num_rows == 100 + 6 * LARGE
    table = None if is_namespace(target) else lance_df.dataset(target)
    assert table is None or lacks_zone_maps(table._table)


def test_abort_removes_what_tasks_wrote(target):
    before = files(target), sorted(Path(target).iterdir())
    writer = job(target)
    messages = [task(writer), None, task(writer, 150)]
    pickle.loads(pickle.dumps(writer)).abort(messages)
    assert (files(target), sorted(Path(target).iterdir())) == before


def test_attempts_that_nobody_reports_are_not_seen_and_can_be_cleaned_up(target):
    writer = job(target)
    task(writer)  # a task, or a driver, that died after it wrote its rows
    message = task(writer)
    writer.commit([message])
    assert opened(target).count_rows() == 150
    num_files = len(files(target))
    opened(target).cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert len(files(target)) < num_files
    assert opened(target).to_table().num_rows == 150


def test_attempts_of_one_task_count_once_whenever_they_end(target):
    """As with speculative execution: Spark commits the first one, and others may go on for longer."""
    writer = job(target)
    first, _second = task(writer), task(writer)
    writer.commit([first])
    task(writer)
    assert sorted(opened(target).to_table()["k"].to_pylist()) == list(range(150))
    num_files = len(files(target))
    opened(target).cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert len(files(target)) < num_files
    assert sorted(opened(target).to_table()["k"].to_pylist()) == list(range(150))
    if is_namespace(target):
        lance_df.PartitionedNamespace.repair(target)
        assert lance_df.verify(target).ok


def test_a_task_that_is_stopped_half_way_leaves_nothing_that_is_seen(target):
    class Cancelled(BaseException):
        pass

    def rows():
        yield from ROWS.to_batches(max_chunksize=20)
        raise Cancelled

    before = files(target)
    writer = job(target, maxRowsPerFile="20")
    done = task(writer)
    with pytest.raises(Cancelled):
        writer.write(rows())
    pickle.loads(pickle.dumps(writer)).abort([done, None])
    assert opened(target).to_table().num_rows == 100
    opened(target).cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert files(target) == before


def test_files_stay_when_it_is_not_known_whether_they_are_needed(target, monkeypatch):
    writer = job(target)
    messages = [task(writer)]
    name = "publish_staged_partitions" if is_namespace(target) else "publish_staged"
    publish = getattr(writing, name)

    def lose_reply(*args, **kwargs):
        publish(*args, **kwargs)
        raise CommitStateUnknownError("the reply was lost")

    monkeypatch.setattr(writing, name, lose_reply)
    with pytest.raises(CommitStateUnknownError):
        writer.commit(messages)
    pickle.loads(pickle.dumps(writer)).abort(messages)
    assert opened(target).to_table().num_rows == 150


def test_files_stay_when_the_process_dies_before_spark_learns_of_its_commit(target):
    writer = job(target)
    messages = [task(writer)]
    writer.commit(messages)
    pickle.loads(pickle.dumps(writer)).abort(messages)
    stream(target).commit(batch := [task(stream(target), first=150)], 0)
    stream(target).abort(batch, 0)
    assert opened(target).to_table().num_rows == 200


def test_files_stay_when_the_process_dies_while_it_commits(target, monkeypatch):
    writer = job(target)
    messages = [task(writer)]

    class Killed(BaseException):
        pass

    def die(*args, **kwargs):
        raise Killed

    name = "publish_staged_partitions" if is_namespace(target) else "publish_staged"
    monkeypatch.setattr(writing, name, die)
    before = files(target)
    with pytest.raises(Killed):
        writer.commit(messages)
    pickle.loads(pickle.dumps(writer)).abort(messages)
    assert files(target) == before


def claims(target):
    return sorted(str(path) for path in Path(target).rglob("*.claim"))


PROCESS = """
import os, pickle, sys
from pathlib import Path
from lance_df.spark import writing

folder, step, dies = sys.argv[1:]
writer, messages = pickle.loads(Path(folder, "write").read_bytes())

def die(function, after):
    def call(*args, **kwargs):
        if after:
            function(*args, **kwargs)
        os._exit(9)
    return call

for name in ("publish_staged", "publish_staged_partitions"):
    if dies != "never":
        setattr(writing, name, die(getattr(writing, name), dies == "after"))
getattr(writer, step)(messages)
"""


@pytest.mark.parametrize("dies", ["before", "after", "never"])
def test_a_commit_and_an_abort_are_of_other_processes(target, tmp_path, dies):
    writer = job(target)
    messages = [task(writer), None]
    (tmp_path / "write").write_bytes(pickle.dumps((writer, messages)))
    before = files(target)

    def process(step, dies):
        arguments = [sys.executable, "-W", "ignore", "-c", PROCESS, str(tmp_path), step, dies]
        environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
        return subprocess.run(arguments, check=False, capture_output=True, env=environment).returncode

    (tmp_path / "temporary").mkdir()
    assert process("commit", dies) == (0 if dies == "never" else 9)
    assert process("abort", "never") == 0
    assert list((tmp_path / "temporary").iterdir()) == []
    assert files(target) == before
    assert opened(target).to_table().num_rows == (100 if dies == "before" else 150)
    assert len(claims(target)) == (0 if dies == "never" else 1)
    if is_namespace(target) and dies != "before":
        assert lance_df.verify(target).ok
    opened(target).cleanup_old_versions(dt.timedelta(0))
    assert len(claims(target)) == (0 if dies == "never" else 1)
    opened(target).cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert claims(target) == []
    if is_namespace(target):
        lance_df.PartitionedNamespace.repair(target, remove_orphans=True, older_than=dt.timedelta(0))
    num_staged = len({file.path for file in writer._files(message.staged for message in messages[:1])})
    assert len(files(target)) == len(before) - (num_staged if dies == "before" else 0)
    assert opened(target).to_table().num_rows == (100 if dies == "before" else 150)


def test_a_commit_after_an_abort_shows_nothing(target):
    before = files(target), opened(target).version
    writer = job(target)
    messages = [task(writer), task(writer, 150)]
    writer.abort(messages)
    with pytest.raises(RetryableConflictError, match="removed before the write was committed"):
        pickle.loads(pickle.dumps(writer)).commit(messages)
    assert (files(target), opened(target).version, claims(target)) == (*before, [])


def test_rows_of_a_table_that_was_dropped_meanwhile_are_not_committed(tmp_path):
    target = str(tmp_path / "target")
    lance_df.write_dataset(ROWS, target)
    writer = job(target)
    messages = [task(writer)]
    shutil.rmtree(target)
    lance_df.write_dataset(ROWS, target)
    with pytest.raises(RetryableConflictError, match="removed before the write was committed"):
        writer.commit(messages)
    assert lance_df.dataset(target).to_table().num_rows == 100


def test_an_abort_while_a_commit_is_under_way_removes_nothing(target, monkeypatch):
    writer = job(target)
    messages = [task(writer), task(writer, 150)]
    name = "publish_staged_partitions" if is_namespace(target) else "publish_staged"
    publish = getattr(writing, name)

    def aborted_meanwhile(*args, **kwargs):
        pickle.loads(pickle.dumps(writer)).abort(messages)
        return publish(*args, **kwargs)

    monkeypatch.setattr(writing, name, aborted_meanwhile)
    writer.commit(messages)
    writer.abort(messages)
    assert (opened(target).to_table().num_rows, claims(target)) == (200, [])


def test_files_stay_as_long_as_a_version_has_them(target):
    """Rows that were compacted, or deleted again, are those of the version that has the files."""
    writer = job(target)
    messages = [task(writer)]
    writer.commit(messages)
    version = opened(target).version
    opened(target).delete("k >= 100")
    newest = opened(target)
    if is_namespace(target):
        newest.append(ROWS)
    else:
        newest.insert(ROWS, mode="overwrite")
    writer.abort(messages)
    reopen = lance_df.PartitionedNamespace.open if is_namespace(target) else lance_df.dataset
    old = reopen(target, version=version)
    assert old.to_table().num_rows == 150


def test_a_write_that_is_done_already_removes_nothing_that_is_visible(target):
    """Spark does not commit the same write twice; if it did, its files stay."""
    writer = job(target, runId="monday")
    messages = [task(writer)]
    for _ in range(2):
        writer.commit(messages)
    assert (opened(target).to_table().num_rows, claims(target)) == (150, [])


def test_an_aborted_write_of_a_new_table_leaves_no_folder(tmp_path):
    writer = job(str(tmp_path / "new"))
    messages = [task(writer)]
    writer.abort(messages)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RetryableConflictError):
        writer.commit(messages)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["table", "namespace"])
@pytest.mark.parametrize("store", ["memory", "s3"])
def test_commits_and_aborts_in_object_stores(store, kind, request):
    options = {} if store == "memory" else request.getfixturevalue("s3_options")
    root = f"memory://{uuid.uuid4().hex}" if store == "memory" else request.getfixturevalue("bucket") + "/t"
    location = open_location(root, options)
    if kind == "table":
        lance_df.write_dataset(ROWS, root, storage_options=options)
    else:
        namespace = lance_df.PartitionedNamespace.create(
            root, ROWS.schema, ["identity(s)"], storage_options=options
        )
        namespace.append(ROWS)

    def stored():
        return sorted(path for path in location.fs.find(location.path) if path.endswith((".lance", ".claim")))

    def num_rows():
        newest = lance_df.dataset if kind == "table" else lance_df.PartitionedNamespace.open
        return newest(root, storage_options=options).to_table().num_rows

    def write():
        given = SourceOptions(path=root, storage=options)
        writer = writer_for(given, COLUMNS, overwrite=False)
        return writer, [task(writer), task(writer, 150)]

    before = stored()
    writer, messages = write()
    writer.abort(messages)
    with pytest.raises(RetryableConflictError):
        writer.commit(messages)
    assert (stored(), num_rows()) == (before, 100)
    writer, messages = write()
    writer.commit(messages)
    writer.abort(messages)
    assert num_rows() == 200
    assert not [path for path in stored() if path.endswith(".claim")]


def test_pylance_passes_over_claims(tmp_path, monkeypatch):
    target = str(tmp_path / "target")
    lance_df.write_dataset(ROWS, target)
    writer = job(target)
    messages = [task(writer)]
    with monkeypatch.context() as patched:
        patched.setattr(writing, "publish_staged", lambda *args, **kwargs: sys.exit())
        with pytest.raises(SystemExit):
            writer.commit(messages)
    [claim] = claims(target)
    theirs = lance.dataset(target)
    theirs.delete("k < 10")
    theirs.cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert claims(target) == [claim]
    assert lance_df.dataset(target).to_table().num_rows == lance.dataset(target).count_rows() == 90


def test_a_commit_that_fails_leaves_no_files(target, monkeypatch):
    before = files(target)
    writer = job(target)
    messages = [task(writer)]
    with monkeypatch.context() as patched:
        name = "publish_staged_partitions" if is_namespace(target) else "publish_staged"
        patched.setattr(writing, name, lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            writer.commit(messages)
    writer.abort(messages)
    assert files(target) == before


def test_two_jobs_at_once_both_land(target):
    first, second = job(target), job(target)
    messages = [task(first)], [task(second, 150)]
    second.commit(messages[1])
    first.commit(messages[0])
    assert sorted(opened(target).to_table()["k"].to_pylist()) == list(range(200))
    if is_namespace(target):
        assert lance_df.verify(target).ok


def test_a_schema_that_changed_meanwhile_is_a_conflict(target):
    writer = job(target)
    messages = [task(writer)]
    opened(target).drop_columns(["k"])
    with pytest.raises(RetryableConflictError, match="schema"):
        writer.commit(messages)
    writer.abort(messages)
    assert opened(target).count_rows() == 100


@pytest.mark.parametrize(
    "change", ["add", "drop", "cast", "rename", "create", "overwrite", "while published"]
)
def test_an_overwrite_with_the_same_columns_undoes_no_change_of_them(tmp_path, monkeypatch, change):
    target = str(tmp_path / "target")
    if change != "create":
        lance_df.write_dataset(ROWS, target)
    options = SourceOptions.parse({"path": target, "overwriteSchema": "false"})
    writer = pickle.loads(pickle.dumps(writer_for(options, COLUMNS, overwrite=True)))
    messages = [task(writer)]
    other = ROWS.append_column("v", pa.array(range(100)))
    changes = {
        "add": lambda: lance_df.dataset(target).add_columns({"v": "k + 1"}),
        "drop": lambda: lance_df.dataset(target).drop_columns(["s"]),
        "cast": lambda: lance_df.dataset(target).alter_columns({"path": "k", "data_type": pa.int32()}),
        "rename": lambda: lance_df.dataset(target).alter_columns({"path": "s", "name": "t"}),
        "create": lambda: lance_df.write_dataset(other, target),
        "overwrite": lambda: lance.write_dataset(other, target, mode="overwrite"),
    }
    if change == "while published":
        publish = committer_module.publish_manifest

        def publish_later(*arguments, **named):
            monkeypatch.setattr(committer_module, "publish_manifest", publish)
            changes["add"]()
            return publish(*arguments, **named)

        monkeypatch.setattr(committer_module, "publish_manifest", publish_later)
    else:
        changes[change]()
    with pytest.raises(RetryableConflictError, match="schema"):
        writer.commit(messages)
    writer.abort(messages)
    assert lance.dataset(target).count_rows() == 100
    assert not lance.dataset(target).schema.equals(ROWS.schema)


def test_an_overwrite_with_the_same_columns_follows_other_changes(tmp_path):
    target = str(tmp_path / "target")
    lance_df.write_dataset(ROWS, target)
    options = SourceOptions.parse({"path": target, "overwriteSchema": "false"})
    writer = pickle.loads(pickle.dumps(writer_for(options, COLUMNS, overwrite=True)))
    messages = [task(writer)]
    lance_df.write_dataset(ROWS, target, mode="append")
    lance_df.dataset(target).delete("k = 1")
    lance_df.dataset(target).create_scalar_index("k", "BTREE")
    writer.commit(messages)
    assert lance.dataset(target).to_table()["k"].to_pylist() == list(range(100, 150))


def test_a_run_is_done_once(target):
    for _ in range(2):
        writer = job(target, runId="monday")
        writer.commit([task(writer)])
    assert opened(target).count_rows() == 150
    before = files(target)
    opened(target).cleanup_old_versions(dt.timedelta(0))
    writer = job(target, runId="monday")
    messages = [task(writer)]
    writer.commit(messages)
    assert opened(target).to_table().num_rows == 150
    assert len(files(target)) <= len(before)
    writer = job(target, runId="tuesday")
    writer.commit([task(writer)])
    assert opened(target).count_rows() == 200


def test_a_run_without_rows_is_done_once(target):
    for _ in range(2):
        writer = job(target, runId="monday")
        writer.commit([task(writer, count=0), None])
    writer.abort([task(writer, count=0)])
    assert (opened(target).to_table().num_rows, claims(target)) == (100, [])


def test_two_drivers_of_one_run_add_its_rows_once(target):
    first, second = job(target, runId="monday"), job(target, runId="monday")
    messages = [task(first)], [task(second)]
    first.commit(messages[0])
    second.commit(messages[1])
    assert opened(target).count_rows() == 150


def test_a_run_makes_a_table_once(tmp_path):
    target = str(tmp_path / "new")
    for _ in range(2):
        writer = job(target, runId="first")
        writer.commit([task(writer)])
    assert lance_df.dataset(target).count_rows() == 50


def stream(target, sink="s1"):
    options = SourceOptions.parse({"path": target, "sinkId": sink})
    return LanceStreamWriter(options, COLUMNS, overwrite=False)


def test_batches_of_a_stream_are_added_once_each(target):
    for batch in (0, 1, 1, 2):
        message = task(stream(target), 1000 * (batch + 1))
        stream(target).commit([message], batch)  # Spark makes the writer anew
    assert opened(target).count_rows() == 250
    opened(target).cleanup_old_versions(dt.timedelta(0))
    stream(target).commit([task(stream(target))], 2)
    assert opened(target).to_table().num_rows == 250
    stream(target, "s2").commit([task(stream(target, "s2"))], 0)
    assert opened(target).count_rows() == 300


def test_a_batch_whose_outcome_is_unknown_is_run_again(target, monkeypatch):
    name = "publish_staged_partitions" if is_namespace(target) else "publish_staged"
    publish = getattr(writing, name)

    def lose_reply(*args, **kwargs):
        publish(*args, **kwargs)
        raise CommitStateUnknownError("the reply was lost")

    messages = [task(stream(target))]
    with monkeypatch.context() as patched:
        patched.setattr(writing, name, lose_reply)
        with pytest.raises(CommitStateUnknownError):
            stream(target).commit(messages, 0)
    stream(target).abort(messages, 0)
    stream(target).commit([task(stream(target))], 0)
    assert opened(target).to_table().num_rows == 150


def test_streams_need_an_id(tmp_path):
    with pytest.raises(InvalidInputError, match="checkpointLocation"):
        query_id(SourceOptions.parse({"path": "x"}))
    with pytest.raises(InvalidInputError, match="sinkId"):
        query_id(SourceOptions.parse({"path": "x", "checkpointLocation": str(tmp_path / "none")}))
    (tmp_path / "metadata").write_text('{"id":"abc"}')
    for place in (tmp_path, f"file:{tmp_path}", f"file://{tmp_path}"):
        assert query_id(SourceOptions.parse({"path": "x", "checkpointLocation": str(place)})) == "abc"


def test_messages_of_many_tasks_and_partitions_are_small(tmp_path):
    root = str(tmp_path / "wide")
    wide = pa.table({"k": pa.array(range(300), pa.int64()), "s": [f"partition {i}" for i in range(300)]})
    lance_df.PartitionedNamespace.create(root, wide.schema, ["identity(s)"])
    writer = job(root)
    message = writer.write(iter(wide.to_batches()))
    assert len(message.staged.folders) == 300
    assert len(pickle.dumps(message)) < 300 * 500
    merged = staged_module.merged_partitions(writer._location, [message.staged] * 2)
    assert [len(each.fragments) for each in merged] == [2] * 300
