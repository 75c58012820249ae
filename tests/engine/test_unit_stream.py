"""Frames that are computed one after the other leave nothing in memory."""

from __future__ import annotations

import threading
import weakref
from typing import ClassVar

import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.compute.compat import PlainSessionContext
from lance_df.engine.optimizer.rules.partitioned_join import unit_stream
from lance_df.engine.optimizer.rules.partitioned_join.unit_tables import Turns

pytestmark = pytest.mark.engine


class _Executed:
    """Stands in for a frame; counts those that are there."""

    alive: ClassVar[weakref.WeakSet[_Executed]] = weakref.WeakSet()
    most = 0

    def __init__(self, frame):
        self._frame = frame
        self.alive.add(self)
        type(self).most = max(self.most, len(self.alive))

    def execute_stream(self):
        return self._frame.execute_stream()


def test_a_frame_that_was_computed_is_gone_before_the_next_one_begins(monkeypatch):
    ctx = PlainSessionContext()
    frames = [ctx.from_arrow(pa.table({"n": [number] * 3})).select("n") for number in range(5)]
    made = PlainSessionContext.create_dataframe_from_logical_plan
    monkeypatch.setattr(
        PlainSessionContext,
        "create_dataframe_from_logical_plan",
        lambda own, plan: _Executed(made(own, plan)),
    )
    found = unit_stream.streamed(ctx, frames, 1)
    for _ in range(2):
        assert sorted(found.to_arrow_table()["n"].to_pylist()) == sorted([*range(5)] * 3)
    assert _Executed.most == 1


def test_it_is_told_which_frames_are_done():
    ctx = PlainSessionContext()
    frames = [ctx.from_arrow(pa.table({"n": [number]})).select("n") for number in range(4)]
    done = []
    found = unit_stream.streamed(ctx, frames, 2, done.append)
    for _ in range(2):
        assert sorted(found.to_arrow_table()["n"].to_pylist()) == [0, 1, 2, 3]
        assert sorted(done) == [0, 1, 2, 3]
        done.clear()


def test_a_scan_that_is_planned_out_of_turn_is_an_error():
    turns = Turns()
    with turns.of(1):
        assert turns.current.number == 1
    seen = []
    with turns.alone(2):
        thread = threading.Thread(target=lambda: seen.append(turns.current.number))
        thread.start()
        thread.join()
    assert seen == [2]
    with pytest.raises(RuntimeError, match="without knowing which partitions"):
        _ = turns.current.number


def test_units_that_are_planned_at_once_read_their_own(tmp_path):
    rows = pa.table({"k": range(400), "v": range(400)})
    for name in ("a", "b"):
        by = [partition.bucket("k", 16)]
        lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, by).append(rows)
    context = lance_df.connect(tmp_path, partitioned_joins="always", join_memory_limit=1)
    frame = context.sql("SELECT a.k, b.v FROM a JOIN b ON a.k = b.k")
    found = []

    def compute():
        found.extend(sorted(frame.to_arrow_table()["k"].to_pylist()) for _ in range(5))

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(400))] * 20
