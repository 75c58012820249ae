"""Random tables of awkward values, and random statements over them. A seed names both."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_INTS: Final = (None, 0, 1, 2, 3, 7, -1, 127, -128, 2**31 - 1, -(2**31))
_BIGS: Final = (*_INTS, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
# multiples of a quarter: sums do not depend on the order of rows
_FLOATS: Final = (None, 0.0, -0.0, 0.25, 1.5, -2.0, 3.0, 1e6, float("nan"), float("inf"), float("-inf"))
_TEXTS: Final = (
    None,
    "",
    "a",
    "A",
    "ab",
    "b",
    "ünï",
    "a%_b",
    "x" * 13,
    "a text of more than twelve bytes",
    "€",
)
_TEXTS_2: Final = ("é", "e\u0301", "\U0001f600", " a", "0", "1", "NULL")
_DECIMALS: Final = (None, *map(Decimal, ("0.00", "1.50", "-1.50", "99999999.99", "-99999999.99", "7.00")))
_DATES: Final = (
    None,
    date(1970, 1, 1),
    date(1969, 12, 31),
    date(2024, 2, 29),
    date(1, 1, 1),
    date(9999, 12, 31),
)
_TIMES: Final = (
    None,
    datetime(1970, 1, 1),
    datetime(2024, 2, 29, 23, 59, 59, 999999),
    datetime(1901, 1, 1, 5),
)
_TIME_EDGES: Final = (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
_LISTS: Final = (None, [], [1], [1, None], [None], [1, 2, 3], [1, 2], [3])
_STRUCTS: Final = (
    None,
    {"a": 1, "b": "x"},
    {"a": None, "b": "x"},
    {"a": 1, "b": None},
    {"a": None, "b": None},
)

# columns by name: their type, and their values
_COLUMNS: Final[dict[str, tuple[pa.DataType, Sequence[Any]]]] = {
    "k": (pa.int64(), (None, *range(12))),
    "i": (pa.int32(), _INTS),
    "n": (pa.int64(), _BIGS),
    "f": (pa.float64(), _FLOATS),
    "g": (pa.float32(), _FLOATS),
    "s": (pa.string(), _TEXTS),
    "u": (pa.string(), _TEXTS + _TEXTS_2),
    "d": (pa.decimal128(10, 2), _DECIMALS),
    "dt": (pa.date32(), _DATES),
    "ts": (pa.timestamp("us"), _TIMES + _TIME_EDGES),
    "b": (pa.bool_(), (None, True, False)),
    "l": (pa.list_(pa.int64()), _LISTS),
    "st": (pa.struct([("a", pa.int64()), ("b", pa.string())]), _STRUCTS),
}
# columns that compare with each other, by the kind of their values
_KINDS: Final = {
    "number": ("id", "k", "i", "n", "f", "g", "d"),
    "text": ("s", "u"),
    "date": ("dt",),
    "time": ("ts",),
    "truth": ("b",),
    "list": ("l",),
    "struct": ("st",),
}


def _time(text: str) -> str:
    """Return a literal in microseconds: literals of TIMESTAMP have nanoseconds, which begin in 1677."""
    return f"arrow_cast('{text}', 'Timestamp(Microsecond, None)')"


_LITERALS: Final = {
    "number": ("0", "1", "-1", "2", "7", "1.5", "3.0", "127", "2147483648", "9223372036854775807", "NULL"),
    "text": ("''", "'a'", "'A'", "'ab'", "'ünï'", "'a text of more than twelve bytes'", "'zz'", "NULL"),
    "date": ("DATE '1970-01-01'", "DATE '2024-02-29'", "DATE '9999-12-31'", "'2024-02-29'", "NULL"),
    "time": (
        _time("1970-01-01"),
        _time("2024-03-01"),
        _time("9999-12-31T23:59:59.999999"),
        "'1969-12-31'",
        "NULL",
    ),
    "truth": ("true", "false", "NULL"),
    "list": ("[1, 2]", "[1]", "NULL"),
    "struct": ("named_struct('a', 1, 'b', 'x')", "NULL"),
}
_FUNCTIONS: Final = {
    "number": (
        "{} + 1",
        "-{}",
        "{} * 2",
        "coalesce({}, 0)",
        "nullif({}, 1)",
        "CAST({} AS DOUBLE)",
        "round({})",
    ),
    "text": ("upper({})", "{} || 'x'", "coalesce({}, 'none')", "left({}, 1)", "trim({})", "reverse({})"),
    "date": ("{} + INTERVAL '1' DAY", "coalesce({}, DATE '2000-01-01')"),
    "time": ("date_trunc('day', {})", "date_trunc('month', {})", f"coalesce({{}}, {_time('2000-01-01')})"),
    "truth": ("(NOT {})", "coalesce({}, false)", "({} IS TRUE)", "({} IS NOT FALSE)"),
    "list": ("array_append({}, 4)", "array_sort({})", "coalesce({}, [9])"),
    "struct": ("coalesce({}, named_struct('a', 5, 'b', 'y'))",),
}
_TO_NUMBER: Final = {
    "text": ("length({})", "TRY_CAST({} AS INT)", "strpos({}, 'a')"),
    "date": ("date_part('year', {})", "date_part('day', {})"),
    "time": ("date_part('month', {})", "date_part('hour', {})"),
    "truth": ("CAST({} AS INT)",),
    "list": ("array_length({})", "{}[1]", "cardinality({})"),
    "struct": ("{}['a']",),
}
_AGGREGATES: Final = (
    "count({})",
    "count(DISTINCT {})",
    "min({})",
    "max({})",
    "bool_or({} IS NULL)",
    "sum(CASE WHEN {} IS NULL THEN 1 ELSE 2 END)",
)
_SIZES: Final = (0, 1, 60, 60, 400, 400, 3_000, 3_000)
# of one side of a join with many rows of each key
_ROWS_JOINED: Final = 60
_JOINS: Final = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
_ONE_SIDED_JOINS: Final = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")


@dataclass(frozen=True, slots=True)
class _Column:
    """How an expression is written, and of which kind its values are."""

    text: str
    kind: str


class RandomStatements:
    """A few tables, and statements over them without end.

    Every result is ordered by all of its columns, by some, or not at all; limits are taken in an order that
    leaves no choice.

    Parameters
    ----------
    with_fields
        Whether fields of structs are among the columns.
    """

    def __init__(self, seed: int, *, with_fields: bool = False) -> None:
        self._random = random.Random(seed)
        self._views = 0
        self.tables = {name: self._table() for name in ("t0", "t1", "t2")}
        self._columns = {
            name: _columns_of(table, with_fields=with_fields) for name, table in self.tables.items()
        }

    def __iter__(self) -> Iterator[str]:
        while True:
            query = self._query(depth=2)
            if self._chance(0.12):
                self._views += 1
                yield f"CREATE OR REPLACE VIEW v{self._views} AS {query}"
                yield self._ordered(f"SELECT * FROM v{self._views}", 1)
            else:
                yield query

    def _table(self) -> pa.Table:
        rows = self._pick(_SIZES)
        names = [name for name in _COLUMNS if name == "k" or self._chance(0.75)]
        columns = {"id": pa.array(range(rows), pa.int64())}
        for name in names:
            kind, values = _COLUMNS[name]
            some = self._random.sample(values, self._random.randint(1, len(values)))
            runs = self._random.choice((1, 1, 50))
            chosen = [value for _ in range(rows // runs + 1) for value in [self._pick(some)] * runs]
            columns[name] = pa.array(chosen[:rows], kind)
        return pa.table(columns)

    def _query(self, depth: int) -> str:
        shapes: list[Callable[[int], str]] = [self._rows, self._rows, self._join, self._groups, self._windows]
        if depth:
            shapes += [self._set_operation, self._nested]
        return self._pick(shapes)(depth)

    def _rows(self, depth: int) -> str:
        name, columns = self._from("")
        items = [self._expression(columns) for _ in range(self._random.randint(1, 4))]
        distinct = "DISTINCT " if self._chance(0.2) else ""
        sql = f"SELECT {distinct}{_listed(items)} FROM {name}{self._where(columns, depth)}"
        return self._ordered(sql, len(items))

    def _join(self, depth: int) -> str:
        (left, ours), (right, theirs) = self._from("a"), self._from("b")
        kind = self._pick(_JOINS + _ONE_SIDED_JOINS)
        on = self._equality(ours, theirs)
        if self._chance(0.3):
            on += f" AND {self._condition(ours + theirs, 0)}"
        seen = ours if kind in _ONE_SIDED_JOINS else ours + theirs
        if self._chance(0.3):
            text = ", ".join((key := self._pick(seen).text, "count(*)", f"max({self._pick(seen).text})"))
            tail = f"{self._where(seen, 0)} GROUP BY {key}"
            return self._ordered(f"SELECT {text} FROM {left} {kind} {right} ON {on}{tail}", 3)
        items = [self._expression(seen) for _ in range(self._random.randint(1, 4))]
        sql = f"SELECT {_listed(items)} FROM {left} {kind} {right} ON {on}{self._where(seen, depth)}"
        return self._ordered(sql, len(items))

    def _groups(self, depth: int) -> str:
        name, columns = self._from("")
        keys = [self._expression(columns).text for _ in range(self._random.randint(0, 2))]
        calls = [self._aggregate(columns) for _ in range(self._random.randint(1, 3))]
        items = [f"{text} AS x{number}" for number, text in enumerate(keys + calls)]
        sql = f"SELECT {', '.join(items)} FROM {name}{self._where(columns, depth)}"
        if keys:
            sql += f" GROUP BY {', '.join(map(str, range(1, len(keys) + 1)))}"
            if self._chance(0.3):
                sql += f" HAVING count(*) > {self._random.randint(0, 3)}"
        return self._ordered(sql, len(items))

    def _windows(self, depth: int) -> str:
        name, columns = self._from("")
        by = self._pick(columns).text
        value = self._pick(columns).text
        call = self._pick(
            (
                "row_number()",
                "count({})",
                "min({})",
                "max({})",
                "lag({})",
                "first_value({})",
                "last_value({})",
            )
        ).format(value)
        key = self._pick([each for each in columns if each.kind != "struct"])
        order = f"{key.text} {self._direction()}, id"
        window = f"{call} OVER (PARTITION BY {by} ORDER BY {order})"
        sql = f"SELECT id, {by} AS y, {window} AS w FROM {name}{self._where(columns, depth)}"
        return self._ordered(sql, 3)

    def _set_operation(self, depth: int) -> str:
        kind = self._pick(tuple(_KINDS))
        operator = self._pick(("UNION", "UNION ALL", "INTERSECT", "EXCEPT"))
        sides = []
        for _ in range(2):
            name, columns = self._from("")
            item = self._of_kind(columns, kind)
            sides.append(f"SELECT {item} AS x FROM {name}{self._where(columns, depth - 1)}")
        return self._ordered(f" {operator} ".join(sides), 1)

    def _nested(self, depth: int) -> str:
        inner = self._query(depth - 1)
        if self._chance(0.5):
            return f"SELECT count(*) FROM ({inner}) AS q"
        return self._ordered(f"WITH q AS ({inner}) SELECT * FROM q", 1)

    def _ordered(self, sql: str, width: int) -> str:
        keys = self._random.sample(range(1, width + 1), self._random.randint(0, width))
        if not keys:
            return sql
        text = f"{sql} ORDER BY {', '.join(f'{key} {self._direction()}' for key in keys)}"
        return (
            f"{text} LIMIT {self._random.randint(0, 40)}"
            if len(keys) == width and self._chance(0.3)
            else text
        )

    def _direction(self) -> str:
        return self._pick(("", "ASC", "DESC", "NULLS FIRST", "DESC NULLS LAST"))

    def _where(self, columns: list[_Column], depth: int) -> str:
        return f" WHERE {self._condition(columns, max(0, depth))}" if self._chance(0.5) else ""

    def _condition(self, columns: list[_Column], depth: int) -> str:
        if self._chance(0.25):
            operator = self._pick(("AND", "OR"))
            return f"({self._condition(columns, depth)} {operator} {self._condition(columns, depth)})"
        if self._chance(0.12):
            return f"NOT {self._condition(columns, depth)}"
        if depth and self._chance(0.2):
            return self._subquery(columns)
        column = self._pick(columns)
        value = self._applied(column) if self._chance(0.3) else column.text
        one, other = (self._pick(_LITERALS[column.kind]) for _ in range(2))
        # DataFusion fails at windows of rows whose `left(u, 1)` is `u`
        others = [each for each in columns if each != column]
        shapes = [
            f"{value} {self._pick(('=', '<>', '<', '<=', '>', '>='))} {one}",
            f"{value} IS {self._pick(('', 'NOT '))}NULL",
            f"{value} {self._pick(('', 'NOT '))}IN ({one}, {other})",
            f"{value} IS {self._pick(('', 'NOT '))}DISTINCT FROM {column.text}",
            f"{value} {self._pick(('=', '<'))} {self._of_kind(others, column.kind)}",
        ]
        if column.kind not in ("struct", "truth"):
            shapes.append(f"{value} BETWEEN {one} AND {other}")
        if column.kind == "text":
            shapes.append(f"{value} {self._pick(('', 'NOT '))}LIKE {self._pick(_PATTERNS)}")
        if column.kind == "truth":
            shapes.append(value)
        return self._pick(shapes)

    def _subquery(self, columns: list[_Column]) -> str:
        name, others = self._from("z")
        column = self._pick([each for each in columns if each.kind not in ("list", "struct")])
        other = self._of_kind(others, column.kind)
        where = self._where(others, 0)
        return self._pick(
            (
                f"{column.text} {self._pick(('', 'NOT '))}IN (SELECT {other} FROM {name}{where})",
                f"{self._pick(('', 'NOT '))}EXISTS (SELECT 1 FROM {name} WHERE {other} = {column.text})",
                f"{column.text} >= (SELECT min({other}) FROM {name}{where})",
            )
        )

    def _from(self, alias: str) -> tuple[str, list[_Column]]:
        name = self._pick(tuple(self.tables))
        prefix = f"{alias or name}."
        return f"{name} AS {alias}" if alias else name, [
            _Column(prefix + each.text, each.kind) for each in self._columns[name]
        ]

    def _equality(self, ours: list[_Column], theirs: list[_Column]) -> str:
        column = self._pick([each for each in ours if each.kind != "truth"])
        others = [each for each in theirs if each.kind == column.kind]
        if not others or self._chance(0.5):
            few = f"{_named(theirs, 'id')} < {_ROWS_JOINED}"
            return f"{_named(ours, 'k')} = {_named(theirs, 'k')} AND {few}"
        return f"{column.text} = {self._pick(others).text} AND {_named(ours, 'k')} = {_named(theirs, 'id')}"

    def _expression(self, columns: list[_Column]) -> _Column:
        column = self._pick(columns)
        if self._chance(0.6):
            return column
        if self._chance(0.15):
            condition = self._condition(columns, 0)
            return _Column(f"CASE WHEN {condition} THEN {column.text} END", column.kind)
        return _Column(self._applied(column), column.kind)

    def _applied(self, column: _Column) -> str:
        """Return a function of a column with values of the same kind."""
        return self._pick(_FUNCTIONS[column.kind]).format(column.text)

    def _aggregate(self, columns: list[_Column]) -> str:
        if self._chance(0.2):
            return "count(*)"
        column = self._pick(columns)
        numbers = _TO_NUMBER.get(column.kind, ())
        if numbers and self._chance(0.4):
            return f"sum({self._pick(numbers)})".format(column.text)
        if column.kind == "number" and self._chance(0.4):
            return self._pick(("sum({})", "avg({})")).format(column.text)
        return self._pick(_AGGREGATES).format(column.text)

    def _of_kind(self, columns: list[_Column], kind: str) -> str:
        texts = [column.text for column in columns if column.kind == kind]
        return self._pick(texts) if texts else self._pick(_LITERALS[kind])

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _pick(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)


_PATTERNS: Final = ("'a%'", "'%b'", "'%n%'", "'_'", "''", r"'a\%%'", "'%'", "NULL")


def _columns_of(table: pa.Table, *, with_fields: bool) -> list[_Column]:
    columns = [
        _Column(name, kind) for name in table.column_names for kind, names in _KINDS.items() if name in names
    ]
    if not with_fields or "st" not in table.column_names:
        return columns
    return [*columns, _Column("st['a']", "number"), _Column("st['b']", "text")]


def _named(columns: list[_Column], name: str) -> str:
    return next(each.text for each in columns if each.text.split(".")[-1] == name)


def _listed(items: list[_Column]) -> str:
    return ", ".join(f"{item.text} AS x{number}" for number, item in enumerate(items))
