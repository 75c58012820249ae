"""Register pylance's functions of JSON columns as DataFusion UDFs: ``json_get_int(data, 'age') > 28``.

Documents are JSONB, as scans return JSON columns and as ``json_get`` returns parts of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa

from lance_df.compute.compat import PlainSessionContext, udf

_DOCUMENT: Final = pa.large_binary()
_TEXT: Final = pa.string()
# the return type of each; arguments are a document and texts
_RETURNS: Final = {
    "json_extract": pa.string(),
    "json_exists": pa.bool_(),
    "json_array_length": pa.int64(),
    "json_array_contains": pa.bool_(),
    "json_get": _DOCUMENT,
    "json_get_string": pa.string(),
    "json_get_int": pa.int64(),
    "json_get_float": pa.float64(),
    "json_get_bool": pa.bool_(),
}


def register_json_functions(ctx: PlainSessionContext) -> None:
    """Register ``json_extract``, ``json_get`` and its siblings."""
    for name, data_type in _RETURNS.items():
        texts = [_TEXT] * (2 if name == "json_array_contains" else 1)
        compute: Callable[..., pa.Array] = partial(_compute, name.removeprefix("json_"))
        ctx.register_udf(udf(compute, [_DOCUMENT, *texts], data_type, "immutable", name=name))


def calls_json_functions(text: str) -> bool:
    """Return whether a statement may call a JSON function."""
    return "json_" in text.lower()


def _compute(name: str, *columns: pa.Array) -> pa.Array:
    # few sessions call these functions, so their dependencies are imported on demand
    from lance_df.compute import json_values

    compute: Callable[..., pa.Array] = getattr(json_values, name)
    return compute(*columns)
