"""Read the tokens of a statement in order, with the text that they represent."""

from __future__ import annotations

import itertools
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.sql.dialect import QUOTED, tokenize
from lance_df.sql.splice import QuotedName, StringName
from lance_df.sql.type_parts import WITH_PARTS, end_of_parts

_CLOSED_BY: Final = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
_CLOSES: Final = frozenset({")", "]", "}"})
_COMPARISONS: Final = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">="})
_QUANTIFIERS: Final = frozenset({"ANY", "SOME", "ALL"})
_QUERY_STARTS: Final = frozenset(("(", word) for word in ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "("))


def token_reader(text: str) -> TokenReader | None:
    """Return a reader of a statement; None if a string or a comment is not terminated."""
    try:
        return TokenReader(tokenize(text), text)
    except TokenError:
        return None  # DataFusion reports the error


class TokenReader:
    """Reads tokens in order."""

    def __init__(self, tokens: list[Token], text: str = "") -> None:
        self._tokens = tokens
        self._text = text
        self._next = 0

    def take(self, *words: str) -> bool:
        """Consume the given words if they come next, and return whether they did."""
        if not self.at(*words):
            return False
        self._next += len(words)
        return True

    def at(self, *words: str) -> bool:
        """Whether the given words come next."""
        ahead = self._tokens[self._next : self._next + len(words)]
        return tuple(map(plain_word, ahead)) == words

    def next_word(self) -> str | None:
        """Return the next word in upper case; None at the end, or if a quoted name or a string comes next."""
        token = self._peek()
        return None if token is None else plain_word(token)

    def skip(self) -> None:
        """Skip one token."""
        self._next += 1

    def is_at_end(self) -> bool:
        """Whether nothing but a semicolon follows."""
        return self._peek() is None or (self.at(";") and self._next == len(self._tokens) - 1)

    def is_at_end_after(self, count: int) -> bool:
        """Whether nothing but semicolons follows the next ``count`` tokens."""
        rest = self._tokens[self._next + count :]
        return all(plain_word(token) == ";" for token in rest)

    def is_at_name(self) -> bool:
        """Whether a name comes next, or a word that may be a name."""
        token = self._peek()
        return token is not None and (token.token_type is TokenType.IDENTIFIER or is_name_word(token))

    def is_at_string(self) -> bool:
        """Whether a string in single quotes comes next. DataFusion accepts it as a name."""
        token = self._peek()
        return token is not None and token.token_type is TokenType.STRING

    def compared_with_subquery(self) -> str | None:
        """Return ANY, SOME or ALL if one of them compares with a query anywhere in the statement."""
        words = [plain_word(token) for token in self._tokens]
        for operator, word, *following in zip(words, words[1:], words[2:], words[3:], strict=False):
            if operator in _COMPARISONS and word in _QUANTIFIERS and tuple(following) in _QUERY_STARTS:
                return word
        return None

    def identifier(self) -> str:
        """Take one part of a name."""
        return self._part()

    def text_until(self, *stops: tuple[str, ...]) -> str:
        """Read everything before one of the given word sequences outside of brackets, and return its text.

        ``CASE … END`` and the ``STRUCT<…>`` of a type count as brackets. The FROM of ``IS DISTINCT FROM``
        does not end the text, and the word after a dot is a name.

        Raises
        ------
        InvalidInputError
            The text is empty, or brackets are not balanced.
        """
        first = self._next
        opened: list[str] = []
        while (token := self._peek()) is not None:
            word = None if self._is_after(".") else plain_word(token)
            if not opened and word is not None and (word == ";" or any(self.at(*stop) for stop in stops)):
                is_comparison = word == "FROM" and self._next > first and self._is_after("DISTINCT")
                if not is_comparison:
                    break
            if not opened and word == "<" and (end := self._end_of_type_parts()) is not None:
                self._next = end
                continue
            self._nest(word, opened, token.text)
            self._next += 1
        if opened:
            raise InvalidInputError("a bracket or a CASE is not closed")
        if self._next == first:
            raise InvalidInputError(f"something is missing before {self._next_text()}")
        return self._text[self._tokens[first].start : self._tokens[self._next - 1].end + 1]

    def _nest(self, word: str | None, opened: list[str], text: str) -> None:
        """Record an opening bracket, or the end of the innermost bracket."""
        if word is not None and word in _CLOSED_BY:
            opened.append(_CLOSED_BY[word])
        elif opened and word == opened[-1]:
            opened.pop()
        elif word in _CLOSES:
            raise InvalidInputError(f"unexpected {text!r}, which closes no bracket or CASE")

    def _end_of_type_parts(self) -> int | None:
        """Return the index after the ``<…>`` of a type; None if the ``<`` is a comparison."""
        start = self._next - 1
        if start < 1 or not any(map(self._is_after, WITH_PARTS)):
            return None
        before = plain_word(self._tokens[start - 1])
        if not (before is None or before == "::" or before.isidentifier()):
            return None  # a type comes after a name, AS or ::
        end = end_of_parts([plain_word(token) for token in self._tokens[start:]], 1)
        return None if end is None else start + end

    def rest(self) -> str:
        """Return the text from the next token to the end."""
        return self._text[self._tokens[self._next].start :]

    def bracketed(self) -> str:
        """Read parentheses with their content, and return the text of the content."""
        self.need("(")
        text = self.text_until((")",))
        self.need(")")
        return text

    def _is_after(self, word: str) -> bool:
        return self._next > 0 and plain_word(self._tokens[self._next - 1]) == word

    def has(self, *words: str) -> bool:
        """Whether the given words occur in sequence anywhere after this position."""
        rest = [None if _is_quoted(token) else token.text.upper() for token in self._tokens[self._next :]]
        return any(tuple(rest[start : start + len(words)]) == words for start in range(len(rest)))

    def has_after_a_name(self, word: str) -> bool:
        """Whether a word occurs after this position that is not the first word of the text or of a list."""
        rest = self._tokens[self._next :]
        return any(
            plain_word(token) == word and before.text not in ("(", ",", "<")
            for before, token in itertools.pairwise(rest)
        )

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise InvalidInputError(f"expected {' '.join(words)}, found {self._next_text()}")

    def name(self, *, or_strings: bool = False) -> tuple[str, ...]:
        """Read a name of up to three parts. With ``or_strings``, a part may be a string, a `StringName`."""
        parts = [self._part(or_string=or_strings)]
        while len(parts) < 3 and self.take("."):
            parts.append(self._part(or_string=or_strings))
        return tuple(parts)

    def string(self) -> str:
        token = self._peek()
        if token is None or token.token_type is not TokenType.STRING:
            raise InvalidInputError(f"expected a string in single quotes, found {self._next_text()}")
        self._next += 1
        return str(token.text)

    def number(self) -> int | None:
        """Consume an integer if one comes next, and return it."""
        token = self._peek()
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            return None
        self._next += 1
        return int(token.text[:12])

    def options(self) -> tuple[tuple[str, str], ...]:
        """Read ``('key' 'value', key value, ...)``."""
        self.need("(")
        pairs: list[tuple[str, str]] = []
        while not pairs or self.take(","):
            key = self._word()
            while self.take("."):
                key += "." + self._word()
            pairs.append((key, self._word()))
        self.need(")")
        return tuple(pairs)

    def end(self) -> None:
        self.take(";")
        if self._peek() is not None:
            raise InvalidInputError(f"expected the end of the statement, found {self._next_text()}")

    def position(self) -> int:
        """Return the position of the next token in the text."""
        token = self._peek()
        return self._tokens[-1].end + 1 if token is None else token.start

    def last_end(self) -> int:
        """Return the position after the last token that was read."""
        return int(self._tokens[self._next - 1].end) + 1

    def _peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _next_text(self) -> str:
        token = self._peek()
        return "the end" if token is None else repr(token.text)

    def _part(self, *, or_string: bool = False) -> str:
        token = self._peek()
        if token is None or not (self.is_at_name() or (or_string and self.is_at_string())):
            raise InvalidInputError(f"expected a name, found {self._next_text()}")
        self._next += 1
        if token.token_type is TokenType.STRING:
            return StringName(token.text)
        return QuotedName(token.text) if _is_quoted(token) else lowered(token.text)

    def _word(self) -> str:
        token = self._peek()
        if token is None or token.text in ("(", ")", ","):
            raise InvalidInputError(f"expected a key or a value in OPTIONS, found {self._next_text()}")
        self._next += 1
        return str(token.text)


def is_name_word(token: Token) -> bool:
    """Whether a token is a word that may be an unquoted name. It may contain a dollar."""
    text = token.text
    return token.token_type not in QUOTED and text[:1] != "$" and text.replace("$", "_").isidentifier()


def lowered(name: str) -> str:
    """Return an unquoted name as DataFusion reads it: ASCII letters are lower-cased."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def plain_word(token: Token) -> str | None:
    """Return a word in upper case, with single spaces; None for what is in quotes."""
    return None if _is_quoted(token) else " ".join(token.text.upper().split())


def _is_quoted(token: Token) -> bool:
    return token.token_type in QUOTED
