"""Groups of tables whose rows come in runs: scans that return runs, and the same answers."""

from decimal import Decimal

import datafusion
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.engine.optimizer.rules import partial_aggregate
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine

ORDERS = 6_000


@pytest.fixture(scope="module")
def tables():
    choose = np.random.default_rng(5)
    keys = np.arange(ORDERS) * 3
    sizes = choose.integers(1, 9, ORDERS)
    order = np.repeat(keys, sizes)
    count = len(order)
    cents = choose.integers(-(10**6), 10**6, count)
    item = pa.table(
        {
            "order_id": order,
            "day": pa.array((order // 500).astype(np.int32)).cast(pa.date32()),
            "customer": pa.array([f"customer {number}" for number in order // 60], mask=order % 7 == 0),
            "price": pa.array([Decimal(int(each)).scaleb(-2) for each in cents], pa.decimal128(15, 2)),
            "quantity": pa.array(
                choose.integers(-100, 100, count), pa.int32(), mask=choose.random(count) < 0.2
            ),
            "weight": pa.array(choose.integers(0, 64, count) / 4),
            "_run_rows": np.arange(count),
        }
    )
    orders = pa.table(
        {
            "id": keys,
            "kind": pa.array(keys % 5, mask=keys % 11 == 0),
            "total": pa.array([Decimal(int(each)) for each in keys], pa.decimal128(12, 0)),
            "share": keys / 4,
        }
    )
    return {"item": item, "orders": orders}


@pytest.fixture(scope="module", params=["2.0", "2.2", "namespaces"])
def sessions(request, tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    memory = datafusion.SessionContext()
    for name, rows in tables.items():
        memory.from_arrow(rows, name)
        if request.param == "namespaces":
            field = lance_df.partition.bucket("order_id" if name == "item" else "id", 4)
            lance_df.PartitionedNamespace.create(folder / name, rows.schema, [field]).append(rows)
        else:
            lance_df.write_dataset(rows, folder / f"{name}.lance", data_storage_version=request.param)
    ours = lance_df.connect(folder)
    for ctx in (ours, memory):
        ctx.sql("CREATE VIEW items AS SELECT price, day FROM item WHERE quantity > 0")
    return ours, memory


@pytest.fixture
def uses_runs(monkeypatch):
    """What tells whether the last statement was planned over runs."""
    monkeypatch.setattr(partial_aggregate, "_WORTH_ROWS", 1000)
    found = []
    real = partial_aggregate._of_runs

    def spy(*arguments):
        found.append(real(*arguments))
        return found[-1]

    monkeypatch.setattr(partial_aggregate, "_of_runs", spy)
    return lambda: bool(found) and found[-1] is not None


OVER_RUNS = [
    "SELECT order_id, count(*) AS n, sum(price) AS p FROM item GROUP BY order_id",
    "SELECT day, count(1) AS n, sum(quantity) AS q, sum(weight) AS w"
    " FROM item GROUP BY day HAVING count(*) > 9",
    "SELECT customer, count(*) AS n, sum(price) AS p FROM item WHERE quantity > 3 GROUP BY customer",
    "SELECT order_id % 10 AS k, sum(quantity) AS q, max(day) AS d FROM item i GROUP BY order_id % 10",
    "SELECT order_id, count(customer) AS n, count(price) AS p, count(DISTINCT day) AS d"
    " FROM item GROUP BY order_id",
    "SELECT max(p) AS p FROM (SELECT order_id, sum(price) AS p FROM item GROUP BY order_id) x",
    "SELECT order_id AS id, sum(price) AS p FROM item GROUP BY order_id ORDER BY p DESC, id LIMIT 7",
    "SELECT kind, count(*) AS n, sum(price) AS p, sum(total) AS t, sum(kind) AS k"
    " FROM orders JOIN item ON id = order_id GROUP BY kind",
    "SELECT o.id, count(*) AS n, sum(i.quantity) AS q FROM orders o, item i"
    " WHERE o.id = i.order_id GROUP BY o.id",
    "SELECT id, count(*) AS n, count(share) AS m"
    " FROM item LEFT JOIN orders ON order_id = id AND kind = 1 GROUP BY id",
    "SELECT day, count(*) AS n FROM item LEFT SEMI JOIN orders ON order_id = id AND kind = 1 GROUP BY day",
    "SELECT day, sum(price) AS n FROM item"
    " WHERE order_id NOT IN (SELECT id FROM orders WHERE kind = 2) GROUP BY day",
    "SELECT k, count(*) AS n, sum(p) AS p FROM (SELECT order_id / 3 AS k, price AS p FROM item) x GROUP BY k",
    "WITH w AS (SELECT day AS d, quantity AS q, id FROM item JOIN orders ON order_id = id WHERE kind > 1),"
    " v AS (SELECT w.q, w.id + 1 AS d FROM w) SELECT y.d, sum(y.q) AS q, count(*) AS n FROM v y GROUP BY y.d",
    "SELECT day, sum(price) AS p FROM (SELECT * FROM item) GROUP BY day",
    "SELECT z.kind, sum(price) AS p, count(*) AS n FROM (SELECT price, order_id AS o FROM item) a"
    " JOIN (SELECT kind, id AS i FROM orders) z ON z.i = a.o GROUP BY z.kind",
    "SELECT day, sum(price) AS p FROM items GROUP BY day",
    "SELECT day, avg(weight) AS w, avg(quantity) AS q, count(quantity) AS n, count(weight) AS m"
    " FROM item WHERE order_id <> 9 GROUP BY day",
    "SELECT i.day, avg(i.weight) AS w, count(i.quantity) AS q, count(o.kind) AS k"
    " FROM item i LEFT JOIN orders o ON i.order_id = o.id AND o.kind = 2 GROUP BY i.day",
]
OTHERS = [
    "SELECT k, count(*) AS n FROM (SELECT order_id AS k, random() AS r FROM item) WHERE r < 2 GROUP BY k",
    "SELECT d, count(*) AS n FROM (SELECT DISTINCT day AS d, order_id FROM item) GROUP BY d",
    "SELECT day, sum(price) AS n FROM item WHERE quantity * 2 > 5 GROUP BY day",
    "SELECT count(*) AS n, sum(price) AS p FROM item",
    "SELECT quantity, count(*) AS n FROM item GROUP BY quantity",
    "SELECT day, avg(price) AS n FROM item GROUP BY day",
    "SELECT day, count(*) AS n FROM item WHERE day = DATE '1970-01-05' GROUP BY day",
    "SELECT order_id, sum(price) AS n FROM item WHERE order_id IN (33, 300, 17) GROUP BY order_id",
    "SELECT day, sum(quantity + 1) AS n FROM item GROUP BY day",
    "SELECT day, sum(quantity) FILTER (WHERE quantity > 0) AS n FROM item GROUP BY day",
    "SELECT kind, sum(share) AS n FROM orders JOIN item ON id = order_id GROUP BY kind",
    "SELECT day, kind, count(*) AS n FROM item FULL JOIN orders ON order_id = id GROUP BY day, kind",
    "SELECT a.day, count(*) AS n FROM item a JOIN item b ON a.order_id = b.order_id GROUP BY a.day",
    "SELECT day, count(*) AS n FROM item GROUP BY ROLLUP (day)",
    "SELECT day, count(*) AS n FROM (SELECT * FROM item LIMIT 1000000) GROUP BY day",
    "SELECT * EXCEPT (order_id, customer, price, quantity, weight, _run_rows) FROM item GROUP BY day",
    "SELECT d, sum(p) AS n FROM item AS i(o, d, c, p, q, w, r) GROUP BY d",
    "WITH i(o, d, c, p, q, w, r) AS (SELECT * FROM item) SELECT d, sum(p) AS n FROM i GROUP BY d",
]


@pytest.mark.parametrize("query", OVER_RUNS)
def test_groups_of_runs_are_those_of_rows(sessions, uses_runs, query):
    ours, memory = sessions
    assert_same_result(ours.sql(query), memory.sql(query))
    assert uses_runs()


@pytest.mark.parametrize("query", OTHERS)
def test_others_are_computed_of_rows(sessions, uses_runs, query):
    ours, memory = sessions
    assert_same_result(ours.sql(query), memory.sql(query))
    assert not uses_runs()


@pytest.mark.parametrize("joins", ["never", "always"])
def test_joins_by_partition_are_over_runs_too(sessions, uses_runs, joins):
    ours, memory = sessions
    query = OVER_RUNS[7]
    ours.partitioned_joins = joins
    for limit in (None, 1):
        ours.join_memory_limit = limit
        assert_same_result(ours.sql(query), memory.sql(query))
        assert uses_runs()
    ours.partitioned_joins, ours.join_memory_limit = "auto", None


def test_what_differs_from_row_to_row_is_asked_for_each(sessions, uses_runs):
    ours, _ = sessions
    ours.sql("SELECT day, count(*) AS n FROM item WHERE random() < 0.5 GROUP BY day").to_pylist()
    assert not uses_runs()
    double = datafusion.udf(lambda x: x, [pa.int64()], pa.int64(), "volatile", name="own")
    ours.register_udf(double)
    ours.sql("SELECT own(order_id) AS k, count(*) AS n FROM item GROUP BY 1").to_pylist()
    assert not uses_runs()


def test_deleted_rows_do_not_count(tables, tmp_path, uses_runs):
    rows = tables["item"]
    dataset = lance_df.write_dataset(rows, tmp_path / "item.lance", max_rows_per_file=10_000)
    dataset.delete("quantity < 0 AND order_id > 600")
    query = "SELECT order_id, count(*) AS n, sum(quantity) AS q FROM item GROUP BY order_id"
    memory = datafusion.SessionContext()
    memory.from_arrow(rows, "item")
    expected = memory.sql(
        query.replace("FROM item", "FROM item WHERE (quantity < 0 AND order_id > 600) IS NOT TRUE")
    )
    assert_same_result(lance_df.connect(tmp_path).sql(query), expected)
    assert uses_runs()
