"""JSON texts in the metadata of a namespace."""

from __future__ import annotations

import json
from typing import Any

from lance_df.errors import CorruptDataError


def parse_json(text: str, source: str) -> Any:
    """Parse JSON text of a namespace's metadata.

    Raises
    ------
    CorruptDataError
        It is none, or has half a surrogate pair.
    """
    try:
        values = json.loads(text)
        json.dumps(values, ensure_ascii=False).encode()  # halves of surrogate pairs are no text
    except (ValueError, RecursionError) as err:
        raise CorruptDataError(f"{source}: not JSON: {text:.100}") from err
    return values
