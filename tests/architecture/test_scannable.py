"""Whoever scans does not ask whether it is a table or a namespace: `Scannable` is all that it knows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "lance_df"
# the classes of what is scanned, by the modules that define them
MODULES = (
    "lance_df.table.table",
    "lance_df.namespace.snapshot",
    "lance_df.namespace.member_subset",
    "lance_df.namespace.metadata.tables",
    "lance_df.namespace.metadata.partitions",
    "lance_df.namespace.metadata.history",
)
# what tells a namespace from a table lies beside these classes
ROOMS = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] not in ("table", "namespace", "_pb")
)


def type_checks(source: str) -> list[int]:
    """Return the lines that check whether something is of a class of what is scanned."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in MODULES
        for alias in node.names
    }
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.MatchClass):
            asked = {each.id for each in ast.walk(node.cls) if isinstance(each, ast.Name)}
        else:
            continue
        lines += [node.lineno] if asked & names else []
    return lines


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nobody_asks_what_is_scanned(path: Path) -> None:
    assert type_checks(path.read_text(encoding="utf-8")) == []


def test_checks_are_detected() -> None:
    opening = "from lance_df.table.table import Table as T\n"
    assert type_checks(f"{opening}isinstance(a, T)") == [2]
    assert type_checks(f"{opening}isinstance(a, T | int)") == [2]
    assert type_checks(f"{opening}match a:\n    case T(): pass") == [3]
    assert type_checks("from datafusion import Table as T\nisinstance(a, T)") == []
    for module in MODULES:
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
