"""Schemas with very many columns take time in proportion to the columns."""

from __future__ import annotations

import pickle
import time

import pyarrow as pa
import pytest

from lance_df.errors import InvalidInputError
from lance_df.file.api.writer import _check_batch
from lance_df.file.storable import check_storable
from lance_df.format.schema import Schema, schema_from_arrow
from lance_df.table.scan.columns import resolve_columns

# by a search of all columns for each, any of the calls takes ten times as long as all may
NUM_COLUMNS = 30_000
SECONDS = 20


def test_columns_are_found_by_name() -> None:
    columns = pa.schema([(f"c{number}", pa.int64()) for number in range(NUM_COLUMNS)])
    schema = schema_from_arrow(columns)
    start = time.process_time()
    check_storable(schema, "2.2")
    _check_batch(columns, schema)
    assert len(resolve_columns(schema, columns.names)) == NUM_COLUMNS
    assert time.process_time() - start < SECONDS


def test_the_first_of_two_columns_is_found() -> None:
    schema = schema_from_arrow(pa.schema([("a", pa.int64()), ("a", pa.string()), ("b", pa.int8())]))
    assert [schema.field("a"), schema.field("b")] == [schema.fields[0], schema.fields[2]]
    assert Schema(fields=schema.fields) == schema
    assert hash(Schema(fields=schema.fields)) == hash(schema)
    with pytest.raises(InvalidInputError, match="two columns are called 'a'"):
        check_storable(schema, "2.2")


def test_what_was_looked_up_is_not_part_of_a_schema() -> None:
    schema, other = (schema_from_arrow(pa.schema([("a", pa.int64())])) for _ in range(2))
    before = (pickle.dumps(schema), repr(schema), hash(schema))
    assert schema.by_name["a"] is schema.fields[0]
    assert (pickle.dumps(schema), repr(schema), hash(schema)) == before
    assert schema == other
    assert pickle.loads(before[0]).by_name == schema.by_name
