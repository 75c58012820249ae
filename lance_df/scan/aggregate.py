"""Partial aggregates of batches, which a scan returns instead of rows if an engine merges them anyway."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.scan.dictionary_groups import grouped
from lance_df.scan.plan import MappedTask
from lance_df.scan.request import AggregateFunction, Promise
from lance_df.scan.runs import MAX_RUN_ROWS, SummedColumn, are_compared, find_runs

if TYPE_CHECKING:
    from lance_df.scan.plan import ScanPlan
    from lance_df.scan.request import PartialAggregate

_ONE: Final = pa.scalar(1, pa.int64())


class PartialAggregator:
    """Computes partial aggregates of batches of rows. Safe to share between threads.

    Equal keys are grouped where this is fast: across all rows if all keys are stored as dictionaries and only
    rows are counted, and across neighbouring rows otherwise.

    Parameters
    ----------
    output
        The aggregate. For extremes, which `extremes_of` computes, all rows are a valid result.
    columns
        The schema of ``output.columns``.

    Attributes
    ----------
    schema
        The schema of the result: the keys, then the calls.
    """

    def __init__(self, output: PartialAggregate, columns: pa.Schema) -> None:
        output.check()
        self._num_keys = len(output.keys)
        self._calls = [
            (call.function, 0 if call.column is None else columns.names.index(call.column), call.data_type)
            for call in output.calls
        ]
        results = [pa.field(call.name, call.data_type, nullable=call.is_nullable) for call in output.calls]
        self.schema: pa.Schema = pa.schema([*list(columns)[: self._num_keys], *results], columns.metadata)
        types = columns.types[: self._num_keys]
        self._compares_keys = all(map(are_compared, types))
        self.takes_dictionaries = bool(types) and all(
            function is AggregateFunction.COUNT_ROWS for function, _, _ in self._calls
        )

    def of_dictionaries(self, columns: Sequence[pa.Array]) -> list[pa.Array] | None:
        """Return the aggregate of keys that may be dictionaries; None if the keys must be plain arrays.

        Only call this if ``takes_dictionaries`` is true.
        """
        groups = grouped(columns)
        return None if groups is None else [*groups[0], *([groups[1]] * len(self._calls))]

    def of_rows(self, columns: Sequence[pa.Array], num_rows: int) -> list[pa.Array]:
        """Return the aggregate of plain arrays, one for each of ``output.columns``."""
        keys = list(columns[: self._num_keys])
        if not self._calls:
            return keys
        summed = {
            number: SummedColumn(_values(function, columns[index]), data_type)
            for number, (function, index, data_type) in enumerate(self._calls)
            if function is not AggregateFunction.COUNT_ROWS
        }
        runs = None
        if self._compares_keys:
            max_rows = min([MAX_RUN_ROWS, *(column.max_rows for column in summed.values())])
            runs = find_runs(keys, num_rows, max_rows)
        if runs is None:
            counts = pa.repeat(_ONE, num_rows)
            results = [summed[n].each() if n in summed else counts for n in range(len(self._calls))]
            return [*keys, *results]
        counts = pa.array(np.diff(runs.ends, prepend=0), pa.int64())
        results = [summed[n].of_runs(runs) if n in summed else counts for n in range(len(self._calls))]
        return [*runs.keys, *results]

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the aggregate of a batch with ``output.columns``."""
        arrays = self.of_rows(batch.columns, batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def aggregated(plan: ScanPlan, output: PartialAggregate) -> ScanPlan:
    """Return a plan whose batches are partial aggregates of the batches of a plan of rows.

    Parameters
    ----------
    plan
        A plan with the columns ``output.columns``.
    """
    if output.has_extremes:  # for extremes, rows are a valid result
        return plan
    aggregator = PartialAggregator(output, plan.schema)
    tasks = [MappedTask(task, partial(map, aggregator.of_batch)) for task in plan.tasks]
    return dataclasses.replace(plan, schema=aggregator.schema, promises=Promise.NOTHING, tasks=tasks)


def _values(function: AggregateFunction, column: pa.Array) -> pa.Array:
    return column.is_valid().cast(pa.int64()) if function is AggregateFunction.COUNT else column


def extremes_of(values: pa.Array) -> pa.Array | None:
    """Return the smallest and largest value, NULLs without values; None if they are not well-defined.

    DataFusion treats NaN as a value, and its result may depend on the order of rows. This is also true for
    -0.0 and 0.0.
    """
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary.take(pc.unique(values.indices))
    both = pc.min_max(values)
    if pa.types.is_floating(values.type):
        ends = (both["min"].as_py(), both["max"].as_py())
        if 0.0 in ends or pc.any(pc.is_nan(values)).as_py():
            return None
    return pa.array([both["min"], both["max"]], values.type)


def has_extremes(data_type: pa.DataType) -> bool:
    """Whether Arrow and DataFusion agree on the smallest and largest value of a type."""
    types = pa.types
    return bool(
        types.is_integer(data_type)
        or types.is_decimal128(data_type)
        or types.is_date(data_type)
        or types.is_timestamp(data_type)
        or types.is_time(data_type)
        or types.is_boolean(data_type)
        or types.is_float32(data_type)
        or types.is_float64(data_type)
        or data_type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    )
