"""Properties of namespaces that are not stored, but derived from the specs and the partition values.

Spec: partitioning, "Runtime Namespace Properties" and appendix E.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError, LanceError
from lance_df.namespace.names import SEPARATOR
from lance_df.namespace.spec.partition_spec import KEY_PREFIX, PartitionSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

SPEC_PROPERTY: Final = "partition_spec"
VALUE_PREFIX: Final = "partition."


def spec_properties(metadata: Mapping[str, str], object_id: str) -> dict[str, str]:
    """Return the properties of the namespace of a spec version: the spec as stored in the metadata."""
    text = metadata.get(KEY_PREFIX + object_id.removeprefix("v"))
    return {} if text is None or not object_id.startswith("v") else {SPEC_PROPERTY: text}


def value_column(metadata: Mapping[str, str], object_id: str) -> tuple[str, str] | None:
    """Return field id and column of the level of a partition namespace; None for other namespaces."""
    name, *levels = object_id.split(SEPARATOR)
    text = metadata.get(KEY_PREFIX + name.removeprefix("v")) if name.startswith("v") else None
    if text is None:
        return None
    try:
        fields = PartitionSpec.from_json(text, source=name).fields
    except LanceError:
        return None
    if not 0 < len(levels) <= len(fields):
        return None
    return fields[len(levels) - 1].field_id, fields[len(levels) - 1].column


def value_properties(field_id: str, values: pa.Array | pa.ChunkedArray) -> dict[str, str]:
    """Return the properties of a partition namespace: the value of its own level, unless that is NULL."""
    texts = values_as_text(values.drop_null())
    return {VALUE_PREFIX + field_id: texts[0].as_py()} if len(texts) else {}


def values_as_text(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return partition values as text in DataFusion's format; bytes as hexadecimal digits."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        texts = [None if value is None else value.hex() for value in values.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_fixed_size_binary(values.type):
        return values_as_text(values.cast(pa.binary()))
    if pa.types.is_temporal(values.type):
        return _moments_as_text(values)
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        return _text_of_engine(values)  # Arrow writes nan, 1e+20 and 1E-8
    return pc.cast(values, pa.string())


def _text_of_engine(values: pa.Array) -> pa.Array:
    from lance_df.compute.calculator import evaluator  # most namespaces can be described without DataFusion

    return evaluator().evaluate("CAST(col0 AS VARCHAR)", [values]).cast(pa.string())


def _moments_as_text(values: pa.Array) -> pa.Array:
    """Return times as text, also in years that Arrow cannot format; as integers outside the calendar."""
    try:
        return _text_of_engine(values)
    except InvalidInputError:
        return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64()).cast(pa.string())
