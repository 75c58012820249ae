"""Select the partitions that may have rows that satisfy a predicate.

Spec: partitioning, "Partition Pruning". Every spec version is judged by its own fields; a partition is
selected unless its values exclude a match. The projection of the predicate to the partition columns selects
the members. The projection of the negation of a conjunct selects the members in which the conjunct may be
false for some rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df.expr.bounds import Match
from lance_df.expr.nodes import And, Predicate
from lance_df.expr.simplify import simplify
from lance_df.expr.walk import conjuncts
from lance_df.namespace.distinct_members import check_distinct
from lance_df.namespace.pruning.implied import NOTHING
from lance_df.namespace.pruning.manifest_predicate import (
    ManifestPredicate,
    PartitionValues,
    select,
    truth_of,
)
from lance_df.namespace.pruning.projection import Projector, not_true
from lance_df.namespace.pruning.spec_members import SpecMembers, members_by_spec
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.namespace.manifest_table import NamespaceManifest


@dataclass(frozen=True, slots=True)
class SelectedMembers:
    """The members that may have matching rows, and the residual predicate for each.

    Attributes
    ----------
    positions
        The positions of the members in ``manifest.members``, ascending.
    choices
        For each member, the index of its residual in ``residuals``.
    residuals
        The parts of the predicate that partition values do not prove; None if nothing is left.
    predicates
        The predicates that selected the members, for each spec version that has members.
    """

    positions: npt.NDArray[np.intp]
    choices: npt.NDArray[np.intp]
    residuals: Sequence[Predicate | None]
    predicates: tuple[ManifestPredicate, ...] = ()

    @property
    def matches(self) -> npt.NDArray[np.int8]:
        """A `Match` for each member: whether all rows satisfy the predicate, or some may."""
        proven = np.array([each is None for each in self.residuals], dtype=np.bool_)
        return np.where(proven[self.choices], Match.MUST, Match.MIGHT).astype(np.int8)


def selected_members(
    manifest: NamespaceManifest,
    predicate: Predicate | None,
    pruning_predicate: Predicate | None = None,
    *,
    proves_conjuncts: bool = True,
) -> SelectedMembers:
    """Return the members that may have rows that satisfy both a predicate and a pruning predicate.

    Parameters
    ----------
    predicate
        On columns of the namespace's schema; None for all rows.
    pruning_predicate
        A predicate that all needed rows satisfy; it only prunes and is not evaluated on rows.
    proves_conjuncts
        Whether the residuals leave out what partition values prove.

    Raises
    ------
    CorruptDataError
        A member belongs to no spec version, or is duplicated.
    """
    parts = conjuncts(simplify(predicate)) if predicate is not None else ()
    pruning = conjuncts(simplify(pruning_predicate)) if pruning_predicate is not None else ()
    condition = And((*parts, *(part for part in pruning if part not in parts)))
    provable = parts if proves_conjuncts else ()
    residuals: dict[int, int] = {}
    positions, choices, predicates = [], [], []
    for members in members_by_spec(manifest):
        projector = Projector.of(members.spec, manifest.schema)
        predicate_of_spec, selected = select(projector.project(condition), members, projector.derivations)
        predicates.append(predicate_of_spec)
        positions.append(members.positions[selected])
        codes = _proven(provable, members, projector, selected)
        distinct, inverse = np.unique(codes, return_inverse=True)
        numbers = [residuals.setdefault(code, len(residuals)) for code in distinct.tolist()]
        choices.append(np.array(numbers, dtype=np.intp)[inverse])
    left = [_left_of(parts, code) for code in residuals]
    if len(positions) == 1:
        check_distinct(manifest, positions[0])
        return SelectedMembers(positions[0], choices[0], left, tuple(predicates))
    together = np.concatenate([np.empty(0, np.intp), *positions])
    order = np.argsort(together, kind="stable")
    check_distinct(manifest, together[order])
    together_choices = np.concatenate([np.empty(0, np.intp), *choices])
    return SelectedMembers(together[order], together_choices[order], left, tuple(predicates))


def judged_members(manifest: NamespaceManifest, predicate: Predicate) -> npt.NDArray[np.int8]:
    """Return a `Match` for each row of ``manifest.members``: whether none, some or all of its rows match.

    Parameters
    ----------
    predicate
        On columns of the namespace's schema; it may hold `Unknown`.

    Raises
    ------
    CorruptDataError
        A member belongs to no spec version, or is duplicated.
    """
    matches = np.full(len(manifest.members), Match.CANNOT, dtype=np.int8)
    selected = selected_members(manifest, predicate)
    matches[selected.positions] = selected.matches
    return matches


_MAX_CONJUNCTS = 62


def _proven(
    parts: Sequence[Predicate], members: SpecMembers, projector: Projector, selected: npt.NDArray[np.intp]
) -> npt.NDArray[np.int64]:
    """Return a bit mask of the conjuncts that the partition values of each selected member prove.

    A conjunct is proven for all rows of a member if the projection of its negation does not select the
    member.
    """
    codes = np.zeros(len(selected), dtype=np.int64)
    opposites = projector.of_transforms()
    values = PartitionValues(members, selected)
    for number, part in enumerate(parts[:_MAX_CONJUNCTS]) if len(selected) else ():
        if projector.is_exact(part):
            codes |= 1 << number
            continue
        opposite = simplify(opposites.project(not_true(part)))
        if opposite != NOTHING:
            _, may_fail = truth_of(opposite, values, len(selected))
            codes |= (~may_fail).astype(np.int64) << number
    if members.unproven is not None:
        codes[members.unproven[selected]] = 0
    return codes


def _left_of(parts: Sequence[Predicate], proven: int) -> Predicate | None:
    left = tuple(part for number, part in enumerate(parts) if not proven >> number & 1)
    if not left:
        return None
    return left[0] if len(left) == 1 else And(left)
