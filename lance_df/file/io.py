"""Drive decoders: run their IO plans in step, so that the ranges of all columns share requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.plan import IoPlan
    from lance_df.storage import ByteRange, ByteSource

T = TypeVar("T")


def run_plans(source: ByteSource, plans: Sequence[IoPlan[T]]) -> list[T]:
    """Run plans to their ends and return their results in order.

    Each round gathers what every unfinished plan asks for and reads it in one call.
    """
    results: list[Any] = [None] * len(plans)
    waiting: list[tuple[int, Sequence[ByteRange]]] = []
    for index, plan in enumerate(plans):
        _advance(index, plan, None, waiting, results)
    while waiting:
        buffers = source.read_ranges([wanted for _, ranges in waiting for wanted in ranges])
        current, waiting, position = waiting, [], 0
        for index, ranges in current:
            _advance(index, plans[index], buffers[position : position + len(ranges)], waiting, results)
            position += len(ranges)
    return results


def run_plan(source: ByteSource, plan: IoPlan[T]) -> T:
    """Run one plan to its end."""
    return run_plans(source, [plan])[0]


def _advance(
    index: int,
    plan: IoPlan[Any],
    buffers: Any,
    waiting: list[tuple[int, Sequence[ByteRange]]],
    results: list[Any],
) -> None:
    try:
        waiting.append((index, plan.send(buffers)))
    except StopIteration as end:
        results[index] = end.value
