"""Expressions over rows in a private context."""

from concurrent.futures import ThreadPoolExecutor

import mmh3
import pyarrow as pa
import pytest

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError

pytestmark = pytest.mark.engine

# the hash of its eight bytes is the lowest int32
HASHES_TO_LOWEST = 2841062569


def values(expression, *columns):
    return evaluator().evaluate(expression, columns).to_pylist()


def test_expressions():
    assert values("col0 + 1", pa.array([1, None])) == [2, None]
    assert values("date_part('hour', col0)", pa.array([0], pa.date32())) == [0]
    assert values("left(col0, col1) -- the first", pa.array(["héllo"]), pa.array([2])) == ["hé"]
    assert values("1", pa.array([], pa.int8())) == []


def test_the_lowest_hash_has_a_bucket():
    assert mmh3.hash(HASHES_TO_LOWEST.to_bytes(8, "little"), 0) == -(2**31)
    assert values("abs(murmur3(col0)) % 16", pa.array([HASHES_TO_LOWEST, 34, None])) == [
        2**31 % 16,
        abs(mmh3.hash((34).to_bytes(8, "little"), 0)) % 16,
        None,
    ]


@pytest.mark.parametrize(
    "data_type", [pa.int8(), pa.uint64(), pa.string(), pa.large_string(), pa.date32(), pa.null()]
)
def test_hashes_take_any_type(data_type):
    column = pa.array(
        [None, "5" if "string" in str(data_type) else 5] if data_type != pa.null() else [None], data_type
    )
    hashes = values("murmur3(col0)", column)
    assert hashes[0] is None
    assert values("murmur3_multi(col0, col0)", column)[0] is None
    if data_type == pa.int8():
        assert hashes[1] == mmh3.hash((5).to_bytes(8, "little"), 0)


@pytest.mark.parametrize(
    "expression", ["col1", "col0 +", "nope(col0)", "sum(col0)", "CAST('x' AS INT)", "col0) FROM rows_1 --"]
)
def test_expressions_that_fail(expression):
    with pytest.raises(InvalidInputError):
        values(expression, pa.array([1, 2]))


def test_volatile_expressions_are_told():
    evaluator().check("date_part('year', col0)")
    for expression in ("now()", "random()", "uuid()", "version()", "(SELECT 1)"):
        with pytest.raises(InvalidInputError):
            evaluator().check(expression)


def test_threads_share_it():
    def run(number):
        return values("abs(murmur3(col0)) % 1000 + col1", pa.array([number]), pa.array([0]))

    numbers = list(range(60))
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, numbers)) == [run(number) for number in numbers]
