"""Tables about a namespace, and its members, in SQL."""

import datetime as dt
from decimal import Decimal

import datafusion
import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import PartitionedNamespace, partition
from lance_df.engine.tables.source import TableSource
from lance_df.errors import ColumnNotFoundError, DatasetNotFoundError, LanceError
from lance_df.table import table as table_module

pytestmark = pytest.mark.engine

ROWS = pa.table(
    {
        "id": pa.array(range(60), pa.int64()),
        "at": [dt.datetime(2024 + i % 2, 1 + i % 3, 1) for i in range(60)],
        "kind": [["a", "b", None][i % 3] for i in range(60)],
        "location": pa.array([Decimal(i // 2 % 2) for i in range(60)], pa.decimal128(5, 1)),
    }
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """``events`` of two spec versions, and a table beside it."""
    folder = tmp_path_factory.mktemp("warehouse")
    namespace = PartitionedNamespace.create(folder / "events", ROWS.schema, ["kind"])
    namespace.append(ROWS)
    namespace.delete("id = 4")
    fields = [partition.year("at", field_id="when"), partition.identity("location")]
    namespace.update_partition_spec(fields)
    namespace.append(ROWS)
    lance.write_dataset(ROWS, folder / "plain.lance")
    return folder


@pytest.fixture
def ctx(root):
    return lance_df.connect(root)


def read(ctx, query):
    return ctx.sql(query).to_arrow_table().to_pylist()


def test_partitions(ctx, root):
    found = ctx.sql("SELECT * FROM events$partitions").to_arrow_table()
    assert found.schema.names == [
        "spec_version", "kind", "when", "partition_field_location", "object_id", "location",
        "read_version", "read_branch", "read_tag", "rows", "fragments", "files", "bytes",
    ]  # fmt: skip
    assert [found.schema.field(name).type for name in ("kind", "when", "partition_field_location")] == [
        pa.string(),
        pa.int32(),
        pa.decimal128(5, 1),
    ]
    partitions = PartitionedNamespace.open(root / "events").partitions()
    assert found["object_id"].to_pylist() == partitions["object_id"].to_pylist()
    for row in found.to_pylist():
        table = lance.dataset(root / "events" / row["location"], version=row["read_version"])
        assert row["rows"] == table.count_rows()
        assert row["files"] == row["fragments"] == len(table.get_fragments())
        assert row["bytes"] > 100
    assert sum(found["rows"].to_pylist()) == 119


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) AS n FROM events$partitions", [{"n": 3 + 4}]),
        ("SELECT rows FROM \"events$partitions\" WHERE kind IS NOT NULL AND kind < 'b'", [{"rows": 20}]),
        ("SELECT kind FROM EVENTS$PARTITIONS WHERE rows = 19 AND spec_version = 1", [{"kind": "b"}]),
        ('SELECT count(*) AS n FROM events$partitions WHERE "when" = 2024.0 OR rows > 19', [{"n": 2 + 2}]),
        (
            "SELECT partition_field_location AS l FROM events$partitions WHERE upper(kind) = 'A'",
            [{"l": None}],
        ),
        ("SELECT sum(rows) AS n, sum(deleted_rows) AS d FROM events$files", [{"n": 120, "d": 1}]),
        ("SELECT count(*) AS n FROM events$files WHERE kind = 'a' AND path LIKE '%.lance'", [{"n": 1}]),
        ("SELECT count(*) AS n FROM events$files f JOIN events$partitions p USING (object_id)", [{"n": 7}]),
        (
            "SELECT field_id, source_columns, transform, expression FROM events$specs WHERE is_current "
            "ORDER BY position",
            [
                {
                    "field_id": "when",
                    "source_columns": ["at"],
                    "transform": "year",
                    "expression": "date_part('year', col0)",
                },
                {
                    "field_id": "location",
                    "source_columns": ["location"],
                    "transform": "identity",
                    "expression": "col0",
                },
            ],
        ),
        (
            "SELECT version, spec_version, partitions_added AS a, partitions_changed AS c, "
            "partitions_removed AS r FROM events$history WHERE partitions_added + partitions_changed > 0",
            [
                {"version": 2, "spec_version": 1, "a": 3, "c": 0, "r": 0},
                {"version": 3, "spec_version": 1, "a": 0, "c": 1, "r": 0},
                {"version": 5, "spec_version": 2, "a": 4, "c": 0, "r": 0},
            ],
        ),
        ("SELECT max(version) AS v FROM events$history", [{"v": 5}]),
        ("SELECT version FROM events$history WHERE false", []),
        (
            "SELECT p.kind, count(e.id) AS n, min(p.rows) AS m FROM events$partitions p LEFT JOIN events e "
            "ON e.kind = p.kind WHERE p.spec_version = 1 GROUP BY 1 ORDER BY 1",
            [
                {"kind": "a", "n": 40, "m": 20},
                {"kind": "b", "n": 39, "m": 19},
                {"kind": None, "n": 0, "m": 20},
            ],
        ),
    ],
)
def test_queries(ctx, query, expected):
    assert read(ctx, query) == expected


def test_members_are_tables(ctx, root):
    for row in PartitionedNamespace.open(root / "events").partitions().to_pylist():
        table = lance.dataset(root / "events" / row["location"], version=row["read_version"]).to_table()
        name = row["object_id"]
        for called in (f'events."{name}"', f'events."{name.removesuffix("$dataset")}"'):
            assert ctx.sql(f"SELECT * FROM {called}").to_arrow_table().sort_by("id") == table.sort_by("id")
    for name in ("v1$nope", "v1", "v1$nope$dataset", row["location"]):
        with pytest.raises(DatasetNotFoundError):
            ctx.sql(f'SELECT * FROM events."{name}"')


def test_names_that_are_none(ctx):
    for name in ("plain$partitions", "events$nope", "nope$partitions", "events$"):
        with pytest.raises(DatasetNotFoundError):
            ctx.sql(f'SELECT * FROM "{name}"')
    with pytest.raises(ColumnNotFoundError):
        ctx.sql("SELECT nope FROM events$files")
    with pytest.raises(LanceError):
        ctx.sql("CREATE TABLE events$files AS SELECT 1")


def test_lists_open_no_member(ctx, root, monkeypatch):
    opened = []
    original = table_module.Table.__init__

    def note(self, *args, **options):
        opened.append(options["location"].uri)
        original(self, *args, **options)

    monkeypatch.setattr(table_module.Table, "__init__", note)
    shown = ctx.sql("SHOW TABLES").to_pydict()
    assert {uri for uri in opened if "__manifest" not in uri} == set()
    names = set(zip(shown["table_schema"], shown["table_name"], strict=True))
    about = {("public", f"events${kind}") for kind in ("partitions", "specs", "files", "history")}
    assert {*about, ("public", "plain")} <= names
    assert not [name for schema, name in names if schema == "events"], "members are not listed"
    first = PartitionedNamespace.open(root / "events").partitions()["object_id"][0].as_py()
    assert ctx.table_exist(f'events."{first}"')
    assert not ctx.table_exist('events."v1$x$dataset"')
    columns = read(
        ctx,
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'events' "
        "OR table_name = 'events$specs'",
    )
    assert len(columns) == 9
    assert {uri.rsplit("/", 1)[1] for uri in opened if "__manifest" not in uri} == {"plain.lance"}


def test_a_statement_sees_one_version_of_all(tmp_path, monkeypatch):
    namespace = PartitionedNamespace.create(tmp_path / "n", ROWS.schema, ["kind"])
    namespace.append(ROWS)
    ctx = lance_df.connect(tmp_path)
    member = namespace.partitions()["object_id"][0].as_py()
    query = (
        "SELECT (SELECT count(*) FROM n) AS rows, (SELECT sum(rows) FROM n$partitions) AS p, "
        "(SELECT sum(rows) FROM n$files) AS f, (SELECT max(version) FROM n$history) AS v, "
        f'(SELECT count(*) FROM n."{member}") AS m'
    )
    assert read(ctx, query) == [{"rows": 60, "p": 60, "f": 60, "v": 2, "m": 20}]
    original = TableSource.current

    def current(self):
        found = original(self)
        namespace.append(ROWS)
        return found

    monkeypatch.setattr(TableSource, "current", current)
    row = read(ctx, query)[0]
    assert row["rows"] == row["p"] == row["f"] == (row["v"] - 1) * 60 == row["m"] * 3


def test_registered_namespaces_have_them_too(root):
    ctx = datafusion.SessionContext()
    lance_df.register(ctx, "mine", root / "events")
    lance_df.register(ctx, "old", PartitionedNamespace.open(root / "events", 2))
    query = "SELECT sum(rows) AS n FROM {}$partitions"
    assert read(ctx, query.format("mine")) == [{"n": 119}]
    assert read(ctx, query.format("old")) == [{"n": 60}]
    assert read(ctx, "SELECT count(*) AS n FROM old$history") == [{"n": 2}]
    assert "mine$files" in ctx.catalog().schema("public").table_names()
    other = lance_df.connect()
    lance_df.register(other, "mine", root / "events")
    assert read(other, "SELECT count(*) AS n FROM mine$specs") == [{"n": 3}]


def test_names_of_any_depth(tmp_path):
    rows = pa.table({"id": [1, 2]})
    lance.write_dataset(rows, tmp_path / "a" / "b" / "C" / "deep.lance")
    directory = lance_df.DirectoryNamespace(tmp_path)
    directory.create_namespace("a")
    directory.create_namespace("a$b")
    directory.create_table("a$t", rows)
    directory.create_table("a$b$t", rows.slice(1))
    directory.create_table("plain", rows)
    hidden = lance_df.DirectoryNamespace(tmp_path, dir_listing_enabled=False)
    hashed = hidden.create_table("Hashed", rows).location.rsplit("/", 1)[1]
    lance.write_dataset(rows, tmp_path / "a" / "own.lance")
    ctx = lance_df.connect(tmp_path)
    for name, count in {
        '"a/b/C".deep': 2, '"a/b/c".deep': 2, "a.t": 2, '"a$b".t': 1, "a$b.t": 1, "a.own": 2, "plain": 2,
        "hashed": 2, '"Hashed"': 2,
    }.items():  # fmt: skip
        assert read(ctx, f"SELECT count(*) AS n FROM {name}") == [{"n": count}], name
    for name in (f'"{hashed}"', '"a/b".deep', '"a/x".t', '"a$x".t', '"a$b".own', '"a/../a".own'):
        with pytest.raises(LanceError):
            ctx.sql(f"SELECT * FROM {name}")
    for name in ('"a/b/C".deep', '"a$b".t', "a.own"):
        report = ctx.explain_scan(f"SELECT x.id FROM {name} x JOIN {name} y ON x.id = y.id")
        assert len(report.tables) == 2
        frame = ctx.sql(f"SELECT x.id FROM {name} x JOIN {name} y ON x.id = y.id")
        assert len(frame.statements[0].tables) == 1, "one version of one table"
    shown = ctx.sql("SHOW TABLES").to_pydict()
    names = set(zip(shown["table_schema"], shown["table_name"], strict=True))
    mine = {(schema, name) for schema, name in names if schema != "information_schema"}
    assert mine == {
        ("public", "plain"), ("public", "Hashed"), ("a", "t"), ("a", "own"), ("a$b", "t"),
    }  # fmt: skip


def test_the_root_of_a_namespace_as_the_folder(root):
    ctx = lance_df.connect(root / "events")
    shown = ctx.sql("SHOW TABLES").to_pydict()
    names = {
        name
        for schema, name in zip(shown["table_schema"], shown["table_name"], strict=True)
        if schema == "public"
    }
    assert names == {"events", *(f"events${kind}" for kind in ("partitions", "specs", "files", "history"))}
    assert read(ctx, "SELECT count(*) AS n FROM events$partitions") == [{"n": 7}]
    member = PartitionedNamespace.open(root / "events").partitions()["object_id"][0].as_py()
    assert read(ctx, f'SELECT count(*) AS n FROM events."{member}"')[0]["n"] in (19, 20)
