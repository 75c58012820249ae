"""Values written as SQL literals are read back by DataFusion as what they were."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lance_df.compute.calculator import evaluator
from lance_df.errors import UnsupportedFeatureError
from lance_df.sql.literals import literal_sql

pytestmark = pytest.mark.engine

VALUES = [
    *(pa.scalar(number, pa.int64()) for number in (0, -1, 2**63 - 1, -(2**63))),
    *(pa.scalar(number, pa.int8()) for number in (-128, 127)),
    pa.scalar(2**64 - 1, pa.uint64()),
    *(pa.scalar(number, pa.float64()) for number in (1.5, -0.0, float("inf"), float("-inf"), 1e300)),
    pa.scalar(0.1, pa.float32()),
    pa.scalar(np.float16("-inf"), pa.float16()),
    *(pa.scalar(text) for text in ("", "it's", "ünï \U0010ffff", "/* -- */")),
    pa.scalar(b"\x00\xff'"),
    pa.scalar(b"", pa.large_binary()),
    pa.scalar(True),
    pa.scalar(None, pa.int16()),
    pa.scalar(dt.date(1969, 12, 31)),
    pa.scalar(2**31 - 1, pa.int32()).cast(pa.date32()),
    *(pa.scalar(-1, pa.int64()).cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    pa.scalar(2**62, pa.int64()).cast(pa.timestamp("us")),
    pa.scalar(5, pa.int64()).cast(pa.timestamp("ms", "America/New_York")),
    pa.scalar(Decimal("-1.50"), pa.decimal128(10, 2)),
    pa.scalar(dt.time(1, 2, 3), pa.time64("us")),
    pa.scalar(dt.timedelta(seconds=-5), pa.duration("ms")),
]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_literals(number):
    value = VALUES[number]
    (found,) = evaluator().evaluate(literal_sql(value, typed=True), [pa.array([1])])
    assert found.type == value.type
    assert found.equals(value), literal_sql(value, typed=True)


def test_types_without_literals():
    with pytest.raises(UnsupportedFeatureError):
        literal_sql(pa.scalar([1]), typed=True)
