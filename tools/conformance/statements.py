"""What kind of statement a text is, and by which columns of its result it orders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

import sqlglot
from sqlglot import exp

from lance_df.sql.dialect import DataFusion

_COMMENTS: Final = re.compile(r"^(\s+|--[^\n]*(\n|$)|/\*.*?\*/)+", re.DOTALL)
_NAME: Final = r"""(?P<name>(?:"(?:[^"]|"")+"|[\w$]+)(?:\.(?:"(?:[^"]|"")+"|[\w$]+))*)"""
_CREATE: Final = re.compile(
    r"create\s+(?:or\s+replace\s+)?(?P<unbounded>unbounded\s+)?(?:external\s+)?(?:temp(?:orary)?\s+)?table\s+"
    r"(?:if\s+not\s+exists\s+)?" + _NAME,
    re.IGNORECASE,
)
_VIEW: Final = re.compile(
    r"create\s+(?:or\s+replace\s+)?view\s+(?P<rest>" + _NAME + r".*)", re.IGNORECASE | re.DOTALL
)
_DROP: Final = re.compile(r"drop\s+(?:table|view)\s+(?:if\s+exists\s+)?" + _NAME, re.IGNORECASE)
_CHANGE: Final = re.compile(
    r"(?:insert\s+(?:into|overwrite)(?:\s+table)?|update|delete\s+from|truncate(?:\s+table)?)\s+" + _NAME,
    re.IGNORECASE,
)
_QUERIES: Final = ("select", "with", "values", "table", "from", "show", "describe", "desc", "(", "execute")
# words of statements that are no names of tables
KEYWORDS: Final = frozenset(
    {
        "as",
        "by",
        "create",
        "delete",
        "drop",
        "exists",
        "external",
        "from",
        "if",
        "insert",
        "into",
        "not",
        "or",
    }
    | {"replace", "select", "set", "table", "temporary", "update", "values", "view"}
)

# what two executions need not agree in, by the words that show it
EXCLUDED: Final = (
    (r"explain\b", "plans, which are not compared", True),
    (r"\b(random|rand|uuid|uuidv4|uuidv7|gen_random_uuid)\s*\(", "volatile functions", False),
    (r"\b(now|current_timestamp|current_date|current_time|today)\b", "the clock", False),
    (
        r"\b(show\s+functions|information_schema\.(routines|parameters))",
        "lists of functions, which name ours",
        False,
    ),
    (r"\bgenerate_series\s*\(\s*\)", "endless series", False),
    (r"\$\{?(__|TEST_)", "variables of another runner", False),
)


class Kind(Enum):
    """What is done with a statement."""

    QUERY = "compared"
    TABLE = "run in the source context; its table is mirrored"
    DATA = "run in the source context alone"
    STATE = "run in every context"


@dataclass(frozen=True, slots=True)
class Ordering:
    """The positions of the columns by which a result is ordered.

    ``is_complete`` tells whether the result has all of these; ``keys`` are the first ones otherwise.
    """

    keys: tuple[int, ...]
    is_limited: bool = False
    is_complete: bool = True


def without_comments(sql: str) -> str:
    """Return a text without the comments that it begins with."""
    return _COMMENTS.sub("", sql)


def reason_to_exclude(sql: str) -> str | None:
    """Return why a statement is not compared; None where it is."""
    text = without_comments(sql)
    for pattern, reason, at_start in EXCLUDED:
        if (re.match if at_start else re.search)(pattern, text, re.IGNORECASE):
            return reason
    return None


def kind_of(sql: str) -> tuple[Kind, str | None]:
    """Return what is done with a statement, and the table that it makes or changes, as it is written."""
    text = without_comments(sql)
    if (created := _CREATE.match(text)) is not None:
        return (Kind.DATA, None) if created["unbounded"] else (Kind.TABLE, created["name"])
    if (changed := _CHANGE.match(text)) is not None:
        return Kind.TABLE, changed["name"]
    word = text[:1] if text[:1] == "(" else re.split(r"\W", text, maxsplit=1)[0].lower()
    if word == "copy":
        return Kind.DATA, None
    return (Kind.QUERY if word in _QUERIES else Kind.STATE), None


def created_view(sql: str) -> tuple[str, str] | None:
    """Return the name of the view that a statement creates, and a statement that creates it again."""
    created = _VIEW.match(without_comments(sql))
    return (
        None
        if created is None
        else (short_name(created["name"]), f"CREATE OR REPLACE VIEW {created['rest']}")
    )


def dropped_name(sql: str) -> str | None:
    """Return the name of the table or view that a statement drops; see `short_name`."""
    dropped = _DROP.match(without_comments(sql))
    return None if dropped is None else short_name(dropped["name"])


def short_name(name: str) -> str:
    """Return a name in lower case, without the default catalog and schema."""
    return name.lower().removeprefix("datafusion.").removeprefix("public.")


def ordering_of(sql: str, names: list[str]) -> Ordering | None:
    """Return how a query orders its result; None where it does not, or where its text is not understood."""
    try:
        query = sqlglot.parse_one(without_comments(sql), dialect=DataFusion)
    except Exception:  # noqa: BLE001 - sqlglot raises AssertionError and others for what it does not know
        return None
    while isinstance(query, exp.Subquery):
        query = query.this
    order = query.args.get("order")
    is_limited = any(query.args.get(part) is not None for part in ("limit", "fetch", "offset"))
    if order is None:
        return Ordering((), is_limited=True) if is_limited else None
    items = query.expressions if isinstance(query, exp.Select) else []
    keys: list[int] = []
    for ordered in order.expressions:
        key = _position(ordered.this, names, items)
        if key is None:
            break
        keys.append(key)
    return Ordering(tuple(keys), is_limited, len(keys) == len(order.expressions))


def _position(key: exp.Expression, names: list[str], items: list[exp.Expression]) -> int | None:
    if isinstance(key, exp.Literal) and not key.is_string:
        position = int(key.this) - 1
        return position if 0 <= position < len(names) else None
    if isinstance(key, exp.Column):
        name = key.name if key.this.args.get("quoted") else key.name.lower()
        found = [position for position, column in enumerate(names) if column == name]
        if len(found) == 1:
            return found[0]
    if len(items) != len(names):  # a star
        return None
    text = key.sql(dialect=DataFusion)
    found = [
        position for position, item in enumerate(items) if item.unalias().sql(dialect=DataFusion) == text
    ]
    return found[0] if found else None
