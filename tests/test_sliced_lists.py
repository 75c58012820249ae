"""Rows with nested fixed-size lists can be taken and filtered by pyarrow, which misreads slices of these."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings.gather import take
from lance_df.encodings.selected_rows import SelectedRows
from lance_df.sliced_lists import unsliced

_lists_of = pa.FixedSizeListArray.from_arrays
_COUNT = 40


class _Wrapped(pa.ExtensionType):
    def __init__(self, storage_type: pa.DataType) -> None:
        super().__init__(storage_type, "tests.wrapped")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, _: bytes) -> _Wrapped:
        return cls(storage_type)


def _nested(count: int, item_type: pa.DataType | None = None) -> pa.FixedSizeListArray:
    return _lists_of(_lists_of(pa.array(range(count * 6)).cast(item_type or pa.int64()), 3), 2)


_NESTED = _nested(_COUNT)
_CODED = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1] * 10), pa.array(["a", None]))
_ENDS = pa.array(range(0, _COUNT + 1, 2), pa.int32())
VALUES = {
    "numbers": _NESTED,
    "bools": _nested(_COUNT, pa.bool_()),
    "decimals": _nested(_COUNT, pa.decimal128(30, 0)),
    "three levels": _lists_of(_nested(2 * _COUNT), 2),
    "slices of inner lists": _lists_of(_NESTED.values.slice(6), 2),
    "slices of items": _lists_of(_lists_of(pa.array(range(_COUNT * 6)).slice(6), 3), 2),
    "null lists": _lists_of(_NESTED.values, 2, mask=pa.array([i % 3 == 0 for i in range(_COUNT)])),
    "null inner lists": _lists_of(_lists_of(pa.array(range(240)), 3, mask=pa.array([True, False] * 40)), 2),
    "structs": pa.StructArray.from_arrays([_NESTED, _CODED], ["x", "d"]),
    "structs of slices": pa.StructArray.from_arrays([_NESTED.slice(3)], ["x"]),
    "lists": pa.ListArray.from_arrays(_ENDS, _NESTED),
    "lists of slices": pa.ListArray.from_arrays(_ENDS.slice(0, 15), _NESTED.slice(5)),
    "maps of slices": pa.MapArray.from_arrays(_ENDS.slice(0, 15), pa.array(range(35)), _NESTED.slice(5)),
    "keys of maps": pa.MapArray.from_arrays(_ENDS.slice(0, 15), _NESTED.slice(5), pa.array(range(35))),
    "lists of structs": _lists_of(pa.StructArray.from_arrays([_nested(2 * _COUNT)], ["x"]), 2),
    "an extension type": _Wrapped(_NESTED.type).wrap_array(_NESTED),
    "no items": pa.array([[]] * _COUNT, pa.list_(pa.list_(pa.int64(), 2), 0)),
    "other lists": pa.array([[i, i] for i in range(_COUNT)], pa.list_(pa.int64(), 2)),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
@given(data=st.data())
def test_slices(values: Any, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values) - 1))
    part = values.slice(start, data.draw(st.integers(1, len(values) - start)))
    expected, count = part.to_pylist(), len(part)
    order = data.draw(st.permutations(range(count)))
    mask = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    taken = [expected[i] for i in order]
    filtered = [value for value, is_wanted in zip(expected, mask, strict=True) if is_wanted]

    array = unsliced(part)
    assert (array.type, array.to_pylist()) == (part.type, expected)
    assert array.take(pa.array(order)).to_pylist() == taken
    assert array.filter(pa.array(mask)).to_pylist() == filtered
    assert array.drop_null().to_pylist() == [value for value in expected if value is not None]
    table = pa.table({"x": pa.chunked_array([part, values]), "i": range(count + len(values))})
    table = table.replace_schema_metadata({"a": "b"})
    whole = unsliced(table)
    assert (whole.schema, whole["x"].num_chunks) == (table.schema, 2)
    assert whole.schema.metadata == {b"a": b"b"}
    assert whole.filter(pa.array(mask + [False] * len(values)))["x"].to_pylist() == filtered
    assert whole.sort_by([("i", "descending")])["x"].to_pylist() == (expected + values.to_pylist())[::-1]
    batch = unsliced(pa.record_batch({"x": part}))
    assert batch.take(pa.array(order))["x"].to_pylist() == taken

    if not isinstance(values, pa.ExtensionArray):
        selected = SelectedRows(pa.array(mask).to_numpy(zero_copy_only=False))
        assert selected.of(part).to_pylist() == filtered
        assert take(part, selected.positions).to_pylist() == filtered


def test_other_rows_are_not_copied() -> None:
    batch = pa.record_batch({"x": _NESTED, "y": pa.array(range(_COUNT))})
    whole, part = unsliced(batch), unsliced(batch.slice(3))
    assert whole["x"].values.values.buffers()[1].address == _NESTED.values.values.buffers()[1].address
    assert part["y"].buffers()[1].address == batch["y"].buffers()[1].address
