"""A partitioned namespace is a dataset of pyarrow's: other tools open only what can match."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.snapshot import NamespaceSnapshot

if TYPE_CHECKING:
    from lance_df.scan.plan import ScanPlan
    from lance_df.scan.request import ScanRequest

pytestmark = pytest.mark.engine

NUM_ROWS, NUM_GROUPS = 3_000, 300


def rows() -> pa.Table:
    numbers = range(NUM_ROWS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "g": pa.array([i % NUM_GROUPS for i in numbers], pa.int32()),
            "name": [f"name {i % 7}" if i % 11 else None for i in numbers],
            "at": pa.array(
                [dt.datetime(2024, 1, 1) + dt.timedelta(hours=i) for i in numbers], pa.timestamp("us")
            ),
            "point": [{"x": i, "y": str(i)} for i in numbers],
        }
    )


ROWS = rows()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("interop") / "events"
    made = lance_df.PartitionedNamespace.create(root, ROWS.schema, [partition.identity("g")])
    made.append(ROWS)
    return root


@pytest.fixture
def events(root: Path) -> lance_df.PartitionedNamespace:
    return lance_df.PartitionedNamespace.open(root)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ScanRequest, int]]:
    """What was requested of namespaces, and the partitions that are read for it."""
    seen: list[tuple[ScanRequest, int]] = []
    planned = NamespaceSnapshot._planned

    def spy(snapshot: NamespaceSnapshot, request: ScanRequest) -> ScanPlan:
        plan = planned(snapshot, request)
        report = plan.report
        assert report.partitions is not None
        seen.append((request, report.partitions.kept))
        return plan

    monkeypatch.setattr(NamespaceSnapshot, "_planned", spy)
    return seen


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by("id").combine_chunks()


def test_it_is_a_dataset_and_a_stream(events: Any) -> None:
    assert isinstance(events, pads.Dataset)
    assert events.schema.equals(ROWS.schema, check_metadata=True)
    assert in_order(pa.table(events)).equals(ROWS)
    assert in_order(pa.RecordBatchReader.from_stream(events).read_all()).equals(ROWS)
    assert len(events) == NUM_ROWS


def test_duckdb_finds_it_by_its_variable(events: Any, scans: list[tuple[ScanRequest, int]]) -> None:
    answer = duckdb.sql("SELECT count(*), sum(id), min(name) FROM events WHERE g = 7 AND id > 300").fetchall()
    wanted = [i for i in range(NUM_ROWS) if i % NUM_GROUPS == 7 and i > 300]
    assert answer == [(len(wanted), sum(wanted), min(f"name {i % 7}" for i in wanted if i % 11))]
    request, partitions = scans[-1]
    assert request.predicate is not None
    assert partitions == 1
    assert set(request.columns or ()) <= {"id", "g", "name"}
    everything = duckdb.sql("SELECT * FROM events ORDER BY id").to_arrow_table()
    assert everything["point"].to_pylist() == ROWS["point"].to_pylist()


def test_polars_and_pandas(events: Any, scans: list[tuple[ScanRequest, int]]) -> None:
    lazy = pl.scan_pyarrow_dataset(events).filter(pl.col("g") == 9, pl.col("id") > 2_000).select("id", "name")
    assert sorted(lazy.collect()["id"].to_list()) == [2109, 2409, 2709]
    assert scans[-1][1] == 1
    frame = events.to_polars(["id", "name"], "g = 9")
    assert frame.schema == {"id": pl.Int64, "name": pl.String}
    assert frame.height == 10
    assert events.to_pandas(columns=["id"], filter=pc.field("g") == 9)["id"].sum() == sum(range(9, 3000, 300))
    assert pd.DataFrame.from_arrow(events).shape == (NUM_ROWS, 5)


def test_a_plain_session_of_datafusion(events: Any) -> None:
    ctx, memory = datafusion.SessionContext(), datafusion.SessionContext()
    ctx.register_dataset("t", events)
    memory.from_arrow(ROWS, name="t")
    for query in (
        "SELECT count(*) AS n, sum(id) AS s FROM t WHERE g = 7",
        "SELECT g, count(*) AS n FROM t WHERE id % 7 = 3 AND name = 'name 3' GROUP BY g ORDER BY g LIMIT 5",
        "SELECT id, point FROM t WHERE name IS NULL ORDER BY id",
        "SELECT count(*) AS n FROM t",
    ):
        assert ctx.sql(query).to_pylist() == memory.sql(query).to_pylist()


def test_nothing_can_be_sorted_in_a_plain_session(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "s": ["a", "b"]})
    names = {
        "n": lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["s"]),
        "e": lance_df.PartitionedNamespace.create(tmp_path / "e", rows.schema, ["s"]),
        "t": lance_df.write_dataset(rows, tmp_path / "t"),
    }
    names["n"].append(rows)
    names["t"].create_scalar_index("id", "ZONEMAP")
    ctx = datafusion.SessionContext()
    for name, each in names.items():
        ctx.register_dataset(name, each)
    for query in (
        "SELECT id FROM n WHERE s = 'zzz' ORDER BY id",
        "SELECT id, row_number() OVER (ORDER BY id) AS r FROM n WHERE s = 'zzz'",
        "SELECT id FROM e ORDER BY id LIMIT 2",
        "SELECT id FROM t WHERE id > 1000 ORDER BY id LIMIT 2",
    ):
        assert ctx.sql(query).to_pylist() == []


def test_fragments_are_members_that_may_match(events: Any) -> None:
    fragments = events.get_fragments()
    assert 1 < len(fragments) < NUM_GROUPS
    parts = [fragment.to_table() for fragment in fragments]
    assert pa.concat_tables(parts).equals(events.to_table())
    assert sum(fragment.count_rows() for fragment in fragments) == NUM_ROWS
    (one,) = events.get_fragments(pc.field("g") == 7)
    assert one.count_rows() == one.count_rows(pc.field("g") == 7) == 10
    assert len(one.object_ids) == 1
    assert one.scanner(events.schema, columns=["id"]).to_table().num_rows == 10
    assert one.head(2)["id"].to_pylist() == [7, 307]
    assert pickle.loads(pickle.dumps(one)).to_table().equals(one.to_table())
    with pytest.raises(InvalidInputError, match="columns="):
        one.scanner(pa.schema([("id", pa.int64())]))
    assert [part.count_rows() for part in events.get_fragments(pc.field("g") == -1)] == [0]


def test_scans_have_limits_orders_and_sizes(events: Any) -> None:
    whole = events.to_table()
    assert events.head(7).equals(whole.slice(0, 7))
    assert events.to_table(["id"], offset=2_990)["id"].to_pylist() == whole["id"].to_pylist()[2_990:]
    assert events.to_table(["id"], "g < 3", limit=4, offset=8).equals(
        events.to_table(["id"], pc.field("g") < 3, limit=4, offset=8)
    )
    assert events.scanner(["id"], order_by=["id"], limit=3).to_table()["id"].to_pylist() == [0, 1, 2]
    assert {batch.num_rows for batch in events.to_batches(batch_size=500, strict_batch_size=True)} == {500}
    assert events.take([5, 0], ["id"])["id"].to_pylist() == whole["id"].take([5, 0]).to_pylist()
    assert events.take([], ["id"]).num_rows == 0
    for wrong in ([3_000], [-1], [1.5], None):
        for each in (events, events.scanner(["id"]), events.get_fragments()[0]):
            with pytest.raises(InvalidInputError, match=r"out of range|list of (non-negative )?integers"):
                each.take(wrong)
    assert events.to_table({"twice": "id * 2"}, "g = 7", limit=1).to_pylist() == [{"twice": 14}]
    assert events.to_table(["point.x"], "g = 7", limit=1).to_pylist() == [{"point.x": 7}]
    assert events.scanner(["name"], pc.field("g") == 7, use_threads=True, memory_pool=None).count_rows() == 10
    assert events.count_rows("g = 7") == events.count_rows(pc.field("g") == 7) == 10
    assert events.scanner({"twice": "id * 2"}).projected_schema.names == ["twice"]
    plan = events.scanner(["id"], pc.field("g") == 7).explain_plan()
    assert "partitions: 1 of 300" in plan
    for option in ("with_row_id", "with_row_address"):
        with pytest.raises(UnsupportedFeatureError, match=option):
            events.scanner(**{option: True})


def test_filtered_datasets_join_their_filters(events: Any, root: Path) -> None:
    some = events.filter(pc.field("g") < 5).filter(pc.field("id") >= 1_000)
    wanted = [i for i in range(1_000, NUM_ROWS) if i % NUM_GROUPS < 5]
    assert sorted(some.to_table()["id"].to_pylist()) == wanted
    assert some.count_rows() == len(wanted)
    assert (
        some.count_rows("g = 3") == some.count_rows(pc.field("g") == 3) == sum(i % 300 == 3 for i in wanted)
    )
    filtered = duckdb.from_arrow(some)
    assert filtered.filter("g >= 3").count("*").fetchall() == [(sum(i % NUM_GROUPS >= 3 for i in wanted),)]
    assert events.count_rows() == NUM_ROWS
    joined = some._with_scan_options({"columns": ["id"]}).join(
        pads.dataset(pa.table({"id": [1_200], "extra": ["x"]})), "id", join_type="inner"
    )
    assert joined.to_table()["extra"].to_pylist() == ["x"]
    assert some.sort_by([("id", "descending")]).head(1)["id"].to_pylist() == [max(wanted)]


def test_it_travels_to_new_processes_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    moving = lance_df.PartitionedNamespace.create("relative", ROWS.schema, [partition.identity("g")])
    sent = [pickle.dumps(moving)]
    moving.append(ROWS.slice(0, 400))
    sent.append(pickle.dumps(moving.filter(pc.field("id") < 100)))
    before = pickle.dumps(moving)
    with moving.transaction() as changes:
        changes.delete("id < 50")
        sent.append(pickle.dumps(moving))
    sent += [before, pickle.dumps(moving), pickle.dumps(moving.at(2))]
    code = """
import pickle, sys
for each in pickle.load(sys.stdin.buffer):
    namespace = pickle.loads(each)
    print(namespace.version, namespace.count_rows(), namespace.to_table(["id"]).num_rows)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(sent), capture_output=True, cwd="/", timeout=120
    )
    assert done.stderr == b""
    numbers = [tuple(map(int, line.split())) for line in done.stdout.decode().splitlines()]
    assert [counts[1] for counts in numbers] == [0, 100, 400, 400, 350, 400]
    assert all(counts[1] == counts[2] for counts in numbers)
    assert len({counts[0] for counts in numbers}) == 3


def test_extension_types_are_those_of_the_schema(tmp_path: Path) -> None:
    uuids = pa.array([bytes([n]) * 16 for n in range(2)], pa.uuid())
    data = pa.table({"id": [1, 2], "u": uuids, "j": pa.array(['{"a":1}', None], pa.json_())})
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, [partition.identity("id")])
    made.append(data)
    assert made.schema.equals(made.scanner().projected_schema)
    assert made.to_table().schema.equals(made.schema)
    assert made.schema.field("j").type == pa.json_()
    assert made.to_table().sort_by("id")["j"].to_pylist() == data["j"].to_pylist()
    with pytest.raises(ColumnNotFoundError):
        made.to_batches(["nothing"])
    assert made.to_table(["u", "id"]).sort_by("id")["u"].to_pylist() == data["u"].to_pylist()
    assert made.to_table({"u": "u"}).num_rows == 2
