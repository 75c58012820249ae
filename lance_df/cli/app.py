"""The command line: sub-commands, and the conversion of errors to one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NoReturn

from lance_df.cli.usage import UsageError
from lance_df.errors import LanceError

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = ("sql", "shell", "explain", "inspect", "verify", "repair", "ingest", "demo", "completion")

_MAX_TEXT = 2000

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def run(arguments: Sequence[str] | None = None) -> int:
    """Parse, run and return the exit code. Ends the process if the command line is invalid."""
    if sys.stderr is None:  # the parent process closed it
        sys.stderr = io.StringIO()
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:  # of --help and --version, too
        return _ended(end)
    try:
        code: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe
        _leave(OK)
    except KeyboardInterrupt:
        _leave(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the outermost handler
        return _report(error, debug=options.debug)
    return code


def _ended(end: SystemExit) -> int:
    """Return the exit code of the parser, or that of a failure if its text cannot be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _leave(OK)
    except OSError as error:
        _leave(_report(error, debug=False))
    raise end


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="lance-df",
        description="SQL over Lance tables.",
        epilog="lance-df COMMAND --help shows an example of each.",
    )
    top.add_argument("--version", action="version", version=f"lance-df {_version()}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        _add(commands, name)
    return top


def subparsers() -> list[tuple[str, str, argparse.ArgumentParser]]:
    """Return the name, summary and parser of each command."""
    commands = argparse.ArgumentParser().add_subparsers()
    return [(name, *_add(commands, name)) for name in _COMMANDS]


def _add(commands: Any, name: str) -> tuple[str, argparse.ArgumentParser]:
    module = importlib.import_module(f"lance_df.cli.commands.{name}")
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=module.SUMMARY,
        description=module.__doc__,
        epilog=module.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(command)
    command.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
    command.set_defaults(run=module.run, parser=command)
    return module.SUMMARY, command


def _report(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error, file=sys.stderr)
        return MISUSED if isinstance(error, UsageError) else FAILED
    text = " ".join(str(error).split()) or type(error).__name__
    if len(text) > _MAX_TEXT:  # names in damaged files may be of any length
        text = text[: _MAX_TEXT - 1] + "…"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, LanceError):
        text = f"{error.filename or 'the output'}: {error.strerror}"
    elif isinstance(error, UnicodeEncodeError):
        text = (
            f"{error.object[error.start : error.end]:.60} cannot be written as {error.encoding}; set the "
            "environment variable PYTHONUTF8=1, or use a UTF-8 locale"
        )
    elif not isinstance(error, LanceError):
        text = f"{type(error).__name__}: {text} (use --debug to see the traceback)"
    print(f"lance-df: error: {text}", file=sys.stderr)
    return MISUSED if isinstance(error, UsageError) else FAILED


def _leave(code: int) -> NoReturn:
    """End the process at once, because a normal exit fails while the engine's threads run a query."""
    sys.stderr.flush()
    os._exit(code)


def _version() -> str:
    try:
        return version("lance_df")
    except PackageNotFoundError:  # a bare checkout
        return "0+checkout"
