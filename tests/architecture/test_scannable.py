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
# those whose names no other library uses
ATTRIBUTES = {"NamespaceSnapshot", "MemberSubset", "MetadataTable"}
# what tells a namespace from a table lies beside these classes
ROOMS = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] not in ("table", "namespace", "_pb")
)


# what says whether an object of any kind is or holds an open table or namespace, and nothing more
WRAPPERS_ALLOWED = {"lance_df/namespace/kind.py": {"opened_in"}}


def wrappers(source: str) -> set[str]:
    """Return the functions that only say of which class of what is scanned an argument is."""
    lines = type_checks(source)
    if not lines:
        return set()
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return {
        each.name
        for each in functions
        if any(each.lineno <= line <= (each.end_lineno or 0) for line in lines)
        and not each.name.startswith("_")
    }


def classes_in(node: ast.expr, imported: set[str]) -> set[str]:
    """Return the classes of what is scanned in an expression: names, or attributes of modules."""
    attributes = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names & imported | attributes & ATTRIBUTES


def type_checks(source: str) -> list[int]:
    """Return the lines that check whether something is of a class of what is scanned."""
    if not any(name in source for name in (*MODULES, *ATTRIBUTES)):
        return []
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
            classes = classes_in(node.args[1], names)
        elif isinstance(node, ast.MatchClass):
            classes = classes_in(node.cls, names)
        else:
            continue
        lines += [node.lineno] if classes else []
    return lines


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nobody_asks_what_is_scanned(path: Path) -> None:
    assert type_checks(path.read_text(encoding="utf-8")) == []


def test_no_function_wraps_such_a_check() -> None:
    paths = [*(PACKAGE / "table").rglob("*.py"), *(PACKAGE / "namespace").rglob("*.py")]
    named = {str(path.relative_to(ROOT)): wrappers(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: names for path, names in named.items() if names} == WRAPPERS_ALLOWED


def test_checks_are_detected() -> None:
    opening = "from lance_df.table.table import Table as T\n"
    assert type_checks(f"{opening}isinstance(a, T)") == [2]
    assert type_checks(f"{opening}isinstance(a, T | int)") == [2]
    assert type_checks(f"{opening}match a:\n    case T(): pass") == [3]
    assert type_checks("isinstance(a, module.NamespaceSnapshot)") == [1]
    assert type_checks("from datafusion import Table as T\nisinstance(a, T)") == []
    assert wrappers(f"{opening}def is_table(a):\n    return isinstance(a, T)") == {"is_table"}
    for module in MODULES:
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
