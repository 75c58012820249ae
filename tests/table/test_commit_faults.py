"""Each single request of a change fails in turn, before or after it took effect, or all from one on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import hooked_store
import pyarrow as pa
import pytest
from hooked_store import Faults

import lance_df
from lance_df.errors import AlreadyExistsError, CommitStateUnknownError, LanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

URI = "hooked://t.lance"
FIRST = pa.table({"k": range(10)})
MORE = pa.table({"k": [100]})


def create() -> None:
    lance_df.write_dataset(FIRST, URI)


def append() -> None:
    lance_df.write_dataset(MORE, URI, mode="append")


def delete() -> None:
    lance_df.dataset(URI).delete("k = 3")


def update() -> None:
    lance_df.dataset(URI).update({"k": "30"}, where="k = 3")


CASES: dict[str, tuple[Callable[[], None], list[int] | None, list[int]]] = {
    "create": (create, None, [*range(10)]),
    "append": (append, [*range(10)], [*range(10), 100]),
    "delete": (delete, [*range(10)], [0, 1, 2, *range(4, 10)]),
    "update": (update, [*range(10)], [0, 1, 2, *range(4, 10), 30]),
}


def rows() -> list[int] | None:
    try:
        return sorted(lance_df.dataset(URI).to_table()["k"].to_pylist())
    except lance_df.errors.DatasetNotFoundError:
        return None


def check(change: Callable[[], None], before: Any, after: Any, faults: Faults, start: Any) -> str:
    """Run a change with faults, compare the table with what was reported, and write on."""
    hooked_store.reset(start)
    with hooked_store.hooked(faults):
        try:
            change()
            reported, possible = "done", [after]
        except CommitStateUnknownError:
            reported, possible = "unknown", [before, after]
        except LanceError:
            reported, possible = "failed", [before]
    found = rows()
    assert found in possible, (reported, faults.count)
    lance_df.write_dataset(pa.table({"k": [-1]}), URI, mode="append" if found is not None else "create")
    assert rows() == [-1, *(found or [])]
    return reported


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("how", ["before", "after", "down"])
def test_a_request_fails(case: str, how: str) -> None:
    change, before, after = CASES[case]
    hooked_store.reset()
    if before is not None:
        create()
    start = hooked_store.snapshot()
    counter = Faults(0, after=False, last=0)
    assert check(change, before, after, counter, start) == "done"
    last = counter.count + 1 if how != "down" else 10_000
    outcomes = set()
    for number in range(1, counter.count + 1):
        faults = Faults(number, after=how == "after", last=None if how != "down" else last)
        outcomes.add(check(change, before, after, faults, start))
    # a lost answer is made up for by a look, but not when all is down
    assert outcomes == ({"failed", "unknown"} if how == "down" else {"done", "failed"})


def test_a_table_that_appears_meanwhile() -> None:
    hooked_store.reset()

    @contextmanager
    def create_first(kind: str, path: str) -> Iterator[None]:
        if kind == "put" and path.endswith(".txn"):
            hooked_store.HookedStore.hook = None
            create()
        yield

    with hooked_store.hooked(create_first), pytest.raises(AlreadyExistsError, match="another writer"):
        create()
    assert rows() == [*range(10)]
    assert len([path for path in hooked_store.snapshot() if "/data/" in path]) == 1
