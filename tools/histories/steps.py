"""A step of a history as plain data, and what an operation has to say about itself."""

from __future__ import annotations

import dataclasses
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from .conditions import columns_of
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
    kill_at, kill_part
        The change of a file before which the process is killed, among those whose paths match.
    other
        What another process does at the same time.
    then
        What the same process does next.
    checks
        What is asked afterwards, besides what is asked after every step.
    """

    operation: str
    arguments: Arguments
    way: Way
    kill_at: int = 0
    kill_part: str = ""
    other: Step | None = None
    then: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def line(self) -> tuple[Step, ...]:
        """What the process does, one after the other."""
        return (self, *self.then)

    @property
    def all(self) -> tuple[Step, ...]:
        """What all processes do."""
        return (*self.line, *(() if self.other is None else self.other.line))

    @property
    def label(self) -> str:
        """The kind of step, as runs count it."""
        names = [" > ".join(each.operation for each in self.line)]
        if self.other is not None:
            names.append(" > ".join(each.operation for each in self.other.line))
        return f"{' + '.join(names)} ({self.way})"

    @property
    def counted(self) -> str:
        """The kind of step, as runs count it."""
        return f"{self.operation} ({self.way}{', several' if self.then else ''})"


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
    pair_refusals
        The same, where another process changes something at once.
    reads_snapshot
        Whether what becomes of a row depends on others, which another process may change at once. That is no
        conflict unless both change the same rows.
    mends
        Whether it removes what others have left.
    removes_versions
        Whether a version that another process names may be gone.
    replaces_columns
        Whether a column may get another type, so that others that name it may be refused.
    rivals
        Names of what other processes do at the same time more often than by chance.
    program
        That it stands for; none for this package's own functions.
    takes_blobs
        Whether it writes rows that have blobs.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    weight: ClassVar[float] = 1.0
    ways: ClassVar[frozenset[Way]] = frozenset({"here", "held", "new", "killed", "pair"})
    refusals: ClassVar[tuple[str, ...]] = ()
    pair_refusals: ClassVar[tuple[str, ...]] = ()
    reads_snapshot: ClassVar[bool] = False
    mends: ClassVar[bool] = False
    removes_versions: ClassVar[bool] = False
    replaces_columns: ClassVar[bool] = False
    rivals: ClassVar[tuple[str, ...]] = ()
    program: ClassVar[str] = ""
    takes_blobs: ClassVar[bool] = True

    @abstractmethod
    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        """Return random arguments, or None where there is nothing to do."""

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        """Return whether the arguments fit the model: other steps may have been left out."""
        return True

    def ways_for(self, model: Model, arguments: Arguments) -> frozenset[Way]:
        """Return how it may be run with these arguments."""
        return self.ways

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        """Return the names of errors that it may have because of what another process does at once."""
        return _REPLACED if any(each.replaces_columns for each in others) else ()

    def casts(self, arguments: Arguments) -> set[str]:
        """Return names of columns that are given values, or compared with some, which are cast for that."""
        where = [
            each for each in (arguments.get("where"), arguments.get("by_source")) if isinstance(each, tuple)
        ]
        return {name for each in where for name in columns_of(each)}

    @abstractmethod
    def source(self, arguments: Arguments) -> str:
        """Return the program: a namespace is ``ns``, a table ``table``, their module ``api``."""

    @abstractmethod
    def apply(self, model: Model, arguments: Arguments) -> Model:
        """Return the model afterwards."""

    def seen(self, model: Model, arguments: Arguments, result: Any, way: Way) -> Model:
        """Return the model afterwards, where ``result`` of the program tells more.

        Parameters
        ----------
        model
            What `apply` returns.
        result
            None where the process did not answer.
        """
        return model

    def broken_off(self, model: Model) -> Model:
        """Return the model where a kill came before the change; files may have gone."""
        return model

    def for_pair(self, arguments: Arguments, *, is_single: bool) -> Arguments:
        """Return arguments that are right while another process writes, once or several times."""
        return arguments

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


_PARTS: dict[Kind, tuple[str, ...]] = {
    "namespace": ("", "", "", r"_versions/", r"_transactions/", r"/data/", "__manifest/"),
    "table": ("", "", "", r"_versions/", r"_transactions/", r"/data/"),
}
_MORE = 6.0
_RIVALS = 0.6
# a column is missing for a moment, and has another type then
_REPLACED = ("InvalidInputError", "ColumnNotFoundError", "UnsupportedFeatureError")


def draw_step(rng: random.Random, model: Model) -> Step:
    """Return a random step that fits a model."""
    while True:
        operation, arguments = _draw(rng, model, OPERATIONS.of(model.settings.kind))
        ways = sorted(operation.ways_for(model, arguments))
        way = rng.choices(ways, [_WEIGHTS[way] for way in ways])[0]
        step = Step(operation.name, arguments, way)
        if way == "killed":
            at = int(rng.expovariate(1 / rng.choice([1, 2, 4, 30]))) + 1
            part = rng.choice(_PARTS[model.settings.kind])
            return dataclasses.replace(step, kill_at=at, kill_part=part)
        if way != "pair":
            return step
        count = rng.choice([0, 0, 0, 1, 2])
        first = operation.for_pair(arguments, is_single=not count)
        then = _line(rng, operation.apply(model, first), rng.randint(0, count), is_single=False)
        rivals = operation.rivals if rng.random() < _RIVALS else ()
        others = _line(rng, model, 1 + rng.randint(0, count), is_single=not count, first=rivals)
        other = dataclasses.replace(others[0], then=others[1:])
        pair = dataclasses.replace(step, arguments=first, then=then, other=other)
        if not (_casts_replaced(pair.line, other.line) or _casts_replaced(other.line, pair.line)):
            return pair


def _casts_replaced(line: Sequence[Step], others: Sequence[Step]) -> bool:
    """Return whether a process uses values of one type for a column that another one replaces."""
    replaced = {each.arguments["name"] for each in others if OPERATIONS[each.operation].replaces_columns}
    return any(replaced & OPERATIONS[each.operation].casts(each.arguments) for each in line)


def _draw(rng: random.Random, model: Model, operations: Sequence[Operation]) -> tuple[Operation, Arguments]:
    """Return an operation with arguments that fit a model."""
    if model.state.of_role("blob"):
        operations = [each for each in operations if each.takes_blobs]
    weights = [
        each.weight * (_MORE if each.mends and (model.strays or model.was_killed) else 1.0)
        for each in operations
    ]
    while True:
        operation = rng.choices(operations, weights)[0]
        arguments = operation.generate(rng, model)
        if arguments is not None and operation.is_valid(model, arguments):
            return operation, arguments


def _fitting(
    rng: random.Random, model: Model, operations: Sequence[Operation]
) -> tuple[Operation, Arguments] | None:
    """Return the first of some operations that fits a model, with arguments."""
    has_blobs = bool(model.state.of_role("blob"))
    for operation in operations:
        arguments = operation.generate(rng, model)
        fits = arguments is not None and operation.is_valid(model, arguments)
        if arguments is not None and fits and (operation.takes_blobs or not has_blobs):
            return operation, arguments
    return None


def _line(
    rng: random.Random,
    model: Model,
    count: int,
    *,
    is_single: bool = False,
    first: Sequence[str] = (),
) -> tuple[Step, ...]:
    """Return what a process does while another one writes, one after the other; see `Operation.for_pair`.

    Parameters
    ----------
    first
        Names of operations of which the first is one, where one of them fits.
    """
    named = [OPERATIONS[name] for name in rng.sample(first, len(first))]
    operations = [each for each in OPERATIONS.of(model.settings.kind) if "pair" in each.ways]
    steps: list[Step] = []
    for number in range(count):
        operation, arguments = (_fitting(rng, model, named) if number == 0 else None) or _draw(
            rng, model, operations
        )
        fitting = operation.for_pair(arguments, is_single=is_single)
        steps.append(Step(operation.name, fitting, "new"))
        model = operation.apply(model, fitting)
    return tuple(steps)


_WEIGHTS: dict[Way, float] = {"here": 3, "held": 2, "new": 4, "pylance": 2, "killed": 2, "pair": 2}
