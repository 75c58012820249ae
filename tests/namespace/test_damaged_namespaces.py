"""Namespaces that are damaged in one way each: `repair` brings back what can be, and loses no row."""

import collections
import datetime as dt
import json
import shutil

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import PartitionedNamespace
from lance_df.errors import CorruptDataError
from lance_df.namespace.health.findings import ProblemKind, Severity
from lance_df.namespace.health.repair_report import RepairKind

ROWS = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "day": [dt.date(2024 + i % 2, 1 + i % 3, 1) for i in range(40)],
        "kind": [["a", "b", None][i % 3] for i in range(40)],
    }
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A namespace of two spec versions and eight partitions, of one to two fragments each."""
    root = tmp_path_factory.mktemp("whole") / "n"
    made = PartitionedNamespace.create(root, ROWS.schema, ["year(day)", "kind"])
    made.append(ROWS.slice(0, 20))
    made.append(ROWS.slice(20))
    made.update_partition_spec(["month(day)"])
    made.append(ROWS)
    return root


@pytest.fixture
def root(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "n")


def rows_of(root):
    rows = PartitionedNamespace.open(root).to_table().to_pylist()
    return collections.Counter(tuple(row.values()) for row in rows)


def rewrite(root, change):
    """Change the rows of ``__manifest`` as another program might."""
    path = root / "__manifest"
    table = lance.dataset(path).to_table()
    changed = pa.Table.from_pylist(change(table.to_pylist()), table.schema)
    lance.write_dataset(changed, path, mode="overwrite")


def tables(rows):
    return [row for row in rows if row["object_type"] == "table"]


def edited(**columns):
    """The first table has other things in its row; a function is given the row."""

    def change(rows):
        row = tables(rows)[0]
        for name, value in columns.items():
            row[name] = value(row) if callable(value) else value
        return rows

    return lambda root: rewrite(root, change)


def swapped(*names):
    def change(rows):
        first, second = tables(rows)[:2]
        for name in names:
            first[name], second[name] = second[name], first[name]
        return rows

    return lambda root: rewrite(root, change)


def cleared(*prefixes):
    def change(rows):
        return [{name: None if name.startswith(prefixes) else row[name] for name in row} for row in rows]

    return lambda root: rewrite(root, change)


def copied(**columns):
    def change(rows):
        row = tables(rows)[0]
        return [*rows, {**row, **{name: value(row) for name, value in columns.items()}}]

    return lambda root: rewrite(root, change)


def without(*names):
    return lambda root: lance.dataset(root / "__manifest").drop_columns([*names])


def updated(where, **values):
    return lambda root: lance.dataset(root / "__manifest").update(values, where=where)


def metadata(**values):
    return lambda root: lance.dataset(root / "__manifest").update_metadata(values)


def json_edited(key, change):
    """Another program has changed a JSON text of the metadata."""

    def damage(root):
        manifest = lance.dataset(root / "__manifest")
        data = json.loads(manifest.metadata[key])
        change(data["fields"])
        manifest.update_metadata({key: json.dumps(data)})

    return damage


def elsewhere(row):
    return row["object_id"].replace("v1$", "v1$zzzz", 1)[:7] + row["object_id"][7:]


def deeper(row):
    return row["object_id"].replace("$dataset", "$abcdefghijklmnop$dataset")


def retyped(root):
    lance.dataset(root / "__manifest").drop_columns(["partition_field_kind"])
    lance.dataset(root / "__manifest").add_columns({"partition_field_kind": "cast(null as bigint)"})


DAMAGE = {
    "another type": edited(object_type="thing"),
    "a table as a namespace": edited(object_type="namespace"),
    "no location": edited(location=None),
    "a location with a dot": edited(location=lambda row: "./" + row["location"]),
    "a location with empty and upper parts": edited(location=lambda row: "a/..//" + row["location"]),
    "the root as location": edited(location="."),
    "an empty location": edited(location=""),
    "__manifest as location": edited(location="__manifest"),
    "a location outside": edited(location="/etc"),
    "an id of too many levels": edited(object_id=deeper),
    "an id of no spec": edited(object_id=lambda row: "v7" + row["object_id"][2:]),
    "another value": edited(partition_field_kind="zzz"),
    "a tag besides the version": edited(read_tag="golden"),
    "a branch without version": edited(read_branch="dev", read_version=None),
    "ids swapped": swapped("object_id"),
    "ids and versions swapped": swapped("object_id", "read_version"),
    "no namespaces": lambda root: rewrite(root, tables),
    "some namespaces": lambda root: rewrite(
        root, lambda rows: [row for i, row in enumerate(rows) if row["object_type"] == "table" or i % 2]
    ),
    "some tables": lambda root: rewrite(
        root, lambda rows: [row for row in rows if row not in tables(rows)[2:4]]
    ),
    "no rows": lambda root: rewrite(root, lambda _: []),
    "all rows twice": lambda root: rewrite(root, lambda rows: [*rows, *rows]),
    "a row twice, the other one older": copied(read_version=lambda _: 1),
    "a folder under two ids": copied(object_id=elsewhere),
    "a folder under two ids and names": copied(
        object_id=elsewhere, location=lambda row: "./" + row["location"]
    ),
    "a folder under two ids, once with a slash": copied(
        object_id=elsewhere, location=lambda row: row["location"] + "/"
    ),
    "no values": cleared("partition_field_"),
    "no values and versions": cleared("partition_field_", "read_"),
    "no spec 1": metadata(partition_spec_v1=None),
    "no spec 2": metadata(partition_spec_v2=None),
    "a broken spec": metadata(partition_spec_v2="{"),
    "a spec of another order": json_edited("partition_spec_v1", lambda fields: fields.reverse()),
    "a spec without its last field": json_edited("partition_spec_v1", lambda fields: fields.pop()),
    "a spec without its first field": json_edited("partition_spec_v1", lambda fields: fields.pop(0)),
    "a spec of another type": json_edited(
        "partition_spec_v1", lambda fields: fields[1].update(result_type={"type": "large_utf8"})
    ),
    "no schema": metadata(schema=None),
    "a schema with two columns of one name": json_edited(
        "schema", lambda fields: fields[0].update(name="kind")
    ),
    "no column": lambda root: lance.dataset(root / "__manifest").drop_columns(["partition_field_day_year"]),
    "a column of another type": retyped,
    "no object_id": without("object_id"),
    "no object_type": without("object_type"),
    "no column location": without("location"),
    "no metadata": without("metadata"),
    "no location and value": without("location", "partition_field_kind"),
    "namespaces of other values": updated(
        "object_type = 'namespace' AND object_id LIKE 'v2$%'", partition_field_day_month="99"
    ),
    "namespaces of two levels of other values": updated(
        "object_type = 'namespace' AND partition_field_day_year = 2024", partition_field_day_year="1999"
    ),
    "upper namespaces of other values": updated(
        "object_type = 'namespace' AND object_id LIKE 'v1$________________'", partition_field_day_year="1999"
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_can_be_brought_back_is(whole, root, name):
    expected, before = rows_of(whole), PartitionedNamespace.open(whole).partitions().sort_by("object_id")
    DAMAGE[name](root)
    assert not lance_df.verify(root, deep=True).ok
    folders = sorted(path.name for path in root.iterdir())
    dry = PartitionedNamespace.repair(root, dry_run=True)
    report = PartitionedNamespace.repair(root)
    assert [action.kind for action in dry.actions] == [action.kind for action in report.actions] != []
    assert rows_of(root) == expected
    repaired = PartitionedNamespace.open(root)
    assert repaired.partitions().sort_by("object_id").select(before.column_names).equals(before)
    for condition in ("kind = 'a'", "kind IS NULL", "day >= '2025-01-01'", "id = 7"):
        assert repaired.count_rows(condition) == PartitionedNamespace.open(whole).count_rows(condition)
    assert lance_df.verify(root, deep=True).ok
    assert PartitionedNamespace.repair(root).actions == ()
    assert sorted(path.name for path in root.iterdir()) == folders


WITHOUT_HISTORY = [
    "another type",
    "a table as a namespace",
    "no location",
    "a location with a dot",
    "a location outside",
    "an id of too many levels",
    "an id of no spec",
    "another value",
    "ids swapped",
    "no namespaces",
    "all rows twice",
    "a folder under two ids",
    "a folder under two ids and names",
    "no values",
    "no values and versions",
    "no object_id",
    "no object_type",
    "no column location",
    "no metadata",
    "no location and value",
    "namespaces of other values",
    "namespaces of two levels of other values",
    "upper namespaces of other values",
]


@pytest.mark.parametrize("name", WITHOUT_HISTORY)
def test_what_the_tables_tell_comes_back_without_older_versions(whole, root, name):
    expected = rows_of(whole)
    DAMAGE[name](root)
    lance.dataset(root / "__manifest").cleanup_old_versions(older_than=dt.timedelta(0))
    PartitionedNamespace.repair(root)
    assert rows_of(root) == expected
    assert lance_df.verify(root, deep=True).ok
    assert PartitionedNamespace.repair(root).actions == ()


def test_a_version_that_may_be_that_of_another_table_is_not_published(root):
    """Folders and ids are crossed, so nothing tells whose version it is: the table is set aside."""

    def change(rows):
        first, second = tables(rows)[:2]
        first["location"], second["location"] = second["location"], first["location"]
        first["partition_field_kind"] = second["partition_field_kind"] = "zzz"
        return rows

    rewrite(root, change)
    lance.dataset(root / "__manifest").cleanup_old_versions(older_than=dt.timedelta(0))
    folders = {path.name for path in root.iterdir()}
    PartitionedNamespace.repair(root)
    assert {path.name for path in root.iterdir()} == folders
    assert max(rows_of(root).values()) <= 2  # nothing is there more often than in the two spec versions


@pytest.mark.parametrize(
    "damage",
    [swapped("location", "read_version"), swapped("partition_field_kind")],
    ids=["folders swapped", "values swapped"],
)
def test_rows_of_other_partitions_are_told_and_not_lost(whole, root, damage):
    expected = rows_of(whole)
    damage(root)
    report = lance_df.verify(root, deep=True)
    assert ProblemKind.VALUES in {each.kind for each in report.problems if each.severity is Severity.ERROR}
    PartitionedNamespace.repair(root)
    assert rows_of(root) == expected


@pytest.mark.parametrize("name", ["future", "gone"])
def test_a_version_that_is_not_there(whole, root, name):
    expected = rows_of(whole)
    row = tables(lance.dataset(root / "__manifest").to_table().to_pylist())[0]
    if name == "future":
        edited(read_version=99)(root)
    else:
        lance.write_dataset(ROWS.slice(0, 0), root / row["location"], mode="append")
        (root / row["location"] / "_versions" / f"{2**64 - 1 - row['read_version']}.manifest").unlink()
    assert lance_df.verify(root).of_kind(ProblemKind.VERSION)
    assert PartitionedNamespace.repair(root).actions == ()
    PartitionedNamespace.repair(root, publish_newer=True)
    assert rows_of(root) == expected
    assert lance_df.verify(root, deep=True).ok


def test_two_tables_of_one_folder_are_not_read_before_they_are_repaired(root):
    DAMAGE["a folder under two ids"](root)
    with pytest.raises(CorruptDataError, match="2 tables have the folder"):
        rows_of(root)


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_changes_after_the_damage_stay(root, kind):
    condition = f"object_type = '{kind}' AND object_id LIKE 'v2$%' AND partition_field_day_month = 1"
    updated(condition, partition_field_day_month="7")(root)
    PartitionedNamespace.open(root).delete("id = 0")
    expected = rows_of(root)
    PartitionedNamespace.repair(root)
    assert rows_of(root) == expected
    assert lance_df.verify(root, deep=True).ok
    assert PartitionedNamespace.repair(root).actions == ()


def test_a_namespace_keeps_values_that_one_of_its_members_has(whole, root):
    rewrite(root, lambda rows: [moved_below_another(row, rows) for row in rows])
    lance.dataset(root / "__manifest").cleanup_old_versions(older_than=dt.timedelta(0))
    years = value_of_namespaces(root)
    PartitionedNamespace.repair(root)
    assert value_of_namespaces(root).items() <= years.items()
    assert lance_df.verify(root, deep=True).ok


def value_of_namespaces(root):
    rows = lance.dataset(root / "__manifest").to_table().to_pylist()
    return {
        row["object_id"]: row["partition_field_day_year"]
        for row in rows
        if row["object_id"].startswith("v1$") and row["object_id"].count("$") == 1
    }


def moved_below_another(row, rows):
    """A table of 2025, and its namespace, are below the namespace of 2024."""
    first, second = (
        [each for each in tables(rows) if each["partition_field_day_year"] == year] for year in (2024, 2025)
    )
    path = second[0]["object_id"].split("$")
    target = first[0]["object_id"].split("$")[1]
    parts = row["object_id"].split("$")
    if parts[:3] == path[:3]:
        return {**row, "object_id": "$".join([parts[0], target, *parts[2:]])}
    return row


def test_a_namespace_without_members_is_reported(tmp_path):
    root = tmp_path / "n"
    PartitionedNamespace.create(root, ROWS.schema, ["kind"]).append(ROWS)
    rewrite(root, lambda rows: [{**row, "object_id": row["object_id"].replace("v1$", "v7$")} for row in rows])
    for path in root.glob("*_v1*"):
        path.rename(root / path.name.replace("_v1$", "_"))
    rewrite(root, lambda rows: [relocated(row) for row in rows])
    lance.dataset(root / "__manifest").cleanup_old_versions(older_than=dt.timedelta(0))
    report = PartitionedNamespace.repair(root)
    assert len(report.of_kind(RepairKind.EMPTY)) == 1
    assert "no member is left" in str(report)
    assert PartitionedNamespace.open(root).count_rows() == 0
    assert PartitionedNamespace.repair(root).actions == ()


def relocated(row):
    return {**row, "location": row["location"] and row["location"].replace("_v1$", "_")}


def test_neither_ids_nor_locations(root):
    without("object_id", "location")(root)
    assert lance_df.verify(root).of_kind(ProblemKind.COLUMNS)
    with pytest.raises(CorruptDataError, match="neither the column object_id nor the column location"):
        PartitionedNamespace.repair(root)


def test_a_row_of_an_unknown_object_type_is_not_passed_over(root):
    updated("object_type = 'table'", object_type="'Table'")(root)
    with pytest.raises(CorruptDataError, match=r"object_type of v1\$.* is 'Table', expected"):
        rows_of(root)
    with pytest.raises(CorruptDataError, match="object_type"):
        PartitionedNamespace.open(root).append(ROWS)


def test_a_row_that_lost_its_values_is_named_by_an_append(root):
    updated("object_type = 'table'", partition_field_day_month="NULL")(root)
    with pytest.raises(CorruptDataError, match=r"v2\$\w+\$dataset exists already, but its row has"):
        PartitionedNamespace.open(root).append(ROWS)
    PartitionedNamespace.repair(root)
    PartitionedNamespace.open(root).append(ROWS)
    assert sum(rows_of(root).values()) == 120


def test_no_folder_is_removed_while_that_of_a_table_is_unknown(whole, root):
    expected = rows_of(whole)
    edited(location="/etc")(root)
    lance.dataset(root / "__manifest").cleanup_old_versions(older_than=dt.timedelta(0))
    orphan = root / ("00000001_v1$" + "a" * 16 + "$" + "b" * 16 + "$dataset")
    lance.write_dataset(ROWS, orphan)

    def repair():
        return PartitionedNamespace.repair(root, remove_orphans=True, older_than=dt.timedelta(0))

    report = repair()
    assert report.changes
    (action,) = report.of_kind(RepairKind.NOT_REMOVED)
    assert "clean up its older versions" in action.text
    assert orphan.exists()
    assert rows_of(root) == expected
    assert not repair().changes
    PartitionedNamespace.open(root).cleanup_old_versions(retain_versions=1)
    assert [action.subject for action in repair().actions] == [orphan.name]
    assert rows_of(root) == expected


@pytest.mark.parametrize("prefix", ["s3://bucket/n/", "moved/"])
def test_the_folder_of_a_table_whose_row_names_another_one_stays(whole, root, prefix):
    folders = {path.name for path in root.iterdir()}
    edited(location=lambda row: prefix + row["location"])(root)
    lance.dataset(root / "__manifest").cleanup_old_versions(older_than=dt.timedelta(0))
    PartitionedNamespace.repair(root, remove_orphans=True, older_than=dt.timedelta(0))
    assert folders <= {path.name for path in root.iterdir()}
    if "://" in prefix:
        assert rows_of(root) == rows_of(whole)


@pytest.mark.parametrize("num_members", [3, 60])
def test_tables_may_be_in_folders_below_the_root(tmp_path, num_members):
    rows = pa.table({"k": range(num_members), "v": range(num_members)})
    PartitionedNamespace.create(tmp_path, rows.schema, ["k"]).append(rows)
    (tmp_path / "sub" / "more").mkdir(parents=True)
    for path in [*tmp_path.iterdir()]:
        if path.name not in ("__manifest", "sub"):
            path.rename(tmp_path / "sub" / "more" / path.name)
    manifest = lance.dataset(tmp_path / "__manifest")
    manifest.update({"location": "'sub/more/' || location"}, where="object_type = 'table'")
    assert PartitionedNamespace.open(tmp_path).to_table().sort_by("k").equals(rows)
    assert not PartitionedNamespace.open(tmp_path).verify(deep=True).problems


def test_a_folder_named_twice_is_not_read_twice(root):
    copied(object_id=elsewhere, location=lambda row: row["location"] + "/")(root)
    with pytest.raises(CorruptDataError, match="2 tables have the folder"):
        rows_of(root)


@pytest.mark.parametrize("name", ["other", "", "V1$a$dataset", "v1x$dataset"])
def test_a_table_outside_the_specs_is_no_member(whole, root, name):
    columns = {"location": "elsewhere", "partition_field_kind": None}
    copied(object_id=lambda _: name, **{key: lambda _, value=value: value for key, value in columns.items()})(
        root
    )
    assert rows_of(root) == rows_of(whole)
    (problem,) = PartitionedNamespace.open(root).verify(deep=True).problems
    assert (problem.severity, problem.kind, problem.subject) == (Severity.WARNING, ProblemKind.NAME, name)
    assert PartitionedNamespace.repair(root).actions == ()


def test_a_contradiction_that_nothing_resolves_is_left(tmp_path):
    """The source column is dropped, so the tables do not show which of two rows is wrong."""
    namespace = PartitionedNamespace.create(tmp_path, ROWS.schema, ["kind"])
    namespace.append(ROWS)
    namespace.drop_columns(["kind"])
    updated("object_type = 'namespace' AND partition_field_kind = 'a'", partition_field_kind="'z'")(tmp_path)
    version = lance.dataset(tmp_path / "__manifest").version
    for is_dry_run in (True, False, False):
        report = PartitionedNamespace.repair(tmp_path, dry_run=is_dry_run)
        assert not report.changes
        assert [action.kind for action in report.actions] == [RepairKind.LEFT]
        assert lance.dataset(tmp_path / "__manifest").version == version


def test_version_0_is_no_new_table(root):
    edited(read_version=0)(root)
    with pytest.raises(CorruptDataError, match="names version 0"):
        PartitionedNamespace.open(root).compact()


def test_metadata_that_no_version_has(root):
    lance.dataset(root / "__manifest").update_metadata({"schema": None})
    lance.dataset(root / "__manifest").cleanup_old_versions(older_than=dt.timedelta(0))
    with pytest.raises(CorruptDataError, match="metadata key schema cannot be read, and no older version"):
        PartitionedNamespace.repair(root)
