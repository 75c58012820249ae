"""DataFusion's SQL for sqlglot, which ships no such dialect. The nearest one it has is Postgres.

It serves to find things in a text. A whole statement is never generated from its tree: sqlglot would turn
``try_cast`` into ``cast``, and rename output columns.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError

# as DataFusion reads them: what is between two dollars is a name, or nothing
_DOLLAR_QUOTE: Final = re.compile(r"\$(?:[^\W\d]\w*)?\$")
STRINGS: Final = frozenset(
    [
        *(TokenType.STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING),
        *(TokenType.HEX_STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING),
    ]
)
"""Strings of every form: ``'…'``, ``E'…'``, ``$$…$$`` and so on."""

QUOTED: Final = STRINGS | {TokenType.IDENTIFIER}
"""What is in quotes, of which no part is a word of SQL."""


class DataFusion(Postgres):
    """Back-ticks quote as double quotes do; ``try_cast`` and ``isnan`` exist."""

    class Tokenizer(Postgres.Tokenizer):
        IDENTIFIERS: ClassVar = ['"', "`"]
        COMMANDS: ClassVar = set()  # after EXPLAIN or PREPARE come tokens too, not one opaque string

    class Generator(Postgres.Generator):  # type: ignore[misc, valid-type]
        TRY_SUPPORTED = True
        TRANSFORMS: ClassVar = {
            **Postgres.Generator.TRANSFORMS,
            exp.IsNan: lambda self, node: self.func("isnan", node.this),
            exp.TryCast: lambda self, node: self.trycast_sql(node),
        }


class _WithoutDollarQuotes(DataFusion):
    """For texts in which each dollar begins a placeholder: of ``$a,$b`` sqlglot takes ``a,`` for a quote."""

    class Tokenizer(DataFusion.Tokenizer):
        HEREDOC_STRINGS: ClassVar = []
        SINGLE_TOKENS: ClassVar = {**Postgres.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}


def tokenize(text: str) -> list[Token]:
    """Return the tokens of ``text``, with their places in it (``end`` is the last character).

    Raises
    ------
    InvalidInputError
        ``text`` is no text.
    sqlglot.errors.TokenError
        A string or a comment does not end.
    """
    _check_text(text)
    return (DataFusion() if _DOLLAR_QUOTE.search(text) else _WithoutDollarQuotes()).tokenize(text)


def tokens_of(text: str, dialect: Dialect) -> list[Token]:
    """Return the tokens of ``text`` in another dialect; see `tokenize`."""
    _check_text(text)
    return dialect.tokenize(text)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"SQL is text, not {type(text).__name__}")
