"""Statements over Lance tables return what DataFusion returns for the same rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import datafusion
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from tools.conformance.answers import Answer, answer, difference
from tools.conformance.contexts import Conformance, ContextKind, low_thresholds
from tools.conformance.random_statements import RandomStatements
from tools.conformance.records import read_records, split_statements
from tools.conformance.statements import Kind, Ordering, kind_of, ordering_of, reason_to_exclude
from tools.conformance.stored_tables import StoredNamespaces, partition_fields

pytestmark = pytest.mark.engine

FILES = sorted((Path(__file__).parent / "conformance").glob("*.slt"))


@dataclass(frozen=True)
class Context:
    """What reads the tables, and what they are stored as."""

    kind: ContextKind
    namespaces: bool = False

    def __str__(self) -> str:
        return f"{self.kind}-namespaces" if self.namespaces else self.kind


OVER_TABLES = [Context("session"), Context("plain"), Context("session", True), Context("plain", True)]


@pytest.fixture(params=["default", "low"])
def batch_rows(request: pytest.FixtureRequest) -> Iterator[int | None]:
    """The rows of a batch: DataFusion's, or few, with every rule of the optimizer at work on small tables."""
    if request.param == "default":
        yield None
        return
    with low_thresholds():
        yield 16


@pytest.mark.parametrize("context", [*OVER_TABLES, Context("own")], ids=str)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files(path: Path, context: Context, batch_rows: int | None, tmp_path: Path) -> None:
    conformance = Conformance(tmp_path, context.kind, batch_rows, namespaces=context.namespaces)
    for record in read_records(path):
        conformance.run(record.sql, record.position)
    assert not conformance.differences, "\n".join(map(str, conformance.differences))
    assert conformance.counts["statements compared"] > 20
    assert conformance.counts["statements compared that fail in both"] <= 5
    assert conformance.counts["results that depend on the order of rows"] == 0
    assert conformance.counts["tables that Lance cannot store"] == 0
    stored = {what for what in conformance.counts if what.startswith("tables: ")}
    of_context = "tables: PartitionedNamespace" if context.namespaces else "tables: LanceDataset"
    assert stored == (set() if context.kind == "own" else {of_context})


ROWS, KEYS = 110_000, 40_000

MANY_BATCHES = """
SELECT s, count(*) AS n FROM big GROUP BY s ORDER BY s;
SELECT s, min(label), max(label) FROM big GROUP BY s ORDER BY s DESC;
SELECT DISTINCT s FROM big ORDER BY s;
SELECT s, label, sum(v) AS total FROM big GROUP BY s, label ORDER BY total DESC, s, label;
SELECT s FROM big UNION SELECT s FROM keys ORDER BY s;
SELECT s, n FROM (SELECT s, count(*) AS n FROM big GROUP BY s) AS q WHERE n > 2 ORDER BY n, s;
SELECT count(DISTINCT s), min(s), max(label) FROM big;
SELECT s, v FROM big WHERE v % 3 = 0 ORDER BY v, id;
SELECT label, count(*) FROM big WHERE s > 'key 2' GROUP BY label ORDER BY label NULLS FIRST;
SELECT id, row_number() OVER (PARTITION BY label ORDER BY id) AS r FROM big ORDER BY id;
SELECT s, sum(v) OVER (PARTITION BY s ORDER BY id) AS running FROM big ORDER BY s, id;
SELECT b.id, k.name FROM big b JOIN keys k ON b.s = k.s ORDER BY b.id;
SELECT b.id, k.name FROM big b LEFT JOIN keys k ON b.s = k.s AND k.name <> 'name 7' ORDER BY b.id DESC;
SELECT k.name, count(*) AS n FROM big b JOIN keys k ON b.s = k.s GROUP BY k.name ORDER BY n DESC, k.name;
SELECT s FROM big WHERE s IN (SELECT s FROM keys WHERE name < 'name 3') ORDER BY s, id LIMIT 20000;
SELECT s, label FROM big ORDER BY s, id OFFSET 100000;
SELECT * FROM big;
"""


def big_tables() -> dict[str, pa.Table]:
    random = np.random.default_rng(7)
    keys = random.integers(0, KEYS, ROWS)
    labels = np.array([None, "", "short", "a label of more than twelve bytes", "ünï"], dtype=object)
    return {
        "big": pa.table(
            {
                "id": pa.array(range(ROWS), pa.int64()),
                "s": pa.array([f"key {key}" for key in keys]),
                "label": pa.array(labels[random.integers(0, len(labels), ROWS)], pa.string()),
                "v": pa.array(random.integers(-1000, 1000, ROWS)),
            }
        ),
        "keys": pa.table(
            {
                "s": pa.array([f"key {key}" for key in range(0, KEYS, 3)]),
                "name": pa.array([f"name {key % 100}" for key in range(0, KEYS, 3)]),
            }
        ),
    }


@pytest.mark.parametrize("context", OVER_TABLES, ids=str)
def test_results_of_many_batches(context: Context, tmp_path: Path) -> None:
    conformance = Conformance(tmp_path, context.kind, namespaces=context.namespaces)
    for name, rows in big_tables().items():
        conformance.add_table(name, rows)
    statements = split_statements(MANY_BATCHES)
    for sql in statements:
        conformance.run(sql)
    assert not conformance.differences, "\n".join(map(str, conformance.differences))
    assert conformance.counts["statements compared"] == len(statements)
    assert conformance.counts["results of many batches"] >= len(statements) - 3


class _OtherRows(Conformance):
    """What compares with tables that are not the ones in memory."""

    def spoil(self, rows: pa.Table, folder: Path, name: str = "t") -> None:
        lance_df.register(self._ours, name, lance_df.write_dataset(rows, folder / "other.lance").uri)


T = pa.table({"a": pa.array([3, 1, 2, None], pa.int32()), "s": ["x", "y", "z", "x"]})


@pytest.mark.parametrize(
    ("rows", "sql", "what"),
    [
        (T.slice(1), "SELECT * FROM t", "3 rows, in memory 4"),
        (T.set_column(0, "a", pa.array([3, 1, 2, 0], pa.int32())), "SELECT * FROM t", "1 of 4 rows differ"),
        (T.set_column(0, "a", pa.array([3, 1, 2, None], pa.int64())), "SELECT a FROM t", "a int64"),
        (T.rename_columns(["b", "s"]), "SELECT * FROM t", "b int32"),
        (T.rename_columns(["b", "s"]), "SELECT a FROM t", "only ours fails"),
        (T.rename_columns(["b", "s"]), "SELECT b FROM t", "only memory fails"),
        (
            T.set_column(0, "a", pa.array([1, 3, 2, None], pa.int32())),
            "SELECT s FROM t ORDER BY a",
            "another order",
        ),
    ],
)
def test_differences_are_found(rows: pa.Table, sql: str, what: str, tmp_path: Path) -> None:
    conformance = _OtherRows(tmp_path)
    conformance.add_table("t", T)
    conformance.run(sql)
    assert not conformance.differences
    conformance.spoil(rows, tmp_path)
    conformance.run(sql, "here:1")
    (found,) = conformance.differences
    assert what in found.what
    assert str(found).startswith("here:1\n")
    assert f"{sql};" in str(found)


@pytest.mark.parametrize("namespaces", [False, True])
def test_differences_of_what_is_stored_are_found(namespaces: bool, tmp_path: Path, monkeypatch: Any) -> None:
    def one_row_less(rows: pa.Table, uri: str, **options: Any) -> Any:
        return lance_df.dataset(written(rows.slice(1), uri, **options).uri)

    written, append = lance_df.write_dataset, lance_df.PartitionedNamespace.append
    monkeypatch.setattr(lance_df, "write_dataset", one_row_less)
    monkeypatch.setattr(lance_df.PartitionedNamespace, "append", lambda self, rows: append(self, rows[1:]))
    conformance = Conformance(tmp_path, namespaces=namespaces)
    conformance.add_table("t", T)
    (found,) = conformance.differences
    assert "rows, in memory 4" in found.what


def test_a_namespace_that_is_written_again_has_the_new_rows(tmp_path: Path) -> None:
    tables = StoredNamespaces(tmp_path)
    first, _ = tables.write(T, None)
    assert first is not None
    for rows in (T.slice(2), T.slice(0, 0), T, T.rename_columns(["b", "s"])):
        stored, what = tables.write(rows, first.uri)
        assert stored is not None
        assert what is None
        assert isinstance(stored, lance_df.PartitionedNamespace)
        assert (stored.uri == first.uri) == (rows.column_names == T.column_names)


def test_tables_are_partitioned_by_every_column_that_suits() -> None:
    rows = T.append_column("d", pa.array([0, 1, 40, None], pa.date32()))
    rows = rows.append_column("l", pa.array([[1], [], None, [2]])).append_column("n", pa.nulls(4))
    fields = partition_fields(rows)
    single = {by.columns[0] for (by, *more) in fields if not more}
    assert single == {"a", "s", "d"}
    assert {len(each) for each in fields} == {1, 2}


@pytest.mark.parametrize("context", [*OVER_TABLES, Context("own")], ids=str)
@pytest.mark.parametrize("name", ["t", "public.t", "datafusion.public.t"])
def test_tables_can_be_dropped_and_made_again(context: Context, name: str, tmp_path: Path) -> None:
    conformance = Conformance(tmp_path, context.kind, namespaces=context.namespaces)
    for sql in (
        f"CREATE TABLE {name} AS VALUES (1)",
        "SELECT * FROM t",
        f"DROP TABLE {name}",
        "SELECT * FROM t",
    ) * 2:
        conformance.run(sql)
    assert not conformance.differences, "\n".join(map(str, conformance.differences))
    assert conformance.counts["statements compared that fail in both"] == 2


def test_rows_that_fail_in_memory_alone_are_counted(tmp_path: Path) -> None:
    conformance = _OtherRows(tmp_path)
    conformance.add_table("t", T)
    conformance.spoil(T.slice(0, 2), tmp_path)
    conformance.run("SELECT s FROM t WHERE 6 / (a - 2) > 1")
    assert not conformance.differences
    assert conformance.counts["statements compared of which a row fails in memory alone"] == 1


def test_results_without_an_order_of_their_own_are_counted(tmp_path: Path) -> None:
    conformance = _OtherRows(tmp_path)
    conformance.add_table("t", T)
    conformance.spoil(T.take([3, 2, 1, 0]), tmp_path)
    conformance.run("SELECT array_agg(s) FROM t")
    assert not conformance.differences
    assert conformance.counts["results that depend on the order of rows"] == 1


@pytest.mark.parametrize("context", OVER_TABLES, ids=str)
@pytest.mark.parametrize("sql", ["SELECT * FROM information_schema.tables", "SHOW TABLES"])
def test_lists_of_tables_are_the_same_but_for_what_is_documented(
    context: Context, sql: str, tmp_path: Path
) -> None:
    conformance = _OtherRows(tmp_path, context.kind, namespaces=context.namespaces)
    conformance.add_table("t", T)
    conformance.run("CREATE VIEW v AS SELECT a FROM t")
    conformance.run(sql)
    assert not conformance.differences, "\n".join(map(str, conformance.differences))
    conformance.spoil(T, tmp_path, "more")
    conformance.run(sql)
    assert len(conformance.differences) == 1


def test_failures_of_the_binding_are_counted(tmp_path: Path) -> None:
    conformance = Conformance(tmp_path, "plain")
    conformance.add_table("t", T)
    conformance.run("SELECT * FROM t WHERE s IN (NULL, 'x')")
    assert not conformance.differences, "\n".join(map(str, conformance.differences))
    assert conformance.counts["documented: conditions on which DataFusion's binding fails"] == 1


def _answer(*values: Any) -> Answer:
    batch = pa.record_batch({"v": pa.array(values), "w": pa.array(range(len(values)))})
    return Answer(batch.schema, (batch,))


def test_order_is_compared_up_to_rows_of_equal_keys() -> None:
    one, other = _answer(1, 1, 2), _answer(1, 1, 2)
    assert difference(one, other, Ordering((0,))) is None
    swapped = Answer(one.schema, (one.batches[0].take([1, 0, 2]),))
    assert difference(one, swapped, Ordering((0,))) is None
    assert difference(one, swapped, Ordering((0, 1))) is not None
    unordered = Answer(one.schema, (one.batches[0].take([2, 0, 1]),))
    assert difference(one, unordered, None) is None
    assert difference(one, unordered, Ordering((0,))) is not None


def test_a_limit_may_take_any_rows_of_the_last_key() -> None:
    one, other = _answer(1, 2, 3, 3), _answer(1, 2, 3, 3)
    last = Answer(other.schema, (other.batches[0].set_column(1, "w", pa.array([0, 1, 2, 9])),))
    middle = Answer(other.schema, (other.batches[0].set_column(1, "w", pa.array([0, 9, 2, 3])),))
    assert difference(one, last, Ordering((0,), is_limited=True)) is None
    assert difference(one, last, Ordering((0,))) is not None
    assert difference(one, middle, Ordering((0,), is_limited=True)) is not None


def test_values_are_compared() -> None:
    nan = float("nan")
    assert difference(_answer(nan), _answer(nan), None) is None
    assert difference(_answer(0.1 + 0.2), _answer(0.3), None) is None
    for value in (0.3001, nan):
        assert difference(_answer(0.3), _answer(value), None) is not None
    assert difference(_answer(0.3, None), _answer(0.3, 0.0), None) is not None
    assert difference(_answer(-0.0), _answer(0.0), None) is not None


def test_schemas_of_batches_are_compared() -> None:
    one = _answer(1)
    batch = one.batches[0]
    not_null = batch.cast(pa.schema([field.with_nullable(False) for field in batch.schema]))
    assert "batches have" in str(difference(Answer(one.schema, (not_null,)), one, None))
    both = Answer(one.schema, (batch, not_null))
    assert difference(both, both, None) is None
    assert difference(Answer(one.schema, (batch, _answer(2).batches[0])), both, None) is not None


def test_results_without_batches_have_the_types_that_these_would_have() -> None:
    sql = "SELECT n FROM (SELECT NULL AS n UNION ALL SELECT 1) AS q WHERE n > 1"
    ctx = datafusion.SessionContext()
    assert ctx.sql(sql).collect() == []
    (batch,) = answer(ctx, sql).batches
    assert batch.schema == pa.schema([("n", pa.int64())])
    assert answer(ctx, "CREATE TABLE t (a INT)").batches == ()


def test_the_types_of_a_frame_are_those_of_its_batches_or_of_the_frame_in_memory() -> None:
    one = _answer(1)
    wrong = pa.schema([("v", pa.int32()), ("w", pa.int64())])
    frame_of_memory = Answer(wrong, one.batches)
    assert difference(one, frame_of_memory, None) is None
    assert difference(frame_of_memory, frame_of_memory, None) is None
    assert "the schema is v int32" in str(difference(frame_of_memory, one, None))


@pytest.mark.parametrize(
    ("sql", "names", "expected"),
    [
        ("SELECT a, b FROM t ORDER BY b DESC, 1", "a b", Ordering((1, 0))),
        ("SELECT a, b FROM t ORDER BY b, c, a", "a b", Ordering((1,), is_complete=False)),
        ("SELECT t.a, upper(b) FROM t ORDER BY upper(b), a LIMIT 3", "a upper(t.b)", Ordering((1, 0), True)),
        ("(SELECT a FROM t) UNION ALL SELECT a FROM u ORDER BY a", "a", Ordering((0,))),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) AS q", "a", None),
        ("SELECT a FROM t OFFSET 2", "a", Ordering((), is_limited=True)),
        ("WITH q AS (SELECT 1 AS a) SELECT A FROM q ORDER BY A", "a", Ordering((0,))),
    ],
)
def test_orderings_of_statements(sql: str, names: str, expected: Ordering | None) -> None:
    assert ordering_of(sql, names.split()) == expected


def test_kinds_of_statements() -> None:
    assert kind_of('-- x\nCREATE TABLE a."B" (x INT)') == (Kind.TABLE, 'a."B"')
    assert kind_of("insert into t select 1") == (Kind.TABLE, "t")
    assert kind_of("CREATE UNBOUNDED EXTERNAL TABLE t (x INT) STORED AS CSV LOCATION 'x'") == (
        Kind.DATA,
        None,
    )
    assert kind_of("/* x */ (select 1) union select 2") == (Kind.QUERY, None)
    assert kind_of("SET x = 1") == (Kind.STATE, None)
    assert reason_to_exclude("EXPLAIN SELECT 1") is not None
    assert reason_to_exclude("SELECT now()") is not None
    assert reason_to_exclude("SELECT 'explain' AS random, uuid_column FROM t") is None


def test_records_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "more.slt.part").write_text("statement ok\nSELECT 2\n")
    path = tmp_path / "a.slt"
    path.write_text(
        "# words\nstatement ok\nSELECT 1\n\nonlyif postgres\nquery I\nSELECT 9\n----\n9\n\n"
        "include ./*.part\n\nquery TT rowsort\nSELECT 'a',\n  'b'\n----\na b\n\n"
        "halt\n\nstatement ok\nSELECT 3\n"
    )
    records = list(read_records(path))
    assert [record.sql for record in records] == ["SELECT 1", "SELECT 2", "SELECT 'a',\n  'b'"]
    assert records[0].position == f"{path}:2"


def test_a_panic_is_an_error() -> None:
    class Panic(BaseException):
        pass

    class Panics:
        def sql(self, query: str) -> Any:
            raise Panic(query)

    assert answer(Panics(), "SELECT 1").error == "Panic: SELECT 1"


@pytest.mark.parametrize("context", OVER_TABLES, ids=str)
def test_random_statements(context: Context, batch_rows: int | None, tmp_path: Path) -> None:
    statements = RandomStatements(seed=7)
    conformance = Conformance(tmp_path, context.kind, batch_rows, namespaces=context.namespaces)
    for name, rows in statements.tables.items():
        conformance.add_table(name, rows)
    for number, sql in enumerate(islice(statements, 60)):
        conformance.run(sql, f"statement {number}")
    assert not conformance.differences, "\n".join(map(str, conformance.differences))
    assert conformance.counts["statements compared that fail in both"] < 10
    assert conformance.counts["results without rows"] < 30


def test_a_seed_names_tables_and_statements() -> None:
    one, other, third = RandomStatements(3), RandomStatements(3), RandomStatements(4)
    assert {name: rows.schema for name, rows in one.tables.items()} == {
        name: rows.schema for name, rows in other.tables.items()
    }
    assert list(islice(one, 50)) == list(islice(other, 50)) != list(islice(third, 50))
