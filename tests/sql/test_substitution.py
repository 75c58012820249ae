"""SQL takes the place of the columns of a partition expression, and of nothing else in it."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError
from lance_df.sql.literals import literal_sql
from lance_df.sql.substitution import substituted

pytestmark = pytest.mark.engine


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("col0 || 'col1' || COL1 || left(col0, 2) /* col2 */", "A || 'col1' || B || left(A, 2) /* col2 */"),
        ('"col0" || "COL0" || `col1`', 'A || "COL0" || B'),
        ("col1(col0) + col0", "col1(A) + A"),
        ("col00 + col01 + col2_ + xcol0", "col00 + col01 + col2_ + xcol0"),
        ("e'a\\'col0' || $$col1$$ || col0 -- col1", "e'a\\'col0' || $$col1$$ || A -- col1"),
        ("x.col0 || col0.y || named_struct('col0', col0)['col0']", None),
        ("CASE col0 WHEN 1 THEN col1 ELSE 'col1' END", "CASE A WHEN 1 THEN B ELSE 'col1' END"),
        ("CAST(col0 AS VARCHAR)::col1", "CAST(A AS VARCHAR)::col1"),
        (
            "EXTRACT(year FROM col0) + date_part('month', col0)",
            "EXTRACT(year FROM A) + date_part('month', A)",
        ),
        ("substring(col0 FROM 1 FOR 2)", "substring(A FROM 1 FOR 2)"),
        ("'\U0001f600' || col0 || 'é' || col1", "'\U0001f600' || A || 'é' || B"),
        ("try_cast(col0 AS INT) % 7", "try_cast(A AS INT) % 7"),
        ("1", "1"),
    ],
)
def test_columns_are_replaced_where_they_stand(expression, expected):
    if expected is None:
        expected = "x.col0 || A.y || named_struct('col0', A)['col0']"
    assert substituted(expression, ["A", "B"]) == expected


def test_what_cannot_be_substituted():
    with pytest.raises(InvalidInputError, match="no value for col1"):
        substituted("col0 + col1", ["1"])
    for malformed in ("col0 || 'x", "(col0", "col0)", "/* col0"):
        with pytest.raises(InvalidInputError, match="malformed"):
            substituted(malformed, ["1"])


EXPRESSIONS = [
    ("-col0 - col0", [pa.int64()]),
    ("col0 * 10 % 7", [pa.int8()]),
    ("upper(left(col0, 1)) || coalesce(col0, 'none')", [pa.string()]),
    ("strpos(col0, 'a') + character_length(col0)", [pa.string()]),
    ("regexp_replace(col0, '^(.)', 'col0')", [pa.string()]),
    ("date_trunc('month', col0)", [pa.timestamp("us")]),
    ("date_part('dow', col0)", [pa.date32()]),
    ("to_char(col0, '%Y-%m')", [pa.date32()]),
    ("CASE WHEN col0 > col1 THEN 'above' WHEN col1 IS NULL THEN 'none' END", [pa.int32(), pa.float64()]),
    ("col0::bigint / 3", [pa.decimal128(9, 2)]),
    ("encode(col0, 'hex')", [pa.binary()]),
    ("NOT col0 OR col0 IS NULL", [pa.bool_()]),
    ("arrow_cast(col0, 'Float32') + 0.5", [pa.float32()]),
    ('"col0" BETWEEN -5 AND col1', [pa.int16(), pa.uint64()]),
]
VALUES = {
    pa.int8(): [-128, -1, 0, 12, None],
    pa.int16(): [-(2**15), -5, 0, None],
    pa.int32(): [-7, 0, 2**31 - 1, None],
    pa.int64(): [-(2**62), -5, 0, 7, None],
    pa.uint64(): [0, 2**64 - 1, None],
    pa.float32(): [-1.5, 0.1, -0.0, None],
    pa.float64(): [-0.0, 0.1, -7.0, float("inf"), None],
    pa.string(): ["", "it's", "a -- b /* c", "ünï \U0001f600", "\\", None],
    pa.binary(): [b"", b"\x00'", None],
    pa.bool_(): [True, False, None],
    pa.date32(): [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None],
    pa.timestamp("us"): [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2261, 1, 1), None],
    pa.decimal128(9, 2): [Decimal("-10.75"), Decimal("0.01"), None],
}


@pytest.mark.parametrize(("expression", "types"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_literals_give_what_columns_give(expression, types):
    count = max(len(VALUES[data_type]) for data_type in types)
    columns = [
        pa.array([VALUES[each][row % len(VALUES[each])] for row in range(count)], each) for each in types
    ]
    expected = evaluator().evaluate(expression, columns)
    texts = [
        substituted(expression, [literal_sql(column[row], typed=True) for column in columns])
        for row in range(count)
    ]
    found = evaluator().constants(texts)
    assert found.cast(expected.type).equals(expected), texts
