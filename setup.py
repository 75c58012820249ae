"""Compile the kernels, and describe the package to its index. Everything else is in pyproject.toml.

Each module of `lance_df/encodings/kernels` becomes an extension module, for every x86-64 processor that
pyarrow runs on; those with wide loops are built again for processors with AVX2, or AVX-512. A build of which
a module does not compile is left out, since modules call functions of each other that only compiled ones
have. Without the first build there is none, and the package runs the same sources uncompiled.
docs/design/042-compiled-kernels.md says more.

Environment
-----------
LANCE_DF_CHECKED
    ``1`` makes one build, with checks of bounds and overflow in every kernel. ``sanitize`` adds the address
    and undefined-behaviour sanitizers. They are named ``checked`` and ``sanitize``, and used where the
    environment variable LANCE_DF_KERNELS says so.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from copy import copy
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

PACKAGE = "lance_df.encodings.kernels"
SHARED_MODULE = "_cyutility"  # what all modules share of Cython's own code, which nothing waits for
# the modules with loops that gain from wider vectors
WIDE = {
    "avx2": {"compare", "fastlanes", "fixed_width", "hashing", "keys", "lookup", "pages", "strings"},
    "avx512": {"hashing", "lookup"},
}
SHARED = f"{PACKAGE}.{SHARED_MODULE}"
FOLDER = Path(*PACKAGE.split("."))
GENERATED = Path("build", "cython")
CHECKED = os.environ.get("LANCE_DF_CHECKED", "")
IS_CHECKED = CHECKED not in ("", "0")
IS_SANITIZED = CHECKED == "sanitize"
SANITIZERS = "address,undefined"
IS_MSVC = sys.platform == "win32"


def builds() -> dict[str, list[str]]:
    """Return the flags of the compiler for each build of a kernel."""
    usual = ["/O2"] if IS_MSVC else ["-O3", "-g0"]
    machine = platform.machine().lower()
    is_universal = "arm64" in os.environ.get("ARCHFLAGS", "")
    if IS_SANITIZED:
        return {"sanitize": ["-O1", "-g", f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=undefined"]}
    if IS_CHECKED:
        return {"checked": usual}
    if machine not in ("x86_64", "amd64") or is_universal:
        return {"base": usual}
    if IS_MSVC:
        return {"base": usual, "avx2": [*usual, "/arch:AVX2"], "avx512": [*usual, "/arch:AVX512"]}
    avx512 = [f"-mavx512{part}" for part in ("f", "bw", "cd", "dq", "vl")]
    return {
        "base": [*usual, "-msse4.2"],
        "avx2": [*usual, "-mavx2"],
        "avx512": [*usual, *avx512, "-mprefer-vector-width=512"],
    }


def sources() -> dict[str, Path]:
    """Return the C source of each module, which `generate` makes."""
    kernels = [path for path in sorted(FOLDER.glob("*.py")) if is_kernel(path)]
    return {SHARED_MODULE: GENERATED / f"{SHARED_MODULE}.c"} | {
        path.stem: GENERATED / path.with_suffix(".c") for path in kernels
    }


def generate() -> None:
    """Translate all kernels to C."""
    from Cython.Build import cythonize

    modules = [name for name in sources() if name != SHARED_MODULE]
    GENERATED.mkdir(parents=True, exist_ok=True)
    shared = sources()[SHARED_MODULE]
    sharing = subprocess.Popen([sys.executable, "-m", "cython", f"--generate-shared={shared}"])
    directives = {
        "language_level": 3,
        "binding": False,
        "boundscheck": IS_CHECKED,
        "wraparound": False,  # where bounds are checked, a negative index is then an error
        "initializedcheck": IS_CHECKED,
        "overflowcheck": IS_CHECKED,
        "cdivision": not IS_CHECKED,
    }
    cythonize(
        [Extension(f"{PACKAGE}.{name}", [str(FOLDER / f"{name}.py")]) for name in modules],
        build_dir=str(GENERATED),
        compiler_directives=directives,
        shared_utility_qualified_name=SHARED,
        force=True,
        quiet=True,
    )
    if code := sharing.wait():
        raise subprocess.CalledProcessError(code, sharing.args)


def is_kernel(path: Path) -> bool:
    """Return whether a module is one of kernels: those import cython."""
    return path.stem != "memory" and "\nimport cython\n" in path.read_text(encoding="utf-8")


def extensions() -> list[Extension]:
    """Return each module once for each build, in a folder of that build."""
    link = [f"-fsanitize={SANITIZERS}"] if IS_SANITIZED else []
    return [
        Extension(
            f"{PACKAGE}.compiled.{build}.{module}",
            [source.as_posix()],
            extra_compile_args=[*flags, "-O1"] if module == SHARED_MODULE and not IS_MSVC else flags,
            extra_link_args=link,
            optional=True,
        )
        for build, flags in builds().items()
        for module, source in sources().items()
        if module in WIDE.get(build, sources())
    ]


def build_of(ext: Extension) -> str:
    """Return the build that an extension module is part of."""
    return ext.name.split(".")[-2]


class BuildKernels(build_ext):
    """Translates the kernels, and compiles several modules at once, each build beside the others."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.incomplete: set[str] = set()
        if not self.parallel:
            self.parallel = os.cpu_count() or 1

    def run(self) -> None:
        if not IS_MSVC and not has_compiler():
            os.environ["CC"] = f"{sys.executable} -m ziglang cc"
            os.environ["LDSHARED"] = f"{sys.executable} -m ziglang cc -shared"
        try:
            generate()
        except Exception as error:  # noqa: BLE001 - whatever it is, the package works without
            print(f"warning: the kernels of lance_df are not compiled: {error}", file=sys.stderr)
            self.extensions = []
        super().run()

    def build_extensions(self) -> None:
        super().build_extensions()
        first, *others = builds()
        if first in self.incomplete:
            self.incomplete.update(others)
        left_out = [ext for ext in self.extensions if build_of(ext) in self.incomplete]
        for ext in left_out:
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
        self.extensions = [ext for ext in self.extensions if ext not in left_out]

    def copy_extensions_to_source(self) -> None:
        for build in builds():
            folder = FOLDER / "compiled" / build
            shutil.rmtree(folder, ignore_errors=True)  # modules of an earlier build
            folder.mkdir(parents=True)
        super().copy_extensions_to_source()

    def build_extension(self, ext: Extension) -> None:
        # both builds of a module have the same source: objects of one must not replace those of the other
        command = copy(self)  # several threads are here at once
        command.build_temp = str(Path(self.build_temp, *ext.name.split(".")[-2:]))
        try:
            build_ext.build_extension(command, ext)
        except Exception:
            self.incomplete.add(build_of(ext))
            raise


class BuildPackage(build_py):
    """Puts the folders of UDFs and of examples into the package."""

    def run(self) -> None:
        if not self.editable_mode:  # builds that were made before are no part of this one
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            for folder in ("udfs", "sql_examples"):
                target = Path(self.build_lib, "lance_df", folder)
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(folder, target, dirs_exist_ok=True, ignore=ignored)


def has_compiler() -> bool:
    """Return whether the compiler that extension modules are built with is there."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(command.split()[0]) is not None


def description() -> str:
    """Return the README for an index of packages, where links to files of this folder lead nowhere."""
    text = Path("README.md").read_text(encoding="utf-8")
    is_file = r"\((?!https?://)[^)\s]+\)"
    without_pictures = re.sub(rf"!\[[^\]]*\]{is_file}\n*", "", text)
    return re.sub(rf"\[([^\]]+)\]{is_file}", r"\1", without_pictures)


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildKernels, "build_py": BuildPackage},
    long_description=description(),
    long_description_content_type="text/markdown",
)
