"""A table in memory behind the same seam as a stored one; predicates are evaluated row by row in Python."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import pyarrow as pa

from lance_df.cache import CacheKind, Entries, TableCache
from lance_df.errors import LanceError, VersionNotFoundError
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    Truth,
)
from lance_df.expr.text import to_text
from lance_df.expr.walk import has_unknown
from lance_df.scan.plan import ScanPlan
from lance_df.scan.report import Count, Reason, TableReport
from lance_df.scan.request import ScanRequest
from lance_df.table.reading.system_columns import SYSTEM_COLUMNS
from lance_df.table.table import Table

STRUCT = pa.struct({"a": pa.int64(), "t": pa.string()})


@dataclass(eq=False)
class FakeTable(Table):
    """One version of a list of versions that tables of the same name share."""

    past: list[pa.Table]
    version: int = 0
    uri: str = "memory://fake"
    branch: str | None = None
    rows_per_task: int = 4
    fail: LanceError | None = None
    requests: list[ScanRequest] = field(default_factory=list)

    is_local = True

    def estimated_rows(self, pruning_predicate: Predicate | None = None) -> int:
        return self.past[self.version - 1].num_rows

    @cached_property
    def plan_cache(self) -> Entries[object]:
        return TableCache(max_entries=16).entries(CacheKind.PLANS)

    def sample(self, pruning_predicate: Predicate | None = None) -> None:
        return None

    def plan(self, request: ScanRequest) -> ScanPlan:
        """Plan a scan; what needs no data is not noted."""
        return fake_plan_scan(self, request)

    def __post_init__(self) -> None:
        self.version = self.version or len(self.past)

    @property
    def data(self) -> pa.Table:
        return self.past[self.version - 1]

    @property
    def schema(self) -> pa.Schema:
        return self.data.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        return self.data.schema

    def latest_version(self) -> int:
        return len(self.past)

    def latest(self) -> FakeTable:
        return self if self.version == len(self.past) else self.checkout(len(self.past))

    def checkout(self, version: object) -> FakeTable:
        number = version[1] if isinstance(version, tuple) else version
        if not isinstance(number, int) or not 1 <= number <= len(self.past):
            raise VersionNotFoundError(f"{self.uri}: version {number!r} does not exist")
        return FakeTable(
            self.past, number, self.uri, rows_per_task=self.rows_per_task, requests=self.requests
        )


def fake_plan_scan(table: FakeTable, request: ScanRequest) -> ScanPlan:
    """Plan a scan that prunes by evaluating the hint, where it is certain, on every row."""
    assert request.predicate is None or not has_unknown(request.predicate)
    table.requests.append(request)
    names = list(table.data.column_names if request.columns is None else request.columns)
    system = [pa.field(name, pa.uint64()) for name in SYSTEM_COLUMNS]
    schema = pa.schema([*table.data.schema, *system], table.data.schema.metadata)
    schema = pa.schema([schema.field(name) for name in names], schema.metadata)
    starts = range(0, table.data.num_rows, table.rows_per_task)
    tasks = [_FakeTask(table, request, schema, start) for start in starts]
    kept = [task for task in tasks if task.may_match()]
    reasons = tuple(
        Reason(to_text(each), f"kept {len(kept)} of {len(tasks)} pages")
        for each in (request.predicate, request.pruning_predicate)
        if each is not None
    )
    report = TableReport(
        table.uri,
        table.version,
        Count(len(kept), len(tasks)),
        Count(len(kept), len(tasks)),
        Count(8 * len(kept), 8 * len(tasks)),
        reasons,
    )
    return ScanPlan(schema, request.promises(), kept, lambda: report)


class _FakeTask:
    def __init__(self, table: FakeTable, request: ScanRequest, schema: pa.Schema, start: int) -> None:
        self._table, self._request, self._schema, self._start = table, request, schema, start
        self._slice = table.data.slice(start, table.rows_per_task)
        self.num_rows = self._slice.num_rows
        self.num_bytes = 8

    def may_match(self) -> bool:
        hint = self._request.pruning_predicate
        if hint is None or not self._request.options.statistics:
            return True
        return any(may_be_true(hint, row) for row in self._slice.to_pylist())

    def read(self) -> Iterator[pa.RecordBatch]:
        if self._table.fail is not None:
            raise self._table.fail
        part = self._slice
        row_ids = pa.array(range(self._start, self._start + part.num_rows), pa.uint64())
        predicate = self._request.predicate
        mask = [predicate is None or value_of(predicate, row) is True for row in part.to_pylist()]
        columns = [row_ids if name in SYSTEM_COLUMNS else part[name] for name in self._schema.names]
        if not columns:
            yield pa.record_batch([pa.nulls(sum(mask))], ["x"]).select([])
            return
        whole = pa.Table.from_arrays(columns, schema=self._schema).combine_chunks()
        yield from whole.filter(pa.array(mask, pa.bool_())).to_batches()


def may_be_true(predicate: Predicate, row: dict[str, object]) -> bool:
    """Whether a predicate that may hold Unknown can be true."""
    match predicate:
        case And(operands):
            return all(may_be_true(each, row) for each in operands)
        case Or(operands):
            return any(may_be_true(each, row) for each in operands)
        case _:
            return has_unknown(predicate) or value_of(predicate, row) is True


def value_of(predicate: Predicate, row: dict[str, object]) -> bool | None:
    """Evaluate a predicate on one row in three-valued logic."""
    match predicate:
        case Literal(value):
            return value
        case Comparison(column, operator, value):
            left, right = column_value(column, row), value.as_py()
            return None if left is None else _compare(key(left), operator, key(right))
        case In(column, values, has_null):
            left = column_value(column, row)
            if left is None:
                return None if len(values) or has_null else False
            found = key(left) in {key(value) for value in values.to_pylist()}
            return True if found else None if has_null else False
        case IsNull(Column() as column):
            return column_value(column, row) is None
        case IsNull(operand):
            return value_of(operand, row) is None
        case Truth(column):
            return column_value(column, row)
        case Not(operand):
            value = value_of(operand, row)
            return None if value is None else not value
        case And(operands):
            values = [value_of(each, row) for each in operands]
            return False if False in values else None if None in values else True
        case Or(operands):
            values = [value_of(each, row) for each in operands]
            return True if True in values else None if None in values else False
        case _:
            raise AssertionError(f"not to be evaluated: {predicate}")


def column_value(column: Column, row: dict[str, object]) -> object:
    value: object = row
    for name in column.path:
        value = None if value is None else value[name]
    return value


def key(value: object) -> object:
    """Return what orders as DataFusion does: NaN above all, -0.0 equal to 0.0, text by code point."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    if isinstance(value, int) and not isinstance(value, bool):
        return (0, value)
    if isinstance(value, str):
        return value.encode()
    return value


def _compare(left: object, operator: Operator, right: object) -> bool:
    return {
        Operator.EQ: left == right,
        Operator.NE: left != right,
        Operator.LT: left < right,
        Operator.LE: left <= right,
        Operator.GT: left > right,
        Operator.GE: left >= right,
    }[operator]


def sample_table(num_rows: int = 23) -> pa.Table:
    """Rows of every kind that filters treat specially: nulls, NaN, -0.0, extremes, text beyond ASCII."""

    def cycle(values: list[object], data_type: pa.DataType, step: int = 1) -> pa.Array:
        return pa.array([values[(row * step) % len(values)] for row in range(num_rows)], data_type)

    nan, inf = float("nan"), float("inf")
    day = dt.date
    moment = dt.datetime
    moments = [
        None,
        *(moment(2024 + i // 12, i % 12 + 1, 1 + i, i % 24, 30) for i in range(14)),
        moment(1969, 12, 31, 23),
    ]
    return pa.table(
        {
            "id": pa.array(range(num_rows), pa.int64()),
            "i": cycle([None, 1, 2, 3, 4, 5, -7, 2**31 - 1, -(2**31)], pa.int32()),
            "u": cycle([0, 2**64 - 1, None, 5], pa.uint64(), 3),
            "f": cycle([1.5, nan, -0.0, 0.0, None, inf, -inf, 2.0], pa.float64()),
            "g": cycle([0.5, nan, -0.0, None, 0.1], pa.float32(), 2),
            "d": cycle(
                [None, Decimal("1.50"), Decimal("-0.01"), Decimal("1.51"), Decimal(2)], pa.decimal128(10, 2)
            ),
            "s": cycle(["apple", "abc", None, "", "zebra", "ab", "añb", "abd\U0010ffff", "Abc"], pa.string()),
            "ls": cycle(["x", None, "yy"], pa.large_string()),
            "dic": cycle(["red", "green", None, "blue"], pa.string()).dictionary_encode(),
            "b": cycle([True, False, None], pa.bool_(), 2),
            "day": cycle(
                [None, *(day(2024, 1 + i, 3 * i + 1) for i in range(9)), day(1960, 2, 29)], pa.date32()
            ),
            "ts": cycle(moments, pa.timestamp("us")),
            "tz": cycle(moments, pa.timestamp("ms", "America/New_York"), 5),
            "st": cycle([{"a": 1, "t": "x"}, None, {"a": None, "t": "yes"}, {"a": 2, "t": None}], STRUCT),
            "odd Name.x": cycle([1, 2, None], pa.int64()),
        }
    )
