"""What partition expressions may be made of."""

import pytest

from lance_df.errors import InvalidInputError
from lance_df.sql.row_expression import check_row_expression

FUNCTIONS = {"date_part", "left", "abs", "murmur3", "upper", "make_array", "version"}


@pytest.mark.parametrize(
    "expression",
    [
        "col0",
        "date_part('year', col0)",
        "LEFT(col0, 2)",
        "extract(year from col0)",
        "CASE WHEN (col0) IN (1, 2) THEN upper('select now()') ELSE NULL END",
        "CAST(col0 AS decimal(10, 2))",
        "CAST(col0 AS timestamp with time zone)",
        "abs(murmur3(col0)) % 16",
        "substring(col0 from 1 for 2)",
        "col0 = ANY(make_array(1, 2))",
        'col0 || "now"',
        "-(col0) /* random() */ -- now()",
    ],
)
def test_expressions_of_one_row(expression):
    check_row_expression(expression, FUNCTIONS)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("random()", "calls random"),
        ("Now ()", "reads now"),
        ("date_part('year', CURRENT_DATE)", "reads current_date"),
        ("col0 < current_timestamp", "reads current_timestamp"),
        ('"random"()', "calls random"),
        ("version()", "calls version"),
        ("sum(col0)", "calls sum"),
        ("(SELECT 1)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("abs(col0) OVER (PARTITION BY col0)", "window"),
        ("$1", "parameter"),
        ("col0 = ?", "parameter"),
        ("col0; SELECT 1", "another statement"),
        ("", "is empty"),
        ("-- nothing", "is empty"),
        ("'open", "malformed"),
        (5, "string"),
    ],
)
def test_expressions_that_are_refused(expression, problem):
    with pytest.raises(InvalidInputError, match=problem):
        check_row_expression(expression, FUNCTIONS)
