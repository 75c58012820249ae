"""Find a join order for tables with equal keys that keeps intermediate results small.

The number of rows is estimated from those of the tables. Columns that are equal to each other have at most as
many distinct values as the smallest of their tables has rows, in any join order.
"""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# estimates are rough, and rebuilding a plan takes time
_CLEARLY_LESS: Final = 0.7
_MAX_INPUTS: Final = 12


@dataclass(frozen=True, slots=True)
class Edge:
    """Two columns that are equal in all rows of the result.

    Attributes
    ----------
    inputs
        The numbers of the inputs that contain the columns.
    columns
        The names of the columns.
    table_rows
        The number of rows of the tables that contain the columns.
    """

    inputs: tuple[int, int]
    columns: tuple[str, str]
    table_rows: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Pair:
    """A join of two inputs or joins. In the orders of `better_order`, ``one`` is the smaller side."""

    one: Order
    other: Order


Order: TypeAlias = int | Pair


def inputs_of(order: Order) -> frozenset[int]:
    """Return the numbers of the joined inputs."""
    return frozenset((order,)) if isinstance(order, int) else inputs_of(order.one) | inputs_of(order.other)


def better_order(rows: Sequence[float], edges: Sequence[Edge], written: Order) -> Order | None:
    """Return an order that costs clearly less than the order as written; None if none is known.

    Parameters
    ----------
    rows
        The number of rows of each input.
    edges
        The equal columns, which connect all inputs.
    """
    if len(rows) > _MAX_INPUTS:
        return None
    guess = _Guess(rows, edges)
    parts: list[Order] = list(range(len(rows)))
    while len(parts) > 1:
        pairs = [Pair(one, other) for one, other in combinations(parts, 2) if guess.are_connected(one, other)]
        if not pairs:
            return None
        best = min(pairs, key=guess.cost)
        parts = [part for part in parts if part not in (best.one, best.other)] + [best]
    (whole,) = parts
    if guess.whole_cost(whole) >= _CLEARLY_LESS * guess.whole_cost(written):
        return None
    return guess.small_first(whole)


class _Guess:
    """Estimates the number of rows of joins."""

    def __init__(self, rows: Sequence[float], edges: Sequence[Edge]) -> None:
        self._edges = edges
        self._values = _numbers_of_values(edges)
        self._rows: dict[Order, float] = dict(enumerate(rows))

    def are_connected(self, one: Order, other: Order) -> bool:
        return any(self._between(one, other))

    def rows(self, order: Order) -> float:
        if isinstance(order, Pair) and order not in self._rows:
            between = list(self._between(order.one, order.other))
            keys = {self._values[edge.columns[0]] for edge in between}
            # several columns have at most as many distinct combinations as their table has rows
            most = max((min(edge.table_rows) for edge in between), default=1.0)
            values = max(1.0, min(prod(number for _, number in keys), most))
            self._rows[order] = max(1.0, self.rows(order.one) * self.rows(order.other) / values)
        return self._rows[order]

    def cost(self, pair: Pair) -> float:
        """Return the cost of a join: the rows of its result, and the rows of its build side."""
        return self.rows(pair) + min(self.rows(pair.one), self.rows(pair.other))

    def whole_cost(self, order: Order) -> float:
        if isinstance(order, int):
            return 0.0
        return self.cost(order) + self.whole_cost(order.one) + self.whole_cost(order.other)

    def small_first(self, order: Order) -> Order:
        if isinstance(order, int):
            return order
        one, other = sorted((order.one, order.other), key=self.rows)
        return Pair(self.small_first(one), self.small_first(other))

    def _between(self, one: Order, other: Order) -> Iterable[Edge]:
        ones, others = inputs_of(one), inputs_of(other)
        for edge in self._edges:
            first, second = edge.inputs
            if (first in ones and second in others) or (first in others and second in ones):
                yield edge


def _numbers_of_values(edges: Sequence[Edge]) -> Mapping[str, tuple[str, float]]:
    """Return for each column a representative of its equal columns, and their number of distinct values."""
    columns: dict[str, tuple[str, float]] = {}
    for edge in edges:
        for column, rows in zip(edge.columns, edge.table_rows, strict=True):
            columns.setdefault(column, (column, rows))
    for edge in edges:
        one, other = (columns[column] for column in edge.columns)
        both = min(one[0], other[0]), min(one[1], other[1])
        columns = {column: both if each in (one, other) else each for column, each in columns.items()}
    return columns
