"""Show what a table consists of: versions, fragments, pages, encodings, statistics; or a data file; or a
partitioned namespace: its specs, partitions and versions.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.cli import session
from lance_df.cli.inspection import inspect_file, inspect_table
from lance_df.cli.render import render
from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.storage import open_location

if TYPE_CHECKING:
    import argparse

    from lance_df.cli.inspection import Section

SUMMARY = "show versions, fragments, files, columns, encodings, indices and statistics"
EXAMPLES = """examples:
  lance-df inspect demo_data/flights.lance
  lance-df inspect demo_data/flights.lance --version 1 --format json
  lance-df inspect --limit 5 ./events
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df inspect`."""
    command.add_argument("path", metavar="PATH", help="a table, one .lance file, or the root of a namespace")
    command.add_argument("--version", help="number or tag; the newest version unless given")
    command.add_argument(
        "--limit", type=int, default=20, help="versions, fragments and partitions to show (default: 20)"
    )
    command.add_argument("--pages", action="store_true", help="list every page, of a single file")
    command.add_argument("--format", choices=("table", "json"), default="table")
    session.add_storage_option(command)


def run(options: argparse.Namespace) -> int:
    """Print the sections."""
    if options.limit < 0:
        options.parser.error(f"--limit is 0 or more, not {options.limit}")
    storage = session.storage_options(options)
    location = open_location(options.path, storage)
    is_file = location.is_file()
    if options.pages and not is_file:
        options.parser.error("--pages lists those of a single file")
    if is_file and options.version is not None:
        options.parser.error("--version is one of a table or a namespace, not of a file")
    if is_file:
        sections = inspect_file(location, pages=options.pages)
    else:
        version = options.version
        if version is not None and version.isdecimal():
            version = int(version)
        limit = options.limit
        if (location / MANIFEST_FOLDER).exists():
            from lance_df.cli.namespace_inspection import inspect_namespace  # loads DataFusion

            sections = inspect_namespace(location, version, limit=limit)
        else:
            sections = inspect_table(options.path, version, storage, limit=limit)
    if options.format == "json":
        print(json.dumps({section.title: section.rows for section in sections}, ensure_ascii=False, indent=2))
    else:
        print("\n\n".join(filter(None, map(_text, sections))))
    return 0


def _text(section: Section) -> str:
    """Return a section as text: one row as lines of name and value, several as a table; nothing for none."""
    if not section.rows:
        return ""
    if len(section.rows) == 1 and section.title in ("table", "file", "namespace"):
        return "\n".join(f"{name:13}{value}" for name, value in section.rows[0].items() if value is not None)
    out = io.StringIO()
    table = pa.Table.from_pylist(section.rows)
    render(table.schema, table.to_batches(), style="table", out=out, max_cell_width=200)
    more = f"\n… and {section.left_out:,} more (--limit)" if section.left_out else ""
    return f"{section.title}\n{out.getvalue().rstrip()}{more}"
