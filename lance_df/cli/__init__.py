"""The command `lance-df`: argument parsing and output, without logic of tables or queries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 after an error, 2 for an invalid command line."""
    try:
        from lance_df.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:  # before a command runs, or again while it ends
        os._exit(130)
