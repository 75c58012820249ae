"""Joins collect what they build on where that is the smaller side, and give the same rows."""

import datafusion
import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionConfig

import lance_df
from lance_df.engine.optimizer.rules import join_mode
from lance_df.scan.run import num_cores
from tests.engine.query_results import assert_same_result, in_memory

pytestmark = pytest.mark.engine

DIVIDES = "datafusion.optimizer.repartition_joins"
MANY, FEW = 20_000, 40


@pytest.fixture(scope="module")
def tables():
    random = np.random.default_rng(7)
    keys = random.integers(0, FEW + 10, MANY)
    return {
        "big": pa.table({"k": pa.array(keys, mask=random.random(MANY) < 0.1), "v": np.arange(MANY)}),
        "few": pa.table({"k": [*range(FEW - 2), None, 3], "name": [f"ü{number}" for number in range(FEW)]}),
        "nothing": pa.table({"k": pa.array([], pa.int64()), "name": pa.array([], pa.string())}),
    }


@pytest.fixture(scope="module")
def root(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mode")
    for name, rows in tables.items():
        lance_df.write_dataset(rows, folder / f"{name}.lance")
    return folder


@pytest.fixture(scope="module")
def memory(tables):
    return in_memory(tables)


def session(root, num_partitions=3, config=None):
    return lance_df.connect(root, config=(config or SessionConfig()).with_target_partitions(num_partitions))


def modes(frame):
    plan = frame.execution_plan().display_indent()
    return {part.split(",")[0] for part in plan.split("HashJoinExec: mode=")[1:]}


def setting(ctx):
    return ctx.sql(f"SHOW {DIVIDES}").to_pydict()["value"]


JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]


@pytest.mark.parametrize("other", ["few", "nothing"])
@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("condition", ["", " AND big.v > 30"])
def test_all_kinds_of_joins(root, memory, kind, other, condition):
    columns = "big.v" if "LEFT " in kind and "LEFT JOIN" not in kind else "big.v, o.name"
    ctx = session(root, num_partitions=2)
    for text in (
        f"SELECT {columns} FROM big {kind} {other} o ON big.k = o.k{condition}",
        f"SELECT count(*) AS v FROM {other} o {kind} big ON big.k = o.k{condition}",
    ):
        frame = ctx.sql(text)
        assert_same_result(frame, memory.sql(text))
        assert modes(frame) == {"CollectLeft"}
    assert setting(ctx) == ["true"]


def test_joins_in_a_subquery_are_not_known(root, memory):
    text = (
        "SELECT count(*) AS v FROM big JOIN few o ON big.k = o.k"
        " WHERE v > (SELECT avg(v) FROM big JOIN few ON big.k = few.k)"
    )
    frame = session(root).sql(text)
    assert_same_result(frame, memory.sql(text))
    if frame.optimized_logical_plan().display_indent().count("Subquery:"):
        assert modes(frame) == {"Partitioned"}


def test_settings_of_the_user_are_kept(root):
    text = "SELECT count(*) AS n FROM big JOIN few USING (k)"
    ctx = session(root, config=SessionConfig().with_repartition_joins(False))
    assert modes(ctx.sql(text)) == {"CollectLeft"}
    assert setting(ctx) == ["false"]
    ctx.sql(f"SET {DIVIDES} = true")
    assert modes(ctx.sql(text)) == {"CollectLeft"}
    assert setting(ctx) == ["true"]
    ctx.sql(f"SET {DIVIDES} = false")
    ctx.sql(text)
    assert setting(ctx) == ["false"]


def test_what_is_built_on_by_one_thread_is_smaller(root, monkeypatch):
    text = "SELECT count(*) AS n FROM big a JOIN big b ON a.v = b.v"
    assert modes(session(root).sql(text)) == {"CollectLeft"}
    assert modes(session(root, num_partitions=4).sql(text)) == {"Partitioned"}
    monkeypatch.setattr(join_mode, "_MOST_BUILT_ROWS", 10_000)
    ctx = session(root)
    assert modes(ctx.sql(text)) == {"Partitioned"}
    assert ctx.sql(text).to_pydict() == {"n": [MANY]}


def test_sizes_that_are_not_known(root, tables, memory, monkeypatch):
    ctx = session(root)
    ctx.from_arrow(tables["few"], "unknown")
    verdicts = []
    judged = join_mode._Joins.are_better_collected
    monkeypatch.setattr(
        join_mode._Joins,
        "are_better_collected",
        lambda self, plan: verdicts.append(judged(self, plan)) or verdicts[-1],
    )
    text = "SELECT count(*) AS n FROM big JOIN {} u ON big.k = u.k JOIN few ON few.k = u.k"
    assert ctx.sql(text.format("unknown")).to_pydict() == memory.sql(text.format("few")).to_pydict()
    assert verdicts == [False]
    assert setting(ctx) == ["true"]


def test_a_session_without_information_schema(root, memory):
    ctx = lance_df.enable(datafusion.SessionContext(SessionConfig().with_information_schema(False)))
    for name in ("big", "few"):
        lance_df.register(ctx, name, str(root / f"{name}.lance"))
    text = "SELECT count(*) AS n FROM big JOIN few USING (k)"
    assert ctx.sql(text).to_pydict() == memory.sql(text).to_pydict()


def test_no_keys_no_choice(root, memory):
    ctx = session(root)
    for text in (
        "SELECT count(*) AS n FROM few a CROSS JOIN few b",
        "SELECT count(*) AS n FROM few a JOIN few b ON a.k < b.k",
        "SELECT count(*) AS n FROM big WHERE k IN (1, 2)",
    ):
        assert ctx.sql(text).to_pydict() == memory.sql(text).to_pydict()


def test_a_namespace_with_a_table(tmp_path, tables):
    big = tables["big"].append_column("part", pa.array(np.arange(MANY) % 3))
    by_part = [lance_df.partition.identity("part")]
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "events", big.schema, partition_by=by_part)
    namespace.append(big)
    lance_df.write_dataset(tables["few"], tmp_path / "few.lance")
    ctx = session(tmp_path, num_partitions=2)
    lance_df.register(ctx, "events", namespace)
    memory = datafusion.SessionContext()
    memory.from_arrow(big, "events")
    memory.from_arrow(tables["few"], "few")
    text = "SELECT name, count(*) AS n, sum(v) FROM events JOIN few USING (k) {} GROUP BY name ORDER BY 1"
    for where in ("", "WHERE part = 1", "WHERE part = 7"):
        for _ in range(2):  # once its members are open, their rows are known
            frame = ctx.sql(text.format(where))
            assert_same_result(frame, memory.sql(text.format(where)))
    assert modes(ctx.sql(text.format(""))) == {"CollectLeft"}


def test_one_more_partition_than_cores_scans_beside_a_collected_side(tables, tmp_path):
    part = 150_000
    for _ in range(num_cores() + 1):
        rows = pa.table({"k": np.arange(part) % FEW})
        lance_df.write_dataset(rows, tmp_path / "big.lance", mode="append")
    lance_df.write_dataset(tables["few"], tmp_path / "few.lance")
    ctx = lance_df.connect(tmp_path, config=SessionConfig().with_target_partitions(2))
    assert ctx.sql("SELECT k FROM big").execution_plan().partition_count <= num_cores()
    frame = ctx.sql("SELECT k, name FROM big JOIN few USING (k)")
    assert frame.execution_plan().partition_count == num_cores() + 1
    per_key = part // FEW * (num_cores() + 1)
    assert frame.count() == per_key * (FEW - 2 + 1)
