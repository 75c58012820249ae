"""The columns of the single-file cases: one for each type, and one for each encoding."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

ALL = ("0.1", "2.0", "2.1", "2.2")
SINCE_2_0 = ("2.0", "2.1", "2.2")
SINCE_2_1 = ("2.1", "2.2")
ONLY_2_2 = ("2.2",)
_TYPE_ROWS = 20
_WORDS = ("", "a", "naïve", "日本語", "zebra", "x" * 40)


@dataclasses.dataclass(frozen=True)
class ColumnCase:
    """A column to be written: name, rows, metadata of its field, and the versions that have it."""

    name: str
    array: pa.Array
    versions: tuple[str, ...]
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    nullable: bool = True
    sentence: str = ""
    page_bytes: int | None = None


def column_cases() -> Iterator[ColumnCase]:
    """Yield all columns; the same in every run."""
    yield from _types()
    yield from _shapes()
    yield from _encodings()


def _types() -> Iterator[ColumnCase]:
    makers: dict[str, tuple[pa.DataType, Callable[[int], Any], tuple[str, ...]]] = {
        **{
            name: (kind, lambda i, kind=kind, name=name: _integer(i, kind.bit_width, name[0] == "u"), ALL)
            for name, kind in (
                *(("int8", pa.int8()), ("int16", pa.int16()), ("int32", pa.int32()), ("int64", pa.int64())),
                *(("uint8", pa.uint8()), ("uint16", pa.uint16()), ("uint32", pa.uint32())),
                ("uint64", pa.uint64()),
            )
        },
        "float16": (pa.float16(), lambda i: np.float16([0.5, -0.0, np.inf, np.nan, 65504][i % 5]), ALL),
        "float32": (pa.float32(), lambda i: [i / 4, -0.0, np.inf, np.nan, 1e-45][i % 5], ALL),
        "float64": (pa.float64(), lambda i: [i / 3, -0.0, -np.inf, np.nan, 5e-324][i % 5], ALL),
        "bool": (pa.bool_(), lambda i: i % 3 == 0, ALL),
        "decimal128": (pa.decimal128(38, 4), lambda i: Decimal(i * 10**30 - 7).scaleb(-4), ALL),
        "decimal256": (pa.decimal256(70, 4), lambda i: Decimal(i * 10**60 - 7).scaleb(-4), ALL),
        "date32": (pa.date32(), lambda i: dt.date(1970, 1, 1) + dt.timedelta(i * 100 - 500), ALL),
        "date64": (pa.date64(), lambda i: dt.date(1970, 1, 1) + dt.timedelta(i * 100 - 500), ALL),
        "time32_s": (pa.time32("s"), lambda i: i * 4000, ALL),
        "time32_ms": (pa.time32("ms"), lambda i: i * 4_000_001, ALL),
        "time64_us": (pa.time64("us"), lambda i: i * 4_000_000_001, ALL),
        "time64_ns": (pa.time64("ns"), lambda i: i * 4_000_000_000_001, ALL),
        **{
            f"timestamp_{unit}": (pa.timestamp(unit), lambda i, unit=unit: _moment(i, unit), ALL)
            for unit in ("s", "ms", "us", "ns")
        },
        "timestamp_us_utc": (pa.timestamp("us", "UTC"), lambda i: _moment(i, "us"), ALL),
        "timestamp_ms_zone": (pa.timestamp("ms", "Europe/Berlin"), lambda i: _moment(i, "ms"), ALL),
        "timestamp_ns_offset": (pa.timestamp("ns", "+05:30"), lambda i: _moment(i, "ns"), ALL),
        **{
            f"duration_{unit}": (pa.duration(unit), lambda i: i * 10**6 - 5, ALL)
            for unit in ("s", "ms", "us", "ns")
        },
        "utf8": (pa.string(), lambda i: f"{i}{_WORDS[i % 6]}", ALL),
        "large_utf8": (pa.large_string(), lambda i: f"{i}{_WORDS[i % 6]}", ALL),
        "binary": (pa.binary(), lambda i: bytes([i, 255 - i]), ALL),
        "large_binary": (pa.large_binary(), lambda i: bytes([i, 255 - i]), ALL),
        "fixed_size_binary": (pa.binary(3), lambda i: b"%03d" % i, ALL),
        "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda i: f"v{i % 3}", ALL),
        "dictionary_of_numbers": (pa.dictionary(pa.uint16(), pa.int64()), lambda i: i % 3, ALL),
        "fixed_size_list": (pa.list_(pa.float32(), 3), lambda i: [i, i + 0.5, -i], ALL),
        "fixed_size_list_of_lists": (
            pa.list_(pa.list_(pa.int8(), 2), 2),
            lambda i: [[i, 1], [2, 3]],
            SINCE_2_0,
        ),
        "list": (pa.list_(pa.int32()), lambda i: list(range(i % 4)), ALL),
        "large_list": (pa.large_list(pa.string()), lambda i: [_WORDS[j] for j in range(i % 4)], ALL),
        "list_of_lists": (
            pa.list_(pa.list_(pa.string())),
            lambda i: [_WORDS[1 : 1 + j] for j in range(i % 4)],
            ALL,
        ),
        "struct": (
            pa.struct({"a": pa.int32(), "b": pa.struct({"c": pa.string()})}),
            lambda i: {"a": i, "b": {"c": f"c{i}"}},
            ALL,
        ),
        "list_of_structs": (
            pa.list_(pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())})),
            lambda i: [{"x": j, "y": [f"y{i}"] * j} for j in range(i % 3)],
            ALL,
        ),
        "map": (pa.map_(pa.string(), pa.int32()), lambda i: [(f"k{j}", i) for j in range(i % 3)], ONLY_2_2),
        "fixed_size_list_of_structs": (
            pa.list_(pa.struct({"x": pa.int16(), "y": pa.string()}), 2),
            lambda i: [{"x": i, "y": f"y{i}"}, {"x": -i, "y": "z"}],
            ONLY_2_2,
        ),
    }
    for name, (kind, make, versions) in makers.items():
        values = [make(i) for i in range(_TYPE_ROWS)]
        yield ColumnCase(f"type_{name}", pa.array(values, kind), versions, sentence=f"a column of {kind}")
        some = [None if i % 3 == 1 else value for i, value in enumerate(values)]
        with_nulls = tuple(version for version in versions if version != "0.1" or _has_nulls_in_0_1(kind))
        if pa.types.is_struct(kind):
            with_nulls = SINCE_2_1
        yield ColumnCase(
            f"type_{name}_nulls", pa.array(some, kind), with_nulls, sentence=f"{kind} with nulls"
        )
    yield ColumnCase("type_null", pa.nulls(_TYPE_ROWS), ALL, sentence="a column of the null type")


def _has_nulls_in_0_1(kind: pa.DataType) -> bool:
    """Whether nulls are in 0.1 files what they were: fixed-width values become zeros."""
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_list(kind)


def _shapes() -> Iterator[ColumnCase]:
    numbers = range(_TYPE_ROWS)
    texts = [f"text {i}" for i in numbers]
    yield ColumnCase("no_rows", pa.array([], pa.int32()), SINCE_2_0, sentence="a file without rows")
    yield ColumnCase("one_row", pa.array([7], pa.int64()), ALL, sentence="a file of one row")
    yield ColumnCase(
        "pages",
        pa.array([None if i % 9 == 0 else i for i in range(900)], pa.int64()),
        SINCE_2_0,
        sentence="a column of several pages",
        page_bytes=2048,
    )
    yield ColumnCase(
        "required_text",
        pa.array(["", "a", ""]),
        ALL,
        nullable=False,
        sentence="empty texts of a field that allows no nulls stay empty",
    )
    for kind in (pa.int32(), pa.string(), pa.list_(pa.int16()), pa.list_(pa.float32(), 2)):
        name = str(kind).partition("<")[0]
        versions = ALL if pa.types.is_string(kind) else SINCE_2_0
        yield ColumnCase(
            f"only_nulls_{name}", pa.nulls(_TYPE_ROWS, kind), versions, sentence=f"{kind}, all of it null"
        )
    yield ColumnCase(
        "empty_and_null_lists",
        pa.array([[], None, [None], [1, None]] * 5, pa.list_(pa.int64())),
        SINCE_2_0,
        sentence="a null list is not an empty one, nor one of a null",
    )
    yield ColumnCase(
        "only_empty_lists",
        pa.array([[], None] * 10, pa.list_(pa.int64())),
        SINCE_2_0,
        sentence="lists without any item",
    )
    yield ColumnCase(
        "null_items_of_fixed_size_lists",
        pa.array([[i, None, 1] for i in numbers], pa.list_(pa.int16(), 3)),
        SINCE_2_0,
        sentence="fixed-size lists with null items",
    )
    struct = pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())})
    yield ColumnCase(
        "null_fields_of_structs",
        pa.array([{"a": None, "b": None if i % 2 else [None, "x"]} for i in numbers], struct),
        SINCE_2_0,
        sentence="structs with null fields, themselves not null",
    )
    yield ColumnCase(
        "nulls_at_every_level",
        pa.array(
            [None, [], [None], [{"a": None, "b": None}], [{"a": 1, "b": []}, {"a": 2, "b": [None, "x"]}]] * 4,
            pa.list_(struct),
        ),
        SINCE_2_1,
        sentence="2.1 adds support for nulls in struct fields",
    )
    yield ColumnCase(
        "text_views", pa.array(texts, pa.string_view()), SINCE_2_1, sentence="views are stored as text"
    )


def _encodings() -> Iterator[ColumnCase]:
    rng = random.Random(1)
    rows = 600
    full = [rng.getrandbits(63) for _ in range(rows)]
    yield from _each("flat", pa.array(full, pa.int64()), "the bytes of the values, one after the other")
    yield from _each("bitpacked", pa.array([value % 17 for value in full], pa.int32()), "values of few bits")
    yield from _each(
        "bitpacked_nulls",
        pa.array([None if value % 5 == 0 else value % 17 for value in full], pa.int64()),
        "values of few bits, with nulls",
    )
    for bits, kind in ((3, pa.uint8()), (9, pa.uint16()), (21, pa.uint32()), (40, pa.uint64())):
        values = pa.array([value % 2**bits for value in full], kind)
        yield from _each(f"bitpacked_{kind}", values, f"{bits} of the bits of {kind}", SINCE_2_1)
    yield from _each("rle", pa.array([i // 90 for i in range(rows)], pa.int32()), "long runs")
    yield from _each("constant", pa.array([42] * rows, pa.int64()), "one value in all rows")
    yield from _each("constant_text", pa.array(["the same text"] * rows), "one text in all rows")
    yield from _each(
        "constant_nulls",
        pa.array([7 if i % 3 else None for i in range(rows)], pa.int16()),
        "one value, and nulls",
    )
    yield from _each("few_texts", pa.array([f"text {i % 7}" for i in range(rows)]), "a dictionary of texts")
    yield from _each(
        "few_numbers",
        pa.array([full[i % 5] for i in range(rows)], pa.int64()),
        "a dictionary of numbers",
        SINCE_2_1,
    )
    words = [rng.choice(("red", "green", "blue", "of the sky")) for _ in range(9 * rows)]
    sentences = [" ".join(words[i : i + 9]) + f" {i}" for i in range(0, 9 * rows, 9)]
    sentences = sentences if len("".join(sentences)) > 33_000 else [f"{text} {text}" for text in sentences]
    yield from _each("fsst", pa.array(sentences), "texts of common substrings, symbol by symbol", SINCE_2_1)
    yield from _each(
        "fsst_full_zip",
        pa.array([text * 7 for text in sentences[:90]]),
        "long texts, by row",
        SINCE_2_1,
    )
    yield from _each(
        "texts_full_zip", pa.array([str(i) * 150 for i in range(40)]), "long texts, by row", SINCE_2_1
    )
    yield from _each("binaries", pa.array([rng.randbytes(i % 9) for i in range(rows)]), "bytes of any length")
    yield from _each("bits", pa.array([rng.random() < 0.5 for _ in range(rows)]), "a bit for each value")
    wide = pa.FixedSizeListArray.from_arrays(pa.array([i / 7 for i in range(300 * 8)], pa.float32()), 300)
    yield from _each("wide_lists", wide, "vectors, by row")
    yield from _each(
        "wide_lists_nulls",
        pa.array([None if i == 3 else [i, None] * 75 for i in range(10)], pa.list_(pa.float64(), 150)),
        "vectors with null items, and a null vector",
    )
    yield from _each(
        "many_lists",
        pa.array([[full[j] % 9 for j in range(i % 11)] for i in range(rows)], pa.list_(pa.int32())),
        "lists over many rows",
    )
    yield from _each(
        "lists_of_long_texts",
        pa.array([[sentences[j] * 6 for j in range(i % 4)] for i in range(30)]),
        "lists of long texts, by row",
        SINCE_2_1,
    )
    few = pa.array([Decimal(full[i % 5]) for i in range(rows)], pa.decimal128(38, 0))
    yield from _each("few_decimals", few, "a dictionary of decimals", SINCE_2_1)
    large = pa.array([f"{text} {text}" for text in sentences[:320]], pa.large_string())
    yield from _each("large_fsst", large, "large texts, symbol by symbol", SINCE_2_1)
    yield from _each(
        "large_full_zip",
        pa.array([str(i) * 150 for i in range(40)], pa.large_string()),
        "large texts, by row",
        SINCE_2_1,
    )
    yield from _each(
        "very_long_text",
        pa.array(["ab" * 17_000, "", None, "c"]),
        "texts above 32 KiB, compressed one by one",
    )
    yield from _each(
        "nulls_over_many_rows",
        pa.array([None if 100 < i < 400 else i for i in range(3 * rows)], pa.int32()),
        "nulls in more rows than levels are packed at once",
    )
    yield from _asked(rows, sentences)
    yield from _extensions()


def _asked(rows: int, sentences: list[str]) -> Iterator[ColumnCase]:
    """Yield what is written where the metadata of a field ask for it."""
    texts = pa.array(sentences[:150])
    for scheme in ("zstd", "lz4"):
        metadata = {"compression": scheme}
        yield from _each(f"{scheme}_texts", texts, f"texts compressed by {scheme}", SINCE_2_0, metadata)
        runs = pa.array([i // 2 * 1000 for i in range(2 * rows)], pa.int64())
        yield from _each(f"{scheme}_numbers", runs, f"numbers compressed by {scheme}", SINCE_2_1, metadata)
        mixed = pa.array([_value(i) for i in range(2 * rows)], pa.int64())
        yield from _each(
            f"{scheme}_flat",
            mixed,
            f"the bytes of numbers compressed by {scheme}",
            SINCE_2_1,
            metadata | {"bss": "off"},
        )
        long_runs = pa.array([_value(i // 6) for i in range(6 * rows)], pa.int32())
        yield from _each(
            f"{scheme}_rle", long_runs, f"runs compressed by {scheme}", SINCE_2_1, metadata | {"bss": "off"}
        )
        large = pa.array(sentences[:100], pa.large_string())
        yield from _each(
            f"{scheme}_large_texts", large, f"large texts compressed by {scheme}", SINCE_2_1, metadata
        )
    floats = pa.array([100 + i / 8 for i in range(2 * rows)], pa.float64())
    yield from _each(
        "byte_stream_split",
        floats,
        "the first bytes of all values, then the second ones",
        SINCE_2_1,
        {"compression": "zstd", "bss": "on"},
    )
    yield from _each(
        "byte_stream_split_float32",
        floats.cast(pa.float32()),
        "the bytes of 32-bit floats, the first ones of all values first",
        SINCE_2_1,
        {"compression": "zstd", "bss": "on"},
    )
    yield from _each("plain_texts", texts, "texts as they are", SINCE_2_1, {"compression": "none"})
    yield from _each(
        "fsst_binaries",
        pa.array([text.encode() for text in sentences]),
        "bytes as symbols",
        SINCE_2_1,
        {"compression": "fsst"},
    )
    for layout in ("miniblock", "fullzip"):
        metadata = {"structural-encoding": layout}
        numbers = pa.array([None if i % 7 == 0 else i * i for i in range(200)], pa.int32())
        yield from _each(f"{layout}_numbers", numbers, f"numbers in the layout {layout}", SINCE_2_1, metadata)
        yield from _each(
            f"{layout}_texts", pa.array(sentences[:60]), f"texts in the layout {layout}", SINCE_2_1, metadata
        )
        lists = pa.array(
            [None if i % 5 == 0 else list(range(i % 4)) for i in range(60)], pa.list_(pa.int32())
        )
        yield from _each(f"{layout}_lists", lists, f"lists in the layout {layout}", SINCE_2_1, metadata)
    packed = {"packed": "true"}
    numbers = pa.struct({"a": pa.int16(), "b": pa.float64()})
    yield from _each(
        "packed_struct",
        pa.array([{"a": i, "b": i / 4} for i in range(60)], numbers),
        "a struct row by row",
        SINCE_2_0,
        packed,
    )
    mixed = pa.struct({"a": pa.int32(), "s": pa.string(), "v": pa.list_(pa.float32(), 2)})
    yield from _each(
        "packed_struct_of_texts",
        pa.array([{"a": i, "s": f"text {i}", "v": [i, 1]} for i in range(60)], mixed),
        "a struct with texts row by row",
        ONLY_2_2,
        packed,
    )


def _extensions() -> Iterator[ColumnCase]:
    uuids = pa.array([bytes([i]) * 16 for i in range(_TYPE_ROWS)], pa.binary(16))
    yield ColumnCase(
        "type_uuid",
        pa.ExtensionArray.from_storage(pa.uuid(), uuids),
        SINCE_2_0,
        sentence="the extension type arrow.uuid",
    )
    payload = [None if i == 3 else bytes([i]) * (i * 3) for i in range(_TYPE_ROWS)]
    yield ColumnCase(
        "blobs",
        pa.array(payload, pa.large_binary()),
        SINCE_2_0,
        {"lance-encoding:blob": "true"},
        sentence="values outside of the pages, and their descriptions in them",
    )


def _each(
    name: str,
    array: pa.Array,
    sentence: str,
    versions: tuple[str, ...] = ALL,
    metadata: Mapping[str, str] | None = None,
) -> Iterator[ColumnCase]:
    if array.null_count and not pa.types.is_string(array.type):
        versions = tuple(version for version in versions if version != "0.1")
    encoded = {f"lance-encoding:{key}": value for key, value in (metadata or {}).items()}
    yield ColumnCase(name, array, versions, encoded, sentence=sentence)


def _value(i: int) -> int:
    """Return one of 97 values whose bits are all in use."""
    return int((i % 97 * 0x9E3779B97F4A7C15) % 2**31) * (1 if i % 2 else -1)


def _integer(i: int, bits: int, unsigned: bool) -> int:
    value = (i * 2654435761 * 2654435769) % 2**bits
    return value if unsigned else value - 2 ** (bits - 1)


def _moment(i: int, unit: str) -> int:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return (i - 5) * 10**8 * per_second + (i if per_second > 1 else 0)
