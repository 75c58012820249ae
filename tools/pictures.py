"""Make the pictures of docs/look.md: pages of the demo's tables, in a headless Chromium.

Usage: .venv-test/bin/python -m tools.pictures [--browser PROGRAM] [--keep FOLDER]

Needs Chromium or Chrome. The pictures go to docs/pictures.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lance_df
from lance_df.cli import main as command_line
from lance_df.cli.commands.demo import write_tables
from lance_df.display.page import whole_page

if TYPE_CHECKING:
    from collections.abc import Iterator

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT_SECONDS = 120
MAX_BYTES = 100_000

QUERY = """SELECT carrier, avg(dep_delay) AS late
FROM flights_by_month
WHERE time_hour >= '2013-07-01T00:00:00Z' AND time_hour < '2013-09-01T00:00:00Z'
  AND carrier IN ('UA', 'AA') AND distance > 1000
GROUP BY carrier"""


@dataclass(frozen=True)
class Picture:
    """A page, and how it is seen."""

    name: str
    page: str
    width: int
    height: int
    is_dark: bool = False


def pages() -> Iterator[Picture]:
    """Write the demo's tables to the working directory, and yield pages about them."""
    write_tables(Path("demo_data"))
    flights = lance_df.dataset("demo_data/flights.lance")
    by_carrier = [lance_df.partition.identity("origin"), lance_df.partition.identity("carrier")]
    namespace = lance_df.PartitionedNamespace.create("by_carrier", flights.schema, by_carrier)
    namespace.append(flights)
    for is_dark in (False, True):
        suffix = "-dark" if is_dark else ""
        page = whole_page("Flights by airport and airline", [namespace._repr_html_()])
        yield Picture(f"namespace{suffix}", page, 760, 530, is_dark)
        command_line(["explain", QUERY, "demo_data", "--html", "report.html"])
        yield Picture(f"report{suffix}", Path("report.html").read_text(encoding="utf-8"), 860, 700, is_dark)


def photograph(picture: Picture, browser: str) -> None:
    """Take a screenshot of a page."""
    page = Path(f"{picture.name}.html").resolve()
    page.write_text(picture.page.replace(str(Path.cwd()), "/data"), encoding="utf-8")
    target = PICTURES / f"{picture.name}.png"
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *(["--force-dark-mode"] if picture.is_dark else []),
        *(f"--window-size={picture.width},{picture.height}", f"--screenshot={target}", page.as_uri()),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT_SECONDS)
    size = target.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"tools/pictures.py: {target} has {size:,} bytes, more than {MAX_BYTES:,}")
    print(f"{target.name}: {size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--browser", default=next(filter(shutil.which, BROWSERS), None))
    parser.add_argument("--keep", metavar="FOLDER", help="keep tables and pages there")
    options = parser.parse_args()
    if options.browser is None:
        sys.exit(f"tools/pictures.py: none of {', '.join(BROWSERS)} is installed; name one with --browser")
    PICTURES.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(folder, exist_ok=True)
        stack.enter_context(contextlib.chdir(folder))
        for picture in pages():
            photograph(picture, options.browser)


if __name__ == "__main__":
    main()
