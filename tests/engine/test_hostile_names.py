"""Statements give the same rows whatever tables and columns are called, also like parts of a plan's text."""

from __future__ import annotations

import datafusion
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.sql.splice import quote_identifier
from tests.engine.query_results import assert_same_result, in_memory
from tools.conformance.contexts import low_thresholds

pytestmark = pytest.mark.engine

# more than joins of small tables have, which are planned as they are
ROWS = 12_000
TABLES = [
    *("fetch=1", "<subquery>", "TableScan: ", " IN (<subquery>)", "Aggregate: x", "größe 🙂", "new\nline"),
    *("t projection=[a]", 'quoted "name"', "random(", "x.y", "Join:"),
]
COLUMNS = [
    *(
        "fetch=1",
        'a" FILTER (WHERE ',
        "x DISTINCT ",
        "<subquery>",
        "b)",
        "new\nline",
        "a null_aware",
    ),
    *("k) ORDER BY [v", "arrow_typeof(", "__x_1"),
]
STATEMENTS = [
    "SELECT {c}, v FROM {t} WHERE s LIKE 'key 1%' AND v > (SELECT max(v) - 3000 FROM {t})",
    # the largest of all partitions is in one that the first condition leaves out
    "SELECT v FROM {t} WHERE k % 11 = 1 AND v > (SELECT max(v) - 5 FROM {t})",
    "SELECT count(*) FROM {t} WHERE s LIKE 'key 1%' AND {c} < (SELECT max({c}) FROM {t} WHERE k > 5)",
    "SELECT sum(v) FILTER (WHERE {c} > 3), avg(v) FROM {t}",
    "SELECT max(v), min({c}) FROM {t}",
    "SELECT max({c}) FILTER (WHERE k = 1), first_value({c} ORDER BY v DESC) FROM {t}",
    "SELECT count(DISTINCT {c}), sum(DISTINCT {c}), count(*) FROM {t} GROUP BY k ORDER BY k",
    "SELECT {c}, count(*) AS n FROM {t} GROUP BY {c} ORDER BY {c} DESC LIMIT 7 OFFSET 2",
    "SELECT s, sum({c}) AS total FROM {t} GROUP BY s ORDER BY s",
    "SELECT k, v FROM {t} WHERE k IN (SELECT max(k) FROM few GROUP BY {c}) ORDER BY v",
    "SELECT k, v FROM {t} WHERE {c} NOT IN (SELECT {c} FROM few WHERE {c} > 4) ORDER BY v",
    "SELECT count(*) FROM {t} AS x WHERE NOT EXISTS (SELECT 1 FROM few WHERE few.{c} = x.{c})",
    "SELECT x.v, few.{c} FROM {t} AS x JOIN few ON x.{c} = few.{c} WHERE x.v < 500 ORDER BY x.v, few.k",
    "SELECT v FROM {t} WHERE {c} > 2 ORDER BY {c} DESC, v LIMIT 50",
    "SELECT v, row_number() OVER (PARTITION BY {c} ORDER BY v) AS r FROM {t} WHERE v < 300 ORDER BY v",
    "SELECT {c} AS renamed, v FROM (SELECT * FROM {t} WHERE k = 3) WHERE {c} IN (1, 2, 3, 4, 5)",
]


def _rows(num_rows):
    numbers = np.arange(num_rows)
    columns = {name: numbers * (place + 3) % (7 + place) for place, name in enumerate(COLUMNS)}
    return pa.table(
        {"k": numbers % 11, "v": numbers, "s": [f"key {number // 240:02}" for number in numbers], **columns}
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    many, few = _rows(ROWS), _rows(40)
    namespace = lance_df.PartitionedNamespace.create(folder / "namespace", many.schema, ["k"])
    namespace.append(many)
    return {
        "namespace": namespace,
        "many": lance_df.write_dataset(many, folder / "many.lance", max_rows_per_file=5_000),
        "few": lance_df.write_dataset(few, folder / "few.lance"),
    }


def _check(tables, table, column, stored="many"):
    """Compare a session over Lance tables with one over the same rows in memory."""
    ours, memory = lance_df.SessionContext(), datafusion.SessionContext()
    for name, rows in ((table, "many"), ("few", "few")):
        lance_df.register(ours, quote_identifier(name), tables[stored if rows == "many" else rows])
        memory.register_record_batches(quote_identifier(name), [tables[rows].to_table().to_batches()])
    for statement in STATEMENTS:
        text = statement.format(t=quote_identifier(table), c=quote_identifier(column))
        assert_same_result(ours.sql(text), memory.sql(text))


@pytest.mark.parametrize("table", TABLES)
def test_names_of_tables(tables, table):
    _check(tables, table, "k")


@pytest.mark.parametrize("table", TABLES)
def test_names_of_namespaces(tables, table):
    _check(tables, table, "k", "namespace")


@pytest.mark.parametrize("column", COLUMNS)
def test_names_of_columns(tables, column):
    _check(tables, "t", column)


# names that rules give to columns of their own, and names of which another column stands below
ALIASES = ["c0", "c1", "__lance_df_0", "__lance_df_0_0", "_num_rows", "_sum_of_v", "_count_of_v", "v", "s"]
OF_ALIASES = [
    "SELECT * FROM (SELECT k, max(v) AS {a} FROM t GROUP BY k ORDER BY {a} DESC, k LIMIT 3) q ORDER BY k",
    "SELECT k, max(v) AS {a}, count(*) AS {b} FROM t GROUP BY k ORDER BY {b}, {a} DESC LIMIT 4",
    "SELECT k, max(s) AS {a} FROM t GROUP BY k ORDER BY {a} DESC, k LIMIT 3",
    "SELECT q.{a}, count(*) AS n, sum(q.w) AS m, count(q.w) AS l FROM (SELECT run AS {a}, v AS w FROM t) q "
    "GROUP BY q.{a} ORDER BY 1 LIMIT 5 OFFSET 20",
    "SELECT q.run, sum(q.{a}) AS n FROM (SELECT run, v + 5 AS {a} FROM t) q GROUP BY q.run "
    "ORDER BY 1 LIMIT 5",
    "SELECT q.run, max(q.{a}) AS m, count(*) AS n FROM (SELECT run, v + 5 AS {a} FROM t) q GROUP BY q.run "
    "ORDER BY 1 LIMIT 5 OFFSET 30",
    "SELECT sum(q.{a}) AS n FROM (SELECT t.k AS {b}, few.v AS {a}, t.v AS w FROM t JOIN few ON t.k = few.k "
    "ORDER BY {a}, w DESC LIMIT 20) q",
    "SELECT q.{a} FROM (SELECT x.{a} AS {b}, x.{b} AS {a} FROM "
    "(SELECT k AS {a}, max(v) AS {b} FROM t GROUP BY k) x ORDER BY {a} LIMIT 4) q ORDER BY q.{a}",
    "SELECT min(q.{a}) AS n FROM (SELECT {a} AS {b}, {b} AS {a} FROM "
    "(SELECT k AS {a}, max(v) AS {b} FROM t GROUP BY k) ORDER BY {a} DESC LIMIT 4) q",
]


@pytest.fixture(scope="module")
def aliased(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aliases")
    numbers = np.arange(3_000)
    rows = pa.table(
        {
            "k": numbers * 7919 % 13,
            "v": numbers * 104_729 % 3_001,
            "s": [f"key {number % 50:02}" for number in numbers],
            "run": numbers // 8,
        }
    )
    few = pa.table({"k": numbers[:9], "v": numbers[:9] * 5 % 9})
    for name, each in (("t", rows), ("few", few)):
        lance_df.write_dataset(each, folder / "tables" / f"{name}.lance", max_rows_per_file=1_000)
        lance_df.PartitionedNamespace.create(
            folder / "namespaces" / name, each.schema, [lance_df.partition.bucket("k", 4)]
        ).append(each)
    return folder, in_memory({"t": rows, "few": few})


@pytest.mark.parametrize("kind", ["tables", "namespaces"])
@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("limit", [None, 1])
def test_aliases_like_names_of_the_rules(aliased, kind, alias, limit):
    folder, memory = aliased
    other = ALIASES[ALIASES.index(alias) - 1]
    with low_thresholds():
        ours = lance_df.connect(folder / kind, partitioned_joins="always", join_memory_limit=limit)
        for statement in OF_ALIASES:
            text = statement.format(a=alias, b=other)
            assert_same_result(ours.sql(text), memory.sql(text))
