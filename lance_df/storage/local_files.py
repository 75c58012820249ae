"""Write local files durably and atomically, and read and remove them."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
import uuid
from contextlib import suppress

from lance_df.errors import CommitStateUnknownError, CorruptDataError, StorageError

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_AT_FDCWD = -100
_ATTEMPTS = 3
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_RENAME_NOREPLACE = 1
# opening a pipe would otherwise wait for a writer
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# every read allocates its full buffer; a larger one takes longer than reading a small file
_READ_AT_ONCE = 64 * 1024


def create_if_absent(path: str, data: bytes) -> bool:
    """Write a file unless the name is taken; return whether it was written.

    Raises
    ------
    OSError
        The file was not created.
    CommitStateUnknownError
        The file was created, but may not survive a crash of the machine.
    """
    temporary = _temporary_beside(path)
    try:
        _write(temporary, data)
        is_ours = _link_if_absent(temporary, path)
        with suppress(OSError):  # it was renamed; an error would mean that no file was created
            os.unlink(temporary)
    except BaseException:
        with suppress(OSError):  # a remaining temporary file does no harm
            os.unlink(temporary)
        raise
    if is_ours:
        try:
            sync_folder(os.path.dirname(path))
        except OSError as err:
            raise CommitStateUnknownError(
                f"{path}: the file was written, but its folder could not be synced"
            ) from err
    return is_ours


def replace(path: str, data: bytes, *, durable: bool = True) -> None:
    """Write a file, replacing one of the same name atomically.

    Without ``durable``, the file is not synced: readers may see no file for a moment, and a crash of the
    machine may leave an empty one.
    """
    temporary = _temporary_beside(path)
    try:
        _write(temporary, data, durable=durable)
        if not durable:
            # file systems sync a file before it replaces another one, so the old one is removed first
            with suppress(FileNotFoundError):
                os.unlink(path)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        sync_folder(os.path.dirname(path))


def open_regular(path: str) -> int:
    """Open a file for reading without blocking, whatever its type, and return its descriptor.

    Raises
    ------
    OSError
        It cannot be opened, such as a socket.
    """
    return os.open(path, _READ)


def regular_size(path: str, status: os.stat_result) -> int:
    """Return the size of a file.

    Raises
    ------
    CorruptDataError
        It is not a regular file but a folder, a pipe, a socket or a device.
    """
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "of an unknown kind")
        raise CorruptDataError(f"{path}: is {kind}, expected a regular file")
    return status.st_size


def check_regular(path: str) -> None:
    """Check that a name, if it exists, is a regular file or a link to one.

    Raises
    ------
    CorruptDataError
        It is something else, or a broken link.
    """
    try:
        regular_size(path, os.stat(path))
    except OSError as err:
        if os.path.islink(path):
            raise CorruptDataError(f"{path}: is a broken symbolic link, expected a regular file") from err


def read_start(path: str, num_bytes: int) -> bytes:
    """Return the first ``num_bytes`` of a file, or all of a shorter one.

    Raises
    ------
    OSError
        It cannot be read.
    CorruptDataError
        It is not a regular file.
    """
    descriptor = open_regular(path)
    try:
        regular_size(path, os.fstat(descriptor))
        data = part = os.read(descriptor, min(num_bytes, _READ_AT_ONCE))
        while part and len(data) < num_bytes:
            data += (part := os.read(descriptor, min(num_bytes - len(data), _READ_AT_ONCE)))
    finally:
        os.close(descriptor)
    return data


def create(path: str) -> int:
    """Create a file and the folders above it, and return a descriptor for writing.

    Raises
    ------
    FileExistsError
        The file exists.
    """
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            return os.open(path, _CREATE, 0o666)
        # another writer may remove a folder while it is empty
        make_folders(os.path.dirname(path))
    return os.open(path, _CREATE, 0o666)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes, with several system calls if necessary."""
    written = os.write(descriptor, data)
    if written < len(data):
        rest = memoryview(data)[written:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def make_folders(folder: str) -> None:
    """Create a folder and those above it, durably."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    if not missing:
        return
    try:
        os.makedirs(missing[0], exist_ok=True)
    except FileExistsError as err:  # a file
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from err
    for made in missing:
        sync_folder(os.path.dirname(made))


def remove_tree(path: str) -> None:
    """Remove a file, a folder with its contents, or a symbolic link without its target.

    The folder is first renamed to a hidden name. So anything created under the old name meanwhile is kept,
    and no reader mistakes a partly removed folder for a table.

    Raises
    ------
    OSError
        The path does not exist or cannot be removed.
    """
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    parent, name = os.path.split(os.path.abspath(path))
    moved = os.path.join(parent, f".{name}.removed-{uuid.uuid4().hex}")
    try:
        os.rename(path, moved)
    except OSError:  # it is a mount point, or in use on Windows
        moved = path
    shutil.rmtree(moved)


def entries_of(folder: str) -> list[tuple[str, int, bool]]:
    """Return the name and size of each entry of a folder, and whether it is a folder, in any order."""
    names_and_sizes = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                size = entry.stat().st_size
            except FileNotFoundError:  # removed since, or a broken link
                continue
            names_and_sizes.append((entry.name, size, entry.is_dir()))
    return names_and_sizes


def sync_folder(folder: str) -> None:
    """Sync a local folder, so that the names in it are durable."""
    if os.name == "nt":  # folders cannot be opened on Windows
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temporary_beside(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".tmp_{os.urandom(16).hex()}")


def _write(path: str, data: bytes, *, durable: bool = True) -> None:
    """Write a new file, and sync it if it must be durable."""
    descriptor = create(path)
    try:
        write_all(descriptor, data)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link_if_absent(temporary: str, path: str) -> bool:
    try:
        os.link(temporary, path)
    except OSError as err:
        # on network filesystems the link may have been created although the call failed
        if os.stat(temporary).st_nlink > 1:
            return True
        if isinstance(err, FileExistsError):
            return False
        if err.errno in _NO_HARD_LINKS:
            return _rename_if_absent(temporary, path)
        raise
    return True


def _rename_if_absent(temporary: str, path: str) -> bool:
    """Rename without replacing, for file systems without hard links."""
    try:
        if os.name == "nt":
            os.rename(temporary, path)  # does not replace there
        else:
            _rename_no_replace(temporary, path)
    except FileExistsError:
        return False
    return True


def _rename_no_replace(source: str, target: str) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if not sys.platform.startswith("linux") or function is None:
        raise StorageError(f"{target}: the file system does not support hard links, which commits require")
    if function(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE):
        number = ctypes.get_errno()
        if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise StorageError(
                f"{target}: the file system supports neither hard links nor renames without replacement; "
                "commits require one of them"
            )
        raise OSError(number, os.strerror(number))
