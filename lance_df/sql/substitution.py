"""Replace ``col0``, ``col1``, … in a partition expression with SQL.

The columns are located in sqlglot's tree of the expression, and replaced at their positions in the text. The
text is not generated from the tree, because sqlglot writes functions with PostgreSQL's names, which differ
from DataFusion's.

Spec: partitioning, appendix D.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lance_df.errors import InvalidInputError
from lance_df.sql.dialect import DataFusion
from lance_df.sql.splice import Edit, splice

_PLACEHOLDER: Final = re.compile(r"col(0|[1-9]\d*)")
_BEFORE: Final = "SELECT ("


def substituted(expression: str, replacements: Sequence[str]) -> str:
    """Return a partition expression with its columns replaced by SQL.

    Parameters
    ----------
    replacements
        The SQL for ``col0``, ``col1``, …: literals or names of columns.

    >>> substituted("date_part('year', col0)", ["DATE '2025-12-10'"])
    "date_part('year', DATE '2025-12-10')"
    >>> substituted("-col0 || 'col0'", ["-5"])
    "-(-5) || 'col0'"

    Raises
    ------
    InvalidInputError
        The parser does not understand the expression, or it has more columns than there are replacements.
    """
    edits = []
    for number, start, stop in _placeholders(expression):
        if number >= len(replacements):
            raise InvalidInputError(f"the expression {expression!r} has no value for col{number}")
        text = replacements[number]
        # two minus signs would begin a comment
        edits.append(Edit(start, stop, f"({text})" if text.startswith("-") else text))
    return splice(expression, edits)


@lru_cache(maxsize=256)
def _placeholders(expression: str) -> tuple[tuple[int, int, int], ...]:
    """Return the number of each column of an expression, and its start and stop in the text."""
    try:
        tree = parse_one(f"{_BEFORE}{expression}\n)", dialect=DataFusion)
    except SqlglotError as err:
        raise InvalidInputError(f"the expression {expression!r} is malformed: {err}") from err
    placeholders = []
    for column in tree.find_all(exp.Column):
        name = column.parts[0]  # col0.a is a field of col0, but a.col0 is not a column of the expression
        text = name.name if name.args.get("quoted") else name.name.lower()
        match = _PLACEHOLDER.fullmatch(text)
        if match is not None:
            start = name.meta["start"] - len(_BEFORE)
            placeholders.append((int(match[1]), start, name.meta["end"] + 1 - len(_BEFORE)))
    return tuple(sorted(placeholders, key=lambda each: each[1]))
