"""Each request of a change of refs, or of a clone, fails in turn: nothing is listed that cannot be read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import hooked_store
import pyarrow as pa
import pytest
from test_commit_faults import Faults

import lance_df
from lance_df import DatasetBasePath
from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    DatasetNotFoundError,
    LanceError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

URI = "hooked://t.lance"
CLONE = "hooked://clone.lance"
ROWS = list(range(10))


def table() -> lance_df.LanceDataset:
    return lance_df.dataset(URI)


def values(data: lance_df.LanceDataset) -> list[int]:
    found: list[int] = data.to_table()["k"].to_pylist()
    return found


def make_start() -> None:
    """Two versions; a tag on the first one, and a branch with a version of its own."""
    made = lance_df.write_dataset(
        pa.table({"k": ROWS}), URI, initial_bases=[DatasetBasePath("hooked://base", "base")]
    )
    made.tags.create("tag")
    made.create_branch("old").delete("k = 0")
    made.delete("k = 9")


CHANGES: dict[str, Callable[[], object]] = {
    "create tag": lambda: table().tags.create("new"),
    "update tag": lambda: table().tags.update("tag", 2),
    "delete tag": lambda: table().tags.delete("tag"),
    "create branch": lambda: table().create_branch("new", 1),
    "delete branch": lambda: table().branches.delete("old"),
    "shallow clone": lambda: table().shallow_clone(CLONE, 1),
    "deep clone": lambda: table().deep_clone(CLONE, 1),
    "rebase": lambda: table().rebase_paths({"hooked://base": "hooked://moved"}),
}


def state() -> dict[str, object]:
    """Return what there is, after reading all of it."""
    main = table()
    assert values(main) == ROWS[:9]
    found: dict[str, object] = {f"tag {name}": tag["version"] for name, tag in main.tags.list().items()}
    for name in found:
        assert values(main.checkout_version(name.removeprefix("tag ")))
    for name in main.branches.list():
        found[f"branch {name}"] = values(main.checkout_version((name, None)))
    with suppress(DatasetNotFoundError):
        found["clone"] = values(lance_df.dataset(CLONE))
    found["base"] = main.base_paths()[1].path
    return found


@pytest.fixture(scope="module")
def start() -> dict[str, bytes]:
    hooked_store.reset()
    make_start()
    return hooked_store.snapshot()


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("how", ["before", "after", "down"])
def test_a_request_fails(start: dict[str, bytes], case: str, how: str) -> None:
    change = CHANGES[case]
    hooked_store.reset(start)
    before = state()
    counter = Faults(0, after=False, last=0)
    with hooked_store.hooked(counter):
        change()
    after = state()
    assert after != before
    for number in range(1, counter.count + 1):
        hooked_store.reset(start)
        faults = Faults(number, after=how == "after", last=10_000 if how == "down" else None)
        with hooked_store.hooked(faults):
            try:
                change()
                possible = [after]
            except CommitStateUnknownError:
                possible = [before, after]
            except LanceError:
                # files that are written over or removed may be gone though the answer is not there
                is_put = case in ("update tag", "delete tag", "delete branch")
                possible = [before, after] if is_put else [before]
        found = state()
        assert found in possible, (number, found)
        finish(case, change, is_done=found == after)
        assert state() == after, number


def finish(case: str, change: Callable[[], object], *, is_done: bool) -> None:
    """Do again what failed, as somebody would who was told so."""
    try:
        change()
    except AlreadyExistsError:
        if not is_done:
            # what the writer who failed could not take back
            assert case == "create branch"
            table().branches.delete("new")
            change()
    except VersionNotFoundError:
        assert is_done
        assert case in ("delete tag", "delete branch")
    except LanceError:
        assert is_done
        assert case == "rebase"
