"""Answers do not depend on what fits the cache: nothing, a little, or everything. `explain_scan` shows it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.cache import DEFAULT_CACHE_BYTES

pytestmark = pytest.mark.engine

ROWS = 6_000


@pytest.fixture(autouse=True)
def default_budget():
    yield
    lance_df.set_cache_bytes(DEFAULT_CACHE_BYTES)


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    words = [f"word {number}" for number in rng.integers(0, 40, ROWS)]
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS) + seed * ROWS),
            "day": pa.array(np.arange(ROWS) // 50),
            "value": pa.array(rng.normal(size=ROWS), mask=rng.random(ROWS) < 0.1),
            "word": words,
            "list": pa.array([[number, None] for number in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A large table, one of small fragments with deleted rows, an old one, a namespace of small members."""
    folder = tmp_path_factory.mktemp("cached")
    lance_df.write_dataset(rows(0), folder / "large.lance", data_storage_version="2.1")
    lance_df.write_dataset(rows(0), folder / "old.lance", data_storage_version="0.1")
    options = {"max_rows_per_file": 300, "data_storage_version": "2.0"}
    lance_df.write_dataset(rows(0), folder / "small.lance", **options).delete("id % 7 = 3")
    lance.dataset(str(folder / "small.lance")).create_scalar_index("id", "BTREE")
    fields = [lance_df.partition.bucket("id", 12)]
    namespace = lance_df.PartitionedNamespace.create(folder / "members", rows(0).schema, fields)
    namespace.append(rows(0))
    namespace.append(rows(1))
    return folder


QUERIES = (
    "SELECT * FROM {table} WHERE id = 77 ORDER BY id",
    "SELECT * FROM {table} WHERE id > 1000000",
    "SELECT word, count(*) AS n, max(id) AS m FROM {table} GROUP BY word ORDER BY word",
    "SELECT day, count(*) AS n, sum(id) AS s FROM {table} GROUP BY day ORDER BY day",
    "SELECT min(id) AS a, max(id) AS b, min(word) AS c, count(value) AS d FROM {table}",
    "SELECT DISTINCT word FROM {table} ORDER BY word",
    "SELECT id, list FROM {table} WHERE word LIKE '%3%' AND day < 9 ORDER BY id",
    "SELECT count(*) AS n FROM {table} AS a JOIN {table} AS b ON a.id = b.id WHERE b.day = 5",
)
STATEMENTS = [
    query.format(table=table) for table in ("large", "old", "small", "members") for query in QUERIES
]


@pytest.fixture(scope="module")
def expected(folder):
    ctx = lance_df.connect(folder)
    return {text: ctx.sql(text).to_arrow_table() for text in STATEMENTS}


@pytest.mark.parametrize("budget", [0, 40_000, DEFAULT_CACHE_BYTES])
def test_answers_are_the_same_with_every_budget(folder, expected, budget):
    lance_df.set_cache_bytes(budget)
    ctx = lance_df.connect(folder)
    rng = random.Random(budget)
    for text in rng.sample(STATEMENTS, len(STATEMENTS)) + rng.sample(STATEMENTS, len(STATEMENTS) // 2):
        assert ctx.sql(text).to_arrow_table().equals(expected[text]), text
        statistics = lance_df.cache_statistics()
        assert statistics.num_bytes <= statistics.max_bytes == budget
        assert statistics.num_bytes == statistics.total.num_bytes


def test_entries_are_evicted_while_statements_run_in_threads(folder, expected):
    ctx = lance_df.connect(folder)

    def run(seed: int) -> list[str]:
        rng = random.Random(seed)
        wrong = []
        for text in rng.sample(STATEMENTS, 16):
            if not ctx.sql(text).to_arrow_table().equals(expected[text]):
                wrong.append(text)
            lance_df.set_cache_bytes(rng.choice([0, 20_000, 300_000, DEFAULT_CACHE_BYTES]))
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [[]] * 4


@pytest.mark.parametrize("name", ["large", "members"])
def test_takes_and_row_ids_do_not_depend_on_the_budget(folder, name):
    def answers():
        if name == "large":
            opened = lance_df.dataset(folder / "large.lance")
            return opened.take([5, 0, 5_999]), opened.to_table(filter="id < 20", with_row_id=True)
        return (lance_df.PartitionedNamespace.open(folder / name).count_rows(),)

    former = answers()
    for budget in (0, 30_000):
        lance_df.set_cache_bytes(budget)
        assert all(one == other for one, other in zip(answers(), former, strict=True))


def test_the_report_of_a_scan_shows_the_cache_of_its_table(folder):
    ctx = lance_df.connect(folder)
    text = "SELECT sum(id) FROM small WHERE id > 3"
    ctx.sql(text).to_arrow_table()
    (first,) = ctx.explain_scan(text).tables
    ctx.sql(text).to_arrow_table()
    report = ctx.explain_scan(text)
    (second,) = report.tables
    assert first == second  # what is read is the same
    assert 0 < first.cache.total.hits < second.cache.total.hits
    assert second.cache.kinds["data files"].entries == second.fragments.total
    assert second.cache.max_bytes == DEFAULT_CACHE_BYTES
    assert "cache: " in str(report)
    assert "hits" in report._repr_html_()
    lance_df.set_cache_bytes(0)
    (third,) = ctx.explain_scan(text).tables
    assert third.cache.total.entries == third.cache.num_bytes == 0
    assert third.cache.total.evictions >= second.cache.total.entries


def test_the_report_on_a_namespace_counts_its_members(folder):
    ctx = lance_df.connect(folder)
    text = "SELECT * FROM members WHERE id = 5"
    ctx.sql(text).to_arrow_table()
    (report,) = ctx.explain_scan(text).tables
    assert report.cache.kinds["members"].entries
    assert report.cache.kinds["data files"].entries
