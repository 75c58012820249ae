"""What is installed: built as a wheel, put elsewhere, and used from there."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from setuptools import Distribution

ROOT = Path(__file__).resolve().parents[2]


def build(source, target, folder, **variables):
    hook = {"wheel": "build_wheel", "sdist": "build_sdist"}[target]
    code = f"import backend; backend.{hook}({str(folder)!r})"
    path = os.pathsep.join(
        [str(source / "tools" / "packaging"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=source,
        env=environment,
        check=True,
        capture_output=True,
        timeout=300,
    )
    (made,) = folder.iterdir()
    return made


def quick_compiler(folder):
    """Return variables that choose the usual compiler, where there is one, without its optimizations."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if sys.platform == "win32" or shutil.which(command.split()[0]) is None:
        return {}
    path = folder / "cc"
    path.write_text(f'#!/bin/sh\nexec {command} "$@" -O0\n')
    path.chmod(0o755)
    return {"CC": str(path)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the source distribution, which is what an index has."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    compiler = quick_compiler(tmp_path_factory.mktemp("compiler"))
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"), **compiler)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A function that runs Python elsewhere, with the wheel instead of the checkout."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments):
        command = [sys.executable, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run(
            command, cwd=elsewhere, env=environment, check=True, capture_output=True, text=True, timeout=120
        )
        return done.stdout

    run.site = site
    return run


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"lance_df", "lance_df-0.1.0.dist-info"}
    for name in ("lance_df/py.typed", "lance_df/_pb/table_pb2.py", "lance_df/sql_examples/01_count.sql"):
        assert name in names
    assert any(name.startswith("lance_df-0.1.0.dist-info/") and name.endswith("LICENSE") for name in names)
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_has_every_file_of_the_package(wheel):
    def files(folder):
        return [path for path in (ROOT / folder).rglob("*") if path.is_file() and not is_built(path)]

    def is_built(path):
        return "__pycache__" in path.parts or "compiled" in path.parts

    expected = {str(path.relative_to(ROOT)): path.read_bytes() for path in files("lance_df")}
    for folder in ("udfs", "sql_examples"):
        assert files(folder)
        expected |= {f"lance_df/{path.relative_to(ROOT)}": path.read_bytes() for path in files(folder)}
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("lance_df/")]
        found = {name: archive.read(name) for name in names if not is_built(Path(name))}
    assert found.keys() == expected.keys()
    assert found == expected
    # what was built in the checkout, such as kernels with checks, is no part of it
    builds = {Path(name).parts[4] for name in names if "compiled" in Path(name).parts}
    assert builds <= {"base", "avx2", "avx512"}


def test_links_of_the_description_lead_somewhere_in_an_index(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("lance_df-0.1.0.dist-info/METADATA").decode()
    header, _, text = metadata.partition("\n\n")
    assert "Description-Content-Type: text/markdown" in header
    assert "## First steps" in text
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []


def test_it_works_where_it_is_installed(installed):
    code = """
import lance_df, lance_df.udfs
from lance_df.cli.examples import load_examples
print(lance_df.__file__, lance_df.udfs.__file__, len(load_examples()))
"""
    package, udfs, num_examples = installed("-P", "-c", code).split()
    assert Path(package).parent == installed.site / "lance_df"
    assert Path(udfs).parent == installed.site / "lance_df" / "udfs"
    assert int(num_examples) == len(list((ROOT / "sql_examples").glob("*.sql")))


@pytest.mark.skipif(sys.platform == "win32", reason="setuptools ignores CC on Windows")
@pytest.mark.parametrize(
    ("failing", "complete"),
    [("none", ["base", "avx2", "avx512"]), ("avx2", ["base", "avx512"]), ("base", [])],
)
def test_a_build_of_kernels_is_complete_or_left_out(tmp_path, monkeypatch, failing, complete):
    """The compiler fails for one module of one build, as it does where memory is short."""
    compiler = tmp_path / "cc"
    compiler.write_text(
        "#!/bin/sh\n"
        f'case "$*" in */{failing}/lookup/*) exit 1;; esac\n'
        'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then : > "$2"; fi; shift; done\n'
    )
    compiler.chmod(0o755)
    for name in ("CC", "LDSHARED"):
        monkeypatch.setenv(name, str(compiler))
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    module = runpy.run_path("setup.py")
    command_class = module["BuildKernels"]
    monkeypatch.setitem(command_class.run.__globals__, "generate", lambda: None)
    extensions = module["extensions"]()
    command = command_class(Distribution({"ext_modules": extensions}))
    command.build_lib, command.build_temp = str(tmp_path / "lib"), str(tmp_path / "objects")
    command.ensure_finalized()
    command.run()
    expected = sorted(each.name for each in extensions if each.name.split(".")[-2] in complete)
    made = [path.relative_to(tmp_path / "lib") for path in (tmp_path / "lib").rglob("*.so")]
    assert sorted(".".join([*path.parts[:-1], path.name.split(".")[0]]) for path in made) == expected


def test_kernels_are_compiled_where_it_is_installed(installed):
    code = "from lance_df.encodings.kernels import COMPILED, gather; print(COMPILED, gather.__file__)"
    compiled, path = installed("-W", "error", "-P", "-c", code).split()
    assert compiled == "True"
    assert Path(path).parents[1] == installed.site / "lance_df" / "encodings" / "kernels" / "compiled"


def test_the_remedy_is_named_where_nothing_was_compiled(installed):
    code = """
import os, warnings
os.environ["LANCE_DF_KERNELS"] = "none"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import lance_df.encodings.kernels
print(*(each.message for each in caught))
"""
    assert "install a C compiler or the package ziglang" in installed("-P", "-c", code)


def test_the_command_works_where_it_is_installed(installed):
    assert installed("-P", "-m", "lance_df.cli", "--version") == "lance-df 0.1.0\n"
    assert installed("-P", "-m", "lance_df.cli", "sql", "SELECT 1 AS a", "--format", "csv") == "a\n1\n"


def test_every_module_imports_where_it_is_installed(installed):
    code = """
import importlib, pkgutil, lance_df
for module in pkgutil.walk_packages(lance_df.__path__, "lance_df."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
    installed("-W", "error::SyntaxWarning", "-P", "-c", code)
