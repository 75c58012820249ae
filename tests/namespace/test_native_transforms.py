"""Transforms computed here equal the expressions that they stand for, computed by DataFusion."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from lance_df.compute.calculator import evaluator
from lance_df.namespace.spec.native_transforms import native_values
from lance_df.namespace.spec.transforms import CALENDAR_PARTS, Transform, TransformKind

pytestmark = pytest.mark.engine

RANDOM = np.random.default_rng(5)
MOMENTS = np.concatenate(
    [
        RANDOM.integers(-(10**11), 10**11, 300),
        RANDOM.integers(-(10**9), 10**9, 200),
        [0, -1, 86_399, 86_400, -86_400, -86_401],
    ]
)
TIMES = [
    pa.timestamp(unit, zone) for unit in ("s", "ms", "us") for zone in (None, "America/New_York", "+05:30")
]


def check(transform, *columns):
    found = native_values(transform, columns)
    expression = transform.expression([column.type for column in columns])
    expected = evaluator().evaluate(expression, columns)
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("kind", CALENDAR_PARTS)
@pytest.mark.parametrize("data_type", [*TIMES, pa.date32(), pa.date64()], ids=str)
def test_calendar_parts(kind, data_type):
    far = getattr(data_type, "tz", None) is None
    moments = MOMENTS if far else MOMENTS[np.abs(MOMENTS) < 2 * 10**9]
    seconds = pa.array([*moments.tolist(), None]).cast(pa.timestamp("s"))
    if pa.types.is_date(data_type):
        column = seconds.cast(pa.date32(), safe=False).cast(data_type)
    else:
        column = seconds.cast(pa.timestamp(data_type.unit)).cast(pa.int64()).cast(data_type)
    check(Transform(kind), column)


@pytest.mark.parametrize("kind", CALENDAR_PARTS)
def test_calendar_parts_of_dates_that_are_no_whole_days(kind):
    """A date64 counts milliseconds, and DataFusion makes one of any literal."""
    moments = pa.array([*(MOMENTS * 1000 + 1).tolist(), None], pa.timestamp("ms"))
    check(Transform(kind), moments.view(pa.date64()))


def test_what_arrow_cannot_count_is_left_to_datafusion():
    for far in (dt.date.max, dt.date(1, 1, 1)):
        check(Transform(TransformKind.YEAR), pa.array([far]))
    for ticks in (2**63 - 1, -(2**63) + 1, 400_000 * 366 * 86_400):
        assert native_values(Transform(TransformKind.YEAR), [pa.array([ticks], pa.timestamp("s"))]) is None


def test_zones_of_far_years_are_left_to_datafusion():
    column = pa.array([10**10], pa.timestamp("s", "America/New_York"))
    assert native_values(Transform(TransformKind.HOUR), [column]) is None


INTEGERS = [-(2**63), -101, -100, -1, 0, 1, 99, 100, 2**63 - 1, None]


@pytest.mark.parametrize("width", [1, 7, 100, 2**31 - 1])
@pytest.mark.parametrize("data_type", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_truncated_integers(width, data_type):
    limit = 2 ** (data_type.bit_width - 1)
    column = pa.array([each for each in INTEGERS if each is None or -limit <= each < limit], data_type)
    check(Transform(TransformKind.TRUNCATE, width=width), column)


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string()], ids=str)
def test_truncated_texts(width, data_type):
    texts = ["héllo", "e\u0301a", "😀😁😂", "👨‍👩‍👧", "x", "", None]
    check(Transform(TransformKind.TRUNCATE, width=width), pa.array(texts, data_type))


@pytest.mark.parametrize("num_buckets", [1, 16, 2**31 - 1])
def test_buckets(num_buckets):
    numbers = pa.array([*INTEGERS, 2841062569])
    texts = pa.array(["a", None] * 5 + [None])
    check(Transform(TransformKind.BUCKET, num_buckets), numbers)
    check(Transform(TransformKind.BUCKET, num_buckets), texts)
    check(Transform(TransformKind.MULTI_BUCKET, num_buckets), numbers, texts)
