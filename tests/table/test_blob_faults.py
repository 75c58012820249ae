"""Each single request of a change to a table with blobs fails in turn: no blob is lost, none is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hooked_store
import pyarrow as pa
import pytest
from hooked_store import Faults

import lance_df
from lance_df.blob import blob_array, blob_field
from lance_df.errors import CommitStateUnknownError, LanceError

if TYPE_CHECKING:
    from collections.abc import Callable

URI = "hooked://t.lance"
BLOBS = [b"in", b"packed", b"packed, too", None, b"", b"in a file of its own"]


def rows(start: int) -> pa.Table:
    field = blob_field("b", inline_size_threshold=3, dedicated_size_threshold=12)
    schema = pa.schema([("k", pa.int64()), ("z", pa.int64()), field])
    return pa.table([range(start, start + 6), [0] * 6, blob_array(BLOBS)], schema=schema)


def append() -> None:
    lance_df.write_dataset(rows(6), URI, mode="append")


def update() -> None:
    lance_df.dataset(URI).update({"z": "1"}, where="k > 1")


def upsert() -> None:
    part = pa.table({"k": [1, 5], "z": [1, 1]})
    lance_df.dataset(URI).merge_insert("k").when_matched_update_all().execute(part)


def compact() -> None:
    lance_df.dataset(URI).optimize.compact_files()


def blobs() -> dict[int, bytes | None]:
    found = lance_df.dataset(URI)
    keys = found.to_table(columns=["k"]).column(0).to_pylist()
    return dict(zip(keys, (b for _, b in found.read_blobs("b", indices=list(range(len(keys))))), strict=True))


def sidecars() -> set[str]:
    return {path for path in hooked_store.snapshot() if path.endswith(".blob")}


@pytest.mark.parametrize("change", [append, update, upsert, compact])
def test_a_request_fails(change: Callable[[], None]) -> None:
    hooked_store.reset()
    lance_df.write_dataset(rows(0), URI)
    if change is compact:
        append()
    start, before = hooked_store.snapshot(), sidecars()
    counter = Faults(0, after=False, last=0)
    with hooked_store.hooked(counter):
        change()
    expected = dict(enumerate(BLOBS * (2 if change in (append, compact) else 1)))
    assert blobs() == expected
    outcomes = set()
    for number in range(1, counter.count + 1):
        hooked_store.reset(start)
        outcome = "done"
        with hooked_store.hooked(Faults(number, after=False, last=None)):
            try:
                change()
            except CommitStateUnknownError:
                outcome = "unknown"
            except LanceError:
                outcome = "failed"
        outcomes.add(outcome)
        assert blobs() == (expected if outcome == "done" or change is not append else dict(enumerate(BLOBS)))
        if outcome == "failed":
            assert sidecars() == before
    assert outcomes == {"done", "failed"}
