"""What becomes of checked rows and of rejects, whatever fails and whoever dies; called as by Spark."""

from __future__ import annotations

import pickle
import uuid

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import lance_df
from lance_df.errors import CommitStateUnknownError, InvalidInputError, RetryableConflictError, StorageError
from lance_df.spark import writing
from lance_df.spark.ingesting import sink
from lance_df.spark.ingesting.checked_rows import BAD, BAD_FIELDS
from lance_df.spark.ingesting.report import Report
from lance_df.spark.ingesting.sink import IngestSink, sink_options
from lance_df.table.writing import write_plan, zone_map_writer

COLUMNS = StructType([StructField("k", LongType()), StructField("s", StringType())])
BAD_TYPE = pa.struct([(name, pa.string()) for name in BAD_FIELDS])
OLD = pa.table({"k": pa.array(range(10), pa.int64()), "s": ["old"] * 10})


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture(params=["table", "namespace"])
def target(request, tmp_path):
    """The path of a table or a namespace with ten rows."""
    if request.param == "table":
        lance_df.write_dataset(OLD, tmp_path / "target")
    else:
        lance_df.PartitionedNamespace.create(tmp_path / "target", OLD.schema, ["identity(s)"]).append(OLD)
    return tmp_path / "target"


def rows_of(path):
    is_namespace = (path / "__manifest").exists()
    opened = lance_df.PartitionedNamespace.open(path) if is_namespace else lance_df.dataset(path)
    return sorted(row["k"] for row in opened.to_table().to_pylist())


def rejects_of(target):
    path = target.parent / "rejects"
    if not (path / "_versions").exists():
        return None
    return sorted((row["run"], row["row"]) for row in lance_df.dataset(path).to_table().to_pylist())


def files(target):
    return sorted(
        str(path)
        for path in target.parent.rglob("*.lance")
        if path.is_file() and "__manifest" not in str(path)
    )


class Job:
    """One write of a run, as Spark does it: every call may be of another process."""

    def __init__(
        self,
        target,
        run="r1",
        *,
        rejects=True,
        to_target=True,
        overwrite=False,
        marked=True,
        statistics=False,
    ):
        self.target = target
        self.folder = target.parent / f"folder-{uuid.uuid4()}"
        self.folder.mkdir()
        options = sink_options(
            {"path": str(target), "statistics": str(statistics)},
            COLUMNS,
            run,
            str(self.folder),
            is_marked=marked,
            rejects={"path": str(target.parent / "rejects")} if rejects else None,
            to_target=to_target,
        )
        self._writer = IngestSink(options).writer(COLUMNS, overwrite)

    @property
    def writer(self):
        return pickle.loads(pickle.dumps(self._writer))

    def task(self, first=100, good=20, bad=5):
        """Run a task and return its message, as it reaches the driver."""
        count = good + bad
        reasons = [None] * good + [
            {"source": "s", "column": "k", "reason": "odd", "row": f"row {first + good + n}"}
            for n in range(bad)
        ]
        rows = pa.table(
            {
                "k": pa.array(range(first, first + count), pa.int64()),
                "s": [f"s{n % 3}" for n in range(count)],
                BAD: pa.array(reasons, BAD_TYPE),
            }
        )
        return pickle.loads(pickle.dumps(self.writer.write(iter(rows.to_batches(max_chunksize=8)))))

    def run(self):
        """Run two tasks and commit."""
        messages = [self.task(), None, self.task(200)]
        self.writer.commit(messages)
        return Report.read(self.folder)


NEW = [*range(100, 120), *range(200, 220)]
REJECTED = sorted(("r1", f"row {n}") for n in (*range(120, 125), *range(220, 225)))


def test_rows_and_rejects_are_told_apart_and_counted(target):
    report = Job(target).run()
    assert rows_of(target) == [*range(10), *NEW]
    assert rejects_of(target) == REJECTED
    assert (report.rows_in, report.rejected, report.rows_out, report.error) == (50, 10, 40, None)
    assert report.partitions == (3 if (target / "__manifest").exists() else None)
    assert report.files == len([name for name in files(target) if "/target/" in name]) - 1
    assert report.bytes > 0
    newest = lance_df.PartitionedNamespace.open if report.partitions else lance_df.dataset
    assert (report.version, report.rejects_version) == (newest(target).version, 1)


def test_nothing_is_seen_before_the_commit_and_abort_removes_it(target):
    before = files(target)
    job = Job(target)
    messages = [job.task(), None, job.task(200)]
    assert (rows_of(target), rejects_of(target)) == (list(range(10)), None)
    job.writer.abort(messages)
    assert files(target) == before


def test_a_row_that_does_not_fit_stops_the_task_and_leaves_no_file(target):
    before = files(target)
    job = Job(target, rejects=False)
    with pytest.raises(InvalidInputError, match=r"s: column 'k': odd; row row 120$"):
        job.task()
    assert files(target) == before
    assert job.task(bad=0).rows is not None


def test_rejects_are_written_in_pieces(target, monkeypatch):
    monkeypatch.setattr(sink, "_WAITING_BYTES", 1)
    job = Job(target)
    message = job.task(bad=30)
    assert len(message.rejects) == 5
    job.writer.commit([message])
    assert len(rejects_of(target)) == 30


def test_a_task_that_fails_after_some_rejects_leaves_no_file(target, monkeypatch):
    monkeypatch.setattr(sink, "_WAITING_BYTES", 1)
    before = files(target)
    job = Job(target)

    def rows():
        bad = [{"source": None, "column": None, "reason": "x", "row": "y"}]
        yield pa.RecordBatch.from_pydict({"k": [1], "s": ["a"], BAD: pa.array(bad, BAD_TYPE)})
        raise StorageError("the source is gone")

    with pytest.raises(StorageError):
        job.writer.write(rows())
    assert files(target) == before


def test_a_run_is_done_once(target):
    Job(target).run()
    before = files(target)
    again = Job(target).run()
    assert (again.version, again.rejects_version, again.rows_out) == (None, None, 0)
    assert rows_of(target) == [*range(10), *NEW]
    assert rejects_of(target) == REJECTED
    assert files(target) == before
    Job(target, "r2").run()
    assert len(rows_of(target)) == 90


@pytest.mark.parametrize("step", ["before the rows", "after the rows"])
def test_two_drivers_of_one_run_add_its_rows_once(target, monkeypatch, step):
    jobs = [Job(target), Job(target)]
    messages = [[job.task(), job.task(200)] for job in jobs]

    def other():
        jobs[1].writer.commit(messages[1])

    if step == "before the rows":
        other()
        jobs[0].writer.commit(messages[0])
    else:
        with_rejects = sink.IngestWriter._with_rejects

        def after_the_other(self, *args):
            patched.undo()
            other()
            return with_rejects(self, *args)

        with monkeypatch.context() as patched:
            patched.setattr(sink.IngestWriter, "_with_rejects", after_the_other)
            jobs[0].writer.commit(messages[0])
    assert (rows_of(target), rejects_of(target)) == ([*range(10), *NEW], REJECTED)
    reports = [Report.read(job.folder) for job in jobs]
    assert sorted(report.rows_out for report in reports) == [0, 40]
    assert sum(report.version is None for report in reports) == 1
    # a third one has nothing to add, and leaves no file
    before = files(target)
    Job(target).run()
    assert files(target) == before


def test_two_drivers_that_make_the_same_table(tmp_path, monkeypatch):
    target = tmp_path / "target"
    jobs = [Job(target), Job(target)]
    messages = [[job.task(), job.task(200)] for job in jobs]
    create = write_plan.create_table

    def after_the_other(*args, **kwargs):
        patched.undo()
        jobs[1].writer.commit(messages[1])
        return create(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(write_plan, "create_table", after_the_other)
        jobs[0].writer.commit(messages[0])
    assert (rows_of(target), rejects_of(target)) == (NEW, REJECTED)
    assert [Report.read(job.folder).rows_out for job in jobs] == [0, 40]


def test_a_run_without_rows_is_done_too(target):
    job = Job(target)
    job.writer.commit([job.task(good=0)])
    assert Report.read(job.folder).rows_out == 0
    assert len(rejects_of(target)) == 5
    again = Job(target).run()
    assert (again.version, again.rejects_version) == (None, None)
    assert (rows_of(target), len(rejects_of(target))) == (list(range(10)), 5)


def test_without_a_mark_rows_come_again(target):
    for _ in range(2):
        job = Job(target, marked=False, rejects=False)
        job.writer.commit([job.task(bad=0)])
    assert len(rows_of(target)) == 50


def publish_name(target):
    return "publish_staged_partitions" if (target / "__manifest").exists() else "publish_staged"


def test_a_commit_that_fails_leaves_neither_rows_nor_rejects(target, monkeypatch):
    before = files(target)
    job = Job(target)
    messages = [job.task()]
    with monkeypatch.context() as patched:
        patched.setattr(writing, publish_name(target), lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            job.writer.commit(messages)
    job.writer.abort(messages)
    assert (files(target), rejects_of(target)) == (before, None)


def test_columns_that_change_meanwhile_are_a_conflict(target):
    job = Job(target)
    messages = [job.task()]
    newest = lance_df.PartitionedNamespace.open if (target / "__manifest").exists() else lance_df.dataset
    newest(target).drop_columns(["k"])
    with pytest.raises(RetryableConflictError, match="schema"):
        job.writer.commit(messages)
    job.writer.abort(messages)
    assert rejects_of(target) is None


def test_a_lost_reply_keeps_the_rows_and_the_next_run_adds_the_rejects(target, monkeypatch):
    publish = getattr(writing, publish_name(target))

    def lose_reply(*args, **kwargs):
        publish(*args, **kwargs)
        raise CommitStateUnknownError("the reply was lost")

    job = Job(target)
    messages = [job.task(), job.task(200)]
    with monkeypatch.context() as patched:
        patched.setattr(writing, publish_name(target), lose_reply)
        with pytest.raises(CommitStateUnknownError):
            job.writer.commit(messages)
    job.writer.abort(messages)
    assert (rows_of(target), rejects_of(target)) == ([*range(10), *NEW], None)
    Job(target, to_target=False).run()
    assert (rows_of(target), rejects_of(target)) == ([*range(10), *NEW], REJECTED)


@pytest.mark.parametrize("step", ["before the rows", "after the rows", "after the rejects"])
def test_whenever_the_driver_dies_the_next_run_makes_it_right(target, monkeypatch, step):
    job = Job(target)
    messages = [job.task(), job.task(200)]

    def die(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patched:
        if step == "before the rows":
            patched.setattr(writing, publish_name(target), die)
        elif step == "after the rows":
            patched.setattr(sink.IngestWriter, "_with_rejects", die)
        else:
            patched.setattr(Report, "write", die)
        with pytest.raises(Killed):
            job.writer.commit(messages)
    job.writer.abort(messages)  # of a driver that has lost a process, and lives
    rows = rows_of(target)
    assert rows == (list(range(10)) if step == "before the rows" else [*range(10), *NEW])
    assert rejects_of(target) == (REJECTED if step == "after the rejects" else None)
    Job(target, to_target=step == "before the rows").run()
    assert (rows_of(target), rejects_of(target)) == ([*range(10), *NEW], REJECTED)


@pytest.mark.parametrize("error", [StorageError, ZeroDivisionError])
def test_statistics_that_fail_leave_the_rows_and_the_rejects(tmp_path, monkeypatch, error):
    def fail(*args, **kwargs):
        raise error("no space left")

    job = Job(tmp_path / "target", statistics=True)
    messages = [job.task(), job.task(200)]
    with monkeypatch.context() as patched:
        patched.setattr(zone_map_writer.ZoneMapBuilder, "commit", fail)
        if error is StorageError:
            with pytest.warns(RuntimeWarning, match=r"statistics could not be computed: no space left"):
                job.writer.commit(messages)
            assert Report.read(job.folder).rows_out == 40
        else:
            with pytest.raises(ZeroDivisionError):
                job.writer.commit(messages)
    job.writer.abort(messages)  # after an error, by Spark
    assert (rows_of(job.target), rejects_of(job.target)) == (NEW, REJECTED)
    Job(job.target).run()
    assert (rows_of(job.target), rejects_of(job.target)) == (NEW, REJECTED)


def test_a_table_of_other_columns_takes_no_rejects(target):
    lance_df.write_dataset(pa.table({"other": [1]}), target.parent / "rejects")
    with pytest.raises(InvalidInputError, match="column 'run' does not exist"):
        Job(target)


def test_a_table_of_rejects_that_fails_after_the_rows(target, monkeypatch):
    job = Job(target)
    messages = [job.task(), job.task(200)]
    commit_once = writing.LanceWriter.commit_once

    def refuse(self, messages, mark):
        if self._options.path.endswith("rejects"):
            raise StorageError("no space left")
        return commit_once(self, messages, mark)

    with monkeypatch.context() as patched:
        patched.setattr(writing.LanceWriter, "commit_once", refuse)
        job.writer.commit(messages)
    report = Report.read(job.folder)
    assert report.error == ("StorageError", "no space left")
    assert (report.rows_out, report.rejects_version) == (40, None)
    job.writer.abort(messages)  # is not called, and would do nothing
    assert rows_of(target) == [*range(10), *NEW]
    assert not [name for name in files(target) if "/rejects/" in name]
    Job(target, to_target=False).run()
    assert rejects_of(target) == REJECTED
