"""Merges by keys of every type, with every combination of clauses: what pylance makes of equal tables."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df

NAN = float("nan")
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, -1, 0, 1, 127]),
    (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    (pa.uint16(), [0, 1, 5, 2**15, 2**16 - 1]),
    (pa.uint64(), [0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
    (pa.float64(), [-1.5, 0.0, 1.5, NAN, float("inf")]),
    (pa.float32(), [-1.5, 0.0, 1.5, NAN, float("inf")]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["", "a", "A", "ü", "a" * 40]),
    (pa.large_string(), ["", "a", "b"]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"\xff" * 40]),
    (pa.binary(3), [b"abc", b"abd", b"\0\0\0"]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    (pa.timestamp("s"), [-1, 0, 2**33]),
    (pa.timestamp("ns", "Europe/Berlin"), [-1, 0, 1, 2**62]),
    (pa.time64("us"), [0, 1, 86_399_999_999]),
    (pa.duration("ms"), [-1, 0, 2**40]),
    (pa.decimal128(20, 3), [Decimal("-1.500"), Decimal("0.001"), Decimal("99999999999999999.999")]),
    (pa.decimal128(10, -2), [Decimal(-900), Decimal(0), Decimal(100)]),
    (pa.dictionary(pa.int16(), pa.string()), ["red", "green", "blue"]),
    (STRUCT, [{"x": 1, "y": "a"}, {"x": 1, "y": None}, {"x": None, "y": None}, {"x": 2, "y": ""}]),
    (pa.list_(pa.int64()), [[], [None], [1], [1, 2], [2, 1]]),
    (pa.list_(pa.string()), [[], ["", "a"], ["a", ""], ["a"]]),
    (pa.list_(pa.int32(), 2), [[1, 2], [2, 1], [3, 3]]),
]
Clauses = Callable[[Any], Any]
MATCHED: dict[str, Clauses] = {
    "keep": lambda builder: builder,
    "update": lambda builder: builder.when_matched_update_all(),
    "update if": lambda builder: builder.when_matched_update_all("source.v > target.v"),
    "delete": lambda builder: builder.when_matched_delete(),
    "fail": lambda builder: builder.when_matched_fail(),
}
UNMATCHED: dict[str, Clauses] = {
    "skip": lambda builder: builder,
    "insert": lambda builder: builder.when_not_matched_insert_all(),
}
BY_SOURCE: dict[str, Clauses] = {
    "keep": lambda builder: builder,
    "delete": lambda builder: builder.when_not_matched_by_source_delete(),
    "delete if": lambda builder: builder.when_not_matched_by_source_delete("v % 2 = 0"),
}
COMBINATIONS = [
    each
    for each in itertools.product(MATCHED, UNMATCHED, BY_SOURCE)
    # pylance stops at a bug of its own when rows are deleted on both sides, and none is inserted
    if each[:2] != ("delete", "skip") or each[2] == "keep"
]


def rows(rng: random.Random, kind: tuple[pa.DataType, list[Any]], count: int, *, distinct: bool) -> pa.Table:
    """Keys of a part, ``k``, that is of the type, and another one, ``n``; some of both are null."""
    data_type, values = kind
    keys = [(value, number) for value in (*values, None) for number in (*range(6), None)]
    chosen = rng.sample(keys, min(count, len(keys))) if distinct else rng.choices(keys, k=count)
    return pa.table(
        {
            "k": pa.array([key for key, _ in chosen], data_type),
            "n": pa.array([number for _, number in chosen], pa.int32()),
            "v": pa.array([rng.randrange(100) for _ in chosen], pa.int64()),
            "w": pa.array([rng.choice(["x", "y", None]) for _ in chosen], pa.string()),
        }
    )


def content(path: Path) -> list[str]:
    table = lance.dataset(path).to_table()
    return sorted(map(repr, table.set_column(0, "k", table["k"].cast(_plain(table["k"].type))).to_pylist()))


def _plain(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type) or pa.types.is_duration(data_type) or pa.types.is_time(data_type):
        return pa.int64()  # Python's times have no nanoseconds
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def outcome(library: Any, path: Path, on: list[str], clauses: tuple[str, str, str], source: pa.Table) -> Any:
    try:
        builder = library.dataset(path).merge_insert(on)
        for choices, name in zip((MATCHED, UNMATCHED, BY_SOURCE), clauses, strict=True):
            builder = choices[name](builder)
        found = builder.execute(source)
    except (lance_df.InvalidInputError, ValueError, OSError, RuntimeError):
        return "refused"
    lance.dataset(path).validate()
    return found, content(path)


@pytest.mark.parametrize("number", range(len(KINDS)), ids=lambda number: str(KINDS[number][0]))
def test_merges_are_those_of_pylance(tmp_path: Path, number: int):
    rng = random.Random(number)
    target = rows(rng, KINDS[number], 40, distinct=False)
    start = tmp_path / "start"
    # null structs need 2.1
    options = {"data_storage_version": rng.choice(["2.1", "2.2"]), "enable_stable_row_ids": bool(number % 2)}
    dataset = lance.write_dataset(target, start, max_rows_per_file=13, **options)
    dataset.delete("n = 5")
    refused = 0
    for clauses in rng.sample(COMBINATIONS, 5):
        # of equal keys in the source, those that match are an error, if any does
        source = rows(rng, KINDS[number], rng.choice([0, 1, 15]), distinct=rng.random() < 0.8)
        if rng.random() < 0.3:
            source = source.select(["n", "k", "v"])
        on = rng.choice([["k", "n"], ["n", "k"]]) if source.num_rows > 1 else ["k"]
        found = []
        for library in (lance, lance_df):
            path = tmp_path / library.__name__
            shutil.copytree(start, path)
            found.append(outcome(library, path, on, clauses, source))
            shutil.rmtree(path)
        assert found[0] == found[1], (clauses, on, source.to_pylist())
        refused += found[0] == "refused"
    assert refused < 5


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_documents_match_as_equal_texts_do(tmp_path: Path, version: str, is_nested: bool):
    """pylance compares stored documents with texts: none match, so rows repeat or are deleted."""
    texts = ['{"a":1}', '{"a":2}', "[]", "null", '"ü"', None]
    as_written = {'{"a":1}': '{ "a" : 1 }', "[]": "[ ]"}

    def with_keys(numbers: list[int], *, are_documents: bool, shift: int) -> pa.Table:
        keys = [texts[number] for number in numbers]
        if are_documents:
            written = [as_written.get(key, key) if shift else key for key in keys]
            column = pa.array(written, pa.json_())
        else:
            column = pa.array(keys, pa.string())
        if is_nested:
            column = pa.StructArray.from_arrays([column, pa.array(numbers)], ["j", "i"])
        return pa.table({"k": column, "v": [number + shift for number in numbers]})

    for number, clauses in enumerate(random.Random(is_nested).sample(COMBINATIONS, 12)):
        outcomes = []
        for are_documents in (True, False):
            path = tmp_path / f"{number} {are_documents}"
            table = with_keys([0, 1, 2, 5], are_documents=are_documents, shift=0)
            lance_df.write_dataset(table, path, data_storage_version=version, max_rows_per_file=3)
            source = with_keys([4, 2, 0, 5, 3], are_documents=are_documents, shift=100)
            try:
                builder = lance_df.dataset(path).merge_insert("k")
                for choices, name in zip((MATCHED, UNMATCHED, BY_SOURCE), clauses, strict=True):
                    builder = choices[name](builder)
                statistics: Any = builder.execute(source)
            except lance_df.InvalidInputError as err:
                statistics = type(err)
            merged = lance_df.dataset(path)
            merged.validate()
            outcomes.append((statistics, sorted(merged.to_table()["v"].to_pylist())))
        assert outcomes[0] == outcomes[1], clauses


def test_documents_are_not_inserted_twice_by_concurrent_merges(tmp_path: Path):
    field = pa.field("k", pa.json_(), False, {"lance-schema:unenforced-primary-key": "true"})
    rows_of = pa.schema([field, pa.field("v", pa.int64())])
    lance_df.write_dataset(pa.table({"k": pa.array(["1"], pa.json_()), "v": [1]}, rows_of), tmp_path / "t")
    opened = [lance_df.dataset(tmp_path / "t") for _ in range(2)]
    source = pa.table({"k": pa.array(['{"a":1}'], pa.json_()), "v": [2]}, rows_of)
    for dataset in opened:
        dataset.merge_insert("k").when_not_matched_insert_all().execute(source)
    assert lance_df.dataset(tmp_path / "t").to_table()["v"].to_pylist() == [1, 2]


def test_rows_of_merges_go_where_they_are_told_to(tmp_path: Path):
    """New files of a merge lie in the base paths that it names, in turn, for both libraries alike."""
    bases = [
        lance.DatasetBasePath(str(tmp_path / name), name=name, is_dataset_root=False)
        for name in ("hot", "cold")
    ]
    table = pa.table({"id": range(100), "v": [0] * 100})
    source = pa.table({"id": range(50, 150), "v": [1] * 100})
    places: dict[str, list[list[int | None]]] = {"lance": [], "lance_df": []}
    for library in (lance, lance_df):
        for number, direct in enumerate(
            (
                lambda builder: builder,
                lambda builder: builder.target_bases(["cold"]),
                lambda builder: builder.target_bases([str(tmp_path / "hot")]),
                lambda builder: builder.target_all_bases(),
                lambda builder: builder.target_all_bases(include_primary=False),
            )
        ):
            uri = str(tmp_path / f"{library.__name__}-{number}")
            lance.write_dataset(table, uri, initial_bases=bases)
            before = {fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()}
            builder = library.dataset(uri).merge_insert("id")
            direct(builder).when_matched_update_all().when_not_matched_insert_all().execute(source)
            merged = lance.dataset(uri)
            places[library.__name__].append(
                [
                    file.base_id
                    for fragment in merged.get_fragments()
                    if fragment.fragment_id not in before
                    for file in fragment.data_files()
                ]
            )
            assert merged.count_rows("v = 1") == 100
            assert lance_df.dataset(uri).to_table().num_rows == 150
            merged.validate()
    assert places["lance_df"] == places["lance"]
    assert len({tuple(each) for each in places["lance_df"]}) > 2


@pytest.mark.parametrize("key", ["id", "x"])
def test_dictionaries_of_several_chunks(tmp_path: Path, key: str) -> None:
    """Also where one of them holds NULL, which pyarrow does not join."""

    def rows(first: int, texts: list[str | None]) -> pa.Table:
        words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(texts))
        return pa.table({"id": range(first, first + 3), "x": words, "v": [first] * 3})

    source = pa.concat_tables([rows(0, ["u", None, "w"]), rows(3, ["p", None, "q"])])
    read = []
    for api in (lance_df, lance):
        uri = str(tmp_path / f"{api.__name__}.lance")
        api.write_dataset(source.set_column(2, "v", pa.array([9] * 6)), uri)
        counts = api.dataset(uri).merge_insert(key).when_matched_update_all().execute(source)
        rows_now = sorted(map(str, api.dataset(uri).to_table().to_pylist()))
        read.append((counts["num_updated_rows"], rows_now))
    assert read[0] == read[1]


class Point(pa.ExtensionType):
    """Of a struct, as types of geometries are."""

    def __init__(self) -> None:
        super().__init__(STRUCT, "lance_df.test.point")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Point:
        del storage_type, serialized
        return cls()


@pytest.mark.parametrize("kind", [Point(), pa.fixed_shape_tensor(pa.int32(), [2])], ids=str)
def test_keys_of_extension_types_over_nested_ones(tmp_path: Path, kind: pa.ExtensionType) -> None:
    def rows_of(numbers: list[int | None], values: list[int]) -> pa.Table:
        is_struct = pa.types.is_struct(kind.storage_type)
        storage = [
            None if number is None else {"x": number, "y": "a"} if is_struct else [number, 0]
            for number in numbers
        ]
        keys = pa.ExtensionArray.from_storage(kind, pa.array(storage, kind.storage_type))
        return pa.table({"k": keys, "v": values})

    for library in (lance, lance_df):
        dataset = library.write_dataset(rows_of([1, 2, None], [1, 2, 3]), str(tmp_path / library.__name__))
        merge = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        counts = merge.execute(rows_of([2, 7], [20, 70]))
        assert counts["num_updated_rows"] == counts["num_inserted_rows"] == 1
        assert sorted(dataset.to_table()["v"].to_pylist()) == [1, 3, 20, 70]
