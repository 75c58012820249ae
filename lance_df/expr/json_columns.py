"""JSON columns in conditions: what is stored is JSONB, which equals no text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.format.schema import EXTENSION_NAME, STORED_JSON

if TYPE_CHECKING:
    import pyarrow as pa


def is_json(field: pa.Field) -> bool:
    """Whether a column of a stored schema holds JSON."""
    return (field.metadata or {}).get(EXTENSION_NAME.encode()) == STORED_JSON


def compared_with_text(name: str) -> InvalidInputError:
    """Return the error of a condition that compares a JSON column with text."""
    return InvalidInputError(
        f"column {name!r} holds JSON, stored as JSONB, which equals no text: compare its text, "
        f"json_extract({name}, '$'), or a value, such as json_get_string({name}, 'key')"
    )
