"""The rows of several frames, computed one after the other, as one DataFusion table.

DataFusion starts all inputs of a union at once, and a hash join does not spill, so all build sides would be
in memory at the same time. Here, a few threads each compute one frame, start the next frame when it is done,
and wait if the consumer does not take their batches.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from lance_df.compute.compat import DataFrame, PlainSessionContext, Table
from lance_df.engine.optimizer.rules.partitioned_join.unit_tables import Turns
from lance_df.engine.plans.nodes import NO_LIMIT
from lance_df.exits import busy, check_exit
from lance_df.forks import Origin, new_lock

_POLL_SECONDS: Final = 0.1
# If a DataFusion thread waits here for longer, it may be the one that a frame needs to continue.
_PATIENCE_SECONDS: Final = 0.005


# the number of a frame, and a function that starts its computation
_Planned: TypeAlias = tuple[int, Callable[[], Iterator[Any]]]


class Width(NamedTuple):
    """The context that plans a frame, and the number of partitions of its scans."""

    ctx: PlainSessionContext
    num_partitions: int


def streamed(
    ctx: PlainSessionContext,
    frames: Sequence[DataFrame],
    at_once: int,
    done: Callable[[int], None] = lambda _: None,
    wide: Width | None = None,
    turns: Turns | None = None,
) -> DataFrame:
    """Return a frame with the rows of all ``frames``, which have the same schema.

    Parameters
    ----------
    frames
        With ``turns``, all units may share one frame.
    at_once
        The number of frames that are computed at the same time.
    done
        Called with the number of a frame when all of its rows have been computed.
    wide
        The settings with which several threads compute one frame, if none of these threads waits for the
        rows.
    turns
        Records the number of the frame that is being planned.
    """
    # a filter cannot pass a LIMIT, so the table need not apply filters
    table = Table(_Stream(Width(ctx, 1), frames, at_once, done, wide, turns or Turns()))
    return PlainSessionContext.read_table(ctx, table).limit(NO_LIMIT)


class _Stream(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """The pyarrow dataset interface that DataFusion uses; see `lance_df.engine.provider`."""

    def __init__(
        self,
        narrow: Width,
        frames: Sequence[DataFrame],
        at_once: int,
        done: Callable[[int], None],
        wide: Width | None,
        turns: Turns,
    ) -> None:
        self._turns = turns
        self._narrow = narrow
        self._wide = wide or narrow
        self._frames = frames
        self._at_once = min(at_once, len(frames))
        self._done = done
        self._schema: pa.Schema = frames[0].schema()

    # see `LanceTableProvider.schema`
    schema = property(attrgetter("_schema"))

    def scanner(self, columns: list[str] | None = None, **_: Any) -> _Scan:
        return _Scan(self._projected(columns), lambda: iter(()))

    def get_fragments(self, filter: pc.Expression | None = None) -> list[_Fragment]:  # noqa: ARG002
        return [_Fragment(self)]

    def scan(self, columns: list[str] | None) -> _Scan:
        schema = self._projected(columns)
        return _Scan(schema, lambda: self._read(schema))

    def _projected(self, columns: list[str] | None) -> pa.Schema:
        if columns is None:
            return self._schema
        return pa.schema([self._schema.field(name) for name in columns], self._schema.metadata)

    def _read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        is_ours = not isinstance(threading.current_thread(), threading._DummyThread)
        how = self._wide if is_ours else self._narrow
        run = _Run(how, self._frames, self._at_once, self._done, self._turns, is_ours)
        try:
            while True:
                with busy():
                    batch = run.next_batch(None if is_ours else _PATIENCE_SECONDS)
                if batch is None:
                    return
                yield _conform(batch, schema)
        finally:
            run.stop()


class _Fragment:
    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def scanner(self, schema: pa.Schema, columns: list[str] | None = None, **_: Any) -> _Scan:  # noqa: ARG002
        return self._stream.scan(columns)


class _Scan:
    def __init__(self, schema: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.projected_schema = schema
        self.to_batches = read


class _Run:
    """One execution, with threads that put batches into a queue.

    Parameters
    ----------
    may_stream
        Whether a frame may use DataFusion's threads, which a stream needs to start. If DataFusion's threads
        consume the batches, all of them may wait here, so that none is left for a stream. In that case, a
        frame is computed as a whole.
    """

    def __init__(
        self,
        how: Width,
        frames: Sequence[DataFrame],
        at_once: int,
        done: Callable[[int], None],
        turns: Turns,
        may_stream: bool,
    ) -> None:
        self._how = how
        self._turns = turns
        self._may_stream = may_stream
        self._frames = enumerate(frames)
        self._done = done
        self._lock = new_lock()
        self._stopped = threading.Event()
        self._queue: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(2 * at_once)
        self._origin = Origin()
        self._running = at_once
        for _ in range(at_once):
            threading.Thread(target=self._work, name="lance_df-join", daemon=True).start()

    def next_batch(self, patience: float | None) -> pa.RecordBatch | None:
        """Return the next batch, None at the end, or an empty one if ``patience`` seconds have passed."""
        while self._running:
            self._origin.check()
            try:
                item = self._queue.get(timeout=patience or _POLL_SECONDS)
            except queue.Empty:
                check_exit()
                if patience is None:
                    continue
                return _NOTHING
            if isinstance(item, BaseException):
                raise item
            if item is not None:
                return item
            self._running -= 1
        return None

    def stop(self) -> None:
        """Stop the threads, because the consumer needs no more batches."""
        self._stopped.set()

    def _work(self) -> None:
        is_wide = self._may_stream and self._how.num_partitions > 1
        try:
            with closing(self._planned_ahead() if is_wide else self._planned_in_turn()) as frames:
                for number, begin in frames:
                    if not self._compute(begin):
                        return
                    self._done(number)
        except BaseException as err:  # noqa: BLE001 - raised again in the consumer
            self._put(err)
        finally:
            self._put(None)

    def _next_frame(self) -> tuple[int, DataFrame] | None:
        with self._lock:
            return next(self._frames, None)

    def _planned_in_turn(self) -> Generator[_Planned]:
        while (numbered := self._next_frame()) is not None:
            number, frame = numbered
            yield number, partial(self._begun, number, frame)

    def _planned_ahead(self) -> Generator[_Planned]:
        """Yield each frame with the function that starts it, and plan the next frame in the meantime."""
        with ThreadPoolExecutor(1, "lance_df-join-plan") as planner:

            def planned() -> Future[_Planned] | None:
                numbered = self._next_frame()
                return None if numbered is None else planner.submit(self._planned, *numbered)

            upcoming = planned()
            while upcoming is not None:
                current = upcoming.result()
                upcoming = planned()
                yield current

    def _planned(self, number: int, frame: DataFrame) -> _Planned:
        # starting a plan of several partitions would start each of them; the limit combines them into one
        whole = self._how.ctx.create_dataframe_from_logical_plan(frame.limit(NO_LIMIT).logical_plan())
        with self._turns.of(number, self._how.num_partitions):
            plan = whole.execution_plan()
        return number, lambda: iter(self._how.ctx.execute(plan, 0))

    def _begun(self, number: int, frame: DataFrame) -> Iterator[Any]:
        # a frame keeps the hash tables of its computation; discarding this copy frees them
        frame = self._how.ctx.create_dataframe_from_logical_plan(frame.logical_plan())
        if self._may_stream:
            with self._turns.alone(number, self._how.num_partitions):
                return iter(frame.execute_stream())
        with self._turns.of(number, self._how.num_partitions):
            return iter(frame.collect())

    def _compute(self, begin: Callable[[], Iterator[Any]]) -> bool:
        """Queue all batches of a frame; return False if the consumer needs no more batches."""
        batches: Iterator[Any] | None = None
        while True:
            with busy():
                batches = begin() if batches is None else batches
                batch = next(batches, None)
            if batch is None:
                return True
            if not self._put(batch if isinstance(batch, pa.RecordBatch) else batch.to_pyarrow()):
                return False

    def _put(self, item: pa.RecordBatch | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False


_NOTHING: Final = pa.record_batch([pa.nulls(0)], ["nothing"])


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch is _NOTHING:
        arrays = [pa.nulls(0, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch.select([])
    if not len(schema):
        return batch.select([])
    return pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
