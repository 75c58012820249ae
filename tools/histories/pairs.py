"""What the steps of two processes at once may have made of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from .model import Model
from .steps import OPERATIONS, Step
from .workers import Outcome

Line = Sequence[tuple[Step, Outcome]]


def models_after(model: Model, lines: Sequence[Line]) -> list[Model]:
    """Return the models that the steps of two processes may lead to.

    Parameters
    ----------
    model
        The model before.
    lines
        The steps that each process made without an error, with their outcomes.
    """
    orders = list(interleaved(*lines))
    models = [each for each in (model_after(model, order) for order in orders) if each is not None]
    if len(models) < len(orders):
        # rows that a process writes before another renames a column may be committed after the other's rows
        models = [each.with_state(dataclasses.replace(each.state, is_ordered=False)) for each in models]
    return models + [each for order in orders for each in _after_snapshots(model, order, lines)]


def model_after(model: Model, order: Line) -> Model | None:
    """Return the model after steps of several processes; None if one makes no sense after the others."""
    removed: set[int] = set()
    for step, outcome in order:
        operation = OPERATIONS[step.operation]
        if not operation.is_valid(model, step.arguments):
            return None
        versions = model.versions
        model = operation.apply(model, step.arguments)
        model = operation.seen(model, step.arguments, outcome.result, "pair")
        # who reads a version may have opened it before a clean-up removed it
        removed |= versions.keys() - model.versions.keys()
        model = dataclasses.replace(model, versions=versions | model.versions)
    left = {number: state for number, state in model.versions.items() if number not in removed}
    return dataclasses.replace(model, versions=left)


def interleaved(left: Line, right: Line) -> Iterator[list[tuple[Step, Outcome]]]:
    """Yield the orders in which two processes may have made their steps."""
    if not left or not right:
        yield [*left, *right]
        return
    yield from ([left[0], *rest] for rest in interleaved(left[1:], right))
    yield from ([right[0], *rest] for rest in interleaved(left, right[1:]))


def _after_snapshots(model: Model, order: Line, lines: Sequence[Line]) -> Iterator[Model]:
    """Yield the models where a step has read the rows before steps of the other process."""
    for index, entry in enumerate(order):
        step = entry[0]
        operation = OPERATIONS[step.operation]
        if not operation.reads_snapshot:
            continue
        line = next(each for each in lines if any(entry is other for other in each))
        for begin in range(index):
            same = [other for other in order[begin:index] if any(other is each for each in line)]
            others = [other for other in order[begin:index] if not any(other is each for each in line)]
            if same and model_after(model, [*order[:begin], *same, *others]) is not None:
                continue  # one of the orders by itself
            read = model_after(model, [*order[:begin], *same])
            current = model_after(model, order[:index])
            if read is None or current is None:
                continue
            if not all(operation.is_valid(each, step.arguments) for each in (read, current)):
                continue
            state = operation.apply(read, step.arguments).state
            combined = current.state.with_change(read.state, state)
            if combined is None:
                continue
            later = model_after(
                operation.apply(current, step.arguments).with_state(combined), order[index + 1 :]
            )
            if later is not None:
                yield later
