"""Which members a condition is true for, where partition values alone decide that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import Column, Literal, Unknown
from lance_df.expr.terms import columns_of, replaced
from lance_df.expr.walk import columns, has_unknown
from lance_df.namespace.pruning.implied import NOTHING
from lance_df.namespace.pruning.partition_terms import PartitionTerms
from lance_df.namespace.pruning.projection import Projector
from lance_df.namespace.pruning.spec_members import SpecMembers, members_by_spec
from lance_df.sql.predicate_text import column_sql
from lance_df.sql.term_text import term_sql

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate
    from lance_df.expr.terms import Term
    from lance_df.namespace.manifest_table import NamespaceManifest

    Flags = npt.NDArray[np.bool_]


def decided_members(manifest: NamespaceManifest, condition: Term, needed: Flags) -> Flags | None:
    """Return the needed members for all rows of which a condition is true; for no row of others it is.

    None if that depends on more than partition values.

    Parameters
    ----------
    needed
        For each row of ``manifest.members`` whether it matters.
    """
    found = np.zeros(len(needed), dtype=np.bool_)
    for members in members_by_spec(manifest):
        own = np.flatnonzero(needed[members.places])
        if not len(own):
            continue
        if members.unproven is not None and members.unproven[own].any():
            return None
        fields = Projector(members.spec, manifest.schema).fields
        truth = _truth(PartitionTerms(fields).projected(condition), members, own)
        if truth is None:
            return None
        found[members.places[own]] = truth
    return found


def _truth(projected: Predicate, members: SpecMembers, own: npt.NDArray[np.intp]) -> Flags | None:
    """Return where what a term is for partition values is true; None if that is not known."""
    if projected == NOTHING:
        return None
    if isinstance(projected, Literal):
        return np.full(len(own), projected.value is True)
    if isinstance(projected, Unknown):
        return _computed(projected, members, own)
    if has_unknown(projected):
        return None
    values = {path: members.values[path[0]].take(pa.array(own)) for path in columns(projected)}
    return np.asarray(pc.fill_null(evaluate(projected, values, len(own)), False))


def _computed(condition: Unknown, members: SpecMembers, own: npt.NDArray[np.intp]) -> Flags | None:
    if condition.term is None:
        return None
    names = sorted(path[0] for path in columns_of(condition.term))
    numbered = {name: Column((f"col{number}",)) for number, name in enumerate(names)}
    term = replaced(
        condition.term, lambda part: numbered.get(part.path[0]) if isinstance(part, Column) else None
    )
    values = [members.values[name].take(pa.array(own)) for name in names]
    try:
        found = evaluator().evaluate(term_sql(term, column_sql), values)
    except InvalidInputError:
        return None
    return np.asarray(pc.fill_null(found, False)) if pa.types.is_boolean(found.type) else None
