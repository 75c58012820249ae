"""The values of placeholders in a statement, in what DataFusion takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lance_df.errors import InvalidInputError

# of pandas, which need not be installed
_NULLS: Final = ("NaTType", "NAType")
# units of numpy that Arrow does not have, and those that hold the same times
_UNITS: Final = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}


def parameter_values(given: object) -> dict[str, Any]:
    """Return the values by name; those of a list are ``$1``, ``$2`` and so on.

    Raises
    ------
    InvalidInputError
        They are neither a dict nor a list, or one is nothing that Arrow holds.
    """
    if isinstance(given, list | tuple):
        given = dict(enumerate(given, 1))
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"param_values are a dict, or a list of the values of $1, $2 and so on, not {given!r:.60}"
        )
    return {str(name): _value(value, name) for name, value in given.items()}


def _value(value: object, name: object) -> Any:
    if type(value).__module__.startswith("pandas.") and type(value).__name__ in _NULLS:
        return None
    if not isinstance(value, np.datetime64):
        return value
    if np.isnat(value):
        return None
    unit, _ = np.datetime_data(value.dtype)
    try:
        return pa.array(np.array([value.astype(f"datetime64[{_UNITS.get(unit, unit)}]")]))[0]
    except pa.ArrowException as err:
        raise InvalidInputError(f"the value of ${name}, {value!r}, cannot be one of Arrow: {err}") from err
