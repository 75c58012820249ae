"""The shell splits its input into statements."""

import pytest

from lance_df.cli.shell.statements import is_blank, is_finished, split_statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ;; -- nothing;\n /* ; */ ;", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', 'it''s;'; x", ["SELECT ';', 'it''s;'", "x"]),
        ('SELECT ";""" ; x', ['SELECT ";"""', "x"]),
        ("SELECT 1 -- a;b\n+ 2; x", ["SELECT 1 -- a;b\n+ 2", "x"]),
        ("SELECT /* ; ' */ 1; x", ["SELECT /* ; ' */ 1", "x"]),
        ("SELECT 'open; x", ["SELECT 'open; x"]),
        ("SELECT $$a;b$$; SELECT $t$;$$;$t$; x", ["SELECT $$a;b$$", "SELECT $t$;$$;$t$", "x"]),
        ("SELECT $1; SELECT a$b$, $2; x", ["SELECT $1", "SELECT a$b$, $2", "x"]),
        (r"SELECT E'a\';b', e''; x", [r"SELECT E'a\';b', e''", "x"]),
        ("SELECT `a;'`; x", ["SELECT `a;'`", "x"]),
        ("/* ; /* ; */ ; */ SELECT 1; x /* ; /* */ ;", ["/* ; /* ; */ ; */ SELECT 1", "x /* ; /* */ ;"]),
    ],
)
def test_split(text, statements):
    assert split_statements(text) == statements


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT ';", False),
        ("SELECT 1; SELECT", False),
        ("-- ;", False),
    ],
)
def test_finished(text, finished):
    assert is_finished(text) is finished


def test_blank():
    assert is_blank(" -- x\n/* y */ \n")
    assert is_blank("/* /* */ x */")
    assert not is_blank("'--'")
