"""Run writers in every order in which their requests can reach a store.

One writer runs at a time, up to its next request that another one can notice. Orders are enumerated depth
first, by running everything again with another choice; of those that differ only in which of two listings
came first one is run (sleep sets).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

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
