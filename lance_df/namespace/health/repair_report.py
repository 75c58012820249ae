"""The result of a repair, or of a dry run of it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN: Final = 100


class RepairKind(StrEnum):
    """The kind of a repair action."""

    METADATA = "metadata taken from an older version"
    COLUMNS = "columns made again"
    LOCATION = "folder of a table corrected"
    RECALLED = "rows completed from an older version"
    READ = "values computed from the rows of the table"
    CORRECTED = "values of a namespace corrected"
    NAMESPACE = "row of a namespace made again"
    BROUGHT_BACK = "row brought back"
    FITTED = "columns of the namespace given"
    REPEATED = "row that was there twice removed"
    RENAMED = "id taken from the folder"
    SHARED = "row for the folder of another table removed"
    MOVED = "rows moved to the table of their partition"
    SET_ASIDE = "set aside"
    PUBLISHED = "newer version shown"
    NOT_PUBLISHED = "newer version not shown"
    FORGOTTEN = "row of a missing table removed"
    MISSING = "row of a missing table left"
    LEFT = "row left as it is"
    EMPTY = "no member is left"
    REMOVED = "folder that nothing needs removed"
    NOT_REMOVED = "folders that may be needed left"


_NOT_DONE: Final = (
    RepairKind.NOT_PUBLISHED,
    RepairKind.MISSING,
    RepairKind.LEFT,
    RepairKind.EMPTY,
    RepairKind.NOT_REMOVED,
)


@dataclass(frozen=True, slots=True)
class RepairAction:
    """A repair action: its kind, its subject, and the reason."""

    kind: RepairKind
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}: {self.text}"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair.

    Attributes
    ----------
    version
        The version of the namespace after the repair.
    is_dry_run
        Whether nothing was changed.
    """

    uri: str
    version: int
    is_dry_run: bool
    actions: tuple[RepairAction, ...]

    def of_kind(self, kind: RepairKind) -> tuple[RepairAction, ...]:
        """Return the actions of a kind."""
        return tuple(action for action in self.actions if action.kind is kind)

    @property
    def changes(self) -> bool:
        """Return whether anything was changed, or would be."""
        return changes(self.actions)

    def __str__(self) -> str:
        if not self.actions:
            return f"{self.uri} version {self.version}: nothing to repair"
        head = "would be repaired as follows" if self.is_dry_run else "repaired"
        head = head if self.changes else "nothing was repaired"
        lines = [str(action) for action in self.actions[:_SHOWN]]
        more = len(self.actions) - len(lines)
        more_lines = [f"… and {more} more"] if more else []
        return "\n".join([f"{self.uri} version {self.version}: {head}", *lines, *more_lines])


def changes(actions: Iterable[RepairAction]) -> bool:
    """Return whether any action does more than report something that was not done."""
    return any(action.kind not in _NOT_DONE for action in actions)
