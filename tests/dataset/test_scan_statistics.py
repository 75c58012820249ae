"""What scans have read: statistics of one scan, plans with counts, counters of the process."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.scanner_options import ColumnOrdering

ROWS = pa.table({"a": range(1000), "b": [f"é{number}" for number in range(1000)]})


@pytest.fixture
def dataset(tmp_path: Path) -> lance_df.LanceDataset:
    return lance_df.write_dataset(ROWS, tmp_path / "t.lance", max_rows_per_file=100)


@pytest.mark.parametrize(
    "options",
    [
        {"filter": "a < 250"},
        {"filter": pc.field("a") < 250},
        {"columns": {"double": "a * 2"}},
        {"columns": ["b"], "order_by": [ColumnOrdering("a", ascending=False)], "limit": 3},
        {"limit": 5},
        {},
    ],
)
def test_a_callback_is_given_the_statistics_of_each_scan_once(
    dataset: lance_df.LanceDataset, options: dict[str, object]
) -> None:
    seen: list[lance_df.ScanStatistics] = []
    scanner = dataset.scanner(**options, scan_stats_callback=seen.append)
    expected = dataset.to_table(**options)
    for number, read in enumerate((scanner.to_table, lambda: pa.table(scanner), scanner.to_pandas), 1):
        found = read()
        assert len(seen) == number
        if isinstance(found, pa.Table):
            assert found.equals(expected)
    assert seen[0] == seen[1] == seen[2]
    assert (seen[0].iops, seen[0].bytes_read) > (0, 0)
    assert seen[0].all_counts["bytes_total"] >= seen[0].bytes_read
    assert seen[0].all_counts["fragments_scanned"] == 10


def test_only_a_scan_that_ends_has_statistics(dataset: lance_df.LanceDataset) -> None:
    seen: list[lance_df.ScanStatistics] = []
    scanner = dataset.scanner(scan_stats_callback=seen.append)
    batches = scanner.to_batches()
    next(batches)
    assert not seen
    assert len(list(batches)) == 9
    assert len(seen) == 1
    assert scanner.projected_schema == ROWS.schema
    assert dataset.scanner({"c": "a + 1"}, scan_stats_callback=seen.append).projected_schema.names == ["c"]
    assert len(seen) == 1
    with pytest.raises(lance_df.InvalidInputError, match="function of ScanStatistics"):
        dataset.scanner(scan_stats_callback=3)


def test_statistics_say_what_indices_saved(dataset: lance_df.LanceDataset) -> None:
    before, after = [], []
    dataset.to_table(filter="a = 7", scan_stats_callback=before.append)
    dataset.create_scalar_index("a", "BTREE")
    dataset.to_table(filter="a = 7", scan_stats_callback=after.append)
    assert (before[0].indices_loaded, after[0].indices_loaded) == (0, 1)
    assert before[0].all_counts["rows_scanned"] == 1000
    assert after[0].all_counts["rows_scanned"] == 1
    assert after[0].bytes_read < before[0].bytes_read


def test_plans_tell_which_columns_and_rows_are_read(dataset: lance_df.LanceDataset) -> None:
    scanner = dataset.scanner(columns=[], filter="a < 50", with_row_id=True)
    assert "LanceRead: projection=[a], rows=1000 of 1000" in scanner.explain_plan(verbose=True)
    assert "LanceRead" not in scanner.explain_plan()
    analyzed = scanner.analyze_plan()
    assert "LanceRead: output_rows=50, rows_scanned=1000, bytes_read=" in analyzed
    dataset.create_scalar_index("a", "BTREE")
    assert "output_rows=1, rows_scanned=1," in dataset.scanner(filter="a = 10").analyze_plan()


def test_plans_of_namespaces_add_up_their_members(tmp_path: Path) -> None:
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", pa.schema([("p", pa.int64())]), ["p"])
    namespace.append(pa.table({"p": [number % 7 for number in range(700)]}))
    seen: list[lance_df.ScanStatistics] = []
    assert namespace.scanner(filter="p < 2", scan_stats_callback=seen.append).to_table().num_rows == 200
    assert seen[0].all_counts["rows_scanned"] == 200


def test_the_process_counts_its_reads_exactly(dataset: lance_df.LanceDataset, tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_bytes(bytes(1 << 20))
    from lance_df.storage.source import MappedSource

    file = MappedSource(str(source))
    reads, num_bytes = lance_df.iops_counter(), lance_df.bytes_read_counter()

    def read() -> None:
        for start in range(0, 20_000, 10):
            file.read_range(start, start + 10)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lance_df.iops_counter() - reads == 8000
    assert lance_df.bytes_read_counter() - num_bytes == 80_000
    reads = lance_df.iops_counter()
    lance_df.dataset(dataset.uri).to_table()
    assert lance_df.iops_counter() > reads


def test_reads_of_a_store_are_counted_by_request() -> None:
    uri = "memory://counted-reads/t.lance"
    lance_df.write_dataset(ROWS, uri)
    reads, num_bytes = lance_df.iops_counter(), lance_df.bytes_read_counter()
    assert lance_df.dataset(uri).to_table().equals(ROWS)
    assert lance_df.iops_counter() > reads
    assert lance_df.bytes_read_counter() > num_bytes
