"""Calls in a pyarrow filter, run by pyarrow: whatever function it has, with the options of the expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Term: TypeAlias = pa.Array | pa.Scalar


def call_arrow(function: str, terms: Sequence[Term], options: pa.StructScalar | None) -> Term:
    """Return what a function of pyarrow computes of arrays and scalars, row by row.

    Parameters
    ----------
    options
        As `lance_df.expr.expression_tokens.CallEnd` has them.

    Raises
    ------
    InvalidInputError
        There is no such function, it is none that computes a value for each row, or it fails on a value.
    """
    try:
        if pc.get_function(function).kind != "scalar" and function != "cast":
            raise InvalidInputError(f"the function {function!r} does not compute one value for each row")
        return pc.call_function(function, list(terms), _options(options))
    except (KeyError, pa.ArrowException) as err:
        types = ", ".join(str(term.type) for term in terms)
        raise InvalidInputError(f"{function}({types}) in a filter: {err}") from err


def _options(given: pa.StructScalar | None) -> pc.FunctionOptions | None:
    """Return options from their fields: they deserialize from an Arrow file with these as one struct."""
    if given is None:
        return None
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.repeat(given, 1)], ["options"])
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pc.FunctionOptions.deserialize(sink.getvalue())
