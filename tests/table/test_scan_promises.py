"""What plans promise holds whatever the limits are: small fragments joined or not, tasks large or small."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.expr.nodes import Column, Comparison, In, Operator, Predicate
from lance_df.scan.request import (
    AggregateCall,
    AggregateFunction,
    PartialAggregate,
    Promise,
    ScanRequest,
)
from lance_df.scan.run import run_ahead, run_tasks
from lance_df.table.open import open_table
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.limits import SCAN_LIMITS
from lance_df.table.scan.plan import plan_scan
from lance_df.table.scan.small_fragments import SmallFragmentsTask
from lance_df.table.table import Table

LIMITS: dict[str, dict[str, int]] = {
    "default": {},
    "apart": {"max_joined_fragments": 1},
    "pairs": {"max_joined_fragments": 2},
    "joined": {"max_joined_fragments": 10**6, "max_joined_rows": 10**6, "max_joined_bytes": 10**9},
    "small tasks": {
        "tasks_per_core": 10**6,
        "min_task_rows": 5,
        "max_task_rows": 50,
        "task_alignment": 1,
        "max_window_rows": 20,
    },
    "one by one": {"sparse_ratio": 10**9, "gathered_rows": 1, "max_pruned_tasks": 1},
    "gathered": {"sparse_ratio": 10**9, "gathered_rows": 10**9, "max_window_rows": 16},
    "dense": {"sparse_ratio": 1},
}


_ROWS_OF = AggregateCall(AggregateFunction.COUNT_ROWS, "n", None, pa.int64())
_EXTREMES_OF_ID = AggregateCall(AggregateFunction.EXTREMES, "id", "id", pa.int64())


def _rows(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count)
    return pa.table({"id": ids, "text": [f"{n % 7}" for n in ids], "half": pa.array(ids / 2)})


def _write(folder: Path, version: str) -> None:
    """Write small fragments around a large one, with deleted rows in some of both, and one that is gone."""
    sizes = [7] * 9 + [1100] + [5] * 6 + [1] * 4
    starts = np.cumsum([0, *sizes]).tolist()
    for start, size in zip(starts, sizes, strict=False):
        lance_df.write_dataset(
            _rows(start, size),
            str(folder),
            mode="append" if start else "create",
            data_storage_version=version,
        )
    table = lance_df.dataset(str(folder))
    table.delete("id IN (2, 15, 16, 500, 501, 1200) OR id BETWEEN 21 AND 27 OR (id % 5 = 0 AND id < 60)")
    if version == "2.2":
        table.create_scalar_index("half", "ZONEMAP", rows_per_zone=64)


@pytest.fixture(scope="module", params=["legacy", "2.2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("promises") / "t"
    _write(folder, request.param)
    return folder


@pytest.fixture(params=list(LIMITS))
def table(folder: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    with SCAN_LIMITS.replaced(**LIMITS[request.param]):
        yield open_table(str(folder))


def _greater(name: str, value: float) -> Predicate:
    return Comparison(Column((name,)), Operator.GT, pa.scalar(value))


PREDICATES: dict[str, tuple[Predicate | None, str]] = {
    "all": (None, "true"),
    "most": (_greater("id", 3), "id > 3"),
    "by index": (_greater("half", 500.0), "half > 500"),
    "few": (
        In(Column(("id",)), pa.array([1, 8, 700, 1105, 1170])),
        "id IN (1, 8, 700, 1105, 1170)",
    ),
    "none": (_greater("id", 10**6), "false"),
}


def _expected(folder: Path, where: str) -> pa.Table:
    return lance.dataset(str(folder)).to_table(columns=["id"], filter=where, with_row_address=True)


def _owners(batch: pa.RecordBatch) -> list[int]:
    return np.unique(batch.column(ROW_ADDRESS).to_numpy() >> np.uint64(32)).tolist()


@pytest.mark.parametrize("requires", [Promise.COMPLETE, Promise.PER_FRAGMENT])
def test_plans_keep_their_promises(folder: Path, table: Table, requires: Promise) -> None:
    variants = [
        ("most", 2, ("id",), 1),
        ("few", None, (), 1),
        ("by index", None, (), 1),
        ("all", None, (), 3),
    ]
    for name, batch_rows, columns, num_threads in variants:
        predicate, where = PREDICATES[name]
        expected = _expected(folder, where)
        request = ScanRequest(
            columns=columns,
            predicate=predicate,
            with_row_address=True,
            batch_rows=batch_rows,
            requires=requires,
        )
        plan = plan_scan(table, request)
        assert Promise.COMPLETE | Promise.ORDERED | requires == plan.promises
        rows = pa.Table.from_batches(run_tasks(plan.tasks, num_threads=num_threads), plan.schema)
        assert rows.equals(expected.select(rows.column_names).cast(rows.schema)), where
        if requires is Promise.PER_FRAGMENT:
            tasks = [{each for batch in task.read() for each in _owners(batch)} for task in plan.tasks]
            assert all(len(owners) <= 1 for owners in tasks)


def test_plans_that_are_kept_promise_the_same(folder: Path, table: Table) -> None:
    predicate, where = PREDICATES["few"]
    plan = table.plan(ScanRequest(predicate=predicate, requires=Promise.COMPLETE))
    assert plan.promises == Promise.COMPLETE | Promise.ORDERED
    for _ in range(2):
        rows = pa.Table.from_batches(run_ahead(plan.tasks, 2), plan.schema)
        assert rows["id"].to_pylist() == _expected(folder, where)["id"].to_pylist()


@pytest.mark.parametrize("name", ["all", "few"])
def test_fragments_come_in_the_order_of_the_request(folder: Path, table: Table, name: str) -> None:
    predicate, where = PREDICATES[name]
    ids = table.fragments.ids.tolist()
    wanted = [*reversed(ids[5:]), *ids[:3]]
    request = ScanRequest(
        predicate=predicate,
        with_row_address=True,
        requires=Promise.COMPLETE | Promise.ORDERED,
        fragment_ids=tuple(wanted),
    )
    rows = pa.Table.from_batches(run_tasks(plan_scan(table, request).tasks))
    expected = _expected(folder, where)
    owners = expected[ROW_ADDRESS].to_numpy() >> np.uint64(32)
    order = np.concatenate([np.flatnonzero(owners == each) for each in wanted])
    assert rows[ROW_ADDRESS].equals(expected[ROW_ADDRESS].take(order))


@pytest.mark.parametrize("name", ["all", "by index"])
@pytest.mark.parametrize("columns", [("id",), ()])
def test_ranges_of_rows_are_physical(folder: Path, table: Table, name: str, columns: tuple[str, ...]) -> None:
    predicate, where = PREDICATES[name]
    large = int(table.fragments.ids[int(np.argmax(table.fragments.physical_rows))])
    offsets = _expected(folder, where)[ROW_ADDRESS].to_numpy()
    offsets = offsets[offsets >> np.uint64(32) == large] & np.uint64(0xFFFFFFFF)
    cuts = [0, 437, 1024, 9999]
    for start, stop in itertools.pairwise(cuts):
        for with_row_address in (True, False):
            request = ScanRequest(
                columns=columns,
                predicate=predicate,
                with_row_address=with_row_address,
                requires=Promise.COMPLETE | Promise.ORDERED,
                fragment_ids=(large,),
                rows=(start, stop),
            )
            batches = [batch for task in plan_scan(table, request).tasks for batch in task.read()]
            wanted = offsets[(offsets >= start) & (offsets < stop)].tolist()
            assert sum(batch.num_rows for batch in batches) == len(wanted)
            if with_row_address:
                parts = [batch.column(ROW_ADDRESS).to_numpy() for batch in batches]
                found = np.concatenate([np.empty(0, np.uint64), *parts])
                assert (found & np.uint64(0xFFFFFFFF)).tolist() == wanted
    with pytest.raises(InvalidInputError, match="one fragment"):
        plan_scan(table, ScanRequest(rows=(0, 1)))


def test_small_fragments_are_joined_unless_that_is_excluded(folder: Path) -> None:
    table = open_table(str(folder))

    def has_joined(request: ScanRequest) -> bool:
        return any(isinstance(task, SmallFragmentsTask) for task in plan_scan(table, request).tasks)

    assert has_joined(ScanRequest())
    assert not has_joined(ScanRequest(requires=Promise.PER_FRAGMENT))
    with SCAN_LIMITS.replaced(max_joined_fragments=1):
        assert not has_joined(ScanRequest())


@pytest.mark.parametrize(
    "excluded",
    [
        {"limit": 3},
        {"pruning_predicate": _greater("id", 3)},
        {"columns": None, "output": PartialAggregate(("id",))},
        {"columns": None, "output": PartialAggregate(("id",), (_ROWS_OF,))},
        {"columns": None, "output": PartialAggregate((), (_EXTREMES_OF_ID,))},
    ],
)
def test_what_a_request_excludes_cannot_be_required(folder: Path, excluded: dict[str, object]) -> None:
    table = open_table(str(folder))
    plan = plan_scan(table, ScanRequest(**{"columns": ("id",), **excluded}))  # type: ignore[arg-type]
    assert Promise.COMPLETE not in plan.promises
    keeps_order = "output" not in excluded
    assert (Promise.ORDERED in plan.promises) == keeps_order
    with pytest.raises(InvalidInputError, match="COMPLETE"):
        plan_scan(table, ScanRequest(**{"columns": ("id",), "requires": Promise.COMPLETE, **excluded}))  # type: ignore[arg-type]


def test_rows_that_a_hint_needs_come_in_order(folder: Path, table: Table) -> None:
    hint, where = PREDICATES["few"]
    request = ScanRequest(
        columns=("id",),
        pruning_predicate=hint,
        with_row_address=True,
        requires=Promise.ORDERED,
        window_rows=1024 * 1024,
    )
    rows = pa.Table.from_batches(run_tasks(plan_scan(table, request).tasks))
    every = _expected(folder, "true")
    places = pc.index_in(rows[ROW_ADDRESS], value_set=every[ROW_ADDRESS]).to_numpy()
    assert (np.diff(places) > 0).all()
    assert set(_expected(folder, where)["id"].to_pylist()) <= set(rows["id"].to_pylist())


# who answers queries: what they rely on is what the request says
_READERS = {
    "engine/tables/catalog.py",
    "engine/tables/plain_table.py",
    "engine/provider.py",
    "engine/query.py",
    "engine/statement.py",
    "scanner.py",
    "dataset.py",
    "api/namespaces/reading.py",
    "api/namespaces/namespace.py",
    "namespace/snapshot.py",
    "spark/splits.py",
}


def test_whoever_writes_says_what_it_relies_on() -> None:
    package = Path(lance_df.__file__).parent
    silent = []
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "ScanRequest":
                keywords = {keyword.arg for keyword in node.keywords}
                is_nothing = any(
                    k.arg == "fragment_ids" and ast.unparse(k.value) == "()" for k in node.keywords
                )
                if not ("requires" in keywords or name in _READERS or is_nothing):
                    silent.append(f"{name}:{node.lineno}")
    assert not silent
