"""Repetition and definition levels of Arrow arrays, against the examples of the format."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lance_df.encodings.levels.encode import LeafColumn, leaf_columns
from lance_df.errors import InvalidInputError
from lance_df.format.encodings_v2_1 import RepDefLayer as Layer
from lance_df.format.schema import Field, schema_from_arrow


def field_of(data_type: pa.DataType, *, nullable: bool = True) -> Field:
    return schema_from_arrow(pa.schema([pa.field("c", data_type, nullable)])).fields[0]


def leaves(values: list[Any], data_type: pa.DataType) -> list[LeafColumn]:
    return list(leaf_columns(field_of(data_type), pa.array(values, data_type)))


def only(values: list[Any], data_type: pa.DataType) -> LeafColumn:
    (leaf,) = leaves(values, data_type)
    return leaf


def test_flat_column_without_nulls_has_no_levels() -> None:
    leaf = only([1, 2], pa.int64())
    assert leaf.layers == (Layer.ALL_VALID_ITEM,)
    assert (leaf.repetition, leaf.definition, leaf.valid(), leaf.visible()) == (None, None, None, None)


def test_list_example_of_the_format() -> None:
    leaf = only([[1, 2], None, [], [3]], pa.list_(pa.int64()))
    assert leaf.layers == (Layer.ALL_VALID_ITEM, Layer.NULL_AND_EMPTY_LIST)
    assert leaf.repetition is not None
    assert leaf.repetition.tolist() == [1, 0, 1, 1, 1]
    assert leaf.definition is not None
    assert leaf.definition.tolist() == [0, 0, 1, 2, 0]
    assert leaf.values.to_pylist() == [1, 2, 3]
    assert leaf.max_visible == 0


def test_struct_example_of_the_format() -> None:
    leaf = only([{"x": 1}, {"x": None}, None, {"x": 4}], pa.struct({"x": pa.int64()}))
    assert leaf.layers == (Layer.NULLABLE_ITEM, Layer.NULLABLE_ITEM)
    assert leaf.definition is not None
    assert leaf.definition.tolist() == [0, 1, 2, 0]
    assert len(leaf.values) == 4


def test_layers_without_lists_say_what_occurs() -> None:
    leaf = only([{"x": 1}, {"x": None}], pa.struct({"x": pa.int64()}))
    assert leaf.layers == (Layer.NULLABLE_ITEM, Layer.ALL_VALID_ITEM)


@pytest.mark.parametrize(
    ("values", "layer"),
    [
        ([[1], [2, 3]], Layer.ALL_VALID_LIST),
        ([[1], None], Layer.NULLABLE_LIST),
        ([[1], []], Layer.EMPTYABLE_LIST),
        ([[1], [], None], Layer.NULL_AND_EMPTY_LIST),
    ],
)
def test_layers_of_lists_say_what_occurs_unless_structs_lie_around_them(values: Any, layer: Layer) -> None:
    kind = pa.list_(pa.int64())
    assert only(values, kind).layers == (Layer.ALL_VALID_ITEM, layer)
    nested = only([{"x": value} for value in values], pa.struct({"x": kind}))
    assert nested.layers == (Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST, Layer.NULLABLE_ITEM)


def test_lists_in_lists() -> None:
    leaf = only([[[1], [], None, [2, 3]], None, [[]], []], pa.list_(pa.list_(pa.int8())))
    assert leaf.repetition is not None
    assert leaf.repetition.tolist() == [2, 1, 1, 1, 0, 2, 2, 2]
    assert leaf.definition is not None
    # inner null 1, empty 2; outer null 3, empty 4
    assert leaf.definition.tolist() == [0, 2, 1, 0, 0, 3, 2, 4]
    assert leaf.values.to_pylist() == [1, 2, 3]


def test_leaves_below_a_null_struct_in_a_list() -> None:
    kind = pa.list_(pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())}))
    x, y = leaves([[{"x": 1, "y": ["a", "b"]}, None], [{"x": None, "y": None}]], kind)
    assert x.definition is not None
    assert x.definition.tolist() == [0, 2, 1]
    assert len(x.values) == 3
    assert y.repetition is not None
    assert y.repetition.tolist() == [2, 0, 1, 2]
    assert y.definition is not None
    # item 1; inner list null 2, empty 3; struct 4
    assert y.definition.tolist() == [0, 0, 4, 2]
    assert y.values.to_pylist() == ["a", "b"]


def test_items_under_null_lists_are_left_out() -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5]), pa.array([1, 2, 3, 4, 5]))
    masked = pa.ListArray.from_buffers(
        lists.type, 3, [pa.py_buffer(bytes([0b101])), lists.buffers()[1]], children=[lists.values]
    )
    (leaf,) = leaf_columns(field_of(lists.type), masked)
    assert leaf.values.to_pylist() == [1, 2, 5]


def test_sliced_arrays() -> None:
    kind = pa.list_(pa.struct({"x": pa.int64()}))
    whole = pa.array([[{"x": 1}], None, [{"x": 2}, {"x": 3}], []] * 3, kind)
    (sliced,) = leaf_columns(field_of(kind), whole[2:7])
    (copied,) = leaf_columns(field_of(kind), pa.array(whole[2:7].to_pylist(), kind))
    assert sliced.values.to_pylist() == copied.values.to_pylist() == [2, 3, 1, 2, 3]
    assert sliced.repetition is not None
    assert copied.repetition is not None
    assert sliced.repetition.tolist() == copied.repetition.tolist()


def test_fixed_size_list_of_structs_counts_items_as_rows() -> None:
    kind = pa.list_(pa.struct({"x": pa.int8()}), 2)
    leaf = only([[{"x": 1}, None], None], kind)
    assert leaf.num_rows == 4
    assert leaf.definition is not None
    assert leaf.definition.tolist() == [0, 2, 3, 3]


def test_nulls_in_a_dictionary_become_levels() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["a", None, "b"]))
    (leaf,) = leaf_columns(field_of(array.type), array)
    assert leaf.definition is not None
    assert leaf.definition.tolist() == [0, 1, 1, 0]
    assert leaf.values.dictionary.null_count == 0
    assert leaf.values.type == array.type


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None], pa.int64()),
        ([[1], None], pa.list_(pa.int64())),
        ([{"x": 1}, None], pa.struct({"x": pa.int64()})),
    ],
)
def test_null_in_a_column_that_is_not_null(values: list[Any], kind: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="'c' is declared not null"):
        list(leaf_columns(field_of(kind, nullable=False), pa.array(values, kind)))


def test_value_that_must_not_be_null_may_lie_below_a_null() -> None:
    kind = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    (leaf,) = leaf_columns(field_of(kind), pa.array([{"x": 1}, None], kind))
    # the value is null, too: readers ask the leaf alone about ``c.x``
    assert leaf.layers == (Layer.NULLABLE_ITEM, Layer.NULLABLE_ITEM)
    assert leaf.definition is not None
    assert leaf.definition.tolist() == [0, 2]
    inner = pa.StructArray.from_arrays(
        [pa.array([1, None])], fields=[pa.field("x", pa.int64(), nullable=False)]
    )
    with pytest.raises(InvalidInputError, match=r"'c\.x' is declared not null"):
        list(leaf_columns(field_of(kind), inner))
