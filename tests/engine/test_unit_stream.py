"""Frames that are computed one after the other leave nothing in memory."""

from __future__ import annotations

import weakref
from typing import ClassVar

import pyarrow as pa
import pytest

from lance_df.compute.compat import PlainSessionContext
from lance_df.engine import unit_stream

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
