"""Names in a namespace: object ids, generated names of partitions, folders of tables.

Spec: partitioning, "Physical Layout and Naming"; directory namespace, V2.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from typing import Final

from lance_df.errors import InvalidInputError

SEPARATOR: Final = "$"
MANIFEST_FOLDER: Final = "__manifest"
MEMBER_NAME: Final = "dataset"

_BASE36: Final = string.ascii_lowercase + string.digits
_NAME_LENGTH: Final = 16


def object_id(parts: Sequence[str]) -> str:
    """Return the id of a namespace or table: ``v1$k7m2n9p4q8r5s3t6$dataset``.

    Raises
    ------
    InvalidInputError
        There is no part, or one is empty or holds the separator.
    """
    for part in parts:
        if not part or SEPARATOR in part:
            raise InvalidInputError(f"{part!r} is no name: it is empty, or holds {SEPARATOR!r}")
    if not parts:
        raise InvalidInputError("a name needs at least one part")
    return SEPARATOR.join(parts)


def partition_name() -> str:
    """Return a new random name for the namespace of a partition."""
    return "".join(secrets.choice(_BASE36) for _ in range(_NAME_LENGTH))


def table_folder(table_id: str) -> str:
    """Return a new name for the folder of a table: only its randomness keeps it from being another's."""
    return f"{secrets.token_hex(4)}_{table_id}"
