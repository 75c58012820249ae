"""Where results go: a terminal, a pipe, or a file that appears when it is complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from typing import IO, TYPE_CHECKING

from lance_df.cli.table_lines import SHOW_ALL, Screen
from lance_df.errors import LanceError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


def screen_of(out: IO[str], hint: str = SHOW_ALL) -> Screen | None:
    """Return the size of the terminal that ``out`` is, None if it is none.

    Parameters
    ----------
    hint
        How to see what does not fit.
    """
    if not out.isatty():
        return None
    size = shutil.get_terminal_size()
    return Screen(size.lines, size.columns, hint)


@contextlib.contextmanager
def opened_output(path: str | None) -> Iterator[IO[str]]:
    """Yield stdout, or a new file that takes the place of ``path`` at the end if nothing is raised.

    Raises
    ------
    StorageError
        The file cannot be written.
    """
    if path is None:
        if sys.stdout is None:
            raise StorageError("stdout is closed; --output writes to a file")
        yield sys.stdout
        return
    folder = os.path.dirname(path) or "."
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a device, a named pipe
            with open(path, "w", encoding="utf-8", newline="") as out:
                yield out
            return
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(path)}.")
    except LanceError:
        raise
    except OSError as err:
        raise StorageError(f"{path}: {err.strerror or 'cannot be written'}") from err
    try:
        with open(handle, "w", encoding="utf-8", newline="") as out:
            yield out
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except LanceError:
        raise
    except OSError as err:
        raise StorageError(f"{path}: {err.strerror or 'cannot be written'}") from err
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
