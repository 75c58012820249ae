"""Skip rows in the scan of a large table that a join with a smaller, filtered table drops.

In an inner join, a row of one side is in no result row unless the other side has its key. If the table with
the other side's keys is small and filtered, the scan gets a `JoinFilter`: it reads the keys when it begins,
and prunes pages with them. Looking up the key of each row takes as long as joining it with a small table, so
the scan only does this if it saves other work on the rows. The join itself does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.compute.expressions import is_column, qualified_name
from lance_df.engine.join_keys import JoinFilter, JoinKeys
from lance_df.engine.plans.nodes import (
    Aggregate,
    Filter,
    Join,
    Limit,
    PlanNode,
    Projection,
    Scan,
    Sort,
    SubqueryAlias,
)
from lance_df.engine.pruning.predicates import scan_condition
from lance_df.expr.nodes import And, Or, Predicate
from lance_df.expr.walk import has_unknown
from lance_df.records import dataclass, replace
from lance_df.scan.request import Rows

if TYPE_CHECKING:
    from typing import Any

    from lance_df.engine.optimizer.planned import Context, Planned
    from lance_df.engine.plans.logical_scans import LogicalScan
    from lance_df.engine.plans.walks import Path
    from lance_df.engine.statement import PlannedTable

# with fewer rows, scanning takes less time than reading keys
_LEAST_ROWS: Final = 50_000
# the smaller table has at most this many rows, or this share of the rows of the larger table
_FEW_ROWS: Final = 100_000
_MOST_OF_FEW: Final = 1 / 4
_MOST_OF_ROWS: Final = 1 / 16
_FOLLOWED: Final = (Scan, Filter, Projection, SubqueryAlias, Sort, Limit, Aggregate, Join)
_MAX_DEPTH: Final = 3  # for keys that are filtered by other keys
# for each kind of join, the sides (0 is left) of which rows without a key on the other side are in no result
_FILTERED_SIDES: Final = {
    "Inner": (0, 1),
    "Left": (1,),
    "Right": (0,),
    "LeftSemi": (0, 1),
    "RightSemi": (0, 1),
}
# for each kind of join, the sides of which a row is in the result or not regardless of other rows of its side
_PRESERVED_SIDES: Final = {
    "Inner": (0, 1),
    **dict.fromkeys(("Left", "LeftSemi", "LeftAnti"), (0,)),
    **dict.fromkeys(("Right", "RightSemi", "RightAnti"), (1,)),
}


def join_keys(planned: Planned, context: Context) -> Planned | None:  # noqa: ARG001 - as all rules
    """Let scans skip rows by the keys of other tables."""
    known = [(table, scan) for table, scans in planned.scans_of_tables() for scan in scans]
    finder = _Finder({scan.path: (table, scan) for table, scan in known})
    finder.find(planned.optimized)
    changed = {}
    for table, scans in planned.scans_of_tables():
        filters = _of_all([finder.filters.get(scan.path, {}) for scan in scans])
        output = table.scan.request.output
        # all rows that a returned row stands for have the same key
        if filters and (isinstance(output, Rows) or all(each.column in output.keys for each in filters)):
            changed[table.key] = replace(table.scan, join_filters=filters)
    if not changed:
        return None
    return replace(planned, tables=planned.requesting(changed))


def _of_all(by_scan: Sequence[Mapping[str, JoinFilter]]) -> tuple[JoinFilter, ...]:
    """Return the conditions that hold for a row if any of several scans of one table needs it."""
    if not by_scan:
        return ()
    columns = [column for column in by_scan[0] if all(column in each for each in by_scan)]
    merged = ([each[column] for each in by_scan] for column in columns)
    return tuple(
        JoinFilter(
            filters[0].column,
            tuple(keys for each in filters for keys in each.keys),
            all(each.applies for each in filters),
        )
        for filters in merged
    )


class _Part:
    """A plan node with cached properties.

    Attributes
    ----------
    node, path, inputs
        The node, its path, and its inputs.
    columns
        The names of the columns; empty for kinds of nodes that are not traversed.
    pairs
        The keys of a join.
    """

    __slots__ = ("columns", "inputs", "node", "pairs", "path")

    def __init__(self, node: PlanNode, path: Path = ()) -> None:
        self.node = node
        self.path = path
        self.inputs = [_Part(each, (*path, number)) for number, each in enumerate(node.inputs)]
        self.columns = self.node.columns if isinstance(self.node, _FOLLOWED) else []
        self.pairs: list[tuple[Any, Any]] = []
        if isinstance(self.node, Join) and not self.node.null_equals_null:
            self.pairs = self.node.on


@dataclass(frozen=True, slots=True)
class _Origin:
    """The scan column that a column of a node comes from, and the joins on the path, each with the side."""

    path: Path
    column: str
    joins: tuple[tuple[_Part, int], ...]
    is_grouped: bool


class _Finder:
    """Finds join filters for scans.

    Attributes
    ----------
    filters
        For each scan, the join filters by column.
    """

    def __init__(self, scans: Mapping[Path, tuple[PlannedTable, LogicalScan]]) -> None:
        self.filters: dict[Path, dict[str, JoinFilter]] = {}
        self._scans = scans
        self._rows = {path: table.estimated_rows() for path, (table, _) in scans.items()}
        self._conditions: dict[Path, Predicate | None] = {}

    def find(self, plan: PlanNode) -> None:
        """Find the keys of all joins of a plan, from top to bottom."""
        if not any(rows is not None and rows >= _LEAST_ROWS for rows in self._rows.values()):
            return
        pending = [_Part(plan)]
        while pending:
            part = pending.pop()
            pending += part.inputs
            for side in _FILTERED_SIDES.get(part.node.how, ()) if isinstance(part.node, Join) else ():
                for pair in part.pairs:
                    self._look(part, pair, side)

    def _look(self, part: _Part, pair: tuple[Any, Any], side: int) -> None:
        filtered = _origin(part.inputs[side], pair[side], commutes=True)
        rows = None if filtered is None else self._rows.get(filtered.path)
        if filtered is None or rows is None or rows < _LEAST_ROWS:
            return
        keys = self._keys(part.inputs[1 - side], pair[1 - side], filtered, 0)
        if keys is not None:
            applies = side == 0 or self._is_costly(filtered)
            filters = self.filters.setdefault(filtered.path, {})
            filters.setdefault(filtered.column, JoinFilter(filtered.column, (keys,), applies))

    def _keys(self, side: _Part, key: Any, filtered: _Origin, depth: int) -> JoinKeys | None:
        """Return the keys of one side of a join, if they are few and a condition removes some of them."""
        rows = self._rows.get(filtered.path)
        origin = _origin(side, key, commutes=False)
        if origin is None or rows is None or origin.path not in self._scans or depth == _MAX_DEPTH:
            return None
        table, _ = self._scans[origin.path]
        most = max(_MOST_OF_ROWS * rows, min(_FEW_ROWS, _MOST_OF_FEW * rows))
        fewer = table.scan.source.estimated_rows(None)
        if (fewer is not None and fewer > most) or not self._is_same_type(filtered, origin):
            return None
        predicate = self._condition(origin.path)
        # the filters from joins above also hold for this scan, and were found without these keys
        above = self.filters.get(origin.path, {})
        filters = (*above.values(), *self._nested(origin, depth + 1))
        if predicate is None and not filters:
            return None
        keys = JoinKeys(table.scan, origin.column, predicate, filters)
        fewer = keys.estimated_rows()
        return None if fewer is None or fewer > most else keys

    def _condition(self, path: Path) -> Predicate | None:
        """Return the known condition on the rows of a scan."""
        if path not in self._conditions:
            table, scan = self._scans[path]
            # partition values may have decided conjuncts that the plan contained before
            said = (scan_condition(scan, table.stored_schema), table.scan.request.pruning_predicate)
            self._conditions[path] = _known(And(tuple(each for each in said if each is not None)))
        return self._conditions[path]

    def _nested(self, origin: _Origin, depth: int) -> Iterator[JoinFilter]:
        """Yield the join filters that joins below imply for the scan that contains the keys."""
        for part, side in origin.joins:
            if not isinstance(part.node, Join) or side not in _FILTERED_SIDES.get(part.node.how, ()):
                continue
            for pair in part.pairs:
                filtered = _origin(part.inputs[side], pair[side], commutes=True)
                if filtered is None or filtered.path != origin.path:
                    continue
                keys = self._keys(part.inputs[1 - side], pair[1 - side], filtered, depth)
                if keys is not None:
                    yield JoinFilter(filtered.column, (keys,))

    def _is_costly(self, filtered: _Origin) -> bool:
        """Whether rows of a scan are grouped, built on, or joined with many rows before a join drops them."""
        return filtered.is_grouped or any(
            side == 0 or self._may_be_large(part.inputs[1 - side].path) for part, side in filtered.joins
        )

    def _may_be_large(self, above: Path) -> bool:
        """Whether a part of the plan scans a table with many rows."""
        rows = [each for path, each in self._rows.items() if path[: len(above)] == above]
        return not rows or any(each is None or each >= _FEW_ROWS for each in rows)

    def _is_same_type(self, one: _Origin, other: _Origin) -> bool:
        first, second = (_type_of(self._scans[each.path][0], each.column) for each in (one, other))
        return first == second and _is_comparable(first)


def _origin(part: _Part, key: Any, *, commutes: bool) -> _Origin | None:
    """Return the scan column that a join key comes from; None if it is computed or not known.

    Parameters
    ----------
    commutes
        Whether the scan must be able to skip the rows that the join drops because of this column.
    """
    name = qualified_name(key) if is_column(key) else None
    joins: list[tuple[_Part, int]] = []
    is_grouped = False
    while name is not None:
        if part.columns.count(name) != 1:
            return None
        node, index, number = part.node, part.columns.index(name), 0
        match node:
            case Scan():
                returned = node.projection
                if len(returned) != len(part.columns):
                    return None
                return _Origin(part.path, returned[index], tuple(joins), is_grouped)
            case Filter():
                pass
            case Projection():
                name = qualified_name(node.expressions[index])
            case SubqueryAlias() if len(part.inputs[0].columns) == len(part.columns):
                name = part.inputs[0].columns[index]
            case Sort() if node.fetch is None or not commutes:
                pass
            case Limit() if not commutes:
                pass
            case Aggregate() if not node.has_grouping_sets and index < len(node.groups):
                name, is_grouped = qualified_name(node.groups[index]), True
            case Join():
                owners = [each for each, below in enumerate(part.inputs) if name in below.columns]
                if len(owners) != 1 or (commutes and owners[0] not in _PRESERVED_SIDES.get(node.how, ())):
                    return None
                (number,) = owners
                joins.append((part, number))
            case _:
                return None
        part = part.inputs[number]
    return None


def _known(condition: Predicate | None) -> Predicate | None:
    """Return the parts of a condition that can be evaluated; None if there are none."""
    match condition:
        case And(parts):
            known = tuple(each for each in map(_known, parts) if each is not None)
            return And(known) if known else None
        case Or(parts):
            known = tuple(each for each in map(_known, parts) if each is not None)
            return Or(known) if len(known) == len(parts) else None
        case None:
            return None
        case _:
            return None if has_unknown(condition) else condition


def _type_of(table: PlannedTable, column: str) -> pa.DataType | None:
    stored = table.scan.source.arrow_schema  # without system columns, which predicates do not refer to
    return stored.field(column).type if stored.names.count(column) == 1 else None


def _is_comparable(data_type: pa.DataType | None) -> bool:
    """Whether values of a type are equal if and only if their bytes are equal."""
    return data_type is not None and (
        pa.types.is_integer(data_type)
        or pa.types.is_date(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_timestamp(data_type)
    )
