"""What `verify` finds in namespaces that are damaged, and what a namespace tells of itself."""

import datetime as dt
import json
import pickle
import shutil
from decimal import Decimal

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import PartitionedNamespace
from lance_df.errors import CorruptDataError, DatasetNotFoundError, NotFoundError
from lance_df.namespace.health.findings import ProblemKind, Severity

ROWS = pa.table(
    {
        "id": pa.array(range(24), pa.int64()),
        "day": [dt.date(2024 + i % 2, 1, 1) for i in range(24)],
        "kind": [["a", "b", None][i % 3] for i in range(24)],
    }
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    root = tmp_path_factory.mktemp("good") / "n"
    namespace = PartitionedNamespace.create(root, ROWS.schema, ["year(day)", "kind"])
    namespace.append(ROWS)
    return root


@pytest.fixture
def root(good, tmp_path):
    return shutil.copytree(good, tmp_path / "n")


def partitions(root):
    return PartitionedNamespace.open(root).partitions().to_pylist()


def edit(root, change):
    """Change the rows of ``__manifest`` as another program might."""
    path = root / "__manifest"
    table = lance.dataset(path)
    rows = table.to_table()
    changed = pa.Table.from_pylist(change(rows.to_pylist()), rows.schema)
    lance.write_dataset(changed, path, mode="overwrite")


def found(report):
    return {(problem.kind, problem.subject) for problem in report.problems}


def test_a_good_namespace(root):
    for deep in (False, True):
        report = PartitionedNamespace.open(root).verify(deep=deep)
        assert (report.ok, report.problems, report.num_members, report.is_deep) == (True, (), 6, deep)
        assert "nothing found" in str(report)
        report.raise_for_errors()


def test_tables_are_verified_too(root):
    folder = root / partitions(root)[0]["location"]
    assert lance_df.verify(folder).ok
    (file,) = (folder / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    report = lance_df.verify(folder)
    assert [problem.severity for problem in report.problems] == [Severity.ERROR]
    with pytest.raises(CorruptDataError, match=file.name):
        report.raise_for_errors()
    with pytest.raises(DatasetNotFoundError):
        lance_df.verify(root / "nowhere")


def test_t46_values_that_the_rows_have_not(root):
    first, second = (row for row in partitions(root) if row["day_year"] == 2024 and row["kind"] is not None)

    def swap(rows):
        for row in rows:
            if row["partition_field_kind"] is not None and row["partition_field_day_year"] == 2024:
                row["partition_field_kind"] = {"a": "b", "b": "a"}[row["partition_field_kind"]]
        return rows

    edit(root, swap)
    # pruning trusts the manifest
    rows = PartitionedNamespace.open(root).to_table(filter="kind = 'a' AND day < '2025-01-01'")
    assert set(rows["kind"].to_pylist()) == {"b"}
    assert lance_df.verify(root).ok
    report = lance_df.verify(root, deep=True)
    assert found(report) == {(ProblemKind.VALUES, row["object_id"]) for row in (first, second)}
    assert "4 of 4 rows" in report.problems[0].found
    with pytest.raises(CorruptDataError, match="other partition values"):
        report.raise_for_errors()


def test_rows_of_another_partition_among_those_of_this_one(root):
    row = next(row for row in partitions(root) if row["kind"] is None and row["day_year"] == 2025)
    table = lance.write_dataset(ROWS.slice(0, 1), root / row["location"], mode="append")

    def publish(rows):
        for each in rows:
            if each["object_id"] == row["object_id"]:
                each["read_version"] = table.version
        return rows

    edit(root, publish)
    (problem,) = lance_df.verify(root, deep=True).problems
    assert (problem.kind, problem.subject) == (ProblemKind.VALUES, row["object_id"])
    assert problem.found.startswith("1 of 5 rows")


def test_t69_versions_that_are_not_published(root):
    row = partitions(root)[0]
    lance.write_dataset(ROWS, root / row["location"], mode="append")
    report = lance_df.verify(root)
    (problem,) = report.problems
    assert (problem.severity, problem.kind) == (Severity.WARNING, ProblemKind.UNPUBLISHED)
    assert (problem.subject, report.ok) == (row["object_id"], False)
    assert "newest version of the table is 2" in problem.found
    report.raise_for_errors()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), "this data file is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "the manifest says"),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), "not a Lance file"),
    ],
)
def test_data_files_are_looked_at_without_their_rows(root, change, message):
    path = next(next(root.glob("*$dataset")).glob("data/*"))
    change(path)
    report = lance_df.verify(root)
    [problem] = report.problems
    assert (problem.kind, problem.severity) == (ProblemKind.DAMAGED, Severity.ERROR)
    assert path.name in problem.found
    assert message in problem.found
    assert report.problems == lance_df.verify(root, deep=True).problems


def test_members_that_are_not_what_they_should_be(root):
    rows = partitions(root)
    missing, empty, no_version, broken, other_schema, stray = (root / row["location"] for row in rows)
    ids = [row["object_id"] for row in rows]
    shutil.rmtree(missing)
    shutil.rmtree(empty)
    empty.mkdir()
    lance.write_dataset(ROWS, no_version, mode="append")
    for file in (no_version / "_versions").iterdir():
        if lance.dataset(no_version).version == 2 and file.stem == str(2**64 - 1 - 1):
            file.unlink()
    (file,) = (broken / "data").iterdir()
    file.write_bytes(b"no data")
    table = lance.dataset(other_schema)
    table.drop_columns(["day"])
    table.add_columns({"day": "cast(1 as string)"})
    table.delete("true")
    (stray / "data" / "stray.lance").write_bytes(b"")

    def publish(rows):
        for each in rows:
            if each["object_id"] == ids[4]:
                each["read_version"] = lance.dataset(other_schema).version
        return rows

    edit(root, publish)
    shallow = found(lance_df.verify(root))
    assert shallow == {
        (ProblemKind.MISSING, ids[0]),
        (ProblemKind.MISSING, ids[1]),
        (ProblemKind.VERSION, ids[2]),
        (ProblemKind.DAMAGED, ids[3]),
        (ProblemKind.SCHEMA, ids[4]),
    }
    deep = lance_df.verify(root, deep=True)
    assert found(deep) == shallow
    texts = {problem.found for problem in deep.of_kind(ProblemKind.SCHEMA)}
    assert texts == {"field 1 ('day') is missing", "field 3 ('day') does not exist in the namespace"}
    assert pickle.loads(pickle.dumps(deep)) == deep


def test_t63_rows_of_the_manifest_that_contradict_each_other(root):
    namespaces = {row["object_id"]: row for row in lance.dataset(root / "__manifest").to_table().to_pylist()}
    tables = [row for row in namespaces.values() if row["object_type"] == "table"]
    twice, twin, elsewhere, typeless, unpinned, shared = (row["object_id"] for row in tables)
    parent = twin.rpartition("$")[0]

    def change(rows):
        by_id = {row["object_id"]: row for row in rows}
        value = by_id[twice]
        added = [dict(by_id[twice])]
        for name in (twin, parent):
            by_id[name]["partition_field_kind"] = value["partition_field_kind"]
            by_id[name]["partition_field_day_year"] = value["partition_field_day_year"]
        by_id[elsewhere]["object_id"] = "v7$" + elsewhere
        by_id[typeless]["object_type"] = "thing"
        by_id[unpinned]["read_version"] = None
        by_id[shared]["location"] = by_id[unpinned]["location"]
        return [*rows, *added]

    edit(root, change)
    report = lance_df.verify(root)
    assert not report.ok
    assert found(report) >= {
        (ProblemKind.DUPLICATE, twice),
        (ProblemKind.DUPLICATE, twin),
        (ProblemKind.NAME, f"v7${elsewhere}"),
        (ProblemKind.ROW, typeless),
        (ProblemKind.UNPUBLISHED, unpinned),
        (ProblemKind.DUPLICATE, namespaces[unpinned]["location"]),
    }
    assert {severity.severity for severity in report.problems[:6]} == {Severity.ERROR}
    text = str(report)
    for problem in report.problems:
        assert str(problem) in text


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"partition_spec_v1": "nonsense"}, "partition_spec_v1"),
        ({"partition_spec_v2": '{"id":2,"fields":[]}'}, "partition_spec_v2"),
        ({"partition_spec_v1": '{"id":3,"fields":[]}'}, "partition_spec_v1"),
        ({"schema": "[]"}, "schema"),
        ({"schema": None}, "schema"),
    ],
)
def test_metadata_that_say_nothing(root, change, subject):
    lance.dataset(root / "__manifest").update_metadata(change)
    report = lance_df.verify(root)
    assert (ProblemKind.METADATA, subject) in found(report)
    assert not report.ok
    with pytest.raises(CorruptDataError):
        PartitionedNamespace.open(root)


@pytest.mark.parametrize("expression", ["col0 +", "nosuch(col0)", "random()", "col1"])
def test_expressions_that_cannot_be_computed(root, expression):
    manifest = lance.dataset(root / "__manifest")
    spec = json.loads(manifest.metadata["partition_spec_v1"])
    del spec["fields"][0]["transform"]
    spec["fields"][0]["expression"] = expression
    manifest.update_metadata({"partition_spec_v1": json.dumps(spec)})
    report = lance_df.verify(root)
    assert report.of_kind(ProblemKind.METADATA)
    assert spec["fields"][0]["field_id"] in str(report.of_kind(ProblemKind.METADATA)[0])


def test_a_spec_version_beyond_int32(root):
    manifest = lance.dataset(root / "__manifest")
    spec = {**json.loads(manifest.metadata["partition_spec_v1"]), "id": 2**31}
    manifest.update_metadata({f"partition_spec_v{2**31}": json.dumps(spec)})
    expected = f"partition_spec_v{2**31}: expected a partition spec with an id from 1 to 2147483647"
    with pytest.raises(CorruptDataError, match=expected):
        PartitionedNamespace.open(root)


def test_a_source_id_that_was_never_given(root):
    manifest = lance.dataset(root / "__manifest")
    spec = json.loads(manifest.metadata["partition_spec_v1"])
    spec["fields"][1]["source_ids"] = [99]
    manifest.update_metadata({"partition_spec_v1": json.dumps(spec)})
    assert (ProblemKind.METADATA, "partition_field_kind") in found(lance_df.verify(root))


def test_appendix_e_describe(root):
    namespace = PartitionedNamespace.open(root)
    namespace.update_partition_spec(["day"])
    namespace.append(ROWS)
    metadata = lance.dataset(root / "__manifest").metadata
    assert namespace.describe() == {"properties": metadata}
    assert namespace.describe("v1") == {"properties": {"partition_spec": metadata["partition_spec_v1"]}}
    directory = lance_df.DirectoryNamespace(root)
    seen = set()
    for row in namespace.partitions().to_pylist():
        *levels, name = row["object_id"].split("$")
        described = [namespace.describe(levels[: depth + 1])["properties"] for depth in range(1, len(levels))]
        if levels[0] == "v1":
            kind = {} if row["kind"] is None else {"partition.kind": row["kind"]}
            assert described == [{"partition.day_year": str(row["day_year"])}, kind]
        else:
            assert described == [{"partition.day": row["day"].isoformat()}]
        seen.add(levels[0])
        for depth in range(1, len(levels) + 1):
            theirs = directory.describe_namespace(levels[:depth]).properties
            assert theirs == namespace.describe_namespace(levels[:depth]).properties
        table = namespace.describe_table([*levels, name], load_detailed_metadata=True)
        assert (table.version, table.table) == (row["read_version"], "dataset")
        assert table.location == str(root / row["location"])
        assert [field["name"] for field in table.var_schema["fields"]] == ROWS.column_names
        assert directory.describe_table([*levels, name]).location == table.location
    assert seen == {"v1", "v2"}
    for call in (namespace.describe, directory.describe_namespace):
        for name in ("v3", "v1$nope", row["object_id"]):
            with pytest.raises(NotFoundError, match=r"namespace .* does not exist"):
                call(name)
    with pytest.raises(DatasetNotFoundError, match="does not exist"):
        namespace.describe_table("v1")
    assert "partition_spec_v2" not in namespace.at(2).describe()["properties"]


def test_values_of_every_type_are_told(tmp_path):
    values = {
        "ns": pa.array([2**62 + 1], pa.timestamp("ns")),
        "far": pa.array([2**40], pa.timestamp("s")),
        "number": pa.array([12345], pa.int64()).cast(pa.decimal128(38, 2)),
        "data": pa.array([b"\xff\x00"], pa.binary()),
        "text": pa.array(["a$b/ü"]),
        "flag": pa.array([True]),
        # as DataFusion writes them, not Arrow: nan, 1e+20, 1E-8
        "nan": pa.array([float("nan")], pa.float32()),
        "large": pa.array([1e20]),
        "small": pa.array([Decimal("0.00000001")], pa.decimal128(38, 8)),
        "wide": pa.array([Decimal("0.00000001")], pa.decimal256(50, 8)),
    }
    rows = pa.table(values)
    namespace = PartitionedNamespace.create(tmp_path, rows.schema, list(values))
    namespace.append(rows)
    levels = namespace.partitions()["object_id"][0].as_py().split("$")[:-1]
    told = {}
    for depth in range(2, len(levels) + 1):
        told |= namespace.describe(levels[:depth])["properties"]
    assert told == {
        "partition.ns": "2116-02-20T23:53:38.427387905",
        "partition.far": "+36812-02-20T00:36:16",
        "partition.number": "12345.00",
        "partition.data": "ff00",
        "partition.text": "a$b/ü",
        "partition.flag": "true",
        "partition.nan": "NaN",
        "partition.large": "1e20",
        "partition.small": "0.00000001",
        "partition.wide": "0.00000001",
    }


def test_values_of_dropped_columns_are_not_expected_of_rows(tmp_path):
    root = tmp_path / "n"
    rows = pa.table({"k": pa.array([1, 1, 2], pa.int64()), "s": ["a", "b", None], "x": [1, 2, 3]})
    namespace = PartitionedNamespace.create(root, rows.schema, ["k", "s"])
    namespace.append(rows)
    namespace.update_partition_spec(["s"])
    namespace.append(rows)
    namespace.drop_columns(["s"])
    assert namespace.verify(deep=True).ok
    namespace.add_columns(pa.schema([("s", pa.string())]))
    assert namespace.verify(deep=True).ok
    # what the other columns tell is still expected, and whoever shows newer versions looks at it
    member = next(each for each in namespace.partitions().to_pylist() if each["k"] == 1)
    for k, found in ((1, 1), (7, 0)):
        lance.dataset(str(root / member["location"])).insert(pa.table({"k": [k], "x": [10 + k]}))
        PartitionedNamespace.repair(root, publish_newer=True)
        assert PartitionedNamespace.open(root).to_table(filter=f"x = {10 + k}").num_rows == found
