"""The values of selected rows are those that Arrow's filter leaves, however they are found."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings import kernels
from lance_df.encodings.gather import FEW
from lance_df.encodings.selected_rows import SelectedRows

_COUNT = 9_001


def _numbers(data_type: pa.DataType, *, nulls: bool = False) -> pa.Array:
    numbers = np.arange(_COUNT) % 120
    return pa.array(numbers, mask=numbers % 7 == 3 if nulls else None).cast(data_type)


def _strings(*, nulls: bool = False) -> pa.Array:
    texts = [None if nulls and i % 5 == 1 else "é" * (i % 30) for i in range(_COUNT)]
    return pa.array(texts)


VALUES = {
    "int8": _numbers(pa.int8()),
    "int16 and nulls": _numbers(pa.int16(), nulls=True),
    "date": _numbers(pa.int32()).cast(pa.date32()),
    "timestamp and nulls": _numbers(pa.int64(), nulls=True).cast(pa.timestamp("ns", "UTC")),
    "float16": _numbers(pa.float16()),
    "decimal": pa.array([Decimal(i - 60) for i in range(_COUNT)]),
    "bool and nulls": _numbers(pa.int8(), nulls=True).cast(pa.bool_()),
    "strings": _strings(),
    "views": _strings().cast(pa.string_view()),
    "views and nulls": _strings(nulls=True).cast(pa.string_view()),
    "binary views": _strings().cast(pa.binary()).cast(pa.binary_view()),
    "lists": pa.array([[i, i] if i % 3 else None for i in range(_COUNT)]),
    "nothing but nulls": pa.nulls(_COUNT),
    "dictionary": _strings(nulls=True).dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        _numbers(pa.uint8()), _strings().slice(0, 120).cast(pa.string_view())
    ),
}


def _plain(values: pa.Array) -> list[object]:
    if isinstance(values, pa.DictionaryArray):
        words = values.dictionary.to_pylist()
        return [None if index is None else words[index] for index in values.indices.to_pylist()]
    return values.to_pylist()


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("count", [20, FEW + 5, _COUNT - 3])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.4, 0.98, 1.0])
@pytest.mark.parametrize("compiled", [True, False])
def test_keeps_what_a_filter_keeps(
    values: pa.Array, count: int, share: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "COMPILED", compiled and kernels.COMPILED)
    part = values.slice(3, count)
    mask = np.random.default_rng(count).random(count) < share
    kept = SelectedRows(mask)
    assert (kept.count, kept.num_rows) == (mask.sum(), count)
    np.testing.assert_array_equal(kept.positions, np.flatnonzero(mask))
    found = kept.of(part)
    found.validate(full=True)
    assert found.type == values.type
    expected = _plain(part)
    assert _plain(found) == [expected[row] for row in np.flatnonzero(mask)]


def test_joined_rows_are_those_of_both_or_either() -> None:
    masks = [np.array(bits, np.bool_) for bits in ([0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 1, 0])]
    for one in masks:
        for other in masks:
            for joined, expected in (
                (SelectedRows(one) & SelectedRows(other), one & other),
                (SelectedRows(one) | SelectedRows(other), one | other),
            ):
                np.testing.assert_array_equal(joined.mask, expected)
                assert joined.count == expected.sum()


def test_all_rows_and_none_need_no_mask() -> None:
    everything, nothing = SelectedRows.everything(5), SelectedRows.nothing(5)
    assert everything.is_all
    assert everything.mask.all()
    assert not nothing.mask.any()
    assert (everything & nothing).count == 0
    assert (everything | nothing).count == 5
    assert SelectedRows.everything(0).positions.tolist() == []
