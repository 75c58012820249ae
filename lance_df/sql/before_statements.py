"""Parse what may precede a statement: semicolons, EXPLAIN and PREPARE."""

from __future__ import annotations

from lance_df.sql.token_reader import TokenReader


def take_semicolons(reader: TokenReader) -> None:
    """Take the semicolons of empty statements."""
    while reader.take(";"):
        pass


def take_explain(reader: TokenReader) -> bool:
    """Take ``EXPLAIN`` with options such as ``ANALYZE VERBOSE FORMAT tree``, possibly several times.

    Raises
    ------
    InvalidInputError
        Options in parentheses are not closed.
    """
    is_explained = False
    while reader.take("EXPLAIN"):
        is_explained = True
        if reader.at("(", "ANALYZE") or reader.at("(", "VERBOSE") or reader.at("(", "FORMAT"):
            reader.bracketed()
        while reader.take("ANALYZE") or reader.take("VERBOSE") or reader.at("FORMAT"):
            if reader.take("FORMAT"):
                reader.skip()
    return is_explained


def take_prepare(reader: TokenReader) -> bool:
    """Take ``PREPARE name (types) AS``.

    Raises
    ------
    InvalidInputError
        The clause is malformed.
    """
    if not reader.take("PREPARE"):
        return False
    reader.identifier()
    if reader.at("("):
        reader.bracketed()
    reader.need("AS")
    return True
