"""Results of scalar subqueries are joined where groups are compared with them; answers stay the same."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import datafusion
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from tests.engine.query_results import assert_same_result, in_memory
from tools.conformance.contexts import low_thresholds

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        int(datafusion.__version__.partition(".")[0]) < 55, reason="earlier releases always join the results"
    ),
]

NUM_ROWS = 3_000
RANDOM = np.random.default_rng(11)


def some(values: object, part: float = 0.1) -> pa.Array:
    return pa.array(values, mask=RANDOM.random(len(values)) < part)  # type: ignore[arg-type]


TABLES = {
    "t": pa.table(
        {
            "k": some(RANDOM.integers(0, 40, NUM_ROWS)),
            "v": some(RANDOM.integers(-50, 50, NUM_ROWS)),
            "x": some(RANDOM.choice([0.0, -0.0, 1.5, -2.5, np.nan, np.inf], NUM_ROWS)),
            "s": [("grün", "", "é", "z")[number % 4] for number in range(NUM_ROWS)],
        }
    ),
    "u": pa.table(
        {
            "k": some(np.arange(45)),
            "w": some(RANDOM.integers(0, 9, 45)),
            "y": some(RANDOM.choice([0.0, -0.0, np.nan, 3.5], 45)),
        }
    ),
}
JOINED = "FROM t JOIN u ON t.k = u.k"
# the sum of what is joined, of no rows, and of several
ALL = f"(SELECT sum(v) AS total {JOINED})"
NOTHING = f"(SELECT sum(v) AS nothing {JOINED} WHERE w > 100)"
APPLIED = {
    "filter": f"SELECT t.k, sum(v) AS n {JOINED} GROUP BY t.k HAVING sum(v) * 40 > {ALL} ORDER BY t.k",
    "column": f"SELECT t.k, sum(v) - {ALL} AS d {JOINED} GROUP BY t.k ORDER BY t.k",
    "null": f"SELECT t.k, sum(v) + {NOTHING} AS d {JOINED} GROUP BY t.k ORDER BY t.k",
    "compared with null": f"SELECT t.k {JOINED} GROUP BY t.k HAVING sum(v) > {NOTHING}",
    "two": f"SELECT t.k {JOINED} GROUP BY t.k "
    f"HAVING sum(v) > {ALL} OR count(*) > (SELECT count(*) / 40 {JOINED}) ORDER BY 1",
    "the same twice": f"SELECT t.k, {ALL} AS a {JOINED} GROUP BY t.k HAVING sum(v) < {ALL} ORDER BY 1",
    "nested": f"SELECT t.k {JOINED} GROUP BY t.k "
    f"HAVING count(*) > (SELECT count(*) / 45 {JOINED} HAVING sum(v) <= {ALL}) ORDER BY 1",
    "a row that is missing": f"SELECT t.k, (SELECT sum(v) AS m {JOINED} HAVING count(*) > 100000) AS m "
    f"{JOINED} GROUP BY t.k ORDER BY 1",
    "equal": f"SELECT t.k {JOINED} GROUP BY t.k HAVING count(*) = (SELECT count(*) / 30 {JOINED}) ORDER BY 1",
    "floats": f"SELECT t.k {JOINED} GROUP BY t.k HAVING max(x) > (SELECT min(y) {JOINED}) ORDER BY 1",
    "equal zeros": f"SELECT t.k, max(y) AS m {JOINED} GROUP BY t.k "
    f"HAVING max(y) = (SELECT min(y) {JOINED} WHERE y < 1.0) ORDER BY 1",
    "equal NaN": f"SELECT t.k {JOINED} GROUP BY t.k HAVING max(x) = (SELECT max(y) {JOINED}) ORDER BY 1",
    "case": f"SELECT t.k, CASE WHEN sum(v) > {ALL} THEN 1 ELSE {NOTHING} END AS c {JOINED} "
    "GROUP BY t.k ORDER BY 1",
    "besides one that refers outside": f"SELECT t.k, (SELECT max(w) FROM u WHERE u.k = t.k) AS m {JOINED} "
    f"GROUP BY t.k HAVING sum(v) * 40 > {ALL} ORDER BY 1",
}
LEFT = {
    "rows": f"SELECT t.k, v {JOINED} WHERE v > (SELECT avg(v) {JOINED}) ORDER BY 1, 2",
    "of rows below groups": f"SELECT t.k {JOINED} GROUP BY t.k HAVING {NOTHING} IS NULL ORDER BY 1",
    "keys": f"SELECT t.s {JOINED} GROUP BY t.s HAVING t.s >= (SELECT min(s) || 'a' {JOINED}) ORDER BY 1",
    "in the order": f"SELECT t.k {JOINED} GROUP BY t.k ORDER BY sum(v) - {ALL}, t.k LIMIT 5",
    "nothing": f"SELECT t.k {JOINED} GROUP BY t.k HAVING sum(v) > (SELECT sum(v) {JOINED} HAVING false)",
    "names alike": f"SELECT t.k {JOINED} GROUP BY t.k HAVING sum(v) * 40 > (SELECT sum(v) {JOINED})",
    "distinct": f"SELECT t.k {JOINED} GROUP BY t.k "
    f"HAVING min(w) = (SELECT DISTINCT max(w) OVER () {JOINED}) ORDER BY 1",
    "limit": f"SELECT t.k {JOINED} GROUP BY t.k HAVING count(*) > (SELECT w {JOINED} ORDER BY w LIMIT 1)",
    "a result that is never NULL": f"SELECT t.k, count(*) + (SELECT count(*) {JOINED}) AS n "
    "FROM t GROUP BY t.k",
    "without joins": f"SELECT t.k {JOINED} GROUP BY t.k HAVING sum(v) > (SELECT avg(v) FROM t) ORDER BY 1",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("subqueries")
    for name, rows in TABLES.items():
        lance_df.write_dataset(rows, root / f"{name}.lance", max_rows_per_file=700)
    return root


@pytest.fixture(scope="module")
def memory() -> datafusion.SessionContext:
    ctx = in_memory(TABLES)
    # its filters take zeros of both signs for different
    ctx.sql("SET datafusion.optimizer.enable_join_dynamic_filter_pushdown = false")
    return ctx


@pytest.fixture(autouse=True)
def low() -> Iterator[None]:
    with low_thresholds():
        yield


def applied(ctx: lance_df.SessionContext, query: str) -> dict[str, str]:
    return {report.rule: report.effect for report in ctx.explain_scan(query).rules}


@pytest.mark.parametrize("name", APPLIED)
def test_results_that_are_joined(root: Path, memory: datafusion.SessionContext, name: str) -> None:
    ctx = lance_df.connect(root)
    assert applied(ctx, APPLIED[name]).get("scalar_subqueries") == "applied"
    assert_same_result(ctx.sql(APPLIED[name]), memory.sql(APPLIED[name]))


@pytest.mark.parametrize("name", LEFT)
def test_results_that_are_not_joined(root: Path, memory: datafusion.SessionContext, name: str) -> None:
    ctx = lance_df.connect(root)
    assert applied(ctx, LEFT[name]).get("scalar_subqueries") != "applied"
    assert_same_result(ctx.sql(LEFT[name]), memory.sql(LEFT[name]))


@pytest.mark.parametrize("subquery", [f"SELECT w {JOINED}", f"SELECT DISTINCT w {JOINED}"])
@pytest.mark.parametrize("operator", ["=", ">"])
def test_several_rows_are_refused(root: Path, subquery: str, operator: str) -> None:
    query = f"SELECT t.k {JOINED} GROUP BY t.k HAVING min(w) {operator} ({subquery})"
    for on in (True, False):
        options = dataclasses.replace(lance_df.ScanOptions(), scalar_subqueries=on)
        ctx = lance_df.connect(root, scan_options=options)
        with pytest.raises(lance_df.LanceError, match="more than one row"):
            ctx.sql(query).to_arrow_table()


def test_what_is_derived_from_a_frame_refuses_several_rows(root: Path) -> None:
    ctx = lance_df.connect(root)
    joined = ctx.sql(APPLIED["filter"])
    assert joined.count()
    several = ctx.sql("SELECT k AS other FROM u WHERE w = (SELECT w FROM u)")
    with pytest.raises(Exception, match="more than one row"):
        joined.join(several, left_on=["k"], right_on=["other"], how="left").collect()
