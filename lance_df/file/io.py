"""Run the IO plans of decoders in step, so that the ranges of all columns share requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lance_df.encodings.plan import together
from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.plan import IoPlan
    from lance_df.storage import ByteSource

T = TypeVar("T")


def run_plans(source: ByteSource, plans: Sequence[IoPlan[T]]) -> list[T]:
    """Run plans to completion and return their results in order.

    Each round collects the ranges that all unfinished plans request, and reads them in one call.
    """
    return run_plan(source, together(plans))


def run_plan(source: ByteSource, plan: IoPlan[T]) -> T:
    """Run one plan to completion."""
    buffers = None
    while True:
        try:
            ranges = plan.send(buffers)  # type: ignore[arg-type] # a generator is started with None
        except StopIteration as end:
            result: T = end.value
            return result
        buffers = source.read_ranges(ranges)


def named(label: str, plan: IoPlan[T]) -> IoPlan[T]:
    """Return ``plan`` with a label in its errors, since decoders know neither file nor column.

    Raises
    ------
    CorruptDataError, UnsupportedFeatureError
        The errors that the plan raises, prefixed with ``label``. Errors of Arrow about impossible arrays
        become `CorruptDataError`.
    """
    with named_errors(label):
        return (yield from plan)


class named_errors:  # noqa: N801 - reads as a statement where it is used
    """Prefix errors that are raised inside with ``label``; those of Arrow become `CorruptDataError`."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CorruptDataError | InvalidInputError | UnsupportedFeatureError):
            raise type(error)(f"{self._label}: {error}") from error
        if isinstance(error, MemoryError):  # also ArrowMemoryError, which is an ArrowException too
            raise InvalidInputError(
                f"{self._label}: the rows do not fit into memory; read fewer rows"
            ) from error
        if isinstance(error, pa.ArrowException):
            raise CorruptDataError(f"{self._label}: the values are not a valid array ({error})") from error
