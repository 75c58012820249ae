"""What is read from statements and expressions, and how they are changed: by position, nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.errors import TokenError

from lance_df.errors import InvalidInputError
from lance_df.sql.calls import find_calls
from lance_df.sql.dialect import DataFusion, tokenize
from lance_df.sql.expressions import to_datafusion
from lance_df.sql.splice import Edit, quote_identifier, quote_string, splice
from lance_df.sql.statements import (
    CreateExternalTable,
    CreateView,
    parse_create_external_table,
    parse_create_table_as,
    parse_create_view,
    parse_name,
    parse_preparation,
)


def found(text, *functions):
    return [
        (call.function, [text[a.start : a.stop] for a in call.arguments])
        for call in find_calls(text, functions)
    ]


def test_calls():
    text = (
        "SELECT F (a, g('x,)', [1, 2]), (b)) -- f(comment)\n, 'f(no)', \"f\"(q), h(f())"
        " FROM f WHERE /* f(1) */ F(x"
    )
    assert found(text, "f") == [("f", ["a", "g('x,)', [1, 2])", "(b)"]), ("f", [])]
    nested = "f(f(a), b)"
    assert found(nested, "f") == [("f", ["f(a)", "b"]), ("f", ["a"])]
    assert found("EXPLAIN SELECT f(a)", "f") == [("f", ["a"])]
    (call,) = find_calls("x + f( a )", {"f"})
    assert (call.name.start, call.whole.stop) == (4, 10)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None, database=None)
def test_calls_of_any_text(text):
    try:
        calls = find_calls(text, {"f"})
    except TokenError:
        return
    assert all(text[call.name.start : call.name.stop].lower() == "f" for call in calls)


def test_splice():
    assert splice("abcdef", [Edit(3, 3, "|"), Edit(0, 1, "X"), Edit(3, 5, "")]) == "Xbc|f"
    assert splice("a", []) == "a"


@given(st.text(max_size=20).filter(lambda text: "\0" not in text))
@settings(max_examples=100, deadline=None, database=None)
def test_quoting_survives_tokenizing(text):
    (string,) = tokenize(quote_string(text))
    assert string.text == text
    if text:
        (name,) = tokenize(quote_identifier(text))
        assert name.text == text


def test_dialect():
    import sqlglot

    tree = sqlglot.parse_one("SELECT try_cast(a AS INT), isnan(`A b`)", read=DataFusion)
    assert (
        tree.sql(dialect=DataFusion, normalize_functions=False) == 'SELECT TRY_CAST(a AS INT), isnan("A b")'
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [("Trips", ("trips",)), ('"Trips"', ("Trips",)), ('A."b.C".d', ("a", "b.C", "d")), ("`X y`", ("X y",))],
)
def test_names(text, parts):
    assert parse_name(text) == parts


@pytest.mark.parametrize("text", ["", "a.", ".a", "a.b.c.d", "a b", "1a", "'a'", '"a', "a-b", "a;b"])
def test_bad_names(text):
    with pytest.raises(InvalidInputError):
        parse_name(text)


def test_external_tables():
    text = """-- mine
        create or replace EXTERNAL table if not exists lake."T" stored as Lance location '/a b/it''s'
        options ('version' '3', format.region 'eu', aws.key 'k');"""
    assert parse_create_external_table(text) == CreateExternalTable(
        ("lake", "T"), "/a b/it's", (("version", "3"), ("format.region", "eu"), ("aws.key", "k")), True, True
    )
    assert parse_create_external_table("CREATE EXTERNAL TABLE t STORED AS LANCE LOCATION 's3://b/t'") == (
        CreateExternalTable(("t",), "s3://b/t")
    )
    for other in (
        "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'x'",
        "CREATE TABLE t AS SELECT 'EXTERNAL TABLE STORED AS LANCE'",
        "SELECT 1",
        "CREATE 'unfinished",
        "",
    ):
        assert parse_create_external_table(other) is None


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("", "LOCATION"),
        (" LOCATION", "string"),
        (" LOCATION x", "string"),
        (" LOCATION 'x' OPTIONS", r"\("),
        (" LOCATION 'x' OPTIONS ('a')", "value"),
        (" LOCATION 'x' OPTIONS ('a' 'b'", r"\)"),
        (" LOCATION 'x' OPTIONS ('a' 'b' 'c' 'd')", r"\)"),
        (" LOCATION 'x' PARTITIONED BY (a)", "end of the statement"),
    ],
)
def test_malformed_external_tables(rest, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_create_external_table("CREATE EXTERNAL TABLE t STORED AS LANCE" + rest)


def test_views():
    assert parse_create_view("CREATE OR REPLACE VIEW a.V AS SELECT 1 -- x") == CreateView(
        ("a", "v"), "SELECT 1 -- x"
    )
    for other in (
        "CREATE VIEW v (a) AS SELECT 1",
        "CREATE VIEW IF NOT EXISTS v AS SELECT 1",
        "SELECT 'CREATE VIEW'",
    ):
        assert parse_create_view(other) is None


COLUMNS = ["fare", "Trip id", "st", "B", "b2", "B2", "date", "a.b", "select"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("FARE > 10", '"fare" > 10'),
        ('`Trip id` = "x"', "\"Trip id\" = 'x'"),
        ("b = 'B'", "\"B\" = 'B'"),
        ("`b` = 1", '"b" = 1'),
        ("B2 = b2", '"B2" = "b2"'),
        ("st.x.Y is null", "\"st\"['x']['Y'] is null"),
        ("`st`.`a b` = 1", "\"st\"['a b'] = 1"),
        ("st['x'] = 1", "\"st\"['x'] = 1"),
        ("date = date '2020-01-01'", "\"date\" = date '2020-01-01'"),
        ("cast(fare as date) > 1 and fare::date > 1", 'cast("fare" as date) > 1 and "fare"::date > 1'),
        ("date(fare) in (1, 2)", 'date("fare") in (1, 2)'),
        ("`a.b` = 1 -- B", '"a.b" = 1 -- B'),
        ("select = 7", '"select" = 7'),
        ("unknown = 1", "unknown = 1"),
        ("'fare' = '`B`'", "'fare' = '`B`'"),
        ("fare is not null and not B", '"fare" is not null and not "B"'),
    ],
)
def test_expressions(expression, expected):
    assert to_datafusion(expression, COLUMNS) == expected


def test_reserved_words_as_columns():
    assert to_datafusion("a IN (1) AND NOT `in`", ["in", "and", "a"]) == '"a" IN (1) AND NOT "in"'


def test_units_of_time_are_no_columns():
    text = "day > INTERVAL '1' DAY AND INTERVAL 2 month < a AND EXTRACT(day FROM a) = month"
    expected = '"day" > INTERVAL \'1\' DAY AND INTERVAL 2 month < "a" AND EXTRACT(day FROM "a") = "month"'
    assert to_datafusion(text, ["a", "day", "month"]) == expected


@pytest.mark.parametrize(
    "expression",
    ["", "  ", "-- only", "a = 1; drop", "a = 1)", "(a = 1", "a) or (b", "a[1)", "'open", '"open', "`open"],
)
def test_malformed_expressions(expression):
    with pytest.raises(InvalidInputError):
        to_datafusion(expression, ["a", "b"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PREPARE p(INT) AS SELECT $1", ("PREPARE", "p", "PREPARE ", "(INT) AS SELECT $1")),
        ('/* a */ execute "P 1" (2)', ("EXECUTE", "P 1", "/* a */ execute ", " (2)")),
        ("DEALLOCATE PREPARE P", ("DEALLOCATE", "p", "DEALLOCATE PREPARE ", "")),
        ("deallocate p;", ("DEALLOCATE", "p", "deallocate ", ";")),
        ("PREPARE", None),
        ("PREPARE a.b AS SELECT 1", None),
        ("SELECT 'PREPARE p'", None),
        ("EXECUTE 'p'", None),
    ],
)
def test_prepared_statements_are_told_by_their_first_words(text, expected):
    found = parse_preparation(text)
    assert (found and (found.verb, found.name, found.before, found.after)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE a.b AS SELECT 1", "SELECT 1"),
        ('create or replace table "T" as (SELECT 1)', "(SELECT 1)"),
        ("CREATE TABLE IF NOT EXISTS t AS TABLE u", "TABLE u"),
        ("CREATE TABLE t (a INT) AS SELECT 1", None),
        ("CREATE TABLE t (a INT)", None),
        ("CREATE TABLE 'x", None),
        ("CREATE TABLE 1 AS SELECT 1", None),
        ("CREATE VIEW v AS SELECT 1", None),
    ],
)
def test_the_query_that_a_table_is_created_of(text, expected):
    assert parse_create_table_as(text) == expected
