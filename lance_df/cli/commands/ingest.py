"""Load rows into a table or a partitioned namespace with Spark: all of them at once, or none.

A TOML file, flags, or both describe the job. Flags override the values of the file. The command needs the
extra `spark` and Java 17.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import warnings
from typing import IO, TYPE_CHECKING, Any, Self

from lance_df.cli import session
from lance_df.cli.usage import UsageError
from lance_df.display.numbers import number_text, size_text
from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    import argparse

    from lance_df.spark.ingesting.job import IngestJob
    from lance_df.spark.ingesting.progress import IngestProgress
    from lance_df.spark.ingesting.running import IngestSummary

SUMMARY = "bring rows in with Spark"
EXAMPLES = """examples:
  lance-df ingest raw/2013.parquet ./events --partition-by 'year(ts)' --partition-by 'bucket(user_id, 16)'
  lance-df ingest raw/*.csv ./flights.lance --schema 'year INT, dest STRING' --rejects ./rejected.lance
  lance-df ingest job.toml --id 2013-06-01 --source flights=raw/2013-06-01.csv --master 'local[4]'
"""

_BAR = 24
# flags whose names are attributes of the job
_OF_JOB = (
    "target",
    "sql",
    "mode",
    "partition_by",
    "sort_by",
    "schema",
    "statistics",
    "max_rows_per_file",
    "max_bytes_per_file",
    "distribution",
    "rejects",
    "id",
    "master",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df ingest`."""
    import argparse

    command.add_argument(
        "words",
        nargs="*",
        metavar="JOB.toml | SOURCE… TARGET",
        help="a pipeline file, or what to read and where to write",
    )
    sources = command.add_argument_group("sources")
    sources.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a view of the query, or another path of one; may be repeated",
    )
    sources.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME=TABLE",
        help="a view of a table of Spark; may be repeated",
    )
    sources.add_argument(
        "--source-format",
        metavar="FORMAT",
        help="of sources in flags: parquet, csv, json, lance, or any other that Spark knows",
    )
    sources.add_argument(
        "--source-schema",
        metavar="DDL",
        help="columns of sources in flags, such as 'id BIGINT, at TIMESTAMP'",
    )
    sources.add_argument(
        "--source-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of the format of sources in flags; may be repeated",
    )
    command.add_argument(
        "--sql", help="a query of Spark SQL over the sources; one without a name is called source"
    )
    target = command.add_argument_group("target")
    target.add_argument(
        "--target", metavar="PATH", help="a table or the root of a namespace, in place of the one in the file"
    )
    target.add_argument(
        "--mode", metavar="MODE", help="append (the default), overwrite or overwrite-partitions"
    )
    target.add_argument(
        "--partition-by",
        action="append",
        metavar="FIELD",
        help="such as 'month(ts)'; may be repeated; makes a namespace if there is none",
    )
    target.add_argument(
        "--sort-by", action="append", metavar="COLUMN", help="sorts the rows of a file; may be repeated"
    )
    target.add_argument("--schema", metavar="DDL", help="the columns of a new target")
    target.add_argument(
        "--statistics", action=argparse.BooleanOptionalAction, help="zone maps of the new rows"
    )
    target.add_argument("--max-rows-per-file", type=int, metavar="N")
    target.add_argument("--max-bytes-per-file", type=int, metavar="N")
    target.add_argument(
        "--distribution",
        metavar="HOW",
        help="hash (the default): one task writes a partition; none: each task what it has, with no shuffle",
    )
    target.add_argument(
        "--rejects", metavar="PATH", help="a table for rows that do not fit; without it they stop the ingest"
    )
    session.add_storage_option(target)
    spark = command.add_argument_group("the run")
    spark.add_argument("--id", help="names the ingest: done once, it adds nothing when it is run again")
    spark.add_argument("--master", help="of Spark, such as local[4]")
    spark.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="of Spark; may be repeated"
    )
    spark.add_argument("--quiet", action="store_true", help="show no progress")
    spark.add_argument("--format", choices=("table", "json"), default="table", help="of the summary")


def run(options: argparse.Namespace) -> int:
    """Run the ingest and print the summary."""
    from lance_df.spark.requirements import require_pyspark

    job = job_of(options)
    require_pyspark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark's warning about versions of pandas
        from lance_df.spark.ingesting.running import ingest

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(name).disabled = True  # the error contains the same text
        with ProgressLine(sys.stderr, shown=sys.stderr.isatty() and not options.quiet) as line:
            summary = ingest(job, on_progress=line.show if line.shown else None)
    if options.format == "json":
        print(json.dumps(dataclasses.asdict(summary), ensure_ascii=False, indent=2))
    else:
        print(summary_text(summary))
    return 0


def job_of(options: argparse.Namespace) -> IngestJob:
    """Return the job that the command line describes.

    Raises
    ------
    UsageError
        The flags are incomplete or contradict each other.
    InvalidInputError
        The file is incomplete or contradicts itself.
    """
    from lance_df.spark.ingesting.job_file import load_job, make_job

    words = list(options.words)
    file = words.pop() if len(words) == 1 and words[0].endswith(".toml") else None
    attributes = {name: getattr(options, name) for name in _OF_JOB if getattr(options, name) is not None}
    attributes |= {
        name: tuple(attributes[name]) for name in ("partition_by", "sort_by") if name in attributes
    }
    if conf := session.pairs(options.conf, "--conf KEY=VALUE"):
        attributes["conf"] = conf
    if storage := session.storage_options(options):
        attributes["storage_options"] = storage
    if words and "target" not in attributes:
        attributes["target"] = words.pop()
    sources = _sources(options, words)
    if file is not None:
        return load_job(file, sources=sources, attributes=attributes)
    try:
        return make_job(sources, attributes)
    except InvalidInputError as err:  # everything is given as flags
        raise UsageError(str(err)) from err


def _sources(options: argparse.Namespace, paths: list[str]) -> dict[str, dict[str, Any]]:
    sources: dict[str, dict[str, Any]] = {}
    if paths:
        sources["source"] = {"paths": tuple(paths)}
    for text in options.source:
        name, path = _pair(text, "--source NAME=PATH")
        sources.setdefault(name, {})["paths"] = (*sources.get(name, {}).get("paths", ()), path)
    flags = {
        "--source-format": options.source_format,
        "--source-schema": options.source_schema,
        "--source-option": options.source_option,
    }
    given = [flag for flag, value in flags.items() if value]
    if given and not sources:
        raise UsageError(f"{given[0]} applies to source paths on the command line, and none is given")
    for each in sources.values():
        if options.source_format is not None:
            each["format"] = options.source_format
        if options.source_schema is not None:
            each["schema"] = options.source_schema
        if options.source_option:
            each["options"] = session.pairs(options.source_option, "--source-option KEY=VALUE")
    for text in options.table:
        name, table = _pair(text, "--table NAME=TABLE")
        if name in sources:
            raise UsageError(f"source {name!r} is given twice")
        sources[name] = {"table": table}
    return sources


def _pair(text: str, form: str) -> tuple[str, str]:
    [(name, value)] = session.pairs([text], form).items()
    return name, value


def summary_text(summary: IngestSummary) -> str:
    """Return a summary of an ingest as text."""
    rows = f"{summary.rows_in:,} in, {summary.rows_out:,} out, {summary.rows_rejected:,} rejected"
    files = f"{number_text(summary.files, 'file')}, {size_text(summary.bytes)}"
    if summary.partitions is not None:
        files += f", in {number_text(summary.partitions, 'partition')}"
    lines = [f"ingest    {summary.id}", f"target    {summary.target}, version {summary.version}"]
    if summary.is_repeated:
        lines.append("rows      an ingest with this id is already there: no rows were added")
    else:
        lines += [f"rows      {rows}", f"written   {files}"]
    if summary.rejects_version is not None:
        added = f", {summary.rows_rejected:,} added" if summary.is_repeated else ""
        lines.append(f"rejects   {summary.rejects}, version {summary.rejects_version}{added}")
    lines.append(f"time      {summary.seconds:.1f} s")
    return "\n".join(lines)


class ProgressLine:
    """A line that is rewritten repeatedly and removed at the end."""

    def __init__(self, out: IO[str], *, shown: bool) -> None:
        self.shown = shown
        self._out = out
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def show(self, progress: IngestProgress) -> None:
        """Show the progress of an ingest."""
        self._write(progress_text(progress))

    def _write(self, text: str) -> None:
        if self._width or text:
            self._out.write(f"\r{text:<{self._width}}" + ("" if text else "\r"))
            self._out.flush()
        self._width = len(text)


def progress_text(progress: IngestProgress) -> str:
    """Return a bar and numbers, without unknown values."""
    parts = [f"{progress.seconds:.0f} s"]
    share = 0.0
    if progress.partitions:
        share = progress.partitions_done / progress.partitions
        total = number_text(progress.partitions, "partition")
        parts.insert(0, f"stage {progress.stage}: {progress.partitions_done:,} of {total}")
    else:
        parts.insert(0, "planning or committing" if progress.stage else "planning")
    if progress.rows:
        parts.append(number_text(progress.rows, "row"))
    if progress.bytes:
        parts.append(size_text(progress.bytes))
    if progress.seconds_left is not None:
        parts.append(f"about {progress.seconds_left:.0f} s left")
    filled = round(_BAR * share)
    return f"[{'#' * filled}{'-' * (_BAR - filled)}] {', '.join(parts)}"
