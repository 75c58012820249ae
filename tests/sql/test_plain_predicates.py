"""Filters that need no engine: what they select is what DataFusion selects; everything else is left to it."""

from __future__ import annotations

import datetime as dt
import itertools
import random

import pyarrow as pa
import pytest

from lance_df.errors import InvalidInputError
from lance_df.expr.evaluate import evaluate
from lance_df.sql.plain_predicates import plain_predicate

NAN = float("nan")
TABLE = pa.table(
    {
        "i8": pa.array([None, -128, -1, 0, 1, 7, 127], pa.int8()),
        "i64": pa.array([-(2**63), None, -5, 0, 5, 2**53 + 1, 2**63 - 1], pa.int64()),
        "u64": pa.array([0, 1, 5, None, 2**53 + 1, 2**63, 2**64 - 1], pa.uint64()),
        "f": pa.array([NAN, -NAN, None, -0.0, 0.0, 1.5, float("inf")], pa.float64()),
        "text": pa.array(["", "a", "b", None, "a'b", "ä", "A"], pa.string()),
        "Long text": pa.array(["", "a", "b", None, "a'b", "ä", "A"], pa.large_string()),
        "day": pa.array(
            [
                None,
                *(dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1)),
                *[dt.date(2020, 2, 29)] * 3,
            ],
            pa.date32(),
        ),
        "yes": pa.array([True, False, None, True, False, None, True]),
        "list": pa.array([[1], None, [], [2], [3], None, [4]], pa.list_(pa.int8())),
    }
)
PLAIN = (
    *("i8 > 0", "I8 <= -1", "0 = i8", "i8 <> 7", "i8 != 7", "5 < i8", "i8 >= -128", "-1 <= i8"),
    *("i64 = 5", "i64 > -9223372036854775", "i64 between -5 and 5", "i64 not between 0 and 9", "u64 >= 5"),
    *("i64 in (5, 0, -5)", "i64 not in (1, 5)", "u64 in (1)", "f > 0", "f = -0.0", "f <= 1.5e0", "f <> 0"),
    *("f between -.5 and 1.", "f < 9007199254740992", "text = 'a''b'", 'text >= "a"', "text in ('', 'ä')"),
    *("`Long text` < 'b'", "text between 'A' and 'a'", "day = '2020-02-29'", "day < date '1970-01-01'"),
    *("day >= cast('1970-01-01' as date)", "day > '0001-01-01'::date", "yes", "not yes", "yes is null"),
    *("list is null", "list is not null", "i64 is not null", "not f is null", "(yes)", "true", "not (false)"),
)
LEFT_TO_THE_ENGINE = (
    *("i8 > 128", "i8 = 1.5", "u64 > -1", "i64 > 9223372036854775807", "f > 9007199254740993", "f in (0.0)"),
    *("text = 5", "i64 = '5'", "day = '2020-02-30'", "day = '2020-2-9'", "text like 'a%'", "i64 + 1 = 6"),
    *(
        "i64 = u64",
        "abs(i64) = 5",
        "i64 = null",
        "i64 in (1, null)",
        "yes is true",
        "yes = true",
        "yes is not true",
    ),
    *("list = 1", "nothing = 1", "i64", "5", "5 = 5", "i64 is distinct from 5", "text || 'b' = 'ab'", "null"),
    *(
        "i64 in (select 5)",
        "i64 = any(array[5])",
        "case when yes then false end",
        "text ilike 'A'",
        "e'a' = text",
    ),
    *("day < date '9999-12-31' + interval '1 day'", "day < date '2020-01-01' + interval '1.5' month"),
    *("day < date '2020-01-01' + interval '1 hour'", "day < date '2020-01-01' + interval '1 year 2 days'"),
    *("day < date '2020-01-01' + 1", "day < '2020-01-01' + interval '1 day'", "i64 < 3 + interval '1 day'"),
    *("day + interval '1 day' = date '2020-01-01'", "day < interval '1 day' + date '2020-01-01'"),
    *("day < now()", "i64 = (5)", "try_cast('1970-01-01' as date) = day", "text collate \"C\" = 'a'"),
)


# With the newest DataFusion only: older ones tell -0.0 from 0.0, predicates do not.
def by_engine(expression: str) -> list[bool | None]:
    from lance_df.engine.query import compute_columns

    return compute_columns(TABLE, {"kept": expression}).column("kept").to_pylist()


def by_predicate(expression: str) -> list[bool | None]:
    predicate = plain_predicate(expression, TABLE.schema)
    assert predicate is not None, expression
    columns = {(name,): TABLE.column(name) for name in TABLE.schema.names}
    return evaluate(predicate, columns, TABLE.num_rows).to_pylist()


def test_plain_filters_mean_what_datafusion_takes_them_for():
    differing = {text for text in PLAIN if by_predicate(text) != by_engine(text)}
    assert not differing


def test_days_that_intervals_reach_are_those_of_datafusion():
    rng = random.Random(7)
    first = dt.date(1890, 1, 1)
    tests = []
    for number in range(60):
        # ends of months more often than not
        day = first + dt.timedelta(days=rng.randrange(80_000))
        day = day.replace(day=1) - dt.timedelta(days=1) if number % 3 else day
        forms = ("'{}' MONTH", "'{}' year", "'{}' Days", "'{} day'", "'{} MONTHS'")
        interval = rng.choice(forms).format(rng.randrange(-40, 41))
        tests.append(f"day <= DATE '{day}' {rng.choice('+-')} INTERVAL {interval}")
    tests += [f"{test} - INTERVAL '1' YEAR + INTERVAL '1 DAY'" for test in tests[:9]]
    tests += [f"date '2020-02-29' + interval '{count}' year = day" for count in (-4, -1, 0, 1)]
    differing = {text for text in tests if by_predicate(text) != by_engine(text)}
    assert not differing


def test_precedence_is_that_of_datafusion():
    operators = ("{} and {} or {}", "{} or {} and {}", "not {} and {} or not {}", "not ({} or {}) and {}")
    parts = itertools.cycle(PLAIN)
    differing = set()
    for form in operators * 9:
        text = form.format(next(parts), next(parts), next(parts))
        if by_predicate(text) != by_engine(text):
            differing.add(text)
    assert not differing


@pytest.mark.parametrize("expression", LEFT_TO_THE_ENGINE)
def test_the_rest_is_left_to_the_engine(expression: str):
    assert plain_predicate(expression, TABLE.schema) is None
    assert plain_predicate(f"i8 = 1 and not ({expression})", TABLE.schema) is None


def test_long_and_deep_filters_are_left_to_the_engine():
    assert plain_predicate(f"i64 in ({', '.join(map(str, range(9999)))})", TABLE.schema) is None
    plain_predicate("(" * 3000 + "yes" + ")" * 3000, TABLE.schema)  # whichever: it ends


def test_a_name_that_columns_share_is_left_to_the_engine():
    twice = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    assert plain_predicate("a = 1", twice) is None


@pytest.mark.parametrize("expression", ["", "i64 = 1; drop", "(i64 = 1", "text = 'a"])
def test_what_is_no_expression_is_refused(expression: str):
    with pytest.raises(InvalidInputError):
        plain_predicate(expression, TABLE.schema)
