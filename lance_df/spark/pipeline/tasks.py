"""Run functions in Spark tasks, and distribute work to tasks.

A Python task costs Spark some 50 ms even for little work, so one task gets many small items.
"""

from __future__ import annotations

import heapq
import os
import pickle
import warnings
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

from lance_df.errors import InvalidInputError
from lance_df.spark.failures import errors_of_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")
R = TypeVar("R")

MIN_TASK_BYTES: Final = 1024 * 1024
TASK_BYTES: Final = 256 * 1024 * 1024
# The cost of opening a table or a fragment, in bytes of a read.
OPENING_BYTES: Final = 32 * 1024
# The number of tasks for each worker, so that all workers end at about the same time.
_WAVES: Final = 2
_WORK: Final = pa.schema([("number", pa.int32()), ("work", pa.binary())])
_RESULTS: Final = "number int, result binary"


class Sized(Protocol):
    """Work with an approximate number of bytes to read."""

    @property
    def num_bytes(self) -> int: ...


S = TypeVar("S", bound=Sized)


def num_workers(spark: SparkSession) -> int:
    """Return the number of tasks that run at once, or of local CPUs if Spark Connect does not report it."""
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except PySparkException:
        return os.cpu_count() or 1


def shared_out(items: Sequence[S], num_workers: int, task_bytes: int = TASK_BYTES) -> list[list[S]]:
    """Distribute work to tasks with about ``task_bytes`` each, or fewer bytes if there are many workers.

    A larger item gets a separate task.
    """
    count = _num_tasks(items, num_workers, task_bytes)
    tasks: list[list[S]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for item in sorted(items, key=lambda item: -item.num_bytes):
        load, number = heapq.heappop(loads)
        tasks[number].append(item)
        heapq.heappush(loads, (load + item.num_bytes, number))
    return [task for task in tasks if task]


def cut_in_order(items: Sequence[S], num_workers: int, task_bytes: int = TASK_BYTES) -> list[Sequence[S]]:
    """Distribute work as `shared_out` does, with adjacent items in the same task."""
    if not items:
        return []
    sizes = np.array([item.num_bytes for item in items], np.float64) + 1
    # an item goes to the task that has its middle
    numbers = (np.cumsum(sizes) - sizes / 2) * _num_tasks(items, num_workers, task_bytes) // sizes.sum()
    bounds = np.flatnonzero(np.diff(numbers, prepend=-1, append=np.inf)).tolist()
    return [items[start:stop] for start, stop in pairwise(bounds)]


def check_task_bytes(task_bytes: object) -> None:
    """Raise `InvalidInputError` unless the argument is a number of bytes."""
    if isinstance(task_bytes, bool) or not isinstance(task_bytes, int) or task_bytes < 1:
        raise InvalidInputError(f"task_bytes must be an integer of at least 1, got {task_bytes!r}")


def _num_tasks(items: Sequence[S], num_workers: int, task_bytes: int) -> int:
    total = sum(item.num_bytes for item in items)
    target = max(min(MIN_TASK_BYTES, task_bytes), min(task_bytes, -(-total // (_WAVES * num_workers))))
    return min(len(items), max(1, -(-total // target)))


def evenly(items: Sequence[T], num_workers: int, least: int) -> list[Sequence[T]]:
    """Distribute items to tasks with equal numbers of items, but not fewer than ``least`` each."""
    count = max(1, min(_WAVES * num_workers, len(items) // least))
    # adjacent items often have similar sizes, so they go to different tasks
    return [items[number::count] for number in range(count)] if items else []


def run_in_tasks(spark: SparkSession, function: Callable[[T], R], work: Sequence[T]) -> list[R]:
    """Return the results of a function for each piece of work, in order, computed in one task each.

    Parameters
    ----------
    function
        A function of a module, or a `functools.partial` of one, because it is pickled by name. Spark runs a
        task again if it dies.

    Raises
    ------
    LanceError
        A task failed. Spark's error is the cause.
    """
    if not work:
        return []
    with errors_of_spark():
        results_ = map_batches(_tasks(spark, function, work), _run, _RESULTS).toArrow()
    results = dict(zip(results_["number"].to_pylist(), results_["result"], strict=True))
    return [pickle.loads(results[number].as_py()) for number in range(len(work))]


def rows_in_tasks(
    spark: SparkSession,
    function: Callable[[T], Iterator[pa.RecordBatch]],
    work: Sequence[T],
    schema: StructType,
) -> DataFrame:
    """Return the rows that a function yields for each piece of work, computed in one task each.

    Parameters
    ----------
    function
        As for `run_in_tasks`.
    schema
        The schema of the rows.
    """
    if not work:
        return spark.createDataFrame([], schema)
    return map_batches(_tasks(spark, function, work), _yield_rows, schema)


def map_batches(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Return the rows that a function computes from the batches of each task."""
    with warnings.catch_warnings():
        # the warning is about pandas, which is not used here
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(function, schema)


def _tasks(spark: SparkSession, function: Callable[[T], object], work: Sequence[T]) -> DataFrame:
    payload = [pickle.dumps((function, piece)) for piece in work]
    rows = pa.table([pa.array(range(len(work)), pa.int32()), pa.array(payload, pa.binary())], schema=_WORK)
    return spark.createDataFrame(rows).repartitionById(len(work), "number")


def map_in_tasks(
    spark: SparkSession, function: Callable[[T], R], items: Sequence[T], /, *, least: int
) -> list[R]:
    """Return the results of a function for each item, in order, with at least ``least`` items per task.

    Raises
    ------
    LanceError
        A task failed. Spark's error is the cause.
    """
    tasks = evenly(items, num_workers(spark), least)
    by_task: list[list[R]] = run_in_tasks(spark, partial(_map, function), tasks)
    results = {
        number: result
        for first, of_task in enumerate(by_task)
        for number, result in zip(range(first, len(items), len(tasks)), of_task, strict=True)
    }
    return [results[number] for number in range(len(items))]


def _map(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]


def _yield_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for work in batch.column("work"):
            function, piece = pickle.loads(work.as_py())
            yield from function(piece)


def _run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number, work in zip(batch.column("number"), batch.column("work"), strict=True):
            function, piece = pickle.loads(work.as_py())
            result = pa.array([pickle.dumps(function(piece))], pa.binary())
            yield pa.RecordBatch.from_arrays(
                [pa.array([number.as_py()], pa.int32()), result], ["number", "result"]
            )
