"""Changes that are committed once, however often they are tried: the config of a table remembers them.

The entry is part of the version that has the change, and of those after it, whoever makes them: it is as
lasting as the rows, and `Restore` takes back both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class AlreadyCommittedError(Exception):
    """The change was committed before. Nothing was done; what it would have added is not needed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What is remembered of a change.

    Attributes
    ----------
    key
        Names a sequence of changes, in the config of the table.
    number
        Of the change: it is left out if one of the same or a larger number was committed.
    """

    key: str
    number: int = 0

    def is_in(self, config: Mapping[str, str]) -> bool:
        """Whether the change was committed.

        Raises
        ------
        CorruptDataError
            Somebody has put something else there.
        """
        known = config.get(self.key)
        if known is None:
            return False
        try:
            return int(known) >= self.number
        except ValueError as err:
            raise CorruptDataError(f"config {self.key!r} is {known!r}, expected a number") from err


def check_marks(marks: Iterable[Mark], config: Mapping[str, str]) -> None:
    """Check that no change was committed before.

    Raises
    ------
    AlreadyCommittedError
        One was.
    """
    for mark in marks:
        if mark.is_in(config):
            raise AlreadyCommittedError(f"{mark.key} {mark.number}")


def with_marks(marks: Iterable[Mark], config: Mapping[str, str]) -> dict[str, str]:
    """Return the config of a version that has some changes."""
    return {**config, **{mark.key: str(mark.number) for mark in marks}}
