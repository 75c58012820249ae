"""Evaluate single SQL expressions over ``col0``, ``col1`` … in a private context.

The result of an expression does not depend on any session: zone, dialect and functions are DataFusion's
defaults. ``murmur3`` and ``murmur3_multi`` accept any type and return int64 here, so that ``abs`` of the
lowest int32 does not fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.compute.calls import engine_call
from lance_df.compute.compat import PlainSessionContext, SessionConfig, plain_context, variant
from lance_df.compute.offsets import importable
from lance_df.compute.terms import to_term
from lance_df.compute.typed_functions import HASHES, TypedFunctions, register_udfs
from lance_df.errors import InvalidInputError, LanceError
from lance_df.forks import new_lock
from lance_df.sql.splice import Edit, splice

if TYPE_CHECKING:
    from lance_df.expr.terms import Term
    from lance_df.sql.calls import Call

_RESULT = "result"
_NUM_THREADS = 4
# The results of these depend on the type of a value, not only on the value.
_ABOUT_TYPES: Final = frozenset({"arrow_typeof", "arrow_metadata", "arrow_field"})
# The results of these for a text depend on the time zone of the session.
_ZONED: Final = ("to_timestamp", "to_date", "to_time", "to_unixtime", "to_local_time")


class ExpressionEvaluator:
    """Evaluates expressions; thread-safe."""

    def __init__(self) -> None:
        config = SessionConfig().with_target_partitions(1).with_information_schema(True)
        self._ctx = plain_context(config)
        register_udfs(self._ctx)
        self._typed = TypedFunctions(self._ctx)
        self._texts: dict[tuple[str, tuple[pa.DataType, ...]], str] = {}
        self._numbers = itertools.count()
        self._lock = new_lock()
        # a thread that runs DataFusion's tasks, for example planning a scan, must not wait for other tasks
        self._threads = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="lance_df-evaluate")
        self._functions = self._threads.submit(_deterministic_functions, self._ctx).result()

    def check(self, expression: str) -> None:
        """Check that an expression depends only on its row.

        Raises
        ------
        InvalidInputError
            See :func:`lance_df.sql.row_expression.check_row_expression`.
        """
        # importing the parser takes as long as a small query; most sessions never need it here
        from lance_df.sql.row_expression import check_row_expression

        check_row_expression(expression, self._functions)

    def result_type(self, expression: str, types: Sequence[pa.DataType]) -> pa.DataType:
        """Return the result type of an expression for columns of these types.

        Raises
        ------
        InvalidInputError
            The expression cannot be planned for these types.
        """
        return self.evaluate(expression, [pa.nulls(0, data_type) for data_type in types]).type

    def is_fixed(self, functions: Collection[str]) -> bool:
        """Whether functions return the same in all sessions, and for all types that can store a value."""
        return all(
            name in self._functions and name not in _ABOUT_TYPES and not name.startswith(_ZONED)
            for name in functions
        )

    def replaces(self, functions: Collection[str]) -> bool:
        """Whether any of these function names is already known here and would be replaced."""
        return not self._functions.isdisjoint(functions)

    def term(self, expression: str, types: Sequence[pa.DataType]) -> Term | None:
        """Return an expression over ``col0``, ``col1`` … as a term; None if terms do not cover it.

        The same expression in an optimized query, over columns of these types, gives the same term.

        Raises
        ------
        InvalidInputError
            The expression cannot be planned for these types.
        """
        return self._threads.submit(self._term, expression, types).result()

    def evaluate(self, expression: str, columns: Sequence[pa.Array] | Mapping[str, pa.Array]) -> pa.Array:
        """Return the value of an expression for each row.

        Parameters
        ----------
        columns
            Columns of equal length: by name, or a sequence whose items are called ``col0``, ``col1`` …

        Raises
        ------
        InvalidInputError
            The expression cannot be planned for these types, or fails for a row.
        """
        return self._threads.submit(self._evaluate, expression, columns).result()

    def constants(self, expressions: Sequence[str]) -> pa.Array | None:
        """Return the values of expressions without columns; None if a function in them depends on types.

        Raises
        ------
        InvalidInputError
            An expression cannot be planned, fails, or has another type than the first one.
        """
        if any(map(_hash_calls, expressions)):
            return None
        return self._threads.submit(self._constants, expressions).result()

    def _constants(self, expressions: Sequence[str]) -> pa.Array:
        listed = ", ".join(f"({text}\n) AS {_RESULT}_{index}" for index, text in enumerate(expressions))
        try:
            with engine_call():
                (row,) = self._ctx.sql(f"SELECT {listed}").collect()
                return pa.concat_arrays(row.columns)
        except LanceError:
            raise
        except Exception as err:
            raise InvalidInputError(f"the expressions {listed!r:.500} cannot be evaluated: {err}") from err

    def _evaluate(self, expression: str, columns: Sequence[pa.Array] | Mapping[str, pa.Array]) -> pa.Array:
        if not isinstance(columns, Mapping):
            columns = {f"col{number}": column for number, column in enumerate(columns)}
        rows = importable(pa.record_batch(list(columns.values()), list(columns)))
        table = f"rows_{next(self._numbers)}"
        self._ctx.register_record_batches(table, [[rows]])
        try:
            text = self._text(expression, tuple(rows.schema.types), table)
            with engine_call():
                frame = self._ctx.sql(f"SELECT ({text}\n) AS {_RESULT} FROM {table}")
                values = frame.to_arrow_table().column(_RESULT)
        except LanceError:
            raise
        except Exception as err:
            types = ", ".join(map(str, rows.schema.types))
            raise InvalidInputError(
                f"the expression {expression!r} cannot be evaluated for values of type ({types}): {err}"
            ) from err
        finally:
            self._ctx.deregister_table(table)
        if len(values) != rows.num_rows:
            raise InvalidInputError(f"the expression {expression!r} does not return one value for each row")
        return (
            values.chunk(0)
            if values.num_chunks == 1
            else pa.concat_arrays(values.chunks or [values.combine_chunks()])
        )

    def _term(self, expression: str, types: Sequence[pa.DataType]) -> Term | None:
        names = [f"col{number}" for number in range(len(types))]
        rows = pa.record_batch([pa.nulls(1, data_type) for data_type in types], names)
        table = f"rows_{next(self._numbers)}"
        self._ctx.register_record_batches(table, [[rows]])
        try:
            text = self._typed_text(expression, table) if _hash_calls(expression) else expression
            with engine_call():
                frame = self._ctx.sql(f"SELECT ({text}\n) AS {_RESULT} FROM {table}")
                node = variant(frame.optimized_logical_plan())
        except LanceError:
            raise
        except Exception as err:
            raise InvalidInputError(f"the expression {expression!r} cannot be planned: {err}") from err
        finally:
            self._ctx.deregister_table(table)
        if type(node).__name__ != "Projection":
            return None
        (result,) = node.projections()
        return to_term(result, names.__contains__)

    def _text(self, expression: str, types: tuple[pa.DataType, ...], table: str) -> str:
        """Return the expression with the typed hash functions for these types."""
        calls = _hash_calls(expression)
        if not calls:
            return expression
        key = (expression, types)
        with self._lock:
            if key not in self._texts:
                wide = [
                    edit
                    for call in calls
                    for edit in (
                        Edit(call.whole.start, call.whole.start, "arrow_cast("),
                        Edit(call.whole.stop, call.whole.stop, ", 'Int64')"),
                    )
                ]
                self._texts[key] = self._typed_text(splice(expression, wide), table)
            return self._texts[key]

    def _typed_text(self, expression: str, table: str) -> str:
        from lance_df.compute.typed_calls import with_typed_calls

        before, after = "SELECT (", f"\n) AS {_RESULT} FROM {table}"
        typed = with_typed_calls(
            before + expression + after,
            self._typed,
            lambda probe: self._ctx.sql(probe).optimized_logical_plan(),
        )
        return typed[len(before) : -len(after)]


def _hash_calls(expression: str) -> list[Call]:
    from lance_df.sql.calls import find_calls

    return find_calls(expression, HASHES)


def _deterministic_functions(ctx: PlainSessionContext) -> frozenset[str]:
    query = """SELECT DISTINCT routine_name FROM information_schema.routines
        WHERE function_type = 'SCALAR' AND is_deterministic"""
    return frozenset({*ctx.sql(query).to_pydict()["routine_name"], *HASHES})
