"""Set up what the tests need and run all checks: the one command for a fresh machine and for CI.

Usage: python3 tools/test.py [--only STEP ...]

Needs Python 3.11 or later and a package index. Virtual environments are made beside this folder and reused;
they are made again when pyproject.toml changes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
MAIN = ROOT / ".venv-test"
PROTOS = ROOT / ".venv-protos"
GENERATOR = "grpcio-tools==1.71.2"
DOCS = ROOT / ".venv-docs"
SITE = ("mkdocs-material>=9.6", "mkdocstrings[python]>=0.29")
# Releases of DataFusion beside the newest, which the main environment has: all tests of SQL run with the
# oldest, and those of plans, of random statements and of changes with one between them.
OTHER_DATAFUSIONS: dict[str, tuple[str, ...]] = {
    "51": (),
    "53": (
        "tests/compute",
        "tests/engine/test_engine_provider.py",
        "tests/engine/test_engine_semantics.py",
        "tests/engine/test_partitioned_join.py",
        "tests/engine/test_plan_nodes.py",
        "tests/engine/test_plan_order.py",
        "tests/engine/test_sql_changes.py",
        "tests/engine/test_sql_conformance.py",
        "tests/engine/test_switches.py",
    ),
}
KERNELS = ROOT / "lance_df" / "encodings" / "kernels"
DAMAGED_TABLES = 300  # of each kind, read by kernels with sanitizers
MUTANTS = 20_000  # that the step of this name reads
DAMAGE = "tests/property/test_damage.py"


def run(*command: str | Path, **variables: str) -> None:
    """Run a command in the project's folder; end with its exit code when it fails."""
    print("+", *(f"{name}={value}" for name, value in variables.items()), *command, flush=True)
    # tests start many processes, which should not compile all that they import
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | variables
    code = subprocess.run([str(part) for part in command], cwd=ROOT, env=env, check=False).returncode
    if code:
        sys.exit(f"tools/test.py: failed with exit code {code}: {' '.join(map(str, command))}")


def python(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def ensure(folder: Path, *requirements: str, base: Path | None = None) -> Path:
    """Make an environment unless it is there already, and return its interpreter.

    With `base`, the packages of that environment are visible too, behind the ones of its own.
    """
    wanted = hashlib.sha256(repr(requirements).encode() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = folder / "requirements.sha256"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python(folder)
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "venv", folder)
    run(python(folder), "-m", "pip", "install", "-q", *requirements)
    if base is not None:
        site = [
            subprocess.check_output([python(where), "-c", "import site; print(site.getsitepackages()[0])"])
            for where in (folder, base)
        ]
        own, behind = (Path(path.decode().strip()) for path in site)
        (own / "zz_base.pth").write_text(f"import site; site.addsitedir({str(behind)!r})\n")
    stamp.write_text(wanted)
    return python(folder)


def main_environment() -> Path:
    """Return the interpreter of the environment that has the package, with kernels as they are now."""
    interpreter = ensure(MAIN, "-e", ".[test]")
    sources = [ROOT / "setup.py", *sorted(KERNELS.glob("*.py")), *sorted(KERNELS.glob("*.pxd"))]
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    stamp = MAIN / "kernels.sha256"
    if stamp.is_file() and stamp.read_text() != wanted:
        run(interpreter, "setup.py", "-q", "build_ext", "--inplace")
    stamp.write_text(wanted)  # without a stamp the environment is new, and its installation has compiled them
    return interpreter


def lint() -> None:
    interpreter = main_environment()
    run(interpreter, "-m", "ruff", "check", ".")
    run(interpreter, "-m", "ruff", "format", "--check", ".")
    run(interpreter, "-m", "mypy")


def protos() -> None:
    run(ensure(PROTOS, GENERATOR, "setuptools"), "tools/gen_protos.py", "--check")


def tests() -> None:
    interpreter = main_environment()
    run(interpreter, "-m", "pytest", "-q", "-n", "2", "-m", "not spark")
    # each worker has a JVM, which waits much of the time, and runs the tests of a file in their order
    run(interpreter, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "spark", "tests/spark")


def kernels() -> None:
    """Run what reads and writes files with kernels that check all they do, and with uncompiled ones."""
    interpreter = main_environment()
    pytest = (interpreter, "-m", "pytest", "-q", "-n", "2")
    run(*pytest, "tests/encodings/kernels", LANCE_DF_KERNELS="python")
    if sys.platform != "linux":
        return
    run(interpreter, "setup.py", "-q", "build_ext", "--inplace", LANCE_DF_CHECKED="1")
    run(*pytest, "tests/encodings", "tests/file", "tests/property", LANCE_DF_KERNELS="checked")
    run_sanitized(
        DAMAGED_TABLES,
        "tests/encodings/kernels",
        DAMAGE,
        f"--deselect={DAMAGE}::test_lies_take_no_memory",  # sanitizers take much
    )


def mutants() -> None:
    """Read many new files of every version and both writers whose messages are changed, with sanitizers."""
    run_sanitized(MUTANTS, "--hypothesis-profile", "fresh", f"{DAMAGE}::test_messages_that_lie")


def run_sanitized(examples: int, *arguments: str) -> None:
    """Run tests with kernels that the sanitizers check, and a number of examples for each kind of damage."""
    interpreter = main_environment()
    run(interpreter, "setup.py", "-q", "build_ext", "--inplace", LANCE_DF_CHECKED="sanitize")
    run(
        *(interpreter, "-m", "pytest", "-q", "-n", "2", *arguments),
        LANCE_DF_KERNELS="sanitize",
        LANCE_DF_DAMAGE_EXAMPLES=str(examples),
        LD_PRELOAD=subprocess.check_output(["cc", "-print-file-name=libasan.so"], text=True).strip(),
        ASAN_OPTIONS="detect_leaks=0",
    )


def docs() -> None:
    """Build the site of the documentation: a link that leads nowhere is an error."""
    interpreter = ensure(DOCS, *SITE)
    run(interpreter, "-m", "mkdocs", "build", "--strict", "--quiet", NO_MKDOCS_2_WARNING="1")


def engines() -> None:
    main_environment()
    for release, paths in OTHER_DATAFUSIONS.items():
        folder = ROOT / f".venv-datafusion{release}"
        interpreter = ensure(folder, "--no-deps", f"datafusion=={release}.*", base=MAIN)
        run(interpreter, "-m", "pytest", "-q", "-n", "2", "-m", "engine", *paths)


USUAL_STEPS: dict[str, Callable[[], None]] = {
    "lint": lint,
    "protos": protos,
    "tests": tests,
    "kernels": kernels,
    "docs": docs,
    "engines": engines,
}
STEPS = {**USUAL_STEPS, "mutants": mutants}  # the last one is not for every change


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(USUAL_STEPS), help="run these steps")
    for step in parser.parse_args().only:
        began = time.monotonic()
        STEPS[step]()
        print(f"= {step}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
