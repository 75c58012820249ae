"""A model checker: two transactions over partitions, with a reader in between, crashes and lost answers.

The code is the real one, and runs as in two processes: nothing is shared but the store. See
`test_commit_model` for tables.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Self

import hooked_store
import pyarrow as pa
import pytest
from hooked_store import Faults
from writer_orders import LIST, PUT, Orders, Turns

import lance_df
from lance_df.errors import CommitStateUnknownError, LanceError
from lance_df.namespace.changes import publish
from lance_df.table.commit import publish as table_publish
from lance_df.table.commit.options import CommitOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

URI = "hooked://n"
CHANGES = ("put", "open", "delete")

Rows = frozenset[tuple[str, int]]


def rows(*pairs: tuple[str, int]) -> pa.Table:
    return pa.table(
        {"p": pa.array([p for p, _ in pairs], pa.string()), "k": pa.array([k for _, k in pairs], pa.int64())}
    )


@dataclass(frozen=True)
class Program:
    """What a transaction does, and what that makes of the rows when nobody else is there."""

    run: Callable[[Any], None]
    model: Callable[[Rows], Rows]


def append(*pairs: tuple[str, int]) -> Program:
    return Program(lambda tx: tx.append(rows(*pairs)), lambda found: found | set(pairs))


def delete(*keys: int) -> Program:
    return Program(
        lambda tx: tx.delete(f"k IN ({', '.join(map(str, keys))})"),
        lambda found: frozenset(row for row in found if row[1] not in keys),
    )


def both(*programs: Program) -> Program:
    def run(tx: Any) -> None:
        for program in programs:
            program.run(tx)

    return Program(run, lambda found: in_order(programs, found))


def in_order(programs: Iterable[Program], found: Rows) -> Rows:
    for program in programs:
        found = program.model(found)
    return found


START = frozenset({("p0", 0), ("p0", 1), ("p1", 10), ("p1", 11)})
SKEW = append(("p0", 2)), both(delete(0), append(("p1", 12)))
PAIRS = {
    "other partitions": (append(("p0", 2)), append(("p1", 12))),
    "one partition and both": SKEW,
    "two make one partition": (append(("new", 20), ("p0", 2)), append(("new", 21), ("p1", 12))),
    "one deletes what the other appends": (append(("p0", 5), ("p1", 5)), delete(5, 10)),
}


class InTurn:
    """What threads do, without any: these would run past the order that is checked."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(function, items)


@pytest.fixture(autouse=True)
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "line_of", lambda _: publish.PublishingLine())
    monkeypatch.setattr(publish, "workers", InTurn)
    monkeypatch.setattr(CommitOptions, "wait", lambda *_: None)
    monkeypatch.setattr("random.uniform", lambda *_: 0.0)


@pytest.fixture(scope="module")
def start() -> dict[str, bytes]:
    """A namespace of two partitions, one of them with a deletion file."""
    hooked_store.reset()
    namespace = lance_df.PartitionedNamespace.create(URI, rows().schema, ["p"])
    namespace.append(rows(*START, ("p0", 9)))
    namespace.delete("k = 9")
    return hooked_store.snapshot()


def state() -> tuple[int, Rows]:
    """The newest version, read anew, and its rows; each partition is there once."""
    namespace = lance_df.PartitionedNamespace.open(URI)
    found = namespace.to_table().to_pydict()
    pairs = list(zip(found["p"], found["k"], strict=True))
    assert len(set(pairs)) == len(pairs)
    partitions = namespace.partitions()
    for name in ("p", "object_id", "location"):
        values = partitions[name].to_pylist()
        assert len(set(values)) == len(values), name
    return namespace.version, frozenset(pairs)


def run(program: Program) -> None:
    with lance_df.PartitionedNamespace.open(URI).transaction() as tx:
        program.run(tx)


class Reader:
    """Reads between any two requests, and finds one state after the other, each of them whole."""

    def __init__(self, programs: tuple[Program, ...]) -> None:
        self._possible = {
            in_order(order[:count], START)
            for order in itertools.permutations(programs)
            for count in range(len(order) + 1)
        }
        self._seen: dict[int, Rows] = {}
        self._files = 0

    def look(self) -> None:
        files = len(hooked_store.HookedStore.store)
        if files == self._files:
            return
        self._files = files
        version, found = state()
        assert found in self._possible
        assert self._seen.setdefault(version, found) == found
        assert version == max(self._seen)


def check(programs: tuple[Program, ...], outcomes: dict[int, BaseException | None]) -> None:
    """Both changes are there, as if one had come after the other."""
    assert outcomes == {0: None, 1: None}
    assert state()[1] in [in_order(order, START) for order in itertools.permutations(programs)]


class Choices(Orders):
    """One order, by chance."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(seed)

    def choose(self, waiting: dict[int, str]) -> int:
        return self._random.choice(sorted(waiting))


@pytest.fixture
def in_any_order(monkeypatch: pytest.MonkeyPatch, start: dict[str, bytes]) -> Any:
    """Run two programs in an order; requests to the tables of partitions are chosen among if wanted."""
    turns = Turns([])
    put = table_publish.put_if_absent

    def put_later(location: Any, data: bytes) -> bool:
        if pauses(location.uri):
            turns.pause(PUT)
        return put(location, data)

    def pauses(path: str) -> bool:
        return everywhere or "__manifest" in path

    everywhere = False
    monkeypatch.setattr(table_publish, "put_if_absent", put_later)

    def run_both(programs: tuple[Program, ...], orders: Orders, *, members: bool) -> None:
        nonlocal turns, everywhere
        everywhere = members
        hooked_store.reset(start)
        reader = Reader(programs)
        reader.look()
        turns = Turns([lambda p=p: run(p) for p in programs])

        @contextmanager
        def pause(kind: str, path: str) -> Iterator[None]:
            if kind == "list" and path.rstrip("/").endswith("_versions") and pauses(path):
                turns.pause(LIST)
            yield

        class Looking:
            """Chooses who goes on, after a look at what there is."""

            @staticmethod
            def choose(waiting: dict[int, str]) -> int:
                reader.look()
                return orders.choose(waiting)

        with hooked_store.hooked(pause):
            turns.run(Looking)
        reader.look()
        check(programs, turns.outcomes)

    return run_both


@pytest.mark.parametrize("pair", PAIRS)
def test_every_order_of_two_transactions(pair: str, in_any_order: Any) -> None:
    orders = Orders()
    count = 0
    while not count or orders.next():
        count += 1
        in_any_order(PAIRS[pair], orders, members=False)
    assert count >= 4


@pytest.mark.parametrize("pair", PAIRS)
def test_orders_with_the_tables_of_partitions(pair: str, in_any_order: Any) -> None:
    for seed in range(3):
        in_any_order(PAIRS[pair], Choices(seed), members=True)


CHANGE = both(append(("p0", 2), ("new", 20)), delete(0, 10))


@pytest.mark.parametrize("how", ["before", "after", "down"])
def test_trap_65_and_66_a_request_fails_or_all_from_one_on(how: str, start: dict[str, bytes]) -> None:
    """A crash, a failure and a lost answer at each request: all or nothing, and never twice."""
    after = CHANGE.model(START)

    def outcome(faults: Faults) -> str:
        hooked_store.reset(start)
        with hooked_store.hooked(faults):
            try:
                run(CHANGE)
                reported, possible = "done", [after]
            except CommitStateUnknownError:
                reported, possible = "unknown", [START, after]
            except LanceError:
                reported, possible = "failed", [START]
        version, found = state()
        assert found in possible, (reported, faults.count)
        assert version == 3 + (found == after)
        if faults.count % 4 == 0:
            run(append(("p0", 30), ("p1", 31), ("new", 32)))
            assert state() == (version + 1, found | {("p0", 30), ("p1", 31), ("new", 32)})
            if found == START:
                run(CHANGE)
                assert state()[1] == CHANGE.model(found | {("p0", 30), ("p1", 31), ("new", 32)})
        return reported

    counter = Faults(0, after=False, last=0, kinds=CHANGES)
    assert outcome(counter) == "done"
    outcomes = set()
    for number in range(1, counter.count + 1):
        last = 10_000 if how == "down" else None
        outcomes.add(outcome(Faults(number, after=how == "after", last=last, kinds=CHANGES)))
    # a lost answer is made up for by a look, but not when all is down
    assert outcomes == ({"failed", "unknown"} if how == "down" else {"done", "failed"})
