"""pyarrow expressions to predicates."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.nodes import Predicate


def to_predicate(expression: pc.Expression | pa.BooleanScalar | bool, schema: pa.Schema) -> Predicate:
    """Return the predicate that a filter expression over ``schema`` stands for.

    What the predicate language cannot say becomes `Unknown`; nothing raises for it.
    """
    raise NotImplementedError
