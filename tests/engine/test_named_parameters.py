"""Named parameters, whose texts replace placeholders, and parameter values, in all kinds of statements."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError

pytestmark = pytest.mark.engine


@pytest.fixture
def ctx(tmp_path):
    lance_df.write_dataset(pa.table({"id": range(5), "s": list("abcde")}), tmp_path / "t.lance")
    return lance_df.connect(tmp_path)


def ids(frame):
    return sorted(frame.to_pydict()["id"])


def test_views(ctx):
    ctx.sql("CREATE VIEW named AS SELECT id FROM $source WHERE id > $n", source="t", n=2)
    ctx.sql("CREATE VIEW given AS SELECT id FROM t WHERE id > $1 AND s < $n", param_values={"1": 1, "n": "e"})
    ctx.sql("CREATE VIEW of_frame AS SELECT id FROM $frame", frame=ctx.sql("SELECT * FROM t WHERE id < 2"))
    ctx.sql("CREATE VIEW $name AS SELECT id FROM t WHERE s = '$name'", name="renamed")
    assert [ids(ctx.sql(f"SELECT * FROM {name}")) for name in ("named", "given", "of_frame", "renamed")] == [
        [3, 4],
        [2, 3],
        [0, 1],
        [],
    ]
    ctx.sql("INSERT INTO t VALUES (5, 'd')")
    assert [ids(ctx.sql(f"SELECT * FROM {name}")) for name in ("named", "given")] == [[3, 4, 5], [2, 3, 5]]
    ctx.sql("DROP VIEW $name", name="named")
    with pytest.raises(lance_df.DatasetNotFoundError, match=r"in the statement: SELECT id FROM \$name"):
        ctx.sql("SELECT id FROM $name", name="named")


def test_texts_stay_apart_from_what_is_around_them(ctx):
    assert ctx.sql("SELECT 5 -$a AS x, 7 AS y", a=-1).to_pylist() == [{"x": 6, "y": 7}]
    assert ids(ctx.sql("SELECT id FROM t WHERE id < $k AND id > 1", k="10 -- ten")) == [2, 3, 4]
    assert ids(ctx.sql("SELECT id FROM t WHERE id < $k AND id > 1", k="/* a */ 10 /* ten */")) == [2, 3, 4]
    assert ctx.sql("DELETE FROM t WHERE id = 3 -$k AND s = 'nope'", k=-1).to_pydict() == {"count": [0]}
    assert ctx.sql("SELECT count(*) AS n FROM t").to_pydict() == {"n": [5]}
    for query, value in (
        ("SELECT id FROM t WHERE s = 'x'$k", "'y'"),
        ("SELECT 1$k", 2),
        ("SELECT $k", "'a"),
        ("SELECT $k", "1 /*"),
    ):
        with pytest.raises(InvalidInputError):
            ctx.sql(query, k=value).to_pylist()


def test_prepared_statements(ctx):
    ctx.sql("PREPARE p AS SELECT id FROM t WHERE id > $n", n=2)
    ctx.sql("PREPARE q AS SELECT id FROM $source WHERE id > $1", source="t")
    ctx.sql("PREPARE r AS SELECT id FROM t WHERE id > $1 AND id < $n", n=4)
    ctx.sql("INSERT INTO t VALUES (5, 'f')")
    assert ids(ctx.sql("EXECUTE p")) == [3, 4, 5]
    assert ids(ctx.sql("EXECUTE q(2)")) == [3, 4, 5]
    assert [ids(ctx.sql("EXECUTE r($n)", n=n)) for n in (1, 2)] == [[2, 3], [3]]


def test_changes(ctx):
    ctx.sql("INSERT INTO $t VALUES ($n, '$n'), ($n + 1, $1)", t="t", n=5, param_values=["x"])
    ctx.sql("UPDATE t SET s = $value WHERE $condition", value="'y'", condition="id = 0 OR id = 1")
    ctx.sql(
        "DELETE FROM t WHERE id IN (SELECT id FROM $f)", f=ctx.sql("SELECT id FROM t WHERE id > 1 AND id < 4")
    )
    ctx.sql("CREATE TABLE u AS SELECT id, s FROM $t WHERE id < $n", t="t", n=6)
    assert ctx.sql("SELECT * FROM u ORDER BY id").to_pydict() == {
        "id": [0, 1, 4, 5],
        "s": ["y", "y", "e", "$n"],
    }
    assert ctx.sql("SELECT s FROM t WHERE id = 6").to_pydict() == {"s": ["x"]}


def test_placeholders_without_a_text(ctx):
    with pytest.raises(InvalidInputError, match=r"\$m"):
        ctx.sql("SELECT id FROM t WHERE id > $m", n=2).collect()
    with pytest.raises(InvalidInputError, match="Unterminated"):
        ctx.sql("SELECT id FROM t WHERE s = 'a", n=2)


def test_large_integers(ctx, tmp_path):
    largest = 2**64 - 1
    lance_df.write_dataset(pa.table({"u": pa.array([1, 2**63, largest], pa.uint64())}), tmp_path / "n.lance")
    for value in (1, 2**63, largest, pa.scalar(largest, pa.uint64())):
        assert ctx.sql("SELECT u FROM n WHERE u = $1", param_values=[value]).to_pydict() == {
            "u": [int(str(value))]
        }
    for value in (2**64, -(2**63) - 1, object()):
        with pytest.raises(InvalidInputError, match=r"the value of \$x, .*, cannot be converted to Arrow"):
            ctx.sql("SELECT u FROM n WHERE u = $x", param_values={"x": value})
