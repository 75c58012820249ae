"""Rows of ``__manifest`` belong to the fragments that their addresses name, however scans batch them."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from new_processes import answer_of

import lance_df
from lance_df.cache import DEFAULT_CACHE_BYTES, set_cache_bytes
from lance_df.errors import CorruptDataError
from lance_df.namespace import manifest_rows
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.manifest_rows import ManifestRows
from lance_df.namespace.manifest_table import open_manifest_table
from lance_df.scan.request import ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.storage import open_location
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.limits import SCAN_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_df.scan.plan import ScanTask

_SCHEMA = pa.schema([("a", pa.int64())])

_NAMES = """
import pyarrow as pa
import lance_df
def rows(*values):
    return pa.table({"a": pa.array(values, pa.int64())})
def open():
    return lance_df.PartitionedNamespace.open(root)
"""


def in_new_process(root: Path, statement: str) -> Any:
    return answer_of(f"{_NAMES}answer = {statement}", root=str(root))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A namespace of a large fragment of ``__manifest`` and a small one after it."""
    root = tmp_path_factory.mktemp("large") / "n"
    namespace = lance_df.PartitionedNamespace.create(str(root), _SCHEMA, [lance_df.partition.identity("a")])
    namespace.append(pa.table({"a": range(300)}))
    namespace.append(pa.table({"a": [1000]}))
    assert len(lance.dataset(root / "__manifest").get_fragments()) == 2
    return root


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("open().append(rows(2000))", [*range(300), 1000, 2000]),
        ("str(open().delete('a = 7'))", [*range(7), *range(8, 300), 1000]),
        ("str(open().upsert(rows(7, 1000, 3000), on='a'))", [*range(300), 1000, 3000]),
    ],
)
def test_a_change_in_a_new_process_keeps_all_members(
    large: Path, tmp_path: Path, statement: str, expected: list[int]
) -> None:
    root = tmp_path / "n"
    shutil.copytree(large, root)
    in_new_process(root, statement)
    assert in_new_process(root, "sorted(open().to_table()['a'].to_pylist())") == expected
    assert lance_df.verify(str(root)).ok


@contextmanager
def budget_of(num_bytes: int) -> Iterator[None]:
    set_cache_bytes(num_bytes)
    try:
        yield
    finally:
        set_cache_bytes(DEFAULT_CACHE_BYTES)


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_that_each_read_the_manifest_anew(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    limits = {"small_fragment_rows": random.choice([0, 2, 512]), "merge_ratio": random.choice([0, 2])}
    joined = random.choice([1, 3, 128])
    with (
        NAMESPACE_LIMITS.replaced(**limits),
        SCAN_LIMITS.replaced(max_joined_fragments=joined),
        budget_of(random.choice([0, DEFAULT_CACHE_BYTES])),
    ):
        namespace = lance_df.PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"])
        expected: list[int] = []
        for _ in range(25):
            values = [random.randrange(40) for _ in range(random.choice([1, 1, 2, 12]))]
            match random.choice(["append", "append", "delete", "update"]):
                case "append":
                    namespace.append(pa.table({"a": pa.array(values, pa.int64())}))
                    expected += values
                case "delete":
                    namespace.delete(f"a = {values[0]}")
                    expected = [value for value in expected if value != values[0]]
                case "update":
                    namespace.update({"a": str(values[-1])}, f"a = {values[0]}")
                    expected = [values[-1] if value == values[0] else value for value in expected]
            if random.random() < 0.5:
                namespace = lance_df.PartitionedNamespace.open(str(tmp_path))
            assert sorted(namespace.to_table()["a"].to_pylist()) == sorted(expected)
        assert lance_df.verify(str(tmp_path), deep=True).ok


@pytest.mark.parametrize("joined", [1, 128])
@pytest.mark.parametrize("batch_rows", [1, 3, 10_000])
def test_rows_are_those_of_the_fragment_that_their_addresses_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: int, batch_rows: int
) -> None:
    with NAMESPACE_LIMITS.replaced(small_fragment_rows=0, merge_ratio=0):
        namespace = lance_df.PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"])
        for values in ([*range(9)], [10], [11, 12], [13]):
            namespace.append(pa.table({"a": values}))
        namespace.delete("a = 5")
        namespace.append(pa.table({"a": [5, 11, 20]}))
    table = open_manifest_table(open_location(str(tmp_path)))
    monkeypatch.setattr(
        manifest_rows, "ScanRequest", lambda **options: ScanRequest(batch_rows=batch_rows, **options)
    )
    with SCAN_LIMITS.replaced(max_joined_fragments=joined):
        rows = ManifestRows.read(table)
    assert len(rows.all) == table.count_rows()
    for fragment in table.fragments:
        owners = rows.of_fragments([fragment.id])[ROW_ADDRESS].to_numpy() >> np.uint64(32)
        assert owners.tolist() == [fragment.id] * table.live_rows(fragment)


@pytest.mark.parametrize("change", ["fewer", "more", "others"])
def test_rows_that_the_manifest_does_not_count_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    with NAMESPACE_LIMITS.replaced(small_fragment_rows=0, merge_ratio=0):
        namespace = lance_df.PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"])
        namespace.append(pa.table({"a": [1, 2, 3]}))
        namespace.append(pa.table({"a": [4]}))
    table = open_manifest_table(open_location(str(tmp_path)))

    def wrong(tasks: Sequence[ScanTask]) -> Iterator[pa.RecordBatch]:
        first, *others = run_tasks(tasks)
        match change:
            case "fewer":
                yield first.slice(1)
            case "more":
                yield first
                yield first
            case "others":
                column = first.schema.get_field_index(ROW_ADDRESS)
                moved = pa.array(first.column(ROW_ADDRESS).to_numpy() + np.uint64(7 << 32))
                yield first.set_column(column, ROW_ADDRESS, moved)
        yield from others

    monkeypatch.setattr(manifest_rows, "run_tasks", wrong)
    with pytest.raises(CorruptDataError, match="fragment"):
        ManifestRows.read(table)
