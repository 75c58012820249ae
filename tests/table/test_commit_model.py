"""A model checker: two writers on one table, in every order in which their requests can reach the store.

The commit code is the real one; the store is in memory, and lets one writer run at a time, up to its next
request that another writer can notice: a listing of the versions, or a manifest that is put. All other
requests write new files under names of their own, or read files that never change. Orders are enumerated
depth first, by running everything again with another choice; of those that differ only in which of two
listings came first one is run (sleep sets).
"""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import hooked_store
import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import RetryableConflictError
from lance_df.format.operations import ReserveFragments
from lance_df.table.commit import publish
from lance_df.table.commit.options import CommitOptions
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

URI = "hooked://t.lance"

Rows = dict[int, int]


@dataclass(frozen=True)
class Program:
    """What a writer does, and what that makes of the rows when nobody else is there."""

    run: Callable[[lance_df.LanceDataset], Any]
    model: Callable[[Rows], Rows]


def append(key: int) -> Program:
    def run(table: lance_df.LanceDataset) -> None:
        lance_df.write_dataset(pa.table({"k": [key], "v": [0]}), table, mode="append")

    return Program(run, lambda rows: {**rows, key: 0})


def delete(*keys: int) -> Program:
    where = f"k IN ({', '.join(map(str, keys))})"
    return Program(
        lambda table: table.delete(where),
        lambda rows: {key: value for key, value in rows.items() if key not in keys},
    )


def update(*keys: int) -> Program:
    where = f"k IN ({', '.join(map(str, keys))})"
    return Program(
        lambda table: table.update({"v": "v + 1"}, where=where),
        lambda rows: {key: value + (key in keys) for key, value in rows.items()},
    )


COMPACT = Program(lambda table: table.optimize.compact_files(), lambda rows: rows)

PAIRS = {
    "append, append": (append(100), append(101)),
    "append, delete": (append(100), delete(1)),
    "append, update": (append(100), update(1)),
    "append, compact": (append(100), COMPACT),
    "delete, delete": (delete(1), delete(2)),
    "delete, delete of the same row": (delete(1, 2), delete(2, 3)),
    "delete, delete of what is left": (delete(0, 1), delete(2, 3)),
    "delete, update": (delete(1), update(2)),
    "delete, update of the same row": (delete(1), update(1, 5)),
    "delete, compact": (delete(1), COMPACT),
    "update, update": (update(1), update(2)),
    "update, update of the same row": (update(1), update(1)),
    "update, compact": (update(1), COMPACT),
    "compact, compact": (COMPACT, COMPACT),
}


LIST, PUT = "list", "put"


@dataclass
class Choice:
    """A moment at which each writer waits with a request; those asleep need not go first here."""

    waiting: dict[int, str]
    asleep: set[int]
    tried: list[int] = field(default_factory=list)

    def candidates(self) -> list[int]:
        return [each for each in sorted(self.waiting) if each not in self.asleep and each not in self.tried]

    def asleep_after(self, chosen: int) -> set[int]:
        """Return who waits with a request of which the order with the chosen one makes no difference."""
        earlier = self.asleep | set(self.tried) - {chosen}
        return {each for each in earlier if PUT not in (self.waiting[each], self.waiting[chosen])}


class Orders:
    """All the orders that make a difference, one after the other."""

    def __init__(self) -> None:
        self._path: list[Choice] = []
        self._position = 0

    def next(self) -> bool:
        """Prepare for the next run; False when there is none."""
        while self._path and not self._path[-1].candidates():
            self._path.pop()
        self._position = 0
        return bool(self._path)

    def choose(self, waiting: dict[int, str]) -> int:
        """Return who goes first, of the writers that wait."""
        position, self._position = self._position, self._position + 1
        if position < len(self._path) - 1:
            return self._path[position].tried[-1]
        if position == len(self._path):
            before = self._path[-1] if self._path else None
            asleep = before.asleep_after(before.tried[-1]) if before else set()
            self._path.append(Choice(waiting, asleep & waiting.keys()))
        here = self._path[position]
        assert here.waiting == waiting, "the writers did something else than before"
        if not here.candidates():  # an order that was run already
            return min(waiting)
        here.tried.append(here.candidates()[0])
        return here.tried[-1]


class Turns:
    """Lets writers run one at a time, from one request to the next."""

    def __init__(self, programs: list[Callable[[], Any]]) -> None:
        self._programs = programs
        self._turns = [threading.Semaphore(0) for _ in programs]
        self._paused = threading.Semaphore(0)
        self._waiting: dict[int, str] = {}
        self._local = threading.local()
        self.outcomes: dict[int, BaseException | None] = {}

    def run(self, orders: Orders) -> None:
        threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(len(self._programs))
        ]
        for thread in threads:
            thread.start()
            self._resumed()
        while self._waiting:
            chosen = orders.choose(dict(self._waiting))
            del self._waiting[chosen]
            self._turns[chosen].release()
            self._resumed()
        for thread in threads:
            thread.join()

    def pause(self, request: str) -> None:
        """Let the other writers run before a request of this one."""
        number = getattr(self._local, "number", None)
        if number is not None:
            self._waiting[number] = request
            self._paused.release()
            self._turns[number].acquire()

    def _resumed(self) -> None:
        assert self._paused.acquire(timeout=30), "a writer waits for the other one"

    def _work(self, number: int) -> None:
        self._local.number = number
        try:
            self._programs[number]()
            self.outcomes[number] = None
        except BaseException as err:  # noqa: BLE001 - shown by the test
            self.outcomes[number] = err
        finally:
            self._paused.release()


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A table of two fragments, with a deletion file."""
    path: Path = tmp_path_factory.mktemp("model") / "t.lance"
    rows = pa.table({"k": range(9), "v": [0] * 9})
    lance.write_dataset(rows, path, max_rows_per_file=5).delete("k = 8")
    return {
        f"/t.lance/{file.relative_to(path)}": file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def in_order(programs: Iterable[Program]) -> Rows:
    rows = dict.fromkeys(range(8), 0)
    for program in programs:
        rows = program.model(rows)
    return rows


def check(programs: list[Program], before: int) -> None:
    """The changes that were acknowledged are there, once, as if one had come after the other."""
    table = lance_df.dataset(URI)
    found = table.to_table().to_pydict()
    rows = dict(zip(found["k"], found["v"], strict=True))
    assert len(rows) == len(found["k"])
    assert rows in [in_order(order) for order in itertools.permutations(programs)]
    commits = [
        open_table(URI, version=number).transaction() for number in range(before + 1, table.version + 1)
    ]
    changes = [each for each in commits if not isinstance(each.operation, ReserveFragments)]
    assert len({each.uuid for each in commits}) == len(commits)
    # a compaction of what the other one has compacted is no change
    others = [program for program in programs if program is not COMPACT]
    assert len(others) <= len(changes) <= len(programs)


@pytest.mark.parametrize("pair", PAIRS)
def test_every_order_of_two_writers(
    pair: str, start: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = PAIRS[pair]
    turns = Turns([])

    @contextmanager
    def pause(kind: str, path: str) -> Iterator[None]:
        if kind == "list" and path.rstrip("/").endswith("_versions"):
            turns.pause(LIST)
        yield

    put = publish.put_if_absent

    def put_later(*arguments: Any) -> bool:
        turns.pause(PUT)
        return put(*arguments)

    monkeypatch.setattr(publish, "put_if_absent", put_later)
    monkeypatch.setattr(CommitOptions, "wait", lambda *_: None)
    monkeypatch.setattr("random.uniform", lambda *_: 0.0)
    orders = Orders()
    num_orders = 0
    while not num_orders or orders.next():
        num_orders += 1
        hooked_store.reset(start)
        tables = [lance_df.dataset(URI) for _ in programs]
        before = tables[0].version
        turns = Turns([lambda p=p, t=t: p.run(t) for p, t in zip(programs, tables, strict=True)])
        with hooked_store.hooked(pause):
            turns.run(orders)
        done = []
        for number, outcome in turns.outcomes.items():
            if outcome is None:
                done.append(programs[number])
            else:  # a compaction gives way
                assert isinstance(outcome, RetryableConflictError), outcome
                assert programs[number] is COMPACT
        check(done, before)
    assert num_orders >= 4
