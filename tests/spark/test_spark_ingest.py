"""`ingest` on real Spark: sources, queries, bad rows, modes, and what is left when it fails."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    NotFoundError,
)
from lance_df.spark import IngestJob, IngestSource, ingest
from lance_df.spark.ingesting import running
from lance_df.spark.ingesting.own_session import ingest_session

pytestmark = pytest.mark.spark


@pytest.fixture
def flights(tmp_path):
    """A CSV with rows that fit and with some that do not, and the job that takes it in."""
    (tmp_path / "flights.csv").write_text(
        "id,carrier,delay,at\n"
        "1,UA,10,2013-01-01T05:00:00Z\n"
        "2,AA,70000,2013-01-02T05:00:00Z\n"
        "3,,5,2013-02-01T05:00:00Z\n"
        "x,DL,5,2013-02-01T05:00:00Z\n"
        '5,"D""L ü",-5,2013-02-01T05:00:00Z\n'
        "6,DL\n"
        "7,DL,1.5,2013-02-01T05:00:00Z\n"
        "8,B6,,05:00:00\n"
    )
    return IngestJob(
        sources=(IngestSource(name="flights", paths=(str(tmp_path / "flights.csv"),)),),
        target=str(tmp_path / "target"),
        schema="id BIGINT NOT NULL, carrier STRING NOT NULL, delay SMALLINT, at TIMESTAMP NOT NULL",
        partition_by=("month(at)", "expression('ascii(col0) % 2', carrier)"),
        sort_by=("carrier",),
        rejects=str(tmp_path / "rejects"),
        id="monday",
    )


REASONS = {
    "2": ("delay", "VALUE_DOES_NOT_FIT", "string '70000' does not fit smallint"),
    "3": ("carrier", "NULL_NOT_ALLOWED", "string must not be null"),
    "x": ("id", "VALUE_DOES_NOT_FIT", "string 'x' does not fit bigint"),
    "6,DL": (None, "UNREADABLE_RECORD", "the record cannot be read with the schema of its source"),
    "7": ("delay", "VALUE_DOES_NOT_FIT", "string '1.5' does not fit smallint"),
    "8": ("at", "VALUE_DOES_NOT_FIT", "string '05:00:00' does not fit timestamp"),
}


def rows_of(target):
    return lance_df.PartitionedNamespace.open(target).to_table().sort_by("id").to_pylist()


def rows_of_any(target, key):
    return lance_df.PartitionedNamespace.open(target).to_table().sort_by(key).to_pylist()


def reasons_of(rejects, column="id"):
    found = {}
    for row in lance_df.dataset(rejects).to_table().to_pylist():
        text = row["row"]
        key = json.loads(text)[column] if text.startswith("{") else text
        found[key] = row["column"], row["code"], row["reason"]
    return found


def test_rows_that_do_not_fit_go_to_the_rejects_once(spark, flights, tmp_path):
    told = []
    tables = spark.catalog.listTables()
    done = ingest(flights, spark, on_progress=told.append)
    assert [(row["id"], row["carrier"], row["delay"]) for row in rows_of(flights.target)] == [
        (1, "UA", 10),
        (5, 'D"L ü', -5),
    ]
    assert reasons_of(flights.rejects) == REASONS
    assert (done.rows_in, done.rows_out, done.rows_rejected, done.partitions) == (8, 2, 6, 2)
    assert (done.version, done.files, done.rejects_version, done.is_repeated) == (2, 2, 1, False)
    assert all(progress.partitions_done <= progress.partitions for progress in told)
    assert spark.catalog.listTables() == tables

    again = ingest(flights, spark)
    assert (again.version, again.rows_in, again.rows_rejected, again.is_repeated) == (2, 0, 0, True)
    # as after a driver that died between the two commits
    lance_df.write_dataset(lance_df.dataset(flights.rejects).to_table().slice(0, 0), tmp_path / "other")
    mended = ingest(replace(flights, rejects=str(tmp_path / "other")), spark)
    assert (mended.version, mended.rows_out, mended.rows_rejected, mended.is_repeated) == (2, 0, 6, True)
    assert reasons_of(tmp_path / "other") == REASONS

    with pytest.raises(InvalidInputError, match=r"flights: .*; row .") as raised:
        ingest(replace(flights, id="tuesday", rejects=None), spark)
    assert any(reason in str(raised.value) for *_, reason in REASONS.values())
    assert (len(rows_of(flights.target)), running.Target.open(flights).version) == (2, 2)
    assert lance_df.verify(flights.target).ok


def test_a_query_over_sources_of_every_kind_makes_a_table(spark, tmp_path):
    (tmp_path / "a.json").write_text(
        '{"id": 1, "n": {"x": 300}}\n{"id": 2, "n": {"x": 7}}\n{"id": 3,\n{"id": 4, "n": null}\n'
    )
    lance_df.write_dataset(
        pa.table({"id": [1, 2, 4], "name": ["one", "two", None]}), tmp_path / "names.lance"
    )
    pq.write_table(pa.table({"id": [1, 2, 4], "share": [0.5, 0.25, 1e300]}), tmp_path / "shares.parquet")
    spark.sql(
        "CREATE TABLE ingest_more USING parquet AS SELECT * FROM VALUES (1, 10), (2, 20), (4, 40) v(id, more)"
    )
    stored = pa.schema(
        [
            pa.field("id", pa.uint8(), nullable=False),
            ("name", pa.dictionary(pa.int8(), pa.string())),
            ("share", pa.float32()),
            ("n", pa.struct([("x", pa.int16())])),
            ("more", pa.int64()),
            ("left_out", pa.string()),
        ]
    )
    lance_df.write_dataset(stored.empty_table(), tmp_path / "target")
    job = IngestJob(
        sources=(
            IngestSource(name="a", paths=(str(tmp_path / "a.json"),)),
            IngestSource(
                name="the names", paths=(str(tmp_path / "names.lance"),), options={"filter": "id < 4"}
            ),
            IngestSource(name="shares", paths=(str(tmp_path / "shares.parquet"),)),
            IngestSource(name="more", table="ingest_more"),
        ),
        sql="""SELECT id, name, share, n, more * 1000 AS more FROM a LEFT JOIN `the names` USING (id)
               JOIN shares USING (id) JOIN more USING (id); """,
        target=str(tmp_path / "target"),
        sort_by=("id",),
        max_rows_per_file=1,
        rejects=str(tmp_path / "rejects"),
    )
    try:
        done = ingest(job, spark)
        found = lance_df.dataset(job.target)
        assert found.to_table().sort_by("id").to_pylist() == [
            {"id": 1, "name": "one", "share": 0.5, "n": {"x": 300}, "more": 10000, "left_out": None},
            {"id": 2, "name": "two", "share": 0.25, "n": {"x": 7}, "more": 20000, "left_out": None},
        ]
        assert (done.rows_in, done.rows_rejected, done.files, done.partitions) == (4, 2, 2, None)
        rejects = lance_df.dataset(job.rejects).to_table().sort_by("column").to_pylist()
        assert [(row["source"], row["column"], row["run"]) for row in rejects] == [
            (None, "share", done.id),
            ("a", None, done.id),
        ]
        assert rejects[0]["reason"] == "double '1.0E300' does not fit float"
        assert rejects[1]["row"] == '{"id": 3,'
        with pytest.raises(InvalidInputError, match=r'^a: the record cannot be read; row {"id": 3,$'):
            ingest(replace(job, rejects=None), spark)
        assert lance_df.dataset(job.target).version == found.version
    finally:
        spark.sql("DROP TABLE ingest_more")


def test_modes(spark, tmp_path):
    pq.write_table(pa.table({"k": [1, 2], "v": ["new", "new"]}), tmp_path / "new.parquet")
    old = pa.table({"k": [1, 3], "v": ["old", "old"]})
    root = str(tmp_path / "ns")
    lance_df.PartitionedNamespace.create(root, old.schema, ["identity(k)"]).append(old)
    job = IngestJob(
        sources=(IngestSource(paths=(str(tmp_path / "new.parquet"),)),),
        target=root,
        partition_by=("k",),
        mode="overwrite-partitions",
    )

    def values():
        found = lance_df.PartitionedNamespace.open(root).to_table().sort_by("k")
        return list(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))

    assert ingest(job, spark).rows_out == 2
    assert values() == [(1, "new"), (2, "new"), (3, "old")]
    done = ingest(
        replace(job, mode="overwrite", sql="SELECT * FROM source WHERE k = 2", statistics=True), spark
    )
    assert (values(), done.rows_in, done.partitions) == ([(2, "new")], 1, 1)
    # with no id nothing is remembered
    assert not any(
        "lance_df.run" in key for key in running.Target.open(job).snapshot.manifest.table.manifest.config
    )
    with pytest.raises(InvalidInputError, match=r"partitioned by .*, not by bucket"):
        ingest(replace(job, partition_by=("bucket(k, 2)",)), spark)


def test_statistics_that_a_dead_driver_did_not_make_come_with_the_next_run(spark, tmp_path):
    pq.write_table(pa.table({"k": [1, 2], "v": ["new", "new"]}), tmp_path / "new.parquet")
    job = IngestJob(
        sources=(IngestSource(paths=(str(tmp_path / "new.parquet"),)),), target=str(tmp_path / "t"), id="a"
    )
    # as after a driver that died when the rows were committed
    ingest(job, spark)
    done = ingest(replace(job, statistics=True), spark)
    assert (done.version, done.rows_out, done.is_repeated) == (2, 0, True)
    ingest(replace(job, statistics=True, master="sc://nowhere"))  # takes no session
    table = lance_df.dataset(job.target)
    assert (table.version, table.count_rows(), len(table.list_indices())) == (2, 2, 2)
    done = ingest(replace(job, statistics=True, id="b"), spark)
    table = lance_df.dataset(job.target)
    assert (done.version, table.version, table.count_rows()) == (3, 4, 4)
    assert {number for each in table.list_indices() for number in each["fragment_ids"]} == {0, 1}


def test_what_cannot_be_is_said_before_anything_is_written(spark, tmp_path):
    pq.write_table(pa.table({"k": [1], "at": [b"x"]}), tmp_path / "x.parquet")
    (tmp_path / "bad.parquet").write_text("no Parquet")
    (tmp_path / "empty.csv").write_text("")
    source = IngestSource(paths=(str(tmp_path / "x.parquet"),))
    job = IngestJob(sources=(source,), target=str(tmp_path / "t"))
    lance_df.write_dataset(pa.table({"k": [1]}), tmp_path / "table")
    wrong = [
        (
            replace(job, sources=(replace(source, paths=(str(tmp_path / "none.parquet"),)),)),
            NotFoundError,
            "none.parquet",
        ),
        (replace(job, sources=(IngestSource(table="no.such"),)), NotFoundError, "such"),
        (
            replace(job, sources=(IngestSource(format="nonsense", paths=("x",)),)),
            InvalidInputError,
            "nonsense",
        ),
        (
            replace(job, sources=(replace(source, paths=(str(tmp_path / "bad.parquet"),)),)),
            CorruptDataError,
            "bad.parquet",
        ),
        (
            replace(job, sources=(IngestSource(paths=(str(tmp_path / "no.lance"),)),)),
            NotFoundError,
            "no.lance",
        ),
        (replace(job, sources=(replace(source, schema="k NOPE"),)), InvalidInputError, "NOPE"),
        (
            replace(job, sources=(IngestSource(name="none", paths=(str(tmp_path / "empty.csv"),)),)),
            InvalidInputError,
            "source 'none' has no columns",
        ),
        (replace(job, sql="SELECT nope FROM source"), ColumnNotFoundError, "nope"),
        (replace(job, sql="DROP TABLE source"), InvalidInputError, "Syntax error"),
        (replace(job, sql="SELECT 1 AS a, 2 AS a"), InvalidInputError, "duplicate column 'a'"),
        (replace(job, schema="k NOPE"), InvalidInputError, "NOPE"),
        (replace(job, schema="k INT"), ColumnNotFoundError, "column 'at' does not exist"),
        (
            replace(job, schema="k INT, at TIMESTAMP"),
            InvalidInputError,
            "'at' has type binary, but type timestamp in the target",
        ),
        (
            replace(job, schema="k INT, at BINARY, z INT NOT NULL"),
            ColumnNotFoundError,
            "'z' of the target is not nullable",
        ),
        (replace(job, sort_by=("z",)), ColumnNotFoundError, "sort_by: column 'z' does not exist"),
        (replace(job, partition_by=("year(k)",)), InvalidInputError, "year"),
        (replace(job, mode="overwrite-partitions"), InvalidInputError, "no partitions"),
        (replace(job, target=str(tmp_path / "table"), partition_by=("k",)), InvalidInputError, "is a table"),
        (replace(job, master="local[7]"), InvalidInputError, r"not on local\[7\]"),
        (
            replace(job, conf={"spark.executor.memory": "1g"}),
            InvalidInputError,
            "spark.executor.memory cannot be set",
        ),
    ]
    for each, kind, message in wrong:
        with pytest.raises(kind, match=message):
            ingest(each, spark)
    assert not (tmp_path / "t").exists()


def test_a_file_that_vanishes_is_named_and_nothing_is_written(spark, tmp_path, monkeypatch):
    for name in ("a", "b"):
        pq.write_table(pa.table({"k": [1]}), tmp_path / f"{name}.parquet")
    job = IngestJob(sources=(IngestSource(paths=(str(tmp_path / "*.parquet"),)),), target=str(tmp_path / "t"))
    written = running._Run._written

    def after_a_file_is_gone(*args, **kwargs):
        (tmp_path / "b.parquet").unlink()
        return written(*args, **kwargs)

    monkeypatch.setattr(running._Run, "_written", after_a_file_is_gone)
    with pytest.raises(NotFoundError, match=r"b\.parquet"):
        ingest(job, spark)
    with pytest.raises(DatasetNotFoundError):
        lance_df.dataset(job.target)


def test_a_session_of_its_own(spark, tmp_path):
    job = IngestJob(
        sources=(IngestSource(paths=("x.csv",)),),
        target="t",
        conf={"spark.sql.session.timeZone": "Asia/Tokyo"},
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        with ingest_session(job, spark) as own:
            assert own.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
            assert own.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    with (
        pytest.raises(InvalidInputError, match=r"not on sc://elsewhere"),
        ingest_session(replace(job, master="sc://elsewhere"), spark),
    ):
        pass


def test_rejected_rows_keep_microseconds_and_zones(spark, tmp_path):
    (tmp_path / "ids.csv").write_text("id\n1\nx\n")
    query = """
        SELECT id, TIMESTAMP '2024-02-29 12:34:56.123456+02:00' AS at,
            TIMESTAMP_NTZ '1969-12-31 23:59:59.000001' AS local,
            array(TIMESTAMP '2024-01-01 00:00:00Z') AS many
        FROM ids
    """
    job = IngestJob(
        sources=(IngestSource(name="ids", paths=(str(tmp_path / "ids.csv"),)),),
        sql=query,
        target=str(tmp_path / "target"),
        schema="id INT, at TIMESTAMP, local TIMESTAMP_NTZ, many ARRAY<TIMESTAMP>",
        rejects=str(tmp_path / "rejects"),
        conf={"spark.sql.session.timeZone": "Asia/Kolkata"},
    )
    ingest(job, spark)
    (reject,) = lance_df.dataset(tmp_path / "rejects").to_table().to_pylist()
    assert json.loads(reject["row"]) == {
        "id": "x",
        "at": "2024-02-29T16:04:56.123456+05:30",
        "local": "1969-12-31T23:59:59.000001",
        "many": ["2024-01-01T05:30:00.000000+05:30"],
    }


def test_columns_match_whatever_their_case_unless_spark_says_otherwise(spark, tmp_path):
    schema = pa.schema([("Id", pa.int64()), ("carrier", pa.string()), ("n", pa.int32()), ("N", pa.int32())])
    target = str(tmp_path / "target")
    lance_df.PartitionedNamespace.create(target, schema, ["identity(carrier)"])
    records = '{"ID": 1, "Carrier": "UA", "n": 5}\n{"ID": 2, "Carrier": "AA", "n": 6}\n'
    (tmp_path / "a.json").write_text(records)
    source = IngestSource(paths=(str(tmp_path / "a.json"),))
    job = IngestJob(sources=(source,), target=target, sort_by=("ID",))
    ingest(job, spark)
    expected = [
        {"Id": 1, "carrier": "UA", "n": 5, "N": None},
        {"Id": 2, "carrier": "AA", "n": 6, "N": None},
    ]
    assert rows_of_any(target, "Id") == expected
    exact = {"spark.sql.caseSensitive": "true"}
    with pytest.raises(ColumnNotFoundError, match="column 'Carrier' does not exist"):
        ingest(replace(job, conf=exact, sort_by=()), spark)
    with pytest.raises(ColumnNotFoundError, match="column 'ID' does not exist"):
        ingest(replace(job, conf=exact), spark)
    both = "SELECT ID + 2 AS Id, Carrier AS carrier, n, n AS `N` FROM source"
    ingest(replace(job, conf=exact, sql=both, sort_by=()), spark)
    more = [{"Id": 3, "carrier": "UA", "n": 5, "N": 5}, {"Id": 4, "carrier": "AA", "n": 6, "N": 6}]
    assert rows_of_any(target, "Id") == expected + more


def test_a_header_that_is_not_the_schema_stops_the_ingest(spark, tmp_path):
    raw = tmp_path / "raw.csv"
    raw.write_text("name,id\na,1\nb,2\n")

    def job(options, target="t.lance"):
        source = IngestSource(name="raw", paths=(str(raw),), schema="id STRING, name STRING", options=options)
        return IngestJob(sources=(source,), target=str(tmp_path / target))

    with pytest.raises(
        InvalidInputError, match=r"raw\.csv: CSV header does not .*Header: name, id"
    ) as raised:
        ingest(job({}), spark)
    assert "SQLSTATE" not in str(raised.value)
    assert not (tmp_path / "t.lance").exists()
    ingest(job({"enforceSchema": "true"}), spark)
    assert lance_df.dataset(tmp_path / "t.lance").to_table()["id"].to_pylist() == ["a", "b"]
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "1.csv").write_text("id,name\n1,a\n")
    (tmp_path / "two" / "2.csv").write_text("name,id\nb,2\n")
    differing = IngestSource(name="raw", format="csv", paths=(str(tmp_path / "two"),))
    with pytest.raises(InvalidInputError, match="CSV header does not"):
        ingest(IngestJob(sources=(differing,), target=str(tmp_path / "u.lance")), spark)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columns_that_only_some_files_have_are_taken_in_or_refused(spark, tmp_path, kind):
    (tmp_path / "raw").mkdir()
    first = pa.table({"id": pa.array([1], pa.int64()), "v": [1.5]})
    second = pa.table({"v": [2.5], "id": pa.array([2], pa.int64()), "z": ["value"]})
    for name, table in (("1", first), ("2", second)):
        write = pq.write_table if kind == "parquet" else orc.write_table
        write(table, tmp_path / "raw" / f"{name}.{kind}")
    wide = lance_df.write_dataset(second.slice(0, 0).select(["id", "v", "z"]), tmp_path / "wide.lance")
    narrow = lance_df.write_dataset(first.slice(0, 0), tmp_path / "narrow.lance")

    def job(target, **options):
        source = IngestSource(name="raw", format=kind, paths=(str(tmp_path / "raw"),), options=options)
        return IngestJob(sources=(source,), target=target.uri)

    ingest(job(wide), spark)
    rows = lance_df.dataset(wide.uri).to_table().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "v": 1.5, "z": None}, {"id": 2, "v": 2.5, "z": "value"}]
    with pytest.raises(ColumnNotFoundError, match="z"):
        ingest(job(narrow), spark)
    assert lance_df.dataset(narrow.uri).count_rows() == 0


def test_columns_of_different_types_in_files_need_a_schema(spark, tmp_path):
    (tmp_path / "raw").mkdir()
    for name, data_type in (("1", pa.int32()), ("2", pa.int64())):
        pq.write_table(
            pa.table({"id": pa.array([int(name)], data_type)}), tmp_path / "raw" / f"{name}.parquet"
        )

    def job(schema=None):
        source = IngestSource(name="raw", format="parquet", paths=(str(tmp_path / "raw"),), schema=schema)
        return IngestJob(sources=(source,), target=str(tmp_path / "t.lance"))

    with pytest.raises(InvalidInputError, match=r"'raw': .*id: INT and id: BIGINT; give the source a schema"):
        ingest(job(), spark)
    assert not (tmp_path / "t.lance").exists()
    ingest(job("id BIGINT"), spark)
    assert sorted(lance_df.dataset(tmp_path / "t.lance").to_table()["id"].to_pylist()) == [1, 2]


def test_json_of_every_type_is_checked_for_a_query_of_some_columns(spark, tmp_path):
    good, bad = '{"id":1,"m":{"a":1},"s":{"m":{"a":1}},"v":[1]}', '{"id":2,"s":{"m":{"a":"x"}}}'
    other, array = '{"id":3,"m":{"a":"x"}}', '[{"id":4},{"id":"x"}]'
    (tmp_path / "raw.json").write_text("\n".join([good, bad, other, array]))
    schema = "id INT, m MAP<STRING, INT>, s STRUCT<m: MAP<STRING, INT>>, v VARIANT"
    job = IngestJob(
        sources=(IngestSource(name="raw", paths=(str(tmp_path / "raw.json"),), schema=schema),),
        sql="SELECT id, to_json(v) AS v FROM raw",
        target=str(tmp_path / "t.lance"),
        rejects=str(tmp_path / "rejects"),
    )
    assert ingest(job, spark).rows_in == 5
    assert lance_df.dataset(job.target).to_table().to_pylist() == [{"id": 1, "v": "[1]"}]
    texts = lance_df.dataset(job.rejects).to_table()["row"].to_pylist()
    assert sorted(texts) == sorted([bad, other, array, array])


def test_a_table_of_rejects_of_an_earlier_release_gets_the_new_column(spark, flights):
    old = ("run", "source", "column", "reason", "row")
    lance_df.write_dataset(pa.table({name: pa.array(["old"]) for name in old}), flights.rejects)
    assert ingest(flights, spark).rows_rejected == 6
    rows = lance_df.dataset(flights.rejects).to_table().to_pylist()
    assert [row["code"] for row in rows if row["run"] == "old"] == [None]
    assert all(row["code"] for row in rows if row["run"] == "monday")
