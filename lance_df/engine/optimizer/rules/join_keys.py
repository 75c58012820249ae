"""Leave rows out of the scan of a large table that a join with a filtered smaller one drops.

A row of one side of an inner join is in no result unless the other side has its key. Where the table that the
other side's keys come from is small, and filtered, the scan gets a `JoinFilter`: it reads these keys when it
begins, which prunes pages. To look up the key of each row takes as long as to join it with a small table, so
that is done where other work on the rows is saved. The join stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias

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
    node_of,
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

    _Side: TypeAlias = tuple[PlanNode, Path]

# with fewer rows a scan takes less than to read keys
_LEAST_ROWS: Final = 50_000
# the smaller table has at most so many rows, or this part of those of the larger one
_FEW_ROWS: Final = 100_000
_MOST_OF_FEW: Final = 1 / 4
_MOST_OF_ROWS: Final = 1 / 16
_MAX_DEPTH: Final = 3  # of keys that are filtered by keys
# by kind of join, the sides (0 is the left one) of which rows that the other has no key for are in no result
_FILTERED_SIDES: Final = {
    "Inner": (0, 1),
    "Left": (1,),
    "Right": (0,),
    "LeftSemi": (0, 1),
    "RightSemi": (0, 1),
}
# and those of which each row is in the result, or is not, whatever other rows of its side are
_KEPT_SIDES: Final = {
    "Inner": (0, 1),
    **dict.fromkeys(("Left", "LeftSemi", "LeftAnti"), (0,)),
    **dict.fromkeys(("Right", "RightSemi", "RightAnti"), (1,)),
}


def join_keys(planned: Planned, context: Context) -> Planned | None:  # noqa: ARG001 - as all rules
    """Let scans leave out rows by the keys of other tables."""
    known = [(table, scan) for table, scans in planned.scans_of_tables() for scan in scans]
    finder = _Finder({scan.path: (table, scan) for table, scan in known})
    finder.find(planned.optimized)
    changed = {}
    for table, scans in planned.scans_of_tables():
        filters = _of_all([finder.found.get(scan.path, {}) for scan in scans])
        if filters and isinstance(table.scan.request.output, Rows):
            changed[table.key] = replace(table.scan, join_filters=filters)
    if not changed:
        return None
    return replace(planned, tables=planned.requesting(changed))


def _of_all(by_scan: Sequence[Mapping[str, JoinFilter]]) -> tuple[JoinFilter, ...]:
    """Return conditions on rows that any of some scans of one table returns."""
    if not by_scan:
        return ()
    columns = [column for column in by_scan[0] if all(column in found for found in by_scan)]
    merged = ([found[column] for found in by_scan] for column in columns)
    return tuple(
        JoinFilter(
            filters[0].column,
            tuple(keys for each in filters for keys in each.keys),
            all(each.applies for each in filters),
        )
        for filters in merged
    )


@dataclass(frozen=True, slots=True)
class _Origin:
    """The column of a scan that a column of a node is, and the joins on the way, each with the side."""

    path: Path
    column: str
    joins: tuple[tuple[Join, Path, int], ...]
    is_grouped: bool


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds what filters scans.

    Attributes
    ----------
    scans
        Those that are known, by their paths.
    found
        For each scan, by columns, the keys that its rows may have.
    """

    scans: Mapping[Path, tuple[PlannedTable, LogicalScan]]
    found: dict[Path, dict[str, JoinFilter]] = field(default_factory=dict)

    def find(self, plan: Any) -> None:
        """Look at all joins of a plan, each before those below it."""
        pending: list[_Side] = [(node_of(plan), ())]
        while pending:
            node, path = pending.pop()
            sides = _inputs(node, path)
            pending += sides
            if not isinstance(node, Join) or node.null_equals_null:
                continue
            for side in _FILTERED_SIDES.get(node.how, ()):
                for pair in node.on:
                    filtered = _origin(sides[side], pair[side], commutes=True)
                    if filtered is None or filtered.path not in self.scans:
                        continue
                    keys = self._keys(sides[1 - side], pair[1 - side], 0)
                    if keys is not None and self._pays(filtered, *keys):
                        applies = side == 0 or self._is_costly(filtered)
                        found = self.found.setdefault(filtered.path, {})
                        found.setdefault(filtered.column, JoinFilter(filtered.column, (keys[1],), applies))

    def _pays(
        self, filtered: _Origin, origin: _Origin, keys: JoinKeys, least_rows: int | None = None
    ) -> bool:
        """Whether the scan is large beside the one that has the keys, and both have the same type."""
        least = _LEAST_ROWS if least_rows is None else least_rows
        rows, fewer = self.scans[filtered.path][0].estimated_rows(), keys.estimated_rows()
        if rows is None or fewer is None or rows < least:
            return False
        if fewer > max(_MOST_OF_ROWS * rows, min(_FEW_ROWS, _MOST_OF_FEW * rows)):
            return False
        return self._is_same_type(filtered, origin)

    def _keys(self, side: _Side, key: Any, depth: int) -> tuple[_Origin, JoinKeys] | None:
        """Return the keys of one side of a join if something leaves out some of them."""
        origin = _origin(side, key, commutes=False)
        if origin is None or origin.path not in self.scans or depth == _MAX_DEPTH:
            return None
        table, scan = self.scans[origin.path]
        # values of partitions may have decided what the plan said before
        said = (scan_condition(scan, table.stored_schema), table.scan.request.pruning_predicate)
        predicate = _known(And(tuple(each for each in said if each is not None)))
        # what joins above have found holds for the scan too, and has been found without these keys
        above = self.found.get(origin.path, {})
        filters = (*above.values(), *self._nested(origin, depth + 1))
        if predicate is None and not filters:
            return None
        return origin, JoinKeys(table.scan, origin.column, predicate, filters)

    def _nested(self, origin: _Origin, depth: int) -> Iterator[JoinFilter]:
        """Yield what joins below say of the rows of the scan that has keys."""
        for join, path, side in origin.joins:
            if side not in _FILTERED_SIDES.get(join.how, ()) or join.null_equals_null:
                continue
            sides = _inputs(join, path)
            for pair in join.on:
                filtered = _origin(sides[side], pair[side], commutes=True)
                if filtered is None or filtered.path != origin.path:
                    continue
                keys = self._keys(sides[1 - side], pair[1 - side], depth)
                if keys is not None and self._pays(filtered, *keys, least_rows=0):
                    yield JoinFilter(filtered.column, (keys[1],))

    def _is_costly(self, filtered: _Origin) -> bool:
        """Whether rows of a scan are grouped, built on, or joined with many, before they are left out."""
        return filtered.is_grouped or any(
            side == 0 or self._may_be_large((*path, 1 - side)) for _, path, side in filtered.joins
        )

    def _may_be_large(self, above: Path) -> bool:
        """Whether a part of the plan scans a table of many rows."""
        scans = [table for path, (table, _) in self.scans.items() if path[: len(above)] == above]
        rows = [table.estimated_rows() for table in scans]
        return not rows or any(each is None or each >= _FEW_ROWS for each in rows)

    def _is_same_type(self, one: _Origin, other: _Origin) -> bool:
        first, second = (_type_of(self.scans[each.path][0], each.column) for each in (one, other))
        return first == second and _is_comparable(first)


def _origin(side: _Side, key: Any, *, commutes: bool) -> _Origin | None:
    """Return the column of a scan that the key of a join is; None if it is computed, or that is not known.

    Parameters
    ----------
    commutes
        Whether rows that are left out above, by that column, can be left out of the scan.
    """
    name = qualified_name(key) if is_column(key) else None
    node, path = side
    joins: list[tuple[Join, Path, int]] = []
    is_grouped = False
    while name is not None:
        columns = node.columns
        if columns.count(name) != 1:
            return None
        index, number = columns.index(name), 0
        match node:
            case Scan():
                returned = node.projection
                if len(returned) != len(columns):
                    return None
                return _Origin(path, returned[index], tuple(joins), is_grouped)
            case Filter():
                pass
            case Projection():
                name = qualified_name(node.expressions[index])
            case SubqueryAlias():
                name = node_of(node.inputs[0]).columns[index]
            case Sort() if node.fetch is None or not commutes:
                pass
            case Limit() if not commutes:
                pass
            case Aggregate() if not node.has_grouping_sets and index < len(node.groups):
                name, is_grouped = qualified_name(node.groups[index]), True
            case Join():
                owners = [
                    each for each, (below, _) in enumerate(_inputs(node, path)) if name in below.columns
                ]
                if len(owners) != 1 or (commutes and owners[0] not in _KEPT_SIDES.get(node.how, ())):
                    return None
                (number,) = owners
                joins.append((node, path, number))
            case _:
                return None
        node, path = _inputs(node, path)[number]
    return None


def _inputs(node: PlanNode, path: Path) -> list[_Side]:
    return [(node_of(each), (*path, number)) for number, each in enumerate(node.inputs)]


def _known(condition: Predicate | None) -> Predicate | None:
    """Return what a condition says that can be evaluated; None for nothing."""
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
    field = table.scan.source.arrow_schema.field(column) if column in table.stored_schema.names else None
    return None if field is None else field.type


def _is_comparable(data_type: pa.DataType | None) -> bool:
    """Whether values of a type are equal if and only if their bytes are."""
    return data_type is not None and (
        pa.types.is_integer(data_type)
        or pa.types.is_date(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_timestamp(data_type)
    )
