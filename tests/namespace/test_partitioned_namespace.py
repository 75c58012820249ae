"""Partitioned namespaces from end to end: rows in, SQL out, with pylance looking on."""

import datetime as dt
import json
import threading

import datafusion
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.namespace import DirectoryNamespace
from lance_namespace import CreateNamespaceRequest, ListNamespacesRequest, ListTablesRequest

import lance_df
from lance_df import partition
from lance_df.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    VersionNotFoundError,
)

pytestmark = pytest.mark.engine

NUM_ROWS = 600
MODES = ("create", "append", "overwrite")


def events(start=0, count=NUM_ROWS):
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "ts": [dt.datetime(2022 + i % 3, 1 + i % 12, 1 + i % 28) for i in numbers],
            "country": [["US", "DE", None, "héllo"][i % 4] for i in numbers],
        }
    )


def memory(rows):
    context = datafusion.SessionContext()
    context.from_arrow(rows, name="events")
    return context


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warehouse")
    namespace = lance_df.PartitionedNamespace.create(
        folder / "events", events().schema, [partition.year("ts"), partition.identity("country")]
    )
    namespace.append(events())
    return folder


def test_members_are_ordinary_tables(root):
    rows = []
    for row in lance_df.PartitionedNamespace.open(root / "events").partitions().to_pylist():
        assert row["object_id"].startswith("v1$")
        assert row["location"].endswith("_" + row["object_id"])
        table = lance.dataset(root / "events" / row["location"], version=row["read_version"])
        table.validate()
        found = table.to_table()
        assert {at.year for at in found["ts"].to_pylist()} == {row["ts_year"]}
        assert set(found["country"].to_pylist()) == {row["country"]}
        rows.append(found)
    assert pa.concat_tables(rows).sort_by("id").equals(events())


def test_the_manifest_is_that_of_the_specification(root):
    table = lance.dataset(root / "events" / "__manifest")
    assert json.loads(table.metadata["partition_spec_v1"])["fields"][1]["field_id"] == "country"
    assert [field["metadata"] for field in json.loads(table.metadata["schema"])["fields"]] == [
        {"lance:field_id": str(number)} for number in range(3)
    ]
    rows = table.to_table().to_pylist()
    assert table.schema.names[-2:] == ["partition_field_ts_year", "partition_field_country"]
    by_type = {kind: [row for row in rows if row["object_type"] == kind] for kind in ("namespace", "table")}
    assert len(by_type["table"]) == 12
    assert sorted(row["object_id"].count("$") for row in by_type["namespace"]) == [0] + [1] * 3 + [2] * 12
    for row in by_type["table"]:
        (parent,) = [each for each in rows if each["object_id"] == row["object_id"].rpartition("$")[0]]
        assert parent["partition_field_country"] == row["partition_field_country"]
        assert all(len(part) == 16 and part.isalnum() for part in row["object_id"].split("$")[1:-1])


def test_pylance_lists_it(root):
    directory = DirectoryNamespace(root=str(root / "events"))
    assert directory.list_namespaces(ListNamespacesRequest(id=[])).namespaces == ["v1"]
    years = directory.list_namespaces(ListNamespacesRequest(id=["v1"])).namespaces
    assert len(years) == 3
    (country, *_) = directory.list_namespaces(ListNamespacesRequest(id=["v1", years[0]])).namespaces
    assert directory.list_tables(ListTablesRequest(id=["v1", years[0], country])).tables == ["dataset"]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("country = 'US' AND ts >= '2023-01-01' AND ts < '2024-01-01'", 1),
        ("country IS NULL", 3),
        ("country <> 'US'", 6),
        ("country IN ('US', 'DE') OR ts < '2023-01-01'", 8),
        ("id = 77", 12),
        ("country LIKE 'h%'", 3),
        ("date_part('year', ts) = 2024", 4),
        ("country = 'nowhere'", 0),
        ("NOT (country = 'US') AND id < 100", 6),
    ],
)
def test_queries_read_the_partitions_that_they_need(root, condition, kept):
    query = f"SELECT * FROM events WHERE {condition} ORDER BY id"
    context = lance_df.connect(root)
    expected = memory(events()).sql(query).to_arrow_table()
    assert context.sql(query).to_arrow_table().to_pylist() == expected.to_pylist()
    report = context.explain_scan(query)
    assert (report.partitions.kept, report.partitions.total) == (kept, 12)
    assert f"partitions {kept} of 12" in str(report)
    plain = datafusion.SessionContext()
    lance_df.register(plain, "events", root / "events")
    assert plain.sql(query).to_arrow_table().to_pylist() == expected.to_pylist()


def test_python_reads_too(root):
    namespace = lance_df.PartitionedNamespace.open(root / "events")
    assert namespace.count_rows() == NUM_ROWS
    assert namespace.count_rows("id < 10") == 10
    assert namespace.to_table(["id"], "id >= 595").sort_by("id")["id"].to_pylist() == [
        595,
        596,
        597,
        598,
        599,
    ]
    assert namespace.to_table({"double": "id * 2"}, "id = 4").to_pylist() == [{"double": 8}]
    assert sum(batch.num_rows for batch in namespace.to_batches()) == NUM_ROWS
    plan = namespace.plan_scan(pa.compute.field("country") == "US")
    assert plan.report.partitions.kept == 3
    with pytest.raises(ColumnNotFoundError):
        namespace.to_table(["nope"])
    with pytest.raises(InvalidInputError):
        namespace.to_table(filter=5)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("country = 'US'", 3),
        ("\"country\" = 'US'", 3),
        ("country = 'US' AND id >= 0", 3),
        ("upper(country) = 'US'", 3),
        ("1 = 0", 0),
        ("country = 'US' AND country = 'XX'", 0),
        ("country = 'US' AND false", 0),
        (pc.field("country") == "US", 3),
        (pc.scalar(False), 0),
        (None, None),
        ("true", None),
    ],
    ids=str,
)
def test_the_plan_of_a_scan_takes_what_reads_take(root, condition, kept):
    namespace = lance_df.PartitionedNamespace.open(root / "events")
    report = namespace.plan_scan(condition).report
    everything = namespace.partitions().num_rows
    assert report.partitions.total == everything
    assert report.partitions.kept == (everything if kept is None else kept)
    tasks = namespace.plan_scan(condition).tasks
    assert sum(task.num_rows for task in tasks) >= namespace.count_rows(condition)


@pytest.mark.parametrize(
    "wrong", [5, True, b"id = 1", ["id = 1"], pc.field], ids=lambda wrong: type(wrong).__name__
)
def test_other_things_are_no_filter(root, wrong):
    namespace = lance_df.PartitionedNamespace.open(root / "events")
    table = lance_df.dataset(root / "events" / namespace.partitions()["location"][0].as_py())
    calls = (namespace.plan_scan, namespace.count_rows, table.count_rows)
    for call in (
        *calls,
        lambda given: namespace.to_table(filter=given),
        lambda given: table.scanner(filter=given),
    ):
        with pytest.raises(InvalidInputError, match="filter must be SQL text or a pyarrow expression, got"):
            call(wrong)


def test_filters_that_mean_nothing(root):
    namespace = lance_df.PartitionedNamespace.open(root / "events")
    with pytest.raises(ColumnNotFoundError):
        namespace.plan_scan("nope = 1")
    for wrong in ("id =", "", "id = 1; select 1"):
        with pytest.raises(InvalidInputError):
            namespace.plan_scan(wrong)


def test_groups_and_joins(root):
    query = """SELECT e.country, count(*) AS n, max(o.ts) AS latest
        FROM events e JOIN events o ON e.id = o.id + 1
        WHERE e.country IS NOT NULL GROUP BY 1 ORDER BY 1"""
    assert lance_df.connect(root).sql(query).to_pylist() == memory(events()).sql(query).to_pylist()


@pytest.fixture
def small(tmp_path):
    return lance_df.PartitionedNamespace.create(tmp_path / "n", events().schema, ["country", "bucket(id, 2)"])


def test_versions_are_of_the_whole_namespace(small):
    small.append(events(0, 40))
    small.append(events(40, 40))
    assert small.version == 3
    assert [small.at(version).count_rows() for version in (1, 2, 3)] == [0, 40, 80]
    with pytest.raises(VersionNotFoundError):
        small.at(9)
    with pytest.raises(InvalidInputError):
        small.at("golden")
    old = lance_df.PartitionedNamespace.open(small.uri, 2)
    context = lance_df.connect()
    lance_df.register(context, "old", old)
    lance_df.register(context, "new", small)
    small.append(events(80, 20))
    assert context.sql("SELECT count(*) AS n FROM old").to_pydict() == {"n": [40]}
    assert context.sql("SELECT count(*) AS n FROM new").to_pydict() == {"n": [100]}


def test_what_was_not_published_does_not_show(small):
    small.append(events(0, 40))
    row = small.partitions().to_pylist()[0]
    member = f"{small.uri}/{row['location']}"
    lance.write_dataset(events(1000, 4), member, mode="append")
    assert small.count_rows() == 40
    small.append(events(40, 40))
    again = lance_df.PartitionedNamespace.open(small.uri)
    assert sorted(again.to_table(["id"])["id"].to_pylist()) == list(range(80))
    lance.dataset(member).validate()


def test_writers_at_once_lose_nothing_and_make_no_partition_twice(small):
    failures = []

    def write(number):
        try:
            mine = lance_df.PartitionedNamespace.open(small.uri)
            for step in range(2):
                mine.append(events(1000 * number + 10 * step, 10))
        except BaseException as err:  # noqa: BLE001 - reported by the test
            failures.append(err)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    small.checkout_latest()
    ids = small.to_table(["id"])["id"].to_pylist()
    assert sorted(ids) == sorted(1000 * n + i for n in range(4) for i in range(20))
    values = [(row["country"], row["id_bucket"]) for row in small.partitions().to_pylist()]
    assert len(set(values)) == len(values) == 8
    names = lance.dataset(f"{small.uri}/__manifest").to_table()["object_id"].to_pylist()
    assert len(set(names)) == len(names) == 1 + 4 + 8 + 8


def test_missing_columns_are_null_and_wrong_rows_leave_nothing(small):
    small.append(events(0, 4).select(["id", "country"]))
    assert small.to_table(["ts"])["ts"].null_count == 4
    for wrong in (events().append_column("x", pa.array([1] * NUM_ROWS)), pa.table({"id": ["a"]})):
        with pytest.raises(InvalidInputError):
            small.append(wrong)

    def broken():
        yield events(0, 8).to_batches()[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        small.append(pa.RecordBatchReader.from_batches(events().schema, broken()))
    assert small.count_rows() == 4
    assert small.version == 2


def test_nothing_to_append_is_no_version(small):
    small.append(events().slice(0, 0))
    assert (small.version, small.count_rows(), len(small.partitions())) == (1, 0, 0)
    assert small.to_table().schema == small.schema


def test_namespaces_that_are_none(tmp_path, small):
    with pytest.raises(NotFoundError, match="__manifest"):
        lance_df.PartitionedNamespace.open(tmp_path / "nowhere")
    with pytest.raises(AlreadyExistsError):
        lance_df.PartitionedNamespace.create(small.uri, events().schema, ["country"])
    DirectoryNamespace(root=str(tmp_path / "plain")).create_namespace(CreateNamespaceRequest(id=["a"]))
    with pytest.raises(NotFoundError, match="without partition specs"):
        lance_df.PartitionedNamespace.open(tmp_path / "plain")


@pytest.mark.parametrize("kind", ["partitioned", "ours", "pylance"])
def test_the_root_of_a_namespace_takes_no_table(tmp_path, kind):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere.lance"
    if kind == "partitioned":
        lance_df.PartitionedNamespace.create(root, events().schema, ["country"])
    else:
        directory = lance_df.DirectoryNamespace if kind == "ours" else DirectoryNamespace
        directory(root=str(root)).create_namespace(CreateNamespaceRequest(id=["a"]))
    before = sorted(path for path in root.rglob("*"))
    source = lance_df.write_dataset(events(), elsewhere)
    fragments = lance_df.fragment.write_fragments(events(), elsewhere)
    overwrite = lance_df.LanceOperation.Overwrite(events().schema, fragments)
    refused = [
        *(lambda mode=mode: lance_df.write_dataset(events(), root, mode=mode) for mode in MODES),
        *(lambda mode=mode: lance_df.fragment.write_fragments(events(), root, mode=mode) for mode in MODES),
        lambda: lance_df.LanceDataset.commit(root, overwrite),
        lambda: source.shallow_clone(root),
        lambda: source.deep_clone(root),
    ]
    for write in refused:
        with pytest.raises(AlreadyExistsError, match=r"PartitionedNamespace\.open.*create_table"):
            write()
    assert sorted(path for path in root.rglob("*")) == before
    # a folder below is another place
    assert lance_df.write_dataset(events(), root / "mine.lance").count_rows() == NUM_ROWS


def test_a_table_that_pylance_made_in_the_root_of_a_namespace_stays_a_table(small):
    lance.write_dataset(events(0, 2), small.uri)
    assert lance_df.write_dataset(events(2, 2), small.uri, mode="append").count_rows() == 4
    small.append(events(0, 5))
    assert small.count_rows() == 5


@pytest.mark.parametrize("kind", [lance_df.DirectoryNamespace, DirectoryNamespace], ids=["ours", "pylance"])
def test_a_directory_of_tables_does_not_become_a_partitioned_namespace(tmp_path, kind):
    kind(root=str(tmp_path)).create_namespace(CreateNamespaceRequest(id=["a"]))
    with pytest.raises(AlreadyExistsError, match=r"a folder of its own, such as .*/events"):
        lance_df.PartitionedNamespace.create(tmp_path, events().schema, ["country"])
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "events", events().schema, ["country"])
    namespace.append(events())
    listed = kind(root=str(tmp_path)).list_namespaces(ListNamespacesRequest(id=[]))
    assert list(listed.namespaces) == ["a"]
    assert namespace.verify().ok


def test_t70_a_manifest_that_lost_its_columns_is_told(small):
    small.append(events(0, 8))
    DirectoryNamespace(root=small.uri).create_namespace(CreateNamespaceRequest(id=["other"]))
    with pytest.raises(CorruptDataError, match="repair"):
        lance_df.PartitionedNamespace.open(small.uri)


def test_evolved_specs_are_read_side_by_side(small):
    small.append(events(0, 120))
    small.update_partition_spec(["month(ts)", "country"])
    assert [spec.id for spec in small.specs] == [1, 2]
    assert [field.field_id for field in small.specs[1].fields] == ["ts_month", "country"]
    small.append(events(120, 240))
    small.update_partition_spec([partition.truncate("country", 1, field_id="initial")])
    small.append(events(360, 40))
    context = lance_df.connect()
    lance_df.register(context, "events", small)
    oracle = memory(events(0, 400))
    for condition, kept in (
        ("country = 'US'", 2 + 12 + 1),
        ("country = 'US' AND ts >= '2022-11-01' AND ts < '2023-02-01'", 2 + 4 + 1),
        ("country IS NULL OR country = 'DE'", 4 + 24 + 2),
        ("id < 400", 8 + 48 + 4),
    ):
        query = f"SELECT * FROM events WHERE {condition} ORDER BY id"
        assert context.sql(query).to_pylist() == oracle.sql(query).to_pylist()
        kept_now = context.explain_scan(query).partitions.kept
        assert kept_now <= kept, condition
    table = lance.dataset(f"{small.uri}/__manifest")
    table.validate()
    names = table.to_table()["object_id"].to_pylist()
    assert {"v1", "v2", "v3"} <= set(names)
    assert len(set(names)) == len(names)


def test_one_partition_of_all_rows_is_a_constant(small):
    with pytest.raises(InvalidInputError, match=r"expression\('1', column\)"):
        small.update_partition_spec([])
    small.append(events(0, 12))
    for number, spec in enumerate((["expression('1', id)"], ["month(ts)"], ["expression('1', id)"])):
        small.update_partition_spec(spec)
        small.append(events(12 * (number + 1), 12))
    whole = [name for name in small.partitions()["object_id"].to_pylist() if name[:2] in ("v2", "v4")]
    assert len(whole) == 2
    rows = small.to_table().sort_by("id")
    assert rows.equals(events(0, 48).cast(rows.schema))
    context = lance_df.connect(partitioned_joins="always")
    lance_df.register(context, "events", small)
    expected = memory(events(0, 48)).sql("SELECT * FROM events WHERE country IS NULL ORDER BY id")
    query = "SELECT e.* FROM events e JOIN events o ON e.id = o.id WHERE e.country IS NULL ORDER BY e.id"
    assert context.sql(query).to_pylist() == expected.to_pylist()
    assert small.verify(deep=True).ok


def test_a_spec_that_contradicts_an_earlier_one_changes_nothing(small):
    with pytest.raises(InvalidInputError, match="must keep its field_id"):
        small.update_partition_spec([partition.identity("country", field_id="land")])
    with pytest.raises(InvalidInputError, match="is used for both"):
        small.update_partition_spec([partition.year("ts", field_id="country")])
    with pytest.raises(ColumnNotFoundError):
        small.update_partition_spec(["year(nope)"])
    assert (small.version, len(small.specs)) == (1, 1)


def test_rows_appended_while_the_spec_changes_keep_theirs(small):
    other = lance_df.PartitionedNamespace.open(small.uri)
    schema, changed = events().schema, []

    def rows():
        yield events(0, 10).to_batches()[0]
        changed.append(other.update_partition_spec(["month(ts)"]))

    small.append(pa.RecordBatchReader.from_batches(schema, rows()))
    assert {name.split("$")[0] for name in small.partitions()["object_id"].to_pylist()} == {"v1"}
    assert [spec.id for spec in small.specs] == [1, 2]
    assert small.count_rows("country = 'US'") == 3


def test_versions_say_what_changed(tmp_path):
    rows = pa.table({"id": range(20), "s": ["a", "<b>"] * 10})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["s"])
    namespace.append(rows)
    namespace.delete("id = 3")
    namespace.update_partition_spec(["bucket(id, 2)"])
    namespace.append(rows)
    columns = ("version", "operation", "spec_version", "partitions_added", "partitions_changed")
    found = [tuple(each[name] for name in columns) for each in namespace.versions()]
    assert found == [
        (1, "overwrite", 1, 0, 0),
        (2, "update", 1, 2, 0),
        (3, "update", 1, 0, 1),
        (4, "restore", 2, 0, 0),
        (5, "update", 2, 2, 0),
    ]
    assert [each["version"] for each in namespace.at(2).versions()] == [1, 2]
    assert "<td>restore</td><td>2</td>" in namespace.versions()._repr_html_()


def test_fields_that_are_called_like_other_columns_of_partitions(tmp_path):
    rows = pa.table({"location": ["Oslo", "Rome"], "object_id": [1, 2], "read_tag": ["a", None], "v": [1, 2]})
    namespace = lance_df.PartitionedNamespace.create(
        tmp_path / "n", rows.schema, ["location", "object_id", "read_tag"]
    )
    namespace.append(rows)
    partitions = namespace.partitions()
    assert partitions.schema.names == [
        *("partition_field_location", "partition_field_object_id", "partition_field_read_tag"),
        *("object_id", "location", "read_version", "read_branch", "read_tag"),
    ]
    assert sorted(partitions["partition_field_location"].to_pylist()) == ["Oslo", "Rome"]
    assert sorted(partitions["partition_field_object_id"].to_pylist()) == [1, 2]
    ctx = lance_df.connect(tmp_path)
    shown = ctx.sql('SELECT * FROM "n$partitions"').to_arrow_table()
    assert set(partitions.schema.names) <= set(shown.schema.names)


def test_a_field_that_is_called_like_the_column_of_another(tmp_path):
    rows = pa.table({"object_id": [1], "partition_field_object_id": [2], "spec_version": [3]})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, rows.schema.names)
    namespace.append(rows)
    ctx = lance_df.connect(tmp_path)
    for kind in ("partitions", "files"):
        (row,) = ctx.sql(f'SELECT * FROM "n${kind}"').to_pylist()
        assert row["partition_field_object_id"] == 1
        assert row["partition_field_partition_field_object_id"] == 2
        assert row["partition_field_spec_version"] == 3
    (row,) = namespace.partitions().to_pylist()
    assert row["partition_field_object_id"] == 1
    assert row["partition_field_partition_field_object_id"] == 2


def test_partitions_by_a_dropped_column_are_not_replaced_in_members_of_earlier_specs(tmp_path):
    rows = pa.table({"a": [1, 2], "k": [5, 6], "v": ["x", "y"]})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["a"])
    namespace.append(rows)
    namespace.update_partition_spec(["k"])
    namespace.append(rows)
    namespace.drop_columns(["k"])
    before = namespace.to_table().sort_by("v")
    new = pa.table({"a": [9], "v": ["w"]})
    with pytest.raises(
        InvalidInputError, match="partition field 'k' was dropped; call update_partition_spec"
    ):
        namespace.overwrite_partitions(new)
    assert lance_df.PartitionedNamespace.open(tmp_path / "n").to_table().sort_by("v") == before
    assert namespace.verify(deep=True).ok
    namespace.update_partition_spec(["a"])
    namespace.overwrite_partitions(pa.table({"a": [2], "v": ["z"]}))
    assert sorted(namespace.to_table()["v"].to_pylist()) == ["x", "x", "z"]


def test_partitions_by_a_dropped_column_are_replaced_where_no_spec_is_earlier(tmp_path):
    rows = pa.table({"a": [1, 2], "k": [5, 6]})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["k"])
    namespace.append(rows)
    namespace.drop_columns(["k"])
    for value in (8, 9):
        namespace.overwrite_partitions(pa.table({"a": [value]}))
    assert sorted(namespace.to_table()["a"].to_pylist()) == [1, 2, 9]
