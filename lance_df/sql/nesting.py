"""Protect the process from deep statements: balance long chains if the meaning stays, refuse others.

A chain of operators becomes a tree in DataFusion that is as deep as the chain is long. DataFusion frees trees
of expressions and plans by recursion. Its parser limits the nesting of brackets, so this module only limits
chains. The limits fit a thread with a stack of 2 MiB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from sqlglot.tokens import Token  # type: ignore[attr-defined]

    from lance_df.sql.splice import Edit

MAX_DEPTH: Final = 250
"""The maximum number of operators in one chain, including the chains around it."""
MAX_TABLES: Final = 250
"""Joins (commas between tables and differences of sets among them) and common table expressions of one
statement, which may all be below each other."""
MAX_CONJUNCTS: Final = 1000
"""The maximum number of conditions joined by AND, in brackets or not; DataFusion rejoins them one by one."""
MAX_SETS: Final = 1000
"""The maximum number of unions; `MAX_TABLES` if ``EXCEPT`` or ``INTERSECT``, which are joins, occur."""

_GROUP: Final = 64
# for a catalog, a schema, a table and a column
_NAME_DOTS: Final = 3
_WORDS: Final = (
    "and|or|not|is|in|like|ilike|rlike|regexp|similar|escape|between|collate|at|div|xor|overlaps|isnull|notnull|"
    "union|except|intersect|join|case|as"
)
# each operator matches at least once, so the tokens of a text with few matches need no check
_MAY_NEST: Final = re.compile(rf"[^\w\s()'\"`,;]|\b(?:{_WORDS})\b", re.IGNORECASE)
# the text between FROM and the next clause, as far as a pattern can find it
_TABLES: Final = re.compile(
    r"\bfrom\b(.*?)(?=\b(?:where|group|having|order|limit|union|except|intersect)\b|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_SETS: Final = frozenset({"UNION", "EXCEPT", "INTERSECT"})
# these end a chain within FROM, but not the clause
_IN_FROM: Final = frozenset({",", "ON", "USING", "AS"})
_OPENS: Final = frozenset({"(", "[", "{", "CASE"})
_CLOSES: Final = frozenset({")", "]", "}", "END"})
# words that the operands of AND and OR may contain, besides names, literals and operators
_OPERAND_WORDS: Final = frozenset(
    [
        *("NOT", "IS", "NULL", "TRUE", "FALSE", "LIKE", "ILIKE", "BETWEEN", "IN", "UNKNOWN"),
        *("DATE", "TIME", "TIMESTAMP", "INTERVAL"),
    ]
)
_ENDS: Final = frozenset(
    [
        *(
            ",",
            ";",
            "=>",
            ":=",
            "AS",
            "SELECT",
            "FROM",
            "WHERE",
            "GROUP",
            "HAVING",
            "ORDER",
            "BY",
            "LIMIT",
            "OFFSET",
        ),
        *(
            "ON",
            "USING",
            "WHEN",
            "THEN",
            "ELSE",
            "WITH",
            "SET",
            "VALUES",
            "QUALIFY",
            "WINDOW",
            "OVER",
            "FILTER",
        ),
        *("GROUP BY", "ORDER BY", "PARTITION BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "RETURNING"),
    ]
)
_LITERALS: Final = frozenset({"STRING", "NUMBER", "IDENTIFIER", "VAR", "NATIONAL_STRING", "HEX_STRING"})


@dataclass(slots=True)
class _Operand:
    """A text between two of AND and OR, and its position.

    It can be put into parentheses if it has no unknown words, because these may belong to a clause.
    """

    start: int = -1
    stop: int = -1
    before: str = ""
    unknown_words: int = 0


@dataclass(slots=True)
class _Level:
    """The state of the text between two brackets, as far as it was read."""

    is_case: bool = False
    operators: int = 0
    deepest_inside: int = 0
    deepest_operand: int = 0
    depth: int = 0
    conjuncts: int = 0
    most_conjuncts: int = 0
    is_from: bool = False
    is_between: bool = False
    operands: list[_Operand] = field(default_factory=lambda: [_Operand()])


def bounded(text: str) -> str:
    """Return a statement or an expression that DataFusion can plan without a stack overflow.

    Long chains of AND and of OR get parentheses, which change neither their meaning nor the order in which
    conditions are evaluated.

    Raises
    ------
    InvalidInputError
        A chain of another kind is too long; the message says which.
    """
    if len(text) <= MAX_DEPTH or not _may_be_deep(text):
        return text
    from sqlglot.errors import TokenError

    from lance_df.sql.dialect import tokenize
    from lance_df.sql.splice import splice

    try:
        tokens = tokenize(text)
    except TokenError:  # DataFusion reports the error
        return text
    return splice(text, _Walk().run(tokens))


def _may_be_deep(text: str) -> bool:
    if len(_MAY_NEST.findall(text)) > MAX_DEPTH:
        return True
    commas = text.count(",")
    return commas > MAX_TABLES and any(clause[1].count(",") > MAX_TABLES for clause in _TABLES.finditer(text))


class _Walk:
    """One pass over the tokens of a text."""

    def __init__(self) -> None:
        self._levels = [_Level()]
        self._edits: list[Edit] = []
        self._num_tables = 0
        self._num_sets = 0
        self._has_differences = False
        self._previous = ""
        self._is_call = False
        self._dots = 0

    def run(self, tokens: list[Token]) -> list[Edit]:
        """Return the edits that insert parentheses."""
        from lance_df.sql.dialect import QUOTED

        for token in tokens:
            word = "" if token.token_type in QUOTED else token.text.upper()
            known = self._levels[-1].operands[-1].unknown_words
            self._step(token, word)
            self._is_call = self._levels[-1].operands[-1].unknown_words > known
            self._previous = word
        while self._levels:
            self._close()
        return self._edits

    def _step(self, token: Token, word: str) -> None:
        level = self._levels[-1]
        if word in _OPENS:
            self._extend(token)
            level.operators += 1
            if word == "(" and self._is_call:
                level.operands[-1].unknown_words -= 1
            if self._previous == "AS" and word == "(":
                self._count_table()
            self._levels.append(_Level(is_case=word == "CASE"))
        elif word in _CLOSES and (word != "END" or level.is_case):
            inside = self._close()
            if not self._levels:
                self._levels.append(_Level())
            level = self._levels[-1]
            level.deepest_inside = max(level.deepest_inside, inside.depth)
            level.conjuncts += 0 if inside.is_case else inside.most_conjuncts
            self._extend(token)
        elif word in _SETS:
            self._count_set(word)
            self._end_chain()
        elif word in _ENDS:
            self._end_clause(word)
            self._end_chain()
        elif word in ("AND", "OR") and not (word == "AND" and level.is_between):
            self._next_operand(word)
        else:
            self._part(token, word)

    def _part(self, token: Token, word: str) -> None:
        level = self._levels[-1]
        kind = token.token_type.name
        self._extend(token)
        if word == "JOIN":
            self._count_table()
        level.is_between = word == "BETWEEN" or (level.is_between and word != "AND")
        self._dots = self._dots + 1 if kind == "DOT" else self._dots * (self._previous == ".")
        if kind in _LITERALS or word in ("NULL", "TRUE", "FALSE") or 0 < self._dots <= _NAME_DOTS:
            return
        if self._previous == "::":
            return
        is_word = word.replace(" ", "").isalnum()
        if is_word and word not in _OPERAND_WORDS and word != "AND":
            # the name of a function, or a word of the clause
            level.operands[-1].unknown_words += 1
        level.operators += 1

    def _end_clause(self, word: str) -> None:
        level = self._levels[-1]
        if word == "FROM":
            level.is_from = self._previous != "DISTINCT"
        elif word not in _IN_FROM:
            level.is_from = False
        elif word == "," and level.is_from:
            self._count_table()

    def _count_set(self, word: str) -> None:
        self._levels[-1].is_from = False
        if self._previous == "*":  # columns that a projection excludes
            return
        self._num_sets += 1
        if word != "UNION":
            self._has_differences = True
            self._count_table()
        limit = MAX_TABLES if self._has_differences else MAX_SETS
        if self._num_sets > limit:
            what = "set operations, including EXCEPT or INTERSECT" if self._has_differences else "unions"
            raise InvalidInputError(f"the statement has more than {limit:,} {what}")

    def _count_table(self) -> None:
        self._num_tables += 1
        if self._num_tables > MAX_TABLES:
            raise InvalidInputError(
                f"the statement has more than {MAX_TABLES} joins and common table expressions"
            )

    def _extend(self, token: Token) -> None:
        operand = self._levels[-1].operands[-1]
        operand.start = token.start if operand.start < 0 else operand.start
        operand.stop = token.end + 1

    def _next_operand(self, word: str) -> None:
        self._end_operand()
        level = self._levels[-1]
        level.conjuncts += 1
        if word == "OR":
            self._end_conjunction()
        level.operands.append(_Operand(before=word))

    def _end_conjunction(self) -> None:
        level = self._levels[-1]
        level.most_conjuncts = max(level.most_conjuncts, level.conjuncts)
        if level.conjuncts > MAX_CONJUNCTS:
            raise InvalidInputError(f"more than {MAX_CONJUNCTS:,} conditions are joined by AND")
        level.conjuncts = 0

    def _end_operand(self) -> None:
        level = self._levels[-1]
        level.deepest_operand = max(level.deepest_operand, level.operators + level.deepest_inside)
        level.operators = level.deepest_inside = 0
        level.is_between = False

    def _end_chain(self) -> None:
        self._end_operand()
        self._end_conjunction()
        level = self._levels[-1]
        depth = level.deepest_operand + self._joined(level.operands)
        level.depth = max(level.depth, depth)
        if level.depth > MAX_DEPTH:
            raise InvalidInputError(
                f"an expression is {level.depth:,} operators deep; at most {MAX_DEPTH} are supported; use IN "
                "for long lists of values, or compute in several steps"
            )
        level.deepest_operand = 0
        level.operands = [_Operand()]

    def _close(self) -> _Level:
        self._end_chain()
        return self._levels.pop()

    def _joined(self, operands: list[_Operand]) -> int:
        """Record parentheses around parts of a chain, and return the resulting depth."""
        conjunctions: list[list[_Operand]] = []
        for operand in operands:
            if operand.before == "AND":
                conjunctions[-1].append(operand)
            else:
                conjunctions.append([operand])
        inner = max(self._grouped(chain) for chain in conjunctions)
        whole = [
            _Operand(chain[0].start, chain[-1].stop, unknown_words=sum(each.unknown_words for each in chain))
            for chain in conjunctions
        ]
        return inner + self._grouped(whole)

    def _grouped(self, chain: list[_Operand]) -> int:
        """Put parentheses around groups of operands, and around groups of groups; return the resulting depth.

        The first and the last operand stay outside, because text before them (DISTINCT) or after them (an
        alias) may belong to the clause.
        """
        if len(chain) <= _GROUP:
            return len(chain) - 1
        from lance_df.sql.splice import Edit

        middle = chain[1:-1]
        depth = 0
        while len(middle) > _GROUP:
            groups = [middle[start : start + _GROUP] for start in range(0, len(middle), _GROUP)]
            for group in groups:
                if any(each.unknown_words for each in group):
                    return depth + len(chain) - 1
            for group in groups:
                self._edits.append(Edit(group[0].start, group[0].start, "("))
                self._edits.append(Edit(group[-1].stop, group[-1].stop, ")"))
            middle = [_Operand(group[0].start, group[-1].stop) for group in groups]
            depth += _GROUP
        return depth + len(middle) + 1
