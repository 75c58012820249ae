"""Long and deep texts: bounded or balanced, with the same answers, and never the end of the process."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.compute.compat import PlainSessionContext
from lance_df.errors import InvalidInputError, LanceError
from lance_df.sql.nesting import MAX_CONJUNCTS, MAX_DEPTH, MAX_SETS, MAX_TABLES, bounded

pytestmark = pytest.mark.engine

_ROOT = Path(lance_df.__file__).resolve().parents[1]
_OPERANDS = (
    "a",
    "not b",
    "a is null",
    "c between 1 and 3",
    "c in (1, 2)",
    "(a or b) and a",
    "abs(c) > 1 or b",
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("deep") / "t.lance")
    lance_df.write_dataset(
        pa.table({"a": range(30_000), "b": [number % 7 for number in range(30_000)]}), path
    )
    return path


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "select 1; select 2",
        "select 'it''s OR OR OR' from t",
        "'unfinished",
        " OR ".join(["a = 1"] * 60),
        ", ".join(f"a{number} + 1" for number in range(5000)),
        "CASE " + " ".join(f"WHEN a = {number} AND b = 1 THEN {number}" for number in range(3000)) + " END",
        "a IN (" + ", ".join(map(str, range(20_000))) + ")",
        "SELECT * FROM t WHERE a = '" + " OR x" * 1000 + "'",
        "SELECT " + ", ".join(f"t.c{number}" for number in range(2000)) + " FROM t",
        "SELECT a IS DISTINCT FROM b, " + ", ".join(f"c{number} + 1" for number in range(500)) + " FROM t",
        "SELECT * EXCEPT (a) FROM t" + " UNION ALL SELECT 1" * (MAX_TABLES + 50),
        "SELECT a FROM t ORDER BY " + ", ".join(f"c{number}" for number in range(500)),
        "SELECT a FROM t, f(" + ", ".join(f"{number} + 1" for number in range(500)) + ")",
    ],
)
def test_texts_that_need_nothing(text: str):
    assert bounded(text) == text


def test_parentheses_change_no_answer():
    """Against DataFusion's own reading of the same text, with NULL, for chains around the size of a group."""
    values = [True, False, None]
    rows = list(itertools.product(values, values, [0, 2, None]))
    ctx = PlainSessionContext()
    ctx.register_record_batches(
        "t",
        [[pa.record_batch({name: [row[place] for row in rows] for place, name in enumerate("abc")})]],
    )
    for length in (64, 65, 66, 67, 130, 200):
        for seed in range(4):
            words = ["or", "and", "or"] if seed % 2 else ["or"]
            parts = [
                f"{_OPERANDS[(number * (seed + 3)) % len(_OPERANDS)]} {words[number % len(words)]}"
                for number in range(length)
            ]
            text = "select " + " ".join(parts) + " b as z, a or b from t where " + " ".join(parts) + " true"
            changed = bounded(text + " " * 10 + "-- " + "+" * MAX_DEPTH)
            assert length < 130 or changed.count("(") > text.count("(")
            found, expected = (ctx.sql(each).to_pydict() for each in (changed, text))
            assert list(found.values()) == list(expected.values())


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["a"] * (MAX_DEPTH + 2)),
        "a" + "::bigint" * (MAX_DEPTH + 1),
        "a" + " IS NULL" * (MAX_DEPTH + 1),
        "NOT " * (MAX_DEPTH + 1) + "a",
        "- " * (MAX_DEPTH + 1) + "a",
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        "a" + "[0]" * (MAX_DEPTH + 1),
        "a" + ".b" * (MAX_DEPTH + 5),
        "CASE WHEN a THEN 1 ELSE " * (MAX_DEPTH + 1) + "0" + " END" * (MAX_DEPTH + 1),
        "a = 1 AND (b = 2 OR " * MAX_DEPTH + "a" + ")" * MAX_DEPTH,
        " AND ".join(["a = 1"] * (MAX_CONJUNCTS + 2)),
        " AND ".join(["(" + " AND ".join(["a = 1"] * 60) + ")"] * 20),
        " UNION ALL ".join(["SELECT 1"] * (MAX_SETS + 2)),
        " EXCEPT ".join(["SELECT 1"] * (MAX_TABLES + 2)),
        " INTERSECT ALL ".join(["SELECT 1"] * (MAX_TABLES + 2)),
        " UNION ALL ".join(["SELECT 1 EXCEPT SELECT 2"] * 150),
        " UNION ALL ".join(["SELECT 1"] * 600 + ["(" + " UNION ALL ".join(["SELECT 1"] * 600) + ")"]),
        "SELECT 1 FROM t" + ", t" * (MAX_TABLES + 1) + " WHERE true",
        "SELECT 1 FROM t" + "".join(f", LATERAL (SELECT {i}) l{i}" for i in range(MAX_TABLES + 1)),
        "SELECT * FROM t " + "JOIN t USING (a) " * (MAX_TABLES + 1),
        "WITH " + ", ".join(f"c{number} AS (SELECT 1)" for number in range(MAX_TABLES + 1)) + " SELECT 1",
        " OR ".join(["a IS DISTINCT FROM 1 COLLATE x"] * 300) + "+".join(["a"] * 300),
    ],
)
def test_chains_that_are_too_long(text: str):
    with pytest.raises(InvalidInputError, match=r"more than|deep"):
        bounded(text)


def test_twenty_thousand_conditions(table: str):
    text = " OR ".join(f"a = {number}" for number in range(0, 40_000, 2))
    expected = list(range(0, 30_000, 2))
    data = lance_df.dataset(table)
    assert data.to_table(filter=text)["a"].to_pylist() == expected
    ctx = lance_df.connect()
    lance_df.register(ctx, "t", table)
    assert ctx.sql(f"SELECT a FROM t WHERE {text} ORDER BY a").to_pydict()["a"] == expected
    condition = pc.field("a") == 1
    for number in range(2, 20_000, 2):
        condition = condition | (pc.field("a") == number)
    assert data.count_rows(condition) == 10_000


def test_deep_filters_of_pyarrow(table: str):
    data = lance_df.dataset(table)
    chain = nested = pc.field("a") > 10
    for number in range(3000):
        chain = ~chain
        nested = (nested & (pc.field("b") > -1)) if number % 2 else (nested | (pc.field("a") < 0))
    for condition in (chain, nested):
        with pytest.raises(InvalidInputError, match="deep"):
            data.to_table(filter=condition)
        with pytest.raises(InvalidInputError, match="deep"):
            data.count_rows(condition)


_DANGEROUS = """
import sys, threading
import pyarrow as pa, lance_df
from lance_df.errors import LanceError
def texts():
    for n in (100, 3_000):
        yield " AND ".join(f"a <> {i}" for i in range(n))
        yield " OR ".join(f"(a = {i} AND b = {i})" for i in range(n))
        yield "+".join(["a"] * n) + " > 0"
        yield "a" + "::bigint" * n + " > 0"
        yield "a" + " IS NULL" * n
        yield "NOT " * n + "a > 1"
        yield "abs(" * n + "a" + ")" * n + " > 1"
        yield "CASE WHEN a > 1 THEN 1 ELSE " * n + "0" + " END" * n + " > 0"
def statements():
    for n in (50, 3_000):
        yield " UNION ALL ".join(["SELECT a FROM t"] * n)
        yield " EXCEPT ".join(["SELECT a FROM t"] * n)
        yield "SELECT 1 FROM t" + "".join(f", t t{i}" for i in range(n)) + " LIMIT 1"
        yield "SELECT * FROM (" * n + "SELECT * FROM t" + ") x" * n
        names = ["t", *(f"c{i}" for i in range(n))]
        parts = (f"{names[i + 1]} AS (SELECT * FROM {names[i]})" for i in range(n))
        yield "WITH " + ", ".join(parts) + f" SELECT * FROM {names[-1]}"
def run():
    ctx = lance_df.connect()
    lance_df.register(ctx, "t", sys.argv[1])
    data = lance_df.dataset(sys.argv[1])
    tries = [lambda text=text: data.to_table(filter=text) for text in texts()]
    counts = [f"SELECT count(*) FROM t WHERE {text}" for text in texts()]
    tries += [lambda text=text: ctx.sql(text).to_pylist() for text in counts]
    tries += [lambda text=text: ctx.sql(text).to_pylist() for text in statements()]
    for attempt in tries:
        try:
            attempt()
        except LanceError as err:
            print(type(err).__name__)
        else:
            print("rows")
threading.stack_size(2 * 1024 * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def test_no_text_ends_the_process(tmp_path: Path):
    """On a thread with a stack of 2 MiB: of 100 operators most are answered, of 3,000 most are refused."""
    path = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"a": [1, 2, 3], "b": [1, 2, 3]}), path)
    done = subprocess.run(
        [sys.executable, "-c", _DANGEROUS, path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=_ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = done.stdout.split()
    assert set(found) <= {"rows", "InvalidInputError"}
    assert len(found) == 42
    assert found.count("rows") >= 14


def test_changes_refuse_them_too(tmp_path: Path):
    data = lance_df.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t")
    text = "+".join(["a"] * 5000) + " > 0"
    for change in (lambda: data.delete(text), lambda: data.update({"a": "1"}, where=text)):
        with pytest.raises(LanceError, match="deep"):
            change()
    assert data.count_rows() == 2
