"""Zone maps of members: built while rows are written, and used by what reads them."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import LanceError
from lance_df.namespace.changes.routing import PartitionWriter
from lance_df.table.maintenance.zones import ROWS_PER_ZONE
from lance_df.table.writing.zone_map_writer import ZoneMapBuilder

pytestmark = pytest.mark.filterwarnings("ignore:The .list_indices. method is deprecated")

N = ROWS_PER_ZONE


def rows(start: int, stop: int, key: str = "a") -> pa.Table:
    number = pa.array(range(start, stop), pa.int64())
    text = pc.binary_join_element_wise("t", number.cast(pa.string()), "-")
    return pa.table({"key": pa.repeat(key, stop - start), "number": number, "text": text})


def namespace(root: Path, data: pa.Table) -> lance_df.PartitionedNamespace:
    return lance_df.PartitionedNamespace.create(root, data.schema, ["key"])


def members(ns: lance_df.PartitionedNamespace, root: Path) -> dict[str, lance.LanceDataset]:
    """Return the tables of the partitions, opened by pylance at the versions that are read."""
    found = ns.partitions().to_pylist()
    return {row["key"]: lance.dataset(root / row["location"], version=row["read_version"]) for row in found}


def indexed(dataset: lance.LanceDataset) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for index in dataset.list_indices():
        assert index["type"] == "ZoneMap"
        found.setdefault(index["fields"][0], set()).update(index["fragment_ids"])
    return found


def test_partitions_of_more_than_a_zone_have_zone_maps(tmp_path: Path):
    data = pa.concat_tables([rows(0, N + 1), rows(0, N, "b")])
    ns = namespace(tmp_path, data)
    ns.append(data)
    tables = members(ns, tmp_path)
    assert indexed(tables["a"]) == {"number": {0}, "text": {0}}
    assert indexed(tables["b"]) == {}
    assert [table.version for table in tables.values()] == [1, 1]
    for table in tables.values():
        table.validate()
    assert ns.to_table().sort_by([("key", "ascending"), ("number", "ascending")]) == data


@pytest.mark.parametrize("statistics", [True, False])
def test_statistics_as_asked_for(tmp_path: Path, statistics: bool):
    data = pa.concat_tables([rows(0, N + 1), rows(0, 10, "b")])
    ns = namespace(tmp_path, data)
    ns.append(data, statistics=statistics)
    wanted = {"number": {0}, "text": {0}} if statistics else {}
    assert {key: indexed(table) for key, table in members(ns, tmp_path).items()} == {"a": wanted, "b": wanted}


def test_more_rows_get_zone_maps_of_their_own(tmp_path: Path):
    ns = namespace(tmp_path, rows(0, 1))
    ns.append(rows(0, 3 * N))
    ns.append(rows(3 * N, 5 * N))
    ns.append(rows(5 * N, 5 * N + 7))
    table = members(ns, tmp_path)["a"]
    table.validate()
    assert indexed(table)["number"] == {0, 1}
    found = ns.to_table(filter=f"number = {4 * N}")
    assert found == rows(4 * N, 4 * N + 1)
    assert table.to_table(filter=f"number = {4 * N}") == found
    ns.overwrite_partitions(rows(0, 2 * N))
    assert indexed(members(ns, tmp_path)["a"])["number"] == {3}
    assert ns.to_table(filter="number < 3") == rows(0, 3)


def test_a_query_reads_the_zones_that_may_match(tmp_path: Path):
    ns = namespace(tmp_path, rows(0, 1))
    ns.append(rows(0, 10 * N))
    context = lance_df.connect(tmp_path)
    name = tmp_path.name
    report = context.explain_scan(f'SELECT text FROM "{name}" WHERE number = {4 * N}')
    assert f"number = {4 * N}: indices kept 1 of 1 fragments, {N} rows" in str(report)


@pytest.mark.parametrize("most_open", [0, 1])
def test_rows_that_are_written_in_several_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_open: int
):
    monkeypatch.setattr("lance_df.namespace.changes.routing._MOST_OPEN", most_open)
    monkeypatch.setattr("lance_df.namespace.changes.routing._ROUTED_BYTES", 1024 * 1024)
    monkeypatch.setitem(PartitionWriter.__init__.__kwdefaults__, "buffer_bytes", 1024 * 1024)
    ns = namespace(tmp_path, rows(0, 1))
    ns.append(rows(0, 20 * N).to_reader(max_chunksize=N))
    table = members(ns, tmp_path)["a"]
    table.validate()
    assert (len(table.get_fragments()) == 1) is bool(most_open)
    assert indexed(table)["number"] == {fragment.fragment_id for fragment in table.get_fragments()}
    for wanted in (0, 7 * N + 3, 20 * N - 1):
        assert ns.to_table(filter=f"number = {wanted}") == rows(wanted, wanted + 1)


@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_of_an_append_whose_zone_maps_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
):
    ns = namespace(tmp_path, rows(0, 1))
    if is_there:
        ns.append(rows(0, 5))
    before = ns.to_table()

    def fail(*arguments: object, **options: object) -> None:
        raise lance_df.StorageError("the disk is full")

    monkeypatch.setattr(ZoneMapBuilder, "commit", fail)
    monkeypatch.setattr(ZoneMapBuilder, "write", fail)
    with pytest.raises(LanceError, match="the disk is full"):
        ns.append(rows(5, 2 * N))
    monkeypatch.undo()
    ns = lance_df.PartitionedNamespace.open(tmp_path)
    assert ns.to_table() == before
    ns.append(rows(5, 2 * N))
    assert ns.to_table() == pa.concat_tables([before, rows(5, 2 * N)])


def test_an_append_begins_anew_where_the_commit_of_zone_maps_is_refused(tmp_path, monkeypatch):
    from lance_df.errors import RetryableConflictError
    from lance_df.table.writing import zone_map_writer

    rows = pa.table({"p": list(range(40)) * 2, "x": range(80)})
    namespace = lance_df.PartitionedNamespace.create(
        tmp_path / "ns", rows.schema, [lance_df.partition.identity("p")]
    )
    namespace.append(rows, statistics=True)
    written, refused = zone_map_writer.write_zone_map, set()

    def write(table, *arguments, **options):
        index = written(table, *arguments, **options)
        if table.path not in refused:
            refused.add(table.path)
            raise RetryableConflictError("another process was faster")
        return index

    monkeypatch.setattr(zone_map_writer, "write_zone_map", write)
    namespace.append(rows, statistics=True)
    assert len(refused) == 40
    assert namespace.count_rows() == 160
    report = lance_df.PartitionedNamespace.open(tmp_path / "ns").verify(deep=True)
    assert report.ok, report
