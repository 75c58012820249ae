"""A step of a history as plain data, and what an operation has to say about itself."""

from __future__ import annotations

import dataclasses
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from .model import Kind, Model

Arguments = dict[str, Any]
# in the process that goes on, with the object it has open since the start, in a new process, by pylance in a
# new process, in a new process that is killed, in two new processes at once
Way = Literal["here", "held", "new", "pylance", "killed", "pair"]


@dataclass(frozen=True)
class Check:
    """A question to ask, by the name of its class, and in which process."""

    name: str
    arguments: Arguments
    way: Literal["here", "new"]


@dataclass(frozen=True)
class Step:
    """An operation with its arguments.

    Attributes
    ----------
    kill_at
        The change of a file before which the process is killed.
    other
        What another process does at the same time.
    checks
        What is asked afterwards, besides what is asked after every step.
    """

    operation: str
    arguments: Arguments
    way: Way
    kill_at: int = 0
    other: Step | None = None
    checks: tuple[Check, ...] = ()

    @property
    def label(self) -> str:
        """The kind of step, as runs count it."""
        second = f" + {self.other.operation}" if self.other is not None else ""
        return f"{self.operation}{second} ({self.way})"


class Operation(ABC):
    """One kind of change.

    Attributes
    ----------
    name
        Of the operation.
    kind
        What it changes.
    weight
        How often it is drawn.
    ways
        How it may be run.
    refusals
        Names of errors with which it may refuse, changing nothing.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    weight: ClassVar[float] = 1.0
    ways: ClassVar[frozenset[Way]] = frozenset({"here", "held", "new", "killed", "pair"})
    refusals: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        """Return random arguments, or None where there is nothing to do."""

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        """Return whether the arguments fit the model: other steps may have been left out."""
        return True

    @abstractmethod
    def source(self, arguments: Arguments) -> str:
        """Return the program: a namespace is ``ns``, a table ``table``, their module ``api``."""

    @abstractmethod
    def apply(self, model: Model, arguments: Arguments) -> Model:
        """Return the model afterwards."""

    def smaller(self, arguments: Arguments) -> Iterator[Arguments]:
        """Yield arguments that are simpler, to try instead."""
        numbers = arguments.get("numbers")
        if isinstance(numbers, list):
            for part in _parts(numbers):
                yield arguments | {"numbers": part}
        if arguments.get("salt"):
            yield arguments | {"salt": 0}


def _parts(items: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield lists without some of the items, large parts first."""
    size = len(items) // 2
    while size:
        for start in range(0, len(items), size):
            rest = [*items[:start], *items[start + size :]]
            if rest:
                yield rest
        size = size // 2 if len(items) < 40 or size > len(items) // 16 else 0


class Registry:
    """All operations, by their names."""

    def __init__(self) -> None:
        self._by_name: dict[str, Operation] = {}

    def add(self, operation: type[Operation]) -> type[Operation]:
        """Register an operation. A decorator."""
        if operation.name in self._by_name:
            raise ValueError(f"there are two operations {operation.name!r}")
        self._by_name[operation.name] = operation()
        return operation

    def __getitem__(self, name: str) -> Operation:
        return self._by_name[name]

    def of(self, kind: Kind) -> list[Operation]:
        """Return the operations on tables, or those on namespaces."""
        return [each for each in self._by_name.values() if each.kind == kind]


OPERATIONS = Registry()


def draw_step(rng: random.Random, model: Model, *, kill: bool = True) -> Step:
    """Return a random step that fits a model."""
    operations = OPERATIONS.of(model.settings.kind)
    while True:
        operation = rng.choices(operations, [each.weight for each in operations])[0]
        arguments = operation.generate(rng, model)
        if arguments is None or not operation.is_valid(model, arguments):
            continue
        way = _draw_way(rng, operation, kill=kill)
        step = Step(operation.name, arguments, way)
        if way == "killed":
            return dataclasses.replace(step, kill_at=int(rng.expovariate(1 / 6)) + 1)
        if way == "pair":
            other = draw_other(rng, model, operation)
            return dataclasses.replace(step, other=other) if other else dataclasses.replace(step, way="new")
        return step


def draw_other(rng: random.Random, model: Model, first: Operation) -> Step | None:
    """Return what another process does at the same time."""
    operations = [each for each in OPERATIONS.of(first.kind) if "pair" in each.ways]
    for _ in range(5):
        operation = rng.choices(operations, [each.weight for each in operations])[0]
        arguments = operation.generate(rng, model)
        if arguments is not None and operation.is_valid(model, arguments):
            return Step(operation.name, arguments, "new")
    return None


_WEIGHTS: dict[Way, float] = {"here": 3, "held": 2, "new": 6, "pylance": 2, "killed": 0.8, "pair": 0.8}


def _draw_way(rng: random.Random, operation: Operation, *, kill: bool) -> Way:
    ways = sorted(operation.ways - (frozenset() if kill else {"killed"}))
    return rng.choices(ways, [_WEIGHTS[way] for way in ways])[0]
