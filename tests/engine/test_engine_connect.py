"""A folder of tables as a database."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import datafusion
import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    AlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    StorageError,
    VersionNotFoundError,
)

pytestmark = pytest.mark.engine


def write(path, num_rows=4, **options):
    return lance.write_dataset(
        pa.table({"id": range(num_rows), "s": [f"v{i}" for i in range(num_rows)]}), path, **options
    )


@pytest.fixture
def root(tmp_path):
    for name in ("trips", "Taxi.Zones", "Fares", "sub/inner", "sub/Deep.er/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / f"{name}.lance")
    (tmp_path / "notes.txt").write_text("no table")
    return tmp_path


@pytest.fixture
def ctx(root):
    return lance_df.connect(root)


def count(ctx, name):
    return ctx.sql(f"SELECT count(*) AS n FROM {name}").to_pydict()["n"][0]


@pytest.mark.parametrize(
    "name",
    ["trips", "TRIPS", '"Taxi.Zones"', '"taxi.zones"', "fares", "Fares", '"Fares"', "public.trips",
     "sub.inner",
     "datafusion.sub.inner", "datafusion.public.trips"],
)  # fmt: skip
def test_names(ctx, name):
    assert count(ctx, name) == 4


@pytest.mark.parametrize(
    "name", ["nope", '"Trips"', "sub.nope", "nope.trips", '"trips.lance"', '"../trips"', "notes"]
)
def test_unknown_names(ctx, name):
    with pytest.raises(LanceError):
        ctx.sql(f"SELECT * FROM {name}")


def test_folders_with_versions_in_them_are_tables_too(ctx, root):
    write(root / "Plain", 5)
    write(root / "sub" / "plain", 6)
    (root / "empty").mkdir()
    assert (count(ctx, "plain"), count(ctx, '"Plain"'), count(ctx, "sub.plain")) == (5, 5, 6)
    assert {"Plain", "trips"} <= set(shown_tables(ctx))
    assert "Plain" not in {row["table_schema"] for row in ctx.sql("SHOW TABLES").to_pylist()}
    with pytest.raises(LanceError):
        ctx.sql('SELECT * FROM "empty"')
    write(root / "Plain.lance", 2)
    assert count(ctx, "plain") == 2


def shown_tables(ctx):
    return [row["table_name"] for row in ctx.sql("SHOW TABLES").to_pylist()]


def test_a_table_as_the_root(root):
    write(root / "plain", 5)
    assert count(lance_df.connect(root / "plain"), "plain") == 5
    assert count(lance_df.connect(root / "trips.lance"), "trips") == 4
    with pytest.raises(InvalidInputError, match=r"notes\.txt: expected a folder, got a file"):
        lance_df.connect(root / "notes.txt")


def test_names_that_differ_in_case_only(ctx, root):
    write(root / "FARES.lance", 6)
    with pytest.raises(InvalidInputError, match="FARES"):
        ctx.sql("SELECT * FROM fares")
    assert (count(ctx, '"FARES"'), count(ctx, '"Fares"')) == (6, 4)


def test_the_folder_is_live(ctx, root):
    with pytest.raises(DatasetNotFoundError, match="fresh"):
        ctx.sql("SELECT * FROM fresh")
    write(root / "fresh.lance", 2)
    assert count(ctx, "fresh") == 2
    write(root / "fresh.lance", 3, mode="append")
    assert count(ctx, "fresh") == 5
    shutil.rmtree(root / "fresh.lance")
    write(root / "fresh.lance", 1)
    assert count(ctx, "fresh") == 1
    shutil.rmtree(root / "fresh.lance")
    with pytest.raises(LanceError):
        ctx.sql("SELECT * FROM fresh")


def test_listing(ctx, root):
    (root / "broken.lance").mkdir()
    shown = ctx.sql("SHOW TABLES").to_pydict()
    tables = set(zip(shown["table_schema"], shown["table_name"], strict=True))
    assert {("public", "trips"), ("public", "Taxi.Zones"), ("public", "broken"), ("sub", "inner")} <= tables
    columns = ctx.sql(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'trips'"
    ).to_pydict()
    assert columns == {"column_name": ["id", "s"]}
    with pytest.raises(DatasetNotFoundError, match="broken"):
        ctx.sql("SELECT * FROM broken")


def test_own_tables_beside_the_folder(ctx, root):
    ctx.sql("CREATE TABLE mine AS SELECT * FROM trips WHERE id < 2")
    ctx.sql("CREATE VIEW seen AS SELECT * FROM trips WHERE id < 3")
    assert (count(ctx, "mine"), count(ctx, "seen")) == (2, 3)
    write(root / "trips.lance", 1, mode="append")
    assert count(ctx, "seen") == 4
    with pytest.raises(LanceError):
        ctx.sql("CREATE TABLE trips AS SELECT 1")
    assert count(ctx, "trips") == 5
    lance_df.register(ctx, "trips", root / "Fares.lance")
    assert count(ctx, "trips") == 4
    lance_df.register(ctx, "sub.other", root / "Fares.lance")
    assert (count(ctx, "sub.other"), count(ctx, "sub.inner")) == (4, 4)


def test_own_schemas_beside_the_folder(ctx):
    for statement in ("CREATE SCHEMA own", "CREATE TABLE own.t AS SELECT 1 AS k"):
        ctx.sql(statement).collect()
    assert ctx.sql("SELECT k FROM own.t").to_pylist() == [{"k": 1}]
    listed = ctx.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'own'")
    assert listed.to_pylist() == [{"table_name": "t"}]
    assert ctx.catalog().schema("own").table_names() == {"t"}


@pytest.mark.parametrize("statement", ["CREATE OR REPLACE TABLE trips AS SELECT 1 AS k", "DROP TABLE trips"])
def test_a_read_only_session_keeps_the_tables_of_the_folder(root, statement):
    ctx = lance_df.connect(root, read_only=True)
    with pytest.raises(InvalidInputError) as caught:
        ctx.sql(statement).collect()
    assert "PyErr" not in str(caught.value)
    assert count(ctx, "trips") == 4


def test_folders_are_the_default_catalog(root):
    config = datafusion.SessionConfig().with_default_catalog_and_schema("my", "own")
    ctx = lance_df.connect(root, config=config)
    assert [count(ctx, name) for name in ("trips", "my.own.trips", "sub.inner", "my.sub.inner")] == [
        4,
        4,
        4,
        4,
    ]


def test_a_table_as_root(root):
    assert count(lance_df.connect(root / "trips.lance"), "trips") == 4


def test_no_root():
    assert lance_df.connect().sql("SELECT 1 AS x").to_pydict() == {"x": [1]}


def test_missing_root(tmp_path):
    with pytest.raises(NotFoundError, match="nothing"):
        lance_df.connect(tmp_path / "nothing")


def test_config_is_used(root):
    config = datafusion.SessionConfig().set("datafusion.execution.batch_size", "1234")
    shown = lance_df.connect(root, config=config).sql("SHOW datafusion.execution.batch_size").to_pydict()
    assert shown["value"] == ["1234"]


def test_memory_store():
    source = pa.table({"id": [1, 2, 3]})
    import tempfile
    from pathlib import Path

    import fsspec

    with tempfile.TemporaryDirectory() as folder:
        lance.write_dataset(source, f"{folder}/t.lance")
        fsspec.filesystem("memory").put(str(Path(folder) / "t.lance"), "/lake/t.lance", recursive=True)
    ctx = lance_df.connect("memory://lake")
    assert count(ctx, "t") == 3
    assert count(ctx, "lance_scan('memory://lake/t.lance')") == 3
    fsspec.filesystem("memory").rm("/lake", recursive=True)


def test_scan_function(ctx, root):
    dataset = write(root / "trips.lance", 2, mode="append")
    dataset.tags.create("first", 1)
    place = root / "trips.lance"
    assert [count(ctx, f"lance_scan('{place}'{rest})") for rest in ("", ", 1", ", 2", ", 'first'")] == [
        6,
        4,
        6,
        4,
    ]
    assert ctx.sql(f"SELECT s FROM lance_scan('{place}') WHERE id = 3 AND s LIKE 'v%'").to_pydict() == {
        "s": ["v3"]
    }
    both = f"lance_scan('{place}', 1) a JOIN lance_scan('{place}', 2) b ON a.id = b.id"
    joined = f"SELECT a.id FROM {both} WHERE a.s LIKE 'v1%'"
    assert ctx.sql(joined).to_pydict() == {"id": [1, 1]}
    report = ctx.explain_scan(f"SELECT * FROM lance_scan('{place}', 1) WHERE id = 3")
    assert report.tables[0].version == 1


def test_what_scans_of_a_table_have_in_common_is_reported_once(ctx, root):
    dataset = lance.dataset(root / "trips.lance")
    dataset.create_scalar_index("id", "ZONEMAP")
    report = ctx.explain_scan("SELECT a.id FROM trips a JOIN trips b ON a.id = b.id WHERE a.id > 7")
    assert [[reason.conjunct for reason in table.reasons] for table in report.tables] == [["id > 7"]] * 2


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("lance_scan()", InvalidInputError),
        ("lance_scan(1)", InvalidInputError),
        ("lance_scan('x', 1.5)", InvalidInputError),
        ("lance_scan('x', 1, 2)", InvalidInputError),
        ("lance_scan('/nothing/here.lance')", DatasetNotFoundError),
        ("lance_scan('{root}/trips.lance', 99)", VersionNotFoundError),
        ("lance_scan('{root}/trips.lance', 'no tag')", LanceError),
        ("lance_scan('strange://x/y')", InvalidInputError),
    ],
)
def test_scan_function_errors(ctx, root, call, error):
    with pytest.raises(error):
        ctx.sql(f"SELECT * FROM {call.format(root=root)}")


def test_external_tables(ctx, root):
    dataset = write(root / "trips.lance", 2, mode="append")
    dataset.tags.create("first", 1)
    location = f"STORED AS LANCE LOCATION '{root}/trips.lance'"
    ctx.sql(f"CREATE EXTERNAL TABLE live {location}")
    ctx.sql(f"CREATE EXTERNAL TABLE old {location} OPTIONS('version' '1')")
    ctx.sql(f"CREATE EXTERNAL TABLE sub.tagged {location} OPTIONS(version first)")
    assert [count(ctx, name) for name in ("live", "old", "sub.tagged")] == [6, 4, 4]
    write(root / "trips.lance", 1, mode="append")
    assert [count(ctx, name) for name in ("live", "old", "sub.tagged")] == [7, 4, 4]
    with pytest.raises(AlreadyExistsError, match="live"):
        ctx.sql(f"CREATE EXTERNAL TABLE live {location}")
    ctx.sql(f"CREATE EXTERNAL TABLE IF NOT EXISTS live {location} OPTIONS('version' '1')")
    assert count(ctx, "live") == 7
    ctx.sql(f"CREATE OR REPLACE EXTERNAL TABLE live {location} OPTIONS('version' '1')")
    assert count(ctx, "live") == 4
    ctx.sql("DROP TABLE live")
    with pytest.raises(DatasetNotFoundError):
        ctx.sql("SELECT * FROM live")
    with pytest.raises(DatasetNotFoundError, match="nothing"):
        ctx.sql("CREATE EXTERNAL TABLE bad STORED AS LANCE LOCATION '/nothing/here'")
    forbidden = datafusion.SQLOptions().with_allow_ddl(False)
    with pytest.raises(InvalidInputError, match="DDL"):
        ctx.sql_with_options(f"CREATE EXTERNAL TABLE bad {location}", forbidden)
    assert not ctx.table_exist("bad")


def test_storage_options_are_in_no_message(ctx, root):
    statement = "CREATE EXTERNAL TABLE t STORED AS LANCE LOCATION 's3://bucket/t' OPTIONS('secret' 'hunter2')"
    with pytest.raises(LanceError) as caught:
        ctx.sql(statement)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "legacy"])
def test_every_file_version(tmp_path, version):
    table = pa.table({"id": range(1000), "s": [None if i % 7 == 0 else f"s{i % 50:03}" for i in range(1000)]})
    lance.write_dataset(
        table,
        tmp_path / "t.lance",
        data_storage_version=version,
        max_rows_per_file=300,
        max_rows_per_group=100,
    )
    lance.dataset(tmp_path / "t.lance").delete("id % 10 = 3")
    memory, ours = datafusion.SessionContext(), lance_df.connect(tmp_path)
    kept = table.filter(pa.array([i % 10 != 3 for i in range(1000)]))
    memory.register_record_batches("t", [kept.to_batches()])
    for query in (
        "SELECT count(*) AS n FROM t",
        "SELECT count(*) AS n, min(id), max(s) FROM t WHERE s LIKE 's01%' OR id BETWEEN 500 AND 510",
        "SELECT id FROM t WHERE s NOT IN ('s001', 's002', 's003', 's004') ORDER BY id LIMIT 7",
        "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY n DESC, s LIMIT 5",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id + 1 WHERE b.s = 's010' ORDER BY 1",
    ):
        assert ours.sql(query).to_pylist() == memory.sql(query).to_pylist()


def test_reading_writes_nothing(root):
    before = sorted((str(path), path.stat().st_mtime_ns) for path in root.rglob("*"))
    ctx = lance_df.connect(root)
    ctx.sql("SELECT * FROM trips WHERE s LIKE 'v%' ORDER BY id").collect()
    ctx.sql("SHOW TABLES").collect()
    assert sorted((str(path), path.stat().st_mtime_ns) for path in root.rglob("*")) == before


def test_storage_errors_surface(root, monkeypatch):
    from lance_df.storage import Location

    ctx = lance_df.connect(root)

    def fail(self):
        raise StorageError(f"{self.uri}: the store is away")

    monkeypatch.setattr(Location, "list", fail)
    with pytest.raises(StorageError, match="the store is away"):
        ctx.sql("SELECT * FROM missing")


def test_a_small_query_loads_what_it_needs(tmp_path):
    """Each module takes a millisecond or more of the first query of a process."""
    lance_df.write_dataset(pa.table({"id": [1, 2, 3], "name": ["a", "b", "b"]}), tmp_path / "t.lance")
    code = """
import sys, lance_df
ctx = lance_df.connect(sys.argv[1])
lance_df.register(ctx, "u", sys.argv[1] + "/t.lance")
for name in ("t", "u"):
    rows = ctx.sql(f"SELECT name, count(*) AS n FROM {name} WHERE id > 1 GROUP BY name").to_pylist()
    assert rows == [{"name": "b", "n": 2}]
print(*sys.modules)
"""
    root = Path(lance_df.__file__).resolve().parents[1]
    found = subprocess.check_output(
        [sys.executable, "-c", code, str(tmp_path)], text=True, env={**os.environ, "PYTHONPATH": str(root)}
    ).split()
    unneeded = {
        *(
            "cython",
            "sqlglot",
            "fsspec",
            "lance_df.file.v2.writer",
            "lance_df.file.v2.joined_files",
            "lance_df.file.legacy.reader",
        ),
        *(
            "lance_df.file.v2.reader_2_0",
            "lance_df.format.operations",
            "lance_df.hashing",
            "lance_df.compute.evaluator",
        ),
        *("lance_df.table.commit", "lance_df.table.indices", "lance_df.table.maintenance"),
        *("lance_df.api", "llvmlite"),
        *(
            "lance_df.namespace.snapshot",
            "lance_df.engine.optimizer.rules.partitioned_join.rule",
            "lance_df.engine.report",
            "lance_df.display",
        ),
    }
    assert unneeded.intersection(found) == set()
    assert sum(name.startswith("lance_df") for name in found) <= 260


@pytest.mark.parametrize(
    "give",
    [
        lambda ctx, _: ctx.register_record_batches("trips", [pa.table({"a": [1]}).to_batches()]),
        lambda ctx, _: ctx.register_view("trips", ctx.sql("SELECT 1 AS a")),
        lambda ctx, folder: ctx.register_csv("trips", str(folder / "x.csv")),
        lambda ctx, _: ctx.from_arrow(pa.table({"a": [1]}), "trips"),
        lambda ctx, _: ctx.create_dataframe([pa.table({"a": [1]}).to_batches()], "trips"),
        lambda ctx, _: ctx.from_pydict({"a": [1]}, "trips"),
    ],
    ids=[
        "register_record_batches",
        "register_view",
        "register_csv",
        "from_arrow",
        "create_dataframe",
        "from_pydict",
    ],
)
def test_no_other_data_gets_the_name_of_a_stored_table(tmp_path, give):
    (tmp_path / "x.csv").write_text("a\n1\n")
    lance_df.write_dataset(pa.table({"id": [7]}), tmp_path / "trips.lance")
    ctx = lance_df.connect(tmp_path)
    with pytest.raises(InvalidInputError, match="a Lance table named 'trips' already exists"):
        give(ctx, tmp_path)
    assert ctx.sql("SELECT * FROM trips").to_pylist() == [{"id": 7}]
