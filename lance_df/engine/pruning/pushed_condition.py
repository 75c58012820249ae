"""The condition of a filter that reaches a namespace's scan, to prune partitions outside of a scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.engine.query import scan_with_sql
from lance_df.expr.nodes import And, Literal
from lance_df.namespace.pruning.selected_members import SelectedMembers
from lance_df.namespace.snapshot import NamespaceSnapshot

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lance_df.expr.nodes import Predicate
    from lance_df.scan.request import ScanRequest


def pushed_condition(
    snapshot: NamespaceSnapshot,
    filter: str | pc.Expression,
) -> Predicate | None:
    """Return a condition that all rows that satisfy a filter also satisfy; None if nothing is known.

    The condition may contain `Unknown`.

    Raises
    ------
    InvalidInputError, ColumnNotFoundError
        The filter is invalid.
    """
    listener = _Listener(snapshot.root, snapshot.manifest)
    names = snapshot.arrow_schema.names[:1]
    with scan_with_sql(listener, columns=names, filter=filter) as reader:
        reader.read_all()
    if listener.request is None:
        return None
    known = (listener.request.predicate, listener.request.pruning_predicate)
    return And(tuple(each for each in known if each is not None))


class _Listener(NamespaceSnapshot):
    """A namespace that selects no members, and records the last request."""

    request: ScanRequest | None = None

    def selected_members(self, request: ScanRequest) -> SelectedMembers:
        # planners that only need the columns request no rows
        if request.predicate != Literal(False):
            self.request = request
        return SelectedMembers(np.empty(0, np.intp), np.empty(0, np.intp), ())
