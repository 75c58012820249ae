"""Spark's SQL for sqlglot, to locate parts of a text as `lance_df.sql.dialect` does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.sql.dialect import QUOTED, tokens_of
from lance_df.sql.splice import Edit, splice
from lance_df.sql.time_travel import Names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_WORD: Final = re.compile(r"\w+")
_PLAIN_NAME: Final = re.compile(r"(?!\d+$)\w+")


class _SparkTokens(Spark):
    """Spark's tokens: backslash escapes in strings, names that may begin with a digit, and back-ticks."""

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar = set()  # also tokenizes what follows EXECUTE or SHOW


class _AnsiTokens(_SparkTokens):
    """Tokens with double-quoted names, as with ``spark.sql.ansi.doubleQuotedIdentifiers``."""

    class Tokenizer(_SparkTokens.Tokenizer):
        QUOTES: ClassVar = ["'"]
        IDENTIFIERS: ClassVar = ["`", '"']


def tokenize_spark(text: str) -> list[Token]:
    """Return the tokens of a text as Spark reads it; see `lance_df.sql.dialect.tokenize`."""
    return tokens_of(text, _SparkTokens())


def mentioned(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that may occur in a statement, even in strings, which EXECUTE IMMEDIATE runs."""
    text = text.lower()
    words = set(_WORD.findall(text))
    return [
        name
        for name in names
        if name.lower() in words
        or (_WORD.fullmatch(name) is None and name.lower().replace("`", "``") in text)
    ]


def quoted_names(text: str) -> Iterator[str]:
    """Yield the quoted names in a statement."""
    try:
        tokens = tokenize_spark(text)
    except TokenError:
        return
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER:
            yield token.text


def first_words(text: str) -> list[str]:
    """Return the first two words of a statement in upper case, without the comments before them."""
    try:
        tokens = tokenize_spark(text)
    except TokenError:
        return []
    return " ".join(token.text.upper() for token in tokens[:2]).split()[:2]


def with_backquotes(text: str) -> str:
    """Return a statement with back-ticks in place of double quotes around names.

    >>> with_backquotes('SELECT "a`b" FROM t')
    'SELECT `a``b` FROM t'
    """
    try:
        tokens = tokens_of(text, _AnsiTokens())
    except TokenError:
        return text
    names = [each for each in tokens if each.token_type is TokenType.IDENTIFIER and text[each.start] == '"']
    return splice(text, [Edit(each.start, each.end + 1, _quoted(each.text)) for each in names])


def with_quoted_suffixes(text: str, suffixes: Collection[str]) -> str:
    """Return a statement with back-ticks around names with a ``$`` and one of these suffixes.

    Spark does not accept a ``$`` in a name without quotes.

    >>> with_quoted_suffixes("SELECT 'a$files' FROM a$files", ["files"])
    "SELECT 'a$files' FROM `a$files`"
    """
    if "$" not in text:
        return text
    try:
        tokens = tokenize_spark(text)
    except TokenError:
        return text
    edits, after = [], -1
    for name, dollar, suffix in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_one_word = dollar.start == name.end + 1 and suffix.start == dollar.end + 1
        if is_one_word and text[dollar.start] == "$" and is_plain(name) and name.start > after:
            after = suffix.end + 1
            if suffix.text.lower() in suffixes and text[after : after + 1] != "$":
                edits.append(Edit(name.start, after, _quoted(text[name.start : after])))
    return splice(text, edits)


def is_plain(token: Token) -> bool:
    """Whether a token may be an unquoted name, which may begin with a digit."""
    return token.token_type not in QUOTED and _PLAIN_NAME.fullmatch(token.text) is not None


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


SPARK_NAMES: Final = Names(tokenize_spark, is_plain, str, _quoted, str.lower)
"""The names of Spark's dialect."""
