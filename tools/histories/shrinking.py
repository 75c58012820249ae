"""Make a history that fails shorter: leave out steps and rows as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

from .model import Model
from .running import Counts, Failure, run_history
from .steps import OPERATIONS, Step
from .workers import Workers


def replay(model: Model, steps: Sequence[Step], workers: Workers, counts: Counts) -> Failure | None:
    """Run steps again; those that make no sense without others are left out."""
    left = list(steps)

    def next_step(_: int, now: Model) -> Step | None:
        while left:
            step = left.pop(0)
            if _is_valid(step, now):
                taken.append(step)
                return step
        return None

    taken: list[Step] = []
    return run_history(model, workers, counts, next_step, lambda _, __: taken[-1].checks)


def _is_valid(step: Step, model: Model) -> bool:
    for line in (step.line, () if step.other is None else step.other.line):
        now = model
        for each in line:
            operation = OPERATIONS[each.operation]
            if not operation.is_valid(now, each.arguments):
                return False
            now = operation.apply(now, each.arguments)
    return True


def shrunk(
    model: Model,
    failure: Failure,
    workers: Workers,
    counts: Counts,
    *,
    seconds: float,
    attempts: int = 1_000_000,
) -> tuple[Model, Failure]:
    """Return the simplest history that was found within some seconds and attempts, and how it fails."""
    end = time.monotonic() + seconds
    first = 0
    is_simpler = True
    while is_simpler or first:
        is_simpler = False
        for number, (simpler_model, steps) in enumerate(_simpler(model, failure.steps)):
            if number < first:  # did not help a moment ago
                continue
            if time.monotonic() > end or not attempts:
                return model, failure
            attempts -= 1
            found = replay(simpler_model, steps, workers, counts)
            if found is not None and found.kind == failure.kind:
                model, failure, is_simpler, first = simpler_model, found, True, number
                break
        else:
            first = 0
    return model, failure


def _simpler(model: Model, steps: tuple[Step, ...]) -> Iterator[tuple[Model, tuple[Step, ...]]]:
    """Yield simpler histories, the simplest first."""
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield model, (*steps[:start], *steps[start + size :])
        size //= 2
    settings = model.settings
    if settings.thresholds != "default":
        simpler = dataclasses.replace(settings, thresholds="default")
        yield dataclasses.replace(model, settings=simpler), steps
    for number, step in enumerate(steps):
        for each in _simpler_steps(step):
            yield model, (*steps[:number], each, *steps[number + 1 :])


def _simpler_steps(step: Step) -> Iterator[Step]:
    for place in range(len(step.then)):
        yield dataclasses.replace(step, then=(*step.then[:place], *step.then[place + 1 :]))
    if step.other is not None:
        yield dataclasses.replace(step, way="new", other=None, then=())
        if not step.other.then:
            yield step.other
        for each in _simpler_steps(step.other):
            yield dataclasses.replace(step, other=each)
    elif step.way != "new" and "new" in OPERATIONS[step.operation].ways:
        yield dataclasses.replace(step, way="new", kill_at=0, kill_part="")
    for arguments in OPERATIONS[step.operation].smaller(step.arguments):
        yield dataclasses.replace(step, arguments=arguments)
