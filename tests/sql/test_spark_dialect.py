"""Texts as Spark reads them: escapes, quotes, comments, names that begin with a digit."""

from __future__ import annotations

import pytest

from lance_df.errors import InvalidInputError
from lance_df.sql.spark_dialect import first_word, mentioned, quoted_names, tokenize_spark

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
    ("text", "word"),
    [
        ("/* a /* b */ c */ create TEMP VIEW v AS SELECT 1", "CREATE"),
        ("-- it's\n CACHE TABLE t", "CACHE"),
        ("", ""),
        ("-- nothing", ""),
        ("'unfinished", ""),
    ],
)
def test_the_first_word_is_behind_comments(text, word):
    assert first_word(text) == word


def test_what_is_no_text_is_refused():
    with pytest.raises(InvalidInputError, match="SQL is text, not NoneType"):
        tokenize_spark(None)
