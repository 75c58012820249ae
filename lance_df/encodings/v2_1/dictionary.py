"""Dictionary pages: indices into values that the page stores once. Spec: file format 2.x, 4.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt


def look_up(
    dictionary: pa.Array,
    indices: npt.NDArray[Any],
    is_null: npt.NDArray[np.bool_] | None,
    data_type: pa.DataType,
) -> pa.Array:
    """Return the values that ``indices`` mean.

    Parameters
    ----------
    dictionary
        Its values have no nulls.
    indices
        Unsigned. Those of nulls have no meaning.
    is_null
        Which indices are of nulls, None when none are.
    data_type
        Of the values, or a dictionary type, for which indices and dictionary are kept apart.

    Raises
    ------
    CorruptDataError
        An index lies outside the dictionary.
    """
    if is_null is not None and len(is_null) == len(indices):
        indices = np.where(is_null, indices.dtype.type(0), indices)
        if not len(dictionary) and is_null.all():
            return pa.nulls(len(indices), data_type)
    if len(indices) and int(indices.max()) >= len(dictionary):
        raise CorruptDataError(f"dictionary index {indices.max()}, there are {len(dictionary)} values")
    if not pa.types.is_dictionary(data_type):
        return dictionary.take(pa.array(indices))
    if indices.itemsize * 8 != data_type.index_type.bit_width:
        raise CorruptDataError(f"indices of {indices.itemsize * 8} bits in a column of type {data_type}")
    return pa.DictionaryArray.from_arrays(
        pa.array(indices).view(data_type.index_type), dictionary, ordered=data_type.ordered, safe=False
    )
