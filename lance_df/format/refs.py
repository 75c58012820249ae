"""Tags and branches: small JSON files that name versions.

Spec: table format, tags and branches. Fields that older releases leave out have a default here.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Self

from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.format.messages import parse_json
from lance_df.records import dataclass

MAIN = "main"
MAX_REF_BYTES = 2**24
"""A larger file is neither a tag nor a branch."""

# letters and digits of any script
_PART = re.compile(r"[\w.\-]+")
_NANOS = re.compile(r"(\.\d{6})\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for one version of a branch; ``branch`` is ``None`` for main."""

    version: int
    branch: str | None = None
    manifest_size: int = 0
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: bytes, *, source: str) -> Self:
        """Parse a tag file.

        Raises
        ------
        CorruptDataError
            The file is not a tag.
        """
        values = _parse(data, source)
        return cls(
            version=_number(values, "version", source),
            branch=_text(values, "branch", source),
            manifest_size=_number(values, "manifestSize", source, default=0),
            created_at=_time(values, "createdAt", source),
            updated_at=_time(values, "updatedAt", source),
            metadata=_texts(values, "metadata", source),
        )

    def to_json(self) -> bytes:
        """Serialize the tag in the JSON layout of pylance."""
        return _dump(
            {
                "branch": self.branch,
                "version": self.version,
                "createdAt": _format_time(self.created_at),
                "updatedAt": _format_time(self.updated_at),
                "manifestSize": self.manifest_size,
                "metadata": dict(self.metadata),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """The version that a branch starts from.

    Attributes
    ----------
    parent_branch
        ``None`` for main.
    identifier
        (parent version, uuid as 32 hexadecimal digits) for each level of nesting; empty in old files.
    created_at
        Seconds since the epoch.
    """

    parent_version: int
    parent_branch: str | None = None
    identifier: tuple[tuple[int, str], ...] = ()
    created_at: int = 0
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: bytes, *, source: str) -> Self:
        """Parse a branch file.

        Raises
        ------
        CorruptDataError
            The file is not a branch.
        """
        values = _parse(data, source)
        return cls(
            parent_version=_number(values, "parentVersion", source),
            parent_branch=_text(values, "parentBranch", source),
            identifier=_identifier(values, source),
            created_at=_number(values, "createAt", source, default=0),
            manifest_size=_number(values, "manifestSize", source, default=0),
            metadata=_texts(values, "metadata", source),
        )

    def to_json(self) -> bytes:
        """Serialize the branch in the JSON layout of pylance."""
        return _dump(
            {
                "parentBranch": self.parent_branch,
                "identifier": {"version_mapping": [list(level) for level in self.identifier]},
                "parentVersion": self.parent_version,
                "createAt": self.created_at,
                "manifestSize": self.manifest_size,
                "metadata": dict(self.metadata),
            }
        )


def check_tag_name(name: str) -> str:
    """Return ``name`` if it is a valid name of a tag.

    Raises
    ------
    InvalidInputError
        The name is not valid; the message gives the reason.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"a tag name must be a string, got {name!r:.60}")
    if not _PART.fullmatch(name) or name.startswith(".") or name.endswith((".", ".lock")) or ".." in name:
        raise InvalidInputError(
            f"{name!r} is not a valid tag name; use letters, digits, '.', '-' and '_'; '..', a '.' at "
            "either end and '.lock' at the end are not allowed"
        )
    return name


def check_branch_name(name: str) -> str:
    """Return ``name`` if it is a valid name of a branch other than main.

    Raises
    ------
    InvalidInputError
        The name is not valid; the message gives the reason.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"a branch name must be a string, got {name!r:.60}")
    parts = name.split("/")
    if (
        not all(_PART.fullmatch(part) and part != "." for part in parts)
        or ".." in name
        or name.endswith(".lock")
        or name == MAIN
    ):
        raise InvalidInputError(
            f"{name!r} is not a valid branch name; use letters, digits, '.', '-' and '_' in parts joined by "
            f"'/'; '..', a part '.', '.lock' at the end and the name {MAIN!r} are not allowed"
        )
    return name


def _parse(data: bytes, source: str) -> dict[str, Any]:
    values = parse_json(data, source)
    if not isinstance(values, dict):
        raise CorruptDataError(f"{source}: expected a JSON object, found {type(values).__name__}")
    return values


def _dump(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, indent=2, ensure_ascii=False).encode()


def _number(values: Mapping[str, Any], key: str, source: str, *, default: int | None = None) -> int:
    value = values.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise CorruptDataError(f"{source}: {key} must be an unsigned 64-bit integer, found {value!r}")
    return value


def _text(values: Mapping[str, Any], key: str, source: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise CorruptDataError(f"{source}: {key} must be a string, found {value!r}")
    return value


def _texts(values: Mapping[str, Any], key: str, source: str) -> dict[str, str]:
    value = values.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise CorruptDataError(f"{source}: {key} must be a JSON object of strings, found {value!r}")
    return value


def _time(values: Mapping[str, Any], key: str, source: str) -> dt.datetime | None:
    text = _text(values, key, source)
    if text is None:
        return None
    try:
        # Files have nanoseconds; datetime holds microseconds.
        time = dt.datetime.fromisoformat(_NANOS.sub(r"\1", text))
        time.astimezone(dt.UTC)  # the format in which times are written
    except (ValueError, OverflowError) as err:
        raise CorruptDataError(f"{source}: {key} must be a time, found {text!r}") from err
    return time


def _format_time(time: dt.datetime | None) -> str | None:
    if time is None:
        return None
    return time.astimezone(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _identifier(values: Mapping[str, Any], source: str) -> tuple[tuple[int, str], ...]:
    identifier = values.get("identifier") or {}
    mapping = identifier.get("version_mapping", []) if isinstance(identifier, dict) else None
    if not isinstance(mapping, list) or not all(
        isinstance(level, list)
        and len(level) == 2
        and isinstance(level[0], int)
        and isinstance(level[1], str)
        for level in mapping
    ):
        raise CorruptDataError(
            f"{source}: identifier must have a version_mapping of pairs of version and branch id, found "
            f"{identifier!r}"
        )
    return tuple((level[0], level[1]) for level in mapping)
