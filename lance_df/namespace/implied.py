"""What a predicate on columns implies for partition values.

Where a row satisfies ``id = 7``, its partition has the value that the field's expression gives for 7. Each
comparison is joined by what it implies; since it implies it, the predicate stays what it was, under NOT too,
and whatever is proven about the new one holds. Spec: partitioning, appendix D.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lance_df.errors import InvalidInputError
from lance_df.expr.literals import bind_literals
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Not, Operator, Or, Predicate
from lance_df.namespace.namespace_schema import NamespaceSchema
from lance_df.namespace.partition_spec import PartitionField, PartitionSpec
from lance_df.namespace.partition_values import partition_values
from lance_df.namespace.transforms import TransformKind

_RANGE_ENDS: Final = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
_CYCLES: Final = {TransformKind.MONTH: ("M", 12), TransformKind.DAY: ("D", 31), TransformKind.HOUR: ("h", 24)}


def with_implied(predicate: Predicate, spec: PartitionSpec, schema: NamespaceSchema) -> Predicate:
    """Return the predicate with what it implies for the partition columns of a spec."""
    return _Expansion(spec, schema).expand(predicate)


class _Expansion:
    def __init__(self, spec: PartitionSpec, schema: NamespaceSchema) -> None:
        # a field of several columns needs values for all of them, which no single comparison gives
        self._fields: dict[tuple[str, ...], list[PartitionField]] = {}
        self._joint: list[tuple[PartitionField, list[tuple[str, ...]]]] = []
        self._types: dict[tuple[str, ...], pa.DataType] = {}
        by_id = schema.columns.by_id()
        for field in spec.fields:
            paths = [schema.path(field_id) for field_id in field.source_ids]
            known = [path for path in paths if path is not None]
            if len(known) < len(paths):
                continue
            for path, field_id in zip(known, field.source_ids, strict=True):
                self._types[path] = by_id[field_id].arrow_type()
            if len(known) == 1:
                self._fields.setdefault(known[0], []).append(field)
            else:
                self._joint.append((field, known))

    def expand(self, predicate: Predicate) -> Predicate:
        match predicate:
            case And(operands):
                expanded = tuple(self.expand(operand) for operand in operands)
                extra = (*self._ranges(operands), *self._jointly(operands))
                return And((*expanded, *extra))
            case Or(operands):
                return Or(tuple(self.expand(operand) for operand in operands))
            case Not(operand):
                return Not(self.expand(operand))
            case Comparison(Column(path)) | In(Column(path)) if path in self._fields:
                return self._of_leaf(bind_literals(predicate, self._types[path]), path)
            case IsNull(Column(path)) if path in self._fields:
                return self._of_null(predicate, path)
            case _:
                return predicate

    def _of_leaf(self, bound: Predicate, path: tuple[str, ...]) -> Predicate:
        match bound:
            case Comparison(_, Operator.EQ, value):
                return self._joined(bound, path, pa.repeat(value, 1))
            case In(_, values, False):
                return self._joined(bound, path, values)
            case _:
                return bound

    def _joined(self, predicate: Predicate, path: tuple[str, ...], values: pa.Array) -> Predicate:
        implied = [self._in(field, [values]) for field in self._fields[path]]
        kept = [each for each in implied if each is not None]
        return And((predicate, *kept)) if kept else predicate

    def _of_null(self, predicate: Predicate, path: tuple[str, ...]) -> Predicate:
        """NULL has the value of the expression for NULL, which for transforms is NULL."""
        implied = [
            IsNull(Column((field.column,))) for field in self._fields[path] if field.transform is not None
        ]
        return And((predicate, *implied)) if implied else predicate

    def _in(self, field: PartitionField, columns: Sequence[pa.Array]) -> Predicate | None:
        """Return that the partition value is among those of some rows of source values."""
        try:
            found = partition_values(field, columns)
        except InvalidInputError:
            return None
        column = Column((field.column,))
        present = found.drop_null().unique()
        parts: list[Predicate] = []
        if len(present) and pa.types.is_floating(present.type):
            parts += [Comparison(column, Operator.EQ, value) for value in present]
        elif len(present):
            parts.append(In(column, present))
        if found.null_count:
            parts.append(IsNull(column))
        return _either(parts)

    def _jointly(self, operands: Sequence[Predicate]) -> Iterator[Predicate]:
        """Yield what equalities of all columns of a field imply together."""
        equal = {
            operand.column.path: operand.value
            for operand in operands
            if isinstance(operand, Comparison) and operand.operator is Operator.EQ
        }
        for field, paths in self._joint:
            if all(path in equal for path in paths):
                implied = self._in(field, [pa.repeat(equal[path], 1) for path in paths])
                if implied is not None:
                    yield implied

    def _ranges(self, operands: Sequence[Predicate]) -> Iterator[Predicate]:
        """Yield the months, days and hours that a range of less than a cycle touches; it may wrap."""
        for path, fields in self._fields.items():
            cyclic = [
                field for field in fields if field.transform is not None and field.transform.kind in _CYCLES
            ]
            ends = _ends(operands, path) if cyclic else None
            if ends is None:
                continue
            for field in cyclic:
                touched = self._touched(field, *ends, self._types[path])
                implied = None if touched is None else self._in(field, [touched])
                if implied is not None:
                    yield implied

    def _touched(
        self, field: PartitionField, low: pa.Scalar, high: pa.Scalar, data_type: pa.DataType
    ) -> pa.Array | None:
        """Return one moment of each month, day or hour between two moments; None for a whole cycle."""
        if field.transform is None:
            return None
        unit, cycle = _CYCLES[field.transform.kind]
        try:
            begin, end = (_moment(each, data_type).astype(f"datetime64[{unit}]") for each in (low, high))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OverflowError):
            return None
        # a day on each side, for the offset of a zone
        slack = 0 if getattr(data_type, "tz", None) is None else {"M": 1, "D": 1, "h": 24}[unit]
        count = int((end - begin).astype(np.int64)) + 1 + 2 * slack
        if count >= cycle:
            return None
        if count <= 0:
            return pa.nulls(0, data_type)
        steps = begin - slack + np.arange(count)
        naive = pa.array(steps.astype("datetime64[s]").astype(np.int64)).cast(pa.timestamp("s"))
        return naive.cast(data_type) if slack == 0 else naive.cast(pa.timestamp("s", "UTC")).cast(data_type)


def _ends(operands: Sequence[Predicate], path: tuple[str, ...]) -> tuple[pa.Scalar, pa.Scalar] | None:
    """Return the ends of a range of a column that a conjunction demands; None where one is missing."""
    low = high = None
    for operand in operands:
        if (
            isinstance(operand, Comparison)
            and operand.column.path == path
            and operand.operator in _RANGE_ENDS
        ):
            if operand.operator in (Operator.GT, Operator.GE):
                low = operand.value
            else:
                high = operand.value
    return None if low is None or high is None else (low, high)


def _moment(value: pa.Scalar, data_type: pa.DataType) -> np.datetime64:
    """Return a date or timestamp to the second, rounded down."""
    naive = pa.array([value.as_py()]) if pa.types.is_string(value.type) else pa.repeat(value, 1)
    seconds = naive.cast(data_type).cast(pa.timestamp("s"), safe=False)
    return np.datetime64(seconds.cast(pa.int64())[0].as_py(), "s")


def _either(parts: Sequence[Predicate]) -> Predicate | None:
    return functools.reduce(lambda left, right: Or((left, right)), parts) if parts else None
