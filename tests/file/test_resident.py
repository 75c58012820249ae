"""Files in memory: ranges of rows read without plans are what plans read, and dictionaries may be kept."""

from __future__ import annotations

from decimal import Decimal

import lance.file as lance_file
import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.file.open import open_file
from lance_df.storage.source import BytesSource

ROWS = 20_000
RANGES = [(0, ROWS), (0, 1), (ROWS - 1, ROWS), (1023, 1025), (4096, 13_000), (7, 7), (5, 9)]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    numbers = np.arange(ROWS)
    words = ["", "a", "brown", "quick — fox", "x" * 40]
    money = [Decimal(n) / 100 for n in range(7)]
    return pa.table(
        {
            "ordered": pa.array(numbers // 5),
            "small": pa.array((numbers * 7919 % 1000).astype(np.int32)),
            "wide": pa.array(numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)),
            "real": pa.array(np.sin(numbers)),
            "flag": pa.array(numbers % 3 == 0),
            "word": pa.array([words[n % 5] for n in range(ROWS)]),
            "holes": pa.array([None if n % 11 == 3 else words[n % 5] for n in range(ROWS)]),
            "money": pa.array([money[n * 31 % 7] for n in range(ROWS)], pa.decimal128(12, 2)),
            "text": pa.array([f"row {n * 7919 % ROWS} of é" for n in range(ROWS)]),
            "bytes": pa.array([n.to_bytes(4, "little")[: n % 5] for n in range(ROWS)]),
            "gaps": pa.array([None if n % 7 == 0 else n for n in range(ROWS)], pa.int64()),
            "same": pa.array([17] * ROWS, pa.int16()),
            "narrow": pa.array((numbers % 250).astype(np.uint8)),
            "large": pa.array([f"row {n * 31 % ROWS} of many" for n in range(ROWS)], pa.large_string()),
            "codes": pa.array([bytes([n % 256, n % 7, 0]) for n in range(ROWS)], pa.binary(3)),
        }
    )


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def stored(
    request: pytest.FixtureRequest, table: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> bytes:
    path = tmp_path_factory.mktemp("resident") / "file.lance"
    with lance_file.LanceFileWriter(str(path), table.schema, version=request.param) as writer:
        for start in range(0, ROWS, 8000):
            writer.write_batch(table.slice(start, 8000))
    return path.read_bytes()


def test_ranges_are_what_plans_read(stored: bytes, table: pa.Table) -> None:
    reader = open_file(BytesSource("memory", stored))
    fields = reader.schema.fields
    for start, stop in RANGES:
        arrays = reader.read(fields, RowRange(start, stop))
        kept = reader.read(fields, RowRange(start, stop), keep_dictionaries=True)
        for field, array, other in zip(fields, arrays, kept, strict=True):
            array.validate(full=True)
            other.validate(full=True)
            expected = table[field.name].slice(start, stop - start).combine_chunks()
            assert array.equals(expected), (field.name, start, stop)
            assert _plain(other).equals(expected), (field.name, start, stop)
            assert other.null_count == expected.null_count


def test_single_rows_are_what_ranges_hold(stored: bytes, table: pa.Table) -> None:
    reader = open_file(BytesSource("memory", stored))
    fields = reader.schema.fields
    choose = np.random.default_rng(3)
    for count in (1, 2, 60, 1000, 6000, ROWS - 1):
        rows = np.sort(choose.choice(ROWS, count, replace=False))
        arrays = reader.read(fields, rows)
        kept = reader.read(fields, rows, keep_dictionaries=True)
        for field, array, other in zip(fields, arrays, kept, strict=True):
            array.validate(full=True)
            expected = table[field.name].combine_chunks().take(pa.array(rows))
            assert array.equals(expected), (field.name, count)
            assert _plain(other).equals(expected), (field.name, count)


def test_dictionaries_are_kept_and_shared(stored: bytes) -> None:
    reader = open_file(BytesSource("memory", stored))
    (field,) = (field for field in reader.schema.fields if field.name == "word")
    ranges = [RowRange(0, 100), RowRange(5000, 9000)]
    found = [reader.read([field], rows, keep_dictionaries=True)[0] for rows in ranges]
    addresses = {array.dictionary.buffers()[-1].address for array in found}
    assert len(addresses) == 1
    for array in found:
        assert pa.types.is_unsigned_integer(array.type.index_type)


@pytest.mark.parametrize("stored", ["2.0"], indirect=True)  # later versions pack indices
@pytest.mark.parametrize("field_name", ["word", "holes"])
def test_indices_beyond_the_dictionary_are_corrupt(stored: bytes, field_name: str) -> None:
    reader = open_file(BytesSource("memory", stored))
    (field,) = (field for field in reader.schema.fields if field.name == field_name)
    (array,) = reader.read([field], RowRange(0, ROWS), keep_dictionaries=True)
    indices = array.indices.buffers()[1].to_pybytes()
    assert stored.count(indices) == 1
    place = stored.index(indices) + 5000
    broken = BytesSource("memory", stored[:place] + b"\xee" + stored[place + 1 :])
    for keep in (False, True):
        reader = open_file(broken)
        with pytest.raises(CorruptDataError, match=rf"memory.*{field_name}.*dictionary index"):
            reader.read([field], RowRange(0, ROWS), keep_dictionaries=keep)
        reader.read([field], RowRange(0, 5000), keep_dictionaries=keep)


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
