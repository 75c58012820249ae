"""Which partitions a predicate leaves: those that no version of the spec proves to hold no match.

Spec: partitioning, "Partition Pruning". Every spec version is judged by its own fields; what a spec does not
say keeps a partition. The projection of the predicate on the partition columns is evaluated over all of them,
one conjunct after the other; what the values of those that are left prove is found by reasoning with bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError
from lance_df.expr.bounds import Match, classify
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.expr.simplify import simplify
from lance_df.expr.terms import columns_of, replaced
from lance_df.expr.walk import columns, conjuncts, has_unknown
from lance_df.namespace.distinct_members import check_distinct
from lance_df.namespace.pruning.partition_bounds import partition_bounds, shared_values
from lance_df.namespace.pruning.projection import Projector
from lance_df.namespace.pruning.spec_members import SpecMembers, members_by_spec
from lance_df.records import dataclass
from lance_df.sql.predicate_text import column_sql
from lance_df.sql.term_text import term_sql

if TYPE_CHECKING:
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema


@dataclass(frozen=True, slots=True)
class KeptMembers:
    """The members that may hold a match, and what is left to be asked of the rows of each.

    Attributes
    ----------
    places
        Their rows in ``manifest.members``, ascending.
    choices
        For each the place in ``residuals`` of what its partition values do not prove.
    residuals
        None where nothing is left.
    """

    places: npt.NDArray[np.intp]
    choices: npt.NDArray[np.intp]
    residuals: Sequence[Predicate | None]

    @property
    def matches(self) -> npt.NDArray[np.int8]:
        """A `Match` for each: whether all rows satisfy the predicate, or some may."""
        proven = np.array([each is None for each in self.residuals], dtype=np.bool_)
        return np.where(proven[self.choices], Match.MUST, Match.MIGHT).astype(np.int8)


def kept_members(
    manifest: NamespaceManifest, predicate: Predicate | None, hint: Predicate | None = None
) -> KeptMembers:
    """Return the members that may have rows that satisfy a predicate, and a hint besides.

    Parameters
    ----------
    predicate
        On columns of the namespace's schema; None for all rows.
    hint
        What rows that are needed fulfil too; it prunes and is not to be applied.

    Raises
    ------
    CorruptDataError
        A member belongs to no spec version, or is there twice.
    """
    asked = conjuncts(simplify(predicate)) if predicate is not None else ()
    told = conjuncts(simplify(hint)) if hint is not None else ()
    condition = And((*asked, *(part for part in told if part not in asked)))
    residuals: dict[int, int] = {}
    places, choices = [], []
    for members in members_by_spec(manifest):
        kept = matching_members(members, Projector(members.spec, manifest.schema).project(condition))
        may_match, codes = _proven(asked, members, manifest.schema, kept)
        if members.unproven is not None:
            may_match |= members.unproven[kept]
            codes[members.unproven[kept]] = 0
        places.append(members.places[kept[may_match]])
        distinct, inverse = np.unique(codes[may_match], return_inverse=True)
        numbers = [residuals.setdefault(code, len(residuals)) for code in distinct.tolist()]
        choices.append(np.array(numbers, dtype=np.intp)[inverse])
    left = [_left_of(asked, code) for code in residuals]
    if len(places) == 1:
        check_distinct(manifest, places[0])
        return KeptMembers(places[0], choices[0], left)
    together = np.concatenate([np.empty(0, np.intp), *places])
    order = np.argsort(together, kind="stable")
    check_distinct(manifest, together[order])
    return KeptMembers(together[order], np.concatenate([np.empty(0, np.intp), *choices])[order], left)


def judged_members(manifest: NamespaceManifest, predicate: Predicate) -> npt.NDArray[np.int8]:
    """Return a `Match` for each row of ``manifest.members``: whether none of its rows, or all, satisfy.

    Parameters
    ----------
    predicate
        On columns of the namespace's schema; it may hold `Unknown`.

    Raises
    ------
    CorruptDataError
        A member belongs to no spec version, or is there twice.
    """
    found = np.full(len(manifest.members), Match.CANNOT, dtype=np.int8)
    kept = kept_members(manifest, predicate)
    found[kept.places] = kept.matches
    return found


def matching_members(members: SpecMembers, projected: Predicate) -> npt.NDArray[np.intp]:
    """Return the positions of members whose partition values fulfil a predicate on partition columns.

    Those from whose values nothing follows are among them.
    """
    kept: npt.NDArray[np.intp] | None = None
    for part in sorted(conjuncts(simplify(projected)), key=_cost):
        count = len(members) if kept is None else len(kept)
        if not count:
            break
        found = np.flatnonzero(_truth(part, _Values(members, kept), count))
        kept = found if kept is None else kept[found]
    if kept is not None and members.unproven is not None:
        kept = np.union1d(kept, np.flatnonzero(members.unproven))
    return np.arange(len(members)) if kept is None else kept


class _Values(dict[str, pa.Array]):
    """The partition values of some members, gathered when they are asked for."""

    def __init__(self, members: SpecMembers, kept: npt.NDArray[np.intp] | None) -> None:
        super().__init__()
        self._members = members
        self._kept = None if kept is None or len(kept) == len(members) else kept

    def __missing__(self, name: str) -> pa.Array:
        values = self._members.values[name]
        if self._kept is not None:
            is_one = len(self._kept) == 1
            values = values.slice(self._kept[0], 1) if is_one else values.take(pa.array(self._kept))
        self[name] = values
        return values


def _truth(predicate: Predicate, values: _Values, count: int) -> npt.NDArray[np.bool_]:
    """Return where a predicate on partition columns is true; what cannot be computed may be true anywhere."""
    computed: dict[tuple[str, ...], pa.Array] = {}
    known = _with_computed(predicate, values, computed)
    needed = {path: values[path[0]] for path in columns(known) if path not in computed}
    return _is_true(evaluate(known, {**computed, **needed}, count))


def _is_true(truth: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    valid, values = truth.buffers()
    stop = truth.offset + len(truth)
    bits = np.unpackbits(np.frombuffer(values, np.uint8), count=stop, bitorder="little")
    if truth.null_count:
        bits &= np.unpackbits(np.frombuffer(valid, np.uint8), count=stop, bitorder="little")
    return bits[truth.offset :].view(np.bool_)


def _with_computed(
    predicate: Predicate, values: _Values, computed: dict[tuple[str, ...], pa.Array]
) -> Predicate:
    """Return the predicate with boolean columns, which are added to ``computed``, in place of terms."""
    match predicate:
        case Unknown():
            found = _computed(predicate, values)
            if found is None:
                return Literal(True)
            path = ("", str(len(computed)))
            computed[path] = found
            return Truth(Column(path))
        case And(operands) | Or(operands):
            return type(predicate)(tuple(_with_computed(each, values, computed) for each in operands))
        case _:
            return predicate


def _computed(condition: Unknown, values: _Values) -> pa.Array | None:
    if condition.term is None:
        return None
    names = sorted(path[0] for path in columns_of(condition.term))
    numbered = {name: Column((f"col{number}",)) for number, name in enumerate(names)}
    term = replaced(
        condition.term, lambda part: numbered.get(part.path[0]) if isinstance(part, Column) else None
    )
    try:
        found = evaluator().evaluate(term_sql(term, column_sql), [values[name] for name in names])
    except InvalidInputError:  # it fails for some value, maybe of a partition that another conjunct rules out
        return None
    return found if pa.types.is_boolean(found.type) else None


def _cost(predicate: Predicate) -> int:
    """Return a rank: what narrows the members at the least cost comes first."""
    match predicate:
        case Comparison(_, _, value):
            return 0 if pa.types.is_primitive(value.type) else 1
        case IsNull() | Not() | Truth() | Literal():
            return 1
        case In(_, values):
            return 2 if pa.types.is_primitive(values.type) else 3
        case Unknown():
            return 5
        case _:
            return 4


_MAX_TOLD_APART = 62


def _proven(
    asked: Sequence[Predicate], members: SpecMembers, schema: NamespaceSchema, kept: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return which members may match, and as bits which conjuncts the values of each prove for all rows."""
    may_match = np.ones(len(kept), dtype=np.bool_)
    codes = np.zeros(len(kept), dtype=np.int64)
    if not len(kept):
        return may_match, codes
    values = _Values(members, kept)
    shared = shared_values(members.spec, schema, values, set().union(*map(columns, asked)))
    undecided = []
    for number, part in enumerate(asked[:_MAX_TOLD_APART]):
        truth = _decided(part, shared, len(kept))
        if truth is None:
            undecided.append((number, part))
        else:
            may_match &= truth
            codes |= truth.astype(np.int64) << number
    if undecided:
        wanted = set().union(*(columns(part) for _, part in undecided))
        bounds = partition_bounds(members.spec, schema, values, wanted)
        for number, part in undecided:
            found = classify(part, bounds, len(kept))
            may_match &= found != Match.CANNOT
            codes |= (found == Match.MUST).astype(np.int64) << number
    return may_match, codes


def _decided(
    part: Predicate, shared: Mapping[tuple[str, ...], pa.Array], count: int
) -> npt.NDArray[np.bool_] | None:
    """Return where a predicate is true, if it is on nothing but columns of one value in each partition."""
    if has_unknown(part) or not columns(part) <= shared.keys():
        return None
    try:
        return _is_true(evaluate(part, shared, count))
    except InvalidInputError:  # it compares what does not compare
        return None


def _left_of(asked: Sequence[Predicate], proven: int) -> Predicate | None:
    left = tuple(part for number, part in enumerate(asked) if not proven >> number & 1)
    if not left:
        return None
    return left[0] if len(left) == 1 else And(left)
