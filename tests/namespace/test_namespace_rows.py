"""Rows from many places for columns of a namespace: what fits is stored, what does not is refused."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.errors import InvalidInputError

pytestmark = pytest.mark.engine

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("x", pa.float32()),
        ("vector", pa.list_(pa.float32(), 2)),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int16())])),
    ]
)
ROW = {
    "id": 1,
    "name": "a",
    "day": dt.date(2024, 2, 29),
    "ts": dt.datetime(2024, 2, 29, 5),
    "price": Decimal("1.50"),
    "x": 0.5,
    "vector": [1.0, 2.0],
    "place": {"city": "Bonn", "zip": 7},
}
NOTHING = dict.fromkeys(ROW)
TABLE = pa.Table.from_pylist([ROW, NOTHING], SCHEMA)


@pytest.fixture
def namespace(tmp_path):
    return lance_df.PartitionedNamespace.create(tmp_path, SCHEMA, ["bucket(id, 4)", "name"])


def with_column(name, values):
    return TABLE.set_column(TABLE.schema.get_field_index(name), name, values)


SOURCES = {
    "dicts": [ROW, NOTHING],
    "dict of lists": {name: [value, None] for name, value in ROW.items()},
    "pandas": pd.DataFrame([ROW, NOTHING]),
    "polars": pl.DataFrame([ROW, NOTHING]),
    "batches": TABLE.to_batches(max_chunksize=1),
    "tables": [TABLE.slice(0, 1), TABLE.slice(1)],
    "int64": with_column("id", TABLE["id"].cast(pa.int64())),
    "uint8": with_column("id", TABLE["id"].cast(pa.uint8())),
    "large": with_column("name", TABLE["name"].cast(pa.large_string())),
    "view": with_column("name", TABLE["name"].cast(pa.string_view())),
    "dictionary": with_column("name", TABLE["name"].dictionary_encode()),
    "nanoseconds": with_column("ts", TABLE["ts"].cast(pa.timestamp("ns"))),
    "date64": with_column("day", TABLE["day"].cast(pa.date64())),
    "wide decimals": with_column("price", TABLE["price"].cast(pa.decimal128(20, 4))),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_that_fit_are_stored(namespace, kind):
    namespace.append(SOURCES[kind])
    assert namespace.to_table().sort_by("id").to_pylist() == [ROW, NOTHING]
    assert namespace.to_table(filter="name = 'a' AND id = 1").to_pylist() == [ROW]


def test_batches_as_they_come(namespace):
    namespace.append(batch for batch in TABLE.to_batches(max_chunksize=1))
    namespace.append([])
    namespace.append(iter(()))
    assert namespace.count_rows() == 2


def test_dicts_need_not_have_the_same_keys(namespace):
    namespace.append([{"id": 1}, {"name": "b"}, {"place": {"zip": 3}}])
    found = {row["name"] or row["id"] for row in namespace.to_table().to_pylist()}
    assert found == {1, "b", None}
    with pytest.raises(InvalidInputError, match="do not exist in the table: other"):
        namespace.append([{"id": 1}, {"other": 2}])


@pytest.mark.parametrize(
    "wrong",
    {
        "too large": with_column("id", pa.array([2**31, 1], pa.int64())),
        "negative": [{"id": 1}, {"id": -(2**40)}],
        "fraction": [{"id": 1.5}],
        "text": [{"id": "1"}],
        "number": [{"name": 1}],
        "lost nanosecond": with_column("ts", pa.array([1, 2], pa.timestamp("ns"))),
        "lost digits": [{"price": Decimal("1.505")}],
        "noon": [{"day": dt.datetime(2024, 1, 1, 12)}],
        "zone": [{"ts": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}],
        "double": with_column("x", pa.array([0.1, 0.2], pa.float64())),
        "length": [{"vector": [1.0, 2.0, 3.0]}],
        "small": [{"place": {"zip": 2**20}}],
        "many names": TABLE.rename_columns([*TABLE.column_names[:-1], "elsewhere"]),
    }.items(),
    ids=lambda each: each[0],
)
def test_rows_that_do_not_fit_are_refused(namespace, wrong):
    with pytest.raises(InvalidInputError):
        namespace.append(wrong[1])
    assert namespace.count_rows() == len(namespace.partitions()) == 0


def test_frames_have_moments_for_dates(namespace):
    namespace.append(pd.DataFrame({"day": pd.to_datetime(["2024-02-29", None])}))
    assert namespace.to_table(["day"])["day"].to_pylist() == [dt.date(2024, 2, 29), None]


def test_frames_with_an_index_and_missing_numbers(namespace):
    frame = pd.DataFrame({"id": [1, None, 3], "x": [1, 2, np.nan]})
    namespace.append(frame[frame["x"] > 1])
    assert namespace.to_table(["id", "x"]).to_pylist() == [{"id": None, "x": 2.0}]


def test_upserts_keep_what_rows_do_not_bring(namespace):
    namespace.append([ROW])
    namespace.upsert([{"id": 1, "place": {"city": "Ulm"}}], on="id")
    assert namespace.to_table().to_pylist() == [{**ROW, "place": {"city": "Ulm", "zip": 7}}]
    namespace.overwrite_partitions(pd.DataFrame({"id": [1], "name": ["a"]}))
    assert namespace.to_table(["id", "day"]).to_pylist() == [{"id": 1, "day": None}]


def test_columns_of_dictionaries_take_text(tmp_path):
    encoded = pa.dictionary(pa.int8(), pa.string())
    namespace = lance_df.PartitionedNamespace.create(tmp_path, pa.schema([("s", encoded)]), ["s"])
    for rows in ([{"s": "a"}, {"s": None}], pd.DataFrame({"s": ["b"]}), pa.table({"s": ["a"]})):
        namespace.append(rows)
    assert sorted(map(str, namespace.to_table()["s"].to_pylist())) == ["None", "a", "a", "b"]
    assert len(namespace.partitions()) == 3
    assert namespace.schema.field("s").type == encoded


def test_double_quotes_are_columns_in_expressions(tmp_path):
    schema = pa.schema(
        [("User id", pa.int64()), ("kind", pa.string()), ("st", pa.struct([("a b", pa.int64())]))]
    )
    namespace = lance_df.PartitionedNamespace.create(tmp_path, schema, ["User id"])
    namespace.append(
        [{"User id": number, "kind": "xyz"[number], "st": {"a b": number}} for number in range(3)]
    )
    assert namespace.to_table(["kind"], filter='"User id" = 1').to_pylist() == [{"kind": "y"}]
    assert namespace.count_rows('"kind" <> \'y\' AND "st"."a b" > 0') == 1
    # text where no column has the name, as in filters of datasets
    assert namespace.count_rows('kind = "y"') == 1
    assert namespace.to_table({"twice": '"User id" * 2'}, filter='"User id" = 2')["twice"].to_pylist() == [4]
    namespace.update({"kind": '"kind" || "!"'}, where='"User id" > 1')
    assert namespace.delete('"kind" <> \'z!\' AND "User id" < 1') == {"num_deleted_rows": 1}
    namespace.add_columns({"more": '"User id" + 10'})
    with namespace.transaction() as transaction:
        transaction.delete('"User id" = 1')
    assert namespace.to_table(["kind", "more"]).to_pylist() == [{"kind": "z!", "more": 12}]
    with pytest.raises(InvalidInputError):
        namespace.count_rows('"User id')
    with pytest.raises(InvalidInputError, match="list of names"):
        namespace.to_table("kind")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (pc.field("s") == "a", [0, 3]),
        (pc.field("s").isin(["a", "c"]), [0, 3]),
        (~(pc.field("s") == "a"), [1, 4]),
        (pc.field("s").is_null() & (pc.field("n") > 2), [5]),
        ((pc.field("s") == "b") | (pc.field("n") == 0), [0, 1, 4]),
    ],
)
def test_filters_may_be_expressions_of_pyarrow(tmp_path, condition, expected):
    table = pa.table({"s": ["a", "b", None] * 2, "n": range(6)})
    namespace = lance_df.PartitionedNamespace.create(tmp_path, table.schema, ["s"])
    namespace.append(table)
    assert table.filter(condition)["n"].to_pylist() == expected
    assert sorted(namespace.to_table(["n"], filter=condition)["n"].to_pylist()) == expected
    assert sum(batch.num_rows for batch in namespace.to_batches(filter=condition)) == len(expected)
    assert namespace.count_rows(condition) == len(expected)
