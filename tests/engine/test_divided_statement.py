"""Statements computed for one group of partitions after the other have the rows of the whole."""

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.engine.divided_statement import DividedStatement, run_merged, run_partly, run_statement
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.member_subset import ChosenMembers

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("divided")
    left = pa.table({"k": pa.array([None if i % 9 == 0 else i for i in range(200)]), "v": list(range(200))})
    right = pa.table(
        {"k": pa.array([None if i % 11 == 0 else i for i in range(0, 300, 2)]), "w": list(range(150))}
    )
    found = {}
    for name, rows, buckets in (("l", left, 8), ("r", right, 4)):
        spec = [partition.bucket("k", buckets)]
        namespace = lance_df.PartitionedNamespace.create(folder / name, rows.schema, spec)
        namespace.append(rows)
        found[name] = namespace._table
    return found


def rows_of(batches):
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT l.k, v, w FROM l JOIN r ON l.k = r.k",
        "SELECT l.k, v, w FROM l LEFT JOIN r ON l.k = r.k AND w > 20",
        "SELECT r.k, v, w FROM l RIGHT JOIN r ON l.k = r.k WHERE w < 100",
        "SELECT coalesce(l.k, r.k) AS k, v, w FROM l FULL JOIN r ON l.k = r.k",
        "SELECT l.k, v FROM l LEFT SEMI JOIN r ON l.k = r.k",
        "SELECT l.k, v FROM l LEFT ANTI JOIN r ON l.k = r.k",
        "SELECT l.k, count(*) AS n, sum(w) AS s FROM l JOIN r ON l.k = r.k GROUP BY l.k HAVING count(*) > 0",
        "SELECT a.v, b.v AS w FROM l AS a JOIN l AS b ON a.k = b.k",
        "SELECT k, count(*) AS n, sum(v) AS s FROM l GROUP BY k",
        "SELECT v, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM l",
        "SELECT v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND w > l.v / 8)",
    ],
)
def test_groups_make_up_the_whole(tables, query):
    divided = DividedStatement(query, tables)
    groups = divided.groups()
    assert len(groups) > 1
    found = []
    for group in groups:
        some = {name: ChosenMembers(tables[name], places, {}) for name, places in group.positions.items()}
        found += list(run_statement(query, {**tables, **some}))
    wanted = list(run_statement(query, tables))
    assert rows_of(found) == rows_of(wanted)
    assert rows_of(wanted)
    assert divided.schema.names == wanted[0].schema.names


@pytest.mark.parametrize(
    ("query", "depth"),
    [
        ("SELECT count(*) AS n, sum(v) AS s, avg(w) AS a, max(w) AS most FROM l JOIN r ON l.k = r.k", 1),
        ("SELECT n, count(*) AS m FROM (SELECT count(*) AS n FROM l GROUP BY k) GROUP BY n", None),
        ("SELECT w % 3 AS third, 2 * sum(v) AS s FROM l FULL JOIN r ON l.k = r.k GROUP BY w % 3", 1),
        (
            "SELECT w / 50 AS x, sum(v) AS s FROM l JOIN r ON l.k = r.k GROUP BY 1 ORDER BY s DESC LIMIT 2",
            None,
        ),
        ("SELECT DISTINCT v > 100 AS high FROM l LEFT JOIN r ON l.k = r.k WHERE coalesce(w, 1) > 0", None),
    ],
)
def test_aggregates_are_merged(tables, query, depth):
    divided = DividedStatement(query, tables)
    assert divided.merged_depth is not None
    assert depth is None or divided.merged_depth == depth
    parts = []
    for group in divided.groups():
        some = {name: ChosenMembers(tables[name], places, {}) for name, places in group.positions.items()}
        parts += list(run_partly(query, {**tables, **some}, divided.merged_depth))
    nothing = {name: ChosenMembers(table, np.empty(0, np.intp), {}) for name, table in tables.items()}
    found = list(run_merged(query, nothing, divided.merged_depth, parts))
    assert found[0].schema == divided.schema
    wanted = list(run_statement(query, tables))
    assert rows_of(found) == rows_of(wanted)
    if "ORDER BY" in query:
        assert pa.Table.from_batches(found) == pa.Table.from_batches(wanted)
    assert sum(part.num_rows for part in parts) > sum(batch.num_rows for batch in found) > 0
    none = list(run_merged(query, nothing, divided.merged_depth, ()))
    assert rows_of(none) == rows_of(run_statement(query, nothing))


def test_what_is_empty_has_no_groups(tables):
    assert DividedStatement("SELECT v FROM l JOIN r ON l.k = r.k WHERE false", tables).groups() == []


@pytest.mark.parametrize(
    ("query", "error", "why"),
    [
        ("SELECT v, w FROM l JOIN r ON l.v = r.w", UnsupportedFeatureError, "no common partition field"),
        ("SELECT v, w FROM l JOIN r ON l.k = r.k LIMIT 3", UnsupportedFeatureError, "rows of all partitions"),
        ("SELECT v FROM l JOIN r ON l.k = r.k ORDER BY v", UnsupportedFeatureError, "rows of all partitions"),
        (
            "SELECT median(v) AS m FROM l JOIN r ON l.k = r.k",
            UnsupportedFeatureError,
            "rows of all partitions",
        ),
        ("SELECT v FROM l", UnsupportedFeatureError, "it has no join"),
        ("SELECT 1 AS one", UnsupportedFeatureError, "it has no join"),
        ("SELECT z FROM l JOIN r ON l.k = r.k", ColumnNotFoundError, "z"),
        ("SELECT l.k, r.k FROM l JOIN r ON l.k = r.k", InvalidInputError, "columns of the same name"),
        ("DELETE FROM l", InvalidInputError, "DML"),
    ],
)
def test_what_cannot_be_divided_says_why(tables, query, error, why):
    with pytest.raises(error, match=why):
        DividedStatement(query, tables)
