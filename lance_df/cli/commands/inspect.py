"""Show the contents of a table, a data file, a partitioned namespace or a folder.

For a table: its versions, fragments, pages, encodings and statistics. For a partitioned namespace: its
specs, partitions and versions. For a folder: the tables below it.
"""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.cli import session
from lance_df.cli.inspection.folders import inspect_folder
from lance_df.cli.inspection.table_folders import is_folder_of_tables
from lance_df.cli.inspection.tables import inspect_file, inspect_table
from lance_df.cli.output import page_output
from lance_df.cli.output.render import render
from lance_df.cli.progress import Progress
from lance_df.display.page import facts_html, section_html
from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.storage import open_location

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lance_df.cli.inspection.tables import Section
    from lance_df.storage import Location

SUMMARY = "show versions, fragments, files, columns, encodings, indices and statistics"
EXAMPLES = """examples:
  lance-df inspect demo_data/flights.lance
  lance-df inspect demo_data/flights.lance --version 1 --format json
  lance-df inspect --limit 5 ./events
  lance-df inspect demo_data
  lance-df inspect demo_data/flights.lance --html flights.html
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df inspect`."""
    command.add_argument(
        "path",
        metavar="PATH",
        help="a table, one .lance file, the root of a namespace, or a folder of tables",
    )
    command.add_argument("--version", help="number or tag; the newest version unless given")
    command.add_argument(
        "--limit", type=int, default=20, help="versions, fragments and partitions to show (default: 20)"
    )
    command.add_argument("--pages", action="store_true", help="list every page, of a single file")
    output = command.add_mutually_exclusive_group()
    output.add_argument("--format", choices=("table", "json"), default="table")
    page_output.add_argument(output)
    session.add_storage_option(command)


def run(options: argparse.Namespace) -> int:
    """Print the sections."""
    if options.limit < 0:
        options.parser.error(f"--limit must be at least 0, got {options.limit}")
    storage = session.storage_options(options)
    location = open_location(options.path, storage)
    is_file = location.is_file()
    if options.pages and not is_file:
        options.parser.error("--pages can be used only with a single file")
    if is_file and options.version is not None:
        options.parser.error("--version can be used only with a table or a namespace, not with a file")
    is_folder = not is_file and is_folder_of_tables(location)
    if is_folder and options.version is not None:
        options.parser.error(
            "--version can be used only with a table or a namespace, not with a folder of tables"
        )
    opens = True
    with Progress(what=f"reading {options.path}"):
        if is_file:
            sections = inspect_file(location, pages=options.pages)
        elif is_folder:
            sections, opens = inspect_folder(location, storage)
        else:
            sections = _inspected(location, options)
    if options.html is not None:
        page_output.write_page(options.html, options.path, _page_parts(sections, location, options))
    elif options.format == "json":
        print(json.dumps({section.title: section.rows for section in sections}, ensure_ascii=False, indent=2))
    else:
        print("\n\n".join(filter(None, map(_text, sections))))
    if not opens:
        print("lance-df: error: some tables could not be opened; see their rows", file=sys.stderr)
    return 0 if opens else 1


def _page_parts(sections: list[Section], location: Location, options: argparse.Namespace) -> Iterator[str]:
    """Yield the notebook output of the same object, then the sections."""
    storage, version = session.storage_options(options), _version(options)
    titles = {section.title for section in sections}
    if "namespace" in titles:
        from lance_df.api.namespaces.namespace import PartitionedNamespace

        number = None if version is None else int(version)
        yield PartitionedNamespace.open(location.uri, number, storage_options=storage)._repr_html_()
    elif "table" in titles:
        from lance_df.dataset import dataset

        yield dataset(location.uri, version, storage_options=storage)._repr_html_()
    for section in sections:
        if _is_summary(section):
            yield facts_html(section.title, section.rows[0])
        else:
            yield section_html(section.title, section.rows, section.left_out)


def _version(options: argparse.Namespace) -> int | str | None:
    """Return a number, a tag, or None for the newest version."""
    version: str | None = options.version
    return int(version) if version is not None and version.isdecimal() else version


def _inspected(location: Location, options: argparse.Namespace) -> list[Section]:
    version = _version(options)
    if (location / MANIFEST_FOLDER).exists():
        from lance_df.cli.inspection.namespaces import inspect_namespace  # loads DataFusion

        return inspect_namespace(location, version, limit=options.limit)
    return inspect_table(options.path, version, session.storage_options(options), limit=options.limit)


def _is_summary(section: Section) -> bool:
    return len(section.rows) == 1 and section.title in ("table", "file", "namespace")


def _text(section: Section) -> str:
    """Return a section as text: one row as lines of names and values, several as a table, none as ""."""
    if not section.rows:
        return ""
    if _is_summary(section):
        return "\n".join(f"{name:13}{value}" for name, value in section.rows[0].items() if value is not None)
    out = io.StringIO()
    table = pa.Table.from_pylist(section.rows)
    render(table.schema, table.to_batches(), style="table", out=out, max_cell_width=200)
    more = f"\n… and {section.left_out:,} more (--limit)" if section.left_out else ""
    return f"{section.title}\n{out.getvalue().rstrip()}{more}"
