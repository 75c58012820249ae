"""Hashes against mmh3 and the vectors of other systems; equal values of all types of a class hash alike."""

import datetime as dt
import struct
from decimal import Decimal, localcontext

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.errors import InvalidInputError
from lance_df.hashing import canonical_bytes, murmur3, murmur3_multi, murmur3_of_lists

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


def one(value, data_type):
    return murmur3(pa.array([value], data_type))[0].as_py()


def test_vectors_of_iceberg():
    # Iceberg table spec, Appendix B
    assert one(34, pa.int32()) == one(34, pa.int64()) == 2017239379
    assert one(dt.date(2017, 11, 16), pa.date32()) == -653330422
    assert one(dt.time(22, 31, 8), pa.time64("us")) == -662762989
    assert one(dt.datetime(2017, 11, 16, 22, 31, 8), pa.timestamp("us")) == -2047944441
    assert one("iceberg", pa.string()) == 1210000089
    assert one(b"\x00\x01\x02\x03", pa.binary()) == -188683207


@pytest.mark.parametrize("data_type", INTEGERS, ids=str)
def test_integers_of_any_width(data_type):
    values = [0, 1, 5, 34, 100]
    assert murmur3(pa.array(values, data_type)).to_pylist() == [
        mmh3.hash(struct.pack("<q", each)) for each in values
    ]


def test_integer_extremes():
    for value, data_type in [(-1, pa.int8()), (-(2**63), pa.int64()), (2**63 - 1, pa.int64())]:
        assert one(value, data_type) == mmh3.hash(struct.pack("<q", value))
    assert one(2**64 - 1, pa.uint64()) == mmh3.hash(struct.pack("<Q", 2**64 - 1))


@pytest.mark.parametrize("data_type", TEXTS, ids=str)
def test_text_of_any_layout(data_type):
    values = ["", "a", "ab", "abc", "abcd", "héllo wörld", "\U0010ffff", None]
    array = (
        pa.array(values).dictionary_encode()
        if pa.types.is_dictionary(data_type)
        else pa.array(values).cast(data_type)
    )
    expected = [None if each is None else mmh3.hash(each) for each in values]
    assert murmur3(array).to_pylist() == expected
    assert murmur3(array.slice(2, 3)).to_pylist() == expected[2:5]


def test_binary():
    values = [b"", b"\xff\xfe\x00", None, b"12345"]
    for data_type in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert murmur3(pa.array(values, data_type)).to_pylist() == [
            v if v is None else mmh3.hash(v) for v in values
        ]
    assert one(b"12345", pa.binary(5)) == mmh3.hash(b"12345")


def test_floats_are_normalised():
    zeros = [one(value, kind) for value in (0.0, -0.0) for kind in (pa.float32(), pa.float64())]
    assert set(zeros) == {mmh3.hash(struct.pack("<d", 0.0))}
    payloads = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(
        np.float64
    )
    assert set(murmur3(pa.array(payloads)).to_pylist()) == {mmh3.hash(struct.pack("<Q", 0x7FF8000000000000))}
    assert one(1.5, pa.float32()) == one(1.5, pa.float64()) == one(np.float16(1.5), pa.float16())


def test_decimals_of_any_scale():
    types = [pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(38, 10), pa.decimal256(76, 40)]
    for number in ("1.00", "-3.25", "0", "14.20", "-1.28", "99999.99", "100"):
        hashes = {one(Decimal(number), data_type) for data_type in types}
        assert len(hashes) == 1, number
    assert one(Decimal("1.00"), types[0]) == mmh3.hash(b"\x01")
    assert one(Decimal("-3.25"), types[0]) == mmh3.hash((-325).to_bytes(2, "big", signed=True) + b"\x02")
    assert one(Decimal(128), types[0]) == mmh3.hash(b"\x00\x80")


@given(st.lists(st.one_of(st.none(), st.decimals(-(10**27), 10**27, places=10)), max_size=20))
@settings(max_examples=60, deadline=None, database=None)
def test_decimals_against_arithmetic(numbers):
    def expected(number):
        if number is None:
            return None
        with localcontext(prec=60):
            unscaled, scale = int(number.scaleb(10)), 10
        while scale and unscaled % 10 == 0:
            unscaled, scale = unscaled // 10, scale - 1
        unscaled, scale = (unscaled, scale) if unscaled else (0, 0)
        length = 1
        while not -(1 << (8 * length - 1)) <= unscaled < 1 << (8 * length - 1):
            length += 1
        return unscaled.to_bytes(length, "big", signed=True) + (bytes([scale]) if scale else b"")

    array = pa.array(numbers, pa.decimal128(38, 10))
    assert canonical_bytes(array).to_pylist() == [expected(number) for number in numbers]


def test_instants_of_any_unit():
    moment = dt.datetime(1969, 12, 31, 23, 59, 59)
    hashes = {
        one(moment, pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")
    }
    assert hashes == {mmh3.hash(struct.pack("<q", -1_000_000))}
    assert murmur3(pa.array([-1], pa.timestamp("ns")))[0].as_py() == mmh3.hash(struct.pack("<q", -1))
    assert (
        one(moment.date(), pa.date32()) == one(moment.date(), pa.date64()) == mmh3.hash(struct.pack("<q", -1))
    )
    assert len({one(dt.timedelta(seconds=3), pa.duration(unit)) for unit in ("s", "ms", "us", "ns")}) == 1
    assert one(dt.time(1, 2, 3), pa.time32("s")) == one(dt.time(1, 2, 3), pa.time64("ns"))
    murmur3(pa.array([2**62], pa.timestamp("s")))  # beyond what microseconds can say


def test_booleans_and_nulls():
    assert murmur3(pa.array([True, None, False])).to_pylist() == [one(1, pa.int8()), None, one(0, pa.int8())]
    assert murmur3(pa.nulls(3)).to_pylist() == [None] * 3
    assert murmur3(pa.array([], pa.string())).to_pylist() == []
    assert murmur3(pa.array([1])).type == pa.int32()


def test_several_columns():
    columns = [pa.array([1, None, None, 1]), pa.array(["a", "a", None, None]), pa.nulls(4)]
    one_key = struct.pack("<q", 1)
    assert murmur3_multi(columns).to_pylist() == [
        mmh3.hash(one_key + b"a"),
        mmh3.hash(b"a"),
        None,
        mmh3.hash(one_key),
    ]
    assert murmur3_multi([columns[1]]).equals(murmur3(columns[1]))
    assert murmur3_multi([pa.array([1], pa.int8()), pa.array(["x"])]).equals(
        murmur3_multi([pa.array([1], pa.uint64()), pa.array(["x"], pa.large_string())])
    )
    assert murmur3_multi([pa.array([], pa.int64())]).to_pylist() == []


def test_lists_of_keys():
    keys = pa.array([[b"a", None, b"b"], [None], [], None, [b"ab"]], pa.list_(pa.binary()))
    assert murmur3_of_lists(keys).to_pylist() == [mmh3.hash(b"ab"), None, None, None, mmh3.hash(b"ab")]
    assert murmur3_of_lists(keys.slice(1)).to_pylist() == [None, None, None, mmh3.hash(b"ab")]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=30))
@settings(max_examples=60, deadline=None, database=None)
def test_bytes_against_mmh3(values):
    assert murmur3(pa.array(values, pa.binary())).to_pylist() == [
        v if v is None else mmh3.hash(v) for v in values
    ]


def test_nested_types_have_no_hash():
    for values in (pa.array([[1]]), pa.array([{"a": 1}])):
        with pytest.raises(InvalidInputError, match="murmur3 is not defined"):
            murmur3(values)
        with pytest.raises(InvalidInputError, match="murmur3 is not defined"):
            murmur3_multi([values, values])
    with pytest.raises(InvalidInputError, match="length"):
        murmur3_multi([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(InvalidInputError, match="at least one"):
        murmur3_multi([])


@pytest.mark.parametrize("start", [0, 1, 7, 8, 13])
def test_slices_with_nulls_hash_as_their_values_do(start):
    rng = np.random.default_rng(start)
    nulls = rng.random(200) < 0.3
    texts = [rng.bytes(int(size)).decode("latin-1") for size in rng.integers(0, 14, 200)]
    numbers = rng.integers(-(2**63), 2**63 - 1, 200)
    for data_type in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()):
        array = pa.array(texts, mask=nulls).cast(pa.binary()).cast(data_type)[start:190]
        expected = [
            None if null else mmh3.hash(text.encode()) for text, null in zip(texts, nulls, strict=True)
        ]
        assert murmur3(array).to_pylist() == expected[start:190], data_type
    for kind in (np.int64, np.uint64, np.int32, np.float64):
        values = numbers.astype(kind)
        array = pa.array(values, mask=nulls)[start:190]
        words = values.astype("<f8" if kind is np.float64 else "<i8")
        expected = [
            None if null else mmh3.hash(word.tobytes()) for word, null in zip(words, nulls, strict=True)
        ]
        hashes = murmur3(array)
        hashes.validate(full=True)
        assert hashes.to_pylist() == expected[start:190], kind
        assert hashes.null_count == array.null_count


@pytest.mark.parametrize("data_type", [pa.decimal128(5, -2), pa.decimal256(40, -2)], ids=str)
def test_decimals_of_negative_scale_beside_nulls(data_type):
    values = [Decimal(100), None, Decimal(-900), Decimal(0)]
    array = pa.array(values, data_type)
    assert canonical_bytes(array).to_pylist() == [b"\x01\xfe", None, b"\xf7\xfe", b"\0"]
    each = [None if value is None else one(value, data_type) for value in values]
    assert murmur3(array).to_pylist() == each
    assert murmur3(array.slice(1)).to_pylist() == each[1:]
