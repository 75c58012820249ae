"""Versions of tables as text, for time travel in statements."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Final

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass

VERSION_MARK: Final = "$at "
"""The separator between the name of a table and a version."""


class VersionKind(StrEnum):
    """The way in which a version is named."""

    NUMBER = "version"
    TAG = "tag"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class VersionText:
    """A version as text: its number, its tag or a time.

    >>> VersionText.of("version 3")
    VersionText(kind=<VersionKind.NUMBER: 'version'>, value='3')
    """

    kind: VersionKind
    value: str

    @classmethod
    def of(cls, text: str) -> VersionText:
        """Parse the result of `str`.

        Raises
        ------
        InvalidInputError
            ``text`` does not name a version.
        """
        kind, _, value = text.partition(" ")
        if kind not in set(VersionKind):
            raise InvalidInputError(f"{text!r} is not a version")
        return cls(VersionKind(kind), value)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.value}"

    def time(self) -> dt.datetime:
        """Return the time. It is in UTC if it has no time zone.

        Raises
        ------
        InvalidInputError
            The value is not a time.
        """
        try:
            time = dt.datetime.fromisoformat(self.value.strip())
        except ValueError as err:
            raise InvalidInputError(
                f"TIMESTAMP AS OF {self.value!r}: expected a time such as '2024-05-01 12:00:00'"
            ) from err
        return time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
