"""Planning and running scans: what they read, what they leave out, and what they return."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.encodings.arrays import OversizedArrayError
from lance_df.encodings.plan import RowRange
from lance_df.errors import ColumnNotFoundError, InvalidInputError, NotFoundError
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Literal, Operator, Or, Predicate, Unknown
from lance_df.scan.options import NO_STATISTICS
from lance_df.scan.report import Count
from lance_df.scan.request import ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.storage import RemoteSource
from lance_df.table.open import open_table
from lance_df.table.scan.limits import SCAN_LIMITS
from lance_df.table.scan.plan import plan_scan
from lance_df.table.scan.window_reader import WindowReader
from lance_df.table.table import Table

NUM_ROWS = 200_000
KEY = Column(("key",))


def at_least(value: int) -> Comparison:
    return Comparison(KEY, Operator.GE, pa.scalar(value))


def equal_to(value: int) -> Comparison:
    return Comparison(KEY, Operator.EQ, pa.scalar(value))


@pytest.fixture(scope="module")
def data() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "key": np.arange(NUM_ROWS),
            "noise": rng.integers(0, 2**62, NUM_ROWS),
            "text": [f"text number {number}" for number in rng.integers(0, 2**60, NUM_ROWS).tolist()],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, data: pa.Table) -> Path:
    folder = tmp_path_factory.mktemp("scan") / "t.lance"
    lance.write_dataset(data, folder, max_rows_per_file=150_000, data_storage_version="2.1")
    return folder


@pytest.fixture(scope="module")
def table(folder: Path) -> Table:
    return open_table(folder)


class Reads:
    """What was read of the files of a store."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self.files: set[str] = set()

    def of_data(self) -> set[str]:
        return {path for path in self.files if "/data/" in path}


@pytest.fixture
def remote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Table, Reads]]:
    """The table in a store without memory maps, and what is read there."""
    store = fsspec.filesystem("memory")
    root = f"/scan-{folder.parent.name}"
    store.put(str(folder), root, recursive=True)
    table = open_table(f"memory:/{root}")
    reads = Reads()
    original = RemoteSource._read_ranges

    def spy(self: RemoteSource, ranges: Any) -> list[pa.Buffer]:
        reads.num_bytes += sum(wanted.num_bytes for wanted in ranges)
        reads.files.add(self.path)
        return original(self, ranges)

    monkeypatch.setattr(RemoteSource, "_read_ranges", spy)
    yield table, reads
    store.rm(root, recursive=True)


def read(table: Table, **request: Any) -> pa.Table:
    plan = plan_scan(table, ScanRequest(**request))
    return pa.Table.from_batches(run_tasks(plan.tasks, limit=request.get("limit")), plan.schema)


def test_all_rows_come_in_order(table: Table, data: pa.Table) -> None:
    assert read(table).equals(data)


def test_tasks_are_enough_for_workers_and_cover_every_row_once(table: Table, data: pa.Table) -> None:
    tasks = plan_scan(table, ScanRequest()).tasks
    assert 2 <= len(tasks) <= 8
    assert sum(task.num_rows for task in tasks) == NUM_ROWS
    assert [task.num_bytes > 0 for task in tasks] == [True] * len(tasks)
    with SCAN_LIMITS.replaced(max_window_rows=30_000):
        separate = [batch for task in tasks for batch in task.read()]
    assert pa.Table.from_batches(separate).equals(data)
    assert max(batch.num_rows for batch in separate) <= 30_000


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        (equal_to(77_777), [77_777]),
        (In(KEY, pa.array([5, 150_000, 199_999, 149_999])), [5, 149_999, 150_000, 199_999]),
        (Or((equal_to(3), at_least(199_998))), [3, 199_998, 199_999]),
        (
            And((at_least(149_998), Comparison(KEY, Operator.LT, pa.scalar(150_001)))),
            [149_998, 149_999, 150_000],
        ),
        (IsNull(KEY), []),
        (Literal(False), []),
        (Literal(None), []),
    ],
)
def test_only_rows_that_match_are_returned(
    table: Table, data: pa.Table, predicate: Predicate, rows: list[int]
) -> None:
    assert read(table, predicate=predicate).equals(data.take(pa.array(rows, pa.int64())))
    assert read(table, predicate=predicate, columns=("text",)).equals(
        data.take(pa.array(rows, pa.int64())).select(["text"])
    )
    assert read(table, predicate=predicate, columns=()).num_rows == len(rows)


def test_dense_and_full_matches(table: Table, data: pa.Table) -> None:
    assert read(table, predicate=at_least(0)).equals(data)
    assert read(table, predicate=at_least(60_001)).equals(data.slice(60_001))
    odd = In(KEY, pa.array(range(1, NUM_ROWS, 2)))
    assert read(table, predicate=odd, columns=("noise", "key")).equals(
        data.take(list(range(1, NUM_ROWS, 2))).select(["noise", "key"])
    )


def test_scattered_matches_share_batches(table: Table) -> None:
    scattered = In(KEY, pa.array(range(0, NUM_ROWS, 1000)))
    plan = plan_scan(table, ScanRequest(predicate=scattered))
    batches = [batch for task in plan.tasks for batch in task.read()]
    assert sum(batch.num_rows for batch in batches) == 200
    assert len(batches) <= len(plan.tasks)


@pytest.fixture(scope="module")
def selective(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, pa.Table]:
    """A table of three columns, of which conditions on each leave few rows in every window."""
    rng = np.random.default_rng(7)
    rows = pa.table(
        {
            "a": rng.integers(0, 50, NUM_ROWS),
            "b": pa.array(rng.integers(0, 4, NUM_ROWS), mask=rng.random(NUM_ROWS) < 0.1),
            "c": pa.array([f"c{number}" for number in rng.integers(0, 5, NUM_ROWS)]),
            "at": np.arange(NUM_ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("selective") / "t.lance"
    return open_table(lance_df.write_dataset(rows, folder).uri), rows


SELECTIVE = And(
    (
        Comparison(Column(("a",)), Operator.EQ, pa.scalar(7)),
        Comparison(Column(("b",)), Operator.GE, pa.scalar(2)),
        Comparison(Column(("c",)), Operator.NE, pa.scalar("c3")),
    )
)


def selected(rows: pa.Table) -> pa.Table:
    return rows.filter((pc.field("a") == 7) & (pc.field("b") >= 2) & (pc.field("c") != "c3"))


@pytest.mark.parametrize("gathered", [1, 100, 10**6])
@pytest.mark.parametrize("columns", [("at",), ("c", "at", "a"), ("b",)], ids=str)
def test_few_rows_of_several_windows_pass_the_other_conditions_together(
    selective: tuple[Table, pa.Table],
    columns: tuple[str, ...],
    gathered: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, rows = selective
    kinds: list[bool] = []
    take = WindowReader.read
    monkeypatch.setattr(
        WindowReader,
        "read",
        lambda self, rows: kinds.append(isinstance(rows, RowRange)) or take(self, rows),
    )
    with SCAN_LIMITS.replaced(max_window_rows=1000, gathered_rows=gathered, max_task_rows=NUM_ROWS):
        answer = read(table, predicate=SELECTIVE, columns=columns)
    assert answer.equals(selected(rows).select(columns))
    # the first condition leaves some 20 rows of a window: a few windows have 100 together
    num_windows, num_takes = kinds.count(True), kinds.count(False)
    assert NUM_ROWS // 1000 <= num_windows <= NUM_ROWS // 1000 + 3
    if gathered == 1:
        assert num_takes >= 2 * num_windows
    else:
        assert num_takes <= {100: num_windows // 2, 10**6: 20}[gathered]  # no more than a window has


def test_a_limit_ends_the_scan_at_the_first_matches(
    selective: tuple[Table, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rows = selective
    sizes: list[int] = []
    compare = WindowReader.read
    monkeypatch.setattr(
        WindowReader, "read", lambda self, rows: sizes.append(len(rows)) or compare(self, rows)
    )
    with SCAN_LIMITS.replaced(max_window_rows=1000, first_limited_rows=1000, max_task_rows=NUM_ROWS):
        plan = plan_scan(table, ScanRequest(predicate=SELECTIVE, columns=("at",), limit=5))
        batches = list(plan.tasks[0].read())
    answer = pa.Table.from_batches(batches)
    assert answer["at"].to_pylist() == selected(rows)["at"].to_pylist()[:5]
    assert sum(sizes) < 5000


def test_rows_that_do_not_fit_into_one_array_are_read_apart(
    selective: tuple[Table, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rows = selective
    take = WindowReader.read

    def few_at_once(self: WindowReader, rows: Any) -> Any:
        if len(rows) > 100 and not isinstance(rows, RowRange):
            raise OversizedArrayError("too many")
        return take(self, rows)

    monkeypatch.setattr(WindowReader, "read", few_at_once)
    with SCAN_LIMITS.replaced(max_window_rows=1000, max_task_rows=NUM_ROWS):
        assert read(table, predicate=SELECTIVE).equals(selected(rows))


def test_no_match_reads_the_filter_column_only(remote: tuple[Table, Reads]) -> None:
    table, reads = remote
    read(table, columns=("key",))
    key_bytes = reads.num_bytes
    assert read(table, predicate=equal_to(-1)).num_rows == 0
    assert reads.num_bytes - key_bytes <= key_bytes


def test_one_match_reads_little_of_the_other_columns(remote: tuple[Table, Reads]) -> None:
    table, reads = remote
    read(table, columns=("key",))
    key_bytes = reads.num_bytes
    assert read(table, predicate=equal_to(123_456)).num_rows == 1
    assert reads.num_bytes - key_bytes < key_bytes + 300_000


def test_counting_opens_no_data_file(remote: tuple[Table, Reads]) -> None:
    table, reads = remote
    (task,) = plan_scan(table, ScanRequest(columns=())).tasks
    assert task.num_rows == NUM_ROWS
    assert [batch.num_rows for batch in task.read()] == [NUM_ROWS]
    assert not reads.of_data()


def test_planning_opens_no_data_file(remote: tuple[Table, Reads]) -> None:
    table, reads = remote
    assert len(plan_scan(table, ScanRequest(predicate=at_least(3))).tasks) > 1
    assert not reads.of_data()


def test_a_limit_stops_early(remote: tuple[Table, Reads]) -> None:
    table, reads = remote
    assert read(table, limit=10, columns=("noise",))["noise"].length() == 10
    assert len(reads.of_data()) == 1
    assert reads.num_bytes < 400_000
    assert len(plan_scan(table, ScanRequest(limit=70_000)).tasks) == 1
    assert not plan_scan(table, ScanRequest(limit=0)).tasks


def test_a_limit_after_a_filter(table: Table, data: pa.Table) -> None:
    assert read(table, predicate=at_least(140_000), limit=5).equals(data.slice(140_000, 5))


def test_remote_rows_come_in_order(remote: tuple[Table, Reads], data: pa.Table) -> None:
    table, _ = remote
    assert read(table).equals(data)
    assert read(table, predicate=at_least(70_000), columns=("text",)).equals(
        data.slice(70_000).select(["text"])
    )


def test_batches_keep_their_bound(table: Table) -> None:
    plan = plan_scan(table, ScanRequest(columns=("key",), batch_rows=1000, predicate=at_least(100)))
    assert max(batch.num_rows for task in plan.tasks for batch in task.read()) == 1000


def test_wide_rows_come_in_small_batches(tmp_path: Path) -> None:
    width = 4096
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(9000 * width, np.float32)), width)
    lance.write_dataset(pa.table({"v": vectors}), tmp_path / "wide.lance")
    plan = plan_scan(open_table(tmp_path / "wide.lance"), ScanRequest())
    batches = [batch for task in plan.tasks for batch in task.read()]
    assert sum(batch.num_rows for batch in batches) == 9000
    assert max(batch.nbytes for batch in batches) <= 50 * 1024 * 1024


def test_fragments_may_be_chosen_and_ordered(table: Table, data: pa.Table) -> None:
    assert read(table, fragment_ids=(1, 0), columns=("key",))["key"].to_pylist()[:2] == [150_000, 150_001]
    assert read(table, fragment_ids=(1,)).equals(data.slice(150_000))
    assert read(table, fragment_ids=()).num_rows == 0
    with pytest.raises(NotFoundError, match="no fragment 7"):
        plan_scan(table, ScanRequest(fragment_ids=(0, 7)))


def test_wrong_requests_are_refused(table: Table) -> None:
    with pytest.raises(ColumnNotFoundError, match=r"'nope'.*'key', 'noise', 'text'"):
        plan_scan(table, ScanRequest(columns=("nope",)))
    with pytest.raises(ColumnNotFoundError, match=r"'key\.x'"):
        plan_scan(table, ScanRequest(columns=("key.x",)))
    with pytest.raises(ColumnNotFoundError):
        plan_scan(table, ScanRequest(predicate=IsNull(Column(("nope",)))))
    with pytest.raises(InvalidInputError, match="twice"):
        plan_scan(table, ScanRequest(columns=("key", "key")))
    with pytest.raises(InvalidInputError):
        plan_scan(table, ScanRequest(predicate=Unknown("now()")))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs_as_bytes(tmp_path: Path, version: str) -> None:
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    blobs = [b"abc", b"", b"x" * 5000] if version == "2.0" else [b"abc", None, b"", b"x" * 5000]
    lance.write_dataset(pa.table([blobs], schema), tmp_path / "t", data_storage_version=version)
    request = ScanRequest(blobs_as_bytes=True)
    tasks = plan_scan(open_table(str(tmp_path / "t")), request).tasks
    assert pa.Table.from_batches(batch for task in tasks for batch in task.read())["b"].to_pylist() == blobs


def test_hints_prune_and_are_not_applied(tmp_path: Path) -> None:
    rows = pa.table({"key": np.arange(5000)})
    lance.write_dataset(
        rows, tmp_path / "t", data_storage_version="legacy", max_rows_per_file=2000, max_rows_per_group=500
    )
    table = open_table(tmp_path / "t")
    hint = And((at_least(4600), Unknown("random() < 1")))
    found = read(table, pruning_predicate=hint)["key"].to_pylist()
    assert found == list(range(4500, 5000))
    assert read(table, pruning_predicate=hint, options=NO_STATISTICS).num_rows == 5000
    assert read(table, pruning_predicate=IsNull(Column(("not a column",)))).num_rows == 5000


def test_page_statistics_prune_what_indices_do_not(tmp_path: Path) -> None:
    rows = pa.table({"key": np.arange(5000), "s": [f"{number:04}" for number in range(5000)]})
    lance.write_dataset(
        rows, tmp_path / "t", data_storage_version="legacy", max_rows_per_file=2000, max_rows_per_group=500
    )
    table = open_table(tmp_path / "t")
    plan = plan_scan(table, ScanRequest(columns=("s",), predicate=at_least(4600)))
    report = plan.report
    assert (report.table, report.version) == (str(tmp_path / "t"), 1)
    assert report.fragments == Count(1, 3)
    assert report.pages == Count(2, 20)
    assert 0 < report.bytes.kept < report.bytes.total / 5
    assert [(reason.conjunct, reason.effect) for reason in report.reasons] == [
        ("key >= 4600", "page statistics kept 500 of 5000 rows")
    ]
    assert read(table, predicate=at_least(4600)).equals(rows.slice(4600))


def test_indices_prune_and_decide(tmp_path: Path) -> None:
    rows = pa.table({"key": np.arange(5000), "other": np.arange(5000) % 10})
    ds = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=1000)
    ds.create_scalar_index("key", "BTREE")
    ds.delete("key = 3100")
    lance.write_dataset(pa.table({"key": [3001, 1], "other": [0, 1]}), tmp_path / "t", mode="append")
    table = open_table(tmp_path / "t")
    predicate = And((at_least(3000), Comparison(KEY, Operator.LT, pa.scalar(3200))))
    plan = plan_scan(table, ScanRequest(predicate=predicate))
    assert plan.report.fragments == Count(2, 6)
    assert plan.report.reasons
    expected = lance.dataset(tmp_path / "t").to_table(filter="key >= 3000 AND key < 3200")
    assert read(table, predicate=predicate).equals(expected)
    assert read(table, predicate=predicate, options=NO_STATISTICS).equals(expected)
    assert read(table, predicate=at_least(3198), limit=4).equals(
        lance.dataset(tmp_path / "t").to_table(filter="key >= 3198", limit=4)
    )
    with_deleted = read(table, predicate=predicate, include_deleted_rows=True, with_row_id=True)
    assert with_deleted.num_rows == expected.num_rows + 1
    assert with_deleted["_rowid"].null_count == 1


def test_a_report_counts_everything_when_nothing_is_pruned(table: Table) -> None:
    report = plan_scan(table, ScanRequest()).report
    assert report.fragments == Count(2, 2)
    assert report.pages.kept == report.pages.total >= 6
    assert report.bytes.kept == report.bytes.total > 8 * NUM_ROWS
    assert report.reasons == ()


def test_a_struct_may_be_spread_over_data_files(tmp_path: Path) -> None:
    structs = pa.array([{"x": 1}, None, {"x": 3}, {"x": None}])
    lists = pa.array([[{"a": 1}], None, [], [{"a": 2}, {"a": 3}]])
    ds = lance.write_dataset(pa.table({"s": structs, "l": lists}), tmp_path / "t", data_storage_version="2.2")
    ds.add_columns(pa.schema([pa.field("s", pa.struct([pa.field("null", pa.int32())]))]))
    ds.add_columns(pa.table({"s": pa.array([{"y": "a"}, {"y": "b"}, None, {"y": "d"}])}).to_reader())
    ds.add_columns(pa.schema([pa.field("l", pa.list_(pa.struct([pa.field("b", pa.int32())])))]))
    expected = lance.dataset(tmp_path / "t").to_table()
    table = open_table(tmp_path / "t")
    assert [len(fragment.files) for fragment in table.fragments] == [2]
    assert read(table).equals(expected)
    assert read(table)["s"].to_pylist() == [
        {"x": 1, "null": None, "y": "a"},
        {"x": None, "null": None, "y": "b"},
        {"x": 3, "null": None, "y": None},
        {"x": None, "null": None, "y": "d"},
    ]
    assert read(table, columns=("s.y",))["s.y"].to_pylist() == ["a", "b", None, "d"]
    assert read(table, predicate=Comparison(Column(("s", "x")), Operator.GE, pa.scalar(2)))[
        "l"
    ].to_pylist() == [[]]


def test_windows_without_matches_are_remembered(remote: tuple[Table, Reads], data: pa.Table) -> None:
    table, reads = remote
    nothing = equal_to(-7)
    assert read(table, predicate=nothing).num_rows == 0
    first = reads.num_bytes
    assert read(table, predicate=nothing).num_rows == 0
    assert reads.num_bytes == first
    assert read(table, predicate=nothing, options=NO_STATISTICS).num_rows == 0
    assert reads.num_bytes > first
    assert read(table, predicate=at_least(0)).num_rows == data.num_rows
