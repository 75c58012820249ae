"""Filters of inserted keys: bit by bit those of pylance; and what two of them say about each other."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_df._pb import transaction_pb2
from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.operations import Append, DataReplacement, InsertedKeys, Update, UpdateMode
from lance_df.format.transaction import Transaction
from lance_df.table.commit.conflicts import Rule, decide
from lance_df.table.commit.inserted_keys import inserted_keys, may_repeat_keys

KEY = {"lance-schema:unenforced-primary-key": "true"}
COMMON: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [-5, 0, 7, 2**31 - 1]),
    (pa.int64(), [-(2**63), -1, 2**40]),
    (pa.uint32(), [0, 2**32 - 1]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.string(), ["", "a", "ünï", "x" * 31, "x" * 32, "y" * 100]),
    (pa.large_string(), ["a", "b"]),
    (pa.binary(), [b"", b"\0", b"\xff" * 45]),
    (pa.large_binary(), [b"abc"]),
]
OTHERS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-1, 5]),
    (pa.uint16(), [1, 5]),
    (pa.bool_(), [True, False]),
    (pa.float16(), [0.5, float("nan")]),
    (pa.float64(), [0.0, 1.5, float("nan")]),
    (pa.date32(), [dt.date(1960, 1, 1), dt.date(2020, 1, 1)]),
    (pa.timestamp("ns", "UTC"), [1, 2]),
    (pa.time32("s"), [1, 2]),
    (pa.duration("us"), [-1, 2]),
    (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-1.50")]),
    (pa.binary(3), [b"abc", b"abd"]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    (pa.string_view(), ["a", "a string that is not inlined"]),
]


def their_filter(path: Path, columns: list[pa.Array]) -> InsertedKeys:
    """Return what pylance writes when it inserts keys into an empty table."""
    fields = [
        pa.field(f"k{i}", column.type, nullable=False, metadata=KEY) for i, column in enumerate(columns)
    ]
    rows = pa.table(columns, schema=pa.schema(fields))
    dataset = lance.write_dataset(rows.slice(0, 0), path, mode="overwrite")
    dataset.merge_insert(rows.schema.names).when_not_matched_insert_all().execute(rows)
    file = max((path / "_transactions").iterdir(), key=lambda each: each.stat().st_mtime_ns)
    message = transaction_pb2.Transaction.FromString(file.read_bytes()).update.inserted_rows
    return InsertedKeys(
        tuple(message.field_ids),
        message.bloom.bitmap,
        message.bloom.number_of_items,
        message.bloom.probability,
    )


@pytest.mark.parametrize(("data_type", "values"), COMMON, ids=str)
def test_filters_are_those_of_pylance(tmp_path: Path, data_type: pa.DataType, values: list[Any]):
    column = pa.array(values, data_type)
    assert inserted_keys([0], [column], is_primary=True) == their_filter(tmp_path, [column])


def test_filters_of_several_columns_and_of_many_keys_are_those_of_pylance(tmp_path: Path):
    numbers = pa.array(range(3000), pa.int64())
    names = pa.array([f"name {number}" * (number % 9) for number in range(3000)])
    for columns in ([numbers, names], [names, numbers], [names, names, numbers], [names]):
        ours = inserted_keys(range(len(columns)), columns, is_primary=True)
        assert ours == their_filter(tmp_path, columns)


def keys(
    *values: Any, data_type: pa.DataType | None = None, ids: tuple[int, ...] = (0,), **options: Any
) -> Update:
    columns = [pa.array(values, data_type or pa.int64())] * len(ids)
    found = inserted_keys(ids, columns, **({"is_primary": True} | options))
    return Update((), (), (FRAGMENT,), fields_for_preserving_frag_bitmap=(0, 1), inserted_keys=found)


def written(update: Update) -> Update:
    """Return the update as another process reads it: without what is kept in memory only."""
    found = update.inserted_keys
    assert found is not None
    read = InsertedKeys(found.field_ids, found.blocks, found.number_of_items, found.probability)
    return Update((), (), update.new_fragments, inserted_keys=read)


FRAGMENT: Any = object()


@pytest.mark.parametrize(("data_type", "values"), [*COMMON, *OTHERS], ids=str)
def test_the_same_key_is_found_and_another_one_is_not(data_type: pa.DataType, values: list[Any]):
    first, second = keys(values[0], data_type=data_type), keys(values[-1], data_type=data_type)
    for mine in (first, written(first)):
        assert may_repeat_keys(mine, written(first))
        assert len(values) == 1 or not may_repeat_keys(mine, written(second))
    assert first.inserted_keys is not None
    assert first.inserted_keys.is_common == ((data_type, values) in COMMON)


def test_zeros_and_nans_are_one_key_each_and_nulls_are_none():
    floats = pa.float64()
    assert may_repeat_keys(keys(0.0, data_type=floats), keys(-0.0, data_type=floats))
    assert may_repeat_keys(keys(float("nan"), data_type=floats), keys(-float("nan"), data_type=floats))
    assert not may_repeat_keys(keys(None, data_type=floats), keys(None, data_type=floats))
    parts = [pa.array([1, None]), pa.array(["a", "b"])]
    hashes = inserted_keys([0, 1], parts, is_primary=True).hashes
    assert hashes is not None
    assert len(hashes) == 1


def test_filters_of_different_sizes_compare():
    few = keys(1, 2, 3, is_primary=False)
    many = keys(*range(3, 6000), is_primary=False)
    apart = keys(*range(10**6, 10**6 + 900), is_primary=False)
    sizes = [len(each.inserted_keys.blocks) for each in (few, apart, many)]  # type: ignore[union-attr, arg-type]
    assert sizes == sorted(set(sizes))
    for mine, theirs in ((few, many), (many, few)):
        assert may_repeat_keys(mine, written(theirs))
        assert may_repeat_keys(written(mine), written(theirs))
    assert not may_repeat_keys(few, written(apart))
    assert not may_repeat_keys(apart, written(few))


def test_many_keys_are_told_apart_while_they_are_in_memory():
    mine = keys(*range(2000))
    assert not may_repeat_keys(mine, written(keys(*range(10**6, 10**6 + 2000))))
    assert may_repeat_keys(mine, written(keys(*range(1999, 4000))))


def test_what_is_not_known_conflicts():
    mine, nothing = keys(1), keys()
    unknown = [
        keys(5, ids=(1,)),
        keys(5, ids=(0, 1)),
        *(
            Update((), (), (FRAGMENT,), inserted_keys=InsertedKeys((0,), blocks))
            for blocks in (None, b"", b"\1" * 31, b"\1" * 96)
        ),
        Update((), (), (FRAGMENT,)),
        Update((), (), (FRAGMENT,), fields_for_preserving_frag_bitmap=(0, 3)),
        Append((FRAGMENT,)),
    ]
    for theirs in unknown:
        assert may_repeat_keys(mine, theirs)
        assert not may_repeat_keys(nothing, theirs)
    harmless = [
        nothing,
        Update((), (FRAGMENT,), ()),
        Update((), (), (FRAGMENT,), fields_for_preserving_frag_bitmap=(3,)),
        Append(()),
    ]
    for theirs in harmless:
        assert not may_repeat_keys(mine, theirs)
    assert not may_repeat_keys(keys(1, is_primary=False), Append((FRAGMENT,)))
    assert not may_repeat_keys(Update((), (), (FRAGMENT,)), mine)


def test_keys_that_pylance_leaves_out_conflict_with_its_empty_filters():
    assert may_repeat_keys(keys(1, data_type=pa.int8()), keys())
    assert not may_repeat_keys(keys(1, data_type=pa.int32()), keys())


def test_hashes_of_many_keys_are_those_of_few():
    rng = np.random.default_rng(1)
    texts = pa.array([rng.bytes(int(size)) for size in rng.integers(0, 90, 2500)], pa.binary())
    many = inserted_keys([0], [texts.slice(7)], is_primary=True).hashes
    assert many is not None
    few = [
        inserted_keys([0], [texts.slice(start, 500)], is_primary=True).hashes for start in range(7, 2500, 500)
    ]
    assert many.tolist() == np.concatenate(few).tolist()  # type: ignore[arg-type]


def test_keys_that_others_have_written_in_place() -> None:
    """A merge that rewrites columns, and whoever replaces data files, may give rows a key that is new."""
    mine = Update((), (), (), inserted_keys=inserted_keys([3], [pa.array([9])], is_primary=False))
    for field, expected in ((3, True), (4, False)):
        theirs = Update((), (), (), fields_modified=(field,), mode=UpdateMode.REWRITE_COLUMNS)
        assert may_repeat_keys(mine, theirs) is expected
        file = DataFile(path="f.lance", fields=(field,), column_indices=(0,))
        assert (decide(mine, DataReplacement(((0, file),))) is Rule.RETRY) is expected


def test_keys_that_a_condition_says() -> None:
    """Any update that writes rows may have brought some for which it is true; the condition is not stored."""
    mine = Update((), (), (), inserted_keys=InsertedKeys((), None, is_primary=False))
    fragment = Fragment(id=0, files=(), physical_rows=1)
    assert may_repeat_keys(mine, Update((), (), (fragment,), fields_for_preserving_frag_bitmap=(1,)))
    assert may_repeat_keys(mine, Update((), (), (fragment,), inserted_keys=InsertedKeys((1,), b"")))
    assert not may_repeat_keys(mine, Update((), (), ()))
    assert not may_repeat_keys(mine, Append((fragment,)))
    stored = Transaction.parse(
        Transaction(read_version=1, uuid="u", operation=mine).serialize(), source="t"
    ).operation
    assert isinstance(stored, Update)
    assert stored.inserted_keys is None
