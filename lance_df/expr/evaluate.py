"""Predicates over arrays, with DataFusion's semantics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from lance_df.expr.nodes import Predicate


def evaluate(
    predicate: Predicate,
    columns: Mapping[tuple[str, ...], pa.Array | pa.ChunkedArray],
    num_rows: int,
) -> pa.BooleanArray:
    """Return the predicate's value for each row; NULL where it is NULL.

    Raises
    ------
    InvalidInputError
        The predicate holds `Unknown`, or compares values of types that have no order.
    """
    raise NotImplementedError


def gather_columns(
    batch: pa.RecordBatch | pa.Table, paths: Iterable[tuple[str, ...]]
) -> dict[tuple[str, ...], pa.Array | pa.ChunkedArray]:
    """Return the columns of ``paths``, with the nulls of enclosing structs applied."""
    raise NotImplementedError
