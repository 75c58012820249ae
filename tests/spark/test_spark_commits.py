"""What the driver makes of the messages of tasks: writers are called as Spark calls them, without Spark."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import tempfile
import time
from pathlib import Path

import datafusion
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import lance_df
from lance_df.errors import CommitStateUnknownError, InvalidInputError, RetryableConflictError, StorageError
from lance_df.namespace.changes import staged as staged_module
from lance_df.spark import writing
from lance_df.spark.options import SourceOptions
from lance_df.spark.streaming import LanceStreamWriter, query_id
from lance_df.spark.writing import writer_for
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


def test_signs_of_commits_go(target, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old = [job(target) for _ in range(2)]
    for writer in old:
        writer.commit([task(writer)])
    [folder] = tmp_path.glob("lance_df-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    signs = list(folder.iterdir())
    assert len(signs) == 2
    os.utime(signs[0], (time.time() - 3600,) * 2)
    writer = job(target)
    writer.commit([task(writer)])
    assert not signs[0].exists()
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("kind", ["link", "open to others", "file"])
def test_signs_of_commits_lie_in_a_folder_of_the_user(target, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"lance_df-{os.getuid()}"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        folder.touch(mode=0o600)
    else:
        folder.mkdir()
        folder.chmod(0o777)
    writer = job(target)
    with pytest.raises(StorageError, match=str(folder)):
        writer.commit([task(writer)])
    assert opened(target).to_table().num_rows == 100


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
