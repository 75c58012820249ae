"""DataFusion's SQL for sqlglot, which has no such dialect. The nearest one is Postgres.

The dialect is used to locate parts of a text. Whole statements are never generated from a tree, because
sqlglot would convert ``try_cast`` to ``cast`` and rename output columns.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError

# as in DataFusion: text between two dollars is a name, or nothing
_DOLLAR_QUOTE: Final = re.compile(r"\$(?:[^\W\d]\w*)?\$")
STRINGS: Final = frozenset(
    [
        *(TokenType.STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING),
        *(TokenType.HEX_STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING),
    ]
)
"""Strings of all forms: ``'…'``, ``E'…'``, ``$$…$$`` and so on."""

QUOTED: Final = STRINGS | {TokenType.IDENTIFIER}
"""Tokens in quotes, which contain no SQL keywords."""


class DataFusion(Postgres):
    """Postgres with back-ticks as quotes like double quotes, and with ``try_cast`` and ``isnan``."""

    class Tokenizer(Postgres.Tokenizer):
        IDENTIFIERS: ClassVar = ['"', "`"]
        COMMANDS: ClassVar = set()  # also tokenizes what follows EXPLAIN or PREPARE

    class Generator(Postgres.Generator):  # type: ignore[misc, valid-type]
        TRY_SUPPORTED = True
        TRANSFORMS: ClassVar = {
            **Postgres.Generator.TRANSFORMS,
            exp.IsNan: lambda self, node: self.func("isnan", node.this),
            exp.TryCast: lambda self, node: self.trycast_sql(node),
        }


class _WithoutDollarQuotes(DataFusion):
    """For texts whose dollars start placeholders: of ``$a,$b``, sqlglot would read ``a,`` as quoted."""

    class Tokenizer(DataFusion.Tokenizer):
        HEREDOC_STRINGS: ClassVar = []
        SINGLE_TOKENS: ClassVar = {**Postgres.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}


def tokenize(text: str) -> list[Token]:
    """Return the tokens of ``text`` with their positions (``end`` is the last character).

    Raises
    ------
    InvalidInputError
        ``text`` is not a string.
    sqlglot.errors.TokenError
        A string or a comment is not terminated.
    """
    _check_text(text)
    return (DataFusion() if _DOLLAR_QUOTE.search(text) else _WithoutDollarQuotes()).tokenize(text)


def tokens_of(text: str, dialect: Dialect) -> list[Token]:
    """Return the tokens of ``text`` in another dialect; see `tokenize`."""
    _check_text(text)
    return dialect.tokenize(text)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"SQL must be a string, got {type(text).__name__}")
