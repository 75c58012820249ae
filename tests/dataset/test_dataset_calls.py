"""Arguments of datasets, scanners and fragments: what they mean, and how wrong ones are refused."""

from __future__ import annotations

import datetime as dt
import inspect
import json
from pathlib import Path
from typing import Any

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from lance.dataset import ColumnOrdering as PylanceOrdering
from table_histories import rows

import lance_df
from lance_df.dataset import LanceDataset
from lance_df.errors import (
    ColumnNotFoundError,
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.fragment import DeletionFile, FragmentMetadata
from lance_df.scanner import LanceScanner
from lance_df.scanner_options import ColumnOrdering


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls") / "t.lance"
    ds = lance.write_dataset(rows(0, 100), folder, max_rows_per_file=40, enable_stable_row_ids=True)
    ds.delete("key = 41")
    ds.update_config({"a": "b"})
    ds.create_scalar_index("key", "BTREE")
    return folder


@pytest.fixture
def ours(folder: Path) -> LanceDataset:
    return lance_df.dataset(folder)


@pytest.fixture
def theirs(folder: Path) -> lance.LanceDataset:
    return lance.dataset(folder)


@pytest.mark.parametrize(
    "name",
    [
        "scanner",
        "take",
        "head",
        "count_rows",
        "checkout_version",
        "get_fragment",
        "slice",
        "read_transaction",
    ],
)
def test_arguments_have_the_names_of_pylance(name: str) -> None:
    mine = list(inspect.signature(getattr(LanceDataset, name)).parameters.values())
    other = inspect.signature(getattr(lance.LanceDataset, name)).parameters
    named = [each.name for each in mine if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert named == list(other)[: len(named)]
    assert all(each.default == other[each.name].default for each in mine if each.name in other)


def test_it_says_what_pylance_says(ours: LanceDataset, theirs: lance.LanceDataset) -> None:
    for name in (
        *("uri", "version", "latest_version", "schema", "data_storage_version", "has_stable_row_ids"),
        *("max_field_id", "metadata", "schema_metadata", "has_index"),
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.config() == theirs.config() == {"a": "b"}
    assert list(ours.fragment_ids()) == list(theirs.fragment_ids())
    assert ours.count_rows() == len(ours) == len(theirs) == 99
    assert [field.name() for field in ours.lance_schema.fields()] == ours.schema.names
    for mine, other in zip(ours.versions(), theirs.versions(), strict=True):
        assert (mine["version"], mine["metadata"]) == (other["version"], other["metadata"])
        assert abs(mine["timestamp"] - other["timestamp"]) < dt.timedelta(microseconds=2)
    assert ours.get_version()["version"] == ours.version
    (mine,) = ours.list_indices()
    with pytest.warns(DeprecationWarning, match="list_indices"):
        (other,) = theirs.list_indices()
    assert mine == {**other, "fragment_ids": set(other["fragment_ids"])}
    ours.validate()


def test_rows_in_parts(ours: LanceDataset, theirs: lance.LanceDataset) -> None:
    assert ours.head(3, columns=["key"]).equals(theirs.head(3, columns=["key"]))
    assert ours.slice(38, 45, ["key"]).equals(theirs.slice(38, 45, ["key"]))
    assert ours.to_table(offset=200).num_rows == 0
    sampled = ours.sample(10, ["key"], randomize_order=False)["key"].to_pylist()
    assert sampled == sorted(set(sampled))
    sizes = [batch.num_rows for batch in ours.to_batches(batch_size=30)]
    assert (max(sizes), sum(sizes)) == (30, 99)
    strict = list(ours.to_batches(batch_size=30, strict_batch_size=True))
    assert [batch.num_rows for batch in strict] == [30, 30, 30, 9]
    assert pa.Table.from_batches(strict).equals(ours.to_table())
    assert [
        batch.num_rows for batch in ours.to_batches(columns=[], batch_size=70, strict_batch_size=True)
    ] == [
        70,
        29,
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"columns": {"twice": "key * 2", "name": "name"}, "filter": "key > 90"},
        {"columns": {"x": "point.x", "y": "key + 1"}, "limit": 4, "offset": 38},
        {"columns": ["key"], "filter": "name LIKE '%1' AND key < 50", "with_row_id": True},
        {"filter": "_rowid = 17"},
        {"order_by": ["small"], "limit": 10, "columns": ["small", "key"]},
    ],
)
def test_scans_with_expressions(
    ours: LanceDataset, theirs: lance.LanceDataset, options: dict[str, Any]
) -> None:
    expected = theirs.to_table(**options)
    found = ours.to_table(**options)
    assert found.schema == expected.schema
    if "order_by" in options:
        assert found["small"].to_pylist() == expected["small"].to_pylist()
    else:
        assert found.equals(expected)


def test_arrow_filters_go_with_sql_columns(ours: LanceDataset) -> None:
    found = ours.to_table({"double": "key * 2"}, pc.field("key") >= 98)
    assert found["double"].to_pylist() == [196, 198]
    found = ours.to_table({"double": "key * 2"}, pc.field("small") == pc.field("key"), limit=2)
    assert found["double"].to_pylist() == [0, 2]
    assert ours.scanner({"double": "key * 2"}, pc.field("key") >= 98).count_rows() == 2


def test_filters_that_pylance_does_not_take(ours: LanceDataset) -> None:
    same = ours.to_table(["key"], pc.field("small") == pc.field("key"))
    assert same["key"].to_pylist() == list(range(7))
    assert ours.to_table(["key"], pc.field("small") == pc.field("key"), limit=2, offset=3)[
        "key"
    ].to_pylist() == [3, 4]
    assert ours.count_rows(pc.field("small") == pc.field("key")) == 7
    nested = ours.to_table(["point.y", "_rowoffset"], pc.field("point", "x") > 194)
    assert nested.to_pylist() == [{"point.y": str(key), "_rowoffset": key - 1} for key in (98, 99)]


def test_sorting_puts_nulls_where_they_are_wanted(tmp_path: Path) -> None:
    data = pa.table({"a": [2, None, 1, 2], "b": ["x", "y", "z", "a"]})
    lance_df.write_dataset(data, tmp_path / "t")
    ds = lance_df.dataset(tmp_path / "t")
    assert ds.to_table(order_by=["a", "b"])["b"].to_pylist() == ["z", "a", "x", "y"]
    keys = [ColumnOrdering("a", ascending=False, nulls_first=True), ColumnOrdering("b")]
    assert ds.to_table(order_by=keys)["b"].to_pylist() == ["y", "a", "x", "z"]
    assert ds.to_table(columns=["b"], order_by=keys, limit=2, offset=1)["b"].to_pylist() == ["a", "x"]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("nulls_first", [True, False])
def test_orders_of_all_types_are_those_of_pylance(tmp_path, ascending, nulls_first):
    """NaN is above all numbers; dictionaries, half floats, structs and lists have an order, too."""
    nan = float("nan")
    table = pa.table(
        {
            "f": [1.0, nan, 2.0, None, float("inf"), 1.0],
            "d": pa.array(["b", None, "a", "c", "a", "b"]).dictionary_encode(),
            "h": pa.array(np.array([1, 3, 2, nan, 5, 1], np.float16)),
            "s": [{"x": i % 3} if i else None for i in range(6)],
            "l": [[2], [1, 5], [], None, [1], [2]],
            "n": range(6),
        }
    )
    lance_df.write_dataset(table, tmp_path / "t.lance")
    for name in table.column_names:
        read = []
        for api, key in ((lance_df, ColumnOrdering), (lance, PylanceOrdering)):
            order = [key(name, ascending=ascending, nulls_first=nulls_first)]
            ds = api.dataset(str(tmp_path / "t.lance"))
            read.append(
                [str(ds.scanner(order_by=order, limit=n).to_table()[name].to_pylist()) for n in (2, 6)]
            )
        assert read[0] == read[1], name
    rows = lance_df.dataset(tmp_path / "t.lance").to_table(order_by=["f"])
    assert rows["n"].to_pylist() == [0, 5, 2, 4, 1, 3]  # equal ones stay in their order


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanceDataset, lance.LanceDataset]:
    path = tmp_path_factory.mktemp("small") / "t.lance"
    data = {"a": [3, 1, 2], "s": ["x", "y", "z"], "Cap Col": [1, 2, 3], "t": [{"f": i} for i in (2, 3, 1)]}
    lance.write_dataset(pa.table(data), path)
    return lance_df.dataset(path), lance.dataset(path)


@pytest.mark.parametrize(
    ("columns", "order_by"),
    [
        ({"z": "a", "a": "s"}, ["a"]),
        ({"a": "-a"}, ["a"]),
        ({"s": "a", "a": "a"}, ["s", "a"]),
        ({"_key0": "s", "b": "a"}, ["a"]),
        (["s", "a"], ["a", "a"]),
        (["s"], ["a", "a"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("limit", [1, None])
def test_keys_to_sort_by_are_stored_columns(small, columns, order_by, limit) -> None:
    read = [ds.to_table(columns, "a is not null", order_by=order_by, limit=limit) for ds in small]
    assert read[0].equals(read[1])


@pytest.mark.parametrize("order_by", [None, ["a"]], ids=str)
@pytest.mark.parametrize("options", [{}, {"limit": 2, "offset": 1}, {"filter": "a > 1"}], ids=str)
def test_rows_without_columns_are_counted(small, options, order_by) -> None:
    for columns in ([], {}):
        ours, theirs = (ds.to_table(columns, order_by=order_by, **options) for ds in small)
        assert (ours.num_rows, ours.num_columns) == (theirs.num_rows, 0)
        scanner = small[0].scanner(columns, order_by=order_by, **options)
        assert sum(batch.num_rows for batch in scanner.to_batches()) == theirs.num_rows
        assert scanner.take([1, 0, 1]).num_rows == 3


def test_taken_rows_without_columns_are_counted(small, tmp_path: Path) -> None:
    ours, _ = small
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", ours.schema, ["s"])
    namespace.append(ours.to_table())
    for each in (ours, namespace, namespace.get_fragments()[0], ours.filter(pc.field("a") > 0)):
        assert each.take([0, 0], columns=[]).num_rows == 2
        assert each.take([], columns=[]).num_rows == 0


def test_keys_beside_computed_columns(small) -> None:
    ours, _ = small
    assert ours.to_table({"t.f": "a"}, order_by=["t.f"])["t.f"].to_pylist() == [2, 3, 1]
    assert ours.to_table({"a": "a"}, order_by=["Cap Col"])["a"].to_pylist() == [3, 1, 2]
    down = ColumnOrdering("_rowid", ascending=False)
    assert ours.to_table({"_rowid": "a"}, order_by=[down])["_rowid"].to_pylist() == [2, 1, 3]
    for ds in small:
        with pytest.raises(ValueError, match=r"(?i)column 'q' does not exist|column q not found"):
            ds.to_table({"q": "-a"}, order_by=["q"])


@pytest.mark.parametrize(
    "columns",
    [
        {"_rowid": "_rowid", "b": "a"},
        {"b": "a", "_rowid": "a"},
        {"_rowaddr": "a", "b": "_rowid"},
        {"_rowid": "s"},
        {"_rowaddr": "-a", "_rowid": "a"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "flags",
    [{"with_row_id": True}, {"with_row_address": True}, {"with_row_id": True, "with_row_address": True}],
    ids=str,
)
def test_flags_append_expressions_of_their_names(small, columns, flags) -> None:
    ours, theirs = small
    for options in ({}, {"filter": "a > 1"}, {"filter": "a > 1", "order_by": ["a"]}):
        expected = theirs.to_table(columns, **flags, **options)
        assert ours.to_table(columns, **flags, **options).equals(expected)
        default = lance_df.dataset(ours.uri, default_scan_options=flags)
        assert default.to_table(columns, **options).equals(expected)


def test_field_ids_of_dropped_columns_are_taken(tmp_path: Path) -> None:
    ds = lance_df.write_dataset(pa.table({"a": [1], "b": [2]}), tmp_path)
    ds.add_columns({"x": "a", "y": "b"})
    for columns, highest in ((["y"], 3), (["x"], 1), (["b"], 1)):
        ds.drop_columns(columns)
        assert ds.max_field_id == lance.dataset(tmp_path).max_field_id == highest
    ds.delete("true")
    assert ds.max_field_id == lance.dataset(tmp_path).max_field_id == 0


def test_take_with_expressions(ours: LanceDataset, theirs: lance.LanceDataset) -> None:
    columns = {"double": "key * 2", "name": "name"}
    assert ours.take([98, 0, 0], columns).equals(theirs.take([98, 0, 0], columns))
    assert ours.take([], columns).num_rows == 0


@pytest.mark.parametrize(
    "columns",
    [
        {"r": "_rowid"},
        {"r": "_rowaddr", "_rowid": "_rowid", "b": "a"},
        {"r": "_rowoffset", "t": "t.f"},
        {"q": "7"},
        {"q": "1 = 0 and a > 3"},
        {"q": "`Cap Col` + 1", "a": "S"},
    ],
    ids=str,
)
def test_takes_compute_what_scans_do(small, columns) -> None:
    ours, theirs = small
    for take in ("take", "_take_rows"):
        taken, expected = getattr(ours, take)([2, 0, 2], columns), getattr(theirs, take)([2, 0, 2], columns)
        assert taken.to_pydict() == expected.to_pydict()
        assert taken.schema.types == expected.schema.types
    assert ours.sample(3, columns, randomize_order=False).to_pydict() == ours.to_table(columns).to_pydict()


@pytest.mark.parametrize("columns", [["_rowoffset"], ["s", "_rowoffset"], {"r": "_rowoffset"}], ids=str)
def test_offsets_of_taken_rows_are_not_nullable(small, columns) -> None:
    ours, theirs = small
    assert ours.take([2, 0], columns) == theirs.take([2, 0], columns)
    assert ours._take_rows([2, 0], columns) == theirs._take_rows([2, 0], columns)
    for taken in (ours.take([2, 0], columns), ours._take_rows([2, 0], columns), ours.sample(1, columns)):
        assert taken.schema == theirs.take([2, 0], columns).schema
    assert ours.to_table(columns).schema == theirs.to_table(columns).schema


def test_takes_compute_of_versions_of_rows(small) -> None:
    columns = {"r": "_row_created_at_version + _row_last_updated_at_version"}  # pylance takes none of these
    assert small[0].take([0], columns).to_pydict() == {"r": [2]}
    with pytest.raises(ColumnNotFoundError, match="No field named nope"):
        small[0].take([0], {"r": "a + nope"})


def test_fragments_compute_columns(small) -> None:
    fragment = small[0].get_fragments()[0]
    columns = {"a": "a + 100", "r": "_rowid"}
    expected = fragment.to_table(columns).take([2, 0])
    assert expected["a"].to_pylist() == [102, 103]
    assert fragment.take([2, 0], columns) == fragment.open_session(columns).take([2, 0]) == expected
    session = fragment.open_session({"a": "a + 100"}, with_row_address=True)
    assert session.take([2]).to_pydict() == {"a": [102], "_rowaddr": [2]}


@pytest.mark.parametrize("columns", [{"a": "a + 100"}, "a"], ids=str)
def test_functions_of_new_columns_read_columns_by_name(small, columns) -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"n": pc.multiply(batch["a"], 2)})

    for function in (doubled, {"n": "a"}):
        with pytest.raises(InvalidInputError, match="read_columns must be a list of names"):
            small[0].get_fragments()[0].merge_columns(function, columns=columns)
    with pytest.raises(InvalidInputError, match="read_columns must be a list of names"):
        small[0].add_columns(doubled, read_columns=columns)


def test_takes_compute_of_descriptions_of_blobs(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    lance.write_dataset(
        pa.table([[b"xy", b"abc"]], schema=pa.schema([blob])), tmp_path, data_storage_version="2.1"
    )
    ds = lance_df.dataset(tmp_path)
    columns = {"q": "b.size"}
    assert ds.take([1, 0], columns)["q"].to_pylist() == ds.to_table(columns)["q"].to_pylist()[::-1] == [3, 2]


def test_takes_read_columns_of_their_expressions_only() -> None:
    uri = "memory://expressions-of-takes/t.lance"
    lance_df.write_dataset(pa.table({"a": range(100), "wide": [f"{i:0>20000}" for i in range(100)]}), uri)

    def bytes_read(columns: dict[str, str]) -> int:
        dataset, before = lance_df.dataset(uri), lance_df.bytes_read_counter()
        assert dataset.take([5], columns)["q"].to_pylist() == [6]
        return lance_df.bytes_read_counter() - before

    assert bytes_read({"q": "a + 1"}) < bytes_read({"q": "a + 1", "w": "wide"}) - 15_000


def test_scanners(ours: LanceDataset, theirs: lance.LanceDataset) -> None:
    scanner = ours.scanner(["key"], pc.field("key") > 95)
    assert scanner.count_rows() == 4
    assert scanner.head(2)["key"].to_pylist() == [96, 97]
    assert scanner.to_pandas()["key"].tolist() == [96, 97, 98, 99]
    assert scanner.projected_schema == pa.schema([("key", pa.int64())])
    assert scanner.dataset_schema == ours.schema
    assert sum(batch.num_rows for batch in scanner.scan_batches()) == 4
    assert scanner.take([1, 0])["key"].to_pylist() == [97, 96]
    assert (
        ours.scanner({"k": "ratio + 0.5"}).projected_schema
        == theirs.scanner({"k": "ratio + 0.5"}).projected_schema
    )
    text = scanner.explain_plan(verbose=True)
    assert "fragments: 1 of 3" in text
    assert "projection=[key]" in text
    assert "key > 95" in text
    assert "LanceRead: output_rows=4, rows_scanned=" in scanner.analyze_plan(count_rows=True)
    assert "fragments: 1 of 3" in ours.scanner(filter="key > 95").explain_plan()
    for nothing in ("1 = 0", "key > 95 and false", pc.scalar(False)):
        assert "fragments: 0 of 3" in ours.scanner(filter=nothing).explain_plan()
    with pytest.raises(InvalidInputError, match="limit"):
        ours.scanner(limit=3).count_rows()


def test_default_scan_options(folder: Path) -> None:
    options = {"columns": ["key"], "limit": 2, "with_row_id": True}
    ours, theirs = (each.dataset(str(folder), default_scan_options=options) for each in (lance_df, lance))
    assert ours.schema == theirs.schema
    assert ours.to_table().equals(theirs.to_table())
    assert ours.to_table(limit=3, columns=["name"]).equals(theirs.to_table(limit=3, columns=["name"]))


@pytest.mark.parametrize(
    "options",
    [{"limit": 1}, {"offset": 2}, {"filter": "key > 95"}, {"columns": ["key"], "limit": 5}],
    ids=str,
)
def test_default_scan_options_have_no_effect_on_counts(folder: Path, options: dict[str, Any]) -> None:
    ours, theirs = (each.dataset(str(folder), default_scan_options=options) for each in (lance_df, lance))
    for mine, other in zip((ours, *ours.get_fragments()), (theirs, *theirs.get_fragments()), strict=True):
        assert mine.count_rows() == other.count_rows()
        assert mine.count_rows("key > 40") == other.count_rows("key > 40")
    assert len(ours) == len(theirs) == ours.sample(len(ours)).num_rows
    rest = ours.filter(pc.field("key") < 9)
    assert rest.count_rows() == sum(each.count_rows() for each in rest.get_fragments()) == 9
    assert rest.count_rows("key > 4") == rest.count_rows(pc.field("key") > 4) == 4


def test_time_travel(folder: Path, ours: LanceDataset) -> None:
    assert lance_df.dataset(folder, version=1).count_rows() == 100
    first, second = (info["timestamp"] for info in ours.versions()[:2])
    assert lance_df.dataset(folder, asof=first).version == 1
    assert lance_df.dataset(folder, asof=second.isoformat()).version == 2
    old = lance_df.dataset(folder, version=1)
    assert old.latest_version == ours.version
    old.checkout_latest()
    assert old.version == ours.version


def test_fragments(ours: LanceDataset, theirs: lance.LanceDataset) -> None:
    for mine, other in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
        assert repr(mine) == repr(other)
        assert mine.schema == other.schema
        for name in ("fragment_id", "physical_rows", "num_deletions"):
            assert getattr(mine, name) == getattr(other, name)
        assert mine.count_rows() == other.count_rows()
        assert mine.count_rows("small = 2") == other.count_rows("small = 2")
        assert mine.deletion_file() == other.deletion_file()
        assert mine.head(2).equals(other.head(2))
        assert mine.to_table(["key"], limit=3, offset=1).equals(other.to_table(["key"], limit=3, offset=1))
        assert [batch.num_rows for batch in mine.to_batches(batch_size=15)]
        assert mine.take([3, 1], ["key"])["key"].to_pylist() == [
            mine.to_table()["key"][3].as_py(),
            mine.to_table()["key"][1].as_py(),
        ]
        assert mine.metadata.to_json() == other.metadata.to_json()
        again = FragmentMetadata.from_json(json.dumps(mine.metadata.to_json()))
        assert again == mine.metadata
        assert lance.FragmentMetadata.from_json(json.dumps(mine.metadata.to_json())) == other.metadata
        assert mine.metadata.num_rows == other.metadata.num_rows
        mine.validate()
    deletion = ours.get_fragments()[1].metadata.deletion_file
    assert deletion is not None
    assert DeletionFile.from_json(deletion.json()) == deletion
    assert ours.get_fragment(1).fragment_id == 1
    assert ours.get_fragment(99) is None
    chosen = [ours.get_fragment(2), ours.get_fragment(0)]
    assert ours.scanner(["key"], fragments=chosen).to_table()["key"].to_pylist()[:2] == [80, 81]


WRONG_CALLS: list[tuple[Any, type[LanceError]]] = [
    (lambda ds: ds.to_table(columns="key"), InvalidInputError),
    (lambda ds: ds.to_table(columns=["zz"]), ColumnNotFoundError),
    (lambda ds: ds.to_table(columns=["key", "key"]), InvalidInputError),
    (lambda ds: ds.to_table(columns={"x": "zz + 1"}), ColumnNotFoundError),
    (lambda ds: ds.to_table(columns={"x": "sum(key)"}), InvalidInputError),
    (lambda ds: ds.to_table(filter="zz = 1"), ColumnNotFoundError),
    (lambda ds: ds.to_table(filter="key >"), InvalidInputError),
    (lambda ds: ds.to_table(filter=pc.field("zz") == 1), ColumnNotFoundError),
    (lambda ds: ds.to_table(filter=pc.field("key") == "x"), InvalidInputError),
    (lambda ds: ds.to_table(filter=7), InvalidInputError),
    (lambda ds: ds.to_table(limit=-1), InvalidInputError),
    (lambda ds: ds.to_table(offset="1"), InvalidInputError),
    (lambda ds: ds.to_table(batch_size=0), InvalidInputError),
    (lambda ds: ds.to_table(limit=True), InvalidInputError),
    (lambda ds: ds.to_table(limit=1.0), InvalidInputError),
    (lambda ds: ds.head(np.int64(-1)), InvalidInputError),
    (lambda ds: ds.checkout_version((None, True)), InvalidInputError),
    (lambda ds: ds.cleanup_old_versions(retain_versions=True), InvalidInputError),
    (lambda ds: ds.optimize.compact_files(target_rows_per_fragment=1.5), InvalidInputError),
    (lambda ds: ds.to_table(include_deleted_rows=True), InvalidInputError),
    (lambda ds: ds.to_table(fragments=[1]), InvalidInputError),
    (lambda ds: ds.to_table(blob_handling="some"), InvalidInputError),
    (lambda ds: ds.to_table(bogus=1), InvalidInputError),
    (lambda ds: ds.scanner(nearest={"column": "vector"}), UnsupportedFeatureError),
    (lambda ds: ds.scanner(full_text_query="x"), UnsupportedFeatureError),
    (lambda ds: ds.take([99]), InvalidInputError),
    (lambda ds: ds.take("x"), InvalidInputError),
    (lambda ds: ds.scanner().take([99]), InvalidInputError),
    (lambda ds: ds.scanner(limit=2).take([-1]), InvalidInputError),
    (lambda ds: ds.scanner().take([0.5]), InvalidInputError),
    (lambda ds: ds.partition_expression, UnsupportedFeatureError),
    (lambda ds: ds.replace_schema(ds.schema), UnsupportedFeatureError),
    (lambda ds: ds.get_fragments()[0].partition_expression, UnsupportedFeatureError),
    (lambda ds: ds.get_fragments()[0].physical_schema, UnsupportedFeatureError),
    (lambda ds: LanceScanner.from_dataset(ds), UnsupportedFeatureError),
    (lambda ds: ds.join(ds, "nothing"), InvalidInputError),
    (lambda ds: ds.sort_by("nothing"), InvalidInputError),
    (lambda ds: lance_df.dataset(ds.uri).join(STRUCTS, "key"), InvalidInputError),
    (lambda ds: lance_df.write_dataset(rows(0, 1), ds.uri + "/new", progress=5), InvalidInputError),
    (lambda ds: ds.checkout_version(77), VersionNotFoundError),
    (lambda ds: ds.checkout_version("nope"), VersionNotFoundError),
    (lambda ds: ds.tags.get_version("nope"), VersionNotFoundError),
    (lambda ds: ds.tags.list_ordered("up"), InvalidInputError),
    (lambda ds: ds.sample(1000), InvalidInputError),
    (lambda ds: lance_df.dataset(ds.uri, bogus=1), InvalidInputError),
    (lambda ds: lance_df.dataset(ds.uri, asof="yesterday"), InvalidInputError),
    (lambda ds: lance_df.dataset(ds.uri, asof=dt.datetime(1999, 1, 1)), VersionNotFoundError),
    (lambda ds: lance_df.dataset(ds.uri + "/nothing"), DatasetNotFoundError),
    (lambda ds: lance_df.dataset(), InvalidInputError),
    (lambda ds: FragmentMetadata.from_json("{}"), InvalidInputError),
    (lambda ds: FragmentMetadata.from_json("no json"), InvalidInputError),
]


STRUCTS = pads.dataset(pa.table({"key": [1], "s": [{"x": 1}]}))


@pytest.mark.parametrize(("call", "error"), WRONG_CALLS, ids=range(len(WRONG_CALLS)))
def test_wrong_calls(ours: LanceDataset, call: Any, error: type[LanceError]) -> None:
    with pytest.raises(error) as caught:
        call(ours)
    assert type(caught.value) is error
    assert str(caught.value)


def test_integers_of_numpy(tmp_path: Path) -> None:
    uri, one = str(tmp_path / "t"), np.int64(1)
    lance_df.write_dataset(rows(0, 3), uri, max_rows_per_file=np.int32(2))
    ds = lance_df.write_dataset(rows(3, 6), uri, mode="append", max_rows_per_group=np.uint8(1))
    assert [fragment.count_rows() for fragment in ds.get_fragments()] == [2, 1, 3]
    assert ds.to_table(limit=one, offset=np.uint64(4)) == ds.to_table().slice(4, 1)
    assert ds.head(one) == ds.to_table().slice(0, 1)
    assert [batch.num_rows for batch in ds.to_batches(batch_size=one)] == [1] * 6
    assert lance_df.dataset(uri, version=one).version == ds.checkout_version((None, one)).version == 1
    ds.optimize.compact_files(
        target_rows_per_fragment=np.int64(9), excluded_fragment_ids=[np.int64(2)], num_threads=one
    )
    assert [fragment.count_rows() for fragment in ds.get_fragments()] == [3, 3]
    ds.cleanup_old_versions(retain_versions=one, delete_rate_limit=np.int64(100))
    assert len(ds.versions()) == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    lance.write_dataset(rows(0, 100), tmp_path / "t")
    (file,) = (tmp_path / "t" / "data").glob("*.lance")
    file.write_bytes(file.read_bytes()[:-10])
    ds = lance_df.dataset(tmp_path / "t")
    for read in (ds.to_table, lambda: ds.take([1]), lambda: list(ds.to_batches()), ds.validate):
        with pytest.raises(CorruptDataError, match=file.name):
            read()
    file.unlink()
    with pytest.raises(CorruptDataError, match=r"missing"):
        lance_df.dataset(tmp_path / "t").to_table()


def test_memory_and_read_only_stores(folder: Path, tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    store.put(str(folder), "/calls-memory", recursive=True)
    ds = lance_df.dataset("memory://calls-memory")
    assert ds.to_table().equals(lance_df.dataset(folder).to_table())
    assert ds.take([5, 50]).equals(lance_df.dataset(folder).take([5, 50]))
    assert ds.count_rows("key > 50 AND small = 1") == lance_df.dataset(folder).count_rows(
        "key > 50 AND small = 1"
    )
    store.rm("/calls-memory", recursive=True)
    before = sorted(str(path) for path in folder.rglob("*"))
    lance_df.dataset(f"file://{folder}").to_table(filter="key > 3")
    assert sorted(str(path) for path in folder.rglob("*")) == before
    assert not list(tmp_path.iterdir())
