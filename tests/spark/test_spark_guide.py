"""The Python and the SQL of docs/spark.md are run, each block over tables of its own."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_df

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
BLOCKS = re.findall(r"^```(python|sql)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)

FLIGHTS = pa.table(
    {
        "month": pa.array([1, 3, 3, 4], pa.int32()),
        "day": pa.array([9, 2, 1, 7], pa.int32()),
        "carrier": ["AA", "UA", "AA", "UA"],
    }
)
EVENTS = pa.table({"ts": [datetime(2024, month, 1) for month in (1, 2, 2, 5)], "id": [1, 2, 3, 4]})


def block(first_words: str) -> tuple[str, str]:
    """Return language and text of the only block that has some text."""
    [found] = [each for each in BLOCKS if first_words in each[1]]
    return found


def run(first_words: str, folder: Path, variables: dict[str, Any]) -> dict[str, Any]:
    """Run a block of Python whose relative paths are those of a folder."""
    language, text = block(first_words)
    assert language == "python"
    exec(compile(text.replace('"./', f'"{folder}/'), str(GUIDE), "exec"), variables)
    return variables


def run_sql(first_words: str, folder: Path, spark: SparkSession) -> list[Any]:
    """Run the statements of a block; return the rows of the last query."""
    language, text = block(first_words)
    assert language == "sql"
    text = re.sub(r"--.*", "", text).replace("'./", f"'{folder}/")
    rows: list[Any] = []
    for statement in filter(str.strip, text.split(";")):
        frame = spark.sql(statement)
        if "SELECT carrier" in statement:
            rows = frame.collect()
    return rows


def test_every_block_is_run_here():
    known = [
        *("lance_df.spark.session(", "stream.writeStream.format", "spark.readStream", "build_statistics"),
        *("lance_df.spark.merge", "foreachBatch"),
        *("TEMPORARY VIEW", "CREATE TABLE all_flights", "CREATE TABLE daily"),
    ]
    assert sorted(block(words) for words in known) == sorted(BLOCKS)


def test_read_and_write(spark, tmp_path):
    lance_df.write_dataset(FLIGHTS, tmp_path / "flights.lance")
    run("lance_df.spark.session(", tmp_path, {})
    assert lance_df.dataset(tmp_path / "march.lance").count_rows() == 2
    namespace = lance_df.PartitionedNamespace.open(tmp_path / "by_month")
    assert namespace.partitions()["month"].to_pylist() == [3]
    assert namespace.to_table()["day"].to_pylist() == [1, 2]


def test_change_rows_and_upsert_batches(spark, tmp_path):
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "events", EVENTS.schema, ["year(ts)"])
    namespace.append(EVENTS)
    changes = spark.createDataFrame(
        [
            (4, datetime(2030, 1, 1), False),
            (11, datetime(2030, 1, 1), True),
            (99, datetime(2031, 1, 1), False),
        ],
        "id long, ts timestamp_ntz, is_gone boolean",
    )
    found = run("lance_df.spark.merge", tmp_path, {"spark": spark, "lance_df": lance_df, "changes": changes})
    summary = found["summary"]
    counts = summary.num_inserted_rows, summary.num_updated_rows, summary.num_deleted_rows
    assert counts == (1, 1, 1)
    rows = opened_rows(tmp_path)
    assert rows == [(4, 2030), (12, 2024), (99, 2031)]

    (tmp_path / "in").mkdir()
    new = pa.table({"id": [4, 5], "ts": [datetime(2040, 1, 1), datetime(2041, 1, 1)]})
    pq.write_table(new, tmp_path / "in" / "a.parquet")
    stream = spark.readStream.schema("id long, ts timestamp_ntz").parquet(str(tmp_path / "in"))
    found = run("foreachBatch", tmp_path, {"lance_df": lance_df, "stream": stream})
    found["query"].awaitTermination()
    assert opened_rows(tmp_path) == [(4, 2040), (5, 2041), (12, 2024), (99, 2031)]
    # Spark runs the batch again, as after a death before its checkpoint
    before = lance_df.PartitionedNamespace.open(tmp_path / "events").version
    found["upsert"](spark.createDataFrame([(4, datetime(1999, 1, 1))], "id long, ts timestamp_ntz"), 0)
    assert lance_df.PartitionedNamespace.open(tmp_path / "events").version == before
    with pytest.raises(lance_df.InvalidInputError, match="several rows of a batch have the key id = 7"):
        found["upsert"](spark.sql("SELECT 7L AS id, TIMESTAMP_NTZ'2020-01-01' AS ts FROM range(2)"), 1)


def opened_rows(folder: Path) -> list[tuple[int, int]]:
    rows = lance_df.PartitionedNamespace.open(folder / "events").to_table().sort_by("id")
    return [(row["id"], row["ts"].year) for row in rows.to_pylist()]


def test_statements_over_a_folder(spark, tmp_path, capsys):
    lance_df.write_dataset(FLIGHTS, tmp_path / "flights.lance")
    try:
        run("CREATE TABLE daily", tmp_path, {"lance_df": lance_df, "spark": spark})
    finally:
        for name in ("flights", "daily", "`daily$partitions`"):
            spark.catalog.dropTempView(name)
    assert capsys.readouterr().out.splitlines()[-1] == "4"
    assert lance_df.PartitionedNamespace.open(tmp_path / "daily").count_rows() == 5


def test_a_stream_is_written_and_read(spark, tmp_path):
    (tmp_path / "incoming").mkdir()
    pq.write_table(EVENTS.drop_columns("ts"), tmp_path / "incoming" / "a.parquet")
    stream = spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "incoming"))
    query = run("stream.writeStream.format", tmp_path, {"stream": stream})["query"]
    query.awaitTermination()
    assert lance_df.dataset(tmp_path / "events").count_rows() == 4
    rows = run("spark.readStream", tmp_path, {"spark": spark})["rows"]
    assert rows.isStreaming
    assert rows.columns == ["id"]


def test_the_pipeline(spark, tmp_path, capsys):
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    df = spark.read.parquet(str(tmp_path / "events.parquet"))
    orders = pa.table({"o_orderkey": [1, 2, 3]})
    items = pa.table({"l_orderkey": [1, 1, 3, 4], "price": [1.0, 2.0, 3.0, 4.0]})
    for name, rows, key in (("orders", orders, "o_orderkey"), ("lineitem", items, "l_orderkey")):
        made = lance_df.PartitionedNamespace.create(tmp_path / name, rows.schema, [f"bucket({key}, 2)"])
        made.append(rows)
    variables = run("build_statistics", tmp_path, {"lance_df": lance_df, "spark": spark, "df": df})
    assert "nothing found" in capsys.readouterr().out
    assert lance_df.PartitionedNamespace.open(tmp_path / "events").count_rows() == 4
    assert variables["joined"].count() == 3


def test_views(spark, tmp_path):
    lance_df.write_dataset(FLIGHTS, tmp_path / "flights.lance")
    spark.createDataFrame([(5, 1, "AA")], "month INT, day INT, carrier STRING").createOrReplaceTempView(
        "new_flights"
    )
    try:
        rows = run_sql("TEMPORARY VIEW", tmp_path, spark)
    finally:
        spark.catalog.dropTempView("flights")
        spark.catalog.dropTempView("new_flights")
    assert sorted(tuple(row) for row in rows) == [("AA", 2), ("UA", 2)]
    assert lance_df.dataset(tmp_path / "flights.lance").count_rows() == 5


def test_tables_of_a_catalog(spark, tmp_path):
    lance_df.write_dataset(FLIGHTS, tmp_path / "flights.lance")
    spark.createDataFrame([(5, 1, "AA")], "month INT, day INT, carrier STRING").createOrReplaceTempView(
        "new_flights"
    )
    try:
        rows = run_sql("CREATE TABLE all_flights", tmp_path, spark)
    finally:
        spark.sql("DROP TABLE IF EXISTS all_flights")
        spark.catalog.dropTempView("new_flights")
    assert sorted(tuple(row) for row in rows) == [("AA", 2), ("UA", 2)]
    assert lance_df.dataset(tmp_path / "flights.lance").count_rows() == 5
