"""Each switch of `lance_df.ScanOptions` saves time and nothing else."""

from __future__ import annotations

import dataclasses
import pkgutil
import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.dataset
import pytest

import lance_df
from lance_df import ScanOptions
from lance_df.errors import InvalidInputError
from lance_df.expr.nodes import Literal
from lance_df.scan.plan import ScanPlan
from lance_df.scan.request import ScanRequest
from lance_df.table.table import Table
from tests.engine.query_results import assert_same_result
from tools.conformance.contexts import Conformance, ContextKind, low_thresholds
from tools.conformance.random_statements import RandomStatements

pytestmark = pytest.mark.engine

NAMES = [field.name for field in dataclasses.fields(ScanOptions)]
RELEASE = int(datafusion.__version__.partition(".")[0])
RULES = [
    *("partial_aggregate", "partitioned_join", "string_views", "decided_filters", "scalar_subqueries"),
    *("join_side", "join_keys", "join_mode"),
]


@contextmanager
def options_of_plans() -> Iterator[set[ScanOptions]]:
    """Yield the set of the options of the scans that are planned meanwhile."""
    seen: set[ScanOptions] = set()
    plan = Table.plan

    def planned(self: Table, request: ScanRequest) -> ScanPlan:
        if request.predicate != Literal(False):  # it is planned for its schema only
            seen.add(request.options)
        return plan(self, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "plan", planned)
        yield seen


def subset(seed: int) -> ScanOptions:
    rng = random.Random(seed)
    return ScanOptions(**{name: rng.random() < 0.5 for name in NAMES})


OPTIONS = {
    "all": ScanOptions(),
    "none": ScanOptions(**dict.fromkeys(NAMES, False)),
    **{f"subset {seed}": subset(seed) for seed in range(8)},
}


@pytest.mark.parametrize("over", ["tables", "namespaces", "plain"])
@pytest.mark.parametrize("chosen", OPTIONS)
def test_random_statements_return_the_same(chosen: str, over: str, tmp_path: Path) -> None:
    seed = list(OPTIONS).index(chosen)
    kind: ContextKind = "plain" if over == "plain" else "session"
    statements = RandomStatements(seed)
    joins = {"partitioned_joins": ["auto", "always", "never"][seed % 3]} if kind == "session" else {}
    with low_thresholds():
        conformance = Conformance(
            tmp_path,
            kind,
            16,
            namespaces=over == "namespaces" or (over == "plain" and seed % 2 == 1),
            scan_options=OPTIONS[chosen],
            **joins,
        )
        for name, rows in statements.tables.items():
            conformance.add_table(name, rows)
        for number, sql in enumerate(islice(statements, 40)):
            conformance.run(sql, f"statement {number}")
    assert not conformance.differences, "\n".join(map(str, conformance.differences))
    assert conformance.counts["statements compared"] > 30
    assert conformance.counts["statements compared that fail in both"] < 10


NUM_ROWS = 3000
ROWS = pa.table(
    {
        "id": range(NUM_ROWS),
        "p": [number % 30 for number in range(NUM_ROWS)],
        "s": [f"a value of {number % 7}" for number in range(NUM_ROWS)],
    }
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    lance_df.write_dataset(ROWS, root / "t.lance", max_rows_per_file=100)
    lance_df.write_dataset(ROWS.slice(0, 400), root / "u.lance")
    namespace = lance_df.PartitionedNamespace.create(
        root / "ns", ROWS.schema, [lance_df.partition.identity("p")]
    )
    namespace.append(ROWS)
    return root


@pytest.fixture(scope="module")
def memory() -> datafusion.SessionContext:
    ctx = datafusion.SessionContext()
    for name, rows in (("t", ROWS), ("u", ROWS.slice(0, 400)), ("ns", ROWS)):
        ctx.register_record_batches(name, [rows.to_batches()])
    return ctx


@pytest.fixture
def low() -> Iterator[None]:
    with low_thresholds():
        yield


STATEMENTS = {
    "partial_aggregate": "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY s",
    "partitioned_join": "SELECT a.id FROM ns AS a JOIN ns AS b ON a.p = b.p AND a.id = b.id ORDER BY a.id",
    "string_views": "SELECT p % 3 AS r, max(s) AS m FROM t GROUP BY p % 3 ORDER BY r",
    "decided_filters": "SELECT id FROM ns WHERE abs(p) = 3 AND id > 10 ORDER BY id",
    "join_side": "SELECT t.id FROM t JOIN u ON t.id = u.id ORDER BY t.id",
    "join_keys": "SELECT t.id FROM t JOIN u ON t.id = u.id WHERE u.p = 3 ORDER BY t.id",
    "scalar_subqueries": "SELECT p, count(*) AS n FROM t GROUP BY p HAVING count(*) > "
    "(SELECT count(*) / 10 AS few FROM t JOIN u ON t.id = u.id) ORDER BY p",
    "join_mode": "SELECT t.id FROM t JOIN u ON t.id = u.id ORDER BY t.id",
}


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_switched_off_is_not_asked(rule: str, root: Path, memory: Any) -> None:
    if rule == "scalar_subqueries" and RELEASE < 55:
        pytest.skip("earlier releases do this themselves")
    statement = STATEMENTS[rule]
    options = ScanOptions(partial_aggregate=rule == "partial_aggregate")  # it leaves nothing to string_views
    on = lance_df.connect(root, scan_options=options)
    off = lance_df.connect(root, scan_options=dataclasses.replace(options, **{rule: False}))
    assert rule in {each.rule for each in on.explain_scan(statement).rules}
    assert rule not in {each.rule for each in off.explain_scan(statement).rules}
    for ctx in (on, off):
        assert_same_result(ctx.sql(statement), memory.sql(statement))


@pytest.mark.usefixtures("low")
def test_keys_that_are_there_twice(root: Path, memory: Any) -> None:
    ctx = lance_df.connect(root)
    for table in ("t", "ns"):
        for columns in ("s, s AS r, count(*) AS n", "p, p AS q, sum(id) AS n, min(s) AS m", "s, s AS r"):
            query = f"SELECT {columns} FROM {table} GROUP BY 1, 2 ORDER BY 2"
            assert_same_result(ctx.sql(query), memory.sql(query))


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.list_(pa.float64())], ids=str)
def test_zeros_are_distinct_as_they_are_in_memory(tmp_path: Path, kind: pa.DataType, is_on: bool) -> None:
    values = [0.0, -0.0, float("nan"), None, 1.0] * 200
    stored: list[Any] = [[value] for value in values] if pa.types.is_list(kind) else values
    rows = pa.table({"p": [number % 2 for number in range(1000)], "f": pa.array(stored, kind)})
    lance_df.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=100)
    memory = datafusion.SessionContext()
    memory.register_record_batches("t", [rows.to_batches()])
    ctx = lance_df.connect(tmp_path, scan_options=ScanOptions(partial_aggregate=is_on))
    for columns in ("count(DISTINCT f) AS n", "count(DISTINCT f) AS n, count(*) AS m, max(p) AS h"):
        for query in (f"SELECT {columns} FROM t", f"SELECT p, {columns} FROM t GROUP BY p ORDER BY p"):
            assert_same_result(ctx.sql(query), memory.sql(query))


def test_every_rule_has_a_switch() -> None:
    from lance_df.engine.optimizer.driver import RULES as all_rules

    assert {rule.name for rule in all_rules} == set(RULES)
    assert set(RULES) <= set(NAMES)


def test_the_modules_of_rules_are_the_rules() -> None:
    from lance_df.engine.optimizer import rules
    from lance_df.engine.optimizer.driver import RULES as all_rules

    modules = {module.name for module in pkgutil.iter_modules(rules.__path__)}
    assert modules == {rule.name for rule in all_rules}


@pytest.mark.parametrize("wrong", [None, True, {"statistics": False}])
def test_options_are_scan_options(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"lance_df\.ScanOptions"):
        lance_df.connect(scan_options=wrong)


@pytest.mark.parametrize("wrong", [None, "no", 0])
def test_switches_are_on_or_off(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"ScanOptions\.statistics must be True or False, got"):
        lance_df.ScanOptions(statistics=wrong)


def test_tables_are_registered_with_options(root: Path, memory: Any) -> None:
    for ctx in (datafusion.SessionContext(), lance_df.connect()):
        lance_df.register(ctx, "t", root / "t.lance", scan_options=OPTIONS["none"])
        with options_of_plans() as seen:
            assert_same_result(ctx.sql(STATEMENTS["string_views"]), memory.sql(STATEMENTS["string_views"]))
        assert seen == {OPTIONS["none"]}
    with pytest.raises(InvalidInputError, match=r"lance_df\.ScanOptions"):
        lance_df.register(datafusion.SessionContext(), "t", root / "t.lance", scan_options=True)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="scan_options"):
        lance_df.register(
            datafusion.SessionContext(), "t", pyarrow.dataset.dataset(ROWS), scan_options=OPTIONS["none"]
        )


def test_options_hold_for_frames_of_tables(root: Path, memory: Any) -> None:
    ctx = lance_df.connect(root, scan_options=OPTIONS["none"])
    frame = ctx.table("t").filter(datafusion.col("id") < datafusion.lit(7))
    assert_same_result(frame, memory.table("t").filter(datafusion.col("id") < datafusion.lit(7)))
