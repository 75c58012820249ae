"""The option ``--html``, which writes the output of a command as an HTML page."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from lance_df.cli.output.destination import opened_output
from lance_df.display.page import whole_page

if TYPE_CHECKING:
    from collections.abc import Iterable

_STDOUT: Final = "-"


def add_argument(command: argparse._ActionsContainer) -> None:
    """Add ``--html``."""
    command.add_argument(
        "--html",
        nargs="?",
        const=_STDOUT,
        type=_file_name,
        metavar="FILE",
        help="a page for a browser, in a file that ends with .html, or on stdout without one",
    )


def write_page(file: str, title: object, parts: Iterable[str]) -> None:
    """Write a page to stdout, or to a file that appears when it is complete."""
    page = whole_page(title, parts)
    with opened_output(None if file == _STDOUT else file) as out:
        out.write(page)


def _file_name(text: str) -> str:
    # the word after --html may be meant as the next argument: a table, which must not be overwritten
    if text != _STDOUT and not text.lower().endswith((".html", ".htm")):
        raise argparse.ArgumentTypeError(
            f"the name of the file must end with .html, got {text!r}; to write to stdout, put --html last"
        )
    return text
