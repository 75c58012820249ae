"""What pyarrow, and plain DataFusion, make of datasets: they read them, or say why not, and never crash."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import lance_df
from lance_df.errors import InvalidInputError

pytestmark = pytest.mark.engine

ROWS = pa.table({"a": range(900), "s": [f"x{n % 3}" if n % 5 else None for n in range(900)]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    lance_df.write_dataset(ROWS, folder / "t.lance", max_rows_per_file=300, statistics=True)
    namespace = lance_df.PartitionedNamespace.create(folder / "n", ROWS.schema, ["s"])
    namespace.append(ROWS)
    return folder


@pytest.mark.parametrize("name", ["t.lance", "n"])
def test_functions_in_native_code_raise_errors(folder: Path, name: str) -> None:
    code = f"""
import faulthandler
import pyarrow as pa, pyarrow.dataset as pads, lance_df
opened = lance_df.{"dataset" if name == "t.lance" else "PartitionedNamespace.open"}({str(folder / name)!r})
plain = pads.dataset(pa.table({{"a": [1], "s": ["x"]}}))
for call in (
    lambda: pads.Scanner.from_dataset(opened).to_table(),
    lambda: pads.Scanner.from_dataset(opened).count_rows(),
    lambda: pads.Scanner.from_dataset(opened, columns=["a"]),
    lambda: pads.Scanner.from_fragment(opened.get_fragments()[0]),
    lambda: pads.UnionDataset(opened.schema, [opened]),
    lambda: pads.dataset([opened, opened]),
    lambda: plain.join(opened, "a").to_table(),
):
    try:
        print("no error:", call())
    except Exception as err:
        print(type(err).__name__, "scanner()" in str(err))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 7
    assert lines[:3] == ["NotImplementedError True", "NotImplementedError True", "ArrowInvalid True"]
    assert not [line for line in lines if line.startswith("no error")]


@pytest.mark.parametrize("name", ["t.lance", "n"])
def test_pyarrow_writes_them_to_files(folder: Path, tmp_path: Path, name: str) -> None:
    opened = (
        lance_df.dataset(folder / name)
        if name == "t.lance"
        else lance_df.PartitionedNamespace.open(folder / name)
    )
    pads.write_dataset(opened, tmp_path / "a", format="parquet")
    pads.write_dataset(opened.scanner(["a"], pc.field("a") < 9), tmp_path / "b", format="parquet")
    assert pads.dataset(tmp_path / "a").to_table().sort_by("a").equals(ROWS)
    assert sorted(pads.dataset(tmp_path / "b").to_table()["a"].to_pylist()) == list(range(9))


def test_a_plain_session_of_datafusion_takes_tables(folder: Path) -> None:
    ctx, memory = datafusion.SessionContext(), datafusion.SessionContext()
    ctx.register_dataset("t", lance_df.dataset(folder / "t.lance"))
    memory.from_arrow(ROWS, name="t")
    for query in (
        "SELECT count(*) AS n FROM t WHERE a >= 850",
        "SELECT * FROM t WHERE s = 'x1' AND a % 7 = 3 ORDER BY a",
        "SELECT s, sum(a) AS n FROM t GROUP BY s ORDER BY s NULLS LAST",
        "SELECT a FROM t ORDER BY a DESC LIMIT 3",
    ):
        assert ctx.sql(query).to_pylist() == memory.sql(query).to_pylist()


@pytest.mark.parametrize(
    ("options", "view"),
    [
        ({"filter": "a % 3 = 0"}, "SELECT * FROM rows WHERE a % 3 = 0"),
        ({"filter": pc.field("a") > 400}, "SELECT * FROM rows WHERE a > 400"),
        ({"filter": "a > 4", "order_by": ["a"], "columns": ["a"]}, "SELECT a FROM rows WHERE a > 4"),
        ({"columns": {"a": "a + 1", "up": "upper(s)"}}, "SELECT a + 1 AS a, upper(s) AS up FROM rows"),
        ({"columns": {"a": "a + 1"}, "filter": "a < 9"}, "SELECT a + 1 AS a FROM rows WHERE a < 9"),
    ],
)
def test_a_plain_session_takes_tables_with_default_scan_options(
    folder: Path, options: dict[str, Any], view: str
) -> None:
    ctx, memory = datafusion.SessionContext(), datafusion.SessionContext()
    ctx.register_dataset("t", lance_df.dataset(folder / "t.lance", default_scan_options=options))
    memory.from_arrow(ROWS, name="rows")
    memory.register_table("t", memory.sql(view).into_view())
    for query in (
        "SELECT count(*) AS n FROM t",
        "SELECT * FROM t ORDER BY a",
        "SELECT a FROM t WHERE a = 3 OR a % 7 = 4 ORDER BY a DESC LIMIT 3",
    ):
        assert ctx.sql(query).to_pylist() == memory.sql(query).to_pylist()


def test_engines_that_scan_fragments_refuse_a_default_limit(folder: Path) -> None:
    ds = lance_df.dataset(folder / "t.lance", default_scan_options={"limit": 2})
    with pytest.raises(InvalidInputError, match="limit"):
        ds.get_fragments()[0].scanner(ds.schema)


@pytest.mark.parametrize("options", [{"columns": {"b": "a + 1"}}, {"filter": "a > 4"}], ids=str)
def test_engines_filter_what_default_scan_options_make_by_expressions(
    folder: Path, options: dict[str, Any]
) -> None:
    ds = lance_df.dataset(folder / "t.lance", default_scan_options=options)
    name = ds.schema.names[0]
    scanner = ds.get_fragments()[0].scanner(ds.schema, columns=[name], filter=pc.field(name) < 10)
    expected = [value for value in ds.to_table()[name].to_pylist() if value < 10]
    assert scanner.projected_schema.names == [name]
    assert scanner.to_table()[name].to_pylist() == scanner.head(99)[name].to_pylist() == expected
    assert scanner.count_rows() == len(expected)
    with pytest.raises(InvalidInputError, match="expected a pyarrow expression"):
        ds.get_fragments()[0].scanner(ds.schema, filter="b < 10")


def test_fragments_of_a_filter_are_those_that_may_match(folder: Path) -> None:
    ds = lance_df.dataset(folder / "t.lance")
    assert [each.fragment_id for each in ds.get_fragments(pc.field("a") >= 850)] == [2]
    assert len(ds.get_fragments(pc.field("a") + 1 > 3)) == 3
    fragment = ds.get_fragments()[1]
    assert fragment.scanner(ds.schema, columns=["a"]).to_table()["a"].to_pylist() == list(range(300, 600))
    with pytest.raises(InvalidInputError, match="columns="):
        fragment.scanner(pa.schema([("b", pa.int64())]))
    with pytest.raises(InvalidInputError, match="expression"):
        ds.get_fragments("a > 1")  # type: ignore[arg-type]


def test_classes_are_taken_for_those_of_pyarrow(folder: Path) -> None:
    ds = lance_df.dataset(folder / "t.lance")
    assert isinstance(ds, pads.Dataset)
    assert isinstance(ds.scanner(), pads.Scanner)
    assert isinstance(ds.get_fragments()[0], pads.Fragment)
    assert isinstance(ds, lance_df.LanceDataset)
    assert type(ds.scanner()).__name__ == "LanceScanner"


def test_filters_of_a_dataset_and_of_a_scan_both_hold(folder: Path) -> None:
    some = lance_df.dataset(folder / "t.lance").filter(pc.field("a") > 890)
    assert some.to_table(["a"], pc.field("a") < 893)["a"].to_pylist() == [891, 892]
    assert some.to_table(["a"], "a < 893")["a"].to_pylist() == [891, 892]
    assert some.count_rows("a < 893") == 2
    assert some.count_rows() == 9
    assert "fragments: 1 of 3" in some.scanner(filter="a < 893").explain_plan()


def test_relative_paths_travel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    sent = pickle.dumps(lance_df.dataset("t.lance"))
    monkeypatch.chdir("/")
    again = pickle.loads(sent)
    assert again.uri == "t.lance"
    assert again.count_rows() == 900
