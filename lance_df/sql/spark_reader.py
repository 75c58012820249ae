"""Read Spark statements token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from lance_df.sql.dialect import QUOTED
from lance_df.sql.spark_dialect import is_plain
from lance_df.sql.splice import Edit, splice

if TYPE_CHECKING:
    from sqlglot.tokens import Token  # type: ignore[attr-defined]

_BEFORE_VALUE: Final = ("(", ",", "VALUES")
_BEHIND_VALUE: Final = (")", ",", ";", "")


class NotKnownError(Exception):
    """Stops parsing a statement that is left to Spark."""


class SparkReader:
    """Reads the tokens of a statement in order."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._next = 0

    def words(self, count: int = 1) -> list[str]:
        """Return the next words without consuming them."""
        return [_word(each) for each in self._tokens[self._next : self._next + count]]

    def takes(self, *words: str) -> bool:
        """Consume the given words if they are next, and return whether they were."""
        if " ".join(self.words(len(words))) == " ".join(words):
            self._next += len(words)
            return True
        joined = " ".join(words)
        if len(words) > 1 and self.words() == [joined]:  # several words may be one token
            self._next += 1
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.takes(*words):
            raise NotKnownError

    def identifier(self) -> str:
        if self._next >= len(self._tokens):
            raise NotKnownError
        token = self._tokens[self._next]
        if token.token_type is not TokenType.IDENTIFIER and not is_plain(token):
            raise NotKnownError
        self._next += 1
        return token.text

    def name(self) -> tuple[str, ...]:
        parts = [self.identifier()]
        while self.takes("."):
            parts.append(self.identifier())
        return tuple(parts)

    def string(self) -> str:
        if self._next >= len(self._tokens) or self._tokens[self._next].token_type is not TokenType.STRING:
            raise NotKnownError
        self._next += 1
        return self._tokens[self._next - 1].text

    def columns(self) -> tuple[str, ...]:
        """Read a parenthesized list of names before a query. If there is none, consume nothing."""
        start, names = self._next, []
        try:
            self.expect("(")
            names.append(self.identifier())
            while self.takes(","):
                names.append(self.identifier())
            self.expect(")")
        except NotKnownError:
            names = []
        if not names or self.is_at_end:
            self._next = start
            return ()
        return tuple(names)

    def items(self) -> tuple[str, ...]:
        """Read a parenthesized list, and return the texts between the commas."""
        self.expect("(")
        texts, depth, start = [], 0, self._next
        while self._next < len(self._tokens):
            word = _word(self._tokens[self._next])
            if depth == 0 and word in (",", ")"):
                if self._next > start:
                    first, last = self._tokens[start], self._tokens[self._next - 1]
                    texts.append(self.text[first.start : last.end + 1])
                start = self._next + 1
            if word == ")" and depth == 0:
                self._next += 1
                return tuple(texts)
            depth += (word == "(") - (word == ")")
            self._next += 1
        raise NotKnownError

    def skip_queries(self) -> None:
        """Skip the named queries that follow WITH."""
        self.takes("RECURSIVE")
        while True:
            self.identifier()
            while self.words()[:1] and self.words()[0] in ("(", "AS", "MAX"):
                if self.takes("MAX", "RECURSION", "LEVEL"):
                    self.skip()
                elif not self.takes("AS"):
                    self.items()  # the columns or the query
            if not self.takes(","):
                return

    def rest(self) -> str:
        if self._next >= len(self._tokens):
            raise NotKnownError
        return self.text[self._tokens[self._next].start :].rstrip().rstrip(";")

    def rows(self) -> str:
        """Return the remaining query. In ``VALUES``, DEFAULT becomes NULL, the only default of columns."""
        words = [*map(_word, self._tokens[self._next :]), ""]
        if words[0] != "VALUES":
            return self.rest()
        edits, depth, start = [], 0, self._tokens[self._next].start
        for position, word in enumerate(words):
            depth += (word == "(") - (word == ")")
            if word != "DEFAULT" or depth > 1 or words[position - 1] not in _BEFORE_VALUE:
                continue
            if words[position + 1] in _BEHIND_VALUE:
                token = self._tokens[self._next + position]
                edits.append(Edit(token.start - start, token.end + 1 - start, "NULL"))
        return splice(self.rest(), edits)

    def skip(self) -> None:
        """Skip the next token."""
        if self._next >= len(self._tokens):
            raise NotKnownError
        self._next += 1

    @property
    def is_at_end(self) -> bool:
        return self._next >= len(self._tokens) or self.words() == [";"]


def _word(token: Token) -> str:
    if token.token_type in QUOTED:
        return ""
    return " ".join(token.text.upper().split())
