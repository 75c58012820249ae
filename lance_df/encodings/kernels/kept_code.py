"""Machine code of kernels on disk, for later processes.

A file holds the code for one signature of a kernel. It counts only if it is whole, if it is this user's alone
(see `lance_df.storage.private_files`), and if the same libraries made it of the same sources for the same
kernel and processor. Where files have no owners nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import llvmlite
import numpy as np
from llvmlite import binding as llvm

from lance_df.storage.private_files import is_private_folder, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE: Final = Path(__file__).parent
_MAGIC: Final = b"lance_df kernel\n"
_DIGEST_BYTES: Final = 32
_MAX_BYTES: Final = 16 * 1024 * 1024


class Taken(NamedTuple):
    """What an argument is: a number of some type, or an array, which has one dimension or more."""

    kind: str
    num_dimensions: int = 0
    contiguous: bool = False
    writable: bool = False


class Code(NamedTuple):
    """The code for one signature of a kernel.

    Attributes
    ----------
    taken
        Its arguments.
    object_file
        What has to be loaded.
    """

    taken: tuple[Taken, ...]
    object_file: bytes


class KeptCode:
    """Files in some folders.

    Parameters
    ----------
    folders
        The first that may be written to takes what is new.

    Attributes
    ----------
    may_be_written
        Whether none of the folders has refused.

    Raises
    ------
    OSError
        The sources of the kernels or of numba are no files.
    """

    def __init__(self, folders: list[Path]) -> None:
        self.may_be_written = True
        self._folders = folders
        self._environment = _digest(*_environment())
        self._origin = [self._environment, sources()]

    def has_any(self) -> bool:
        """Return whether there are files of this environment."""
        return any(f".{self._environment}." in file for folder in self._folders for file in _files(folder))

    def load(self, name: str) -> list[Code]:
        """Return the code of a kernel."""
        found: dict[str, Code] = {}
        for folder in self._folders:
            for file in _files(folder):
                if file.startswith(f"{name}.{self._environment}.") and file not in found:
                    code = self._read(folder / file, name)
                    if code is not None:
                        found[file] = code
        return list(found.values())

    def keep(self, name: str, code: Code) -> None:
        """Write a file, whole or not at all, in place of one for the same arguments.

        Nothing is written when the sources are others than those that this process has imported.
        """
        if _digest(*_read_sources()) != sources():
            self.may_be_written = False
            return
        described = json.dumps([self._origin, name, code.taken])
        content = described.encode() + b"\n" + code.object_file
        content = _MAGIC + hashlib.sha256(content).digest() + content
        file = f"{name}.{self._environment}.{_digest(repr(code.taken).encode())}"
        self.may_be_written = any(write_private(folder / file, content) for folder in self._folders)

    def _read(self, path: Path, name: str) -> Code | None:
        """Return what a file holds, None where it does not count."""
        content = read_private(path, _MAX_BYTES)
        if content is None:
            return None
        start = len(_MAGIC) + _DIGEST_BYTES
        magic, digest, content = content[: len(_MAGIC)], content[len(_MAGIC) : start], content[start:]
        if magic != _MAGIC or digest != hashlib.sha256(content).digest():
            return None
        described, _, object_file = content.partition(b"\n")
        try:
            origin, kernel, arguments = json.loads(described)
            taken = tuple([Taken(*kind) for kind in arguments])
        except (ValueError, TypeError, RecursionError):  # others may describe it in other ways
            return None
        return Code(taken, object_file) if (origin, kernel) == (self._origin, name) else None


def usual_folders() -> list[Path]:
    """Return where numba would keep its files: where it is told to, or beside the sources, or of the user."""
    place = _digest(str(_HERE).encode())
    if told := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(told, f"lance_df_{place}")]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [_HERE / "__pycache__" / "machine_code", Path(home, "lance_df", place)]


def _environment() -> Iterator[bytes]:
    """Yield what decides of the code, but for the sources."""
    numba = find_spec("numba")
    if numba is None or numba.origin is None:
        raise FileNotFoundError("numba")
    yield Path(numba.origin).with_name("_version.py").read_bytes()
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # as numba does where LLVM cannot tell
        features = ""
    versions = [sys.version, np.__version__, llvmlite.__version__]
    processor = [llvm.get_process_triple(), llvm.get_host_cpu_name(), features]
    told = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    yield repr([versions, processor, told]).encode()


@cache
def sources() -> str:
    """Return a digest of the sources of all kernels as they were when the first of them was imported."""
    return _digest(*_read_sources())


def _read_sources() -> Iterator[bytes]:
    paths = sorted(_HERE.glob("*.py"))
    if not paths:
        raise FileNotFoundError(_HERE)
    for path in paths:
        yield path.name.encode()
        yield path.read_bytes()


def _digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.hexdigest()[:24]


def _files(folder: Path) -> list[str]:
    if not is_private_folder(folder):
        return []
    try:
        return os.listdir(folder)
    except OSError:
        return []
