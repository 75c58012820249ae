"""Names in a namespace: object ids, generated names of partitions, and folders of tables.

Spec: partitioning, "Physical Layout and Naming"; directory namespace, V2.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from lance_df.errors import InvalidInputError
from lance_df.table.metadata.versions import NAMESPACE_MANIFEST

SEPARATOR: Final = "$"
MANIFEST_FOLDER: Final = NAMESPACE_MANIFEST
MEMBER_NAME: Final = "dataset"

_BASE36: Final = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
_NAME_LENGTH: Final = 16
# random bytes below this limit are distributed evenly over the letters
_EVEN: Final = 256 - 256 % len(_BASE36)

_MEMBER_FOLDER: Final = re.compile(rf"[0-9a-f]{{8}}_(v[0-9]+\$.*\${MEMBER_NAME})", re.ASCII | re.DOTALL)


def object_id(parts: Sequence[str]) -> str:
    """Return the id of a namespace or table: ``v1$k7m2n9p4q8r5s3t6$dataset``.

    Raises
    ------
    InvalidInputError
        There are no parts, or a part is empty or contains the separator.
    """
    for part in parts:
        if not part or SEPARATOR in part:
            raise InvalidInputError(f"invalid name {part!r}: it is empty or contains {SEPARATOR!r}")
    if not parts:
        raise InvalidInputError("a name must have at least one part")
    return SEPARATOR.join(parts)


def partition_names(count: int) -> list[str]:
    """Return new random names for namespaces of partitions."""
    wanted = count * _NAME_LENGTH
    letters = np.empty(0, np.uint8)
    while len(letters) < wanted:
        drawn = np.frombuffer(os.urandom(wanted + wanted // 32 + 16), np.uint8)
        letters = np.concatenate((letters, drawn[drawn < _EVEN]))
    text = _BASE36[letters[:wanted] % len(_BASE36)].tobytes().decode()
    return [text[start : start + _NAME_LENGTH] for start in range(0, wanted, _NAME_LENGTH)]


def table_folder(table_id: str) -> str:
    """Return a new name for the folder of a table; only its randomness makes it unique."""
    return f"{os.urandom(4).hex()}_{table_id}"


def is_member_folder(name: str) -> bool:
    """Whether a folder is named as those of members are."""
    return _MEMBER_FOLDER.fullmatch(name) is not None


def member_of_folder(name: str) -> str | None:
    """Return the object id of the member that a folder was made for; None if it is not named so."""
    match = _MEMBER_FOLDER.fullmatch(name)
    return None if match is None else match[1]


class Names(Protocol):
    """Generates names for new partitions and tables of a namespace."""

    def segments(self, level: int, keys: Sequence[bytes]) -> list[str]:
        """Return the last part of the name of each namespace of a level, by the keys of their values."""
        ...

    def folder(self, table_id: str) -> str:
        """Return the name for the folder of a table."""
        ...


class RandomNames:
    """Random names, which no other writer uses."""

    def segments(self, level: int, keys: Sequence[bytes]) -> list[str]:
        del level
        return partition_names(len(keys))

    def folder(self, table_id: str) -> str:
        return table_folder(table_id)


class JobNames:
    """Names that all processes of a job derive identically without communication, and that no other job uses.

    Parameters
    ----------
    job
        A unique text for each job.
    """

    def __init__(self, job: str) -> None:
        self._job = job

    def segments(self, level: int, keys: Sequence[bytes]) -> list[str]:
        digests = (self._digest(f"{level}".encode(), key) for key in keys)
        return [
            _BASE36[np.frombuffer(digest, "<u2")[:_NAME_LENGTH] % len(_BASE36)].tobytes().decode()
            for digest in digests
        ]

    def folder(self, table_id: str) -> str:
        return f"{self._digest(b'folder', table_id.encode())[:4].hex()}_{table_id}"

    def _digest(self, kind: bytes, key: bytes) -> bytes:
        import hashlib  # loads OpenSSL, which readers do not need

        return hashlib.sha256(b"\0".join((self._job.encode(), kind, key))).digest()
