"""Values by position: what the kernels take equals what Arrow takes."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings.gather import Lookup, find_positions, take
from lance_df.errors import CorruptDataError

_COUNT = 9_000


def _ints(data_type: pa.DataType) -> pa.Array:
    return pa.array(np.arange(_COUNT) % 120).cast(data_type)


def _strings(longest: int, data_type: pa.DataType) -> pa.Array:
    return pa.array(["é" * (i % (longest // 2 + 1)) for i in range(_COUNT)]).cast(data_type)


VALUES = {
    "int8": _ints(pa.int8()),
    "int16": _ints(pa.int16()),
    "int32": _ints(pa.int32()),
    "float64": _ints(pa.float64()),
    "decimal": pa.array([Decimal(i - 60) for i in range(_COUNT)], pa.decimal128(25, 0)),
    "bool": _ints(pa.int8()).cast(pa.bool_()),
    "short strings": _strings(16, pa.string()),
    "strings": _strings(32, pa.large_string()),
    "long binaries": _strings(60, pa.binary()),
    "lists": pa.array([[i, i] for i in range(_COUNT)]),
    "lists of one size": pa.array([[i, i] for i in range(_COUNT)], pa.list_(pa.int32(), 2)),
    "nulls among numbers": pa.array([None if i % 3 else i for i in range(_COUNT)]),
    "nulls among strings": pa.array([None if i % 5 == 1 else str(i) for i in range(_COUNT)]),
    "dictionary": _strings(8, pa.string()).dictionary_encode(),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("start", [0, 37])
@pytest.mark.parametrize("share", [0.01, 0.6, 0.98, 1.0])
def test_takes_what_arrow_takes(values: pa.Array, start: int, share: float) -> None:
    part = values.slice(start)
    mask = np.random.default_rng(7).random(len(part)) < share
    positions = find_positions(mask, int(mask.sum()))
    np.testing.assert_array_equal(positions, np.flatnonzero(mask))
    taken = take(part, positions)
    taken.validate(full=True)
    assert taken.equals(part.filter(pa.array(mask)))
    assert taken.type == values.type


@pytest.mark.parametrize("values", [VALUES[name] for name in VALUES if not name.startswith("nulls")])
@pytest.mark.parametrize("index_type", ["u1", "u4"])
@pytest.mark.parametrize("count", [10, _COUNT])
def test_looks_up_what_arrow_looks_up(values: pa.Array, index_type: str, count: int) -> None:
    dictionary = values.slice(3, 150)
    indices = np.random.default_rng(3).integers(0, 150, count).astype(index_type)
    found = Lookup(dictionary).look_up(indices)
    found.validate(full=True)
    assert found.equals(dictionary.take(pa.array(indices)))


@pytest.mark.parametrize("name", ["int16", "decimal", "short strings", "strings", "long binaries"])
@pytest.mark.parametrize("count", [10, _COUNT])
@pytest.mark.parametrize("index", [20, 2**64 - 1])
def test_an_index_outside_is_an_error(name: str, count: int, index: int) -> None:
    indices = np.zeros(count, np.uint64)
    indices[count // 2] = index
    with pytest.raises(CorruptDataError, match="the dictionary has 20 values"):
        Lookup(VALUES[name].slice(0, 20)).look_up(indices)


def test_nothing_is_looked_up_in_an_empty_dictionary() -> None:
    lookup = Lookup(pa.array([], pa.string()))
    assert lookup.look_up(np.zeros(0, np.uint8)).equals(pa.array([], pa.string()))
    with pytest.raises(CorruptDataError):
        lookup.look_up(np.zeros(_COUNT, np.uint8))
