"""Find the members for which a condition is true, if partition values alone decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.namespace.pruning.implied import NOTHING
from lance_df.namespace.pruning.manifest_predicate import PartitionValues, truth_of
from lance_df.namespace.pruning.partition_terms import PartitionTerms
from lance_df.namespace.pruning.projection import sourced_fields
from lance_df.namespace.pruning.spec_members import members_by_spec

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.expr.terms import Term
    from lance_df.namespace.manifest_table import NamespaceManifest

    Flags = npt.NDArray[np.bool_]


def decided_members(manifest: NamespaceManifest, condition: Term, needed: Flags) -> Flags | None:
    """Return the needed members in which a condition is true for all rows; in the others it is for none.

    None if the condition depends on more than partition values.

    Parameters
    ----------
    needed
        For each row of ``manifest.members``, whether the member matters.
    """
    decided = np.zeros(len(needed), dtype=np.bool_)
    for members in members_by_spec(manifest):
        selected = np.flatnonzero(needed[members.positions])
        if not len(selected):
            continue
        if members.unproven is not None and members.unproven[selected].any():
            return None
        fields = list(sourced_fields(members.spec, manifest.schema))
        projected = PartitionTerms(fields).projected(condition)
        checked, truth = truth_of(projected, PartitionValues(members, selected), len(selected))
        if projected == NOTHING or checked is not projected:
            return None
        decided[members.positions[selected]] = truth
    return decided
