"""B-tree, bitmap and Bloom filter indices: built, extended, moved and dropped, with pylance as the oracle."""

from __future__ import annotations

import decimal
import math
import random
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    IndexAlreadyExistsError,
    InvalidInputError,
    RetryableConflictError,
    UnsupportedFeatureError,
)
from lance_df.expr.nodes import Column, Comparison, Operator
from lance_df.scan.options import ScanOptions
from lance_df.scan.request import ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.indices import prune
from lance_df.table.maintenance import scalar_index, sorted_entries
from lance_df.table.maintenance.compaction import commit_rewrites, rewrite
from lance_df.table.maintenance.compaction_options import compaction_options
from lance_df.table.open import open_table
from lance_df.table.scan.plan import plan_scan

ROWS, PER_FRAGMENT = 240, 90
KINDS = ("BTREE", "BITMAP", "BLOOMFILTER")
NAMES = {"BTREE": "BTree", "BITMAP": "Bitmap", "BLOOMFILTER": "BloomFilter"}
FILES = {
    "BTREE": ("page_data.lance", "page_lookup.lance"),
    "BITMAP": ("bitmap_page_lookup.lance",),
    "BLOOMFILTER": ("bloomfilter.lance",),
}
UNHASHED = {"half", "bool", "decimal128", "decimal256", "duration", "fixed"}


def repeated(values: list[Any], data_type: pa.DataType) -> pa.Array:
    """Return the values again and again, with a NULL after each time, and none in the last fragment."""
    cycle = [*values, None]
    return pa.array(
        [cycle[row % len(cycle)] if row < 180 else values[row % len(values)] for row in range(ROWS)],
        data_type,
    )


def integers(data_type: pa.DataType) -> pa.Array:
    limits = np.iinfo(data_type.to_pandas_dtype())
    return repeated([limits.min, limits.max, 0, 1, 7, 100], data_type)


FLOATS = [1.5, -math.inf, math.inf, math.nan, -math.nan, 0.0, -0.0, -2.25, 5e-324, 1000.0]


@cache
def data() -> pa.Table:
    texts = ["", "a", "é", "z\0", "日本", "a" * 300, "\U0010ffff"]
    moments = [0, -1, 86_400_000_000, 1_700_000_000_000_000, -(10**12)]
    columns = {
        **{str(kind): integers(kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
        **{str(kind): integers(kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
        "half": repeated(list(np.array(FLOATS, np.float16)), pa.float16()),
        "float": repeated(list(np.array(FLOATS, np.float32)), pa.float32()),
        "double": repeated(FLOATS, pa.float64()),
        "bool": repeated([True, False, True], pa.bool_()),
        "string": repeated(texts, pa.string()),
        "large_string": repeated(texts, pa.large_string()),
        "binary": repeated([text.encode() for text in texts], pa.binary()),
        "large_binary": repeated([text.encode() for text in texts], pa.large_binary()),
        "fixed": repeated([b"abc", b"\0\0\0", b"\xff\xff\xff"], pa.binary(3)),
        "date32": repeated([0, -1, 20_000, 1], pa.date32()),
        "date64": repeated([0, 86_400_000, -86_400_000 * 365], pa.date64()),
        "time32": repeated([0, 1, 86_399], pa.time32("s")),
        "time64": repeated([0, 1, 86_399_999_999], pa.time64("us")),
        "timestamp": repeated(moments, pa.timestamp("us")),
        "seconds": repeated([0, -1, 86_400, 1_700_000_000], pa.timestamp("s")),
        "nanos": repeated(moments, pa.timestamp("ns")),
        "zoned": repeated(moments, pa.timestamp("us", "Asia/Tokyo")),
        "duration": repeated([0, -5, 7, 10**12], pa.duration("ms")),
        "decimal128": repeated([decimal.Decimal(n) / 4 for n in (0, -7, 10**6, 3)], pa.decimal128(12, 2)),
        "decimal256": repeated([decimal.Decimal(n) / 4 for n in (0, -7, 10**6, 3)], pa.decimal256(42, 2)),
        "empty": pa.nulls(ROWS, pa.int32()),
    }
    return pa.table({"k": range(ROWS), **columns})


def indexed_columns(kind: str) -> list[str]:
    return [name for name in data().column_names[1:] if kind != "BLOOMFILTER" or name not in UNHASHED]


def write(uri: str, rows: pa.Table, **options: Any) -> Any:
    return lance.write_dataset(rows, uri, max_rows_per_file=PER_FRAGMENT, **options)


def files_of(uri: str, name: str) -> dict[str, pa.Table]:
    """Return the content of the files of an index of one segment."""
    (index,) = [index for index in lance.dataset(uri).describe_indices() if index.name == name]
    (segment,) = index.segments
    folder = Path(uri) / "_indices" / str(segment.uuid)
    return {file.name: LanceFileReader(str(file)).read_all().to_table() for file in sorted(folder.iterdir())}


def bits(table: pa.Table) -> list[Any]:
    """Return the values of a table as what compares: NaN with NaN, and zeros by their signs."""
    return [repr(row) for row in table.to_pylist()] + [table.schema, table.schema.metadata]


@pytest.fixture(scope="module", params=[("2.0", False), ("2.2", True)], ids=["2.0", "2.2 stable"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Tables of the same rows, with the indices of pylance and with ours."""
    folder = tmp_path_factory.mktemp("types")
    version, stable = request.param
    uris = str(folder / "theirs.lance"), str(folder / "ours.lance")
    for uri, library in zip(uris, (lance, lance_df), strict=True):
        made = write(uri, data(), data_storage_version=version, enable_stable_row_ids=stable)
        made.delete("k % 10 = 9")
        dataset = library.dataset(uri)
        for kind in KINDS:
            for column in indexed_columns(kind):
                dataset.create_scalar_index(column, kind, f"{column} {kind}")
    return uris


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_pylances(both: tuple[str, str], kind: str) -> None:
    """Types, order, pages, bitmaps and metadata; filters may have one value more, the other zero."""
    theirs, ours = both
    described = [{each.name: each for each in lance.dataset(uri).describe_indices()} for uri in both]
    for column in indexed_columns(kind):
        name = f"{column} {kind}"
        expected, written = (files_of(uri, name) for uri in both)
        assert tuple(written) == tuple(expected) == FILES[kind]
        for file in expected:
            if kind == "BLOOMFILTER" and column in ("float", "double"):
                filters = [each[file]["bloom_filter_data"].to_pylist() for each in (expected, written)]
                for some, more in zip(*filters, strict=True):
                    assert int.from_bytes(some, "big") & ~int.from_bytes(more, "big") == 0
                expected[file] = expected[file].drop(["bloom_filter_data"])
                written[file] = written[file].drop(["bloom_filter_data"])
            if file == "page_data.lance":  # rows of one value are in any order there
                orders = [each[file].column("values").to_pylist() for each in (expected, written)]
                assert repr(orders[0]) == repr(orders[1]), column
                expected[file], written[file] = (
                    each[file].take(np.argsort(each[file]["ids"].to_numpy())) for each in (expected, written)
                )
            assert bits(written[file]) == bits(expected[file]), (column, file)
        mine, other = described[1][name], described[0][name]
        for attribute in ("index_type", "type_url", "fields", "field_names", "num_rows_indexed"):
            assert getattr(mine, attribute) == getattr(other, attribute)
        (segment,), (expected_segment,) = mine.segments, other.segments
        for attribute in ("fragment_ids", "dataset_version_at_last_update", "index_version"):
            assert getattr(segment, attribute) == getattr(expected_segment, attribute)
        statistics = [lance_df.dataset(uri).index_statistics(name)["segments"] for uri in both]
        assert statistics == [lance.dataset(theirs).stats.index_stats(name)["segments"]] * 2
    lance.dataset(ours).validate()


LITERALS: dict[str, list[str]] = {
    **{name: ["0", "7", "100", "3"] for name in ("int8", "int16", "int32", "int64")},
    **{name: ["0", "7", "100", "3"] for name in ("uint8", "uint16", "uint32", "uint64")},
    **{name: ["1.5", "0.0", "-2.25"] for name in ("half", "float", "double")},
    **{name: ["''", "'a'", "'é'", "'日本'", "'zz'"] for name in ("string", "large_string")},
    **{name: ["X''", "X'61'", "X'C3A9'", "X'FF'"] for name in ("binary", "large_binary")},
    "fixed": ["X'616263'", "X'000000'", "X'010101'"],
    "bool": ["true", "false"],
    "date32": ["date '1970-01-01'", "date '1969-12-31'", "date '2000-01-01'"],
    "date64": ["date '1970-01-02'", "date '1969-12-31'"],
    **{
        name: ["timestamp '1970-01-01 00:00:00'", "timestamp '1970-01-02 00:00:00'"]
        for name in ("timestamp", "seconds", "nanos")
    },
    "zoned": ["timestamp '1970-01-01 00:00:00+00:00'"],
    "decimal128": [f"arrow_cast('{value}', 'Decimal128(12, 2)')" for value in ("0", "0.75", "-1.75", "3.33")],
    "decimal256": [f"arrow_cast('{value}', 'Decimal256(42, 2)')" for value in ("0", "0.75", "-1.75")],
    "time32": [f"arrow_cast(arrow_cast({value}, 'Int32'), 'Time32(Second)')" for value in (0, 1, 9)],
    "time64": [f"arrow_cast({value}, 'Time64(Microsecond)')" for value in (0, 1, 9)],
    "duration": [f"arrow_cast({value}, 'Duration(Millisecond)')" for value in (0, 7, 9)],
    "empty": ["1"],
}


def filters(column: str, kind: str) -> list[str]:
    """Return conditions, the first of which an index of each kind answers."""
    texts = [f"{column} IS NULL", f"{column} IS NOT NULL"]
    literals = LITERALS.get(column, [])
    if not literals:
        return texts
    low, high = literals[0], literals[-1]
    # pylance takes zeros in lists for equal in float16 and float32, DataFusion does not
    values = ", ".join(literal for literal in literals if literal != "0.0")
    texts = [f"{column} = {literal}" for literal in literals] + texts + [f"{column} IN ({values})"]
    if kind != "BLOOMFILTER":
        texts += [f"{column} < {high}", f"{column} >= {low}", f"{column} BETWEEN {low} AND {high}"]
    return texts if kind != "BTREE" else [*texts, f"{column} > {low}", f"{column} != {high}"]


def numbers(rows: pa.Table) -> list[int]:
    return sorted(rows["k"].to_pylist())


def check(uri: str, texts: list[str], *, case: object = None) -> None:
    """Compare what both libraries answer with the indices and without."""
    theirs, ours = lance.dataset(uri), lance_df.dataset(uri)
    for text in texts:
        options: dict[str, Any] = {"filter": text, "columns": ["k"]}
        expected = numbers(theirs.scanner(**options, use_scalar_index=False).to_table())
        assert numbers(theirs.scanner(**options).to_table()) == expected, (case, text, "pylance")
        assert numbers(ours.to_table(**options)) == expected, (case, text)
        assert numbers(ours.scanner(**options, use_scalar_index=False).to_table()) == expected, (case, text)


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_queried(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t.lance")
    write(uri, data()).delete("k % 10 = 9")
    ours = lance_df.dataset(uri)
    for column in indexed_columns(kind):
        ours.create_scalar_index(column, kind)
    theirs = lance.dataset(uri)
    for column in indexed_columns(kind):
        texts = filters(column, kind)
        check(uri, texts)
        plan = theirs.scanner(filter=texts[0]).explain_plan()
        assert f"@{column}_idx({NAMES[kind]})" in plan


@pytest.mark.parametrize("kind", KINDS)
def test_scans_of_ours_use_them(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(300), "c": [number // 100 for number in range(300)]})
    lance_df.write_dataset(rows, uri, max_rows_per_file=100)
    lance_df.dataset(uri).create_scalar_index("c", kind)
    table = open_table(uri)
    one = Comparison(Column(("c",)), Operator.EQ, pa.scalar(1))
    assert prune(table, one, [0, 1, 2]).selected.tolist() == [False, True, False]
    results = []
    for options in (ScanOptions(), ScanOptions(statistics=False, observed_statistics=False)):
        plan = plan_scan(table, ScanRequest(columns=("k",), predicate=one, options=options))
        results.append(sorted(row for batch in run_tasks(plan.tasks) for row in batch.column(0).to_pylist()))
    assert results == [[*range(100, 200)]] * 2


@pytest.mark.parametrize("stable", [False, True])
def test_several_pages_are_sorted_in_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    """Pages of 4,096 rows, from runs that are sorted one by one, the most of them in temporary files."""
    monkeypatch.setattr(sorted_entries, "_RUN_ROWS", 2500)
    uri, theirs_uri = str(tmp_path / "t.lance"), str(tmp_path / "theirs.lance")
    generator = np.random.default_rng(0)
    rows = pa.table(
        {
            "k": range(20_000),
            "c": pa.array(generator.integers(-5000, 5000, 20_000), mask=generator.random(20_000) < 0.3),
            "s": pa.array([f"é{number:03}" for number in generator.integers(0, 600, 20_000)]),
        }
    )
    for where, library in ((theirs_uri, lance), (uri, lance_df)):
        lance.write_dataset(rows, where, max_rows_per_file=7000, enable_stable_row_ids=stable)
        for column in ("c", "s"):
            library.dataset(where).create_scalar_index(column, "BTREE")
    for name in ("c_idx", "s_idx"):
        expected, written = (files_of(where, name) for where in (theirs_uri, uri))
        assert written["page_lookup.lance"].num_rows == 5
        assert bits(written["page_lookup.lance"]) == bits(expected["page_lookup.lance"])
        assert written["page_data.lance"]["values"] == expected["page_data.lance"]["values"]
    texts = [
        "c = 17",
        "c IS NULL",
        "c < -4990",
        "c > 4990",
        "c BETWEEN 100 AND 130",
        "s = 'é042'",
        "s > 'é597'",
    ]
    check(uri, texts)
    lance.dataset(uri).delete("k % 3 = 0")
    ours = lance_df.dataset(uri)
    ours.optimize.compact_files()
    check(uri, texts)
    assert files_of(uri, "c_idx")["page_data.lance"].num_rows == ours.count_rows()


def test_names_nesting_and_empty_tables(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    kind = pa.struct([("b", pa.int64()), ("c", pa.string())])
    schema = pa.schema([("k", pa.int64()), ("a", kind), ("l", pa.list_(pa.int64()))])
    ours = lance_df.write_dataset(schema.empty_table(), uri)
    for each in KINDS:
        ours.create_scalar_index("a.b", each, f"b {each}", train=each != "BTREE")
    ours.create_scalar_index("a.c", "bitmap")
    check(uri, ["a.b = 1", "a.c IS NULL"])
    rows = [{"k": number, "a": {"b": number % 5, "c": None}, "l": [1]} for number in range(40)]
    ours = lance_df.write_dataset(pa.Table.from_pylist(rows, schema), uri, mode="append")
    check(uri, ["a.b = 1", "a.c IS NULL"])
    ours.optimize.optimize_indices()
    assert {index["name"]: index["fragment_ids"] for index in ours.list_indices()} == {
        **{f"b {each}": {0} for each in KINDS},
        "a.c_idx": {0},
    }
    check(uri, ["a.b = 1", "a.b > 2", "a.c IS NULL", "a.c = 'x'"])
    assert "ScalarIndexQuery" in lance.dataset(uri).scanner(filter="a.b > 2").explain_plan()
    assert "ScalarIndexQuery: query=[" in lance_df.dataset(uri).scanner(filter="a.b > 2").explain_plan()
    version = ours.version
    ours.optimize.optimize_indices()
    assert ours.version == version
    ours.optimize.optimize_indices(retrain=True)
    assert ours.version == version + 1
    ours.create_scalar_index("k", "BTREE")
    ours.create_scalar_index("k", "BITMAP")
    ours.create_scalar_index("k", "BTREE")
    names = {index["name"] for index in ours.list_indices() if index["fields"] == ["k"]}
    assert names == {"k_idx", "k_idx_2"}
    for wrong in (("k", "BTREE"), ("k", "BITMAP", "k_idx")):
        with pytest.raises(IndexAlreadyExistsError, match="pass replace=True"):
            ours.create_scalar_index(*wrong, replace=False)
    with pytest.raises(IndexAlreadyExistsError, match="other columns"):
        ours.create_scalar_index("a.b", "BTREE", "k_idx")
    for each in KINDS:
        for column in ("l", "a"):
            with pytest.raises(UnsupportedFeatureError, match=f"a {each} index is not supported"):
                ours.create_scalar_index(column, each)
        with pytest.raises(ColumnNotFoundError):
            ours.create_scalar_index("zzz", each)
    with pytest.raises(InvalidInputError):
        ours.optimize.optimize_indices(num_indices_to_merge=-1)
    lance.dataset(uri).validate()


@pytest.mark.parametrize("kind", KINDS)
def test_paths_with_quoted_names(tmp_path: Path, kind: str) -> None:
    columns = {"`a`": "a", "`x y`": "x y", "`s`.`q`": "s.q", "s.`x.y`": "s.`x.y`", "s.`b``c`": "s.`b``c`"}
    row = {"a": 1, "x y": 2, "s": {"q": 3, "x.y": 4, "b`c": 5}}
    rows = pa.Table.from_pylist([row] * 3 + [{"a": 7, "x y": 7, "s": {"q": 7, "x.y": 7, "b`c": 7}}])
    rows = rows.append_column("k", pa.array(range(4)))
    for number, (column, path) in enumerate(columns.items(), 1):
        uri = str(tmp_path / f"{number}.lance")
        ours = lance_df.write_dataset(rows, uri)
        ours.create_scalar_index(column, kind)
        assert [index["fields"] for index in ours.list_indices()] == [[path]]
        assert lance.dataset(uri).describe_indices()[0].field_names == [path]
        lance_df.write_dataset(rows, uri, mode="append")
        lance_df.dataset(uri).optimize.optimize_indices()
        assert lance_df.dataset(uri).list_indices()[0]["fragment_ids"] == {0, 1}
        check(uri, [f"{column} = {number}", f"{column} > {number}"])
    names = [index["name"] for index in lance_df.dataset(str(tmp_path / "4.lance")).list_indices()]
    assert names == ["s.`x.y`_idx"]
    for wrong in ("s.x.y", "`s.q`", "A"):
        with pytest.raises(ColumnNotFoundError):
            lance_df.dataset(uri).create_scalar_index(wrong, kind)


@pytest.mark.parametrize("column", sorted(UNHASHED))
def test_bloom_filters_of_other_types_are_refused(tmp_path: Path, column: str) -> None:
    uri = str(tmp_path / "t.lance")
    write(uri, data().select(["k", column]))
    with pytest.raises(ValueError, match="does not support data type"):
        lance.dataset(uri).create_scalar_index(column, "BLOOMFILTER")
    with pytest.raises(UnsupportedFeatureError, match="a BLOOMFILTER index is not supported"):
        lance_df.dataset(uri).create_scalar_index(column, "BLOOMFILTER")


@pytest.mark.parametrize("kind", [*KINDS, "ZONEMAP"])
def test_statistics_are_pylances(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(10_000), "c": [None if n % 9 == 1 else n % 70 for n in range(10_000)]})
    lance_df.write_dataset(rows, uri, max_rows_per_file=6000)
    ours = lance_df.dataset(uri)
    ours.create_scalar_index("c", kind)
    ours = lance_df.write_dataset(rows.slice(0, 50), ours, mode="append")
    ours.delete("c = 3")
    ours.optimize.optimize_indices(num_indices_to_merge=0)
    ours = lance_df.write_dataset(rows.slice(0, 70), ours, mode="append")
    theirs = lance.dataset(uri)
    assert ours.index_statistics("c_idx") == theirs.stats.index_stats("c_idx")
    assert ours.stats.index_stats("c_idx")["num_unindexed_rows"] == 70
    ours.prewarm_index("c_idx")
    mine, other = ours.describe_indices()[0], theirs.describe_indices()[0]
    assert [each.fragment_ids for each in mine.segments] == [
        set(each.fragment_ids) for each in other.segments
    ]
    assert (mine.index_type, mine.num_rows_indexed) == (other.index_type, other.num_rows_indexed)
    assert mine.total_size_bytes == other.total_size_bytes
    ours.drop_index("c_idx")
    assert not lance.dataset(uri).describe_indices()


def coverage(uri: str) -> dict[str, list[set[int]]]:
    return {
        index.name: [set(segment.fragment_ids) for segment in index.segments]
        for index in lance.dataset(uri).describe_indices()
    }


@pytest.mark.parametrize("kind", [*KINDS, "ZONEMAP"])
def test_segments_are_added_and_merged(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t.lance")

    def append(first: int) -> Any:
        rows = pa.table({"k": range(first, first + 10), "c": [n % 4 for n in range(10)]})
        return lance_df.write_dataset(rows, uri, mode="append" if first else "create")

    append(0).create_scalar_index("c", kind)
    for first in (10, 20, 30):
        append(first).optimize.optimize_indices(num_indices_to_merge=0)
    assert coverage(uri)["c_idx"] == [{0}, {1}, {2}, {3}]
    ours = append(40)
    ours.optimize.optimize_indices(num_indices_to_merge=1)
    assert coverage(uri)["c_idx"] == [{0}, {1}, {2}, {3, 4}]
    check(uri, ["c = 1", "c > 1", "c IS NULL"])
    ours.optimize.optimize_indices(num_indices_to_merge=3)
    assert coverage(uri)["c_idx"] == [{0}, {1, 2, 3, 4}]
    ours.optimize.optimize_indices(num_indices_to_merge=0)
    ours.optimize.optimize_indices(index_names=["other"])
    assert coverage(uri)["c_idx"] == [{0}, {1, 2, 3, 4}]
    ours.optimize.optimize_indices()
    assert coverage(uri)["c_idx"] == [{0, 1, 2, 3, 4}]
    check(uri, ["c = 1", "c > 1", "c IS NULL"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stable", [False, True])
def test_segments_with_former_values_are_merged(tmp_path: Path, kind: str, stable: bool) -> None:
    """A segment of its own for rewritten rows would leave the former values in the one before."""
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(30), "c": [number // 10 for number in range(30)], "d": range(30)})
    ours = lance_df.write_dataset(rows, uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    ours.create_scalar_index("c", kind)
    merge = ours.merge_insert("k").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(pa.table({"k": [12, 13], "c": [0, None]}))
    assert coverage(uri)["c_idx"] == [{0, 2}]
    texts = ["c = 0", "c = 1", "c IS NULL", "c IN (1, 2)"]
    check(uri, texts)
    ours.optimize.optimize_indices(num_indices_to_merge=0)
    assert coverage(uri)["c_idx"] == [{0, 1, 2}]
    check(uri, texts)
    ours.update({"c": "7"}, where="k IN (3, 25)")
    ours.optimize.optimize_indices(num_indices_to_merge=0)
    check(uri, [*texts, "c = 7"])


def test_what_pylance_merged_wrongly_is_built_anew(tmp_path: Path) -> None:
    """Ids of updated rows that its bitmaps keep under former values."""
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(30), "c": [number // 10 for number in range(30)]})
    theirs = lance.write_dataset(rows, uri, max_rows_per_file=10, enable_stable_row_ids=True)
    theirs.create_scalar_index("c", "BITMAP")
    theirs.update({"c": "7"}, where="k IN (3, 25)")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    ours = lance_df.dataset(uri)
    ours.optimize.optimize_indices()
    check(uri, ["c = 0", "c = 2", "c = 7"])
    assert len(coverage(uri)["c_idx"]) == 1


@pytest.mark.parametrize("kind", ["BLOOMFILTER", "ZONEMAP"])
def test_zones_that_pylance_repeats_are_read_anew(tmp_path: Path, kind: str) -> None:
    """Its merged segments have zones of the values before a column was rewritten, and of those after it."""
    uri = str(tmp_path / "t.lance")
    values = [None if number % 3 == 0 else number // 10 for number in range(30)]
    rows = pa.table({"k": range(30), "c": values, "d": range(30)})
    ours = lance_df.write_dataset(rows, uri, max_rows_per_file=10)
    lance.dataset(uri).create_scalar_index("c", kind)
    merge = lance_df.dataset(uri).merge_insert("k").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(pa.table({"k": [12, 13], "c": [0, 5]}))
    lance.dataset(uri).optimize.optimize_indices()
    assert lance_df.dataset(uri).index_statistics("c_idx")["num_unindexed_rows"] == 0
    assert [each.get("num_zones", each.get("num_blocks")) for each in segments_of(uri)] == [4]
    ours = lance_df.dataset(uri)
    ours.optimize.optimize_indices(num_indices_to_merge=0)
    assert [each.get("num_zones", each.get("num_blocks")) for each in segments_of(uri)] == [3]
    check(uri, ["c IS NULL", "c = 5", "c IS NOT NULL"])
    version = ours.version
    ours.optimize.optimize_indices()
    assert ours.version == version


def segments_of(uri: str) -> list[dict[str, Any]]:
    segments: list[dict[str, Any]] = lance_df.dataset(uri).index_statistics("c_idx")["segments"]
    return segments


@pytest.mark.parametrize("kind", KINDS)
def test_compaction_of_some_fragments(tmp_path: Path, kind: str) -> None:
    """Rows of fragments that the index did not cover whole are scanned or indexed, never lost."""
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(60), "c": [number % 7 for number in range(60)]})
    ours = lance_df.write_dataset(rows, uri, max_rows_per_file=20)
    ours.create_scalar_index("c", kind)
    ours.delete("k < 12 OR k = 30 OR k >= 59")
    ours = lance_df.write_dataset(pa.table({"k": [60, 61], "c": [1, 2]}), ours, mode="append")
    table = open_table(uri)
    options = compaction_options(table, {})
    commit_rewrites(table, [rewrite(table, ids, options) for ids in ([0, 1], [2, 3])])
    check(uri, ["c = 1", "c = 2", "c >= 5", "c IS NULL"])
    (index,) = lance_df.dataset(uri).list_indices()
    assert index["fragment_ids"] == (set() if kind == "BLOOMFILTER" else {4})
    lance_df.dataset(uri).optimize.optimize_indices()
    check(uri, ["c = 1", "c = 2", "c >= 5", "c IS NULL"])
    assert coverage(uri)["c_idx"] == [set(lance_df.dataset(uri).fragment_ids())]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_compaction_beside_changes_of_indices(tmp_path: Path, kind: str, stable: bool) -> None:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(40), "c": [number % 7 for number in range(40)]})
    ours = lance_df.write_dataset(rows, uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    ours.create_scalar_index("c", kind)
    ours.create_scalar_index("k", "BTREE")

    def compact_beside(change: Callable[[Any], object]) -> None:
        table = open_table(uri)
        ids = table.fragments.ids.tolist()
        group = rewrite(table, ids, compaction_options(table, {}))
        change(lance_df.dataset(uri))
        try:
            commit_rewrites(table, [group])
        except RetryableConflictError:
            assert not stable
        check(uri, ["c = 3", "c >= 5", "k < 17"])

    compact_beside(lambda dataset: dataset.drop_index("c_idx"))
    assert coverage(uri) == {"k_idx": [{4}]}
    lance_df.write_dataset(rows, uri, mode="append")
    compact_beside(lambda dataset: dataset.create_scalar_index("c", kind))
    compact_beside(lambda dataset: dataset.optimize.optimize_indices(retrain=True))
    lance_df.dataset(uri).optimize.optimize_indices()
    check(uri, ["c = 3", "c >= 5", "k < 17"])


def test_an_index_that_cannot_be_read_does_not_stop_a_compaction(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(40), "c": range(40)})
    ours = lance_df.write_dataset(rows, uri, max_rows_per_file=10)
    ours.create_scalar_index("c", "BTREE")
    for file in (tmp_path / "t.lance" / "_indices").glob("*/page_data.lance"):
        file.write_bytes(b"broken")
    with pytest.warns(RuntimeWarning, match="updating its indices failed"):
        lance_df.dataset(uri).optimize.compact_files()
    assert lance_df.dataset(uri).count_rows("c >= 30") == 10
    lance_df.dataset(uri).optimize.optimize_indices(retrain=True)
    check(uri, ["c = 3", "c >= 30"])


def test_a_failed_commit_leaves_no_index_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    ours = lance_df.write_dataset(pa.table({"k": range(9)}), uri)

    def fail(*_: Any, **__: Any) -> None:
        raise RetryableConflictError("no")

    monkeypatch.setattr(scalar_index, "commit_change", fail)
    for kind in KINDS:
        with pytest.raises(RetryableConflictError):
            ours.create_scalar_index("k", kind)
    assert not (Path(uri) / "_indices").exists()


# -- histories --

QUERIES = [
    "k >= 15 AND k < 40", "c = 3", "c < 2", "c IS NULL", "c IN (4, 6)",
    "f = 0.0", "f > 1.0", "f IS NULL", "s = ''", "s >= 'b'", "c = 4 OR s = 'a'",
]  # fmt: skip


def random_rows(keys: Any, generator: random.Random) -> pa.Table:
    values = [{
        "k": key,
        "c": generator.choice([None, *range(8)]),
        "f": generator.choice([None, math.nan, 0.0, -0.0, 1.5, -3.0]),
        "s": generator.choice([None, "", "a", "é", "zz"]),
    } for key in keys]  # fmt: skip
    schema = pa.schema([("k", pa.int64()), ("c", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
    return pa.Table.from_pylist(values, schema)


class History:
    """Random changes of one table by either library."""

    def __init__(self, uri: str, seed: int, *, stable: bool) -> None:
        self.uri = uri
        self.random = random.Random(seed)
        self.next_key = 60
        lance.write_dataset(
            random_rows(range(60), self.random), uri, max_rows_per_file=20, enable_stable_row_ids=stable
        )

    def open(self) -> Any:
        return self.random.choice([lance, lance_df]).dataset(self.uri)

    def some_keys(self) -> str:
        first = self.random.randrange(self.next_key)
        return f"k >= {first} AND k < {first + self.random.randrange(1, 12)}"

    def index(self) -> None:
        column, kind = self.random.choice(
            [("c", "BTREE"), ("c", "BITMAP"), ("c", "BLOOMFILTER"), ("f", "BTREE"), ("f", "BITMAP"),
             ("f", "BLOOMFILTER"), ("s", "BTREE"), ("s", "BITMAP"), ("s", "BLOOMFILTER"), ("k", "BTREE")]
        )  # fmt: skip
        lance_df.dataset(self.uri).create_scalar_index(column, kind, f"{column} {kind}")

    def append(self) -> None:
        stop = self.next_key + self.random.randrange(1, 15)
        lance_df.write_dataset(random_rows(range(self.next_key, stop), self.random), self.uri, mode="append")
        self.next_key = stop

    def delete(self) -> None:
        self.open().delete(self.some_keys())

    def update(self) -> None:
        self.open().update({"c": "4", "s": "'a'"}, where=self.some_keys())

    def upsert(self) -> None:
        first = self.random.randrange(self.next_key)
        rows = random_rows(range(first, first + 9), self.random)
        merge = self.open().merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows)
        self.next_key = max(self.next_key, first + 9)

    def rewrite_columns(self) -> None:
        first = self.random.randrange(self.next_key)
        rows = random_rows(range(first, first + 5), self.random).select(["k", "c"])
        dataset = lance_df.dataset(self.uri)
        dataset.merge_insert("k").when_matched_update_all().write_mode("rewrite_columns").execute(rows)

    def compact(self) -> None:
        self.open().optimize.compact_files(
            target_rows_per_fragment=self.random.choice([15, 40, 1000]), materialize_deletions_threshold=0.0
        )

    def optimize(self) -> None:
        merged = self.random.choice([None, None, 0, 1, 2])
        lance_df.dataset(self.uri).optimize.optimize_indices(
            num_indices_to_merge=merged, retrain=self.random.random() < 0.1
        )


STEPS = ("index", "append", "delete", "update", "upsert", "rewrite_columns", "compact", "optimize")


@pytest.mark.parametrize("stable", [False, True])
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=4, max_size=10))
def test_answers_after_random_histories(
    tmp_path_factory: pytest.TempPathFactory, stable: bool, seed: int, steps: list[str]
) -> None:
    history = History(str(tmp_path_factory.mktemp("history") / "t.lance"), seed, stable=stable)
    for _ in range(3):
        history.index()
    for number, step in enumerate(steps):
        getattr(history, step)()
        check(history.uri, QUERIES, case=(seed, steps[: number + 1]))
    lance_df.dataset(history.uri).optimize.optimize_indices()
    check(history.uri, QUERIES, case=(seed, steps, "optimized"))
    lance.dataset(history.uri).validate()


STEP = """
import sys, {library}
dataset = {library}.dataset(sys.argv[1])
{change}
"""


def test_new_processes(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(random_rows(range(60), random.Random(0)), uri, max_rows_per_file=20)
    changes = [
        (
            "lance_df",
            "for kind in ('BTREE', 'BITMAP', 'BLOOMFILTER'): dataset.create_scalar_index('c', kind)",
        ),
        ("lance", "dataset.update({'c': '3'}, where='k > 10 AND k < 30')"),
        ("lance_df", "dataset.optimize.compact_files()"),
        ("lance", "dataset.delete('k % 7 = 0')"),
        ("lance_df", "dataset.optimize.optimize_indices()"),
    ]
    for library, change in changes:
        program = STEP.format(library=library, change=change)
        subprocess.run([sys.executable, "-c", program, uri, *KINDS], check=True)
        check(uri, ["c = 3", "c > 5", "c IS NULL"], case=change)


def test_plans_name_the_indices_that_answer(tmp_path: Path) -> None:
    rows = pa.table({"n": range(100), "s": [str(number % 7) for number in range(100)], "free": range(100)})
    table = lance_df.write_dataset(rows, str(tmp_path / "t.lance"))
    table.create_scalar_index("n", "BTREE")
    table.create_scalar_index("s", "BITMAP")

    def queries(condition: str, **options: object) -> list[str]:
        lines = table.scanner(filter=condition, **options).explain_plan().splitlines()
        return [line.strip() for line in lines if "ScalarIndexQuery" in line]

    assert queries("n = 10") == ["ScalarIndexQuery: query=[n = 10]@n_idx"]
    both = queries("n BETWEEN 10 AND 20 AND s = '3'")
    assert both == [
        "ScalarIndexQuery: query=[n >= 10 AND n <= 20]@n_idx",
        "ScalarIndexQuery: query=[s = '3']@s_idx",
    ]
    assert queries("n >= 0") == ["ScalarIndexQuery: query=[n >= 0]@n_idx"]  # which leaves nothing out
    assert queries("free = 3") == queries("n = 10", use_scalar_index=False) == queries("n + 1 = 3") == []
