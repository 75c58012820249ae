"""`scan_lance`: whatever Polars asks, the answer is that of the same rows in memory."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import partition
from lance_df.api.namespaces.reading import NamespaceReading
from lance_df.errors import DatasetNotFoundError, InvalidInputError, VersionNotFoundError
from lance_df.polars_predicates import to_arrow_expression

pytestmark = pytest.mark.engine

NUM_ROWS = 1_200
FLOATS = [1.5, -0.0, 0.0, float("nan"), -float("nan"), None, -3.0, float("inf")]


def rows() -> pa.Table:
    numbers = range(NUM_ROWS)
    start = dt.datetime(2024, 1, 1)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "g": pa.array([i % 200 for i in numbers], pa.int32()),
            "s": [f"x{i % 7}" if i % 11 else None for i in numbers],
            "t": pa.array([start + dt.timedelta(hours=i) for i in numbers], pa.timestamp("us")),
            "f": pa.array([FLOATS[i % 8] for i in numbers]),
            "b": pa.array([[True, False, None][i % 3] for i in numbers]),
            "d": pa.array([start.date() + dt.timedelta(i % 50) for i in numbers]),
            "p": pa.array([Decimal(i) / 4 for i in numbers], pa.decimal128(12, 2)),
            "l": [list(range(i % 4)) for i in numbers],
        }
    )


ROWS = rows()
c = pl.col
PUSHED = [
    *(c("id") > 1_100, c("id") <= 5, pl.lit(10) > c("id"), c("g").is_in([3, 7]), c("g") == 7, c("s") == "x3"),
    *(c("s") != "x3", c("s").is_null(), c("id").is_not_null(), ~(c("s") == "x3"), c("f") > 0, c("f") >= 0.0),
    *(c("f") < 0, c("f") == 0, c("f") != 0, ~(c("f") > 0), c("f").is_in([0.0, 1.5]), c("b"), ~c("b")),
    *(
        c("b") | (c("g") == 3),
        c("d") >= dt.date(2024, 2, 1),
        c("s").str.starts_with("x3"),
        c("p") > Decimal("99.5"),
    ),
    *(c("t").is_between(dt.datetime(2024, 1, 3), dt.datetime(2024, 1, 5)), c("t") > dt.date(2024, 2, 1)),
    *(c("g").is_between(3, 5, closed="none"), ~c("g").is_in([3]), c("s") > "x5"),
    (c("id") > 1_100) & (c("s").str.to_uppercase() == "X3"),
]
LEFT_TO_POLARS = [
    *(~(c("f") < 0), c("f").is_nan(), c("f") > float("nan"), c("f") == float("nan"), c("id") > c("g")),
    *(c("id") + c("g") > 1_000, c("s").str.to_uppercase() == "X3", c("t").dt.year() == 2024, pl.lit(True)),
    *(c("s").is_in(["x1", None]), c("g").is_in([3, None], nulls_equal=True), c("g").eq_missing(3)),
    *(c("l").list.len() > 2, c("id") > 1.5),
    c("g").map_elements({3}.__contains__, return_dtype=pl.Boolean),
    (c("g") == 3) | (c("s").str.len_chars() == 1),
]
QUERIES = {
    "filter": lambda frame, predicate: frame.filter(predicate),
    "columns": lambda frame, predicate: frame.filter(predicate).select("s", "id"),
    "other columns": lambda frame, predicate: frame.filter(predicate).select("d"),
    "head before": lambda frame, predicate: frame.head(50).filter(predicate),
    "head after": lambda frame, predicate: frame.filter(predicate).head(3),
    "tail": lambda frame, predicate: frame.filter(predicate).tail(2),
    "length": lambda frame, predicate: frame.filter(predicate).select(pl.len()),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("polars")
    lance_df.write_dataset(ROWS, folder / "t.lance", max_rows_per_file=300)
    made = lance_df.PartitionedNamespace.create(folder / "n", ROWS.schema, [partition.identity("g")])
    made.append(ROWS)
    return folder


@pytest.fixture(scope="module")
def frames(folder: Path) -> dict[str, tuple[pl.LazyFrame, pl.LazyFrame]]:
    """Lazy frames of a table and a namespace, each with its rows in memory."""
    table = lance_df.dataset(folder / "t.lance")
    namespace = lance_df.PartitionedNamespace.open(folder / "n")
    return {
        "table": (lance_df.scan_lance(folder / "t.lance"), table.to_polars().lazy()),
        "namespace": (lance_df.scan_lance(namespace), namespace.to_polars().lazy()),
    }


def queries_of(name: str, number: int) -> list[str]:
    """Return all queries; of a namespace, which has 200 members, the first one and another one in turn."""
    first, *others = QUERIES
    return [first, *(others if name == "table" else [others[number % len(others)]])]


@pytest.mark.parametrize(("number", "predicate"), [*enumerate([*PUSHED, *LEFT_TO_POLARS])], ids=str)
@pytest.mark.parametrize("name", ["table", "namespace"])
def test_answers_are_those_of_memory(frames: Any, name: str, number: int, predicate: pl.Expr) -> None:
    lazy, memory = frames[name]
    for query in map(QUERIES.__getitem__, queries_of(name, number)):
        answer, wanted = query(lazy, predicate).collect(), query(memory, predicate).collect()
        assert answer.schema == wanted.schema
        assert answer.equals(wanted)


@pytest.mark.parametrize("predicate", PUSHED, ids=str)
def test_what_both_mean_is_pushed(predicate: pl.Expr) -> None:
    seen: list[Any] = []

    def source(_: object, pushed: Any, *__: object) -> Any:
        seen.append(pushed)
        yield pl.DataFrame(schema=schema)

    from polars.io.plugins import register_io_source

    schema = pl.DataFrame(pl.from_arrow(ROWS.schema.empty_table())).schema
    register_io_source(source, schema=schema).filter(predicate).collect()
    assert to_arrow_expression(seen[-1], ROWS.schema) is not None


@pytest.mark.parametrize("predicate", LEFT_TO_POLARS, ids=str)
def test_what_may_mean_something_else_is_not(predicate: pl.Expr) -> None:
    assert to_arrow_expression(predicate, ROWS.schema) is None


def test_partitions_and_columns_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scanners: list[Any] = []
    scanner = NamespaceReading.scanner

    def spy(*args: Any, **options: Any) -> Any:
        scanners.append(scanner(*args, **options))
        return scanners[-1]

    monkeypatch.setattr(NamespaceReading, "scanner", spy)
    lazy = lance_df.scan_lance(str(folder / "n"))
    assert lazy.filter(c("g") == 7, c("s").str.len_chars() == 2).select("id").collect().height == 5
    assert "partitions: 1 of 200" in scanners[-1].explain_plan()
    assert set(scanners[-1].projected_schema.names) == {"id", "g", "s"}
    assert lazy.head(3).collect().height == 3
    assert "limit=3" in repr(scanners[-1])


def test_engines_plans_and_pickles(frames: Any) -> None:
    lazy, memory = frames["namespace"]
    query, wanted = (each.group_by("s").len().sort("s") for each in (lazy, memory))
    for engine in ("streaming", "in-memory"):
        assert query.collect(engine=engine).equals(wanted.collect())
    assert pickle.loads(pickle.dumps(query)).collect().equals(wanted.collect())
    assert "SELECTION" in lazy.filter(c("g") == 7).explain()


def test_it_stays_at_its_version(tmp_path: Path) -> None:
    ds = lance_df.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t.lance")
    lazy = lance_df.scan_lance(ds)
    ds.delete("a = 1")
    assert lazy.collect()["a"].to_list() == [1, 2]
    assert lance_df.scan_lance(ds).collect()["a"].to_list() == [2]
    assert lance_df.scan_lance(tmp_path / "t.lance", version=1).collect().height == 2
    with pytest.raises(VersionNotFoundError):
        lance_df.scan_lance(tmp_path / "t.lance", version=7)
    with pytest.raises(DatasetNotFoundError):
        lance_df.scan_lance(tmp_path / "nothing")
    with pytest.raises(InvalidInputError, match="path"):
        lance_df.scan_lance(7)


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_filters_of_open_objects_apply_to_other_versions(kind: str, tmp_path: Path) -> None:
    ids = pa.table({"id": range(10)})
    source: Any
    if kind == "table":
        source = lance_df.write_dataset(ids, tmp_path)
    else:
        source = lance_df.PartitionedNamespace.create(tmp_path, ids.schema, [partition.bucket("id", 2)])
        source.append(ids)
    first = source.version
    source.delete("id < 3")
    filtered = source.filter(pc.field("id") < 7)
    assert lance_df.scan_lance(filtered).collect().height == 4
    assert lance_df.scan_lance(filtered, version=first).collect().height == 7
    assert lance_df.scan_lance(source, version=first).collect().height == 10


def test_versions_of_namespaces_are_numbers(folder: Path) -> None:
    assert lance_df.scan_lance(folder / "n", version=1).collect().height == 0
    with pytest.raises(InvalidInputError, match="number"):
        lance_df.scan_lance(folder / "n", version="tag")
