"""Statements that ask for extremes only: the same answers, also from what earlier statements have read."""

import math
import random
from datetime import UTC, date, datetime, time
from decimal import Decimal

import datafusion
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.engine.optimizer import planned
from lance_df.scan.request import PartialAggregate

pytestmark = pytest.mark.engine

ROWS = 100_000  # two stretches
VALUES = {
    "int8": (pa.int8(), [-128, 127, 0, 5]),
    "uint64": (pa.uint64(), [2**64 - 1, 0, 17]),
    "decimal": (pa.decimal128(20, 3), [Decimal("-1.250"), Decimal("99999999999999999.999")]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime(1969, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)],
    ),
    "time": (pa.time64("us"), [time(0), time(23, 59, 59)]),
    "flag": (pa.bool_(), [True, False]),
    "text": (pa.string(), ["", "a", "ä", "\U0001f600", "zz" * 40, "Z"]),
    "large_text": (pa.large_string(), ["b", "aa", "\x00"]),
    "bytes": (pa.binary(), [b"", b"\x00\xff", b"\xff"]),
    "double": (pa.float64(), [1.5, -2.5, 1e300, math.inf, -math.inf]),
    "zeros": (pa.float64(), [0.0, -0.0]),
    "nans": (pa.float32(), [math.nan, 1.0, -3.5]),
    "nothing": (pa.int32(), [None]),
}


@pytest.fixture(scope="module")
def rows():
    choose = np.random.default_rng(3)
    columns = {}
    for name, (data_type, values) in VALUES.items():
        picked = pa.array(choose.integers(0, len(values), ROWS), mask=choose.random(ROWS) < 0.2)
        columns[name] = pa.array(values, data_type).take(picked)
    return pa.table(columns).append_column("number", pa.array(np.arange(ROWS)))


def ask(ctx, text):
    return ctx.sql(text).to_arrow_table()


def memory(rows):
    ctx = datafusion.SessionContext()
    ctx.from_arrow(rows, "t")
    return ctx


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_every_type(version, rows, tmp_path):
    if version == "0.1":
        rows = rows.drop_columns(["large_text", "time"])
    lance_df.write_dataset(
        rows, tmp_path / "t.lance", data_storage_version="legacy" if version == "0.1" else version
    )
    # 0.1 knows no empty strings
    ctx, expected = lance_df.connect(tmp_path), memory(lance_df.dataset(tmp_path / "t.lance").to_table())
    for name in rows.column_names:
        text = f'SELECT max("{name}") AS most, min("{name}") AS least FROM t'
        wanted = ask(expected, text)
        for _ in range(2):
            assert repr(ask(ctx, text).to_pylist()) == repr(wanted.to_pylist()), name
            assert ask(ctx, text).schema == wanted.schema


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_what_was_read_is_not_read_again(version, rows, tmp_path, monkeypatch):
    from lance_df.table.scan.row_slice import RowSlice

    lance_df.write_dataset(rows, tmp_path / "t.lance", data_storage_version=version)
    ctx = lance_df.connect(tmp_path)
    first = ask(ctx, "SELECT max(number), min(text) FROM t")
    reads = []
    values = RowSlice.values
    monkeypatch.setattr(RowSlice, "values", lambda self, *rows: reads.append(rows) or values(self, *rows))
    assert ask(ctx, "SELECT max(number), min(text) FROM t") == first
    assert ask(ctx, "SELECT min(number) AS a FROM t").to_pylist() == [{"a": 0}]
    assert reads == []
    assert ask(ctx, "SELECT max(date) AS a FROM t").to_pylist() == [{"a": date(9999, 12, 31)}]
    assert len(reads) == 1


def test_other_versions_and_deleted_rows(rows, tmp_path):
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    ctx = lance_df.connect(tmp_path)
    text = "SELECT max(number) AS most, min(number) AS least FROM t"
    assert ask(ctx, text).to_pylist() == [{"most": ROWS - 1, "least": 0}]
    dataset = lance_df.dataset(tmp_path / "t.lance")
    dataset.delete(f"number = {ROWS - 1} OR number < 10")
    assert ask(ctx, text).to_pylist() == [{"most": ROWS - 2, "least": 10}]
    dataset.update({"number": "-1"}, where="number = 300")
    assert ask(ctx, text).to_pylist() == [{"most": ROWS - 2, "least": -1}]
    lance_df.write_dataset(rows.slice(0, 0), tmp_path / "t.lance", mode="overwrite")
    assert ask(ctx, text).to_pylist() == [{"most": None, "least": None}]
    dataset = lance_df.dataset(tmp_path / "t.lance", version=1)
    lance_df.register(ctx, "first", dataset)
    assert ask(ctx, text.replace("FROM t", "FROM first")).to_pylist() == [{"most": ROWS - 1, "least": 0}]


STATEMENTS = [
    "SELECT max(number), min(text), max(double) FROM t",
    "SELECT max(q) AS a FROM (SELECT number AS q, text FROM t) u",
    "SELECT max(number) - min(number) AS span FROM t HAVING max(number) > 5",
    "WITH w AS (SELECT * FROM t) SELECT min(w.text) AS a, max(w.date) AS b FROM w ORDER BY a LIMIT 1",
    "SELECT x.a FROM (SELECT max(text) AS a FROM t) x WHERE x.a LIKE 'z%'",
]
OTHERS = [
    "SELECT max(number) FILTER (WHERE text = 'a') AS a FROM t",
    "SELECT max(number + 1) AS a, min(-number) AS b FROM t",
    "SELECT max(q) AS a FROM (SELECT -number AS q FROM t) u",
    "SELECT max(number) AS a, count(*) AS b FROM t",
    "SELECT max(number) AS a, count(text) AS b FROM t",
    "SELECT max(number) AS a FROM t WHERE text = 'a'",
    "SELECT max(number) AS a FROM t WHERE length(text) = 1",
    "SELECT max(q) AS a FROM (SELECT number AS q FROM t ORDER BY number LIMIT 5) u",
    "SELECT max(q) AS a FROM (SELECT sum(number) AS q FROM t GROUP BY text) u",
    "SELECT max(number) AS a FROM t GROUP BY flag ORDER BY a",
    "SELECT min(a) AS a FROM (SELECT max(number) AS a FROM t GROUP BY flag) u",
    "SELECT max(number) AS a FROM t WHERE number < (SELECT max(number) FROM t)",
    "SELECT max(t.number) AS a FROM t JOIN t AS u ON t.number = u.number + 1",
    "SELECT max(number) AS a FROM (SELECT number FROM t UNION ALL SELECT 7 AS number) u",
    "SELECT max(DISTINCT text) AS a FROM t",
    "SELECT (SELECT max(number) FROM t) AS a, count(*) AS n FROM t",
    "SELECT sum(number) AS a, max(number) AS b FROM t",
]


@pytest.fixture(scope="module")
def sessions(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("extremes")
    lance_df.write_dataset(rows, folder / "t.lance")
    return lance_df.connect(folder), memory(rows)


@pytest.mark.parametrize("text", [*STATEMENTS, *OTHERS])
def test_statements(sessions, text):
    ctx, expected = sessions
    for _ in range(2):
        assert ask(ctx, text).to_pylist() == ask(expected, text).to_pylist()


@pytest.mark.parametrize("text", [*STATEMENTS, *OTHERS])
def test_only_extremes_over_all_rows_are_such(sessions, text, monkeypatch):
    monkeypatch.setattr(planned, "WORTH_ROWS", 0)
    statements = sessions[0].sql(text).statements
    outputs = [table.scan.request.output for each in statements for table in each.tables.values()]
    are_extremes = [isinstance(each, PartialAggregate) and each.has_extremes for each in outputs]
    assert any(are_extremes) == (text in STATEMENTS)


def test_functions_of_the_user_are_asked(rows, tmp_path):
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    ctx = lance_df.connect(tmp_path)

    class Count(datafusion.Accumulator):
        def __init__(self):
            self.rows = 0

        def update(self, values):
            self.rows += len(values)

        def merge(self, states):
            self.rows += sum(states[0].to_pylist())

        def state(self):
            return [pa.scalar(self.rows)]

        def evaluate(self):
            return pa.scalar(self.rows)

    ctx.register_udaf(datafusion.udaf(Count, pa.int64(), pa.int64(), [pa.int64()], "stable", "max"))
    assert ask(ctx, "SELECT max(number) AS a FROM t").to_pylist() == [{"a": ROWS}]


def test_members_of_a_namespace(rows, tmp_path):
    rows = rows.select(["number", "text", "flag"]).set_column(
        2, "part", pa.array([n % 3 for n in range(ROWS)])
    )
    root = tmp_path / "events"
    space = lance_df.PartitionedNamespace.create(root, rows.schema, partition_by=["part"])
    space.append(rows)
    ctx = lance_df.connect(root)
    for _ in range(2):
        found = ask(ctx, "SELECT max(number) AS a, min(text) AS b, max(part) AS c FROM events")
        assert found.to_pylist() == [{"a": ROWS - 1, "b": "", "c": 2}]
    space.delete(f"number = {ROWS - 1}")
    assert ask(ctx, "SELECT max(number) AS a FROM events").to_pylist() == [{"a": ROWS - 2}]


def test_many_statements_of_many_threads(sessions):
    from concurrent.futures import ThreadPoolExecutor

    ctx, expected = sessions
    names = [name for name in VALUES if name not in ("nans", "zeros")]
    texts = [
        f"SELECT max({a}) AS a, min({b}) AS b FROM t"
        for a, b in (random.Random(1).sample(names, 2) for _ in range(12))
    ]
    wanted = [ask(expected, text) for text in texts]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda text: ask(ctx, text), texts)) == wanted
