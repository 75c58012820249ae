"""Output to a terminal, a pipe, or a file that appears when it is complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Final

from lance_df.cli.output.table_lines import SHOW_ALL, Screen
from lance_df.errors import LanceError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LINKS: Final = 40


def screen_of(out: IO[str], advice: str = SHOW_ALL) -> Screen | None:
    """Return the size of the terminal ``out``, or None if it is not a terminal.

    Parameters
    ----------
    advice
        How to see the rows and columns that do not fit.
    """
    if not out.isatty():
        return None
    size = shutil.get_terminal_size()
    return Screen(size.lines, size.columns, advice)


@contextlib.contextmanager
def opened_output(path: str | None) -> Iterator[IO[str]]:
    """Yield stdout, or a new file that replaces ``path`` at the end if no error is raised.

    For a symbolic link, its target is replaced. Devices and pipes are written directly, including
    ``/dev/stdout``, whatever its target.

    Raises
    ------
    StorageError
        The file cannot be written.
    """
    if path is None:
        if sys.stdout is None:
            raise StorageError("stdout is closed; use --output to write to a file")
        yield sys.stdout
        return
    try:
        if _is_stream(path) or (os.path.exists(path) and not os.path.isfile(path)):
            # a file that a shell has opened for appending keeps its content
            with open(path, "a", encoding="utf-8", newline="") as out:
                yield out
            return
        target = os.path.realpath(path)
        prefix = f".{os.path.basename(target)}."
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=prefix)
    except LanceError:
        raise
    except OSError as err:
        raise StorageError(f"{path}: {err.strerror or 'cannot be written'}") from err
    try:
        with open(handle, "w", encoding="utf-8", newline="") as out:
            yield out
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except LanceError:
        raise
    except OSError as err:
        raise StorageError(f"{path}: {err.strerror or 'cannot be written'}") from err
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _is_stream(path: str) -> bool:
    """Whether a path, or a link in its chain, is a device or an open file of the system."""
    for _ in range(_MAX_LINKS):
        path = os.path.abspath(path)
        if path.startswith(("/dev/", "/proc/")):
            return True
        if not os.path.islink(path):
            return False
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
