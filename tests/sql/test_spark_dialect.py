"""Texts as Spark reads them: escapes, quotes, comments, names that begin with a digit."""

from __future__ import annotations

import pytest

from lance_df.errors import InvalidInputError
from lance_df.sql.spark_dialect import (
    first_words,
    mentioned,
    quoted_names,
    tokenize_spark,
    with_backquotes,
    with_quoted_suffixes,
)

NAMES = ["t", "my tab", "2024_sales", "it`s", "tt"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (r"SELECT * FROM t WHERE name = 'it\'s'", ["t"]),
        (r'SELECT "a\"b" FROM `my tab`', ["my tab"]),
        ("SELECT * FROM 2024_sales, T", ["t", "2024_sales"]),
        ("SELECT * FROM `it``s`", ["it`s"]),
        ("EXECUTE IMMEDIATE 'SELECT * FROM t'", ["t"]),
        ("SELECT * FROM IDENTIFIER('my tab')", ["my tab"]),
        ("SELECT 'unfinished FROM t", ["t"]),
        ("SELECT count(*) FROM `t$files`", ["t"]),
        ("SELECT att FROM at", []),
    ],
)
def test_names_that_a_statement_may_mean(text, names):
    assert mentioned(text, NAMES) == names


def test_names_in_quotes():
    assert list(quoted_names(r"SELECT '`a`', `b$files`, `c``d` FROM e -- `f`")) == ["b$files", "c`d"]
    assert list(quoted_names("SELECT 'unfinished `a`")) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/* a /* b */ c */ create TEMP VIEW v AS SELECT 1", ["CREATE", "TEMP"]),
        ("-- it's\n CACHE TABLE t", ["CACHE", "TABLE"]),
        ("TABLE", ["TABLE"]),
        ("", []),
        ("-- nothing", []),
        ("'unfinished", []),
    ],
)
def test_the_first_words_are_behind_comments(text, words):
    assert first_words(text) == words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            """SELECT "a", '"b"', `"c"` FROM "d$e" -- "f\"""",
            """SELECT `a`, '"b"', `"c"` FROM `d$e` -- "f\"""",
        ),
        (r"""SELECT 'it\'s "a"', "b`c" """, r"""SELECT 'it\'s "a"', `b``c` """),
        ('SELECT "unfinished', 'SELECT "unfinished'),
    ],
)
def test_names_in_double_quotes_are_put_in_backquotes(text, found):
    assert with_backquotes(text) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT ns$files.path, 'ns$files' FROM d.ns$files -- ns$files",
            "SELECT `ns$files`.path, 'ns$files' FROM d.`ns$files` -- ns$files",
        ),
        (
            "FROM `ns$files` /* ns$files */ JOIN 2024_é$Specs",
            "FROM `ns$files` /* ns$files */ JOIN `2024_é$Specs`",
        ),
        *[
            (text, text)
            for text in ("FROM ns$x", "FROM a $files", "FROM a$files$x", "FROM a$x$files", "FROM 1$files")
        ],
        *[(text, text) for text in ("FROM ${files}", "FROM `a`$files", '"ns$files', "FROM a$filesystem")],
    ],
)
def test_names_with_a_known_suffix_are_put_in_backquotes(text, expected):
    assert with_quoted_suffixes(text, ("files", "specs")) == expected


def test_what_is_no_text_is_refused():
    with pytest.raises(InvalidInputError, match="SQL must be a string, got NoneType"):
        tokenize_spark(None)
