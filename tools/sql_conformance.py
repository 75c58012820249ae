"""Run DataFusion's own SQL tests over Lance tables, and compare with DataFusion over memory.

Usage: python -m tools.sql_conformance --datafusion CHECKOUT [--only sqllogictest|tpcds|clickbench] …
       python -m tools.sql_conformance --only random [--seconds N] [--seed S [--rounds N]] …

The statements come from a checkout of the public repository apache/datafusion: its sqllogictest files, and
the texts of TPC-DS and ClickBench; or they are random, over random tables. Every table is written as a Lance
table of several fragments, or as a partitioned namespace; what a session returns for it is compared with what
DataFusion returns for the same rows in memory: rows, order wherever the statement orders, names, types,
nullability. The results in the files are not used.

Exit code 1 where something differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq

from lance_df.engine.plans.order import RewriteWarning
from tools.conformance.contexts import Conformance, Difference, low_thresholds
from tools.conformance.hits import hits
from tools.conformance.random_statements import RandomStatements
from tools.conformance.records import Record, read_records, split_statements
from tools.conformance.tpcds import tpcds_tables

_SQLLOGICTEST = Path("datafusion/sqllogictest")
_HITS = Path("datafusion/core/tests/data/clickbench_hits_10.parquet")
_STATEMENTS_OF_A_SEED = 100
# files that are not run, and why
_EXCLUDED = {
    "spark": "functions that DataFusion's Python package does not have",
    "encrypted_parquet.slt": "a build option",
    "async_udf.slt": "a function of another runner",
}


def main() -> None:
    options = _parser().parse_args()
    wanted = options.only or ["sqllogictest", "tpcds", "clickbench"]
    root = (options.datafusion or Path()).resolve()
    if wanted != ["random"] and not (root / _SQLLOGICTEST).is_dir():
        sys.exit(f"{root}: not a checkout of apache/datafusion: it has no {_SQLLOGICTEST}")
    warnings.simplefilter("error", RewriteWarning)
    counts: Counter[str] = Counter()
    differences: list[Difference] = []
    with low_thresholds() if options.low_thresholds else nullcontext():
        for name in wanted:
            began = time.monotonic()
            own: Counter[str] = Counter()
            for done in _RUNS[name](root, options):
                own += done.counts
                for each in done.differences:
                    print(f"DIFFERENCE {each}", flush=True)
                differences += done.differences
            tables = "partitioned namespaces" if options.namespaces else "tables"
            _print_counts(f"{name}, {options.context}, {tables}, {time.monotonic() - began:.0f} s", own)
            counts += own
    if len(wanted) > 1:
        _print_counts("all", counts)
    sys.exit(bool(differences))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datafusion", type=Path, help="checkout of apache/datafusion")
    parser.add_argument("--only", action="append", choices=_RUNS, help="run this alone")
    parser.add_argument("--files", default="**/*.slt", help="glob of sqllogictest files")
    parser.add_argument(
        "--start", default="", help="the first sqllogictest file to run, by its path in test_files"
    )
    parser.add_argument("--context", choices=("session", "plain", "own"), default="session")
    parser.add_argument(
        "--namespaces", action="store_true", help="partition every table that has a column for it"
    )
    parser.add_argument("--joins", choices=("auto", "always", "never"), default="auto")
    parser.add_argument("--shard", type=_shard, default=(0, 1), help="i/n: every n-th file, from the i-th on")
    parser.add_argument("--batch-rows", type=int, help="rows of a batch; few give results of many batches")
    parser.add_argument(
        "--low-thresholds", action="store_true", help="let rules for large tables apply to small"
    )
    parser.add_argument("--tpcds-data", type=Path, help="folder of Parquet files, one for each table")
    parser.add_argument("--hits-rows", type=int, default=200_000, help="rows of the table of ClickBench")
    parser.add_argument("--queries", help="numbers of TPC-DS or ClickBench queries, such as 1,14")
    parser.add_argument("--seconds", type=float, default=60, help="processor time of random statements")
    parser.add_argument("--seed", type=int, help="the first seed of random statements")
    parser.add_argument("--rounds", type=int, help="how many seeds, instead of --seconds")
    parser.add_argument("--verbose", action="store_true", help="name each file when it begins")
    return parser


def _shard(text: str) -> tuple[int, int]:
    index, _, of = text.partition("/")
    return int(index) % int(of), int(of)


def _print_counts(title: str, counts: Counter[str]) -> None:
    print(f"= {title}")
    for what, count in sorted(counts.items()):
        print(f"  {count:>7,} {what}", flush=True)


def _sqllogictest(root: Path, options: argparse.Namespace) -> Iterator[Conformance]:
    folder = root / _SQLLOGICTEST / "test_files"
    index, of = options.shard
    os.chdir(folder.parent)  # statements name files from here
    for path in sorted(folder.glob(options.files), key=str)[index::of]:
        shown = path.relative_to(folder)
        if str(shown) < options.start or not _EXCLUDED.keys().isdisjoint(shown.parts):
            continue
        if options.verbose:
            print(f"# {shown}", flush=True)
        scratch = folder / "scratch" / shown.with_suffix("").name
        scratch.mkdir(parents=True, exist_ok=True)
        yield _run(options, read_records(path))


def _conformance(folder: str, options: argparse.Namespace) -> Conformance:
    ours = {} if options.context == "plain" else {"partitioned_joins": options.joins}
    return Conformance(
        Path(folder), options.context, options.batch_rows, namespaces=options.namespaces, **ours
    )


def _run(options: argparse.Namespace, records: Iterable[Record]) -> Conformance:
    with tempfile.TemporaryDirectory() as folder:
        conformance = _conformance(folder, options)
        for record in records:
            conformance.run(record.sql, record.position)
        return conformance


def _tpcds(root: Path, options: argparse.Namespace) -> Iterator[Conformance]:
    with tempfile.TemporaryDirectory() as folder:
        conformance = _conformance(folder, options)
        for name, rows in tpcds_tables(options.tpcds_data):
            conformance.add_table(name, rows)
        _run_numbered(conformance, root / "datafusion/core/tests/tpc-ds", "", options)
        yield conformance


def _clickbench(root: Path, options: argparse.Namespace) -> Iterator[Conformance]:
    with tempfile.TemporaryDirectory() as folder:
        conformance = _conformance(folder, options)
        conformance.add_table("hits", hits(pq.read_schema(root / _HITS), options.hits_rows))
        _run_numbered(conformance, root / "benchmarks/queries/clickbench/queries", "q", options)
        yield conformance


def _run_numbered(conformance: Conformance, folder: Path, prefix: str, options: argparse.Namespace) -> None:
    """Run the queries of a folder of files that are called by numbers."""
    wanted = None if options.queries is None else set(options.queries.split(","))
    numbers = sorted((path.stem.removeprefix(prefix) for path in folder.glob(f"{prefix}*.sql")), key=int)
    for number in numbers:
        if wanted is not None and number not in wanted:
            continue
        path = folder / f"{prefix}{number}.sql"
        if options.verbose:
            print(f"# {path.name}", flush=True)
        for sql in split_statements(path.read_text(encoding="utf-8")):
            conformance.run(sql, str(path))


def _random(_: Path, options: argparse.Namespace) -> Iterator[Conformance]:
    """Run random statements over random tables; a seed names both."""
    first = time.time_ns() // 10**6 % 10**9 if options.seed is None else options.seed
    end = time.process_time() + options.seconds
    for seed in range(first, first + (options.rounds or sys.maxsize)):
        if options.rounds is None and time.process_time() > end:
            return
        if options.verbose:
            print(f"# seed {seed}", flush=True)
        statements = RandomStatements(seed, with_fields=True)
        with tempfile.TemporaryDirectory() as folder:
            conformance = _conformance(folder, options)
            for name, rows in statements.tables.items():
                conformance.add_table(name, rows)
            for number, sql in enumerate(islice(statements, _STATEMENTS_OF_A_SEED)):
                conformance.run(sql, f"seed {seed}, statement {number}")
        yield conformance


_RUNS = {"sqllogictest": _sqllogictest, "tpcds": _tpcds, "clickbench": _clickbench, "random": _random}


if __name__ == "__main__":
    main()
