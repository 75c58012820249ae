"""Write the dictionaries of 0.1. All files of a table share them; the manifest and each file have a copy.

Spec: file format 0.1, 5.3. `lance_df.file.legacy.dictionaries` reads them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.leaf_values import is_variable
from lance_df.encodings.legacy.encode import encode_values
from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from lance_df.format.schema import Field, Schema


class DictionaryKeys:
    """Recodes the keys of all rows so that they refer to the same values.

    Attributes
    ----------
    values
        The values by field id. Those given by the schema belong to the table and do not change; others grow
        as rows need more values.
    """

    def __init__(self, schema: Schema, values: dict[int, pa.Array]) -> None:
        of_schema = {node.id: node.dictionary_values for node in schema.walk()}
        self._fixed = {field_id for field_id, each in of_schema.items() if each is not None}
        self._names = {node.id: node.name for node in schema.walk()}
        self._with_keys: set[int] = set()
        self.values = values
        self.values.update({field_id: each for field_id, each in of_schema.items() if each is not None})

    def recode(self, field: Field, array: pa.Array) -> pa.Array:
        """Return an array whose keys refer to ``values``.

        Raises
        ------
        InvalidInputError
            The table's dictionary lacks a value, or the key type cannot number all values.
        """
        if field.has_dictionary:
            return self._recode_keys(field, array)
        if not any(node.has_dictionary for node in field.walk()):
            return array
        if field.is_struct:
            children = [
                self.recode(child, array.field(position)) for position, child in enumerate(field.children)
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(children, fields=list(array.type), mask=mask)
        (child,) = field.children
        items = self.recode(child, array.values)
        return pa.Array.from_buffers(
            array.type, len(array), array.buffers()[:2], offset=array.offset, children=[items]
        )

    def finish(self) -> dict[int, pa.Array]:
        """Return the values of all columns that have rows.

        Raises
        ------
        InvalidInputError
            All rows of a column are null; nulls need a dictionary with at least one value.
        """
        for field_id in self._with_keys:
            if not len(self.values[field_id]):
                name = self._names[field_id]
                raise InvalidInputError(f"column {name!r}: nulls need a dictionary with at least one value")
        return self.values

    def _recode_keys(self, field: Field, array: pa.DictionaryArray) -> pa.Array:
        known, values = self.values.get(field.id), _as_read(field, array.dictionary)
        if known is None:
            self.values[field.id] = known = values
        if len(array):
            self._with_keys.add(field.id)
        if values.equals(known) and not (array.null_count and known.null_count):
            if array.dictionary.equals(known):
                return array
            return pa.DictionaryArray.from_arrays(array.indices, known, ordered=array.type.ordered)
        new_of_old = pc.index_in(values, known)
        used = pc.unique(array.indices).drop_null().cast(pa.int64())
        missing = used.filter(new_of_old.take(used).is_null())
        if len(missing):
            known = self._grow(field, known, values.take(missing))
            new_of_old = pc.index_in(values, known)
        keys = new_of_old.take(array.indices)
        if keys.null_count and known.null_count:
            keys = pc.fill_null(keys, pc.index_in(pa.nulls(1, known.type), known)[0])
        keys = keys.cast(array.type.index_type)
        return pa.DictionaryArray.from_arrays(keys, known, ordered=array.type.ordered)

    def _grow(self, field: Field, known: pa.Array, more: pa.Array) -> pa.Array:
        if field.id in self._fixed:
            raise InvalidInputError(
                f"column {field.name!r}: value {more[0].as_py()!r} is not in the dictionary of {len(known)} "
                "values, which all rows of a table in file version 0.1 share"
            )
        grown = pa.concat_arrays([known, more])
        limit = np.iinfo(field.arrow_type().index_type.to_pandas_dtype()).max
        if len(grown) - 1 > limit:
            raise InvalidInputError(
                f"column {field.name!r}: the dictionary has {len(grown)} values, but the keys go up to "
                f"{limit} only"
            )
        self.values[field.id] = grown
        return grown


def _as_read(field: Field, values: pa.Array) -> pa.Array:
    """Return the values of a dictionary as they are read: in a nullable field, empty ones become NULL."""
    if not (field.nullable and is_variable(values.type)):
        return values
    is_empty = pc.equal(pc.binary_length(values), 0)
    return pc.if_else(is_empty, pa.scalar(None, values.type), values) if pc.any(is_empty).as_py() else values


def check_dictionaries(schema: Schema) -> None:
    """Check that the values of all dictionary columns are known, which pylance requires too.

    Raises
    ------
    InvalidInputError
        Values are unknown, because no rows have been written or the column is added to an existing table.
    """
    for node in schema.walk():
        if node.has_dictionary and node.dictionary_values is None:
            raise InvalidInputError(
                f"column {node.name!r}: the dictionary is missing. In file version 0.1, a table gets its "
                "dictionaries when it is created with rows, and cannot get new ones later"
            )


def write_dictionaries(fields: Iterable[Field], position: int) -> tuple[bytes, tuple[Field, ...]]:
    """Serialize the values of dictionaries for ``position``; also return fields that refer to them."""
    fields = tuple(fields)
    if all(node.dictionary_values is None for field in fields for node in field.walk()):
        return b"", fields
    content = bytearray()

    def written(field: Field) -> Field:
        if field.dictionary_values is None:
            return field.with_children(written(child) for child in field.children)
        page = encode_values(field.dictionary_values)
        start = position + len(content)
        content.extend(page.data.tobytes())
        offset = start if page.offsets is None else position + len(content)
        if page.offsets is not None:
            content.extend((page.offsets + start).astype("<i8").tobytes())
        return dataclasses.replace(field, dictionary=(offset, page.count))

    placed = tuple(written(field) for field in fields)
    return bytes(content), placed
