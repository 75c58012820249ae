"""Fixed-size lists of fixed-size lists: all ways to read and to change them return and store their values."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_df
from lance_df.dataset import ColumnOrdering

if TYPE_CHECKING:
    from pathlib import Path

NUM_ROWS = 9_000
VERSIONS = ["2.0", "2.1", "2.2"]
NAMES = ["x", "deep", "s", "l", "n"]
_lists_of = pa.FixedSizeListArray.from_arrays


def nested(count: int, item_type: pa.DataType | None = None) -> pa.FixedSizeListArray:
    return _lists_of(_lists_of(pa.array(range(count * 6)).cast(item_type or pa.int64()), 3), 2)


def rows(start: int = 0, count: int = NUM_ROWS) -> pa.Table:
    """Return rows of values that differ, by number, as slices of longer arrays."""
    size = start + count
    x, numbers = nested(size), pa.array(range(size))
    table = pa.table(
        {
            "i": numbers,
            "v": numbers,
            "p": pc.bit_wise_and(numbers, 3),
            "x": x,
            "deep": _lists_of(nested(size * 2, pa.float32()), 2),
            "s": pa.StructArray.from_arrays([x, numbers.cast(pa.string())], ["x", "t"]),
            "l": pa.ListArray.from_arrays(
                pa.array(range(size + 1), pa.int32()), nested(size, pa.decimal128(20, 0))
            ),
            "n": _lists_of(x.values, 2, mask=pc.equal(pc.bit_wise_and(numbers, 7), 1)),
        }
    )
    return table.slice(start)


@cache
def first_rows() -> list[dict[str, Any]]:
    return rows().to_pylist()


def assert_stored(uri: Any, expected: dict[int, int]) -> None:
    """Compare the rows that both libraries read with those of each number; its value is in ``v``."""
    table = lance_df.dataset(str(uri)).to_table()
    assert lance.dataset(str(uri)).to_table() == table
    stored, whole = table.to_pylist(), first_rows()
    assert {row["i"]: row for row in stored} == {
        number: {**whole[number], "v": value} for number, value in expected.items()
    }
    assert len(stored) == len(expected)


@pytest.fixture(scope="module", params=[(v, w) for v in VERSIONS for w in (lance, lance_df)], ids=str)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    version, library = request.param
    path = str(tmp_path_factory.mktemp("nested") / "t.lance")
    library.write_dataset(rows(), path, data_storage_version=version, max_rows_per_file=4_000)
    return lance_df.dataset(path)


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    return first_rows()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.lists(st.integers(0, NUM_ROWS - 1), min_size=1, max_size=30))
def test_takes(dataset: Any, expected: list[dict[str, Any]], numbers: list[int]) -> None:
    assert dataset.take(numbers).to_pylist() == [expected[number] for number in numbers]
    fragment, *_ = dataset.get_fragments()
    within = [number % 4_000 for number in numbers]
    assert fragment.take(within).to_pylist() == [expected[number] for number in within]
    scanned = dataset.scanner(["x", "i"]).take(numbers)["x"].to_pylist()
    assert scanned == [expected[number]["x"] for number in numbers]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, NUM_ROWS - 1), count=st.integers(1, 3000), step=st.sampled_from([1, 2, 50]))
def test_filters(dataset: Any, expected: list[dict[str, Any]], start: int, count: int, step: int) -> None:
    wanted = [row for row in expected[start : start + count] if row["v"] % step == 0]
    text = f"i >= {start} AND i < {start + count} AND v % {step} = 0"
    assert dataset.to_table(filter=text).to_pylist() == wanted
    index, value = pc.field("i"), pc.field("v")
    chosen = (index >= start) & (index < start + count)
    sieved = chosen & (pc.multiply(pc.divide(value, step), step) == value)
    assert dataset.to_table(filter=sieved).to_pylist() == wanted
    part = dataset.to_table(limit=count, offset=start)
    assert part.filter(pc.field("v") == start)["x"].to_pylist() == [expected[start]["x"]]
    assert part.to_pylist() == expected[start : start + count]


def test_other_reads(dataset: Any, expected: list[dict[str, Any]]) -> None:
    assert all(row == expected[row["i"]] for row in dataset.sample(100).to_pylist())
    statement = lance_df.SessionContext()
    lance_df.register(statement, "t", dataset.uri)
    chosen = statement.sql("SELECT * FROM t WHERE i IN (17, 5017) ORDER BY i DESC").to_arrow_table()
    assert chosen.to_pylist() == [expected[5017], expected[17]]
    for size in (None, 700):
        for batch in dataset.to_batches(batch_size=size):
            last = batch.filter(pc.equal(batch["i"], batch["i"][-1]))
            assert last.to_pylist() == [expected[batch["i"][-1].as_py()]]
    descending = dataset.sort_by([("i", "descending")]).to_table()
    assert descending.to_pylist() == expected[::-1]
    ordered = dataset.scanner(order_by=[ColumnOrdering("v", ascending=False)], limit=5, offset=3)
    assert ordered.to_table().to_pylist() == expected[-4:-9:-1]


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_of_a_table(tmp_path: Path, version: str) -> None:
    uri = tmp_path / "t.lance"
    lance_df.write_dataset(rows(3, 5_000), uri, data_storage_version=version)
    stored = {number: number for number in range(3, 5_003)}
    dataset = lance_df.dataset(uri)
    dataset.update({"v": "-1"}, where="i > 4500 AND i < 4510")
    stored |= dict.fromkeys(range(4_501, 4_510), -1)
    assert_stored(uri, stored)
    dataset.delete("i % 5 = 1")
    stored = {number: value for number, value in stored.items() if number % 5 != 1}
    assert_stored(uri, stored)

    source = rows(4_990, 60)
    source = source.set_column(1, "v", pa.array([-2] * 60))
    source = pa.concat_tables([source.slice(40), source.slice(5, 30)])
    merged = lance_df.dataset(uri).merge_insert("i")
    merged.when_matched_update_all().when_not_matched_insert_all().execute(source)
    stored |= dict.fromkeys(source["i"].to_pylist(), -2)
    part = rows(20, 40).select(["i", *NAMES])
    part = pa.concat_tables([part.slice(30), part.slice(1, 10)])
    lance_df.dataset(uri).merge_insert("i").when_matched_update_all().execute(part)
    assert_stored(uri, stored)

    lance_df.dataset(uri).optimize.compact_files(target_rows_per_fragment=100_000)
    assert_stored(uri, stored)


@pytest.mark.parametrize("version", VERSIONS)
def test_added_columns(tmp_path: Path, version: str) -> None:
    uri = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"i": range(3_000)}), uri, data_storage_version=version)
    lance_df.dataset(uri).delete("i % 3 = 1")
    source = pa.concat_tables([rows(0, 1_000).slice(300), rows(1_000, 2_005), rows(0, 300)])
    lance_df.dataset(uri).merge(source, "i")
    whole = first_rows()
    for library in (lance_df, lance):
        for row in library.dataset(str(uri)).to_table(["i", "x", "s", "deep"]).to_pylist():
            assert row == {name: whole[row["i"]][name] for name in row}


def test_partitions(tmp_path: Path) -> None:
    schema = rows(0, 1).schema
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", schema, ["p"])
    namespace.append(rows(3, 2_000))
    namespace.append(rows(2_003, 50))
    source = rows(1_990, 100)
    namespace.upsert(pa.concat_tables([source, source.slice(50)]), on=["i"], duplicates="last")
    stored = namespace.to_table().to_pylist()
    expected = first_rows()[3:2_090]
    assert sorted(stored, key=lambda row: row["i"]) == expected


INNER_NULL = _lists_of(pa.array([7] * 1_200, pa.int16()), 2, mask=pa.array([True] * 600))
COLUMNS_OF_NULLS = {
    "inner lists": _lists_of(INNER_NULL, 3),
    "some outer lists": _lists_of(INNER_NULL, 3, mask=pa.array([i % 3 == 1 for i in range(200)])),
    "innermost of three": _lists_of(_lists_of(INNER_NULL, 3), 2),
    "those in the middle": _lists_of(
        _lists_of(_lists_of(pa.array([7] * 1_200), 2), 3, mask=pa.array([True] * 200)), 2
    ),
    "bools": _lists_of(_lists_of(pa.array([True] * 1_200), 3, mask=pa.array([True] * 400)), 2),
    "in structs": pa.StructArray.from_arrays([_lists_of(INNER_NULL, 3), pa.array(range(200))], ["a", "b"]),
}


@pytest.mark.parametrize("metadata", [None, {"lance-encoding:structural-encoding": "fullzip"}], ids=str)
@pytest.mark.parametrize("version", VERSIONS)
def test_inner_lists_that_are_all_null(tmp_path: Path, version: str, metadata: dict[str, str] | None) -> None:
    for name, values in COLUMNS_OF_NULLS.items():
        table = pa.table([values], schema=pa.schema([pa.field("x", values.type, metadata=metadata)]))
        for library in (lance, lance_df):
            uri = tmp_path / f"{name} {library.__name__}"
            library.write_dataset(table, uri, data_storage_version=version)
            for reader in (lance, lance_df):
                assert reader.dataset(uri).to_table()["x"].to_pylist() == values.to_pylist()
            assert lance_df.dataset(uri).take([3, 1])["x"].to_pylist() == [
                values[3].as_py(),
                values[1].as_py(),
            ]
