"""The provider by itself: partitions, counts, columns, limits, errors, repeated execution."""

import gc
from dataclasses import FrozenInstanceError

import datafusion
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fake_table import FakeTable, sample_table

import lance_df
from lance_df.cache import CacheCounters, cache_statistics
from lance_df.engine.provider import LanceTableProvider, SourceScan
from lance_df.errors import ColumnNotFoundError, CorruptDataError
from lance_df.table.scan import cached_plans

pytestmark = pytest.mark.engine


@pytest.fixture
def provider(sample) -> LanceTableProvider:
    return LanceTableProvider(SourceScan(source=sample, num_partitions=3))


@pytest.fixture
def ctx(provider) -> datafusion.SessionContext:
    context = datafusion.SessionContext()
    context.register_dataset("t", provider)
    return context


def test_count_reads_no_column(ctx, provider, sample):
    assert ctx.sql("SELECT count(*) AS n FROM t").to_pydict() == {"n": [23]}
    assert sample.requests[-1].columns == ()
    assert provider.log.counters.rows == 23


def test_counting_with_a_filter_reads_the_filter_only(ctx, sample):
    expected = sum(value is not None and value > 2 for value in sample_table()["i"].to_pylist())
    assert ctx.sql("SELECT count(*) AS n FROM t WHERE i > 2").to_pydict() == {"n": [expected]}
    assert sample.requests[-1].columns == ()


@pytest.mark.parametrize("name", ["scan", "log", "schema", "hint"])
def test_providers_are_frozen(provider, name):
    with pytest.raises(FrozenInstanceError, match=name):
        setattr(provider, name, None)
    with pytest.raises(FrozenInstanceError, match=name):
        delattr(provider, name)


def test_huge_counts_come_in_small_batches(fake):
    class Huge(FakeTable):
        pass

    table = Huge([sample_table()])
    provider = LanceTableProvider(SourceScan(source=table))
    (partition, *_) = provider.get_fragments(None)
    plan = provider._plan((), None)
    plan.plan.tasks[0].num_rows = 3_000_000
    batches = list(partition.scanner(provider.schema, columns=[]).to_batches())
    assert sum(batch.num_rows for batch in batches) == 3_000_000 + 23 - 4
    assert max(batch.num_rows for batch in batches) <= 1 << 20


@pytest.mark.parametrize(
    ("num_rows", "limit", "expected"), [(0, 8, 1), (4, 8, 1), (5, 8, 2), (23, 3, 3), (23, 64, 6)]
)
def test_partitions_are_as_many_as_useful(fake, num_rows, limit, expected):
    provider = LanceTableProvider(SourceScan(source=fake([sample_table(num_rows)]), num_partitions=limit))
    assert len(provider.get_fragments(None)) == expected


def test_tasks_are_shared_by_the_partitions(provider):
    partitions = provider.get_fragments(None)
    streams = [each.scanner(provider.schema, columns=["id"]).to_batches() for each in partitions]
    found = []
    while streams:
        for stream in list(streams):
            batch = next(stream, None)
            found += [] if batch is None else batch["id"].to_pylist()
            streams.remove(stream) if batch is None else None
    assert sorted(found) == list(range(23))
    assert provider.log.counters.tasks == 6


def test_a_plan_can_be_executed_again(provider):
    """A recursive query executes the same partitions once for each iteration."""
    partitions = provider.get_fragments(None)
    for _ in range(3):
        found = []
        for partition in partitions:
            for batch in partition.scanner(provider.schema, columns=["id"]).to_batches():
                found += batch["id"].to_pylist()
        assert sorted(found) == list(range(23))


def test_recursive_query(ctx):
    query = (
        "WITH RECURSIVE walk AS (SELECT 0 AS n UNION ALL "
        "SELECT t.id + 1 AS n FROM walk JOIN t ON t.id = walk.n WHERE walk.n < 9) "
        "SELECT n FROM walk ORDER BY n"
    )
    assert ctx.sql(query).to_pydict()["n"] == list(range(10))


def test_order_by_limit_with_nothing_left(ctx):
    assert ctx.sql("SELECT id FROM t WHERE i = 1 AND i = 2 ORDER BY id LIMIT 3").to_pylist() == []
    assert ctx.sql("SELECT id, s FROM t WHERE id > 1000 ORDER BY s DESC LIMIT 3").to_pylist() == []


def test_limit_stops_early(fake):
    table = fake([sample_table(4000)])
    provider = LanceTableProvider(SourceScan(source=table, num_partitions=2))
    ctx = datafusion.SessionContext()
    ctx.register_dataset("t", provider)
    assert len(ctx.sql("SELECT id FROM t LIMIT 5").to_pylist()) == 5
    assert provider.log.counters.tasks < 200


def test_closing_a_partition_closes_its_task(provider, monkeypatch):
    closed = []

    class Task:
        num_rows = num_bytes = 8

        def read(self):
            try:
                while True:
                    yield pa.record_batch({"id": pa.array([1], pa.int64())})
            finally:
                closed.append(True)

    planned = provider._plan(("id",), None)
    object.__setattr__(planned.plan, "tasks", [Task()])
    (partition, *_) = provider.get_fragments(None)
    stream = partition.scanner(provider.schema, columns=["id"]).to_batches()
    next(stream)
    stream.close()
    assert closed == [True]


def test_batches_have_exactly_the_promised_schema(ctx, provider):
    names = ["s", "dic", "st", "tz", "odd Name.x"]
    found = ctx.sql('SELECT s, dic, st, tz, "odd Name.x" FROM t').to_arrow_table()
    assert found.schema.types == sample_table().select(names).schema.types
    partition = provider.get_fragments(None)[0]
    scan = partition.scanner(provider.schema, columns=["dic", "s"])
    assert all(batch.schema.equals(scan.projected_schema, check_metadata=True) for batch in scan.to_batches())


def test_other_types_than_promised_are_cast(provider):
    read = pa.record_batch({"s": pa.array(["a"], pa.large_string()), "id": pa.array([1], pa.int32())})

    class Task:
        num_rows = num_bytes = 1

        def read(self):
            yield read

    planned = provider._plan(("id", "s"), None)
    object.__setattr__(planned.plan, "schema", read.schema)
    object.__setattr__(planned.plan, "tasks", [Task()])
    scan = provider.get_fragments(None)[0].scanner(provider.schema, columns=["id", "s"])
    (batch,) = scan.to_batches()
    assert batch.schema.types == [pa.int64(), pa.string()]


def test_what_the_predicate_language_cannot_say_is_evaluated(ctx, sample):
    rows = sample_table().to_pylist()
    expected = [row["id"] for row in rows if row["i"] is not None and row["i"] == row["id"]]
    provider = LanceTableProvider(SourceScan(source=sample))
    condition = (pc.field("i") == pc.field("id")) & ~pc.is_in(pc.field("s"), pa.array(["zebra", None]))
    partition = provider.get_fragments(condition)[0]
    batches = list(partition.scanner(provider.schema, columns=["id"], filter=condition).to_batches())
    assert [
        value for batch in batches for value in batch["id"].to_pylist()
    ] == []  # NOT IN (…, NULL) is never true
    condition = pc.field("i") == pc.field("id")
    partition = LanceTableProvider(SourceScan(source=sample, num_partitions=1)).get_fragments(condition)[0]
    batches = list(partition.scanner(provider.schema, columns=["id"], filter=condition).to_batches())
    assert [value for batch in batches for value in batch["id"].to_pylist()] == expected
    assert all(batch.schema.names == ["id"] for batch in batches)


@pytest.mark.parametrize("filter_value", [False, pa.scalar(False), pa.scalar(None, pa.bool_())])
def test_literal_filters(provider, filter_value):
    partition = provider.get_fragments(filter_value)[0]
    assert list(partition.scanner(provider.schema, columns=["id"], filter=filter_value).to_batches()) == []


def test_true_filter(provider):
    partition = provider.get_fragments(pa.scalar(True))[0]
    batches = list(partition.scanner(provider.schema, columns=[], filter=pa.scalar(True)).to_batches())
    assert sum(batch.num_rows for batch in batches) == 23


def test_errors_are_remembered(sample, ctx, provider):
    sample.fail = CorruptDataError("data/x.lance: page 3 ends early")
    with pytest.raises(Exception, match=r"data/x\.lance: page 3 ends early"):
        ctx.sql("SELECT id FROM t").collect()
    assert provider.log.errors[-1] is sample.fail


def test_unknown_columns_in_a_filter(provider):
    with pytest.raises(ColumnNotFoundError, match="nope"):
        provider.get_fragments(pc.field("nope") == 1)
    assert isinstance(provider.log.errors[0], ColumnNotFoundError)


def test_plans_are_made_once_for_columns_and_filter(provider, sample):
    before = len(sample.requests)
    for _ in range(3):
        provider.scanner(columns=["id"])
        partition = provider.get_fragments(pc.field("i") == 1)[0]
        partition.scanner(provider.schema, columns=["id"], filter=pc.field("i") == 1)
    assert len(sample.requests) == before + 1
    provider.scanner(columns=["id", "s"])
    provider.get_fragments(pc.field("i") == 1)
    provider.get_fragments(pc.field("i") == 2)
    assert len(sample.requests) == before + 3


def test_cached_plans_are_bounded(provider):
    gc.collect()
    plans = cache_statistics().kinds.get("plans", CacheCounters()).entries
    for number in range(100):
        provider.get_fragments(pc.field("i") == number)
    assert 0 < cache_statistics().kinds["plans"].entries <= plans + 32  # with what the table keeps


def test_cached_plans_of_a_version_are_bounded(tmp_path):
    dataset = lance_df.write_dataset(pa.table({"i": [1, 2, 3]}), tmp_path / "t.lance")
    provider = LanceTableProvider(SourceScan(source=dataset._table))
    for number in range(100):
        provider.get_fragments(pc.field("i") == number)
    assert dataset._table.shared.cache.statistics().kinds["plans"].entries == 64


def test_statements_share_plans_of_a_version(tmp_path, monkeypatch):
    planned = []
    real = cached_plans.plan_scan
    monkeypatch.setattr(
        cached_plans, "plan_scan", lambda *given: planned.append(given[1].predicate) or real(*given)
    )
    dataset = lance_df.write_dataset(pa.table({"x": [1, 2, 3]}), tmp_path / "t.lance")
    ctx = lance_df.connect(tmp_path)

    def asked(condition):
        before = len(planned)
        found = ctx.sql(f"SELECT x FROM t WHERE {condition}").to_arrow_table()["x"].to_pylist()
        return found, len(planned) > before

    # the first scan of a column observes its bounds; the next one plans anew, with these
    assert asked("x > 1") == ([2, 3], True)
    assert asked("x > 1") == ([2, 3], True)
    assert asked("x > 1") == ([2, 3], False)
    assert asked("x > 2") == ([3], True)
    # what no scan is given prunes, too: it tells plans apart
    assert asked("x > 1 AND abs(x) IN (1, 2)")[0] == [2]
    assert asked("x > 1 AND abs(x) IN (1, 3)")[0] == [3]
    assert asked("x > 9") == ([], True)
    assert asked("x > 9") == ([], False)
    dataset.insert(pa.table({"x": [4]}))
    assert asked("x > 1") == ([2, 3, 4], True)
