"""Files that nobody but this user can have put where they are.

Such a file is the user's alone. It lies in folders that are the user's or the system's; none of them is
reached by a symbolic link, and others may write to none. Systems without owners of files have no such files.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def is_private_folder(folder: Path) -> bool:
    """Whether a folder exists, is this user's alone, and nobody else but root can replace it."""
    if not hasattr(os, "geteuid") or not folder.is_absolute() or ".." in folder.parts:
        return False
    try:
        status = os.lstat(folder)
        above = [os.lstat(parent) for parent in folder.parents]
    except OSError:
        return False
    return _is_users(status) and stat.S_ISDIR(status.st_mode) and all(map(_keeps_its_names, above))


def read_private(path: Path, max_bytes: int) -> bytes | None:
    """Return the content of a file in a private folder; None if it is not the user's alone, or is larger."""
    if not is_private_folder(path.parent):
        return None
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not (_is_users(status) and stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes):
            return None
        with suppress(OSError), os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    finally:
        os.close(descriptor)
    return None


def write_private(path: Path, content: bytes) -> bool:
    """Write a file of the user's alone, whole or not at all; return whether it was written.

    The folder is made if there is none.
    """
    draft = path.with_name(f"{os.urandom(8).hex()}.draft")
    try:
        for folder in [*reversed(path.parent.parents), path.parent]:
            if not folder.exists():
                folder.mkdir(_FOLDER_MODE, exist_ok=True)
        if not is_private_folder(path.parent):
            return False
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _is_users(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_MAY_WRITE


def _keeps_its_names(status: os.stat_result) -> bool:
    """Whether only the user and root can rename what is in a folder: in sticky ones, what is their own."""
    is_guarded = not status.st_mode & _OTHERS_MAY_WRITE or bool(status.st_mode & stat.S_ISVTX)
    return stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.geteuid()) and is_guarded
