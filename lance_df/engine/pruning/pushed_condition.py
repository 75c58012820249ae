"""What the engine asks of a namespace to answer a filter: to prune partitions for more than a scan."""

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
    """Return a condition that is true for all rows that satisfy a filter; None if nothing is known of them.

    It may hold `Unknown`.

    Raises
    ------
    InvalidInputError, ColumnNotFoundError
        The filter is wrong.
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
    """A namespace that selects no partition, and remembers what it was asked for last."""

    request: ScanRequest | None = None

    def selected_members(self, request: ScanRequest) -> SelectedMembers:
        # nothing is what planners ask for when they want to know the columns
        if request.predicate != Literal(False):
            self.request = request
        return SelectedMembers(np.empty(0, np.intp), np.empty(0, np.intp), ())
