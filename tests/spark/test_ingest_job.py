"""What an ingest is told to do, by a TOML file, by flags, or by both. Without Spark."""

from __future__ import annotations

import io
import json
import queue
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lance_df.cli.app import parser, run
from lance_df.cli.commands.ingest import ProgressLine, job_of, progress_text, summary_text
from lance_df.errors import InvalidInputError, NotFoundError, StorageError
from lance_df.spark.ingesting.job import IngestJob, IngestSource, format_of
from lance_df.spark.ingesting.job_file import load_job
from lance_df.spark.ingesting.progress import IngestProgress, ServerReports, Watcher, watched, watched_driver
from lance_df.spark.ingesting.running import IngestSummary

FULL = """
id = "monday"

[sources.flights]
path = ["raw/1.csv.gz", "raw/2.csv.gz"]
schema = "year INT, carrier STRING"
options = { header = false, maxColumns = 20, nullValue = "NA" }

[sources.airlines]
path = "s3://bucket/airlines.lance"
options = { version = 3 }
storage_options = { anon = true }

[sources.planes]
table = "catalog.db.planes"

[transform]
sql = "SELECT * FROM flights JOIN airlines USING (carrier)"

[target]
path = "out/flights"
mode = "overwrite-partitions"
partition_by = ["month(at)", "expression('ascii(col0) % 7', carrier)"]
sort_by = "at"
schema = "year INT NOT NULL, carrier STRING"
statistics = true
max_rows_per_file = 1000
distribution = "none"
max_bytes_per_file = 1_000_000
storage_options = { client_kwargs = { endpoint_url = "http://localhost" } }

[rejects]
path = "rejects.lance"
storage_options = {}

[spark]
master = "local[2]"
conf = { "spark.sql.shuffle.partitions" = 4, "spark.sql.ansi.enabled" = true }
"""


def written(tmp_path, text):
    path = tmp_path / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


def of_flags(*arguments):
    return job_of(parser().parse_args(["ingest", *arguments]))


def test_every_key_of_a_file_arrives(tmp_path):
    job = load_job(written(tmp_path, FULL))
    assert job == IngestJob(
        id="monday",
        sources=(
            IngestSource(
                name="flights",
                format="csv",
                paths=("raw/1.csv.gz", "raw/2.csv.gz"),
                schema="year INT, carrier STRING",
                options={"header": "false", "maxColumns": "20", "nullValue": "NA"},
            ),
            IngestSource(
                name="airlines",
                format="lance",
                paths=("s3://bucket/airlines.lance",),
                options={"version": "3"},
                storage_options={"anon": True},
            ),
            IngestSource(name="planes", table="catalog.db.planes"),
        ),
        sql="SELECT * FROM flights JOIN airlines USING (carrier)",
        target="out/flights",
        mode="overwrite-partitions",
        partition_by=("month(at)", "expression('ascii(col0) % 7', carrier)"),
        sort_by=("at",),
        schema="year INT NOT NULL, carrier STRING",
        statistics=True,
        max_rows_per_file=1000,
        distribution="none",
        max_bytes_per_file=1_000_000,
        storage_options={"client_kwargs": {"endpoint_url": "http://localhost"}},
        rejects="rejects.lance",
        rejects_storage_options={},
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "4", "spark.sql.ansi.enabled": "true"},
    )
    assert job.storage_of_rejects == {}


def test_flags_say_the_same(tmp_path):
    job = of_flags(
        *(
            "raw/a.parquet",
            "raw/b.parquet",
            "out",
            "--partition-by",
            "year(at)",
            "--partition-by",
            "bucket(k, 4)",
        ),
        *("--sort-by", "k", "--sort-by", "at", "--mode", "overwrite", "--statistics", "--id", "x"),
        *("--conf", "a.b=c=d", "--conf", "e=f", "--storage-option", "k=v", "--rejects", "bad.lance"),
        *("--max-rows-per-file", "10", "--max-bytes-per-file", "20", "--master", "local[1]"),
        *("--distribution", "none"),
        *("--source-option", "mergeSchema=true", "--schema", "k INT", "--sql", "SELECT 1 AS k"),
    )
    assert job == IngestJob(
        sources=(
            IngestSource(
                paths=("raw/a.parquet", "raw/b.parquet"), format="parquet", options={"mergeSchema": "true"}
            ),
        ),
        target="out",
        mode="overwrite",
        partition_by=("year(at)", "bucket(k, 4)"),
        sort_by=("k", "at"),
        statistics=True,
        id="x",
        conf={"a.b": "c=d", "e": "f"},
        storage_options={"k": "v"},
        rejects="bad.lance",
        max_rows_per_file=10,
        distribution="none",
        max_bytes_per_file=20,
        master="local[1]",
        schema="k INT",
        sql="SELECT 1 AS k",
    )
    assert job.storage_of_rejects == {"k": "v"}
    named = of_flags(
        "out", "--source", "a=x.csv", "--source", "a=y.csv", "--table", "b=db.t", "--sql", "SELECT 1"
    )
    assert named.sources == (
        IngestSource(name="a", format="csv", paths=("x.csv", "y.csv")),
        IngestSource(name="b", table="db.t"),
    )


def test_flags_take_the_place_of_what_is_in_the_file(tmp_path):
    path = str(written(tmp_path, FULL))
    job = of_flags(
        *(path, "--source", "flights=other.csv", "--source-option", "header=true", "--id", "tuesday"),
        *("--conf", "spark.sql.shuffle.partitions=8", "--target", "elsewhere", "--no-statistics"),
        *("--partition-by", "year(at)"),
    )
    assert job.sources[0] == IngestSource(
        name="flights",
        format="csv",
        paths=("other.csv",),
        schema="year INT, carrier STRING",
        options={"header": "true", "maxColumns": "20", "nullValue": "NA"},
    )
    assert (job.id, job.target, job.statistics, job.partition_by) == (
        "tuesday",
        "elsewhere",
        False,
        ("year(at)",),
    )
    assert job.conf == {"spark.sql.shuffle.partitions": "8", "spark.sql.ansi.enabled": "true"}
    assert job.mode == "overwrite-partitions"


MINIMAL = '[sources.s]\npath = "x.csv"\n[target]\npath = "t"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "invalid TOML"),
        ("\udce4".encode("utf-8", "surrogateescape").decode("latin-1") + " = 1", "invalid TOML"),
        (MINIMAL + "[traget]\n", "unknown key 'traget'; the keys are id, sources, transform, target"),
        ("colour = 1\n" + MINIMAL, "unknown key 'colour'"),
        ("id = 7\n" + MINIMAL, "id must be a string, got 7"),
        ('id = ""\n' + MINIMAL, "id of an ingest must not be empty"),
        (
            MINIMAL + "partitionby = []",
            r"\[target\] has no key 'partitionby'; the keys are path, mode, partition_by",
        ),
        (MINIMAL + "partition_by = [1]", "target.partition_by must be a string or a list of strings, got"),
        (MINIMAL + "statistics = 'yes'", "target.statistics must be true or false, got 'yes'"),
        (MINIMAL + "max_rows_per_file = true", "target.max_rows_per_file must be a whole number, got True"),
        (MINIMAL + "max_rows_per_file = 1.5", "target.max_rows_per_file must be a whole number"),
        (MINIMAL + "distribution = 'range'", "distribution must be hash or none, got 'range'"),
        (MINIMAL + "max_rows_per_file = 0", "max_rows_per_file must be at least 1, got 0"),
        (
            MINIMAL + "mode = 'upsert'",
            "mode must be one of append, overwrite, overwrite-partitions, got 'upsert'",
        ),
        (MINIMAL + "storage_options = 's3'", "target.storage_options must be a table of options"),
        (
            MINIMAL + "[spark]\nconf = { a = [1] }",
            "spark.conf.a must be a string, a number, or true or false",
        ),
        (MINIMAL + "[rejects]\n", r"\[rejects\] needs a path"),
        (MINIMAL + "[rejects]\npath = ''", "rejects needs a path"),
        (MINIMAL + "[rejects]\npath = './t'", "must not be inside or around the target"),
        (MINIMAL + "[rejects]\npath = 't/rejects.lance'", "must not be inside or around the target"),
        ('[sources.s]\npath = "x.csv"', "needs a target"),
        ('[target]\npath = "t"', "needs a source"),
        ('sources = 1\n[target]\npath = "t"', "must be a table of options, got 1"),
        ('[sources]\npath = "x.csv"\n[target]\npath = "t"', r"\[sources.path\] must be a table of options"),
        ('[sources.s]\n[target]\npath = "t"', "source 's' must have a path, a table, or a format"),
        ('[sources.s]\npath = "x"\n[target]\npath = "t"', "x: the format is unclear"),
        ('[sources.s]\npath = "x.csv"\ntable = "t"\n[target]\npath = "t"', "not both"),
        (
            '[sources.s]\npath = ["a.lance", "b.lance"]\n[target]\npath = "t"',
            "exactly one path and no schema",
        ),
        (
            MINIMAL.replace("[target]", 'storage_options = { a = "b" }\n[target]'),
            "storage options are only supported for Lance",
        ),
        (MINIMAL + '[sources.r]\npath = "y.csv"', "2 sources require a query"),
        (
            MINIMAL + '[sources.S]\npath = "y.csv"\n[transform]\nsql = "SELECT 1"',
            "names of sources must not differ only in case",
        ),
        (MINIMAL + "[transform]\nquery = 'x'", r"\[transform\] has no key 'query'; the keys are sql"),
    ],
)
def test_a_file_that_means_nothing_says_what_is_wrong(tmp_path, text, message):
    path = written(tmp_path, "")
    path.write_bytes(text.encode("utf-8" if text.isascii() else "latin-1"))
    with pytest.raises(InvalidInputError, match=message) as raised:
        load_job(path)
    assert "job.toml: " in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(NotFoundError, match=r"none\.toml: file does not exist"):
        load_job(tmp_path / "none.toml")
    with pytest.raises(StorageError, match="cannot be read"):
        load_job(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs a target"),
        (["x.csv"], "needs a source"),
        (["x.csv", "t", "--conf", "a"], "expected --conf KEY=VALUE"),
        (["t", "--source", "a=x.csv", "--table", "a=t"], "source 'a' is given twice"),
        (["t", "--table", "a=b", "--source-format", "csv"], "--source-format applies to source paths"),
        (["x", "t"], "the format is unclear"),
        (["x.csv", "t", "--max-rows-per-file", "-1"], "max_rows_per_file must be at least 1"),
    ],
)
def test_flags_that_mean_nothing_are_an_error_of_one_line(capsys, arguments, message):
    assert run(["ingest", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert message in err


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a/*.parquet", "parquet"),
        ("a.CSV.GZ", "csv"),
        ("s3://b/x.y/part.ndjson.zst", "json"),
        ("t.lance/", "lance"),
        ("x.jsonl", "json"),
    ],
)
def test_names_of_files_tell_the_format(path, found):
    assert format_of(path) == found


def test_a_format_may_need_no_path():
    assert IngestSource(format="jdbc", options={"url": "jdbc:x"}).paths == ()


def test_messages_hold_no_secrets():
    job = IngestJob(
        sources=(IngestSource(paths=("a.lance",), storage_options={"key": "SECRET"}),),
        target="t",
        storage_options={"secret": "SECRET"},
        rejects="r",
        rejects_storage_options={"secret": "SECRET"},
        conf={"spark.hadoop.fs.s3a.secret.key": "SECRET"},
    )
    assert "SECRET" not in repr(job)


class Stages:
    """What Spark tells of its stages: a context, its tracker, and its store."""

    def __init__(self, stages):
        self.stages = stages  # number -> tasks done, tasks, rows, bytes
        self.active = []
        self._jsc = self

    def statusTracker(self):
        return self

    def getActiveStageIds(self):
        return [*self.active, 99]  # of somebody else

    def getJobIdsForGroup(self, group):
        return [7, 8] if group == "ours" else []

    def getJobInfo(self, job):
        return SimpleNamespace(stageIds=list(self.stages)) if job == 7 else None

    def getStageInfo(self, stage):
        done, total, *_ = self.stages[stage]
        return SimpleNamespace(numCompletedTasks=done, numTasks=total)

    def sc(self):
        return self

    def statusStore(self):
        return self

    def lastStageAttempt(self, stage):
        *_, rows, size = self.stages[stage]
        return SimpleNamespace(
            inputRecords=lambda: rows - 1,
            shuffleReadRecords=lambda: 1,
            inputBytes=lambda: size,
            shuffleReadBytes=lambda: 0,
        )


def test_progress_is_what_spark_knows_of_the_stage_that_runs():
    context = Stages({3: (0, 4, 1, 0), 5: (1, 2, 1000, 2048)})
    clock = iter([0.0, 1.0, 2.0, 6.0, 10.0])
    watcher = Watcher(context, "ours", lambda: next(clock))
    assert watcher.look() == IngestProgress(1.0)
    context.active = [3]
    assert watcher.look() == IngestProgress(2.0, 1, 0, 4, 1, 0, None)
    context.stages[3] = (3, 4, 500, 1024)
    assert watcher.look() == IngestProgress(6.0, 1, 3, 4, 500, 1024, 4 / 3)
    context.active = [5]
    assert watcher.look() == IngestProgress(10.0, 2, 1, 2, 1000, 2048, 0.0)


def test_progress_is_one_line_that_is_gone_in_the_end():
    assert progress_text(IngestProgress(3.2)) == f"[{'-' * 24}] planning, 3 s"
    assert "planning or committing, 9 s" in progress_text(IngestProgress(9.0, 4))
    full = IngestProgress(65.0, 2, 3, 4, 1234, 5 * 2**20, 21.7)
    text = progress_text(full)
    assert (
        text
        == f"[{'#' * 18}{'-' * 6}] stage 2: 3 of 4 partitions, 65 s, 1,234 rows, 5.0 MiB, about 22 s left"
    )
    out = io.StringIO()
    with ProgressLine(out, shown=True) as line:
        line.show(full)
        line.show(IngestProgress(3.2))
    shown = out.getvalue().split("\r")
    assert [each.strip() for each in shown] == ["", text, progress_text(IngestProgress(3.2)), "", ""]
    assert len(shown[2]) == len(text)  # nothing of the longer line is left
    silent = io.StringIO()
    with ProgressLine(silent, shown=False):
        pass
    assert silent.getvalue() == ""


def test_a_listener_hears_of_its_own_jobs_until_they_end():
    groups = []
    context = Stages({3: (1, 2, 10, 10)})
    context.active = [3]
    context.getLocalProperty = lambda name: "former"
    context.setLocalProperty = lambda name, value: groups.append(value)
    context.getJobIdsForGroup = lambda group: [7] if group == groups[0] else []
    heard = queue.Queue()
    with watched_driver(context, heard.put, interval=0.001):
        assert heard.get(timeout=60).partitions == 2
    assert groups[1] == "former"
    with watched(None, None):
        pass


def test_progress_is_what_a_server_of_spark_connect_reports():
    told, now = [], iter([10.0, 11.0, 13.0, 14.0])
    reports = ServerReports(told.append, clock=lambda: next(now))

    def stage(number, done, total, read=0, *, is_done=False):
        return SimpleNamespace(
            stage_id=number, num_tasks=total, num_completed_tasks=done, num_bytes_read=read, done=is_done
        )

    reports(stages=[stage(4, 0, 8)], inflight_tasks=2, operation_id="x", done=False)
    reports(stages=[stage(4, 2, 8, 100)], inflight_tasks=2, operation_id="x", done=False)
    reports(stages=[stage(4, 8, 8, 400, is_done=True)], inflight_tasks=0, operation_id="x", done=True)
    assert told == [
        IngestProgress(1.0, 1, 0, 8),
        IngestProgress(3.0, 1, 2, 8, bytes=100, seconds_left=6.0),
        IngestProgress(4.0, 1),
    ]


SUMMARY = IngestSummary(
    *("monday", "./t", 2, 1010, 1000, 10, 3, 2048, 2, "./r", 4), is_repeated=False, seconds=1.25
)


def test_summaries_say_what_was_done():
    assert summary_text(SUMMARY).splitlines() == [
        "ingest    monday",
        "target    ./t, version 2",
        "rows      1,010 in, 1,000 out, 10 rejected",
        "written   3 files, 2.0 KiB, in 2 partitions",
        "rejects   ./r, version 4",
        "time      1.2 s",
    ]
    repeated = summary_text(replace(SUMMARY, is_repeated=True))
    assert "an ingest with this id is already there: no rows were added" in repeated
    assert "version 4, 10 added" in repeated
    plain = summary_text(replace(SUMMARY, partitions=None, rejects=None, rejects_version=None))
    assert "written   3 files, 2.0 KiB\n" in plain
    assert "rejects  " not in plain


WITHOUT = """
import json, os, sys
if sys.argv[1] == "pyspark":
    sys.modules["pyspark"] = None
else:
    os.environ["PATH"] = "/nowhere"
    os.environ.pop("JAVA_HOME", None)
from lance_df.cli import main
code = main(["ingest", "x.csv", sys.argv[2]])
print(json.dumps([code, os.path.exists(sys.argv[2])]))
"""


@pytest.mark.parametrize(("missing", "message"), [("pyspark", "lance_df[spark]"), ("java", "Java 17")])
def test_without_pyspark_or_java_it_says_what_to_install(tmp_path, missing, message):
    command = [sys.executable, "-c", WITHOUT, missing, str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == [1, False]
    assert message in done.stderr.splitlines()[-1]
