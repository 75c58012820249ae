"""Columns of a namespace change in all members and in the schema at once; partition fields follow them."""

import datetime as dt
import threading
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import (
    ColumnNotFoundError,
    CommitStateUnknownError,
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_df.namespace import member
from lance_df.namespace.changes import schema_publish
from lance_df.namespace.manifest_table import NamespaceManifest

pytestmark = pytest.mark.engine


def rows(start=0, count=24):
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "country": pa.array([["US", "DE", None][i % 3] for i in numbers]),
            "at": pa.array([dt.date(2024, 1 + i % 12, 1) for i in numbers]),
            "place": pa.array(
                [{"lat": i, "lon": i / 2} for i in numbers],
                pa.struct([("lat", pa.int16()), ("lon", pa.float32())]),
            ),
        }
    )


def in_order(table, key="id"):
    return sorted(table.to_pylist(), key=lambda row: str(row[key]))


def stored(namespace):
    """The rows as pylance finds them in the members, which have the ids that the namespace says."""
    ids = {field.name: field.id for field in namespace._table.manifest.schema.columns.walk()}
    found = []
    for row in namespace.partitions().to_pylist():
        dataset = lance.dataset(Path(namespace.uri) / row["location"], version=row["read_version"])
        dataset.validate()
        fields = dataset.lance_schema.fields()
        assert {field.name(): field.id() for field in fields} == {
            name: ids[name] for name in dataset.schema.names
        }
        assert dataset.schema.names == namespace.schema.names
        found.append(dataset.to_table())
    return pa.concat_tables(found)


def kept(namespace, condition):
    return namespace.plan_scan(condition).report.partitions.kept


@pytest.fixture
def namespace(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", rows().schema, ["bucket(id, 2)", "month(at)"])
    made.append(rows(0, 3))
    made.update_partition_spec(["country", "truncate(id, 20)"])
    made.append(rows(3, 21))
    return made


def test_added_columns_are_those_of_a_table(namespace, tmp_path):
    table = lance_df.write_dataset(rows(), tmp_path / "t.lance")
    for new in (
        pa.field("empty", pa.int16()),
        [pa.field("ü 1", pa.string()), pa.field("tag", pa.dictionary(pa.int8(), pa.string()))],
        pa.schema([pa.field("place", pa.struct([pa.field("alt", pa.float64())]))]),
        {"twice": "id * 2", "text": "upper(country)", "one": "1"},
        lambda batch: pa.record_batch({"sum": pc.add(batch["id"], batch["twice"])}),
    ):
        table.add_columns(new)
        namespace.add_columns(new)
    function = lance_df.batch_udf(pa.schema([("less", pa.int32())]))(
        lambda batch: pa.record_batch({"less": pc.negate(batch["id"])})
    )
    for each in (table, namespace):
        each.add_columns(function, ["id"], batch_size=2)
    assert namespace.schema == table.schema
    assert in_order(stored(namespace)) == in_order(table.to_table()) == in_order(namespace.to_table())
    assert in_order(namespace.to_table(filter="twice = 20 OR text = 'DE'")) == in_order(
        table.to_table(filter="twice = 20 OR text = 'DE'")
    )
    tag = pa.array(["x"]).dictionary_encode().cast(namespace.schema.field("tag").type)
    namespace.append(pa.table({"id": pa.array([100], pa.int32()), "tag": tag, "one": [1]}))
    assert namespace.to_table(["tag", "sum"], filter="id = 100").to_pylist() == [{"tag": "x", "sum": None}]
    assert stored(namespace).num_rows == 25


def test_each_version_keeps_its_columns(namespace):
    before = in_order(namespace.to_table())
    first = namespace.version
    namespace.add_columns({"more": "id + 1"})
    namespace.rename_column("id", "key")
    namespace.drop_columns(["at", "place.lon"])
    namespace.alter_columns(
        {"path": "place.lat", "data_type": pa.int64()}, {"path": "country", "name": "land"}
    )
    assert namespace.version == first + 4
    assert not list((Path(namespace.uri) / "__manifest" / "_versions").glob("d*"))
    assert in_order(namespace.at(first).to_table()) == before
    assert namespace.at(first + 1).schema.names == ["id", "country", "at", "place", "more"]
    assert in_order(namespace.at(first + 1).to_table(["id", "more"])) == [
        {"id": row["id"], "more": row["id"] + 1} for row in before
    ]
    assert namespace.schema.field("place").type == pa.struct([("lat", pa.int64())])
    assert in_order(stored(namespace), "key") == [
        {
            "key": row["id"],
            "land": row["country"],
            "place": {"lat": row["place"]["lat"]},
            "more": row["id"] + 1,
        }
        for row in before
    ]
    assert in_order(namespace.to_table(), "key") == in_order(stored(namespace), "key")


def test_t37_renamed_columns_are_pruned_by_their_ids(namespace):
    """After the swap, each name prunes by what its column is now."""
    namespace.add_columns({"land": "concat(country, '!')"})
    namespace.alter_columns({"path": "country", "name": "land"}, {"path": "land", "name": "country"})
    assert namespace.to_table(["id"], filter="land = 'US' AND id < 7")["id"].to_pylist() == [0, 3, 6]
    assert namespace.to_table(["id"], filter="country = 'US'").num_rows == 0
    assert namespace.to_table(["id"], filter="country = 'US!' AND id < 7")["id"].to_pylist() == [0, 3, 6]
    assert kept(namespace, pc.field("land") == "US") < kept(namespace, pc.field("country") == "US")
    namespace.append(pa.table({"id": pa.array([50], pa.int32()), "land": ["FR"], "country": ["US"]}))
    ctx = lance_df.SessionContext()
    lance_df.register(ctx, "t", namespace.uri)
    for name, value, expected in (("land", "FR", [50]), ("country", "US", [50]), ("country", "FR", [])):
        found = ctx.sql(f"SELECT id FROM t WHERE {name} = '{value}'").to_pydict()["id"]
        assert found == namespace.to_table(["id"], filter=f"{name} = '{value}'")["id"].to_pylist() == expected
    assert "FR" in namespace.partitions()["country"].to_pylist()
    assert stored(namespace).num_rows == 25


def test_t38_a_column_of_an_old_name_is_another_one(namespace):
    """What partitions say of a dropped column says nothing of the one that has its name now."""
    namespace.drop_columns(["country"])
    namespace.append(pa.table({"id": pa.array([60, 61], pa.int32())}))
    assert namespace.partitions().filter(pc.field("id_truncate") == 60)["country"].to_pylist() == [None]
    namespace.add_columns(pa.field("country", pa.int64()))
    assert namespace.count_rows("country IS NULL") == 26
    assert namespace.count_rows("country = 5") == 0
    namespace.append(pa.table({"id": pa.array([62], pa.int32()), "country": [5]}))
    assert namespace.to_table(["id"], filter="country = 5")["id"].to_pylist() == [62]
    assert namespace.count_rows("country IS NULL") == 26
    namespace.delete("country = 5")
    namespace.drop_columns(["country"])
    namespace.add_columns({"country": "CASE WHEN id < 2 THEN 'US' END"})
    assert in_order(namespace.to_table(["id"], filter="country = 'US'")) == [{"id": 0}, {"id": 1}]
    assert namespace._table.manifest.schema.find("country").id == 7
    assert stored(namespace).num_rows == 26
    namespace.update_partition_spec(["country"])
    assert [field.field_id for field in namespace.specs[-1].fields] == ["country_2"]
    namespace.append(pa.table({"id": pa.array([70], pa.int32()), "country": ["US"]}))
    assert in_order(namespace.to_table(["id"], filter="country = 'US'")) == [{"id": 0}, {"id": 1}, {"id": 70}]


def test_t39_partition_values_widen_with_their_column(namespace):
    namespace.alter_columns({"path": "id", "data_type": pa.int64()})
    assert namespace.specs[-1].fields[1].result_type == pa.int64()
    assert namespace.partitions().schema.field("id_truncate").type == pa.int64()
    assert namespace.count_rows(f"id = {2**33}") == 0
    namespace.append(pa.table({"id": [2**33, -(2**33)]}))
    assert namespace.to_table(["id"], filter=f"id > {2**32}")["id"].to_pylist() == [2**33]
    assert kept(namespace, pc.field("id") == 2**33) < len(namespace.partitions())
    for number in (0, 5, 13, 23):
        assert namespace.to_table(["id"], filter=f"id = {number}")["id"].to_pylist() == [number]
    fresh = lance_df.PartitionedNamespace.open(namespace.uri)
    assert sorted(stored(fresh)["id"].to_pylist()) == [-(2**33), *range(24), 2**33]
    # rows that are equal belong to the partitions that there are
    before = len(fresh.partitions())
    fresh.append(rows(12, 12).cast(fresh.schema))
    assert len(fresh.partitions()) == before


def test_t40_nested_sources_and_strange_names_are_found_by_id(tmp_path):
    data = pa.table(
        {
            "S": pa.array(
                [{"a b": i % 3, "x": i} for i in range(9)], pa.struct([("a b", pa.int8()), ("x", pa.int8())])
            ),
            "$=/": [f"k{i % 2}" for i in range(9)],
            "partition_field_k": pa.array(range(9), pa.int64()),
        }
    )
    made = lance_df.PartitionedNamespace.create(
        tmp_path / "n",
        data.schema,
        [partition.identity("S.a b", field_id="k"), partition.identity("$=/", field_id="x y ü")],
    )
    made.append(data)
    made.alter_columns(
        {"path": "S.a b", "name": "c", "data_type": pa.int32()},
        {"path": "$=/", "name": "Δ", "data_type": pa.large_string()},
    )
    assert made.partitions().schema.field("x y ü").type == pa.large_string()
    assert sorted(row["S"]["x"] for row in made.to_table(filter="S.c = 2 AND Δ = 'k0'").to_pylist()) == [2, 8]
    assert kept(made, (pc.field("S", "c") == 2) & (pc.field("Δ") == "k0")) == 1
    made.append(
        pa.table(
            {
                "S": pa.array([{"c": 1000, "x": 1}], made.schema.field("S").type),
                "Δ": pa.array(["k0"], pa.large_string()),
            }
        )
    )
    assert made.count_rows("S.c = 1000") == 1
    made.drop_columns(["S.c"])
    assert (made.count_rows("S.x = 1"), stored(made).num_rows) == (2, 10)
    made.append(
        pa.table(
            {"S": pa.array([{"x": 1}], made.schema.field("S").type), "Δ": pa.array(["k0"], pa.large_string())}
        )
    )
    assert made.partitions().filter(pc.is_null(pc.field("k"))).num_rows == 1
    with pytest.raises(InvalidInputError, match="cannot drop all columns"):
        made.drop_columns(made.schema.names)


WIDENINGS = [
    (pa.int8(), pa.int64(), [-128, 0, None, 127]),
    (pa.uint32(), pa.int64(), [0, 2**32 - 1, None]),
    (pa.uint8(), pa.uint16(), [0, 255]),
    (pa.float32(), pa.float64(), [0.1, -0.0, 0.0, float("nan"), None, float("inf")]),
    (pa.float16(), pa.float32(), [0.5, None]),
    (pa.decimal128(5, 2), pa.decimal128(20, 2), [Decimal("1.10"), None, Decimal("-999.99")]),
    (pa.decimal128(38, 3), pa.decimal256(50, 3), [Decimal("7.000"), None]),
    (pa.string(), pa.large_string(), ["", "ü", None]),
    (pa.binary(), pa.large_binary(), [b"", b"\xff", None]),
    (pa.date32(), pa.date64(), [dt.date(1969, 12, 31), None, dt.date(2024, 2, 29)]),
    (pa.timestamp("s"), pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59), None]),
    (pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]),
    (pa.duration("s"), pa.duration("ms"), [dt.timedelta(days=-1), None]),
    (pa.time32("s"), pa.time32("ms"), [dt.time(23, 59, 59), None]),
]


@pytest.mark.parametrize("part", range(3))
def test_equal_values_keep_their_partitions_in_wider_types(tmp_path, part):
    """Appending the rows again makes no partition: neither by value nor by hash."""
    chosen = {f"c{number}": each for number, each in enumerate(WIDENINGS) if number % 3 == part}
    arrays = {
        name: pa.array([values[i % len(values)] for i in range(4)], old)
        for name, (old, _, values) in chosen.items()
    }
    data = pa.table({"n": pa.array(range(4), pa.int8()), **arrays})
    by = [*arrays, *(f"bucket({name}, 5)" for name in arrays)]
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, by)
    made.append(data)
    partitions = len(made.partitions())
    made.alter_columns(*({"path": name, "data_type": new} for name, (_, new, _) in chosen.items()))
    assert [field.type for field in made.schema][1:] == [new for _, new, _ in chosen.values()]
    wide = data.cast(made.schema)
    made.append(wide)
    assert len(made.partitions()) == partitions
    assert str(in_order(stored(made), "n")) == str(in_order(pa.concat_tables([wide, wide]), "n"))
    for name, values in zip(arrays, wide.columns[1:], strict=True):
        assert (kept(made, pc.field(name).is_null()) > 0) == (values.null_count > 0), name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int64(), pa.int32()),
        (pa.int32(), pa.float64()),
        (pa.int64(), pa.uint64()),
        (pa.uint64(), pa.int64()),
        (pa.decimal128(10, 2), pa.decimal128(12, 3)),
        (pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.timestamp("s")),
        (pa.string(), pa.binary()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    ],
)
def test_other_types_are_refused(tmp_path, old, new):
    made = lance_df.PartitionedNamespace.create(
        tmp_path / "n", pa.schema([("a", old), ("b", pa.int8())]), ["b"]
    )
    with pytest.raises(UnsupportedFeatureError, match="widened"):
        made.alter_columns({"path": "a", "data_type": new})
    assert made.version == 1


def test_an_expression_must_give_the_same_for_stored_rows(tmp_path):
    """0.7 as a float32 is less than 0.7: ten times that is 7 there, and 6 as a double."""
    schema = pa.schema([("x", pa.float32())])
    made = lance_df.PartitionedNamespace.create(
        tmp_path / "n", schema, [partition.expression("CAST(col0 * 10 AS BIGINT)", ["x"])]
    )
    made.append(pa.table({"x": pa.array([0.5, None], pa.float32())}))
    before = made.version
    made.alter_columns({"path": "x", "data_type": pa.float64()})
    assert (made.version, made.schema.field("x").type) == (before + 1, pa.float64())
    other = lance_df.PartitionedNamespace.create(
        tmp_path / "o", schema, [partition.expression("CAST(col0 * 10 AS BIGINT)", ["x"])]
    )
    other.append(pa.table({"x": pa.array([0.7], pa.float32())}))
    with pytest.raises(InvalidInputError, match="different values"):
        other.alter_columns({"path": "x", "data_type": pa.float64()})
    assert other.schema == schema


def test_what_may_be_null_changes_in_all_members(namespace):
    with pytest.raises(InvalidInputError, match="contains nulls"):
        namespace.alter_columns({"path": "country", "nullable": False})
    namespace.alter_columns({"path": "id", "nullable": False})
    with pytest.raises(InvalidInputError, match="is not nullable"):
        namespace.append(pa.table({"country": ["US"]}))
    namespace.alter_columns({"path": "id", "nullable": True})
    namespace.append(pa.table({"country": ["US"]}))
    assert namespace.count_rows("id IS NULL") == 1
    assert stored(namespace).num_rows == 25


def test_wrong_changes_leave_nothing(namespace, tmp_path):
    version, files = namespace.version, sorted(Path(namespace.uri).rglob("*"))
    checkpoint = lance_df.batch_udf(checkpoint_file=tmp_path / "cache")(lambda batch: batch)
    for change, error, words in (
        (lambda: namespace.add_columns(pa.field("id", pa.int8())), InvalidInputError, "already"),
        (
            lambda: namespace.add_columns(pa.field("a", pa.int8(), nullable=False)),
            InvalidInputError,
            "must be nullable",
        ),
        (lambda: namespace.add_columns({"id": "1"}), InvalidInputError, "already"),
        (lambda: namespace.add_columns({"a": "nope + 1"}), ColumnNotFoundError, "nope"),
        (lambda: namespace.add_columns({"a": "sum(id)"}), InvalidInputError, "aggregates"),
        (lambda: namespace.add_columns({"_rowid": "1"}), InvalidInputError, "reserved"),
        (lambda: namespace.add_columns({"a": 1}), InvalidInputError, "SQL"),
        (lambda: namespace.add_columns({}), UnsupportedFeatureError, "function"),
        (lambda: namespace.add_columns(rows()), UnsupportedFeatureError, "order"),
        (lambda: namespace.add_columns(checkpoint), UnsupportedFeatureError, "checkpoint_file"),
        (lambda: namespace.add_columns(lambda batch: batch.slice(1)), InvalidInputError, "already"),
        (lambda: namespace.drop_columns(["nope"]), ColumnNotFoundError, "nope"),
        (lambda: namespace.drop_columns("id"), InvalidInputError, "list"),
        (lambda: namespace.drop_columns(namespace.schema.names), InvalidInputError, "all columns"),
        (lambda: namespace.rename_column("nope", "a"), ColumnNotFoundError, "nope"),
        (lambda: namespace.rename_column("id", "country"), InvalidInputError, "duplicate column name"),
        (lambda: namespace.rename_column("id", ""), InvalidInputError, "invalid column name"),
        (lambda: namespace.alter_columns(), InvalidInputError, "at least one alteration"),
        (lambda: namespace.alter_columns({"path": "id"}), InvalidInputError, "At least one of name"),
        (lambda: namespace.alter_columns("id"), InvalidInputError, "dict"),
    ):
        with pytest.raises(error, match=words):
            change()
    for nothing in (lambda: namespace.drop_columns([]), lambda: namespace.rename_column("id", "id")):
        nothing()
    assert namespace.version == version == lance_df.PartitionedNamespace.open(namespace.uri).version
    assert sorted(Path(namespace.uri).rglob("*")) == files


def test_an_empty_namespace_changes_too(tmp_path):
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", pa.schema([("a", pa.int32())]), ["a"])
    made.add_columns({"b": "a + 1"})
    made.add_columns(pa.field("c", pa.string()))
    made.alter_columns({"path": "a", "name": "A", "data_type": pa.int64()})
    made.drop_columns(["b"])
    with pytest.raises(InvalidInputError, match="output_schema"):
        made.add_columns(lambda batch: batch)
    made.add_columns(lance_df.batch_udf(pa.schema([("d", pa.int8())]))(lambda batch: batch))
    assert made.schema == pa.schema([("A", pa.int64()), ("c", pa.string()), ("d", pa.int8())])
    made.append(pa.table({"A": [2**40], "c": ["x"]}))
    assert made.to_table(filter=f"`A` = {2**40}").to_pylist() == stored(made).to_pylist()


CHANGES = {
    "add": lambda namespace: namespace.add_columns({"more": "id + 1"}),
    "alter": lambda namespace: namespace.alter_columns(
        {"path": "id", "name": "key", "data_type": pa.int64()}
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_dying_at_any_commit_shows_all_or_nothing(tmp_path, monkeypatch, name):
    """Before and after each commit of a change: readers have the old columns until they have the new ones."""
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows().schema, ["truncate(id, 2)"])
    namespace.append(rows(0, 4))
    before = in_order(namespace.to_table())
    original = schema_publish.commit_change
    seen = []

    def dying(*args, **options):
        seen.append("before")
        if len(seen) > step:
            raise KeyboardInterrupt
        table = original(*args, **options)
        seen.append("after")
        if len(seen) > step:
            raise KeyboardInterrupt
        return table

    step = -1
    while step < 100:
        step += 1
        seen.clear()
        with monkeypatch.context() as patched:
            for module in (schema_publish, member):
                patched.setattr(module, "commit_change", dying)
            with suppress(KeyboardInterrupt):
                CHANGES[name](lance_df.PartitionedNamespace.open(namespace.uri))
        now = lance_df.PartitionedNamespace.open(namespace.uri)
        if now.version > namespace.version:
            break
        assert in_order(now.to_table()) == before
        assert now.schema == namespace.schema
    assert step > 2 * 2
    assert now.schema != namespace.schema
    assert in_order(namespace.to_table()) == before
    key = now.schema.names[0]
    now.append(pa.table({key: pa.array([100], now.schema.field(0).type)}))
    assert sorted(stored(now)[key].to_pylist()) == [0, 1, 2, 3, 100]


def test_rows_that_were_made_for_other_columns_are_refused(namespace):
    other = lance_df.PartitionedNamespace.open(namespace.uri)
    with pytest.raises(ConflictError, match="schema was changed"), other.transaction() as tx:  # noqa: PT012
        tx.append(rows(100, 5))
        namespace.drop_columns(["at"])
    assert (namespace.count_rows(), stored(namespace).num_rows) == (24, 24)
    other.append(rows(100, 5).drop_columns(["at"]))
    assert other.count_rows() == 29


def test_a_change_follows_what_others_publish_meanwhile(namespace, monkeypatch):
    """Rows that appear while columns are computed have them too, in new partitions as well."""
    original, others = (
        schema_publish._published,
        [
            lambda mine: mine.append(rows(200, 3)),
            lambda mine: mine.delete("id < 3"),
            lambda mine: mine.update_partition_spec(["at"]),
            lambda mine: mine.append(rows(300, 2)),
        ],
    )

    def late(*args):
        if others:
            others.pop(0)(lance_df.PartitionedNamespace.open(namespace.uri))
        return original(*args)

    monkeypatch.setattr(schema_publish, "_published", late)
    namespace.add_columns({"more": "id + 1"})
    found = in_order(stored(namespace))
    assert [row["more"] for row in found] == [row["id"] + 1 for row in found]
    assert len(found) == 24 + 3 - 3 + 2
    assert in_order(namespace.to_table()) == found


def test_two_changes_of_columns_follow_each_other(namespace):
    """Field ids are given once; a column that somebody else has added is there already."""
    failures = []

    def run(work):
        try:
            work(lance_df.PartitionedNamespace.open(namespace.uri))
        except Exception as err:  # noqa: BLE001 - looked at below
            failures.append(err)

    jobs = [
        lambda mine: mine.add_columns({"a": "id + 1"}),
        lambda mine: mine.add_columns(pa.field("b", pa.int8())),
        lambda mine: mine.add_columns({"c": "id - 1"}),
        lambda mine: mine.add_columns({"c": "id - 1"}),
        lambda mine: mine.rename_column("at", "on"),
    ]
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(error).endswith("column 'c' already exists") for error in failures] == [True]
    namespace.checkout_latest()
    assert sorted(namespace.schema.names) == ["a", "b", "c", "country", "id", "on", "place"]
    ids = [field.id for field in namespace._table.manifest.schema.columns.walk()]
    assert sorted(ids) == list(range(9))
    assert [(row["a"] - 1, row["c"] + 1) for row in stored(namespace).to_pylist()] == [
        (row["id"], row["id"]) for row in stored(namespace).to_pylist()
    ]


def read_at_newest(namespace, row):
    """Publish what another program did to a member."""
    table = lance_df.dataset(Path(namespace.uri) / row["location"])
    manifest = namespace._table.latest().manifest
    manifest.changed(manifest.table.arrow_schema.empty_table(), {row["object_id"]: table.version})
    namespace.checkout_latest()


def test_a_member_that_others_have_changed_is_read_by_field_ids(namespace):
    """What it lacks is NULL, names are those of the namespace; columns are not changed on top of that."""
    of_member = (pc.field("country") == "US") & (pc.field("id_truncate") == 0)
    (row,) = namespace.partitions().filter(of_member).to_pylist()
    before = in_order(namespace.to_table())
    table = lance_df.dataset(Path(namespace.uri) / row["location"])
    table.alter_columns({"path": "at", "name": "country"}, {"path": "country", "name": "at"})
    table.add_columns(pa.field("stray", pa.int8()))
    read_at_newest(namespace, row)
    assert in_order(namespace.to_table()) == before
    for change in (lambda: namespace.add_columns(pa.field("more", pa.int8())), namespace.compact):
        with pytest.raises(CorruptDataError, match="publish_newer=True"):
            change()
    table = lance_df.dataset(table.uri)
    table.drop_columns(["place"])
    table = lance_df.write_dataset(rows(18, 2).select(["id"]), table, mode="append")
    read_at_newest(namespace, row)
    without_place = [
        each | {"place": None} for each in before if each["country"] == "US" and 3 <= each["id"] < 20
    ]
    without_place += [{"id": i, "country": None, "at": None, "place": None} for i in (18, 19)]
    assert in_order(namespace.to_table(filter="place IS NULL")) == in_order(
        pa.Table.from_pylist(without_place)
    )
    assert namespace.delete("place IS NULL AND id = 19") == {"num_deleted_rows": 1}
    namespace.update({"country": "'DE'"}, "place IS NULL")
    moved = namespace.to_table(["id"], filter="country = 'DE' AND place IS NULL")["id"].to_pylist()
    assert sorted(moved) == [3, 6, 9, 12, 15, 18, 18]
    table = lance_df.dataset(table.uri)
    table.alter_columns({"path": "id", "data_type": pa.int64()})
    read_at_newest(namespace, row)
    with pytest.raises(CorruptDataError, match="field 0"):
        namespace.to_table()


def test_a_lost_reply_is_told(namespace, monkeypatch):
    def lost(self, *args, **options):
        raise CommitStateUnknownError("the store did not answer")

    monkeypatch.setattr(NamespaceManifest, "changed", lost)
    with pytest.raises(CommitStateUnknownError):
        namespace.drop_columns(["at"])
    assert "at" in lance_df.PartitionedNamespace.open(namespace.uri).schema.names
