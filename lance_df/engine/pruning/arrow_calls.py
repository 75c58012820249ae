"""Evaluate the function calls of a pyarrow filter with pyarrow, with the options of the expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Term: TypeAlias = pa.Array | pa.Scalar


def call_arrow(function: str, terms: Sequence[Term], options: pa.StructScalar | None) -> Term:
    """Apply a pyarrow function to arrays and scalars row by row, and return the result.

    Parameters
    ----------
    options
        See `lance_df.expr.expression_tokens.CallEnd`.

    Raises
    ------
    InvalidInputError
        The function does not exist, does not compute one value for each row, or fails on a value.
    """
    try:
        if pc.get_function(function).kind != "scalar" and function != "cast":
            raise InvalidInputError(f"the function {function!r} does not return one value for each row")
        return pc.call_function(function, list(terms), _options(options))
    except (KeyError, pa.ArrowException) as err:
        types = ", ".join(str(term.type) for term in terms)
        raise InvalidInputError(f"{function}({types}) in a filter cannot be evaluated: {err}") from err


def _options(given: pa.StructScalar | None) -> pc.FunctionOptions | None:
    """Return the function options for a struct of their fields. They deserialize from an Arrow IPC file."""
    if given is None:
        return None
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.repeat(given, 1)], ["options"])
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pc.FunctionOptions.deserialize(sink.getvalue())
