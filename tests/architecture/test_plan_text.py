"""Plans are inspected by their nodes: those of DataFusion in one place; nothing else reads their text."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lance_df"

# where facts are read that the binding has in text alone
READERS = {
    *(PACKAGE / "engine" / "plans").glob("*.py"),
    PACKAGE / "compute" / "expressions.py",
}
# methods of plans and expressions that return text
TEXTS = {
    *("display", "display_indent", "display_indent_schema", "display_graphviz"),
    *("canonical_name", "schema_name", "plan_to_sql", "expr_to_sql"),
}
# methods of plans and nodes in Spark's JVM that return text; those of Python's types are not among them
TEXTS_OF_SPARK = {
    *("toString", "treeString", "numberedTreeString", "simpleStringWithNodeId", "verboseString"),
    *("verboseStringWithSuffix", "verboseStringWithOperatorId", "explainString", "stringWithStats"),
}
PLANS_OF_SPARK = {"node", "relation", "analyzed", "optimized", "queryExecution"}


@functools.lru_cache(maxsize=2)
def nodes_of(path: Path) -> list[ast.AST]:
    """Return the syntax of a module, which several checks read."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def breaches(path: Path) -> list[str]:
    """Return where a module takes the text of a plan or of an expression."""
    return [
        f"line {node.lineno}: {node.attr}"
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr in TEXTS
    ]


def reads_of_shown(path: Path) -> list[str]:
    """Return where a module reads the text that nodes and expressions have for people."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in nodes_of(path)
        if (isinstance(node, ast.Attribute) and _is_shown(node.value))
        or (isinstance(node, ast.Compare) and any(map(_is_shown, [node.left, *node.comparators])))
        or (isinstance(node, ast.Subscript) and _is_shown(node.value))
    ]


def reads_of_spark_plans(path: Path) -> list[str]:
    """Return where a module takes the text of a plan in Spark's JVM."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in nodes_of(path)
        if (isinstance(node, ast.Attribute) and node.attr in TEXTS_OF_SPARK)
        or (isinstance(node, ast.FormattedValue) and _is_plan(node.value))
        or (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") in ("str", "repr", "format")
            and any(map(_is_plan, node.args))
        )
    ]


def _is_plan(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in PLANS_OF_SPARK or name.lower().endswith("plan")


def _is_shown(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else None
    return name == "shown" or (isinstance(node, ast.Call) and getattr(called, "id", "") == "shown")


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path not in READERS]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_reads_the_text_of_plans(path):
    assert breaches(path) == []
    assert reads_of_shown(path) == []


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "spark").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_module_reads_the_text_of_plans_of_spark(path):
    assert reads_of_spark_plans(path) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("plan.toString().count('Relation')", 1),
        ("text = df._jdf.queryExecution().optimizedPlan().treeString(True)", 1),
        ("show = node.numberedTreeString", 1),
        ("if 'Join' in str(plan): pass", 1),
        ("text = repr(query.optimizedPlan())", 1),
        ("text = f'{query.analyzed()!s}'", 1),
        ("text = f'{plan}'", 1),
        ("text = f'{field.dataType.simpleString()} {relation.name()}'", 0),
        ("text = str(spark.conf.get(name))", 0),
    ],
)
def test_a_breach_about_spark_is_seen(tmp_path, source, count):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(reads_of_spark_plans(path)) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("if 'Aggregate: ' in plan.display_indent(): pass", 1),
        ("name = expr.schema_name().partition('(')[0]", 1),
        ("texts = map(Expr.canonical_name, exprs)", 1),
        ("if 'Join' in node.shown: pass", 1),
        ("name = node.shown.partition(':')[0]", 1),
        ("if shown(expr) == 'a': pass", 1),
        ("first = expressions.shown(expr)[0]", 1),
        ("report = f'{node.shown}: {why}'", 0),
        ("columns = node.columns", 0),
    ],
)
def test_a_breach_is_seen(tmp_path, source, count):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(breaches(path)) + len(reads_of_shown(path)) == count
