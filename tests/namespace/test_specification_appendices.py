"""Sentences of the partitioning specification, and its appendices B to F; A is in `test_partition_spec`.

The namespace is that of the appendices: version 1 by event_date, version 2 by its year, and by country.
"""

import datetime as dt
import json
import re
import shutil

import datafusion
import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import CorruptDataError, InvalidInputError

pytestmark = pytest.mark.engine

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("event_date", pa.date32()),
        pa.field("country", pa.string()),
    ]
)
TENTH, ELEVENTH = dt.date(2025, 12, 10), dt.date(2025, 12, 11)
IN_JANUARY = dt.date(2025, 1, 5)


def rows(*found):
    return pa.table([list(column) for column in zip(*found, strict=True)], SCHEMA)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "dir1"
    namespace = lance_df.PartitionedNamespace.create(root, SCHEMA, ["event_date"])
    namespace.append(rows((1, TENTH, "US"), (2, ELEVENTH, "DE"), (3, TENTH, "DE")))
    namespace.update_partition_spec([partition.year("event_date", field_id="event_year"), "country"])
    namespace.append(rows((4, IN_JANUARY, "US"), (5, TENTH, "US")))
    return root


def manifest_rows(root):
    """Return the rows of ``__manifest`` by object id, as pylance reads them."""
    return {row["object_id"]: row for row in lance.dataset(root / "__manifest").to_table().to_pylist()}


def test_a_new_spec_version_updates_the_manifest_at_once(root):
    namespace = lance_df.PartitionedNamespace.open(root)
    before = manifest_rows(root)
    namespace.update_partition_spec([partition.bucket("id", 4, field_id="id_bucket"), "event_date"])
    found = manifest_rows(root)
    # the schema is updated to include any new partition columns, null in the rows that are there
    assert lance.dataset(root / "__manifest").schema.field("partition_field_id_bucket").type == pa.int32()
    assert all(row["partition_field_id_bucket"] is None for row in found.values())
    # the version is recorded by its namespace; existing partitions remain as they are
    assert found.keys() == before.keys() | {"v3"}
    # the same source and transform: the same field_id, and no second column
    assert [field.field_id for field in namespace.specs[-1].fields] == ["id_bucket", "event_date"]
    namespace.append(rows((6, TENTH, None)))
    context = lance_df.connect(root.parent)
    query = "SELECT id FROM dir1 WHERE event_date = '2025-12-10' ORDER BY id"
    assert [row["id"] for row in context.sql(query).to_pylist()] == [1, 3, 5, 6]
    kept = [spec.partitions.kept for spec in context.explain_scan(query).tables[0].specs]
    assert kept == [1, 1, 1]


def test_a_field_id_is_never_reused(root):
    namespace = lance_df.PartitionedNamespace.open(root)
    namespace.update_partition_spec([partition.year("event_date")])
    version = namespace.version
    # event_date and country are no fields of the current spec, but of earlier ones
    with pytest.raises(InvalidInputError, match="must keep its field_id"):
        namespace.update_partition_spec([partition.identity("country", field_id="event_date")])
    with pytest.raises(InvalidInputError, match="is used for both"):
        namespace.update_partition_spec([partition.bucket("id", 4, field_id="country")])
    assert namespace.version == version
    # removing partition columns: legacy data under old versions remains queryable, and prunes
    assert [field.field_id for field in namespace.specs[-1].fields] == ["event_year"]
    context = lance_df.connect(root.parent)
    report = context.explain_scan("SELECT id FROM dir1 WHERE country = 'DE'").tables[0]
    assert [spec.partitions.kept for spec in report.specs] == [2, 0]


@pytest.mark.parametrize(
    "named",
    [("1", "NULL", "'t'"), ("NULL", "'b'", "'t'"), ("1", "'b'", "'t'"), ("NULL", "'b'", "NULL")],
    ids=["version and tag", "branch and tag", "all", "branch"],
)
def test_versions_branches_and_tags_that_cannot_be_combined(root, named):
    manifest = lance_df.dataset(root / "__manifest")
    columns = dict(zip(("read_version", "read_branch", "read_tag"), named, strict=True))
    if columns["read_version"] != "NULL":
        columns["read_version"] = "CAST(1 AS BIGINT UNSIGNED)"
    manifest.update(columns, where="object_type = 'table' AND partition_field_event_date = '2025-12-11'")
    namespace = lance_df.PartitionedNamespace.open(root)
    with pytest.raises(CorruptDataError):
        namespace.to_table()
    assert namespace.to_table(filter="event_date = '2025-12-10'")["id"].to_pylist() == [1, 3, 5]


def test_appendix_b_physical_layout(root):
    found = manifest_rows(root)
    tables = {name: row["location"] for name, row in found.items() if row["object_type"] == "table"}
    # only tables have directories: namespaces exist only as entries in the __manifest table
    assert {path.name for path in root.iterdir()} == {"__manifest", *tables.values()}
    for name, location in tables.items():
        # following the V2 format <hash>_<object_id>
        assert re.fullmatch(r"[0-9a-f]{8}_.*", location)
        assert location[9:] == name
        # at the end of the hierarchy a table with the fixed name dataset, an ordinary dataset
        assert name.endswith("$dataset")
        lance.dataset(root / location).validate()
    for name in found:
        version, *levels = name.removesuffix("$dataset").split("$")
        assert version in ("v1", "v2")
        # randomly generated 16-character base36 strings
        assert all(re.fullmatch(r"[a-z0-9]{16}", level) for level in levels)
    # the order of levels corresponds to the order of partition fields in the spec
    depths = sorted((name[:2], name.count("$")) for name in tables)
    assert depths == [("v1", 2), ("v1", 2), ("v2", 3)]


def test_appendix_c_manifest_table(root):
    manifest = lance.dataset(root / "__manifest")
    schema = manifest.schema
    wanted = {
        "object_id": pa.string(),
        "object_type": pa.string(),
        "metadata": pa.string(),
        "read_version": pa.uint64(),
        "read_branch": pa.string(),
        "read_tag": pa.string(),
        # the column name is partition_field_{field_id}, and the type is the field's result_type
        "partition_field_event_date": pa.date32(),
        "partition_field_event_year": pa.int32(),
        "partition_field_country": pa.string(),
    }
    assert {name: schema.field(name).type for name in wanted} == wanted
    # an additional nullable column
    assert all(schema.field(name).nullable for name in wanted if name.startswith("partition_field"))
    values = [name for name in wanted if name.startswith("partition_field_")]

    def row(name, table_version=None, *given):
        found = manifest_rows(root)[name]
        assert found["object_type"] == ("namespace" if table_version is None else "table")
        assert found["metadata"] == "{}"
        assert [found[each] for each in ("read_version", "read_branch", "read_tag")] == [
            table_version, None, None,
        ]  # fmt: skip
        assert [found[each] for each in values] == list(given)

    row("v1", None, None, None, None)
    row("v2", None, None, None, None)
    names = sorted(manifest_rows(root), key=lambda name: name.count("$"))
    of_first = {manifest_rows(root)[name]["partition_field_event_date"]: name for name in names[::-1]}
    for day in (TENTH, ELEVENTH):
        # each row has all partition values from its ancestors
        row(of_first[day], None, day, None, None)
        row(f"{of_first[day]}$dataset", 1, day, None, None)
    year, country = (name for name in names if name.startswith("v2$") and not name.endswith("$dataset"))
    assert country.startswith(f"{year}$")
    row(year, None, None, 2025, None)
    row(country, None, None, 2025, "US")
    row(f"{country}$dataset", 1, None, 2025, "US")
    # the root namespace's properties are stored in the table's metadata, not as a row
    assert "" not in names
    assert {"partition_spec_v1", "partition_spec_v2", "schema"} <= manifest.metadata.keys()


def test_appendix_d_partition_pruning(root):
    context = lance_df.connect(root.parent)
    query = "SELECT * FROM dir1 WHERE event_date = '2025-12-10' AND country = 'US'"
    report = context.explain_scan(query)
    (table,) = report.tables
    first, second = table.specs
    assert "partition_field_event_date = DATE '2025-12-10'" in table.manifest_query
    assert "partition_field_event_year = 2025" in table.manifest_query
    assert "date_part('year', DATE '2025-12-10')" in table.manifest_query
    assert "partition_field_country = 'US'" in table.manifest_query
    # for version 1 country = 'US' cannot be pushed to partition pruning, for version 2 both are
    assert "no help: country = 'US'" in str(report)
    assert (first.partitions.kept, second.partitions.kept) == (1, 1)
    engine = datafusion.SessionContext()
    engine.from_arrow(lance.dataset(root / "__manifest").to_table(), name="__manifest")
    found = engine.sql(table.manifest_query).to_arrow_table()
    assert found.column_names == ["object_id", "location", "read_version", "read_branch", "read_tag"]
    expected = [
        {name: row[name] for name in found.column_names}
        for row in manifest_rows(root).values()
        if row["object_type"] == "table"
        and (row["partition_field_event_date"] == TENTH or row["partition_field_event_year"] == 2025)
    ]
    assert sorted(found.to_pylist(), key=str) == sorted(expected, key=str)
    # what cannot be pushed must be applied during the table scan
    assert sorted(row["id"] for row in context.sql(query).to_pylist()) == [1, 5]


def test_appendix_e_runtime_properties(root):
    directory = lance_df.DirectoryNamespace(root)
    spec = directory.describe_namespace(["v1"]).properties["partition_spec"]
    assert spec == (
        '{"id":1,"fields":[{"field_id":"event_date","source_ids":[1],"transform":{"type":"identity"},'
        '"result_type":{"type":"date32"}}]}'
    )
    assert json.loads(directory.describe_namespace(["v2"]).properties["partition_spec"])["id"] == 2
    described = {
        name: directory.describe_namespace(name.split("$")).properties
        for name, row in manifest_rows(root).items()
        if row["object_type"] == "namespace" and "$" in name
    }
    # each namespace only returns the partition value for its own level
    assert sorted(map(str, described.values())) == [
        "{'partition.country': 'US'}",
        "{'partition.event_date': '2025-12-10'}",
        "{'partition.event_date': '2025-12-11'}",
        "{'partition.event_year': '2025'}",
    ]


def test_appendix_f_storage_partitioned_join(tmp_path):
    count = 64
    customers = pa.table({"id": range(count), "name": [f"c{number}" for number in range(count)]})
    orders = pa.table({"o": range(3 * count), "customer_id": [n % count for n in range(3 * count)]})
    sides = {
        "orders": (orders, partition.bucket("customer_id", 16, field_id="customer_bucket")),
        "customers": (customers, partition.bucket("id", 8, field_id="id_bucket")),
    }
    buckets = {}
    for name, (data, by) in sides.items():
        namespace = lance_df.PartitionedNamespace.create(tmp_path / name, data.schema, [by])
        namespace.append(data)
        buckets[name] = sorted(namespace.partitions()[by.field_id].to_pylist())
    assert buckets == {"orders": list(range(16)), "customers": list(range(8))}
    context = lance_df.connect(tmp_path, partitioned_joins="always")
    query = "SELECT o.*, c.name FROM orders o JOIN customers c ON o.customer_id = c.id"
    (join,) = context.explain_scan(query).joins
    # 8 partition-wise joins instead of a full shuffle of both datasets
    assert "8" in str(join)
    found = context.sql(query).to_arrow_table()
    expected = [{**row, "name": f"c{row['customer_id']}"} for row in orders.to_pylist()]
    assert sorted(found.to_pylist(), key=lambda row: row["o"]) == expected


@pytest.mark.parametrize("name", ["object_id", "object_type", "location"])
def test_a_manifest_without_a_column_that_each_has_is_refused(root, name):
    manifest = lance.dataset(root / "__manifest")
    table, metadata = manifest.to_table().drop_columns([name]), manifest.metadata
    shutil.rmtree(root / "__manifest")
    lance.write_dataset(table, root / "__manifest").update_metadata(metadata)
    with pytest.raises(CorruptDataError, match=f"column {name} of type string is missing"):
        lance_df.PartitionedNamespace.open(root)
    with pytest.raises(CorruptDataError, match=f"column {name} .*is missing"):
        lance_df.connect(root.parent).sql("SELECT * FROM dir1")


def test_a_column_of_a_manifest_of_another_type_is_named(root):
    lance.dataset(root / "__manifest").alter_columns({"path": "object_id", "data_type": pa.large_string()})
    with pytest.raises(CorruptDataError, match="object_id must be of type string, found large_string"):
        lance_df.PartitionedNamespace.open(root)
    assert "object_id must be of type string, found large_string" in str(lance_df.verify(root))


def test_a_column_that_a_dead_writer_left_takes_part_if_it_fits(root):
    manifest = lance_df.dataset(root / "__manifest")
    manifest.add_columns(pa.schema([("partition_field_letter", pa.int32())]))
    namespace = lance_df.PartitionedNamespace.open(root)
    with pytest.raises(InvalidInputError, match="partition_field_letter already exists with type int32"):
        namespace.update_partition_spec([partition.truncate("country", 1, field_id="letter")])
    assert lance_df.PartitionedNamespace.open(root).count_rows() == 5
    namespace.update_partition_spec([partition.expression("ascii(col0)", "country", field_id="letter")])
    namespace.append(rows((6, TENTH, "US")))
    assert namespace.to_table(filter="ascii(country) = 85 AND id > 4")["id"].to_pylist() == [5, 6]
    assert namespace.verify(deep=True).ok
