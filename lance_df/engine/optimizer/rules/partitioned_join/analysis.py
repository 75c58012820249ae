"""Find the parts of a logical plan that can be computed partition by partition.

A part is *divisible* by a function of its keys if it can be computed separately for the rows of each value of
the function, and the result is the union of these results. A scan is divisible by every function of its
columns. Filters and projections preserve this. A join is divisible by functions of the columns that it
equates, because matching rows have the same value. An aggregation or a window is divisible by functions of
the columns that it groups by. In a row that an outer join fills with NULLs, the columns of the missing side
do not show the row's value. Above an outer join, only columns of the preserved side are therefore keys.

`lance_df.namespace.joins.compatibility` decides which functions follow from partition values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.compute.compat import Expr, PlainSessionContext
from lance_df.compute.expressions import qualified_name, uncast
from lance_df.engine.plans.logical_scans import LogicalScan
from lance_df.engine.plans.nodes import (
    Aggregate,
    Filter,
    Join,
    PlanNode,
    Projection,
    Scan,
    SubqueryAlias,
    Window,
    frame_of,
)
from lance_df.engine.plans.walks import Path
from lance_df.engine.pruning.predicates import scan_condition
from lance_df.namespace.joins.compatibility import Grouping, JoinSide, common_grouping
from lance_df.namespace.joins.key_types import keeps_apart, key_class
from lance_df.namespace.member_subset import MemberSubset
from lance_df.namespace.pruning.selected_members import selected_members
from lance_df.namespace.pruning.spec_members import spec_numbers
from lance_df.records import dataclass
from lance_df.scan.request import Rows

if TYPE_CHECKING:
    from lance_df.engine.statement import PlannedTable
    from lance_df.namespace.snapshot import NamespaceSnapshot

    Flags = npt.NDArray[np.bool_]
    IsEmpty = Callable[[Sequence[Flags]], Flags]


class _Rule(NamedTuple):
    """Which sides of a join still show the keys of its rows, and which sides, if empty, make it empty."""

    left: bool
    right: bool
    empty: str
    null_free: bool = False


_RULES: Final[Mapping[str, _Rule]] = {
    "Inner": _Rule(True, True, "either"),
    "Left": _Rule(True, False, "left"),
    "Right": _Rule(False, True, "right"),
    "Full": _Rule(False, False, "both"),
    "LeftSemi": _Rule(True, False, "either"),
    "RightSemi": _Rule(False, True, "either"),
    "LeftAnti": _Rule(True, False, "left"),
    "RightAnti": _Rule(False, True, "right"),
    "LeftMark": _Rule(True, False, "left", null_free=True),
    "RightMark": _Rule(False, True, "right", null_free=True),
}


@dataclass(frozen=True, slots=True)
class JoinedScan:
    """A scan of a namespace in a part. ``needed`` marks the members that its filters leave."""

    table: PlannedTable
    snapshot: NamespaceSnapshot
    needed: Flags
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Key:
    """Columns, one of each scan, that are equal in every row. ``names`` are those that rows still contain."""

    columns: tuple[int, ...]
    names: Mapping[str, pa.DataType]


@dataclass(frozen=True, slots=True)
class Part:
    """A divisible part of a plan.

    Attributes
    ----------
    is_empty
        A function that returns whether the part is empty in each group, given whether each scan is empty in
        each group.
    joins, groupings
        DataFusion's texts of its joins, and of its aggregations and windows.
    grouped_by
        The columns of the first scan by which the first aggregation groups, without nested columns; empty if
        there is no aggregation.
    grouping, sides
        The groups of the members of each namespace, and for each scan the number of its namespace.
    """

    path: Path
    node: PlanNode
    scans: tuple[JoinedScan, ...]
    keys: tuple[_Key, ...]
    is_empty: IsEmpty
    joins: tuple[str, ...] = ()
    groupings: tuple[str, ...] = ()
    grouped_by: tuple[str, ...] = ()
    grouping: Grouping | None = None
    sides: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """DataFusion's texts of its joins, or, if there are none, of its last aggregation or window."""
        return self.joins or self.groupings[-1:]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The divisible parts of a plan, and the other steps with the reasons why they are not divisible."""

    parts: tuple[Part, ...]
    refused: tuple[tuple[str, str], ...]


def divisible_parts(
    ctx: PlainSessionContext,
    tables: Sequence[PlannedTable],
    plan: PlanNode,
    scans: Sequence[LogicalScan],
    *,
    not_in: bool,
) -> Analysis:
    """Return the largest divisible parts of an optimized plan that contain a join, aggregation or window.

    Parameters
    ----------
    tables
        The tables that the plan reads.
    scans
        All scans of the plan.
    not_in
        Whether the statement may contain a ``NOT IN (SELECT …)`` that the optimized plan does not show.
    """
    walk = _Walk(ctx, tables, {scan.path: scan for scan in scans}, not_in)
    walk.close(walk.visit(plan, ()))
    return Analysis(tuple(walk.parts), tuple(dict.fromkeys(walk.refused)))


class _Walk:
    def __init__(
        self,
        ctx: PlainSessionContext,
        tables: Sequence[PlannedTable],
        scans: Mapping[Path, LogicalScan],
        not_in: bool,
    ) -> None:
        self._ctx = ctx
        self._tables = tables
        self._scans = scans
        self._not_in = not_in
        self.parts: list[Part] = []
        self.refused: list[tuple[str, str]] = []

    def close(self, part: Part | None) -> None:
        """End a part, because the node above it is not divisible."""
        if part is not None and part.steps:
            self.parts.append(part)

    def visit(self, node: PlanNode, path: Path) -> Part | None:
        inputs = [self.visit(child, (*path, number)) for number, child in enumerate(node.inputs)]
        part = None
        if not node.has_subquery:  # a subquery may read tables that must not be divided
            if isinstance(node, Scan):
                part = self._scan(node, path)
            elif isinstance(node, Join) and len(inputs) == 2:
                part = self._join(node, inputs[0], inputs[1])
            elif len(inputs) == 1 and inputs[0] is not None:
                part = self._above(node, inputs[0])
        if part is not None:
            return replace(part, path=path, node=node)
        for each in inputs:
            self.close(each)
        return None

    def _scan(self, node: Scan, path: Path) -> Part | None:
        tables = [table for table in self._tables if table.is_called(node.table)]
        if len(tables) != 1 or node.fetch is not None or path not in self._scans:
            return None
        snapshot: NamespaceSnapshot | None = tables[0].scan.source.namespace
        if snapshot is None:
            return None
        columns = snapshot.manifest.schema.columns
        projected, names = tuple(node.projection), node.columns
        output = tables[0].scan.request.output
        calls = () if isinstance(output, Rows) else output.calls
        made = {call.name: call.column for call in calls}
        if len(projected) != len(names) or any(
            each not in columns.names for each in projected if each not in made
        ):
            return None
        stored = [
            (columns.field(each), name)
            for each, name in zip(projected, names, strict=True)
            if each not in made
        ]
        keys = tuple(
            _Key((field.id,), {name: field.arrow_type()}) for field, name in stored if names.count(name) == 1
        )
        needed = np.ones(len(snapshot.manifest.members), bool)
        condition = scan_condition(self._scans[path], tables[0].stored_schema)
        if condition is not None:
            needed[:] = False
            needed[selected_members(snapshot.manifest, condition).positions] = True
        needed = _without_emptied(snapshot, needed)
        read = (made.get(name, name) for name in projected)
        stored_names = tuple(dict.fromkeys(name for name in read if name is not None))
        scan = JoinedScan(tables[0], snapshot, needed, stored_names)
        return Part(path, node, (scan,), keys, lambda empty: empty[0])

    def _above(self, node: PlanNode, part: Part) -> Part | None:
        match node:
            case Filter():
                return part
            case SubqueryAlias():
                return _renamed(part, list(zip(part.node.columns, node.columns, strict=True)))
            case Projection():
                pairs = zip(map(qualified_name, node.expressions), node.columns, strict=True)
                return _renamed(part, [(name, new) for name, new in pairs if name is not None])
            case Aggregate():
                return self._aggregate(node, part)
            case Window():
                return self._window(node, part)
            case _:
                return None

    def _aggregate(self, node: Aggregate, part: Part) -> Part | None:
        groups = node.groups
        if not groups:
            return None
        if node.has_grouping_sets:
            self._refuse(node, part, "grouping sets need the rows of all partitions")
            return None
        names = node.columns[: len(groups)]
        pairs = [(name, new) for name, new in zip(map(qualified_name, groups), names, strict=True) if name]
        limited = self._limited(node, _renamed(part, pairs))
        if limited is None or part.groupings:
            return limited
        columns = part.scans[0].snapshot.manifest.schema.columns.by_id()
        fields = [columns[key.columns[0]] for key in limited.keys]
        plain = (field.name for field in fields if key_class(field.arrow_type()) is not None)
        return replace(limited, grouped_by=tuple(plain))

    def _window(self, node: Window, part: Part) -> Part | None:
        columns = [set(map(qualified_name, keys)) for keys in node.partitions]
        common = set.intersection(*columns) if columns else set()
        return self._limited(node, _renamed(part, [(name, name) for name in common if name is not None]))

    def _limited(self, node: PlanNode, part: Part) -> Part | None:
        """Return the part if it is divisible by functions of the keys that it still shows."""
        shown = replace(part, keys=tuple(key for key in part.keys if key.names))
        grouped = self._grouped(shown)
        if isinstance(grouped, str):
            self._refuse(node, part, grouped)
            return None
        return replace(grouped, groupings=(*part.groupings, node.shown))

    def _refuse(self, node: PlanNode, part: Part, why: str) -> None:
        """Record why a namespace's rows are not grouped by partition. Joins record their own reasons."""
        if not part.steps:
            self.refused.append((node.shown, why))

    def _join(self, node: Join, left: Part | None, right: Part | None) -> Part | None:
        shown = node.shown
        rule = _RULES.get(node.how)
        if left is None or right is None:
            if left is not None or right is not None:
                self.refused.append((shown, "one side is not partitioned, or cannot be divided by its keys"))
            return None
        if rule is None:
            self.refused.append((shown, "this kind of join is not supported"))
            return None
        matched = self._matched(node, rule, left, right)
        if isinstance(matched, str):
            self.refused.append((shown, matched))
            return None
        # a NULL in any partition then affects all rows
        is_null_aware = rule.null_free or node.may_be_null_aware(self._not_in)
        if is_null_aware and self._may_meet_null(matched, node):
            self.refused.append(
                (shown, "NOT IN depends on NULL keys of all partitions, and its keys may be NULL")
            )
            return None
        return matched

    def _matched(self, node: Join, rule: _Rule, left: Part, right: Part) -> Part | str:
        keys = []
        for pair in node.on:
            sides = [self._key(expr, part) for expr, part in zip(pair, (left, right), strict=True)]
            if sides[0] is None or sides[1] is None:
                continue
            (one, types), (other, others) = sides[0], sides[1]
            if key_class(types[0]) != key_class(others[0]) or key_class(types[0]) is None:
                return f"keys of the types {types[0]} and {others[0]} are partitioned differently"
            if not (keeps_apart(types) and keeps_apart(others)):
                return f"keys of the types {types[0]} and {others[0]} are compared as {types[-1]}"
            names = {**(one.names if rule.left else {}), **(other.names if rule.right else {})}
            keys.append(_Key((*one.columns, *other.columns), names))
        if not keys:
            return "it does not compare columns of the two sides with ="
        split = len(left.scans)

        def is_empty(empty: Sequence[Flags]) -> Flags:
            sides = left.is_empty(empty[:split]), right.is_empty(empty[split:])
            if rule.empty == "either":
                return sides[0] | sides[1]
            if rule.empty == "both":
                return sides[0] & sides[1]
            return sides[rule.empty == "right"]

        part = Part((), node, (*left.scans, *right.scans), tuple(keys), is_empty)
        joins = (*left.joins, *right.joins, node.shown)
        return self._grouped(replace(part, joins=joins, groupings=(*left.groupings, *right.groupings)))

    def _key(self, expr: Any, part: Part) -> tuple[_Key, list[pa.DataType]] | None:
        """Return the key that an expression refers to, and the types from its column to the expression."""
        column, casts = uncast(expr)
        name = qualified_name(column)
        key = next((key for key in part.keys if name in key.names), None)
        if key is None or name is None:
            return None
        types = [key.names[name]]
        if casts:
            frame = frame_of(self._ctx, part.node)
            types += [frame.select(Expr(cast)).schema().field(0).type for cast in reversed(casts)]
        return key, types

    def _may_meet_null(self, part: Part, node: Join) -> bool:
        if len(node.on) != len(part.keys) or node.filter is not None:
            return True
        sides = _sides(part.scans, part.keys)
        if isinstance(sides, str):
            return True
        return any(side.may_hold_null(key) for side in sides[0] for key in range(len(part.keys)))

    def _grouped(self, part: Part) -> Part | str:
        """Return the part with its groups, or the reason why there are none."""
        if not part.keys:
            return "none of the columns that it groups by is an unchanged column of the table"
        sides = _sides(part.scans, part.keys)
        if isinstance(sides, str):
            return sides
        grouping = common_grouping(sides[0])
        if isinstance(grouping, str):
            return grouping
        return replace(part, grouping=grouping, sides=sides[1])


def _without_emptied(snapshot: NamespaceSnapshot, needed: Flags) -> Flags:
    """Leave out members of older specs that have no rows, which a repartition leaves behind.

    Otherwise their specs would count, and these have less in common with the specs of other namespaces than
    the newest spec has.
    """
    older = spec_numbers(snapshot.manifest) != snapshot.manifest.specs.current.id
    older &= needed
    if not older.any():
        return needed
    return needed & (~older | (MemberSubset(snapshot, older).member_rows() > 0))


def _sides(scans: Sequence[JoinedScan], keys: Sequence[_Key]) -> tuple[list[JoinSide], tuple[int, ...]] | str:
    """Return the distinct namespaces of some scans, and for each scan the number of its namespace."""
    numbers: dict[int, int] = {}
    sides: list[JoinSide] = []
    for position, scan in enumerate(scans):
        columns = tuple(key.columns[position] for key in keys)
        number = numbers.setdefault(scan.table.key, len(sides))
        if number == len(sides):
            sides.append(JoinSide(scan.snapshot.manifest, scan.needed, columns))
            continue
        known = sides[number]
        if known.keys != columns:
            return "a table is joined with itself on different columns"
        sides[number] = JoinSide(known.manifest, known.needed | scan.needed, columns)
    return sides, tuple(numbers[scan.table.key] for scan in scans)


def _renamed(part: Part, names: Sequence[tuple[str, str]]) -> Part:
    """Return the part with the new names of its columns. Columns that are not listed are dropped."""
    new_names = [new for _, new in names]

    def renamed(key: _Key) -> _Key:
        shown = {
            new: key.names[name] for name, new in names if name in key.names and new_names.count(new) == 1
        }
        return _Key(key.columns, shown)

    return replace(part, keys=tuple(map(renamed, part.keys)))


def needed_groups(part: Part) -> Iterator[int]:
    """Yield the groups in which the part may have rows."""
    grouping = part.grouping
    if grouping is None:
        return
    empty = []
    for scan, side in zip(part.scans, part.sides, strict=True):
        codes = grouping.codes[side][scan.needed]
        empty.append(np.bincount(codes, minlength=grouping.num_groups) == 0)
    yield from np.flatnonzero(~part.is_empty(empty)).tolist()
