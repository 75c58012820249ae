"""Tables through the data source: reading, options, one snapshot, writing in one commit."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructType

import lance_df
from lance_df.errors import ColumnNotFoundError, InvalidInputError, VersionNotFoundError
from lance_df.spark.failures import cause_of, typed_errors
from lance_df.spark.source import LanceSource

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "s": [f"name {i % 7}" for i in range(1000)]})


@pytest.fixture
def table(tmp_path):
    lance_df.write_dataset(ROWS, tmp_path / "t.lance", max_rows_per_file=100)
    return str(tmp_path / "t.lance")


def read(spark, path, **options):
    return spark.read.format("lance_df").options(**options).load(path)


def write(df, path, mode="append", **options):
    df.write.format("lance_df").mode(mode).options(**options).save(path)


def ids(df):
    return sorted(df.toArrow()["id"].to_pylist())


def test_a_table_is_read_whole(spark, table):
    assert read(spark, table).toArrow().sort_by("id") == ROWS


def test_columns_and_filters_are_options(spark, table):
    assert read(spark, table, columns="id", filter="id >= 998").toArrow().to_pydict() == {"id": [998, 999]}
    # not a plain comparison: computed by DataFusion in the tasks
    assert ids(read(spark, table, filter="id % 100 = 7 and s like '%e 2'")) == [107, 807]
    assert read(spark, table, columns='["s"]', filter="id = 3").toArrow().to_pydict() == {"s": ["name 3"]}
    assert read(spark, table, filter="id < 0").count() == 0
    by_name = lance_df.spark.read(spark, table, columns=["s", "id"], filter="id = 3")
    assert by_name.toArrow().to_pydict() == {"s": ["name 3"], "id": [3]}
    assert ids(spark.read.format("lance_df").schema("id int").load(table).where("id > 997")) == [998, 999]


def test_names_of_columns_may_begin_and_end_with_blanks(spark, tmp_path):
    path = str(tmp_path / "t")
    lance_df.write_dataset(pa.table({" b ": [1], "c,d": [2], "e": [3]}), path)
    df = lance_df.spark.read(spark, path, columns=[" b ", "c,d"])
    assert df.toArrow().to_pydict() == {" b ": [1], "c,d": [2]}
    less = lance_df.spark.prune(read(spark, path).select("` b `"))
    assert less.toArrow().to_pydict() == {" b ": [1]}
    assert read(spark, path, columns=" e ").columns == ["e"]


def test_versions_tags_and_branches(spark, table):
    dataset = lance_df.dataset(table)
    dataset.tags.create("golden", 1)
    branch = dataset.create_branch("side")
    branch.delete("id >= 10")
    dataset.delete("id >= 20")
    assert read(spark, table).count() == 20
    assert read(spark, table, version=1).count() == 1000
    assert read(spark, table, tag="golden").count() == 1000
    assert read(spark, table, branch="side").count() == 10
    assert lance_df.spark.read(spark, table, version="golden").count() == 1000
    with pytest.raises(VersionNotFoundError, match="tag 'gone' does not exist"):
        lance_df.spark.read(spark, table, version="gone")
    with pytest.raises(InvalidInputError, match="a list of names, got 'id'"):
        lance_df.spark.read(spark, table, columns="id")


def test_a_data_frame_stays_at_its_version(spark, table):
    df = read(spark, table)
    # nor does the condition of one query stay for the next one
    assert df.where("id > 997").count() == 2
    assert df.count() == 1000
    lance_df.dataset(table).delete("id >= 10")
    assert df.alias("a").join(df.alias("b"), "id").count() == 1000
    assert read(spark, table).count() == 10


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"version": 7}, VersionNotFoundError, "7"),
        ({"columns": "id, nope"}, ColumnNotFoundError, "nope"),
        ({"filter": "nope > 1"}, ColumnNotFoundError, "nope"),
        ({"filter": "id >"}, InvalidInputError, "id >"),
        ({"colunms": "id"}, InvalidInputError, "colunms"),
        ({"version": "x"}, InvalidInputError, "number of at least 1"),
        ({"version": 1, "tag": "golden"}, InvalidInputError, "cannot be combined"),
        ({"branch": "side", "tag": "golden"}, InvalidInputError, "already names its branch"),
        ({"columns": "[]"}, InvalidInputError, "select at least one column"),
    ],
)
def test_mistakes_in_reads_are_typed(table, options, kind, words):
    # as Spark calls it; what it makes of errors: `test_what_spark_reports_keeps_the_error_as_its_cause`
    def run():
        source = LanceSource({"path": table, **{name: str(value) for name, value in options.items()}})
        reader = source.reader(source.schema())
        for split in reader.partitions():
            next(reader.read(split))

    with pytest.raises(kind, match=words):
        run()


def test_append_is_one_version_whatever_the_number_of_tasks(spark, table):
    rows = spark.range(5000, 5100).selectExpr("id", "CAST(NULL AS STRING) AS s").repartition(4)
    write(rows, table)
    dataset = lance_df.dataset(table)
    assert (dataset.version, dataset.count_rows()) == (2, 1100)
    assert dataset.count_rows("s IS NULL") == 100
    dataset.validate()


def test_tables_come_to_be_and_are_replaced(spark, tmp_path):
    path = str(tmp_path / "new.lance")
    write(spark.range(10), path)
    write(spark.range(5), path, "overwrite", dataStorageVersion="2.1")
    dataset = lance_df.dataset(path)
    assert (dataset.version, ids(read(spark, path))) == (2, [0, 1, 2, 3, 4])
    assert dataset.data_storage_version == "2.1"
    write(spark.range(3).selectExpr("CAST(id AS STRING) AS word"), path, "overwrite")
    assert read(spark, path).columns == ["word"]
    write(spark.range(0).selectExpr("CAST(id AS STRING) AS word"), path, "overwrite")
    assert read(spark, path).count() == 0


def test_columns_go_by_name_and_may_be_left_out(spark, table):
    write(spark.createDataFrame([("a", 2000)], "s string, id int"), table)
    write(spark.range(2001, 2002), table)
    new = lance_df.dataset(table).to_table(filter="id >= 2000").sort_by("id")
    assert new.to_pydict() == {"id": [2000, 2001], "s": ["a", None]}


def test_rows_that_do_not_fit_are_refused(spark, table):
    for name in "more", "ID":
        with pytest.raises(InvalidInputError, match=f"column '{name}' does not exist"):
            LanceSource({"path": table}).writer(StructType().add(name, LongType()), overwrite=False)
    with pytest.raises(InvalidInputError, match="'id'"), typed_errors():
        write(spark.sql("SELECT 'x' AS id"), table)
    assert lance_df.dataset(table).version == 1


def test_options_that_writes_refuse(table):
    columns = StructType().add("id", LongType())
    for name, value, words in (
        ("version", "1", "version"),
        ("startingVersion", "1", "startingVersion"),
        ("runId", "", "run id must not be empty"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            LanceSource({"path": table, name: value}).writer(columns, overwrite=False)


def test_what_spark_reports_keeps_the_error_as_its_cause(spark, table):
    with pytest.raises(PySparkException) as raised:
        read(spark, table, columns="nope").count()
    assert isinstance(cause_of(raised.value), ColumnNotFoundError)
    with pytest.raises(ColumnNotFoundError) as typed, typed_errors():
        read(spark, table, columns="nope").count()
    assert isinstance(typed.value.__cause__, PySparkException)
    assert cause_of(ValueError("lance_df.errors.Nothing: x")) is None
