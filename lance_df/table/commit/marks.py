"""Marks in the config of a table, so that a change is committed only once, even if it is tried again.

The entry is part of the version with the change, and of all later versions, whoever makes them. So it lasts
as long as the rows, and `Restore` undoes both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class AlreadyCommittedError(Exception):
    """The change was committed before. Nothing was done, and new files for it are not needed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A record of a change.

    Attributes
    ----------
    key
        The name of a sequence of changes, in the config of the table.
    number
        The number of the change. It is skipped if one with the same or a larger number was committed.
    """

    key: str
    number: int = 0

    def is_in(self, config: Mapping[str, str]) -> bool:
        """Whether the change was committed.

        Raises
        ------
        CorruptDataError
            The entry is not a valid number.
        """
        known = config.get(self.key)
        if known is None:
            return False
        try:
            return int(known) >= self.number
        except ValueError as err:
            raise CorruptDataError(f"config {self.key!r} is {known!r}, expected a number") from err


def check_marks(marks: Iterable[Mark], config: Mapping[str, str]) -> None:
    """Check that none of the changes was committed before.

    Raises
    ------
    AlreadyCommittedError
        One was.
    """
    for mark in marks:
        if mark.is_in(config):
            raise AlreadyCommittedError(f"{mark.key} {mark.number}")


def with_marks(marks: Iterable[Mark], config: Mapping[str, str]) -> dict[str, str]:
    """Return the config of a version that includes some changes."""
    return {**config, **{mark.key: str(mark.number) for mark in marks}}
