"""Every argument of pylance's `write_dataset`, every source of rows, and what is refused, beside pylance."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import lance_df
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.fragment import FragmentMetadata, FragmentWriteProgress, NoopFragmentWriteProgress
from lance_df.sources import to_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TABLE = pa.table({"a": [1, 2, 3, 4], "s": ["x", None, "z", "ü"]})


def both(folder: Path, data: Any, **arguments: Any) -> tuple[lance_df.LanceDataset, lance.LanceDataset]:
    """Write with both libraries, and return what pylance thinks of both."""
    ours = lance_df.write_dataset(data, folder / "ours", **arguments)
    theirs = lance.write_dataset(data, folder / "theirs", **arguments)
    found = lance.dataset(ours.uri)
    found.validate()
    assert found.to_table().equals(theirs.to_table(), check_metadata=True)
    assert ours.to_table().equals(theirs.to_table(), check_metadata=True)
    return ours, theirs


def test_arguments_are_those_of_pylance() -> None:
    mine = inspect.signature(lance_df.write_dataset).parameters
    for name, parameter in inspect.signature(lance.write_dataset).parameters.items():
        assert mine[name].default == parameter.default, name
        assert mine[name].kind == parameter.kind, name
    assert mine.keys() - inspect.signature(lance.write_dataset).parameters.keys() == {
        "allowed_base_schemes",
        "external_store",
        "statistics",
    }


class Capsule:
    def __init__(self, method: str, data: Any) -> None:
        setattr(type(self), method, lambda _, schema=None: getattr(data, method)(schema))


SOURCES: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "chunked table": lambda: pa.concat_tables([TABLE, TABLE.slice(1, 2)]),
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "dataset": lambda: pads.dataset(TABLE),
    "scanner": lambda: pads.dataset(TABLE).scanner(columns=["s"]),
    "dict": TABLE.to_pydict,
    "list of dicts": TABLE.to_pylist,
    "pandas": lambda: pd.DataFrame({"a": [1, 2], "s": ["x", None]}),
    "pandas with an index": lambda: pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key")),
    "polars": lambda: pl.DataFrame({"a": [1, None], "s": ["x", "y"]}),
    "empty table": lambda: TABLE.slice(0, 0),
    "no columns": lambda: pa.table({}),
    "metadata": lambda: TABLE.replace_schema_metadata({"k": "v"}),
    "views": lambda: pa.table({"v": pa.array(["x", None], pa.string_view())}),
}


@pytest.mark.parametrize("source", SOURCES)
def test_sources(tmp_path: Path, source: str) -> None:
    lance_df.write_dataset(SOURCES[source](), tmp_path / "ours")
    expected = lance.write_dataset(SOURCES[source](), tmp_path / "theirs")
    found = lance.dataset(str(tmp_path / "ours"))
    found.validate()
    assert found.to_table().equals(expected.to_table(), check_metadata=True)


def test_lance_tables_as_sources(tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, TABLE)
    sources = [ours, theirs, ours.scanner(columns=["a"]), theirs.scanner(columns=["a"])]
    for number, source in enumerate(sources):
        copy = lance_df.write_dataset(source, tmp_path / f"copy {number}")
        assert copy.to_table().equals(source.to_table())


def test_sources_that_only_this_package_takes(tmp_path: Path) -> None:
    stream, array = Capsule("__arrow_c_stream__", TABLE), TABLE.to_batches()[0].to_struct_array()
    assert lance_df.write_dataset(stream, tmp_path / "stream").to_table().equals(TABLE)
    assert lance_df.write_dataset(array, tmp_path / "array").to_table().equals(TABLE)
    smaller = pa.schema([("s", pa.large_string()), ("a", pa.int8())])
    cast = lance_df.write_dataset(TABLE, tmp_path / "cast", smaller)
    assert cast.to_table().equals(TABLE.select(["s", "a"]).cast(smaller))


def test_iterables_need_a_schema(tmp_path: Path) -> None:
    wider = pa.schema([("a", pa.float64()), ("s", pa.string())])
    for number, data in enumerate((iter(TABLE.to_batches()), [TABLE, *TABLE.to_batches()], [])):
        made = lance_df.write_dataset(data, tmp_path / str(number), wider)
        assert made.schema.equals(wider)
    with pytest.raises(InvalidInputError, match="has no schema"):
        lance_df.write_dataset(iter(TABLE.to_batches()), tmp_path / "new")


@pytest.mark.parametrize(
    ("data", "schema", "message"),
    [
        (5, None, "int is not Arrow data"),
        (None, None, "NoneType is not Arrow data"),
        ("rows", TABLE.schema, "end in .parquet or .csv"),
        ([], None, "has no schema"),
        ([1, 2], TABLE.schema, "it has a int"),
        ({"a": [1, "x"]}, None, "cannot be converted to Arrow data"),
        ({"a": [1], "b": [1, 2]}, None, "cannot be converted to Arrow data"),
        (
            TABLE.select(["a"]),
            pa.schema([("a", pa.int64()), ("z", pa.int64())]),
            "cannot be cast to the given schema",
        ),
        (TABLE, pa.schema([("a", pa.int64()), ("s", pa.int64())]), "cannot be cast to the given schema"),
        (TABLE, "a", "expected a pyarrow schema, got 'a'"),
    ],
)
def test_sources_that_are_refused(tmp_path: Path, data: Any, schema: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        lance_df.write_dataset(data, tmp_path / "new", schema)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("limit", ["max_rows_per_file", "max_bytes_per_file", "max_rows_per_group"])
@pytest.mark.parametrize("value", [None, 2**63, 2**70])
@pytest.mark.parametrize("version", ["0.1", "2.2"])
def test_limits_that_are_none_or_very_large(
    tmp_path: Path, limit: str, value: int | None, version: str
) -> None:
    arguments: dict[str, Any] = {limit: value, "data_storage_version": version}
    table = lance_df.write_dataset(TABLE, tmp_path / "t.lance", **arguments)
    assert table.to_table() == TABLE
    assert len(table.get_fragments()) == 1
    table.insert(TABLE)
    metrics = table.optimize.compact_files(num_threads=2**63)
    assert (metrics.fragments_removed, metrics.fragments_added) == (2, 1)


def test_modes_may_be_written_in_capitals(tmp_path: Path) -> None:
    for library in (lance_df, lance):
        uri = str(tmp_path / library.__name__)
        versions = [
            library.write_dataset(TABLE, uri, mode=mode) for mode in ("CREATE", "Append", "OVERWRITE")
        ]
        assert [each.count_rows() for each in versions] == [4, 8, 4]
        assert len(library.fragment.write_fragments(TABLE, uri, mode="APPEND")) == 1
    with pytest.raises(lance_df.AlreadyExistsError):
        lance_df.write_dataset(TABLE, tmp_path / "lance_df", mode="CREATE")
    lance_df.write_dataset(TABLE, "memory://modes", mode="CREATE")
    assert lance_df.write_dataset(TABLE, "memory://modes", mode="Create").version == 1


NARROW = pa.schema([("a", pa.int64())])
STRUCTS = pa.table({"n": [{"x": 1, "y": 2}]})


@pytest.mark.parametrize("source", ["table", "batch", "reader", "dataset", "polars", "batches", "structs"])
def test_columns_that_the_schema_does_not_have_are_refused(tmp_path: Path, source: str) -> None:
    data, schema, names = SOURCES.get(source, lambda: iter(TABLE.to_batches()))(), NARROW, ": s;"
    if source == "structs":
        data, schema, names = STRUCTS, pa.schema([("n", pa.struct([("y", pa.int64())]))]), ": n.x;"
    with pytest.raises(InvalidInputError, match=f"not have all columns of the data{names}"):
        lance_df.write_dataset(data, tmp_path / "new", schema)
    assert not (tmp_path / "new").exists()


def test_columns_of_frames_and_dicts_are_chosen_by_the_schema_as_by_pyarrow(tmp_path: Path) -> None:
    for number, data in enumerate((TABLE.to_pandas(), TABLE.to_pydict(), TABLE.to_pylist())):
        assert lance_df.write_dataset(data, tmp_path / str(number), NARROW).schema.equals(NARROW)
        assert lance.write_dataset(data, tmp_path / f"pylance {number}", NARROW).schema.equals(NARROW)
    for data in (TABLE.to_pandas(), TABLE.to_pydict()):
        with pytest.raises(ColumnNotFoundError, match="schema"):
            lance_df.write_dataset(data, tmp_path / "new", pa.schema([("z", pa.int64())]))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"a": [6]}, "cannot be cast to the given schema"),
        ({"x": [6], "y": ["q"]}, "does not have all columns of the data: x, y"),
        ({"a": [6], "s": ["q"], "c": [1]}, "does not have all columns of the data: c"),
    ],
    ids=["missing", "others", "extra"],
)
def test_batches_that_are_not_as_their_reader_says(
    tmp_path: Path, second: dict[str, list[Any]], message: str
) -> None:
    table = lance_df.write_dataset(TABLE, tmp_path / "t.lance")

    def reader() -> pa.RecordBatchReader:
        batches = [pa.record_batch({"a": [5], "s": ["g"]}), pa.record_batch(second)]
        return pa.RecordBatchReader.from_batches(TABLE.schema, iter(batches))

    writes: list[Callable[[], object]] = [
        lambda: table.insert(reader()),
        lambda: lance_df.write_dataset(reader(), tmp_path / "new.lance"),
        lambda: lance_df.write_dataset(reader(), tmp_path / "t.lance", mode="append", schema=TABLE.schema),
        lambda: table.merge_insert("a").when_not_matched_insert_all().execute(reader()),
    ]
    for write in writes:
        with pytest.raises(InvalidInputError, match=message):
            write()
    assert lance_df.dataset(tmp_path / "t.lance").to_table() == TABLE


def test_streams_are_read_one_batch_ahead() -> None:
    made, threads = [], set()

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            made.append(number)
            threads.add(threading.current_thread())
            yield pa.record_batch({"a": [number]})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    _, stream = to_batches(reader)
    assert made == []
    for number, batch in enumerate(stream):
        assert batch["a"].to_pylist() == [number]
        assert len(made) <= number + 2
    assert len(made) == 5
    assert threading.current_thread() not in threads


def test_an_error_of_a_stream_is_raised_and_leaves_nothing(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise RuntimeError("lost")

    data = lance_df.write_dataset(TABLE, tmp_path / "t")
    before = sorted(tmp_path.rglob("*"))
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    for uri in (data.uri, str(tmp_path / "new")):
        with pytest.raises(RuntimeError, match="lost"):
            lance_df.write_dataset(reader, uri, mode="append")
        reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    assert sorted(tmp_path.rglob("*")) == before


def test_file_versions_of_modes(tmp_path: Path) -> None:
    """None is the table's own, an explicit one is for the new files, and stays when all is overwritten."""
    ours, theirs = both(tmp_path, TABLE, data_storage_version="2.0")
    steps: list[dict[str, Any]] = [
        {"mode": "append"},
        {"mode": "append", "data_storage_version": "2.2"},
        {"mode": "append", "data_storage_version": "stable"},
        {"mode": "overwrite"},
        {"mode": "overwrite", "data_storage_version": "2.1"},
        {"mode": "append"},
    ]
    for step in steps:
        ours = lance_df.write_dataset(TABLE, ours, **step)
        theirs = lance.write_dataset(TABLE, theirs, **step)
        mine, other = ours._table.manifest, lance_df.dataset(theirs.uri)._table.manifest
        assert mine.data_format == other.data_format
        assert [f.files[0].version for f in mine.fragments] == [f.files[0].version for f in other.fragments]
        assert mine.reader_feature_flags == other.reader_feature_flags
        assert mine.writer_feature_flags == other.writer_feature_flags
        found = lance.dataset(ours.uri)
        found.validate()
        assert ours.to_table().equals(found.to_table())
    for first, second in (("0.1", "2.2"), ("2.2", "legacy")):
        uri = str(tmp_path / first)
        lance_df.write_dataset(TABLE, uri, data_storage_version=first)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match=f"has file version {first}"):
            lance_df.write_dataset(TABLE, uri, mode="append", data_storage_version=second)  # type: ignore[arg-type]


def test_mixed_versions_are_changed_by_both(tmp_path: Path) -> None:
    ours = lance_df.write_dataset(TABLE, tmp_path / "t", data_storage_version="2.0")
    ours = lance_df.write_dataset(TABLE, ours, mode="append", data_storage_version="2.2")
    ours.delete("a = 1")
    theirs = lance.dataset(ours.uri)
    theirs.delete("a = 2")
    ours.checkout_latest()
    ours.optimize.compact_files()
    theirs = lance.dataset(ours.uri)
    theirs.validate()
    assert theirs.to_table()["a"].to_pylist() == ours.to_table()["a"].to_pylist() == [3, 4, 3, 4]


def test_legacy_format_is_deprecated(tmp_path: Path) -> None:
    for flag, version in ((True, "0.1"), (False, "2.2")):
        with pytest.warns(DeprecationWarning, match="use_legacy_format"):
            made = lance_df.write_dataset(TABLE, tmp_path / version, use_legacy_format=flag)
        assert lance.dataset(made.uri).data_storage_version == version


@pytest.mark.parametrize(
    "options", [{"interval": 3, "older_than_seconds": 90}, {"interval": 7}, {"older_than_seconds": 0}, {}]
)
def test_automatic_cleanup_is_configured(tmp_path: Path, options: dict[str, int]) -> None:
    ours, theirs = both(tmp_path, TABLE, auto_cleanup_options=options)
    assert ours.config() == theirs.config()
    # pylance understands it when it commits, and nothing becomes of it for tables that exist
    other = {"interval": 1, "older_than_seconds": 1}
    lance.write_dataset(TABLE, ours.uri, mode="append")
    again = lance_df.write_dataset(TABLE, ours, mode="append", auto_cleanup_options=other)  # type: ignore[arg-type]
    assert again.config() == theirs.config()


def test_longer_times_are_text_that_pylance_understands(tmp_path: Path) -> None:
    seconds = 400 * 86400 + 3 * 3600 + 5
    options = {"interval": 1, "older_than_seconds": seconds}
    made = lance_df.write_dataset(TABLE, tmp_path / "t", auto_cleanup_options=options)  # type: ignore[arg-type]
    assert made.config()["lance.auto_cleanup.older_than"] == "400days 3h 5s"
    assert lance.write_dataset(TABLE, made.uri, mode="append").count_rows() == 8


def test_messages_and_properties(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "commit_message": "why",
        "transaction_properties": {"a": "b", "__lance_commit_message": "lost"},
    }
    ours, theirs = both(tmp_path, TABLE, **arguments)
    expected = theirs.read_transaction(1).transaction_properties
    assert lance.dataset(ours.uri).read_transaction(1).transaction_properties == expected
    assert expected == {"a": "b", "__lance_commit_message": "why"}


def test_progress_is_told_of_every_file(tmp_path: Path) -> None:
    class Progress(FragmentWriteProgress):
        def __init__(self) -> None:
            self.calls: list[tuple[str, int | None]] = []

        def begin(self, fragment: FragmentMetadata, **_: Any) -> None:
            assert isinstance(fragment, FragmentMetadata)
            self.calls.append(("begin", len(fragment.files)))

        def complete(self, fragment: FragmentMetadata, **_: Any) -> None:
            assert isinstance(fragment, FragmentMetadata)
            self.calls.append((fragment.files[0].path, fragment.physical_rows))

    progress = Progress()
    made = lance_df.write_dataset(TABLE, tmp_path / "t", progress=progress, max_rows_per_file=3)
    names = [fragment.files[0].path for fragment in made._table.fragments]
    assert progress.calls == [("begin", 0), (names[0], 3), ("begin", 0), (names[1], 1)]
    progress = Progress()
    (staged,) = lance_df.fragment.write_fragments(TABLE, tmp_path / "t", progress=progress)
    assert progress.calls == [("begin", 0), (staged.files[0].path, 4)]
    lance_df.write_dataset(TABLE, tmp_path / "quiet", progress=NoopFragmentWriteProgress())


def test_pages_are_as_small_as_asked_for(tmp_path: Path) -> None:
    data = pa.table({"a": pa.array(range(40_000), pa.int64()), "b": pa.array(range(40_000), pa.int64())})
    pages = {}
    for name, arguments in (
        ("default", {}),
        ("page", {"max_page_bytes": 40_000}),
        ("cache", {"data_cache_bytes": 80_000}),
        ("nothing", {"data_cache_bytes": 0}),
    ):
        made = lance_df.write_dataset(data, tmp_path / name, **arguments)
        found = lance.dataset(made.uri)
        found.validate()
        assert found.to_table().equals(data)
        path = tmp_path / name / "data" / made._table.fragments[0].files[0].path
        pages[name] = len(lance.file.LanceFileReader(str(path)).metadata().columns[0].pages)
    assert pages["default"] == 1
    assert pages["page"] == pages["cache"] == 8
    assert pages["nothing"] > 8


def test_a_dataset_stands_for_its_branch(tmp_path: Path) -> None:
    main = lance_df.write_dataset(TABLE, tmp_path / "t")
    branch = main.create_branch("br")
    by_dataset = lance_df.write_dataset(TABLE, branch, mode="append")
    by_checkout = lance_df.write_dataset(TABLE, main.checkout_version(("br", None)), mode="append")
    by_path = lance_df.write_dataset(TABLE, f"{main.uri}/tree/br", mode="append")
    assert [each.version for each in (by_dataset, by_checkout, by_path)] == [2, 3, 4]
    assert lance.dataset(f"{main.uri}/tree/br").count_rows() == by_path.count_rows() == 16
    assert lance.dataset(main.uri).count_rows() == main.count_rows() == 4
    # a dataset at an older version is written to at its newest one
    assert lance_df.write_dataset(TABLE, main.checkout_version(1), mode="append").version == 2
    assert lance_df.write_dataset(TABLE, main.checkout_version(1), mode="append").version == 3


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "mode": ({"mode": "merge"}, InvalidInputError, "mode 'merge' is unknown"),
    "number as mode": ({"mode": 1}, InvalidInputError, "mode 1 is unknown"),
    "rows per file": ({"max_rows_per_file": 0}, InvalidInputError, "max_rows_per_file must be"),
    "rows per group": ({"max_rows_per_group": -1}, InvalidInputError, "max_rows_per_group must be"),
    "bytes per file": ({"max_bytes_per_file": 0}, InvalidInputError, "max_bytes_per_file must be"),
    "text": ({"max_rows_per_file": "3"}, InvalidInputError, "must be a number of at least 1, got '3'"),
    "page bytes": ({"max_page_bytes": 0}, InvalidInputError, "max_page_bytes must be"),
    "unstable version": ({"data_storage_version": "next"}, UnsupportedFeatureError, "'next' cannot be"),
    "version": ({"data_storage_version": "1.0"}, InvalidInputError, "'1.0' cannot be written"),
    "number": ({"data_storage_version": 2.1}, InvalidInputError, "2.1 cannot be written"),
    "lock": ({"commit_lock": 5}, InvalidInputError, "commit_lock"),
    "pack": ({"blob_pack_file_size_threshold": 0}, InvalidInputError, "blob_pack_file_size_threshold"),
    "namespace": ({"namespace_client": object()}, UnsupportedFeatureError, "namespace_client"),
    "table id": ({"table_id": ["t"]}, UnsupportedFeatureError, "table_id"),
    "cleanup": ({"auto_cleanup_options": {"interval": "x"}}, InvalidInputError, "must have two numbers"),
    "negative": ({"auto_cleanup_options": {"interval": -1}}, InvalidInputError, "must have two numbers"),
    "property": ({"transaction_properties": {"a": 1}}, InvalidInputError, "a dict of strings"),
    "message": ({"commit_message": 5}, InvalidInputError, "commit_message must be a string"),
    "blobs": ({"external_blob_mode": "x"}, InvalidInputError, "'reference' or 'ingest'"),
    "outside": (
        {"external_blob_mode": "ingest", "allow_external_blob_outside_bases": True},
        InvalidInputError,
        "only applies when",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_are_refused(tmp_path: Path, case: str) -> None:
    arguments, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        lance_df.write_dataset(TABLE, tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


def test_references_to_blobs_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"external")
    uri = (tmp_path / "elsewhere").as_uri()
    table = pa.table({"b": lance.blob_array([lance.Blob.from_uri(uri), b"own"])})
    for library in (lance, lance_df):
        with pytest.raises((InvalidInputError, OSError), match="allow_external_blob_outside_bases"):
            library.write_dataset(table, tmp_path / "new", data_storage_version="2.2")
    made = lance_df.write_dataset(table, tmp_path / "t", allow_external_blob_outside_bases=True)
    found = lance.dataset(made.uri).take_blobs("b", indices=[0, 1])
    assert [blob.read() for blob in found] == [b"external", b"own"]
    own = pa.table({"b": lance.blob_array([b"own", None])})
    assert lance_df.write_dataset(own, made, mode="append").count_rows() == 4


@pytest.mark.parametrize("uri", [None, 5, b"/x", "", "a\0b"])
def test_places_that_are_none(uri: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"expected a path(, a URL)? or"):
        lance_df.write_dataset(TABLE, uri)


@pytest.mark.parametrize("name", ["", "a`b", "`", "nul\0", "_rowid", "_rowaddr", "_rowoffset", "x.y"])
def test_names_that_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="column"):
        lance_df.write_dataset(pa.table({name: [1]}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["_score", "a b", "A", "é/ä", " ", "_rowids", "x-y", '"'])
def test_odd_names_that_are_none(tmp_path: Path, name: str) -> None:
    both(tmp_path, pa.table({name: [1], "s": [{"in.ner": 1, "_rowid": 2, "": 3, "a`b": 4}]}))


def test_rows_without_columns(tmp_path: Path) -> None:
    rows = pa.Table.from_batches([pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))])
    with pytest.raises(InvalidInputError, match="3 rows without columns"):
        lance_df.write_dataset(rows, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", [pa.float32(), pa.float16()], ids=str)
def test_floats_may_lose_digits(tmp_path: Path, kind: pa.DataType) -> None:
    values = pa.array([0.1, None, float("nan"), float("-inf"), -0.0, 60_000.0])
    schema = pa.schema([("c", kind)])
    written = lance_df.write_dataset(pa.table({"c": values}), tmp_path / "t", schema=schema).to_table()
    assert str(written["c"].to_pylist()) == str(values.cast(kind).to_pylist())
    nested = pa.table({"c": pa.array([[0.1, None]])})
    schema = pa.schema([("c", pa.list_(kind))])
    assert lance_df.write_dataset(nested, tmp_path / "l", schema=schema).count_rows() == 1


LOSSY = [
    (pa.array([0.5, 1e39, None]), pa.float32(), "'c': 1e"),
    (pa.array([0.5, 70_000.0], pa.float32()), pa.float16(), "'c': 70000.0"),
    (pa.array([0, 86_400_000_001, None], pa.timestamp("us")), pa.date32(), "'c': 1970-01-02 00:00:00.000001"),
    (pa.array([0, 1], pa.timestamp("us")), pa.time64("us"), "'c': 1970-01-01 00:00:00"),
    (pa.array([0.5, 0.123]), pa.decimal128(5, 2), "'c': 0.123"),
    (pa.array([0, 5]), pa.bool_(), "'c': 5"),
    (pa.array([[0.5], None, [1e39]]), pa.large_list(pa.float32()), "'c.item': 1e"),
    (pa.array([{"a": 1e39}, None]), pa.struct([("a", pa.float32())]), "'c.a': 1e"),
    (pa.array([0.5, 1e39]).dictionary_encode(), pa.float32(), "'c': 1e"),
    (pa.array([{"a": 1}]), pa.list_(pa.int8()), "cannot be cast"),
    (pa.array([[1]]), pa.struct([("a", pa.int8())]), "cannot be cast"),
    (pa.array(["x"]), pa.int8(), "cannot be cast"),
]


@pytest.mark.parametrize(
    ("values", "kind", "named"), LOSSY, ids=lambda each: str(getattr(each, "type", each))
)
def test_casts_to_the_schema_lose_nothing(
    tmp_path: Path, values: pa.Array, kind: pa.DataType, named: str
) -> None:
    schema = pa.schema([("c", kind)])
    with pytest.raises(InvalidInputError, match=named):
        lance_df.write_dataset(pa.table({"c": values}), tmp_path / "t", schema=schema)
    assert not (tmp_path / "t").exists()
    if named.startswith("'c"):
        kept = pa.table({"c": values.slice(0, 1 if not pa.types.is_struct(kind) else 0)})
        kept = kept if not pa.types.is_time(kind) else kept.slice(0, 0)
        assert lance_df.write_dataset(kept, tmp_path / "t", schema=schema).to_table() == kept.cast(schema)
