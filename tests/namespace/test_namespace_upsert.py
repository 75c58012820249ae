"""Rows are replaced by their keys and get other values, in whatever partition they are, or come to be."""

import threading
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import ColumnNotFoundError, ConflictError, InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.changes import keyed_rows

pytestmark = pytest.mark.engine

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("country", pa.string()),
        pa.field("x", pa.float64()),
        pa.field("tag", pa.dictionary(pa.int8(), pa.string())),
    ]
)


def rows(numbers, country=None, x=0.0):
    numbers = list(numbers)
    return pa.table(
        {
            "id": numbers,
            "country": [country or ["US", "DE", None][i % 3] for i in numbers],
            "x": [x] * len(numbers),
            "tag": pa.array([f"t{i % 2}" for i in numbers]).cast(SCHEMA.field("tag").type),
        },
        SCHEMA,
    )


def in_order(found):
    return sorted(found, key=str)


def stored(namespace):
    """The rows of the newest version, as pylance finds them in the members."""
    found = []
    for row in lance_df.PartitionedNamespace.open(namespace.uri).partitions().to_pylist():
        member = lance.dataset(Path(namespace.uri) / row["location"], version=row["read_version"])
        member.validate()
        found += member.to_table().to_pylist()
    return in_order(found)


def files(namespace):
    return sorted(path for path in Path(namespace.uri).rglob("*") if path.is_file())


@pytest.fixture
def namespace(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["country"])
    made.append(rows(range(12)))
    made.update_partition_spec(["bucket(id, 4)"])
    made.append(rows(range(12, 24)))
    return made


@pytest.fixture
def looked_into(monkeypatch):
    """How many members each search for keys looks into."""
    counts = []
    original = keyed_rows.KeyedRows.candidates

    def candidates(self, draft):
        found = original(self, draft)
        counts.append(len(found))
        return found

    monkeypatch.setattr(keyed_rows.KeyedRows, "candidates", candidates)
    return counts


def test_rows_are_replaced_wherever_they_are(namespace, looked_into):
    """Old rows lie in partitions by country, of the first spec, and in those by bucket."""
    new = pa.concat_tables([rows([3, 20], "FR", 1.0), rows([100, 101], "US", 1.0)])
    before, version = stored(namespace), namespace.version
    assert namespace.upsert(new) == {
        "num_inserted_rows": 2,
        "num_updated_rows": 2,
        "num_deleted_rows": 0,
    }
    expected = in_order([row for row in before if row["id"] not in (3, 20)] + new.to_pylist())
    assert stored(namespace) == expected == in_order(namespace.to_table().to_pylist())
    assert namespace.version == version + 1
    assert in_order(namespace.at(version).to_table().to_pylist()) == before
    assert namespace.to_table(["id"], filter="country = 'FR'")["id"].to_pylist() in ([3, 20], [20, 3])
    # all three by country, and of those by bucket what the keys have
    assert looked_into[0] < 3 + 4
    assert namespace.upsert(new) == {"num_inserted_rows": 0, "num_updated_rows": 4, "num_deleted_rows": 0}
    assert stored(namespace) == expected


def test_keys_are_the_primary_key_or_those_given(namespace):
    for row in namespace.partitions().to_pylist():
        key = lance.dataset(Path(namespace.uri) / row["location"]).lance_schema.fields()[0]
        assert key.is_unenforced_primary_key()
    result = namespace.upsert(rows([0, 3], "DE", 2.0), on=["country", "ID"])
    assert result == {"num_inserted_rows": 2, "num_updated_rows": 0, "num_deleted_rows": 0}
    result = namespace.upsert(rows([0, 3], "DE", 3.0), on="id")
    assert result == {"num_inserted_rows": 0, "num_updated_rows": 2, "num_deleted_rows": 2}
    assert namespace.count_rows("id IN (0, 3) AND x = 3") == namespace.count_rows("id IN (0, 3)") == 2
    namespace.alter_columns({"path": "id", "name": "key"})
    namespace.upsert(rows([0], "US", 4.0).rename_columns(["key", "country", "x", "tag"]))
    assert namespace.to_table(["country", "x"], filter="key = 0").to_pylist() == [{"country": "US", "x": 4.0}]
    with pytest.raises(InvalidInputError, match="primary key"):
        namespace.alter_columns({"path": "key", "nullable": True})
    namespace.drop_columns(["key"])
    with pytest.raises(InvalidInputError, match="key columns"):
        namespace.upsert(rows([1]).drop_columns(["id"]))


def test_members_that_cannot_have_a_key_are_not_opened(tmp_path, looked_into):
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())])
    made = lance_df.PartitionedNamespace.create(
        tmp_path / "n", schema, ["bucket(a, 3)", "multi_bucket(a, b, 2)", "c"]
    )
    numbers = range(60)
    made.append(
        pa.table({"a": numbers, "b": [str(i % 5) for i in numbers], "c": [i % 2 for i in numbers]}, schema)
    )
    partitions = len(made.partitions())
    assert partitions == 3 * 2 * 2
    for on, most in ((["a", "b"], 2), (["a"], 4), (["c"], 6), (["b"], 12), (["a", "b", "c"], 1)):
        made.upsert(pa.table({"a": [7], "b": ["2"], "c": [1]}, schema), on=on)
        assert looked_into[-1] <= most, on
    many = pa.table({"a": numbers, "b": ["2"] * 60, "c": [0] * 60}, schema)
    made.upsert(many, on="a")
    assert (looked_into[-1] >= partitions, stored(made)) == (True, in_order(many.to_pylist()))
    made.upsert(many.slice(0, 0), on="a")
    version = made.version
    made.upsert(pa.table({"a": [None, None], "b": ["n", "n"], "c": [1, 1]}, schema), on="a")
    assert looked_into[-2:] == [0, 0]
    assert (made.version, made.count_rows("a IS NULL")) == (version + 1, 2)


def test_floats_are_keys_by_what_is_equal(tmp_path):
    """A key finds its row though the expression of its partition tells zeros apart."""
    schema = pa.schema([("f", pa.float64()), ("n", pa.int64())])
    made = lance_df.PartitionedNamespace.create(
        tmp_path / "n",
        schema,
        [partition.expression("CAST(1.0 / col0 > 0 AS BOOLEAN)", ["f"]), "bucket(f, 3)"],
    )
    values = [0.0, -0.0, float("nan"), None, 1.5]
    made.append(pa.table({"f": values, "n": [0] * 5}, schema))
    payload = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    result = made.upsert(
        pa.table({"f": pa.array([-0.0, payload[0], None, 1.5]), "n": [1] * 4}, schema), on="f"
    )
    assert result == {"num_inserted_rows": 1, "num_updated_rows": 3, "num_deleted_rows": 1}
    assert sorted(made.to_table()["n"].to_pylist()) == [0, 1, 1, 1, 1]
    assert made.count_rows("n = 0 AND f IS NULL") == 1


def test_rows_of_one_key(namespace):
    twice = pa.concat_tables([rows([5, 6], "A"), rows([5, 200, 200], "B"), rows([5], "C")])
    version, before = namespace.version, files(namespace)
    with pytest.raises(InvalidInputError, match="id = 5"):
        namespace.upsert(twice)
    assert (namespace.version, files(namespace)) == (version, before)
    for choice, countries in (("first", ["A", "A", "B"]), ("last", ["C", "A", "B"])):
        namespace.upsert(twice, duplicates=choice)
        found = namespace.to_table(["id", "country"], filter="id IN (5, 6, 200)").to_pylist()
        assert [row["country"] for row in sorted(found, key=lambda row: row["id"])] == countries
    with pytest.raises(InvalidInputError, match="'last'"):
        namespace.upsert(twice, duplicates="all")


def test_what_does_not_fit_leaves_nothing(namespace):
    version, before = namespace.version, files(namespace)
    strange = pa.table(
        {"id": pa.array([None], pa.int64()), "country": ["US"], "x": [0.0], "tag": rows([0])["tag"]}
    )
    for data, on, error, words in (
        (rows([1]).drop_columns(["id"]), ["country"], InvalidInputError, "'id'"),
        (rows([1]).drop_columns(["country"]), ["id", "country"], InvalidInputError, "'country'"),
        (rows([1]).append_column("y", pa.array([1])), "id", InvalidInputError, "y"),
        (rows([1]), "nope", ColumnNotFoundError, "nope"),
        (rows([1]).set_column(0, "id", pa.array(["a"])), "id", InvalidInputError, "string"),
        (strange, "id", InvalidInputError, "null"),
    ):
        with pytest.raises(error, match=words):
            namespace.upsert(data, on)
    for updates, where, error, words in (
        ({"nope": "1"}, None, ColumnNotFoundError, "nope"),
        ({"x": "nope"}, "id < 0", ColumnNotFoundError, "nope"),
        ({"x": "1"}, "nope = 1", ColumnNotFoundError, "nope"),
        ({"x": "'a'"}, None, InvalidInputError, "Cannot cast"),
        ({"id": "NULL"}, "id = 1", InvalidInputError, "null"),
        ({}, None, InvalidInputError, "dict"),
        ({"x": 1}, None, InvalidInputError, "strings"),
        ({"x": "1"}, 5, InvalidInputError, "SQL"),
    ):
        with pytest.raises(error, match=words):
            namespace.update(updates, where)
    assert (namespace.version, files(namespace)) == (version, before)


@pytest.mark.parametrize("names", [["x", "id"], ["id", "country"], ["id"], ["tag", "id", "country"]])
def test_rows_that_lack_columns_change_what_they_bring(namespace, tmp_path, names):
    """As pylance merges them into one table; rows whose partition values change move."""
    table = lance.write_dataset(namespace.to_table(), tmp_path / "one.lance")
    new = pa.concat_tables([rows([3, 20], "FR", 1.0), rows([100, 101], None, 2.0)]).select(names)
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    version = namespace.version
    assert namespace.upsert(new) == merge.execute(new)
    assert namespace.version == version + 1
    assert stored(namespace) == in_order(lance.dataset(tmp_path / "one.lance").to_table().to_pylist())
    if "country" in names:
        assert set(namespace.to_table(["id"], filter="country = 'FR'")["id"].to_pylist()) == {3, 20}
    assert lance_df.verify(namespace.uri, deep=True).ok


def test_rows_that_lack_columns_of_structs_and_of_partitions(tmp_path):
    schema = pa.schema(
        [
            pa.field("k", pa.int64()),
            pa.field("s", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
            pa.field("day", pa.date32()),
        ]
    )
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", schema, ["month(day)", "identity(s.a)"])
    part = pa.schema([schema.field("k"), pa.field("s", pa.struct([pa.field("a", pa.int32())]))])
    # an empty namespace; a key that is null is new, and so is each of several
    first = [{"k": 1, "s": {"a": 7}}, {"k": None, "s": None}, {"k": None, "s": {"a": 7}}]
    counts = {"num_inserted_rows": 3, "num_updated_rows": 0, "num_deleted_rows": 0}
    assert made.upsert(pa.Table.from_pylist(first, part), on="k") == counts
    made.update({"s": "named_struct('a', 7, 'b', 'x')"}, where="k = 1")
    made.append(pa.Table.from_pylist([{"k": 1, "s": {"a": 8, "b": "y"}, "day": None}], schema))
    # both rows of the key keep what is not brought
    result = made.upsert(pa.Table.from_pylist([{"k": 1, "s": {"a": 9}}], part), on="k")
    assert result == {"num_inserted_rows": 0, "num_updated_rows": 2, "num_deleted_rows": 0}
    found = made.to_table(["s", "day"], filter="k = 1 AND s.a = 9").to_pylist()
    assert in_order(found) == [{"s": {"a": 9, "b": b}, "day": None} for b in "xy"]
    with made.transaction() as tx:
        tx.append(pa.Table.from_pylist([{"k": 2, "s": {"a": 1, "b": "z"}, "day": None}], schema))
        tx.upsert(pa.table({"k": pa.array([2], pa.int64()), "day": pa.array([40], pa.date32())}), on="k")
        tx.delete("day IS NULL")
    assert made.to_table().to_pylist() == [
        {"k": 2, "s": {"a": 1, "b": "z"}, "day": pa.scalar(40, pa.date32()).as_py()}
    ]
    assert lance_df.verify(made.uri, deep=True).ok


def test_rows_that_lack_columns_are_completed_again_after_others_published(namespace, monkeypatch):
    original, calls = keyed_rows.KeyedRows.candidates, []

    def candidates(self, draft):
        if not calls:
            calls.append(draft)
            with lance_df.PartitionedNamespace.open(namespace.uri).transaction(rebase=False) as tx:
                tx.upsert(rows([3, 200], "FR", 7.0))
        return original(self, draft)

    monkeypatch.setattr(keyed_rows.KeyedRows, "candidates", candidates)
    result = namespace.upsert(pa.table({"id": [3, 200], "x": [1.0, 2.0]}))
    assert result == {"num_inserted_rows": 0, "num_updated_rows": 2, "num_deleted_rows": 0}
    found = namespace.to_table(["id", "country", "x"], filter="id IN (3, 200)").to_pylist()
    assert in_order(found) == [{"id": 200, "country": "FR", "x": 2.0}, {"id": 3, "country": "FR", "x": 1.0}]


def test_nested_keys(tmp_path):
    schema = pa.schema(
        [
            ("s", pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))])),
            ("b", pa.int8()),
            ("m", pa.map_(pa.string(), pa.int8())),
        ]
    )
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", schema, ["b", "bucket(s.a, 3)"])
    keys = [{"a": 1, "b": ["x", None]}, {"a": None, "b": []}, None]
    made.append(pa.table({"s": keys, "b": [1, 2, 3], "m": [[("k", 1)]] * 3}, schema))
    new = pa.table({"s": keys, "b": [4, 4, 4], "m": [None] * 3}, schema)
    assert made.upsert(new, on="s") == {
        "num_inserted_rows": 1,
        "num_updated_rows": 2,
        "num_deleted_rows": 0,
    }
    assert sorted(made.to_table()["b"].to_pylist()) == [3, 4, 4, 4]
    with pytest.raises(UnsupportedFeatureError, match="not supported for keys"):
        made.upsert(new, on="m")
    with pytest.raises(InvalidInputError, match="as a whole"):
        made.update({"s.a": "1"})


def test_several_upserts_at_once_leave_one_row_of_each_key(namespace):
    failures = []

    def run(country):
        try:
            mine = lance_df.PartitionedNamespace.open(namespace.uri)
            mine.upsert(rows([1, 2, 13, 300, 301], country))
        except BaseException as err:  # noqa: BLE001 - looked at below
            failures.append(err)

    threads = [threading.Thread(target=run, args=(country,)) for country in ("A", "B", "C")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = stored(namespace)
    assert sorted(row["id"] for row in found) == [*range(24), 300, 301]
    assert len({row["country"] for row in found if row["id"] in (1, 2, 13, 300, 301)}) == 1


def test_changes_of_a_transaction_follow_each_other(namespace):
    other = lance_df.PartitionedNamespace.open(namespace.uri)
    with namespace.transaction() as tx:
        tx.append(rows([50, 51], "N"))
        tx.upsert(rows([50, 52], "N", 1.0))
        tx.update({"x": "x + 1", "country": "'M'"}, "id >= 50")
        tx.upsert(rows([51], "N", 9.0), on="id")
        tx.delete("id = 52")
        other.append(rows([60, 61], "N"))
        other.delete("id < 6")
    expected = [row for row in rows(range(24)).to_pylist() if row["id"] >= 6]
    expected += rows([50], "M", 2.0).to_pylist() + rows([51], "N", 9.0).to_pylist()
    expected += rows([60, 61], "M", 1.0).to_pylist()
    assert stored(namespace) == in_order(expected) == in_order(namespace.to_table().to_pylist())


def test_updated_rows_go_where_they_belong(namespace, tmp_path):
    table = lance_df.write_dataset(namespace.to_table(), tmp_path / "t.lance")
    for updates, where in (
        ({"country": "'DE'"}, "country = 'US' AND id < 20"),
        ({"id": "id + 1000", "tag": "concat(tag, '!')"}, "country = 'DE' OR x > 0"),
        ({"x": "id / 2"}, None),
        ({"country": "NULL", "x": "NULL"}, "id % 5 = 0"),
        ({"x": "0"}, "false"),
    ):
        version = namespace.version
        assert namespace.update(updates, where) == table.update(updates, where)
        assert stored(namespace) == in_order(table.to_table().to_pylist())
        assert namespace.version == version + (where != "false")
    for where in ("country = 'DE'", "id = 1009", "country IS NULL AND id < 1000"):
        found = in_order(namespace.to_table(filter=where).to_pylist())
        assert found == in_order(table.to_table(filter=where).to_pylist())
    assert namespace.specs[-1].id == 2
    moved = namespace.to_table(["id"], filter="id > 1000")["id"].to_pylist()
    assert len(moved) > 10
    assert all(namespace.count_rows(f"id = {number}") == 1 for number in moved[:3])


def test_an_update_is_made_again_on_what_others_publish(namespace):
    other = lance_df.PartitionedNamespace.open(namespace.uri)
    with namespace.transaction() as tx:
        tx.update({"x": "x + 1"}, "country = 'US'")
        other.append(rows([90], "US", 5.0))
        other.update({"country": "'US'"}, "id = 1")
    found = namespace.to_table(["id"], filter="x IN (1, 6)")["id"].to_pylist()
    assert sorted(found) == [0, 1, *range(3, 24, 3), 90]
    assert stored(namespace) == in_order(namespace.to_table().to_pylist())
    with pytest.raises(ConflictError), namespace.transaction(rebase=False) as stale:  # noqa: PT012
        stale.upsert(rows([1]))
        other.append(rows([91]))
    assert namespace.count_rows("id = 1 AND x = 1") == 1


KEYS = {
    "int8": pa.array([1, -1, 127, None], pa.int8()),
    "uint64": pa.array([0, 2**64 - 1, None], pa.uint64()),
    "text": pa.array(["", "ü", "a", None], pa.large_string()),
    "binary": pa.array([b"abc", b"\0\0\0", None], pa.binary(3)),
    "bool": pa.array([True, False, None]),
    "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
    "timestamp": pa.array([0, 1, -(2**62), None], pa.int64()).cast(pa.timestamp("ns")),
    "date": pa.array([0, -1, None], pa.int32()).cast(pa.date32()),
    "decimal": pa.array(["0.00", "-1.50", None]).cast(pa.decimal128(20, 2)),
    "float": pa.array([float("nan"), 0.5, None], pa.float32()),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(tmp_path, name):
    """As the table's own merge has it."""
    keys = KEYS[name]
    data = pa.table({"k": keys, "p": [i % 2 for i in range(len(keys))], "n": [0] * len(keys)})
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, ["p"])
    made.append(data)
    made.update_partition_spec(["bucket(k, 3)"])
    table = lance_df.write_dataset(data, tmp_path / "t.lance")
    again = pa.table({"k": keys.take([0, len(keys) - 1]), "p": [7, 7], "n": [1, 1]}, data.schema)
    expected = table.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(again)
    assert made.upsert(again, "k") == expected
    assert made.upsert(again, "k")["num_updated_rows"] == 1
    found = made.to_table(["k", "n"], filter="p < 7").to_pylist()
    assert str(in_order(found)) == str(in_order(table.to_table(["k", "n"], filter="p < 7").to_pylist()))
    assert sum(row["p"] == 7 for row in stored(made)) == 3
