"""Type promotions of columns that change neither values nor hashes nor partition values.

Spec: partitioning, "Partition Expression": equal values of different widths have equal partition values.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.compute.calculator import evaluator
from lance_df.namespace.spec.expression_demands import checked_result_type
from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
from lance_df.namespace.spec.transforms import value_type

if TYPE_CHECKING:
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionField

_SIGNED: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED: Final = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_LADDERS: Final = (
    *(_SIGNED, _UNSIGNED),
    (pa.float16(), pa.float32(), pa.float64()),
    (pa.string(), pa.large_string()),
    (pa.binary(), pa.large_binary()),
    (pa.date32(), pa.date64()),
)
_UNITS: Final = ("s", "ms", "us", "ns")


def is_widening(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether every value of one type is a value of another type, with the same hash.

    Times may overflow, because a finer unit has a smaller range.
    """
    types = pa.types
    if old == new or any(old in ladder and new in ladder[ladder.index(old) :] for ladder in _LADDERS):
        return True
    if old in _UNSIGNED and new in _SIGNED:
        return bool(new.bit_width > old.bit_width)
    if types.is_decimal(old) and types.is_decimal(new):
        return bool(
            old.scale == new.scale and old.precision <= new.precision and old.bit_width <= new.bit_width
        )
    for is_kind in (types.is_timestamp, types.is_time, types.is_duration):
        if is_kind(old) and is_kind(new):
            is_finer = _UNITS.index(old.unit) <= _UNITS.index(new.unit)
            return is_finer and getattr(old, "tz", None) == getattr(new, "tz", None)
    for is_kind in (types.is_list, types.is_large_list):
        if is_kind(old) and is_kind(new):
            return is_widening(old.value_type, new.value_type)
    return False


def promoted_specs(specs: PartitionSpecs, before: NamespaceSchema, after: NamespaceSchema) -> PartitionSpecs:
    """Return the specs after columns are widened; identity partition values are widened as well.

    Raises
    ------
    InvalidInputError
        A partition expression does not meet the requirements for the new types.
    """
    old, new = before.columns.by_id(), after.columns.by_id()
    types = {field_id: field.arrow_type() for field_id, field in new.items()}
    wider = {
        field_id
        for field_id, data_type in types.items()
        if field_id in old and data_type != old[field_id].arrow_type()
    }

    def promoted(field: PartitionField) -> PartitionField:
        if wider.isdisjoint(field.source_ids) or not types.keys() >= set(field.source_ids):
            return field
        sources = [types[field_id] for field_id in field.source_ids]
        if field.transform is None:
            plain = [value_type(source) for source in sources]
            checked_result_type(field.expression or "", plain, field.result_type, evaluator())
            return field
        return dataclasses.replace(field, result_type=field.transform.result_type(sources))

    versions = [PartitionSpec(spec.id, tuple(promoted(field) for field in spec.fields)) for spec in specs]
    return PartitionSpecs(tuple(versions))
