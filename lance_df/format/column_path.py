"""Format and parse the paths of columns and of fields within structs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lance_df.errors import InvalidInputError

# a plain name, or one in backquotes, in which backquotes are doubled
_STEP = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def quoted_name(name: str) -> str:
    """Return a name in backquotes, the form that paths, filters and Spark SQL accept."""
    return f"`{name.replace('`', '``')}`"


def path_step(name: str) -> str:
    """Return a name as one step of a path, in backquotes only if it needs them."""
    return quoted_name(name) if "." in name or "`" in name else name


def format_path(names: Iterable[str]) -> str:
    """Join names into a path: a column and the fields within it, or a table and its namespaces."""
    return ".".join(map(quoted_name, names))


def parse_path(path: str) -> tuple[str, ...]:
    """Split ``a.b.c`` into names; names with dots must be in backquotes.

    Raises
    ------
    InvalidInputError
        The text is not a path.
    """
    if not isinstance(path, str):
        raise InvalidInputError(f"a column path must be a string, got {type(path).__name__}")
    names, position = [], 0
    while step := _STEP.match(path, position):
        names.append(step[2] or step[1].replace("``", "`"))
        position = step.end()
        if position == len(path):
            return tuple(names)
        if path[position] != ".":
            break
        position += 1
    raise InvalidInputError(f"{path!r} is not a valid column path")
