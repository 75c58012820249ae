"""What the switches of `ScanOptions` turn off in scans of tables and namespaces."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import datafusion
import lance.file as lance_file
import pyarrow as pa
import pytest

import lance_df
from lance_df.encodings.plan import RowRange
from lance_df.expr import matching
from lance_df.expr.nodes import And, Column, Comparison, In, Operator, Predicate
from lance_df.file.v2 import columns_2_0, columns_2_1
from lance_df.file.v2.resident_column import ResidentColumn
from lance_df.fragment import DataFile, FragmentMetadata
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.scan.options import ScanOptions
from lance_df.scan.request import ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.storage import open_location
from lance_df.table.open import open_table
from lance_df.table.reading.fragment_reader import FragmentReader
from lance_df.table.scan.row_slice import RowSlice
from lance_df.table.table import Table

NUM_ROWS = 2000
ROWS = pa.table(
    {
        "id": range(NUM_ROWS),
        "p": [number // 20 for number in range(NUM_ROWS)],
        "s": [f"row {number}" for number in range(NUM_ROWS)],
    }
)


BIG = pa.table({"id": range(200_000), "v": [number * 0.5 for number in range(200_000)]})


def reads_of_columns(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows by one with each read that decodes columns by a plan."""
    reads: list[object] = []
    read = FragmentReader.read

    def counted(self: FragmentReader, fields: Any, rows: Any, **options: Any) -> Any:
        reads.append(rows)
        return read(self, fields, rows, **options)

    monkeypatch.setattr(FragmentReader, "read", counted)
    return reads


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Return a list that grows by one with each call of a function of a module or class."""
    calls: list[str] = []
    function = getattr(owner, name)

    def called(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, called)
    return calls


def table_of_small_pages(root: Path, version: str) -> Table:
    """Write a table with `ROWS` in one data file, whose pages have 20 rows each."""
    (root / "data").mkdir(parents=True)
    path = root / "data" / "f.lance"
    with lance_file.LanceFileWriter(str(path), ROWS.schema, version=version, data_cache_bytes=1) as writer:
        for batch in ROWS.to_batches(max_chunksize=20):
            writer.write_batch(batch)
    major, minor = map(int, version.split("."))
    fields = list(range(len(ROWS.schema)))
    fragment = FragmentMetadata(0, [DataFile(path.name, fields, fields, major, minor)], NUM_ROWS)
    lance_df.LanceDataset.commit(root, lance_df.LanceOperation.Overwrite(ROWS.schema, [fragment]))
    return open_table(str(root))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return open_table(lance_df.write_dataset(ROWS, tmp_path / "t.lance", max_rows_per_file=100).uri)


@pytest.fixture
def namespace(tmp_path: Path) -> NamespaceSnapshot:
    made = lance_df.PartitionedNamespace.create(
        tmp_path / "ns", ROWS.schema, [lance_df.partition.identity("p")]
    )
    made.append(ROWS)
    return NamespaceSnapshot.open(open_location(str(tmp_path / "ns")))


def plan(source: Any, name: str, *, is_on: bool, predicate: Predicate | None = None) -> Any:
    request = ScanRequest(predicate=predicate, options=ScanOptions(**{name: is_on}))
    found = source.plan(request)
    wanted = ROWS if predicate is None else ROWS.slice(0, 0)
    read = pa.Table.from_batches(run_tasks(found.tasks), found.schema)
    assert read.sort_by("id").equals(wanted.cast(found.schema))
    return found


def test_small_fragments_are_read_together_or_alone(table: Table) -> None:
    assert len(plan(table, "joined_fragments", is_on=True).tasks) < 20
    assert len(plan(table, "joined_fragments", is_on=False).tasks) == 20


def test_small_members_are_read_together_or_alone(namespace: NamespaceSnapshot) -> None:
    assert len(plan(namespace, "joined_members", is_on=True).tasks) < 100
    assert len(plan(namespace, "joined_members", is_on=False).tasks) == 100


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_plans_are_cached_or_made_anew(kind: str, request: pytest.FixtureRequest) -> None:
    source = request.getfixturevalue(kind)
    for is_on in (True, False):
        plans = [plan(source, "cached_plans", is_on=is_on) for _ in range(2)]
        assert (plans[0] is plans[1]) == is_on


def test_what_scans_have_observed_prunes_or_not(tmp_path: Path) -> None:
    table = open_table(lance_df.write_dataset(ROWS, tmp_path / "t.lance").uri)
    nothing = Comparison(Column(("id",)), Operator.GT, pa.scalar(NUM_ROWS))
    plan(table, "observed_statistics", is_on=True, predicate=nothing)
    assert len(plan(table, "observed_statistics", is_on=True, predicate=nothing).tasks) == 0
    assert len(plan(table, "observed_statistics", is_on=False, predicate=nothing).tasks) == 1


def test_statistics_prune_or_not(table: Table) -> None:
    lance_df.dataset(table.uri).create_scalar_index("id", "ZONEMAP")
    table = open_table(table.uri)
    nothing = Comparison(Column(("id",)), Operator.GT, pa.scalar(NUM_ROWS))
    assert len(plan(table, "statistics", is_on=True, predicate=nothing).tasks) == 0
    assert len(plan(table, "statistics", is_on=False, predicate=nothing).tasks) > 0


def test_conditions_are_applied_one_by_one_or_at_once(table: Table) -> None:
    nothing = And(
        (
            Comparison(Column(("id",)), Operator.LT, pa.scalar(10)),
            Comparison(Column(("s",)), Operator.EQ, pa.scalar("row 11")),
        )
    )
    for is_on, num_steps in ((True, 2), (False, 1)):
        steps = plan(table, "filter_steps", is_on=is_on, predicate=nothing).tasks[0].scan.filter_steps
        assert len(steps) == num_steps
        assert {path for step in steps for path in step.paths} == {("id",), ("s",)}


def test_few_matching_rows_are_read_alone_or_with_their_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(lance_df.write_dataset(BIG, tmp_path / "t.lance").uri)
    reads = reads_of_columns(monkeypatch)
    few = Comparison(Column(("id",)), Operator.LT, pa.scalar(10))
    for is_on in (True, False):
        reads.clear()
        options = ScanOptions(sparse_reads=is_on, resident_columns=False, cached_plans=False)
        read = table.plan(ScanRequest(columns=("v",), predicate=few, options=options))
        assert pa.Table.from_batches(run_tasks(read.tasks)).equals(BIG.select(["v"]).slice(0, 10))
        assert any(not isinstance(rows, RowRange) for rows in reads) == is_on


def test_filters_judge_dictionaries_or_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"s": [f"a long value that is repeated {number % 5}" for number in range(20_000)]})
    table = open_table(lance_df.write_dataset(rows, tmp_path / "t.lance").uri)
    judged: list[int] = []
    of_indices = matching._OfColumn._of_indices

    def counted(self: Any, values: pa.DictionaryArray) -> Any:
        judged.append(len(values))
        return of_indices(self, values)

    monkeypatch.setattr(matching._OfColumn, "_of_indices", counted)
    equal = Comparison(Column(("s",)), Operator.EQ, pa.scalar("a long value that is repeated 3"))
    for is_on in (True, False):
        judged.clear()
        request = ScanRequest(predicate=equal, options=ScanOptions(dictionary_filters=is_on))
        assert sum(batch.num_rows for batch in run_tasks(table.plan(request).tasks)) == 4_000
        assert bool(judged) == is_on


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_rows_are_counted_by_the_manifest_or_by_reading(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = request.getfixturevalue(kind)
    opened = lance_df.dataset if kind == "table" else lance_df.PartitionedNamespace.open
    opened(source.uri).delete("id % 10 = 3")
    source = source.latest()
    read: list[int] = []
    process = RowSlice._process

    def processed(self: RowSlice, rows: Any) -> Any:
        if not self._scan.columns:
            read.append(len(rows))
        return process(self, rows)

    monkeypatch.setattr(RowSlice, "_process", processed)
    for is_on in (True, False):
        read.clear()
        options = ScanOptions(metadata_counts=is_on)
        plan = source.plan(ScanRequest(columns=(), options=options))
        assert sum(batch.num_rows for batch in run_tasks(plan.tasks)) == NUM_ROWS * 9 // 10
        ctx = datafusion.SessionContext()
        lance_df.register(ctx, "t", source.uri, scan_options=options)
        assert ctx.sql("SELECT count(*) AS n FROM t").to_pydict() == {"n": [NUM_ROWS * 9 // 10]}
        assert bool(read) != is_on


def test_conditions_that_partition_values_prove_are_applied_or_not(namespace: NamespaceSnapshot) -> None:
    proven = Comparison(Column(("p",)), Operator.EQ, pa.scalar(3))
    for is_on in (True, False):
        request = ScanRequest(predicate=proven, options=ScanOptions(proven_conjuncts=is_on))
        assert [each is None for each in namespace.selected_members(request).residuals] == [is_on]
        assert sum(batch.num_rows for batch in run_tasks(namespace.plan(request).tasks)) == 20


def test_columns_in_memory_are_decoded_in_place_or_by_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(lance_df.write_dataset(BIG, tmp_path / "t.lance").uri)
    num_reads = reads_of_columns(monkeypatch)
    pages = calls_of(monkeypatch, ResidentColumn, "_page")
    readers = calls_of(monkeypatch, ResidentColumn, "reader")
    third = Comparison(Column(("id",)), Operator.LT, pa.scalar(len(BIG) // 3))
    for is_on in (True, False, True):
        options = ScanOptions(resident_columns=is_on, observed_statistics=False, cached_plans=False)
        table = table.latest()
        for predicate, expected in ((None, BIG), (third, BIG.slice(0, len(BIG) // 3))):
            for calls in (num_reads, pages, readers):
                calls.clear()
            plan = table.plan(ScanRequest(predicate=predicate, options=options))
            assert pa.Table.from_batches(run_tasks(plan.tasks)).equals(expected)
            assert [bool(num_reads), bool(readers)] == [not is_on, is_on]
            assert is_on or not pages


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("others", [True, False])
def test_small_pages_are_decoded_together_or_one_by_one(
    others: bool, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of_small_pages(tmp_path / "t.lance", version)
    columns, function = (columns_2_0, "read_run") if version == "2.0" else (columns_2_1, "decode_run")
    runs = calls_of(monkeypatch, columns, function)
    ids = pa.array(range(0, NUM_ROWS, 2))
    # columns that are cached with one value of the option are not used with the other one
    for is_on in (False, True):
        options = ScanOptions(
            page_runs=is_on, small_columns=others, resident_columns=others, cached_plans=False
        )
        for predicate, expected in ((None, ROWS), (In(Column(("id",)), ids), ROWS.take(ids))):
            request = ScanRequest(predicate=predicate, options=options)
            assert pa.Table.from_batches(run_tasks(table.plan(request).tasks)).equals(expected)
        assert bool(runs) == is_on
        runs.clear()


def test_columns_of_small_fragments_are_cached_or_read_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_reads = reads_of_columns(monkeypatch)
    for is_on in (True, False):
        request = ScanRequest(
            options=ScanOptions(
                small_columns=is_on, cached_plans=False, joined_fragments=False, resident_columns=False
            )
        )
        for _ in range(2):
            num_reads.clear()
            assert pa.Table.from_batches(run_tasks(table.plan(request).tasks)).sort_by("id").equals(ROWS)
        assert len(num_reads) == (0 if is_on else len(table.fragments))


def test_windows_of_a_store_are_read_ahead_or_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"memory://{uuid.uuid4()}/t.lance"
    table = open_table(lance_df.write_dataset(BIG, uri).uri)
    threads: set[str] = set()
    process = RowSlice._process
    monkeypatch.setattr(
        RowSlice,
        "_process",
        lambda self, rows: threads.add(threading.current_thread().name) or process(self, rows),
    )
    for is_on in (True, False):
        threads.clear()
        request = ScanRequest(options=ScanOptions(prefetched_windows=is_on))
        batches = [batch for task in table.plan(request).tasks for batch in task.read()]
        assert pa.Table.from_batches(batches).equals(BIG)
        assert any(name.startswith("lance_df-read") for name in threads) == is_on
