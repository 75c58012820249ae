"""Names of columns and of fields within structs, as one text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lance_df.errors import InvalidInputError

# a name, or one in backquotes, in which a backquote is written twice
_STEP = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def quoted_name(name: str) -> str:
    """Return a name in backquotes, as paths, filters and Spark's SQL take it."""
    return f"`{name.replace('`', '``')}`"


def path_step(name: str) -> str:
    """Return a name as a part of a path, in backquotes where it needs them."""
    return quoted_name(name) if "." in name or "`" in name else name


def format_path(names: Iterable[str]) -> str:
    """Return names as one text: of a column and fields within it, or of a table and what it is in."""
    return ".".join(map(quoted_name, names))


def parse_path(path: str) -> tuple[str, ...]:
    """Split ``a.b.c`` into names; names with dots stand in backquotes.

    Raises
    ------
    InvalidInputError
        It is no path.
    """
    if not isinstance(path, str):
        raise InvalidInputError(f"the path of a column is text, not {type(path).__name__}")
    names, position = [], 0
    while step := _STEP.match(path, position):
        names.append(step[2] or step[1].replace("``", "`"))
        position = step.end()
        if position == len(path):
            return tuple(names)
        if path[position] != ".":
            break
        position += 1
    raise InvalidInputError(f"{path!r} is no path of a column")
