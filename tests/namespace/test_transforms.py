"""What transforms take, give, and stand for."""

import pyarrow as pa
import pytest

from lance_df.errors import InvalidInputError
from lance_df.namespace.spec.transforms import Transform, TransformKind


@pytest.mark.parametrize(
    ("transform", "sources", "result", "expression"),
    [
        (Transform(TransformKind.IDENTITY), [pa.date32()], pa.date32(), "col0"),
        (Transform(TransformKind.IDENTITY), [pa.dictionary(pa.int8(), pa.string())], pa.string(), "col0"),
        (Transform(TransformKind.YEAR), [pa.timestamp("ns", "UTC")], pa.int32(), "date_part('year', col0)"),
        (Transform(TransformKind.HOUR), [pa.date32()], pa.int32(), "date_part('hour', col0)"),
        (Transform(TransformKind.BUCKET, 16), [pa.string()], pa.int32(), "abs(murmur3(col0)) % 16"),
        (
            Transform(TransformKind.MULTI_BUCKET, 8),
            [pa.int8(), pa.binary()],
            pa.int32(),
            "abs(murmur3_multi(col0, col1)) % 8",
        ),
        (Transform(TransformKind.TRUNCATE, width=3), [pa.large_string()], pa.large_string(), "left(col0, 3)"),
        (Transform(TransformKind.TRUNCATE, width=10), [pa.int16()], pa.int16(), "col0 - (col0 % 10)"),
        (
            Transform(TransformKind.TRUNCATE, width=10),
            [pa.decimal128(9, 2)],
            pa.decimal128(9, 2),
            "col0 - (col0 % 10)",
        ),
    ],
    ids=str,
)
def test_transforms(transform, sources, result, expression):
    assert transform.result_type(sources) == result
    assert transform.expression(sources) == expression
    assert Transform.from_json(transform.to_json(), source="test") == transform


@pytest.mark.parametrize(
    ("transform", "sources"),
    [
        (Transform(TransformKind.YEAR), [pa.int32()]),
        (Transform(TransformKind.HOUR), [pa.time32("s")]),
        (Transform(TransformKind.IDENTITY), [pa.list_(pa.int8())]),
        (Transform(TransformKind.IDENTITY), []),
        (Transform(TransformKind.BUCKET, 4), [pa.int8(), pa.int8()]),
        (Transform(TransformKind.BUCKET, 4), [pa.struct([("a", pa.int8())])]),
        (Transform(TransformKind.BUCKET, 4), [pa.null()]),
        (Transform(TransformKind.MULTI_BUCKET, 4), []),
        (Transform(TransformKind.TRUNCATE, width=1), [pa.float64()]),
        (Transform(TransformKind.TRUNCATE, width=1), [pa.binary()]),
    ],
    ids=str,
)
def test_types_that_a_transform_does_not_take(transform, sources):
    with pytest.raises(InvalidInputError, match="does not accept"):
        transform.result_type(sources)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (TransformKind.BUCKET, {}),
        (TransformKind.BUCKET, {"num_buckets": 0}),
        (TransformKind.BUCKET, {"num_buckets": 2**31}),
        (TransformKind.BUCKET, {"num_buckets": True}),
        (TransformKind.BUCKET, {"num_buckets": 4, "width": 4}),
        (TransformKind.MULTI_BUCKET, {"num_buckets": -1}),
        (TransformKind.TRUNCATE, {"width": 0}),
        (TransformKind.TRUNCATE, {"width": 1.5}),
        (TransformKind.IDENTITY, {"width": 1}),
        (TransformKind.YEAR, {"num_buckets": 1}),
    ],
    ids=str,
)
def test_parameters_that_cannot_be(kind, parameters):
    with pytest.raises(InvalidInputError, match=kind.value):
        Transform(kind, **parameters)
