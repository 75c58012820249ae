"""What a predicate on columns implies for the partition columns of ``__manifest``, for one spec version.

Where the predicate is true of a row, its projection is true of the row's partition: `NOTHING`, which is TRUE,
where that spec has nothing to say. Spec: partitioning, "Partition Pruning" and appendix D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    SourcedField,
    both,
    bound_leaf,
    calendar_fields,
    inclusive,
    possible_values,
)
from lance_df.namespace.pruning.partition_terms import PartitionTerms
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_spec import PartitionSpec
from lance_df.namespace.spec.partition_values import follows_from_sources

_Path: TypeAlias = tuple[str, ...]

# Tuples of values that are told apart, rather than the values of each field on their own.
_MAX_TUPLES: Final = 64
# Combinations of the values of several columns that an expression is computed for.
_MAX_COMBINATIONS: Final = 4096


class Projector:
    """Projects predicates on the columns of a namespace, as they are now, on one version of its spec.

    Parameters
    ----------
    observe
        Is told what is computed for a partition field: the field, its source values, and what that implies.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        schema: NamespaceSchema,
        observe: Callable[[SourcedField, Sequence[pa.Array], Predicate], None] | None = None,
    ) -> None:
        self.spec = spec
        self.types: dict[_Path, pa.DataType] = {}
        self.fields = tuple(self._sourced(spec, schema))
        self._observe = observe or (lambda *_: None)
        self._single: dict[_Path, list[SourcedField]] = {}
        for each in self.fields:
            if len(each.paths) == 1:
                self._single.setdefault(each.paths[0], []).append(each)
        self._joint = [each for each in self.fields if len(each.paths) > 1]
        calendars = {path: calendar_fields(fields) for path, fields in self._single.items()}
        self._calendars = {
            path: CalendarFields(fields, self.types[path]) for path, fields in calendars.items() if fields
        }

    def project(self, predicate: Predicate) -> Predicate:
        """Return what is true of the partition of every row for which the predicate is true."""
        return self._project(simplify(predicate))

    def _sourced(self, spec: PartitionSpec, schema: NamespaceSchema) -> Iterator[SourcedField]:
        by_id = schema.columns.by_id()
        for field in spec.fields:
            paths = [schema.path(field_id) for field_id in field.source_ids]
            known = tuple(path for path in paths if path is not None)
            if len(known) < len(paths) or not follows_from_sources(field):
                continue  # a column is gone, or the values say nothing
            types = tuple(storage_type(by_id[field_id].arrow_type()) for field_id in field.source_ids)
            self.types.update(zip(known, types, strict=True))
            yield SourcedField(field, known, types)

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
                parts = tuple(map(self._project, operands))
                return NOTHING if NOTHING in parts else Or(parts)
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
        if type(bound) is not type(leaf):  # what the type of the column cannot hold, say
            return self._project(bound) if columns_differ(leaf, bound) else NOTHING
        implied = [field.implied(bound) for field in fields]
        if isinstance(bound, Comparison) and path in self._calendars and bound.operator in RANGE_ENDS:
            end = inclusive(bound, self.types[path])
            implied.append(
                Literal(False) if end is None else self._calendars[path].of_end(end.operator, end.value)
            )
        return both(implied)

    def _of_values(self, path: _Path, values: pa.Array) -> Predicate:
        """Return what it implies that a column has one of some values."""
        found = [(field, field.values([values])) for field in self._single.get(path, ())]
        known = [(field, column) for field, column in found if column is not None]
        apart = [field.equals_any(column) for field, column in known]
        for (field, _), implied in zip(known, apart, strict=True):
            self._observe(field, [values], implied)
        return both([*apart, _among_tuples(known), *self._jointly({path: values})])

    def _of_conjunction(self, operands: Sequence[Predicate]) -> Predicate:
        parts = [self._project(operand) for operand in operands]
        return both([*parts, *self._ranges(operands), *self._jointly(self._choices(operands))])

    def _choice(self, predicate: Predicate) -> tuple[_Path, pa.Array] | None:
        """Return a column and the values that it may have where a predicate on it is true."""
        path = _only_path(predicate)
        if path is None or path not in self.types:
            return None
        if isinstance(predicate, Or):
            parts = [self._choice(operand) for operand in predicate.operands]
            values = [part[1] for part in parts if part is not None]
            return None if len(values) < len(parts) else (path, pa.concat_arrays(values))
        bound = bound_leaf(predicate, self.types[path])
        found = possible_values(bound, self.types[path])
        return None if found is None else (path, found)

    def _choices(self, operands: Sequence[Predicate]) -> dict[_Path, pa.Array]:
        """Return the fewest values that columns may have where all of some predicates are true."""
        choices: dict[_Path, pa.Array] = {}
        for path, values in filter(None, map(self._choice, operands)) if self._joint else ():
            if path not in choices or len(values) < len(choices[path]):
                choices[path] = values
        return choices

    def _jointly(self, choices: Mapping[_Path, pa.Array]) -> Iterator[Predicate]:
        """Yield what the values of all columns of a field imply together."""
        for field in self._joint:
            paths = tuple(dict.fromkeys(field.paths))  # a column may be there twice
            known = [choices[path] for path in paths if path in choices]
            if len(known) == len(paths) and np.prod([len(each) for each in known]) <= _MAX_COMBINATIONS:
                of_paths = dict(zip(paths, _combined(known), strict=True))
                combined = [of_paths[path] for path in field.paths]
                implied = field.among(combined)
                self._observe(field, combined, implied)
                yield implied

    def _ranges(self, operands: Sequence[Predicate]) -> Iterator[Predicate]:
        """Yield the months, days and hours that a range of less than a cycle touches."""
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


def columns_differ(leaf: Predicate, bound: Predicate) -> bool:
    """Whether binding has made something simpler of a leaf, which is then worth another look."""
    return not isinstance(bound, Unknown) and bound != leaf


def _only_path(predicate: Predicate) -> _Path | None:
    """Return the column of an equality, a list, a test for NULL, or of an OR of such."""
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
    """Return all combinations of values, one a row."""
    places = np.meshgrid(*(np.arange(len(column)) for column in columns), indexing="ij")
    return [column.take(pa.array(place.ravel())) for column, place in zip(columns, places, strict=True)]


def _among_tuples(known: Sequence[tuple[SourcedField, pa.Array]]) -> Predicate:
    """Return that the fields have the values of some row together, where that says more than each alone."""
    if len(known) < 2 or len(known[0][1]) == 1:
        return NOTHING
    codes = np.stack([_codes(values) for _, values in known], axis=1)
    distinct = np.unique(codes, axis=0)
    if len(distinct) == np.prod([len(np.unique(column)) for column in codes.T]):
        return NOTHING
    return NOTHING if len(distinct) > _MAX_TUPLES else _grouped(known)


def _grouped(known: Sequence[tuple[SourcedField, pa.Array]]) -> Predicate:
    (field, values), *others = known
    if not others:
        return field.equals_any(values)
    codes = _codes(values)
    groups = [np.flatnonzero(codes == code) for code in np.unique(codes)]
    return Or(
        tuple(
            both(
                [
                    field.equals_any(values.take(pa.array(places))),
                    _grouped([(other, column.take(pa.array(places))) for other, column in others]),
                ]
            )
            for places in groups
        )
    )


def _codes(values: pa.Array) -> np.ndarray:
    encoded = values.dictionary_encode(null_encoding="encode").indices
    return encoded.to_numpy(zero_copy_only=False).astype(np.int64)
