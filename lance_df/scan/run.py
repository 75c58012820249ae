"""Run the tasks of a scan on several threads, and return their batches in table order."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, ClassVar

from lance_df.errors import LanceError
from lance_df.exits import at_exit, check_exit
from lance_df.forks import Origin, after_fork_in_child

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from lance_df.scan.plan import ScanTask

# The number of batches that a task may prepare before they are requested.
_READY_BATCHES = 2
_POLL_SECONDS = 0.1
_EXIT_SECONDS = 10.0
_THREADS_FROM_BYTES = 1024 * 1024


def run_tasks(
    tasks: Sequence[ScanTask], *, limit: int | None = None, num_threads: int | None = None
) -> Generator[pa.RecordBatch]:
    """Yield the batches of all tasks, in order.

    Parameters
    ----------
    limit
        The number of rows after which to stop; the last batch is cut.
    num_threads
        The number of tasks that run at the same time. By default one for each core, or one if the tasks are
        too small to be worth threads. A single task at a time runs in the calling thread, when its batches
        are requested.
    """
    workers = min(num_threads or (num_cores() if _is_worth_threads(tasks) else 1), max(1, len(tasks)))
    left = limit
    if left == 0:
        return
    source = run_in_turn(tasks) if workers == 1 else _in_threads(tasks, workers)
    with closing(source):
        for batch in source:
            if left is not None and batch.num_rows >= left:
                yield batch.slice(0, left)
                return
            if left is not None:
                left -= batch.num_rows
            yield batch


def run_ahead(tasks: Iterable[ScanTask], num_tasks: int) -> Generator[pa.RecordBatch]:
    """Yield the batches of tasks in order; up to ``num_tasks`` run at once, because stores respond slowly.

    Tasks are taken from the iterable while fewer than ``num_tasks`` run.
    """
    return _in_threads(tasks, num_tasks)


def run_in_turn(tasks: Iterable[ScanTask]) -> Generator[pa.RecordBatch]:
    """Yield the batches of tasks in order. This thread takes and reads one task after the other."""
    for task in tasks:
        yield from task.read()


def _is_worth_threads(tasks: Sequence[ScanTask]) -> bool:
    if len(tasks) < 2:
        return False
    num_bytes = 0
    for task in tasks:
        num_bytes += task.num_bytes
        if num_bytes >= _THREADS_FROM_BYTES:
            return True
    return False


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_threads(tasks: Iterable[ScanTask], num_threads: int) -> Generator[pa.RecordBatch]:
    """Start a few tasks ahead. A task waits when it has some batches ready, so memory is bounded."""
    waiting = iter(tasks)
    running: deque[_Output] = deque()
    workers = _Workers()
    try:
        workers.begin(num_threads)
        while True:
            while len(running) < num_threads and (task := next(waiting, None)) is not None:
                running.append(workers.start(task))
            if not running:
                return
            yield from workers.batches(running[0])
            running.popleft()
    finally:
        workers.close()


class _Output:
    """The batches of one task, of which a few may be ready. Interrupts leave no C queues locked."""

    def __init__(self) -> None:
        self.items: queue.SimpleQueue[pa.RecordBatch | BaseException | None] = queue.SimpleQueue()
        self.room: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(_READY_BATCHES):
            self.room.put(None)


class _Workers:
    """A few threads that run tasks until they are closed or Python exits.

    They are daemon threads, because a consumer that does not close them must not prevent Python from exiting.
    At exit they are stopped and joined, because threads in native code crash when the interpreter ends.
    """

    _open: ClassVar[set[_Workers]] = set()

    def __init__(self) -> None:
        self._origin = Origin()
        self._stopped = threading.Event()
        self._tasks: queue.SimpleQueue[tuple[ScanTask, _Output] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def begin(self, num_threads: int) -> None:
        """Start the threads. Call `close` to end them, even if this raises."""
        _Workers._open.add(self)
        check_exit()
        for number in range(num_threads):
            thread = threading.Thread(target=self._work, name=f"lance_df-scan-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def start(self, task: ScanTask) -> _Output:
        """Run a task and return the queue for its batches. The last item is None or an error."""
        output = _Output()
        self._tasks.put((task, output))
        if self._stopped.is_set():  # the threads may have ended before they reached the task
            output.items.put(_stopped_error())
        return output

    def batches(self, output: _Output) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a task.

        Raises
        ------
        ForkedProcessError
            The threads belong to the parent of this process.
        """
        while True:
            self._origin.check()
            item = output.items.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                check_exit()
                raise item
            output.room.put(None)
            yield item

    def close(self, seconds: float | None = None) -> None:
        """Stop the threads after their current batch, and wait for them.

        Parameters
        ----------
        seconds
            The maximum time to wait for each thread.
        """
        self._stopped.set()
        self._tasks.put(None)
        for thread in list(self._threads):
            if thread.ident is not None:  # it was started
                thread.join(seconds)
        _Workers._open.discard(self)

    @classmethod
    def close_all(cls) -> None:
        """Stop all threads that are still running."""
        for workers in list(cls._open):
            # with a timeout, because a thread may wait for a lock whose owner does not run any more
            workers.close(_EXIT_SECONDS)

    @classmethod
    def forget_all(cls) -> None:
        """Forget the threads, which belong to another process."""
        cls._open = set()

    def _work(self) -> None:
        while (started := self._tasks.get()) is not None:
            self._drain(*started)
        self._tasks.put(None)  # for the next thread

    def _drain(self, task: ScanTask, output: _Output) -> None:
        last: BaseException | None = None
        try:
            if not self._stopped.is_set():
                for batch in task.read():
                    if not self._has_room(output):
                        break
                    output.items.put(batch)
        except BaseException as err:  # noqa: BLE001 - raised again by the consumer of the batches
            last = err
        if self._stopped.is_set():
            last = _stopped_error()
        output.items.put(last)

    def _has_room(self, output: _Output) -> bool:
        """Wait until a batch may be queued; return False if the consumer needs no more batches."""
        while not self._stopped.is_set():
            try:
                output.room.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            return True
        return False


def _stopped_error() -> LanceError:
    return LanceError("the scan was stopped before its end")


at_exit(_Workers.close_all)
after_fork_in_child(_Workers.forget_all)
