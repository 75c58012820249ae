"""Random statements that change a table and a namespace, compared with the same statements in DuckDB."""

from __future__ import annotations

import random

import duckdb
import pytest

import lance_df
from lance_df.errors import LanceError

pytestmark = pytest.mark.engine

COLUMNS = "(id BIGINT, k INTEGER, name VARCHAR, x DOUBLE)"


class Statements:
    """Random statements that mean the same in DataFusion and DuckDB."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.next_id = 0

    def one(self) -> str:
        kinds = [self.insert, self.insert, self.copy, self.delete, self.update, self.update_from, self.merge]
        if self.random.random() < 0.03:
            return "TRUNCATE t"
        return self.random.choice(kinds)()

    def value(self, kind: str) -> str:
        if self.random.random() < 0.2:
            return "NULL"
        if kind == "name":
            return self.random.choice(["''", "'ä'", "'b''c'", "'Rome'", "'NULL'"])
        return str(self.random.randrange(-3, 12))

    def insert(self) -> str:
        rows = []
        for _ in range(self.random.randrange(1, 9)):
            self.next_id += 1
            rows.append(f"({self.next_id}, {self.value('k')}, {self.value('name')}, {self.value('x')})")
        return f"INSERT INTO t VALUES {', '.join(rows)}"

    def copy(self) -> str:
        return f"INSERT INTO t (k, id) SELECT k + 1, id FROM t WHERE {self.condition()} AND id % 3 = 0"

    def condition(self, owner: str = "t") -> str:
        number = self.random.randrange(-2, 12)
        return self.random.choice(
            [
                f"{owner}.k = {number}",
                f"{owner}.k < {number} OR {owner}.name IS NULL",
                f"NOT ({owner}.x > {number})",
                f"{owner}.name LIKE '%o%'",
                f"{owner}.id IN (SELECT max(id) FROM t GROUP BY k)",
                f"{owner}.k IS NOT DISTINCT FROM (SELECT min(k) FROM t)",
                f"EXISTS (SELECT 1 FROM t AS u WHERE u.k = {owner}.k + 1)",
            ]
        )

    def delete(self) -> str:
        return f"DELETE FROM t WHERE ({self.condition()}) AND t.id % 4 = {self.random.randrange(4)}"

    def update(self) -> str:
        change = self.random.choice(
            [
                "x = k, k = coalesce(id % 7, 0)",
                "k = k + 1",
                "name = coalesce(name, '') || 'o', x = -x",
                "x = CASE WHEN k > 2 THEN NULL ELSE 1.5 END",
                "k = NULL",
            ]
        )
        return f"UPDATE t SET {change} WHERE {self.condition()}"

    def source(self) -> str:
        keys = self.random.sample(range(self.next_id + 5), min(4, self.next_id + 5))
        rows = ", ".join(f"({key}, {self.random.randrange(9)})" for key in keys)
        return f"(SELECT * FROM (VALUES {rows}) AS v(sid, sk)) AS s"

    def update_from(self) -> str:
        return f"UPDATE t SET k = s.sk, x = t.k FROM {self.source()} WHERE t.id = s.sid"

    def merge(self) -> str:
        clauses = ["WHEN MATCHED AND s.sk > 5 THEN DELETE"] if self.random.random() < 0.5 else []
        if self.random.random() < 0.7:
            clauses.append("WHEN MATCHED THEN UPDATE SET k = s.sk, name = 'm'")
        if self.random.random() < 0.7 or not clauses:
            clauses.append("WHEN NOT MATCHED AND s.sk < 7 THEN INSERT (id, k) VALUES (s.sid, s.sk)")
        if self.random.random() < 0.4:
            clauses.append("WHEN NOT MATCHED BY SOURCE AND t.k = 3 THEN UPDATE SET x = 33")
        return f"MERGE INTO t USING {self.source()} ON t.id = s.sid {' '.join(clauses)}"


def rows_of(rows: list[tuple]) -> list[tuple]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("by", ["", " PARTITIONED BY (bucket(3, k), name)"], ids=["table", "namespace"])
@pytest.mark.parametrize("seed", range(4))
def test_histories_are_those_of_duckdb(tmp_path, seed, by):
    statements = Statements(seed)
    ctx, other = lance_df.connect(tmp_path), duckdb.connect()
    ctx.sql(f"CREATE TABLE t {COLUMNS}{by}")
    other.execute(f"CREATE TABLE t {COLUMNS}")
    history = []
    for _ in range(14):
        sql = statements.one()
        history.append(sql)
        try:
            expected = other.execute(sql).fetchall()[0][0]
        except duckdb.Error:
            with pytest.raises(LanceError):
                ctx.sql(sql)
            continue
        count = ctx.sql(sql).to_pylist()[0]["count"]
        theirs = rows_of(other.execute("SELECT id, k, name, x FROM t").fetchall())
        ours = rows_of([tuple(row.values()) for row in ctx.sql("SELECT id, k, name, x FROM t").to_pylist()])
        assert ours == theirs, history
        if not sql.startswith("TRUNCATE"):
            assert count == expected, history
