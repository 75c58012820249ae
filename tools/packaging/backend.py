"""The build backend: setuptools, which is given a C compiler where the machine has none."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - a backend has all hooks of the one it extends


def _compiler() -> list[str]:
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    # on Windows setuptools looks for Visual C++ only, and ignores CC
    has_one = sys.platform == "win32" or shutil.which(command.split()[0]) is not None
    return [] if has_one else ["ziglang>=0.13"]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what a wheel is built with, beside what pyproject.toml says."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_compiler()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return what an editable installation is built with, beside what pyproject.toml says."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_compiler()]
