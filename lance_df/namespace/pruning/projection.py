"""Project a predicate on columns to the partition columns of ``__manifest``, for one spec version.

If the predicate is true of a row, its projection is true of the row's partition. If nothing follows for that
spec, the projection is `NOTHING`, which is TRUE. Spec: partitioning, "Partition Pruning" and appendix D.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.literals import storage_type
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.expr.simplify import simplify
from lance_df.namespace.pruning.calendar_ranges import CalendarFields
from lance_df.namespace.pruning.implied import (
    NOTHING,
    RANGE_ENDS,
    Derivation,
    SourcedField,
    both,
    bound_leaf,
    calendar_fields,
    inclusive,
    possible_values,
)
from lance_df.namespace.pruning.partition_terms import PartitionTerms
from lance_df.namespace.pruning.value_tuples import ValueTuples, equals_any
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_spec import PartitionSpec
from lance_df.namespace.spec.partition_values import follows_from_sources
from lance_df.namespace.spec.transforms import TransformKind
from lance_df.scan.grouping import grouped

_Path: TypeAlias = tuple[str, ...]

# The most combinations of values of several columns for which an expression is computed.
_MAX_COMBINATIONS: Final = 4096


class Projector:
    """Projects predicates on the current columns of a namespace to one version of its spec.

    Parameters
    ----------
    fields
        The partition fields to project to.

    Attributes
    ----------
    derivations
        How the values in the projections were computed.
    """

    def __init__(self, spec: PartitionSpec, fields: Sequence[SourcedField]) -> None:
        self.spec = spec
        self.fields = fields
        self.derivations: list[Derivation] = []
        self.types = {
            path: data_type for each in fields for path, data_type in zip(each.paths, each.types, strict=True)
        }
        self._single: dict[_Path, list[SourcedField]] = {}
        for each in self.fields:
            if len(each.paths) == 1:
                self._single.setdefault(each.paths[0], []).append(each)
        self._joint = [each for each in self.fields if len(each.paths) > 1]
        calendars = {path: calendar_fields(fields) for path, fields in self._single.items()}
        self._calendars = {
            path: CalendarFields(fields, self.types[path]) for path, fields in calendars.items() if fields
        }

    @classmethod
    def of(cls, spec: PartitionSpec, schema: NamespaceSchema) -> Projector:
        """Return a projector for all fields of a spec that allow pruning."""
        return cls(spec, tuple(sourced_fields(spec, schema)))

    def of_transforms(self) -> Projector:
        """Return a projector without partition expressions, whose evaluation needs DataFusion."""
        return Projector(self.spec, [each for each in self.fields if each.kind is not None])

    def project(self, predicate: Predicate) -> Predicate:
        """Return a condition that is true of the partition of every row that satisfies the predicate."""
        return self._project(simplify(predicate))

    def is_exact(self, predicate: Predicate) -> bool:
        """Whether a predicate is true of all rows of every partition for which its projection is true."""
        match predicate:
            case Literal():
                return True
            case And(operands) | Or(operands):
                return all(map(self.is_exact, operands))
            case Comparison(column, _, value):
                return self._identities.get(column.path) == value.type
            case In(column, values) | Not(In(column, values)):
                return self._identities.get(column.path) == values.type
            case IsNull(Column() as column) | Not(IsNull(Column() as column)):
                return column.path in self._identities
            case Truth(column) | Not(Truth(column)):
                return column.path in self._identities
            case _:
                return False

    @cached_property
    def _identities(self) -> dict[_Path, pa.DataType]:
        """The types of the identity columns, whose value in each partition is exactly the partition value."""
        return {
            each.paths[0]: each.types[0]
            for each in self.fields
            if each.kind is TransformKind.IDENTITY
            and each.types[0] == each.field.result_type
            and not pa.types.is_floating(each.types[0])
        }

    @cached_property
    def _terms(self) -> PartitionTerms:
        return PartitionTerms(self.fields)

    def _project(self, predicate: Predicate) -> Predicate:
        choice = self._choice(predicate)
        if choice is not None:
            return self._of_values(*choice)
        match predicate:
            case Literal():
                return predicate
            case And(operands):
                return self._of_conjunction(operands)
            case Or(operands):
                return self._of_disjunction(operands)
            case Not(In(_, _, True)):
                return Literal(False)
            case IsNull(And() | Or() | In() | Not(In()) as operand):
                return self._project(simplify(null(operand)))
            case Not(IsNull(And() | Or() | In() | Not(In()) as operand)):
                return self._project(simplify(Or((operand, Not(operand)))))
            case Unknown(_, term):
                return NOTHING if term is None else self._terms.projected(term)
            case Comparison(column) | In(column) | IsNull(Column() as column) | Truth(column):
                return self._of_leaf(predicate, column.path)
            case Not(In(column) | IsNull(Column() as column) | Truth(column)):
                return self._of_leaf(predicate, column.path)
            case _:
                return NOTHING

    def _of_leaf(self, leaf: Predicate, path: _Path) -> Predicate:
        fields = self._single.get(path)
        if fields is None:
            return NOTHING
        bound = simplify(bound_leaf(leaf, self.types[path]))
        if type(bound) is not type(leaf):  # for example, the type of the column cannot hold the literal
            return self._project(bound) if columns_differ(leaf, bound) else NOTHING
        implied = [field.implied(bound) for field in fields]
        if path in self._calendars:
            implied.append(self._of_calendar(bound, path))
        return both(implied)

    def _of_calendar(self, leaf: Predicate, path: _Path) -> Predicate:
        calendar = self._calendars[path]
        match leaf:
            case Comparison(_, operator) if operator in RANGE_ENDS:
                end = inclusive(leaf, self.types[path])
                return Literal(False) if end is None else calendar.of_end(end.operator, end.value)
            case Comparison(_, Operator.NE, value) if calendar.has_one_value:
                return self._of_others(path, pa.repeat(value, 1))
            case Not(In(_, values)) if calendar.has_one_value:
                return self._of_others(path, values)
            case _:
                return NOTHING

    def _of_others(self, path: _Path, values: pa.Array) -> Predicate:
        """Return the condition implied if a column, which has one value per partition, has none of these."""
        chain = self._calendars[path].chain
        parts = [(field, field.values([values])) for field in self._single[path] if field.kind in chain]
        known = [(field, column) for field, column in parts if column is not None]
        return NOTHING if len(known) < len(parts) else self._calendars[path].of_others(_tuples(known))

    def _of_values(self, path: _Path, values: pa.Array) -> Predicate:
        """Return the condition implied if a column has one of some values."""
        computed = [(field, field.values([values])) for field in self._single.get(path, ())]
        known = [(field, column) for field, column in computed if column is not None]
        apart = [equals_any(field.column, column) for field, column in known]
        for (field, _), implied in zip(known, apart, strict=True):
            self._note(field, [values], implied)
        return both([*apart, _among_tuples(known), *self._jointly({path: values})])

    def _note(self, field: SourcedField, sources: Sequence[pa.Array], implied: Predicate) -> None:
        last = implied.operands[-1] if isinstance(implied, Or) and implied.operands else implied
        self.derivations.append(Derivation(field.field, tuple(sources), last))

    def _of_disjunction(self, operands: Sequence[Predicate]) -> Predicate:
        parts = []
        for operand in operands:
            part = self._project(operand)
            if part == NOTHING:
                return NOTHING
            parts.append(part)
        return Or(tuple(parts))

    def _of_conjunction(self, operands: Sequence[Predicate]) -> Predicate:
        parts = [self._project(operand) for operand in operands]
        joint = self._jointly(self._choices(operands))
        return both([*parts, *self._ranges(operands), *self._numbers(operands), *joint])

    def _numbers(self, operands: Sequence[Predicate]) -> Iterator[Predicate]:
        """Yield the condition that a float with an upper and a lower bound is not NaN."""
        for field in self.fields:
            data_type = field.field.result_type
            if field.kind is TransformKind.IDENTITY and pa.types.is_floating(data_type):
                bounds = [bound_leaf(each, data_type) for each in _ends(operands, field.paths[0])]
                ends = [each for each in bounds if isinstance(each, Comparison)]
                numbers = [each for each in ends if not np.isnan(each.value.as_py())]
                if len({each.operator in (Operator.GT, Operator.GE) for each in numbers}) == 2:
                    yield Comparison(field.column, Operator.LT, pa.scalar(np.nan, data_type))

    def _choice(self, predicate: Predicate) -> tuple[_Path, pa.Array] | None:
        """Return a column and the values that it may have if a predicate on it is true."""
        path = _only_path(predicate)
        if path is None or path not in self.types:
            return None
        if isinstance(predicate, Or):
            parts = [self._choice(operand) for operand in predicate.operands]
            values = [part[1] for part in parts if part is not None]
            return None if len(values) < len(parts) else (path, pa.concat_arrays(values))
        bound = bound_leaf(predicate, self.types[path])
        possible = possible_values(bound, self.types[path])
        return None if possible is None else (path, possible)

    def _choices(self, operands: Sequence[Predicate]) -> dict[_Path, pa.Array]:
        """Return the fewest values that each column may have if all predicates are true."""
        choices: dict[_Path, pa.Array] = {}
        for path, values in filter(None, map(self._choice, operands)) if self._joint else ():
            if path not in choices or len(values) < len(choices[path]):
                choices[path] = values
        return choices

    def _jointly(self, choices: Mapping[_Path, pa.Array]) -> Iterator[Predicate]:
        """Yield the conditions that the values of all columns of a field imply together."""
        for field in self._joint:
            paths = tuple(dict.fromkeys(field.paths))  # a column may occur twice
            known = [choices[path] for path in paths if path in choices]
            if len(known) == len(paths) and np.prod([len(each) for each in known]) <= _MAX_COMBINATIONS:
                of_paths = dict(zip(paths, _combined(known), strict=True))
                combined = [of_paths[path] for path in field.paths]
                implied = field.among(combined)
                self._note(field, combined, implied)
                yield implied

    def _ranges(self, operands: Sequence[Predicate]) -> Iterator[Predicate]:
        """Yield conditions on the months, days and hours that a range shorter than a cycle covers."""
        for path, calendar in self._calendars.items():
            ends = [
                inclusive(bound, self.types[path])
                for bound in (bound_leaf(each, self.types[path]) for each in _ends(operands, path))
                if isinstance(bound, Comparison)
            ]
            if None in ends:
                yield Literal(False)
                continue
            lows = [end.value for end in ends if end is not None and end.operator.value == ">="]
            highs = [end.value for end in ends if end is not None and end.operator.value == "<="]
            if lows and highs:
                low, high = (_extreme(each, which) for each, which in ((lows, "max"), (highs, "min")))
                yield from calendar.of_range(low, high)


def sourced_fields(spec: PartitionSpec, schema: NamespaceSchema) -> Iterator[SourcedField]:
    """Yield the fields of a spec whose source columns exist and whose values allow pruning."""
    by_id = schema.columns.by_id()
    for field in spec.fields:
        paths = [schema.path(field_id) for field_id in field.source_ids]
        known = tuple(path for path in paths if path is not None)
        if len(known) == len(paths) and follows_from_sources(field):
            types = tuple(storage_type(by_id[field_id].arrow_type()) for field_id in field.source_ids)
            yield SourcedField(field, known, types)


def not_true(predicate: Predicate) -> Predicate:
    """Return a predicate that is true if a simplified predicate is FALSE or NULL, and false otherwise."""
    match predicate:
        case Literal(value):
            return Literal(value is not True)
        case And(operands):
            return Or(tuple(map(not_true, operands)))
        case Or(operands):
            return And(tuple(map(not_true, operands)))
        case In(column, values, True):
            return Or((Not(In(column, values)), IsNull(column)))
        case Not(In(_, _, True)):
            return Literal(True)
        case IsNull() | Not(IsNull()):
            return simplify(Not(predicate))
        case _:
            return simplify(Or((Not(predicate), IsNull(predicate))))


def null(predicate: Predicate) -> Predicate:
    """Return a predicate that is true if a simplified predicate is NULL, and false otherwise."""
    match predicate:
        case And(operands):
            others = [not_true(simplify(Not(operand))) for operand in operands]
            return And((Or(tuple(map(null, operands))), *others))
        case Or(operands):
            return And((Or(tuple(map(null, operands))), *map(not_true, operands)))
        case In(_, _, True):
            return not_true(predicate)
        case Not(In(_, _, True) as operand):
            return not_true(operand)
        case _:
            return simplify(IsNull(predicate))


def columns_differ(leaf: Predicate, bound: Predicate) -> bool:
    """Whether binding has changed a leaf into another known predicate, which can be projected again."""
    return not isinstance(bound, Unknown) and bound != leaf


def _only_path(predicate: Predicate) -> _Path | None:
    """Return the column of an equality, a list or a NULL test, or of an OR of these on one column."""
    match predicate:
        case (
            Comparison(column) | In(column) | IsNull(Column() as column) | Truth(column) | Not(Truth(column))
        ):
            return column.path
        case Or(operands):
            paths = set(map(_only_path, operands))
            return paths.pop() if len(paths) == 1 else None
        case _:
            return None


def _ends(operands: Sequence[Predicate], path: _Path) -> list[Comparison]:
    return [
        operand
        for operand in operands
        if isinstance(operand, Comparison) and operand.column.path == path and operand.operator in RANGE_ENDS
    ]


def _extreme(values: Sequence[pa.Scalar], which: str) -> pa.Scalar:
    width = pa.int32() if pa.types.is_date32(values[0].type) else pa.int64()
    ticks = pa.concat_arrays([pa.repeat(value, 1) for value in values]).view(width)
    return pa.array([pc.min_max(ticks)[which].as_py()], width).view(values[0].type)[0]


def _combined(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Return all combinations of values, one in each row."""
    indices = np.meshgrid(*(np.arange(len(column)) for column in columns), indexing="ij")
    return [column.take(pa.array(index.ravel())) for column, index in zip(columns, indices, strict=True)]


def _among_tuples(known: Sequence[tuple[SourcedField, pa.Array]]) -> Predicate:
    """Return the condition that the fields jointly have the values of a row, if it adds information."""
    if len(known) < 2 or len(known[0][1]) == 1:
        return NOTHING
    counts = [len(values.unique()) for _, values in known]
    tuples = _tuples(known)
    return NOTHING if len(tuples.values[0]) == math.prod(counts) else tuples


def _tuples(known: Sequence[tuple[SourcedField, pa.Array]]) -> ValueTuples:
    names = tuple(field.field.column for field, _ in known)
    every = pa.table([values for _, values in known], names)
    distinct = grouped(every, names, use_threads=False).aggregate([])
    return ValueTuples(
        "a tuple of values", None, names, tuple(distinct[name].combine_chunks() for name in names)
    )
