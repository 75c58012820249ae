"""Find the compiled kernels: of several builds, the best one that the processor supports."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from pyarrow import runtime_info

if TYPE_CHECKING:
    from importlib.abc import Loader

_FOLDER = "compiled"
_BUILDS = {"avx2": ["avx2", "base"], "avx512": ["avx512", "avx2", "base"]}


def search_path(package: Path, loader: Loader | None) -> list[str]:
    """Return the folders to search for modules of kernels, compiled ones first.

    Parameters
    ----------
    package
        The folder of the sources.
    loader
        The loader of the package. Extension modules cannot be imported from a zip archive, so they are
        unpacked to a temporary folder, which is removed when the process ends.
    """
    archive = getattr(loader, "archive", None)
    compiled = package / _FOLDER if archive is None else _unpacked(archive, package)
    return [*(str(compiled / build) for build in _names()), str(package)]


def _names() -> list[str]:
    if requested := os.environ.get("LANCE_DF_KERNELS"):
        return [] if requested == "python" else _BUILDS.get(requested, [requested])
    return _BUILDS.get(runtime_info().detected_simd_level, ["base"])


def _unpacked(archive: str, package: Path) -> Path:
    prefix = f"{package.relative_to(archive).as_posix()}/{_FOLDER}/"
    folder = Path(tempfile.mkdtemp(prefix="lance_df-kernels-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # forked processes still use the folder
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    with ZipFile(archive) as files:
        for name in files.namelist():
            if name.startswith(prefix) and not name.endswith("/"):
                target = folder / Path(name[len(prefix) :])
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(files.read(name))
    return folder
