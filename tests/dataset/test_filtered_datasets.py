"""What `filter` returns, and datasets whose default scan options choose rows: in every call, and in SQL."""

import pickle

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from datafusion import SessionContext

import lance_df
from lance_df.errors import InvalidInputError, LanceError, UnsupportedFeatureError

ROWS = pa.table({"a": range(100), "part": [number % 4 for number in range(100)]})
CONDITION = (pc.field("a") >= 90) & (pc.field("part") != 1)
WANTED = [90, 91, 92, 94, 95, 96, 98, 99]


def table(path):
    lance_df.write_dataset(ROWS, path / "t.lance", max_rows_per_file=30)
    return lance_df.dataset(path / "t.lance")


def namespace(path):
    made = lance_df.PartitionedNamespace.create(
        path / "n", ROWS.schema, [lance_df.partition.identity("part")]
    )
    made.append(ROWS)
    return made


@pytest.fixture(params=[table, namespace])
def whole(request, tmp_path):
    return request.param(tmp_path)


def numbers(rows) -> list[int]:
    return sorted(pa.table(rows)["a"].to_pylist())


def test_every_call_returns_the_rows_of_the_condition(whole):
    some = whole.filter(pc.field("a") >= 90).filter(pc.field("part") != 1)
    assert isinstance(some, pa.dataset.Dataset)
    assert isinstance(some, lance_df.FilteredDataset)
    order = some.to_table()["a"].to_pylist()
    assert sorted(order) == WANTED
    assert (len(some), some.count_rows(), some.count_rows("a < 94")) == (8, 8, 3)
    assert some.schema == whole.schema
    assert some.take([7, 0, 0], ["a"]).to_pydict() == {"a": [order[7], order[0], order[0]]}
    with pytest.raises((LanceError, IndexError)):
        some.take([8])
    assert some.head(2)["a"].to_pylist() == order[:2]
    assert numbers(pa.Table.from_batches(some.to_batches(["a"], "a > 95"))) == [96, 98, 99]
    assert some.scanner(["a"], limit=3).to_table().num_rows == 3
    assert sorted(some.to_pandas()["a"]) == WANTED
    assert numbers(pa.table(some)) == WANTED
    assert numbers(some.sort_by("a").to_table()) == WANTED
    fragments = some.get_fragments(pc.field("part") == 3)
    found = [fragment.to_table(filter=pc.field("part") == 3) for fragment in fragments]
    assert numbers(pa.concat_tables(found)) == [91, 95, 99]
    assert numbers(pickle.loads(pickle.dumps(some)).to_table()) == WANTED
    assert "FilteredDataset" in repr(some)
    assert numbers(whole.to_table()) == list(range(100))


@pytest.mark.engine
@pytest.mark.parametrize("connected", [True, False], ids=["session", "plain"])
@pytest.mark.parametrize("call", ["register", "register_dataset", "register_table"])
def test_sql_sees_the_rows_of_the_condition(whole, connected, call, tmp_path):
    ctx = lance_df.connect(tmp_path) if connected else SessionContext()
    some = whole.filter(CONDITION)
    if call == "register":
        lance_df.register(ctx, "some", whole)
        lance_df.register(ctx, "some", some)  # replaces it
    elif call == "register_table" and not connected:
        ctx.register_dataset("some", some)
    else:
        getattr(ctx, call)("some", some)
    assert numbers(ctx.sql("SELECT a FROM some").to_arrow_table()) == WANTED
    assert numbers(ctx.sql("SELECT a FROM some WHERE a > 95").to_arrow_table()) == [96, 98, 99]
    for change in ("DELETE FROM some", "UPDATE some SET a = 0", "INSERT INTO some VALUES (1, 1)"):
        with pytest.raises(Exception):  # noqa: B017, PT011 - plain contexts raise DataFusion's
            ctx.sql(change).collect()
    assert numbers(whole.to_table()) == list(range(100))
    assert not any(hasattr(some, name) for name in ("delete", "update", "insert", "append", "sql"))
    if connected:
        for change in ("DELETE FROM some", "UPDATE some SET a = 0"):
            with pytest.raises(UnsupportedFeatureError, match="read-only"):
                ctx.sql(change).collect()
    with pytest.raises(InvalidInputError, match="version"):
        lance_df.register(ctx, "some", some, version=1)
    lance_df.register(ctx, "some", whole)
    assert ctx.sql("SELECT * FROM some").count() == 100


@pytest.mark.engine
def test_default_options_that_choose_rows_hold_in_scans_alone(tmp_path):
    path = table(tmp_path).uri
    options = {"filter": pc.field("a") > 95, "batch_size": 2}
    some, theirs = (each.dataset(str(path), default_scan_options=options) for each in (lance_df, lance))
    for each in (some, theirs):
        assert numbers(each.to_table()) == [96, 97, 98, 99]
        assert each.take([0, 50])["a"].to_pylist() == [0, 50]
        assert each.sample(100).num_rows == 100
    (batch,) = some.sql("SELECT count(*) AS n FROM dataset").build().to_batch_records()
    assert batch.to_pydict() == {"n": [100]}
    ctx = lance_df.connect(tmp_path)
    lance_df.register(ctx, "some", some)
    assert numbers(ctx.sql("SELECT a FROM some").to_arrow_table()) == [96, 97, 98, 99]
    with pytest.raises(Exception):  # noqa: B017, PT011
        ctx.sql("DELETE FROM some").collect()
    tuned = lance_df.dataset(path, default_scan_options={"batch_size": 2})
    lance_df.register(ctx, "tuned", tuned)
    assert ctx.sql("DELETE FROM tuned WHERE a < 10").to_pydict() == {"count": [10]}
