"""JSON texts in small files and in metadata."""

from __future__ import annotations

import json
from typing import Any

from lance_df.errors import CorruptDataError


def parse_json(text: str | bytes, source: str) -> Any:
    """Parse JSON text.

    Raises
    ------
    CorruptDataError
        It is none, or has half a surrogate pair.
    """
    try:
        values = json.loads(text)
        json.dumps(values, ensure_ascii=False).encode()  # halves of surrogate pairs are no text
    except (ValueError, RecursionError) as err:
        raise CorruptDataError(f"{source}: not JSON: {text[:100]!r}") from err
    return values
