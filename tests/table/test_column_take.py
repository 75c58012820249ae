"""Rows that are picked out of all pages at once are those that are read page by page."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings.dictionary.coded_values import CodedValues
from lance_df.encodings.page_take import whole_page
from lance_df.errors import CorruptDataError
from lance_df.table.open import open_table
from lance_df.table.reading import column_take
from lance_df.table.reading.column_take import ColumnTake
from lance_df.table.reading.take import take_addresses, take_offsets

VERSIONS = ("2.0", "2.1", "2.2")


def _column(rng: np.random.Generator, kind: str, count: int) -> pa.Array:
    few = rng.integers(0, 5, count)
    words = ["", "a", "Grüße", "longer than twelve bytes", "x" * 40]
    match kind:
        case "bits":
            return pa.array(few == 0)
        case "runs":
            return pa.array(np.repeat(few, 300)[:count].astype(np.int32))
        case "same":
            return pa.array(np.full(count, 7))
        case "floats":
            return pa.array(np.array([0.0, -0.0, np.nan, np.inf, 1.5])[few])
        case "decimals":
            return pa.array([Decimal(int(value)) for value in few], pa.decimal128(15, 2))
        case "words":
            return pa.array([words[place] for place in few])
        case "large words":
            return pa.array([words[place] for place in few], pa.large_string())
        case "texts":
            return pa.array([f"{words[place]}{row}" for row, place in enumerate(few)])
        case "bytes":
            return pa.array([bytes([place]) * 3 for place in few], pa.binary(3))
        case "nulls":
            return pa.array([None if place == 1 else int(place) for place in few], pa.int16())
        case "null words":
            return pa.array([None if place == 1 else words[place] for place in few])
        case "lists":
            return pa.array([[int(place)] * place for place in few])
        case "structs":
            return pa.array([{"a": int(place)} for place in few])
        case "mixed":  # nulls in some files only
            return pa.array([None if count % 2 and place == 1 else int(place) for place in few])
        case _:
            bits = int(kind.removeprefix("uint"))
            return pa.array(rng.integers(0, 1 << int(rng.integers(1, bits)), count, np.uint64)).cast(kind)


KINDS = (
    *("uint8", "uint16", "uint32", "uint64", "bits", "runs", "same", "floats", "decimals", "words"),
    *("large words", "texts", "bytes", "nulls", "null words", "lists", "structs", "mixed"),
)


def _write(folder: Path, version: str, rng: np.random.Generator) -> lance.LanceDataset:
    for number in range(3):
        count = int(rng.integers(1, 5000))
        rows = pa.table({kind: _column(rng, kind, count) for kind in KINDS})
        mode: Any = "append" if number else "create"
        dataset = lance.write_dataset(rows, folder, mode=mode, data_storage_version=version)
    return dataset


@pytest.mark.parametrize("version", VERSIONS)
def test_picked_rows_are_those_of_pylance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    rng = np.random.default_rng(int(version[-1]))
    dataset = _write(tmp_path / "t", version, rng)
    picked: set[str] = set()
    take = ColumnTake.take

    def counted(column: ColumnTake, *arguments: Any) -> pa.Array | None:
        if (array := take(column, *arguments)) is not None:
            picked.add(column._field.name)
        return array

    monkeypatch.setattr(ColumnTake, "take", counted)
    for _ in range(2):
        table = open_table(tmp_path / "t")
        for count in (1, 2, 30, 500):
            rows = rng.integers(0, dataset.count_rows(), count)
            expected = dataset.take(rows.tolist())
            assert _same(take_offsets(table, rows), expected)
            with monkeypatch.context() as patched:
                patched.setattr(ColumnTake, "take", lambda *_: None)
                assert _same(take_offsets(table, rows), expected)
            addresses = take_offsets(table, rows, columns=["_rowaddr"])["_rowaddr"]
            assert _same(take_addresses(table, addresses.to_numpy()), expected)
        dataset.delete("uint8 % 3 = 0 AND bits")
    assert picked >= {"uint16", "uint32", "uint64", "floats", "decimals", "runs", "bytes"}
    assert picked & {"texts", "lists", "structs", "nulls", "bits"} == set()


def _same(found: pa.Table, expected: pa.Table) -> bool:
    place = found.schema.get_field_index("floats")
    tables = (
        table.set_column(place, "floats", table["floats"].combine_chunks().view(pa.int64()))
        for table in (found, expected)
    )
    return bool(next(tables).equals(next(tables)))


def test_a_column_of_many_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are opened one after the other, and no more of them than there may be."""
    rng = np.random.default_rng(5)
    words = pa.array([f"the word of number {number}" for number in rng.integers(0, 7, 20_000)])
    dataset = lance.write_dataset(pa.table({"word": words}), tmp_path / "t", max_rows_per_file=2_000)
    rows = rng.integers(0, len(words), 1_000)
    expected = dataset.take(rows.tolist())
    order = np.sort(rows)
    keys = order // 2_000 << 32 | order % 2_000
    for limit in ("_MAX_PAGES", "_MAX_DICTIONARY_VALUES"):
        table = open_table(tmp_path / "t")
        column = ColumnTake(table, table.schema.field("word"))
        found = column.take(keys, np.arange(1_000))
        assert found.equals(words.take(pa.array(order)))
        with monkeypatch.context() as patched:
            patched.setattr(column_take, limit, 5)
            limited = ColumnTake(table, table.schema.field("word"))
            assert limited.take(keys, np.arange(1_000)) is None
            assert take_offsets(open_table(tmp_path / "t"), rows).equals(expected)


def test_what_a_page_does_not_hold() -> None:
    values = np.array([0, 2, 1, 9], np.uint16)
    page_take = whole_page(pa.py_buffer(values), 2, pa.uint16())
    assert page_take.take(np.array([0, 3])).to_pylist() == [0, 9]
    coded = page_take.decoding(CodedValues(pa.array(["a", "b", "c"]), null_first=False))
    with pytest.raises(
        CorruptDataError, match="dictionary index 9 is out of range, the dictionary has 3 values"
    ):
        coded.take(np.array([1, 3]))
