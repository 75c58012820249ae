"""Blobs of 2.2 tables lie where pylance puts them, through every change, and both read them back."""

import datetime as dt
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.blob import BlobArray, BlobType, blob_array, blob_field
from lance_df.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_df.file.blobs.sidecars import Sidecars

_FIELD = lance.blob_field("b", inline_size_threshold=4, dedicated_size_threshold=20)
_VALUES = [b"tiny", b"p" * 5, b"q" * 20, None, b"", b"d" * 21, b"r" * 6, b"e" * 30]


def _rows(values: list[Any], field: pa.Field = _FIELD, *, start: int = 0) -> pa.Table:
    ids = pa.array(range(start, start + len(values)), pa.int64())
    other = pa.array([1] * len(values), pa.int64())
    schema = pa.schema([("id", pa.int64()), ("z", pa.int64()), field])
    return pa.table([ids, other, lance.blob_array(values)], schema=schema)


def _written(
    module: ModuleType, uri: str, values: Any = None, field: pa.Field = _FIELD, **options: Any
) -> Any:
    rows = _rows(_VALUES if values is None else values, field)
    return module.write_dataset(rows, uri, data_storage_version="2.2", **options)


def _placed(uri: str, column: str = "b") -> tuple[list[Any], list[dict[str, bytes]]]:
    """Return what pages say of blobs (but where in a data file) and the files beside each data file."""
    described = lance.dataset(uri).to_table(columns=[column]).column(0).to_pylist()
    places = [value if value is None or value["kind"] else {**value, "position": 0} for value in described]
    files = [
        {
            path.name: path.read_bytes()
            for path in sorted((Path(uri) / "data" / file.path).with_suffix("").glob("*"))
        }
        for fragment in lance.dataset(uri).get_fragments()
        for file in fragment.data_files()
    ]
    return places, files


def _values(uri: str, column: str = "b") -> list[bytes | None]:
    """Return the blobs of a table, which both libraries agree on."""
    rows = list(range(lance.dataset(uri).count_rows()))
    found = [value for _, value in lance.dataset(uri).read_blobs(column, indices=rows)]
    assert [value for _, value in lance_df.dataset(uri).read_blobs(column, indices=rows)] == found
    return found


def _both(tmp_path: Path, change: Callable[[ModuleType, str], object]) -> str:
    """Do the same with both libraries, compare what is written, and return the table of ours."""
    uris = []
    for module in (lance, lance_df):
        uris.append(str(tmp_path / module.__name__))
        change(module, uris[-1])
    theirs, ours = uris
    assert _placed(ours) == _placed(theirs)
    assert _values(ours) == _values(theirs)
    lance.dataset(ours).validate()
    assert lance.dataset(ours).schema == lance.dataset(theirs).schema
    return ours


def test_sizes_at_the_default_thresholds(tmp_path: Path) -> None:
    values = [bytes([i]) * size for i, size in enumerate((0, 1, 65536, 65537, 4194304, 4194305))]
    ours = _both(tmp_path, lambda module, uri: _written(module, uri, [*values, None], lance.blob_field("b")))
    assert _values(ours) == [*values, None]
    assert [place and place["kind"] for place in _placed(ours)[0]] == [0, 0, 0, 1, 1, 2, None]


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ({"inline_size_threshold": 0, "pack_file_size_threshold": 26}, None),
        ({"inline_size_threshold": 0}, 26),
        ({"inline_size_threshold": 0, "pack_file_size_threshold": 100}, 26),
        ({"inline_size_threshold": 4, "pack_file_size_threshold": 10}, 90),
        ({"inline_size_threshold": 10, "dedicated_size_threshold": 5}, None),
        ({"pack_file_size_threshold": 3, "inline_size_threshold": 1}, None),
    ],
)
def test_thresholds_of_fields_and_writes(tmp_path: Path, field: dict[str, int], option: int | None) -> None:
    blobs = lance.blob_field("b", **field)
    _both(
        tmp_path,
        lambda module, uri: _written(module, uri, None, blobs, blob_pack_file_size_threshold=option),
    )


def test_columns_share_files_and_data_files_do_not(tmp_path: Path) -> None:
    schema = pa.schema([_FIELD, _FIELD.with_name("c")])
    blobs = lance.blob_array(_VALUES)
    rows = pa.table([blobs, blobs], schema=schema)
    ours = _both(
        tmp_path,
        lambda module, uri: module.write_dataset(rows, uri, data_storage_version="2.2", max_rows_per_file=5),
    )
    assert _placed(ours, "c") == _placed(str(tmp_path / "lance"), "c")
    assert _values(ours, "c") == _VALUES


def test_append_and_overwrite(tmp_path: Path) -> None:
    def change(module: ModuleType, uri: str) -> None:
        _written(module, uri)
        for field in (lance.blob_field("b"), _FIELD):
            module.write_dataset(_rows(_VALUES, field), uri, mode="append")

    ours = _both(tmp_path, change)
    other = lance.blob_field("b", inline_size_threshold=5)
    for module in (lance, lance_df):
        with pytest.raises((InvalidInputError, OSError), match="inline-size-threshold"):
            module.write_dataset(_rows(_VALUES, other), ours, mode="append")
    _both(tmp_path, lambda module, uri: _written(module, uri, None, other, mode="overwrite"))


def test_large_binaries_that_are_marked(tmp_path: Path) -> None:
    marks = {**dict(_FIELD.metadata or {}), b"lance-encoding:blob": b"true"}
    marks = {key: value for key, value in marks.items() if b"ARROW" not in key}
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata=marks)])
    rows = pa.table([pa.array(_VALUES, pa.large_binary())], schema=schema)
    _both(tmp_path, lambda module, uri: module.write_dataset(rows, uri, data_storage_version="2.2"))


def test_blobs_in_structs_and_lists(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("x", pa.int32()), _FIELD])
    mask = pa.array([False, False, True] + [False] * 5)
    structs = pa.StructArray.from_arrays(
        [pa.array(range(8), pa.int32()), lance.blob_array(_VALUES)], fields=list(kind), mask=mask
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, None, 8, 8, 8, 8, 8]), lance.blob_array(_VALUES))
    schema = pa.schema([pa.field("s", kind), pa.field("l", pa.list_(_FIELD))])
    rows = pa.table([structs, lists], schema=schema)
    for module in (lance, lance_df):
        uri = str(tmp_path / module.__name__)
        module.write_dataset(rows, uri, data_storage_version="2.2")
        made = module.dataset(uri)
        made.delete("s.x = 1")
        made.optimize.compact_files(materialize_deletions_threshold=0.0)
    ours, theirs = (str(tmp_path / name) for name in ("lance_df", "lance"))
    assert _values(ours, "s.b") == _values(theirs, "s.b") == [b"tiny", None, None, b"", *_VALUES[5:]]
    found = lance.dataset(ours).to_table(columns=["l"], blob_handling="all_binary")
    assert found.column(0).to_pylist() == [_VALUES[:2], _VALUES[2:], None, [], [], [], []]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "out" / "deep"
    folder.mkdir(parents=True)
    (folder / "file.bin").write_bytes(b"0123456789" * 3)
    (tmp_path / "secret.bin").write_bytes(b"not for everybody")
    return folder.parent


def test_references_are_relative_to_base_paths(tmp_path: Path, outside: Path) -> None:
    uri = (outside / "deep/file.bin").as_uri()
    values = [uri, str(outside / "deep/file.bin"), lance.Blob.from_uri(uri, 2, 5), b"own", None]

    def change(module: ModuleType, root: str) -> None:
        bases = [
            module.DatasetBasePath(outside.as_uri(), "out", id=7),
            module.DatasetBasePath(str(outside / "deep"), "deep", id=3),
        ]
        _written(module, root, values, initial_bases=bases)
        module.write_dataset(_rows(values), root, mode="append")
        made = module.dataset(root)
        made.merge_insert("id").when_matched_update_all().execute(_rows(values[:1]))
        made = module.dataset(root)
        made.delete("id = 4")
        made.optimize.compact_files()

    ours = _both(tmp_path, change)
    assert {place["blob_id"] for place in _placed(ours)[0] if place["kind"] == 3} == {3}
    for place in ("secret.bin", "out/../secret.bin"):
        for module in (lance, lance_df):
            rows = _rows([f"file://{tmp_path}/{place}"])
            with pytest.raises((InvalidInputError, OSError), match="outside"):
                module.write_dataset(rows, ours, mode="append")


def test_references_to_other_places(tmp_path: Path, outside: Path) -> None:
    uri = (outside / "deep/file.bin").as_uri()
    values = [uri, lance.Blob.from_uri(uri, 3, 4), None]

    def change(module: ModuleType, root: str) -> None:
        _written(module, root, values, allow_external_blob_outside_bases=True)
        made = module.dataset(root)
        made.update({"z": "2"}, where="id = 1")
        module.dataset(root).optimize.compact_files()

    ours = _both(tmp_path, change)
    assert [place and place["blob_uri"] for place in _placed(ours)[0]] == [uri, None, uri]
    for module in (lance, lance_df):
        with pytest.raises((InvalidInputError, OSError), match="outside"):
            module.dataset(ours).merge_insert("id").when_matched_update_all().execute(_rows([uri]))
    with pytest.raises(InvalidInputError, match="base paths of the table; add its folder with add_bases"):
        lance_df.dataset(ours).merge_insert("id").when_matched_update_all().execute(_rows([uri]))
    with pytest.raises(InvalidInputError, match="pass allow_external_blob_outside_bases=True"):
        lance_df.write_dataset(_rows([uri]), ours, mode="append")


def test_references_are_taken_in(tmp_path: Path, outside: Path) -> None:
    uri = (outside / "deep/file.bin").as_uri()
    values = [uri, lance.Blob.from_uri(uri, 3, 4), None, b"own", lance.Blob.from_uri(uri, 10, 9)]
    ours = _both(tmp_path, lambda module, root: _written(module, root, values, external_blob_mode="ingest"))
    assert _values(ours) == [b"0123456789" * 3, b"3456", None, b"own", b"012345678"]
    missing = [(outside / "none").as_uri()]
    with pytest.raises(NotFoundError, match="none"):
        _written(lance_df, str(tmp_path / "none"), missing, external_blob_mode="ingest")
    beyond = [b"x" * 9, lance.Blob.from_uri(uri, 25, 10)]
    with pytest.raises(CorruptDataError, match=r"file\.bin"):
        _written(lance_df, str(tmp_path / "none"), beyond, external_blob_mode="ingest")
    assert not (tmp_path / "none").exists()


def _wrong(*rows: dict[str, Any]) -> pa.Table:
    storage = pa.array(rows, lance.blob.BlobType().storage_type)
    return pa.table(
        [pa.ExtensionArray.from_storage(lance.blob.BlobType(), storage)], schema=pa.schema([_FIELD])
    )


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"data": b"x", "uri": "file:///a"},
        {"uri": ""},
        {"uri": "relative/file"},
        {"uri": "file:///a", "position": 3},
        {"uri": "file:///a", "size": 3},
        {"uri": "file:///a", "position": 0, "size": 0},
        {"data": b"abc", "position": 0, "size": 2},
    ],
)
def test_values_that_are_no_blobs(tmp_path: Path, row: dict[str, Any]) -> None:
    for module in (lance, lance_df):
        root = tmp_path / module.__name__
        with pytest.raises((InvalidInputError, OSError)):
            module.write_dataset(
                _wrong({"data": b"x" * 30}, row),
                str(root),
                data_storage_version="2.2",
                allow_external_blob_outside_bases=True,
            )
    assert not root.exists()


@pytest.mark.parametrize("text", ["x", "-1", "", "1.5", "18446744073709551616", "\u0663", "0"])
@pytest.mark.parametrize("name", ["inline-size", "dedicated-size", "pack-file-size"])
def test_thresholds_that_are_none(tmp_path: Path, name: str, text: str) -> None:
    if (name, text) == ("inline-size", "0"):
        text = "+"
    field = lance.blob_field("b").with_metadata({f"lance-encoding:blob-{name}-threshold": text})
    for module in (lance, lance_df):
        with pytest.raises((InvalidInputError, OSError), match="threshold"):
            _written(module, str(tmp_path / module.__name__), None, field)
    with pytest.raises(InvalidInputError, match="blob_pack_file_size_threshold"):
        _written(lance_df, str(tmp_path / "t"), blob_pack_file_size_threshold=0)


def test_older_files_have_no_such_blobs(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"2\.2"):
        lance_df.write_dataset(_rows(_VALUES), str(tmp_path / "t"), data_storage_version="2.1")


def test_rows_that_change_take_their_blobs_along(tmp_path: Path) -> None:
    def change(module: ModuleType, uri: str) -> None:
        _written(module, uri, enable_stable_row_ids=True)
        module.dataset(uri).update({"z": "z + 5"}, where="id in (1, 5, 3)")
        part = pa.table({"id": pa.array([0, 5, 7, 4], pa.int64()), "z": pa.array([9] * 4, pa.int64())})
        module.dataset(uri).merge_insert("id").when_matched_update_all().execute(part)
        new = _rows([b"n" * 7, None, b"m" * 40], start=6)
        merge = module.dataset(uri).merge_insert("id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(new)
        module.dataset(uri).delete("id = 1")

    ours = _both(tmp_path, change)
    order = lance.dataset(ours).to_table(columns=["id"]).column(0).to_pylist()
    expected = dict(enumerate([*_VALUES[:6], b"n" * 7, None, b"m" * 40]))
    assert _values(ours) == [expected[number] for number in order]


def test_columns_are_patched_in_place(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    made = _written(lance_df, uri)
    made.delete("id = 2")
    merge = made.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(_rows([b"new" * 3, b"w" * 50], start=3).drop_columns(["z"]))
    fragment = lance_df.dataset(uri).get_fragments()[0]
    updated, fields = fragment.update_columns(
        pa.table(
            [pa.array([5, 6], pa.int64()), lance.blob_array([None, b"u" * 9])],
            schema=pa.schema([("id", pa.int64()), _FIELD]),
        ),
        left_on="id",
        right_on="id",
    )
    operation = lance_df.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance_df.LanceDataset.commit(uri, operation, read_version=lance_df.dataset(uri).version)
    expected = [*_VALUES[:2], b"new" * 3, b"w" * 50, None, b"u" * 9, _VALUES[7]]
    assert _values(uri) == expected


def test_new_columns_of_blobs(tmp_path: Path) -> None:
    schema = pa.schema([_FIELD.with_name("c")])

    def change(module: ModuleType, uri: str) -> None:
        _written(module, uri)
        made = module.dataset(uri)
        made.delete("id = 3")
        batch = pa.record_batch([lance.blob_array([*_VALUES[4:], *_VALUES[:3]])], schema=schema)
        made.add_columns(pa.RecordBatchReader.from_batches(schema, [batch]))

    ours = _both(tmp_path, change)
    assert _values(ours, "c") == _values(str(tmp_path / "lance"), "c") == [*_VALUES[4:], *_VALUES[:3]]

    @lance_df.batch_udf(output_schema=pa.schema([_FIELD.with_name("d")]))
    def blobs(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [bytes(number) * 2 for number in range(batch.num_rows)]
        return pa.record_batch([lance.blob_array(values)], schema=pa.schema([_FIELD.with_name("d")]))

    lance_df.dataset(ours).add_columns(blobs, read_columns=["id"])
    assert _values(ours, "d") == [bytes(2 * number) for number in range(7)]


def test_compaction_copies_what_is_still_there(tmp_path: Path) -> None:
    def change(module: ModuleType, uri: str) -> None:
        _written(module, uri)
        module.write_dataset(_rows(_VALUES, start=8), uri, mode="append")
        module.dataset(uri).delete("id in (0, 5, 9)")
        metrics = module.dataset(uri).optimize.compact_files()
        assert (metrics.fragments_removed, metrics.fragments_added) == (2, 1)

    ours = _both(tmp_path, change)
    removed = lance_df.dataset(ours).cleanup_old_versions(older_than=dt.timedelta(0))
    assert removed.old_versions == 4
    left = [path for path in (Path(ours) / "data").rglob("*") if path.is_file()]
    assert len(left) == 1 + len(_placed(ours)[1][0])
    assert _values(ours) == [v for i, v in enumerate([*_VALUES, *_VALUES]) if i not in (0, 5, 9)]


def test_blobs_in_other_places_are_compacted(tmp_path: Path) -> None:
    uri, hot = str(tmp_path / "t"), tmp_path / "hot"
    hot.mkdir()
    _written(
        lance_df, uri, initial_bases=[lance_df.DatasetBasePath(str(hot), "hot", id=2)], target_bases=["hot"]
    )
    assert len(list(hot.rglob("*.blob"))) == 3
    assert _values(uri) == _VALUES
    lance_df.write_dataset(_rows(_VALUES), uri, mode="append")
    lance_df.dataset(uri).optimize.compact_files()
    assert _values(uri) == _VALUES * 2


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_older_blobs_are_taken_along(tmp_path: Path, version: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("id", pa.int64()), ("z", pa.int64()), field])
    values = [b"x", None, b"", b"y" * 100_000, b"z" * 9_000_000]
    rows = pa.table(
        [pa.array(range(5)), pa.array([1] * 5), pa.array(values, pa.large_binary())], schema=schema
    )
    uri = str(tmp_path / "t")
    lance.write_dataset(rows, uri, data_storage_version=version)
    lance_df.dataset(uri).update({"z": "2"}, where="id in (1, 4)")
    part = pa.table({"id": pa.array([0, 2], pa.int64()), "z": pa.array([7, 7], pa.int64())})
    lance_df.dataset(uri).merge_insert("id").when_matched_update_all().execute(part)
    lance_df.dataset(uri).delete("id = 0")
    lance_df.dataset(uri).optimize.compact_files()
    found = lance.dataset(uri).to_table(blob_handling="all_binary").sort_by("id")
    assert found.column("b").to_pylist() == values[1:]
    assert found.column("z").to_pylist() == [2, 7, 1, 2]


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    _written(lance_df, uri)

    def fail(*_: object, **__: object) -> int:
        raise LanceError("the disk is full")

    monkeypatch.setattr(Sidecars, "add_dedicated", fail)
    changes: list[Callable[[], object]] = [
        lambda: lance_df.write_dataset(_rows(_VALUES), uri, mode="append"),
        lambda: lance_df.dataset(uri).update({"z": "2"}),
        lambda: lance_df.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0),
    ]
    lance_df.dataset(uri).delete("id = 0")
    before = sorted(path for path in Path(uri).rglob("*"))
    for change in changes:
        with pytest.raises(LanceError, match="full"):
            change()
        assert sorted(path for path in Path(uri).rglob("*")) == before


def test_a_failed_commit_removes_sidecars(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    _written(lance_df, uri)
    stale = lance_df.dataset(uri)
    before = sorted(path for path in Path(uri).rglob("*.blob"))
    batches = iter(_rows(_VALUES).to_batches(max_chunksize=4))

    def broken() -> Any:
        yield next(batches)
        yield next(batches)
        raise ValueError("no more")

    reader = pa.RecordBatchReader.from_batches(_rows(_VALUES).schema, broken())
    with pytest.raises(ValueError, match="no more"):
        lance_df.write_dataset(reader, stale, mode="append", max_rows_per_file=4)
    assert sorted(path for path in Path(uri).rglob("*.blob")) == before


def test_blobs_are_no_keys(tmp_path: Path) -> None:
    made = _written(lance_df, str(tmp_path / "t"))
    with pytest.raises(UnsupportedFeatureError, match="cannot be keys"):
        made.merge_insert("b").when_not_matched_insert_all().execute(_rows(_VALUES))


# what caches hold of a pool goes back to it when they go
_KEPT_POOLS: list[pa.MemoryPool] = []


def test_memory_is_bounded_while_blobs_are_moved(tmp_path: Path) -> None:
    """Twelve blobs of 9 MB are copied in pieces: Arrow's memory never has two of them."""
    uri = str(tmp_path / "t")
    large = np.random.default_rng(1).bytes(9_000_000)
    for start in (0, 6):
        rows = _rows([large] * 6, lance.blob_field("b"), start=start)
        lance_df.write_dataset(rows, uri, mode="append")
        del rows
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    _KEPT_POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        lance_df.dataset(uri).update({"z": "2"}, where="id > 2")
        lance_df.dataset(uri).optimize.compact_files()
    finally:
        pa.set_memory_pool(usual)
    assert 0 < pool.max_memory() < 2 * len(large)
    assert _values(uri)[11] == large


def test_arrays_of_blobs_need_no_schema(tmp_path: Path) -> None:
    array = blob_array([b"x", None, b"y" * 70_000])
    assert isinstance(array, BlobArray)
    assert array.type == blob_field("b").type == BlobType()
    assert BlobArray.from_pylist([b"x"]).storage.to_pylist()[0]["data"] == b"x"
    rows = pickle.loads(pickle.dumps(pa.table({"b": array})))
    for module in (lance, lance_df):
        uri = str(tmp_path / module.__name__)
        module.write_dataset(rows, uri, data_storage_version="2.2")
        module.write_dataset(pa.table({"b": lance.blob_array([b"z"])}), uri, mode="append")
        stream = pa.RecordBatchReader.from_stream(rows)
        module.write_dataset(stream, uri, mode="append")
        assert _values(uri) == [b"x", None, b"y" * 70_000, b"z", b"x", None, b"y" * 70_000]
        assert _placed(uri)[0][2]["kind"] == 1


@pytest.mark.parametrize("name", ["a b#%20?.bin", "plain \u00e9.bin", "100%.bin"])
@pytest.mark.parametrize("mode", ["base", "outside", "ingest"])
def test_file_urls_are_percent_encoded(tmp_path: Path, name: str, mode: str) -> None:
    folder = tmp_path / "ex t\u00e9rnal"
    folder.mkdir()
    (folder / name).write_bytes(b"0123456789")
    values = [(folder / name).as_uri(), *([str(folder / name)] if mode != "outside" else [])]

    def change(module: ModuleType, uri: str) -> None:
        options: dict[str, Any] = {
            "base": {"initial_bases": [module.DatasetBasePath(folder.as_uri(), "out", id=2)]},
            "outside": {"allow_external_blob_outside_bases": True},
            "ingest": {"external_blob_mode": "ingest"},
        }
        _written(module, uri, values, **options[mode])

    ours = _both(tmp_path, change)
    assert _values(ours) == [b"0123456789"] * len(values)


def test_tables_at_file_urls(tmp_path: Path) -> None:
    path = tmp_path / "a b%20\u00e9"
    for module, other in ((lance, lance_df), (lance_df, lance)):
        module.write_dataset(pa.table({"a": [1]}), path.as_uri(), mode="overwrite")
        assert path.is_dir()
        assert other.dataset(path.as_uri()).count_rows() == other.dataset(str(path)).count_rows() == 1
