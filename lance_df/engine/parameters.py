"""Convert the values of a statement's placeholders to values that DataFusion accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lance_df.errors import InvalidInputError

# types of pandas, which need not be installed
_NULLS: Final = ("NaTType", "NAType")
_MAX_INT64: Final = 2**63 - 1
# numpy units that Arrow lacks, and the Arrow units that hold the same times
_UNITS: Final = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}


def parameter_values(given: object) -> dict[str, Any]:
    """Return the values by name. The values of a list are named ``$1``, ``$2`` and so on.

    Raises
    ------
    InvalidInputError
        ``given`` is neither a dict nor a list, or Arrow cannot represent a value.
    """
    if isinstance(given, list | tuple):
        given = dict(enumerate(given, 1))
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"param_values must be a dict, or a list of the values of $1, $2 and so on, got {given!r:.60}"
        )
    return {str(name): _value(value, name) for name, value in given.items()}


def _value(value: object, name: object) -> Any:
    if type(value).__module__.startswith("pandas.") and type(value).__name__ in _NULLS:
        return None
    if isinstance(value, np.datetime64) and np.isnat(value):
        return None
    if isinstance(value, pa.Scalar):
        return value
    try:
        if isinstance(value, np.datetime64):
            unit, _ = np.datetime_data(value.dtype)
            return pa.array(np.array([value.astype(f"datetime64[{_UNITS.get(unit, unit)}]")]))[0]
        # DataFusion infers the type int64 for all integers
        is_large = isinstance(value, int) and value > _MAX_INT64
        return pa.scalar(value, pa.uint64() if is_large else None)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as err:
        raise InvalidInputError(
            f"the value of ${name}, {value!r:.60}, cannot be converted to Arrow: {err}"
        ) from err
