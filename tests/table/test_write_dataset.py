"""`write_dataset`: what it takes, what it makes of it, and that pylance reads, changes and validates it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import lance_df
from lance_df.errors import AlreadyExistsError, InvalidInputError, StorageError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSIONS = ("2.0", "2.1", "2.2")


SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "maybe": pa.float64(),
        "tags": pa.list_(pa.string()),
        "point": pa.struct({"x": pa.int64(), "y": pa.string()}),
    }
)


def numbers(start: int, stop: int) -> pa.Table:
    rows = [
        {
            "id": i,
            "name": f"name {i % 13}",
            "maybe": None if i % 3 == 0 else i / 4,
            "tags": None if i % 5 == 0 else [str(i)] * (i % 4),
            "point": {"x": i, "y": str(i)},
        }
        for i in range(start, stop)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} if folder.exists() else set()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_life_with_pylance(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(numbers(0, 1000), uri, max_rows_per_file=300, data_storage_version=version)
    ours = lance_df.write_dataset(numbers(1000, 1500), uri, mode="append")
    assert ours.version == 2
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.data_storage_version == version
    assert [fragment.count_rows() for fragment in theirs.get_fragments()] == [300, 300, 300, 100, 500]
    assert theirs.to_table().equals(numbers(0, 1500))
    assert ours.to_table().equals(numbers(0, 1500))
    assert theirs.take([0, 299, 300, 1499]).equals(numbers(0, 1500).take([0, 299, 300, 1499]))
    assert theirs.count_rows("maybe is null") == 500

    theirs = lance.write_dataset(numbers(1500, 1600), uri, mode="append")
    theirs.delete("id % 2 = 0")
    theirs.update({"name": "'changed'"}, where="id < 100")
    theirs.create_scalar_index("id", "BTREE")
    theirs.optimize.compact_files()
    lance_df.write_dataset(numbers(1600, 1700), uri, mode="append")
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.count_rows() == 800 + 100
    assert theirs.count_rows("id = 1601") == theirs.count_rows("id = 77") == 1
    assert theirs.count_rows("name = 'changed'") == 50
    assert lance_df.dataset(uri).count_rows("name = 'changed'") == 50
    assert [index.name for index in theirs.describe_indices()] == ["id_idx"]


def test_names_of_old_tables_are_continued(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(numbers(0, 10), uri, enable_v2_manifest_paths=False)
    lance_df.write_dataset(numbers(10, 20), uri, mode="append")
    assert {"1.manifest", "2.manifest"} <= {path.name for path in (tmp_path / "t.lance/_versions").iterdir()}
    assert lance.dataset(uri).count_rows() == 20


def test_stable_row_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(numbers(0, 10), uri, enable_stable_row_ids=True, max_rows_per_file=7)
    lance.dataset(uri).delete("id = 3")
    lance_df.write_dataset(numbers(10, 15), uri, mode="append")
    theirs = lance.write_dataset(numbers(15, 17), uri, mode="append")
    theirs.validate()
    found = theirs.to_table(columns=["id", "_row_created_at_version"], with_row_id=True)
    ids = [i for i in range(17) if i != 3]
    assert found["_rowid"].to_pylist() == found["id"].to_pylist() == ids
    assert found["_row_created_at_version"].to_pylist() == [1] * 9 + [3] * 5 + [4] * 2
    lance_df.write_dataset(numbers(0, 2), uri, mode="overwrite")
    # row ids and fragment ids are never used twice
    assert lance.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == [17, 18]
    assert [fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()] == [4]


def test_overwrite_keeps_older_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(numbers(0, 10), uri, data_storage_version="2.0")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    other = pa.table({"z": [1.5, 2.5]})
    assert lance_df.write_dataset(other, uri, mode="overwrite").version == 3
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.to_table().equals(other)
    assert theirs.describe_indices() == []
    assert theirs.data_storage_version == "2.0"
    assert lance.dataset(uri, version=1).to_table().equals(numbers(0, 10))


def test_what_pylance_configured_stays(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    theirs = lance.write_dataset(numbers(0, 10), uri)
    theirs.update_config({"key": "value"})
    theirs.update_metadata({"owner": "me"})
    lance_df.write_dataset(numbers(10, 20), uri, mode="append")
    theirs = lance.dataset(uri)
    assert theirs.config() == {"key": "value"}
    assert theirs.metadata == {"owner": "me"}
    theirs.delete("id = 1")
    assert theirs.count_rows() == 19


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_missing_tables_are_created(tmp_path: Path, mode: Any) -> None:
    uri = str(tmp_path / "deep/er/t.lance")
    assert lance_df.write_dataset(numbers(0, 3), uri, mode=mode).version == 1
    assert lance.dataset(uri).count_rows() == 3


def test_no_rows_at_all(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(numbers(0, 0), uri)
    assert lance.dataset(uri).schema == numbers(0, 0).schema
    assert lance.dataset(uri).get_fragments() == []
    lance_df.write_dataset(numbers(0, 0), uri, mode="append")
    lance_df.write_dataset(numbers(0, 2), uri, mode="append")
    lance.dataset(uri).validate()
    assert lance.dataset(uri).count_rows() == 2


_TABLE = numbers(0, 50).select(["id", "name"])
SOURCES: dict[str, Callable[[], Any]] = {
    "table": lambda: _TABLE,
    "batch": lambda: _TABLE.to_batches()[0],
    "reader": _TABLE.to_reader,
    "dict": _TABLE.to_pydict,
    "rows": _TABLE.to_pylist,
    "pandas": lambda: _TABLE.to_pandas(),
    "dataset": lambda: pads.dataset(_TABLE),
    "scanner": lambda: pads.dataset(_TABLE).scanner(),
    "stream": lambda: type("Stream", (), {"__arrow_c_stream__": _TABLE.__arrow_c_stream__})(),
}


@pytest.mark.parametrize("source", SOURCES)
def test_any_arrow_data(tmp_path: Path, source: str) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(SOURCES[source](), uri)
    assert lance.dataset(uri).to_table().to_pylist() == _TABLE.to_pylist()


def test_polars_and_views(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(pl.from_arrow(_TABLE), uri)
    assert lance.dataset(uri).to_table().to_pylist() == _TABLE.to_pylist()
    views = pa.table({"s": pa.array(["a", None, "longer than twelve bytes"], pa.string_view())})
    lance_df.write_dataset(views, uri, mode="overwrite")
    assert lance.dataset(uri).to_table()["s"].to_pylist() == views["s"].to_pylist()


def test_pandas_index_is_left_out_and_schema_is_followed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    frame = pd.DataFrame({"a": [1, 2]}, index=[7, 8])
    lance_df.write_dataset(frame, uri, schema=pa.schema({"a": pa.int8()}))
    assert lance.dataset(uri).schema.field("a").type == pa.int8()
    assert lance.dataset(uri).schema.names == ["a"]


def test_iterables_need_a_schema(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    with pytest.raises(InvalidInputError, match="has no schema"):
        lance_df.write_dataset(iter(_TABLE.to_batches()), uri)
    batches = (batch for start in range(5) for batch in _TABLE.slice(start * 10, 10).to_batches())
    lance_df.write_dataset(batches, uri, schema=_TABLE.schema)
    assert lance.dataset(uri).to_table().equals(_TABLE)


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    rows = [{"a": 1, "s": {"x": 1, "y": [{"p": 1, "q": 2}]}}]
    kind = pa.struct({"x": pa.int64(), "y": pa.list_(pa.struct({"p": pa.int64(), "q": pa.int64()}))})
    lance_df.write_dataset(pa.table({"a": [1], "s": pa.array([rows[0]["s"]], kind)}), uri)
    shuffled = pa.struct({"y": pa.list_(pa.struct({"q": pa.int64(), "p": pa.int64()})), "x": pa.int64()})
    more = [{"y": [{"q": 4, "p": 3}, None], "x": 5}, None, {"y": None, "x": 6}]
    lance_df.write_dataset(pa.table({"s": pa.array(more, shuffled)}), uri, mode="append")
    expected = [
        *rows,
        {"a": None, "s": {"x": 5, "y": [{"p": 3, "q": 4}, None]}},
        {"a": None, "s": None},
        {"a": None, "s": {"x": 6, "y": None}},
    ]
    theirs = lance.dataset(uri)
    theirs.validate()
    assert lance_df.dataset(uri).to_table().to_pylist() == expected
    assert theirs.to_table().to_pylist() == expected


STRICT_LIST = pa.list_(pa.field("item", pa.int64(), nullable=False))
STRICT_MAP = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
RELATED = {
    "list": (pa.array([[5]], STRICT_LIST), pa.array([[1, 2], [3]], pa.list_(pa.int64()))),
    "looser list": (pa.array([[5]], pa.list_(pa.int64())), pa.array([[1, 2], None], STRICT_LIST)),
    "slice": (pa.array([[5]], STRICT_LIST), pa.array([[9], [1, 2], [], [3]], pa.list_(pa.int64()))[1:]),
    "large": (
        pa.array([["a"]], pa.large_list(pa.string())),
        pa.array([["b", None], None], pa.large_list(pa.string_view())),
    ),
    "map": (
        pa.array([[("a", 1)]], STRICT_MAP),
        pa.array([[("b", 2)], None], pa.map_(pa.string(), pa.int64())),
    ),
    "vectors": (
        pa.array([[{"x": 1, "y": 2}]], pa.list_(pa.struct({"x": pa.int8(), "y": pa.int8()}), 1)),
        pa.array([[{"y": 3, "x": 4}], None], pa.list_(pa.struct({"y": pa.int8(), "x": pa.int8()}), 1)),
    ),
}


@pytest.mark.parametrize("case", RELATED)
def test_types_that_differ_in_nullability_or_order_only(tmp_path: Path, case: str) -> None:
    uri = str(tmp_path / "t.lance")
    first, second = RELATED[case]
    lance_df.write_dataset(pa.table({"c": first}), uri)
    found = lance_df.write_dataset(pa.table({"c": second}), uri, mode="append").to_table()["c"]
    assert found.to_pylist() == first.to_pylist() + second.to_pylist()
    assert lance.dataset(uri).to_table()["c"].to_pylist() == found.to_pylist()


def test_metadata_and_extension_types_survive(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    schema = pa.schema(
        [pa.field("u", pa.uuid()), pa.field("a", pa.int64(), metadata={"unit": "km"})],
        metadata={"made": "here"},
    )
    table = pa.table([pa.array([b"0" * 16], pa.uuid()), pa.array([1])], schema=schema)
    lance_df.write_dataset(table, uri)
    theirs = lance.dataset(uri)
    assert theirs.schema.equals(schema, check_metadata=True)
    assert theirs.to_table()["u"].to_pylist() == table["u"].to_pylist()


def test_messages_and_properties_are_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(_TABLE, uri, commit_message="first", transaction_properties={"job": "7"})
    properties = lance.dataset(uri).read_transaction(1).transaction_properties
    assert properties == {"__lance_commit_message": "first", "job": "7"}


NOT_NULL = pa.schema([pa.field("a", pa.int64(), nullable=False)])
NULL_IN_DICTIONARY = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", None]))
BAD: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "mode": (_TABLE, {"mode": "insert"}, InvalidInputError, "mode 'insert' is unknown"),
    "duplicate": (
        pa.table([[1], [2]], names=["a", "a"]),
        {},
        InvalidInputError,
        "two columns are called 'a'",
    ),
    "dot": (pa.table({"a.b": [1]}), {}, InvalidInputError, "'a.b' has a dot"),
    "reserved": (pa.table({"_rowid": [1]}), {}, InvalidInputError, "'_rowid' is reserved"),
    "interval": (
        pa.table({"a": pa.nulls(1, pa.month_day_nano_interval())}),
        {},
        UnsupportedFeatureError,
        "does not support Arrow type",
    ),
    "null": (pa.table([[1, None]], schema=NOT_NULL), {}, InvalidInputError, "'a' is declared not null"),
    "late null": (
        pa.table([[1] * 100 + [None]], schema=NOT_NULL),
        {"max_rows_per_file": 10},
        InvalidInputError,
        "not null",
    ),
    "null in a dictionary": (
        pa.table([NULL_IN_DICTIONARY], schema=pa.schema([("a", NULL_IN_DICTIONARY.type, False)])),
        {"data_storage_version": "2.0"},
        InvalidInputError,
        "'a' is declared not null",
    ),
    "no rows a file": (_TABLE, {"max_rows_per_file": 0}, InvalidInputError, "max_rows_per_file"),
    "version": (_TABLE, {"data_storage_version": "2.9"}, InvalidInputError, "'2.9' cannot be written"),
    "unstable": (
        _TABLE,
        {"data_storage_version": "next"},
        UnsupportedFeatureError,
        "'next' cannot be written",
    ),
    "map": (
        pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}),
        {"data_storage_version": "2.1"},
        UnsupportedFeatureError,
        "maps need file version 2.2",
    ),
    "null struct": (
        pa.table({"s": [{"x": 1}, None]}),
        {"data_storage_version": "2.0"},
        InvalidInputError,
        "cannot be null",
    ),
    "null without fields": (
        pa.table({"s": pa.array([{}, None], pa.struct([]))}),
        {},
        UnsupportedFeatureError,
        "a struct without fields cannot be null or in a list",
    ),
    "dictionary of dates": (
        pa.table({"d": pa.array([1], pa.date32()).dictionary_encode()}),
        {},
        UnsupportedFeatureError,
        "not support dictionaries of date32:day",
    ),
    "vectors of text": (
        pa.table({"v": pa.array([["a"]], pa.list_(pa.string(), 1))}),
        {},
        UnsupportedFeatureError,
        "not support fixed-size lists of string",
    ),
    "nested vectors of structs": (
        pa.table({"v": pa.array([[[{"x": 1}]]], pa.list_(pa.list_(pa.struct({"x": pa.int8()}), 1), 1))}),
        {},
        UnsupportedFeatureError,
        "fixed-size lists of structs need",
    ),
    "no size": (
        pa.table({"b": pa.array([b""], pa.binary(0))}),
        {"data_storage_version": "2.1"},
        UnsupportedFeatureError,
        "of size 0",
    ),
    "no data": (7, {}, InvalidInputError, "int is not Arrow data"),
    "schema": (_TABLE, {"schema": pa.schema({"other": pa.int8()})}, InvalidInputError, "does not have all"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_leaves_nothing_behind(tmp_path: Path, case: str) -> None:
    data, options, error, message = BAD[case]
    with pytest.raises(error, match=message):
        lance_df.write_dataset(data, str(tmp_path / "t.lance"), **options)
    assert files_below(tmp_path) == set()


BAD_APPENDS: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "create": (_TABLE, {"mode": "create"}, AlreadyExistsError, "table already exists"),
    "unknown": (
        _TABLE.append_column("z", pa.nulls(50)),
        {},
        InvalidInputError,
        "do not exist in the table: z",
    ),
    "type": (
        pa.table({"id": pa.array([1], pa.int32()), "name": ["x"]}),
        {},
        InvalidInputError,
        "'id' has type int64",
    ),
    "missing": (pa.table({"name": ["x"]}), {}, InvalidInputError, "'id' is not nullable"),
    "null": (pa.table({"id": pa.nulls(1, pa.int64())}), {}, InvalidInputError, "'id' is declared not null"),
    "version": (_TABLE, {"data_storage_version": "0.1"}, InvalidInputError, "has file version 2.2"),
    "null item": (
        pa.table({"id": [1], "strict": pa.array([[1, None]], pa.list_(pa.int64()))}),
        {},
        InvalidInputError,
        "'strict.item' is declared not null",
    ),
}


@pytest.mark.parametrize("case", BAD_APPENDS)
def test_bad_appends_change_nothing(tmp_path: Path, case: str) -> None:
    uri = str(tmp_path / "t.lance")
    schema = pa.schema([_TABLE.schema.field("id").with_nullable(False), _TABLE.schema.field("name")])
    strict = pa.array([[1]] * 50, STRICT_LIST)
    lance_df.write_dataset(_TABLE.cast(schema).append_column("strict", strict), uri)
    before = files_below(tmp_path)
    data, options, error, message = BAD_APPENDS[case]
    with pytest.raises(error, match=message):
        lance_df.write_dataset(data, uri, **{"mode": "append", **options})
    assert files_below(tmp_path) == before


def test_a_source_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def batches() -> Any:
        yield _TABLE.to_batches()[0]
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        lance_df.write_dataset(batches(), str(tmp_path / "t.lance"), schema=_TABLE.schema)
    assert files_below(tmp_path) == set()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        lance_df.write_dataset(_TABLE, str(tmp_path / "file/t.lance"))
    assert files_below(tmp_path) == {"file"}


@pytest.mark.parametrize("version", VERSIONS)
def test_json_and_blob_columns(tmp_path: Path, version: str) -> None:
    blob = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    for name, table in (
        ("blob", pa.table([pa.array([b"x", None, b"yy" * 999], pa.large_binary())], schema=blob)),
        ("json", pa.table({"j": pa.array(['{"a": 1}', None], pa.json_())})),
    ):
        made = lance_df.write_dataset(table, tmp_path / name, data_storage_version=version)  # type: ignore[arg-type]
        expected = lance.write_dataset(table, tmp_path / f"their {name}", data_storage_version=version)
        found = lance.dataset(made.uri)
        found.validate()
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.to_table().equals(expected.to_table())


@pytest.mark.parametrize("place", ["memory", "s3"])
def test_other_stores(request: pytest.FixtureRequest, place: str, tmp_path: Path) -> None:
    if place == "s3":
        uri, options = f"{request.getfixturevalue('bucket')}/t.lance", request.getfixturevalue("s3_options")
    else:
        uri, options = f"memory://{tmp_path}/t.lance", None
    lance_df.write_dataset(numbers(0, 100), uri, storage_options=options)
    found = lance_df.write_dataset(
        numbers(100, 200), uri, mode="append", storage_options=options, statistics=True
    )
    assert found.to_table().equals(numbers(0, 200))
    assert found.version == 3
    if place == "s3":
        with pytest.raises(AlreadyExistsError):
            lance_df.write_dataset(numbers(0, 1), uri, storage_options=options)
    # a dataset stands for its place, and brings its options
    lance_df.write_dataset(numbers(0, 200), found, mode="overwrite")
    if place == "s3":
        theirs = lance.dataset(
            uri,
            storage_options={
                "access_key_id": options["key"],
                "secret_access_key": options["secret"],
                "endpoint": options["endpoint_url"],
                "region": "us-east-1",
                "allow_http": "true",
            },
        )
        theirs.validate()
        assert theirs.to_table().equals(numbers(0, 200))
