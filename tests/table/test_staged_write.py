"""Commit and abort of one write run at once, and end anywhere: no published version ever lacks a file."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.errors import CommitStateUnknownError, LanceError, RetryableConflictError, StorageError
from lance_df.storage import Location, open_location
from lance_df.storage import put_if_absent as real_put
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.writing import staged_write
from lance_df.table.writing.fragment_writer import remove_data_file as real_removal
from lance_df.table.writing.staged_write import CLAIM_SUFFIX, StagedFile, StagedWrite

NAMES: Final = ("a.lance", "b.lance")
PATIENCE: Final = 60
OUTCOMES: Final = ("published", "refused", "reply lost", "request late", "request lost", "done before")
"""What becomes of the request that publishes a version."""


class Killed(BaseException):
    """The end of a process."""


class Actor(threading.Thread):
    """A process: it waits before each request to the store until it may go on, or is killed there."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        super().__init__(name=name, daemon=True)
        self._function = run
        self._may_go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self._is_killed = False
        self.result: object = None
        self.is_done = False

    def run(self) -> None:
        try:
            self.request()
            self.result = self._function()
        except (LanceError, Killed) as err:
            self.result = err
        self.is_done = True
        self._waits.release()

    def request(self) -> None:
        """Wait until the next request may be sent."""
        if self._is_killed:
            raise Killed
        self._waits.release()
        assert self._may_go.acquire(timeout=PATIENCE)
        if self._is_killed:
            raise Killed

    def begin(self) -> None:
        self.start()
        assert self._waits.acquire(timeout=PATIENCE)

    def go(self, *, killed: bool = False) -> None:
        """Let it send a request, and wait until it comes to the next one."""
        self._is_killed = killed
        self._may_go.release()
        assert self._waits.acquire(timeout=PATIENCE)


class World:
    """A table with two staged files, and processes that commit and abort them."""

    def __init__(self) -> None:
        self.table = open_location(f"memory://{uuid.uuid4().hex}")
        for name in NAMES:
            (self.table / DATA_DIR / name).put(b"rows")
        self.published = 0
        self.actors: list[Actor] = []
        self.late: list[Callable[[], None]] = []

    def write(self) -> StagedWrite:
        return StagedWrite(self.table, "w", lambda: iter([StagedFile(self.table, name) for name in NAMES]))

    def commit(self, outcome: str) -> str:
        write = self.write()
        with write.committing():
            request()
            if outcome == "refused":
                raise StorageError("refused")
            if outcome == "done before":
                write.remove()
                return "done before"
            if outcome == "request late":
                self.late.append(self._publish)
            elif outcome != "request lost":
                self._publish()
            if outcome != "published":
                raise CommitStateUnknownError(outcome)
        return "published"

    def abort(self) -> None:
        self.write().abort()

    def _publish(self) -> None:
        self.published += 1

    def files(self) -> int:
        return sum((self.table / DATA_DIR / name).exists() for name in NAMES)

    def claims(self) -> list[str]:
        return [name for name in (self.table / "_transactions").names() if name.endswith(CLAIM_SUFFIX)]

    def choices(self) -> list[tuple[str, int]]:
        """Return what may happen next."""
        live = [n for n, actor in enumerate(self.actors) if not actor.is_done]
        late = [("late", 0)] if self.late else []
        return [*(("go", n) for n in live), *late, *(("kill", n) for n in live)]

    def take(self, choice: tuple[str, int]) -> None:
        kind, number = choice
        if kind == "late":
            self.late.pop()()
        else:
            self.actors[number].go(killed=kind == "kill")
        assert not self.published or self.files() == len(NAMES), choice

    def check_end(self, *, any_killed: bool, outcomes: list[str], num_aborts: int) -> None:
        commits = self.actors[num_aborts:]
        for actor in commits:
            assert actor.result != "published" or self.published
            if isinstance(actor.result, RetryableConflictError) and len(commits) == 1:
                assert not self.published
        if any_killed:
            return
        assert all(not isinstance(actor.result, Killed) for actor in self.actors)
        if not {"reply lost", "request late", "request lost"}.intersection(outcomes):
            assert self.claims() == []
        if not self.published:
            # none of them, or all: those of a commit that failed while the abort saw its claim
            assert self.files() in (0, len(NAMES))


def request() -> None:
    actor = threading.current_thread()
    if isinstance(actor, Actor):
        actor.request()


@pytest.fixture(scope="module", autouse=True)
def requests() -> Iterator[None]:
    """Let all processes wait before each request to the store."""

    def waiting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            request()
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged_write, "put_if_absent", waiting(real_put.put_if_absent))
        patch.setattr(staged_write, "remove_data_file", waiting(real_removal))
        patch.setattr(
            staged_write,
            "data_files_at",
            waiting(lambda table: iter(NAMES if WORLDS[table.uri].published else ())),
        )
        for name in ("read", "read_start", "remove"):
            patch.setattr(Location, name, waiting(getattr(Location, name)))
        yield


WORLDS: Final[dict[str, World]] = {}


def world_of(outcomes: list[str], num_aborts: int) -> World:
    world = World()
    WORLDS.clear()
    WORLDS[world.table.uri] = world
    world.actors = [Actor("abort", world.abort) for _ in range(num_aborts)]
    world.actors += [Actor("commit", lambda o=outcome: world.commit(o)) for outcome in outcomes]
    for actor in world.actors:
        actor.begin()
    return world


def run(outcomes: list[str], num_aborts: int, choose: Callable[[list[tuple[str, int]]], int]) -> World:
    world = world_of(outcomes, num_aborts)
    any_killed = False
    try:
        while choices := world.choices():
            choice = choices[choose(choices)]
            any_killed |= choice[0] == "kill"
            world.take(choice)
    finally:
        for actor in world.actors:
            while not actor.is_done:
                actor.go(killed=True)
    world.check_end(any_killed=any_killed, outcomes=outcomes, num_aborts=num_aborts)
    return world


class Order:
    """Chooses by a path, and makes it longer where it ends; knows how many choices there were each time."""

    def __init__(self, path: list[int], max_kills: int) -> None:
        self._path = path
        self._kills_left = max_kills
        self.counts: list[int] = []

    def __call__(self, choices: list[tuple[str, int]]) -> int:
        allowed = [n for n, each in enumerate(choices) if each[0] != "kill" or self._kills_left]
        if len(self.counts) == len(self._path):
            self._path.append(0)
        chosen = allowed[self._path[len(self.counts)]]
        self.counts.append(len(allowed))
        self._kills_left -= choices[chosen][0] == "kill"
        return chosen


def every_order(outcomes: list[str], num_aborts: int, *, max_kills: int) -> Iterator[World]:
    """Run every order of the requests, with every place for a process to end."""
    path: list[int] = []  # the choices of the run, each the next one of those before
    while True:
        order = Order(path, max_kills)
        yield run(outcomes, num_aborts, order)
        while path and path[-1] + 1 == order.counts[len(path) - 1]:
            path.pop()
        if not path:
            return
        path[-1] += 1


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_order_of_a_commit_and_an_abort(outcome: str) -> None:
    ends = set()
    for world in every_order([outcome], 1, max_kills=0):
        ends.add((world.published, world.files()))
    # the abort came first, and then the commit
    assert (0, 0) in ends
    assert ((1, 2) in ends) is (outcome in {"published", "reply lost", "request late"})


@pytest.mark.parametrize("outcome", ["published", "request late"])
def test_every_place_for_a_commit_or_an_abort_to_be_killed(outcome: str) -> None:
    num_runs = sum(1 for _ in every_order([outcome], 1, max_kills=1))
    assert num_runs > 300


@given(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=2), st.integers(1, 2), st.data())
def test_several_commits_and_aborts(outcomes: list[str], num_aborts: int, data: st.DataObject) -> None:
    run(outcomes, num_aborts, lambda choices: data.draw(st.integers(0, len(choices) - 1)))


def test_a_commit_after_an_abort_publishes_nothing() -> None:
    world = world_of([], 0)
    world.abort()
    assert (world.files(), world.claims()) == (0, [])
    with pytest.raises(RetryableConflictError, match=r"a\.lance: this data file was removed"):
        world.commit("published")
    assert (world.published, world.claims()) == (0, [])


def test_a_claim_that_is_left_keeps_others_away() -> None:
    world = world_of([], 0)
    with pytest.raises(CommitStateUnknownError):
        world.commit("request lost")
    with pytest.raises(CommitStateUnknownError, match="another process is committing this write"):
        world.commit("published")
    world.abort()
    assert (world.files(), world.published, len(world.claims())) == (2, 0, 1)


def test_files_that_cannot_be_removed_keep_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of([], 0)
    remove = Location.remove

    def fail(self: Location) -> None:
        if self.name == NAMES[0]:
            raise StorageError("no answer")
        remove(self)

    with monkeypatch.context() as patched:
        patched.setattr(Location, "remove", fail)
        world.abort()
    assert (world.files(), len(world.claims())) == (2, 1)
    with pytest.raises(RetryableConflictError, match="was aborted before it was committed"):
        world.commit("published")
    assert world.published == 0
