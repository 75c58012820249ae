"""A model checker: two writers on one table, in every order in which their requests can reach the store.

The commit code is the real one; the store is in memory, and lets one writer run at a time, up to its next
request that another writer can notice: a listing of the versions, or a manifest that is put. All other
requests write new files under names of their own, or read files that never change.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hooked_store
import lance
import pyarrow as pa
import pytest
from writer_orders import LIST, PUT, Orders, Turns

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
