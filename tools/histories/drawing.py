"""Random histories: everything follows from a seed, and from what concurrent steps come to."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from .checks import draw_checks
from .model import Column, Kind, Model, Settings, State
from .namespace_columns import draw_spec
from .prelude import ITEMS
from .running import Counts, Failure, run_history
from .steps import OPERATIONS, Check, Step, draw_step
from .thresholds import draw_thresholds
from .workers import Workers

_SIZES = (((3, 40), 0.45), ((41, 299), 0.28), ((300, 1000), 0.2), ((1000, 3000), 0.07))
_FILE_VERSIONS = ("0.1", "2.0", "2.1", "2.1", "2.2")


def draw_model(rng: random.Random, kind: Kind | None = None) -> Model:
    """Return what a history begins with."""
    kinds: tuple[Kind, Kind] = ("namespace", "table")
    drawn = rng.choices(kinds, [0.65, 0.35])[0]
    kind = kind or drawn
    low, high = rng.choices([size for size, _ in _SIZES], [weight for _, weight in _SIZES])[0]
    settings = Settings(
        kind=kind,
        partitions=rng.randint(low, high),
        thresholds=draw_thresholds(rng),
        file_version=rng.choice(_FILE_VERSIONS) if kind == "table" else "2.2",
        stable_row_ids=rng.random() < 0.4,
        bases=rng.choice([0, 0, 1, 2]) if kind == "table" else 0,
    )
    if settings.file_version == "0.1":
        settings = dataclasses.replace(settings, stable_row_ids=False, bases=0)
    columns = [Column("k", "key", "int64"), Column("p", f"part{settings.partitions}", "int32")]
    others = [
        Column("s", "text", "string"),
        Column("x", "real", "double"),
        Column("d", "day", "date32[day]"),
        Column("v", "small", "int32"),
        Column("items", "items", ITEMS),
    ]
    if settings.file_version == "0.1":  # which stores neither NULL nor these lists
        columns[1] = dataclasses.replace(columns[1], role=f"{columns[1].role}!")
        others = [dataclasses.replace(column, role=f"{column.role}!") for column in others[:-1]]
    columns += [column for column in others if rng.random() < 0.5]
    if settings.file_version == "2.2" and rng.random() < 0.3:
        columns.append(Column("b", "blob", "large_binary"))
    state = State(tuple(columns), (), is_ordered=kind == "table")
    spec: tuple[str, ...] = ()
    while kind == "namespace" and not spec:
        spec = ("p",) if rng.random() < 0.6 else draw_spec(rng, state, settings.partitions)
    return Model(settings, state, spec)


def _first_step(rng: random.Random, model: Model) -> Step:
    """Return an append of rows to all partitions."""
    name = {"namespace": "append", "table": "table_append"}[model.settings.kind]
    arguments = None
    while arguments is None:
        arguments = OPERATIONS[name].generate(rng, model)
    count = model.settings.partitions * rng.choice([1, 1, 1, 3])
    return Step(name, arguments | {"numbers": list(range(count))}, rng.choice(["new", "held"]))


def run_seed(
    seed: int,
    workers: Workers,
    counts: Counts,
    *,
    kind: Kind | None = None,
    max_steps: int = 1000,
    until: float | None = None,
) -> tuple[Model, Failure | None]:
    """Run the history of a seed; return what it began with, and what went wrong."""
    rng = random.Random(seed)
    model = draw_model(rng, kind)
    length = rng.randint(4, 18) if model.settings.partitions < 1000 else rng.randint(4, 9)
    return model, run_random(model, rng, workers, counts, length=min(length, max_steps), until=until)


def run_random(
    model: Model,
    rng: random.Random,
    workers: Workers,
    counts: Counts,
    *,
    length: int,
    until: float | None = None,
) -> Failure | None:
    """Run a history of random steps; return what went wrong."""

    def next_step(number: int, now: Model) -> Step | None:
        if number == length:
            return None
        return _first_step(rng, now) if number == 0 else draw_step(rng, now)

    def next_checks(_: int, now: Model) -> Sequence[Check]:
        return draw_checks(rng, now)

    return run_history(model, workers, counts, next_step, next_checks, until=until)
