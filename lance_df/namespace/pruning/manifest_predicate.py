"""The predicate on the rows of ``__manifest`` that selects the members of one spec version.

The predicate that is evaluated over the partition values is also the one that reports print as SQL. Spec:
partitioning, "Partition Pruning" and appendix D.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.expr.simplify import simplify
from lance_df.expr.terms import columns_of
from lance_df.expr.text import to_text
from lance_df.expr.walk import columns, conjuncts, has_unknown
from lance_df.namespace.names import SEPARATOR
from lance_df.namespace.pruning.spec_members import unproven_rows
from lance_df.namespace.pruning.value_tuples import ValueTuples
from lance_df.records import dataclass
from lance_df.sql.predicate_text import column_sql, comment, predicate_sql
from lance_df.sql.term_text import term_sql

if TYPE_CHECKING:
    from lance_df.namespace.pruning.implied import Derivation
    from lance_df.namespace.pruning.spec_members import SpecMembers
    from lance_df.namespace.spec.partition_spec import PartitionSpec

    Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ManifestPredicate:
    """The condition that a row of ``__manifest`` must satisfy for its member to be read.

    Attributes
    ----------
    spec
        The spec version of the members: the row is below its namespace.
    condition
        The condition on the partition columns. Each part can be evaluated for all rows that satisfy the parts
        before it.
    unproven
        True for rows whose values prove nothing and which are therefore selected; None if there are none.
    derivations
        How values in ``condition`` were computed.
    """

    spec: PartitionSpec
    condition: Predicate
    unproven: Predicate | None = None
    derivations: Sequence[Derivation] = ()

    def to_sql(self, rows: pa.Table) -> str:
        """Return SQL that can be evaluated for all rows of ``__manifest``, with its parts in any order.

        Comments in the SQL name the source of values.

        Parameters
        ----------
        rows
            The members of all spec versions.
        """
        below = f"object_id LIKE '{self.spec.name}{SEPARATOR}%'"
        if self.condition == Literal(True):
            return below
        try:
            text = self._condition_sql(below, rows)
        except UnsupportedFeatureError:
            return f"{below} {comment(to_text(self.condition))}"
        if self.unproven is not None:
            return f"{below} AND (({text}) OR ({predicate_sql(self.unproven)}))"
        return f"{below} AND {text}"

    def _condition_sql(self, below: str, rows: pa.Table) -> str:
        parts, comments = conjuncts(self.condition), _comments(self.derivations)
        texts: dict[int, str] = {}
        evaluated = ["object_type = 'table'", below]
        for number in _in_order(parts):
            part = _spelled_out(parts[number])
            name = column_sql if _are_computable(part, rows) else _guarded(tuple(evaluated))
            text = predicate_sql(part, comments, name)
            is_nested = isinstance(part, Or) and len(part.operands) > 1
            texts[number] = f"({text})" if is_nested else text
            evaluated.append(texts[number])
        return " AND ".join(texts[number] for number in range(len(parts)))


def _in_order(parts: Sequence[Predicate]) -> list[int]:
    """Return the positions of conjuncts in the order in which they are evaluated."""
    return sorted(range(len(parts)), key=lambda number: _cost(parts[number]))


def _guarded(conditions: Sequence[str]) -> Callable[[tuple[str, ...]], str]:
    """Return a function that writes columns so that a term is computed only if some conditions are true."""
    return lambda path: f"CASE WHEN {' AND '.join(conditions)} THEN {column_sql(path)} END"


def _are_computable(predicate: Predicate, rows: pa.Table) -> bool:
    """Whether the terms of a predicate can be computed for all rows, and for NULL."""
    match predicate:
        case Unknown():
            names = {path[0] for path in columns_of(predicate.term)} if predicate.term is not None else ()
            values = {
                name: pa.concat_arrays([*rows[name].chunks, pa.nulls(1, rows[name].type)]) for name in names
            }
            return _computed(predicate, values) is not None
        case And(operands) | Or(operands):
            return all(_are_computable(operand, rows) for operand in operands)
        case _:
            return True


def select(
    projected: Predicate, members: SpecMembers, derivations: Sequence[Derivation]
) -> tuple[ManifestPredicate, npt.NDArray[np.intp]]:
    """Return a projected predicate without the parts that cannot be evaluated, and the members it selects.

    Parameters
    ----------
    projected
        The predicate on the partition columns.

    Returns
    -------
    The predicate, and the positions of the selected members, ascending.
    """
    parts = list(conjuncts(simplify(projected)))
    selected: npt.NDArray[np.intp] | None = None
    for number in _in_order(parts):
        count = len(members) if selected is None else len(selected)
        if not count:
            break
        parts[number], truth = truth_of(parts[number], PartitionValues(members, selected), count)
        rows = np.flatnonzero(truth)
        selected = rows if selected is None else selected[rows]
    if selected is None:
        selected = np.arange(len(members))
    elif members.unproven is not None:
        selected = np.union1d(selected, np.flatnonzero(members.unproven))
    condition = simplify(And(tuple(parts)))
    unproven = None if members.unproven is None else unproven_rows(members.spec)
    return ManifestPredicate(members.spec, condition, unproven, tuple(derivations)), selected


class PartitionValues(dict[str, pa.Array]):
    """The partition values of some members by column name, gathered on first access."""

    def __init__(self, members: SpecMembers, positions: npt.NDArray[np.intp] | None) -> None:
        super().__init__()
        self._members = members
        self._positions = None if positions is None or len(positions) == len(members) else positions

    def __missing__(self, name: str) -> pa.Array:
        values = self._members.values[name]
        if self._positions is not None:
            is_one = len(self._positions) == 1
            values = values.slice(self._positions[0], 1) if is_one else values.take(pa.array(self._positions))
        self[name] = values
        return values


def truth_of(predicate: Predicate, values: PartitionValues, num_members: int) -> tuple[Predicate, Flags]:
    """Evaluate a predicate on partition columns.

    Returns
    -------
    The predicate, with TRUE in place of terms that fail for some of the members, and the members for which it
    is true. If nothing fails, the predicate is the same object.
    """
    computed: dict[tuple[str, ...], pa.Array] = {}
    checked, known = (
        _with_computed(predicate, values, computed) if has_unknown(predicate) else (predicate,) * 2
    )
    needed = {path: values[path[0]] for path in columns(known) if path not in computed}
    return checked, _is_true(evaluate(known, {**computed, **needed}, num_members))


def _is_true(truth: pa.BooleanArray) -> Flags:
    valid, values = truth.buffers()
    stop = truth.offset + len(truth)
    bits = np.unpackbits(np.frombuffer(values, np.uint8), count=stop, bitorder="little")
    if truth.null_count:
        bits &= np.unpackbits(np.frombuffer(valid, np.uint8), count=stop, bitorder="little")
    return bits[truth.offset :].view(np.bool_)


def _with_computed(
    predicate: Predicate, values: PartitionValues, computed: dict[tuple[str, ...], pa.Array]
) -> tuple[Predicate, Predicate]:
    """Return the predicate without terms that fail, and the same with ``computed`` columns for terms."""
    match predicate:
        case Unknown():
            result = _computed(predicate, values)
            if result is None:
                return Literal(True), Literal(True)
            path = ("", str(len(computed)))
            computed[path] = result
            return predicate, Truth(Column(path))
        case And(operands) | Or(operands):
            parts = [_with_computed(each, values, computed) for each in operands]
            checked = tuple(part for part, _ in parts)
            is_same = all(part is each for part, each in zip(checked, operands, strict=True))
            kind = type(predicate)
            return predicate if is_same else kind(checked), kind(tuple(part for _, part in parts))
        case Not(ValueTuples() as operand):
            return predicate, Not(_with_computed(operand, values, computed)[1])
        case _:
            return predicate, predicate


def _spelled_out(predicate: Predicate) -> Predicate:
    match predicate:
        case ValueTuples():
            return predicate.spelled_out()
        case And(operands) | Or(operands):
            return type(predicate)(tuple(map(_spelled_out, operands)))
        case Not(operand):
            return Not(_spelled_out(operand))
        case _:
            return predicate


def _computed(condition: Unknown, values: dict[str, pa.Array]) -> pa.Array | None:
    if isinstance(condition, ValueTuples):
        return condition.contain(values)
    if condition.term is None:
        return None
    sources = {path[0]: values[path[0]] for path in sorted(columns_of(condition.term))}
    try:
        result = evaluator().evaluate(term_sql(condition.term, column_sql), sources)
    except InvalidInputError:  # it fails for a value, perhaps of a partition that another conjunct excludes
        return None
    return result if pa.types.is_boolean(result.type) else None


def _cost(predicate: Predicate) -> int:
    """Return a rank of the evaluation cost; cheap conjuncts are evaluated first."""
    match predicate:
        case Comparison(_, _, value):
            return 0 if pa.types.is_primitive(value.type) else 1
        case IsNull() | Not() | Truth() | Literal():
            return 1
        case In(_, values):
            return 2 if pa.types.is_primitive(values.type) else 3
        case Unknown() if not isinstance(predicate, ValueTuples):
            return 6
        case _:
            return 5 if has_unknown(predicate) else 4


def _comments(derivations: Sequence[Derivation]) -> Mapping[int, str]:
    comments = {}
    for derivation in derivations:
        try:
            text = derivation.to_sql()
        except LanceError:  # its type has no literals
            continue
        if text is not None:
            comments[id(derivation.implied)] = text
    return comments
