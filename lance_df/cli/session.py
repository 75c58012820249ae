"""Open the SQL session of a command with its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.cli.usage import UsageError

if TYPE_CHECKING:
    import argparse

    from lance_df.engine.session import SessionContext


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options that locate tables."""
    command.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="give one table a name; may be repeated",
    )
    add_storage_option(command)


def add_storage_option(command: argparse._ActionsContainer) -> None:
    """Add ``--storage-option``."""
    command.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for remote stores, such as endpoint_url; may be repeated",
    )


def open_session(root: str, options: argparse.Namespace) -> SessionContext:
    """Connect to a folder of tables, or to one table ``x.lance``, and name the tables of ``--table``."""
    from lance_df.engine.session import connect
    from lance_df.engine.tables.names import register

    storage = storage_options(options)
    ctx = connect(root, storage_options=storage)
    for name, path in pairs(options.table, "--table NAME=PATH").items():
        register(ctx, name, path, storage_options=storage)
    return ctx


def storage_options(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return ``--storage-option`` as a mapping, or None without any."""
    return pairs(options.storage_option, "--storage-option KEY=VALUE") or None


def pairs(texts: list[str], form: str) -> dict[str, str]:
    """Parse texts ``KEY=VALUE`` into a mapping.

    Raises
    ------
    UsageError
        A text has no key or no value, or a key is repeated.
    """
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise UsageError(f"expected {form}, got {text!r}" if not equals else f"expected {form}")
        if key in values:
            raise UsageError(f"{form}: {key!r} is given twice")
        values[key] = value
    return values
