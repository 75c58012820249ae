"""Run the tasks of a scan on several threads, and return their batches in table order."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from lance_df.table.scan_plan import ScanTask

# Batches that a task may have ready before they are asked for.
_READY_BATCHES = 2
_POLL_SECONDS = 0.1
_THREADS_FROM_BYTES = 1024 * 1024

_Item: TypeAlias = "pa.RecordBatch | BaseException | None"


def run_tasks(
    tasks: Sequence[ScanTask], *, limit: int | None = None, num_threads: int | None = None
) -> Generator[pa.RecordBatch]:
    """Yield the batches of all tasks, in order.

    Parameters
    ----------
    limit
        Stop after so many rows; the last batch is cut.
    num_threads
        Tasks that run at once. By default one for each core, or a single one where they are too small to be
        worth a thread; these run when they are asked for.
    """
    workers = num_threads or (_num_cores() if _is_worth_threads(tasks) else 1)
    left = limit
    if left == 0:
        return
    source = _in_turn(tasks) if workers == 1 else _in_threads(tasks, workers)
    with closing(source):
        for batch in source:
            if left is not None and batch.num_rows >= left:
                yield batch.slice(0, left)
                return
            if left is not None:
                left -= batch.num_rows
            yield batch


def _is_worth_threads(tasks: Sequence[ScanTask]) -> bool:
    if len(tasks) < 2:
        return False
    num_bytes = 0
    for task in tasks:
        num_bytes += task.num_bytes
        if num_bytes >= _THREADS_FROM_BYTES:
            return True
    return False


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_turn(tasks: Iterable[ScanTask]) -> Generator[pa.RecordBatch]:
    for task in tasks:
        yield from task.read()


def _in_threads(tasks: Iterable[ScanTask], workers: int) -> Generator[pa.RecordBatch]:
    """Start a few tasks ahead; each waits when it has some batches ready, so memory stays bounded."""
    stopped = threading.Event()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="lance_df-scan")
    running: deque[queue.Queue[_Item]] = deque()
    waiting = iter(tasks)
    try:
        while True:
            while len(running) < workers and (task := next(waiting, None)) is not None:
                output: queue.Queue[_Item] = queue.Queue(_READY_BATCHES)
                pool.submit(_drain, task, output, stopped)
                running.append(output)
            if not running:
                return
            yield from _received(running[0])
            running.popleft()
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _received(output: queue.Queue[_Item]) -> Iterator[pa.RecordBatch]:
    while (item := output.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item


def _drain(task: ScanTask, output: queue.Queue[_Item], stopped: threading.Event) -> None:
    """Run a task in a worker; its end or its error is the last item."""
    last: _Item = None
    try:
        for batch in task.read():
            if not _offer(output, batch, stopped):
                return
    except BaseException as err:  # noqa: BLE001 - raised again where the batches are consumed
        last = err
    _offer(output, last, stopped)


def _offer(output: queue.Queue[_Item], item: _Item, stopped: threading.Event) -> bool:
    """Hand an item over; return False when nobody wants it any more."""
    while not stopped.is_set():
        try:
            output.put(item, timeout=_POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False
