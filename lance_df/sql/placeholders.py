"""Placeholders in a statement, such as ``$1`` and ``$name``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.sql.dialect import tokenize
from lance_df.sql.splice import Edit, splice

_NAME: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder at ``text[start:stop]``, with its name without the dollar."""

    name: str
    start: int
    stop: int


def placeholders(text: str) -> Iterator[Placeholder]:
    """Yield the placeholders in a text. Those in strings and comments are none.

    Raises
    ------
    sqlglot.errors.TokenError
        A string or a comment is not terminated.
    """
    for token in tokenize(text):
        if token.token_type is TokenType.PARAMETER and (name := _NAME.match(text, token.end + 1)):
            yield Placeholder(name[0], token.start, name.end())


def with_untyped_placeholders(text: str) -> str:
    """Return a text whose placeholders get their types from their values instead of from their context.

    DataFusion assumes that the value of a placeholder has the type of the column that it is inserted into,
    and does not cast it.

    >>> with_untyped_placeholders("VALUES ($1, '$2')")
    "VALUES (coalesce($1), '$2')"
    """
    return splice(
        text, [Edit(each.start, each.stop, f"coalesce(${each.name})") for each in placeholders(text)]
    )


def with_texts(text: str, texts: Mapping[str, str]) -> str:
    """Return a text in which placeholders are replaced by texts, by name.

    A text neither joins the text around it nor makes it a comment.

    Raises
    ------
    InvalidInputError
        A string or a comment in a text is not terminated.

    >>> with_texts("SELECT 1 -$c FROM t WHERE a > $1", {"c": "-1"})
    'SELECT 1 - -1  FROM t WHERE a > $1'
    """
    try:
        known = [each for each in placeholders(text) if each.name in texts]
    except TokenError:
        return text  # DataFusion reports the error
    return splice(
        text, [Edit(each.start, each.stop, f" {_tokens_of(texts[each.name], each.name)} ") for each in known]
    )


def _tokens_of(text: str, name: str) -> str:
    """Return a text from its first to its last token, without comments before and after them."""
    try:
        tokens = tokenize(text)
    except TokenError as err:
        raise InvalidInputError(
            f"parameter {name!r}: a string or a comment in {text!r:.100} is not terminated"
        ) from err
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""
