"""Pages in memory, of any encoding, with and without nulls: what plans read, in every form, or an error."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import lance.file as lance_file
import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings.kernels import fastlanes
from lance_df.encodings.loaded_page import Form
from lance_df.encodings.plan import RowRange
from lance_df.errors import LanceError
from lance_df.file.open import open_file
from lance_df.file.read_options import ReadOptions
from lance_df.storage.source import BytesSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lance_df.encodings.plan import Rows
    from lance_df.file.reader import FileReader
    from lance_df.format.schema import Field
    from lance_df.storage import ByteRange

ROWS = 5000
_FLIPS = 50
PLANNED = ReadOptions(resident_columns=False)


class Fetched(BytesSource):
    """A file that is read like a remote one, into memory that is aligned to nothing."""

    @property
    def is_memory_mapped(self) -> bool:
        return False

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        return [pa.py_buffer(b"!" + part.to_pybytes()).slice(1) for part in super()._read_ranges(ranges)]


def _columns() -> dict[str, pa.Array]:
    numbers = np.arange(ROWS)
    chosen = np.random.default_rng(7)
    flags = ["A", "N", "R", "", "a flag of more bytes"]
    words = ["RAIL", "DELIVER IN PERSON", "", "TAKE BACK RETURN", "élan"]
    return {
        "sorted": pa.array(numbers // 4),
        "packed": pa.array((numbers * 7919 % 5000).astype(np.int32)),
        "narrow": pa.array((numbers % 11).astype(np.uint8)),
        "wide": pa.array(chosen.integers(0, 1 << 62, ROWS)),
        "real": pa.array(chosen.random(ROWS)),
        "date": pa.array([dt.date(1992, 1, 1 + n % 28) for n in range(ROWS)]),
        "few": pa.array(chosen.integers(0, 300, ROWS)).cast(pa.decimal128(21, 2)),
        "many": pa.array(chosen.integers(0, 1 << 40, ROWS)).cast(pa.decimal128(21, 2)),
        "flag": pa.array([flags[n * n % 5] for n in range(ROWS)]),
        "word": pa.array([words[n * 3 % 5] * (n % 4) for n in range(ROWS)]),
        "text": pa.array([f"carefully final deposits {n * 7919 % ROWS} sleep" for n in range(ROWS)]),
        "names": pa.array([f"ünïcode naïve façade {n * 31 % ROWS}" for n in range(ROWS)]),
        "bytes": pa.array([n.to_bytes(3, "big") * (n % 7) for n in range(ROWS)]),
        "codes": pa.array([bytes([n % 7, 1, n % 2]) for n in range(ROWS)], pa.binary(3)),
        "same": pa.array(["one"] * ROWS),
        "flags": pa.array(numbers % 3 == 0),
    }


def _with_nulls(array: pa.Array, kind: str) -> pa.Array:
    numbers = np.arange(ROWS)
    is_null = {
        "none": np.zeros(ROWS, np.bool_),
        "some": numbers * 7 % 10 == 0,
        "runs": numbers // 1500 % 2 == 1,
        "all": np.ones(ROWS, np.bool_),
    }[kind]
    return array.take(pa.array(numbers, mask=is_null))


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pa.Table, bytes]:
    path = tmp_path_factory.mktemp("pages") / "file.lance"
    kinds = ("none", "some", "runs", "all")
    table = pa.table(
        {
            f"{name} {kind}": _with_nulls(array, kind)
            for name, array in _columns().items()
            for kind in kinds
            if name != "flags" or kind != "all"
        }
    )
    with lance_file.LanceFileWriter(str(path), table.schema, version=request.param) as writer:
        for start in (0, 3000):
            writer.write_batch(table.slice(start, 3000))
    return table, path.read_bytes()


def _chosen(*counts: int) -> Iterator[Rows]:
    yield from (RowRange(0, ROWS), RowRange(1023, 1025), RowRange(999, 4001), RowRange(3000, 3000))
    generator = np.random.default_rng(5)
    for count in counts:
        yield np.sort(generator.choice(ROWS, count, replace=False))


def _forms(reader: FileReader, fields: list[Field], rows: Rows) -> Iterator[list[pa.Array]]:
    strings = [field for field in fields if field.arrow_type() == pa.string()]
    yield reader.read(fields, rows)
    yield reader.read(fields, rows, options=PLANNED)
    yield reader.read(fields, rows, views=strings)
    yield reader.read(fields, rows, keep_dictionaries=True, views=strings)


def _plain(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    return array if array.type == data_type else array.cast(data_type)


@pytest.mark.parametrize("source", [BytesSource, Fetched])
def test_pages_of_any_encoding_are_read_in_every_form(
    stored: tuple[pa.Table, bytes], source: type[BytesSource]
) -> None:
    table, data = stored
    reader = open_file(source("memory", data))
    fields = list(reader.schema.fields)
    for rows in _chosen(1, 40, 300, 2000):
        for arrays in _forms(reader, fields, rows):
            for field, array in zip(fields, arrays, strict=True):
                array.validate(full=True)
                whole = table[field.name].combine_chunks()
                expected = (
                    whole.slice(rows.start, len(rows))
                    if isinstance(rows, RowRange)
                    else whole.take(pa.array(rows))
                )
                assert _plain(array, whole.type).equals(expected), (field.name, rows)
                assert array.null_count == expected.null_count


def test_readers_of_ranges_give_the_form_that_is_asked_for(stored: tuple[pa.Table, bytes]) -> None:
    table, data = stored
    reader = open_file(BytesSource("memory", data))
    generator = np.random.default_rng(13)
    # around what chunks, blocks and pages hold
    edges = [edge + by for edge in (256, 512, 1024, 2048, 3000, 4048) for by in (-1, 0, 1)]
    read = 0
    for field in reader.schema.fields:
        whole = table[field.name].combine_chunks()
        for form in (Form.PLAIN, Form.VIEWS, Form.DICTIONARY, Form.DICTIONARY | Form.VIEWS):
            column = reader.resident_column(field)
            if column is None:
                continue
            rows_of = column.reader(form)
            for start, stop in [(0, ROWS), *np.sort(generator.choice(edges, (8, 2), replace=True)).tolist()]:
                if (array := rows_of(start, stop)) is None:
                    continue
                array.validate(full=True)
                expected = whole.slice(start, stop - start)
                assert _plain(array, whole.type).equals(expected), (field.name, form, start, stop)
                assert array.null_count == expected.null_count
                is_kept = Form.DICTIONARY in form and isinstance(array, pa.DictionaryArray)
                is_viewed = Form.VIEWS in form and whole.type == pa.string()
                found = array.type.value_type if is_kept else array.type
                assert found == (pa.string_view() if is_viewed and not is_kept else whole.type)
                read += 1
    assert read > 1000


def test_fetched_pages_come_in_the_form_of_mapped_ones_without_views(stored: tuple[pa.Table, bytes]) -> None:
    _, data = stored
    mapped, fetched = (open_file(source("memory", data)) for source in (BytesSource, Fetched))
    fields = list(mapped.schema.fields)
    kept = viewed = 0
    for rows in _chosen(1, 40, 2000):
        for arrays in zip(_forms(mapped, fields, rows), _forms(fetched, fields, rows), strict=True):
            for field, of_map, of_fetch in zip(fields, *arrays, strict=True):
                is_viewed = of_map.type == pa.string_view()
                assert of_fetch.type == (pa.string() if is_viewed else of_map.type), (field.name, rows)
                kept += isinstance(of_fetch, pa.DictionaryArray)
                viewed += is_viewed
    assert kept > 50
    assert viewed > 50


def test_damaged_pages_give_a_typed_error_or_what_plans_read(stored: tuple[pa.Table, bytes]) -> None:
    _, data = stored
    generator = np.random.default_rng(11)
    fields = list(open_file(BytesSource("memory", data)).schema.fields)
    rows = next(rows for rows in _chosen(300) if not isinstance(rows, RowRange))
    checked = 0
    for _ in range(_FLIPS):
        broken = bytearray(data)
        for place in generator.integers(0, len(data) * 9 // 10, 20).tolist():
            broken[place] ^= 1 << int(generator.integers(8))
        reader, other, fetched = (
            open_file(source("memory", bytes(broken))) for source in (BytesSource, BytesSource, Fetched)
        )
        picked = [
            field for field in generator.choice(np.array(fields, object), 3) if field.name[:4] != "real"
        ]
        for field in picked:
            for wanted in (RowRange(0, ROWS), rows):
                answers = [
                    _answer(lambda: reader.read([field], wanted)),  # noqa: B023 - called at once
                    _answer(lambda: reader.read([field], wanted, keep_dictionaries=True, views=[field])),  # noqa: B023
                    _answer(lambda: fetched.read([field], wanted)),  # noqa: B023
                    _answer(lambda: fetched.read([field], wanted, keep_dictionaries=True, views=[field])),  # noqa: B023
                    _answer(lambda: other.read([field], wanted, options=PLANNED)),  # noqa: B023
                ]
                found = [_plain(answer, field.arrow_type()) for answer in answers if answer is not None]
                assert all(each.equals(found[0]) for each in found), field.name
                checked += len(found)
    assert checked > _FLIPS


def _answer(read: Callable[[], list[pa.Array]]) -> pa.Array | None:
    try:
        (array,) = read()
    except LanceError:
        return None
    if pa.types.is_string(array.type) or array.type == pa.string_view():
        array.validate(full=True)
    return array


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_blocks_are_unpacked(bits: int) -> None:
    generator = np.random.default_rng(bits)
    for width in {0, 1, 3, 7, 8, bits // 2 + 1, bits}:
        num_words = width * 128 * 8 // bits
        words = generator.integers(0, 256, (3 * num_words + 1) * bits // 8, np.uint8).view(f"<u{bits // 8}")
        counts = np.array([1024, 1000, 7])
        starts, widths = np.arange(3) * num_words, np.full(3, width)
        wide = np.zeros(3 * 1024, words.dtype)
        fastlanes.unpack_blocks(
            words.view(np.uint8), starts * words.itemsize, widths, counts, bits, wide.view(np.uint8)
        )
        for block, (start, count) in enumerate(zip((0, 1024, 2024), counts.tolist(), strict=True)):
            for row in {0, 1, 17, 130, count - 1} & set(range(count)):
                assert int(wide[start + row]) == _packed(words[block * num_words :], width, bits, row)


def _packed(words: np.ndarray, width: int, bits: int, row: int) -> int:
    """Return a value of a block, bit by bit."""
    lanes = 1024 // bits
    order = (0, 4, 2, 6, 1, 5, 3, 7)
    places = {order[line // 8] * 16 + line % 8 * 128: line for line in range(bits)}
    start = max(place for place in places if place <= row and row - place < lanes)
    stored = 0
    for bit in range(width):
        at = places[start] * width + bit
        stored |= (int(words[at // bits * lanes + row - start]) >> (at % bits) & 1) << bit
    return stored
