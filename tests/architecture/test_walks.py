"""The walks of docs/architecture.md: their functions exist, and are called in this order."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
ROWS = pa.table({"id": range(200_000), "s": [f"row {number}" for number in range(200_000)]})


def walks() -> list[list[str]]:
    """Return the names of the functions of each walk."""
    _, _, text = PAGE.read_text(encoding="utf-8").partition("\n## Walks\n")
    found: list[list[str]] = []
    for number, name in re.findall(r"^(\d+)\. `([\w.]+)`", text, re.MULTILINE):
        if number == "1":
            found.append([])
        found[-1].append(f"lance_df.{name}")
    return found


def resolved(name: str) -> Callable[..., Any]:
    """Return a function, or a method of a class, by its dotted name."""
    module, _, attribute = name.rpartition(".")
    try:
        owner: Any = importlib.import_module(module)
    except ModuleNotFoundError:
        owner = resolved(module)
    return getattr(owner, attribute)


def calls_of(names: list[str], action: Callable[[], object]) -> list[str]:
    """Return the calls of some functions while an action runs, in their order."""
    known: dict[CodeType, str] = {resolved(name).__code__: name for name in names}
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in known:
            calls.append(known[frame.f_code])

    former = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(former)
        threading.setprofile(None)
    return calls


def check_order(names: list[str], calls: list[str]) -> None:
    """Fail unless the calls pass all of these functions, one after the other."""
    position = 0
    for name in names:
        assert name in calls[position:], (name, calls[position:])
        position += calls[position:].index(name) + 1


def test_there_are_two_walks_of_ten_steps():
    assert [len(names) for names in walks()] == [10, 10]


@pytest.mark.parametrize("name", [name for names in walks() for name in names])
def test_each_function_exists(name):
    assert callable(resolved(name))


@pytest.mark.engine
def test_a_value_is_looked_for_in_this_order():
    uri = "memory://walks/read.lance"
    lance_df.write_dataset(ROWS, uri)
    ctx = lance_df.SessionContext()
    ctx.sql("SET datafusion.execution.target_partitions = 1")
    lance_df.register(ctx, "t", uri)
    rows: list[dict[str, str]] = []
    names = walks()[0]
    calls = calls_of(names, lambda: rows.extend(ctx.sql("SELECT s FROM t WHERE id = 77").to_pylist()))
    assert rows == [{"s": "row 77"}]
    check_order(names, calls)


def test_a_batch_is_written_in_this_order():
    uri = "memory://walks/write.lance"
    lance_df.write_dataset(ROWS.slice(0, 1), uri)
    names = walks()[1]
    calls = calls_of(names, lambda: lance_df.write_dataset(ROWS, uri, mode="append"))
    assert lance_df.dataset(uri).count_rows() == len(ROWS) + 1
    check_order(names, calls)
