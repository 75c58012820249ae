"""Changes of rows and of columns in one transaction, published by one commit.

The rows and conditions of a change depend on the columns at that point. So a change of columns begins a new
stage, which starts from a detached version of ``__manifest`` with the new columns. When the transaction is
published, each stage is applied on the detached version of the stage before it. Restoring the last one
publishes all; see `lance_df.namespace.changes.schema_publish`.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import field
from typing import TYPE_CHECKING, Final, Self

from lance_df.errors import RetryableConflictError
from lance_df.format.operations import Restore
from lance_df.namespace.changes.draft import Draft
from lance_df.namespace.changes.pending import PendingChanges
from lance_df.namespace.changes.pins import NeedsPinsError, with_pins
from lance_df.namespace.changes.publish import remove_new_folders
from lance_df.namespace.changes.schema_publish import (
    DETACHED,
    changed_members,
    remove_staged,
    with_schema,
)
from lance_df.namespace.manifest_table import STRICT, NamespaceManifest
from lance_df.namespace.object_account import check_none_lost
from lance_df.records import dataclass
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import RowChange
from lance_df.table.writing.uncommitted import UncommittedFiles

if TYPE_CHECKING:
    from types import TracebackType

    from lance_df.namespace.changes.column_changes import ColumnChange
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.table.table import Table

_ATTEMPTS: Final = 50


@dataclass(frozen=True, slots=True)
class _ColumnStep:
    """A change of columns, and the member versions that already have it, by folder and changed version."""

    change: ColumnChange
    made: dict[tuple[str, int], int] = field(default_factory=dict)


class Stages:
    """The ordered changes of a transaction; a context manager that removes unpublished files.

    Attributes
    ----------
    snapshot
        The namespace with the columns of the current stage. Except in the first stage, its members do not
        have these columns yet.
    rows
        Collects the changes of rows of the current stage.
    """

    def __init__(self, snapshot: NamespaceSnapshot) -> None:
        self._first = snapshot
        self._files = ExitStack()
        self._described: list[Table] = []
        self._former: list[tuple[PendingChanges, _ColumnStep]] = []
        self.snapshot = snapshot
        self.rows = self._files.enter_context(PendingChanges(snapshot.root, snapshot.manifest))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_staged(self._described)
        self._files.__exit__(kind, error, trace)

    def change_columns(self, change: ColumnChange) -> None:
        """Change columns after the changes so far.

        Raises
        ------
        LanceError
            The change does not fit the columns.
        """
        manifest = self.snapshot.manifest
        after = change.schema_after(manifest.schema)
        if after == manifest.schema:
            return
        described = with_schema(manifest, after, self._described)
        self._former.append((self.rows, _ColumnStep(change)))
        self.snapshot = self._first.of(described)
        self.rows = self._files.enter_context(PendingChanges(self._first.root, described))

    def publish(self, *, rebase: bool) -> NamespaceManifest:
        """Publish all changes in one commit; see `lance_df.namespace.changes.publish.publish`."""
        if not self._former:
            return self.rows.publish(rebase=rebase)
        attempts = UncommittedFiles()
        attempts.watch()
        try:
            return self._publish_stages(rebase=rebase)
        except BaseException:
            if not attempts.are_certain:
                raise
            stages = (*(rows for rows, _ in self._former), self.rows)
            remove_new_folders(self._first.manifest, [change for rows in stages for change in rows.changes()])
            raise

    def _publish_stages(self, *, rebase: bool) -> NamespaceManifest:
        root, manifest = self._first.root, self._first.manifest
        for attempt in range(_ATTEMPTS):
            manifest = manifest.latest_for_change() if rebase else manifest
            if manifest.schema != self._first.manifest.schema:
                raise RetryableConflictError(
                    f"{root.uri}: the schema was changed in the meantime; start again"
                )
            try:
                return self._published(manifest)
            except NeedsPinsError as err:
                with suppress(*([RetryableConflictError] if rebase else [])):
                    manifest = with_pins(root, manifest, err.members)
            except RetryableConflictError:
                if not rebase:
                    raise
                STRICT.wait(attempt)
        raise RetryableConflictError(
            f"{root.uri}: {_ATTEMPTS} attempts in a row failed because other writers published first; try "
            "again"
        )

    def _published(self, manifest: NamespaceManifest) -> NamespaceManifest:
        staged: list[Table] = []
        try:
            last = manifest
            for rows, step in self._former:
                last = self._with_columns(self._with_rows(last, rows, staged), step, staged)
            last = self._with_rows(last, self.rows, staged)
            check_none_lost(
                manifest.table.uri, before=manifest.rows["object_id"], after=last.rows["object_id"]
            )
            table = commit_change(
                manifest.table,
                Restore(last.version),
                rows=RowChange.restoring(last.table),
                options=STRICT,
            )
        finally:
            remove_staged(staged)
        published = NamespaceManifest(table)
        for rows in (*(rows for rows, _ in self._former), self.rows):
            for change in rows.changes():
                change.tidy(published)
        return published

    def _with_rows(
        self, manifest: NamespaceManifest, rows: PendingChanges, staged: list[Table]
    ) -> NamespaceManifest:
        """Return a detached version with changes of rows, and add it to ``staged``."""
        draft = Draft(self._first.root, manifest)
        for change in rows.changes():
            change.apply(draft)
        published = draft.publish(options=DETACHED)
        if published is not manifest:
            staged.append(published.table)
        return published

    def _with_columns(
        self, manifest: NamespaceManifest, step: _ColumnStep, staged: list[Table]
    ) -> NamespaceManifest:
        """Return a detached version with other columns, and add it to ``staged``."""
        moved = changed_members(self._first.root, manifest, step.change, step.made)
        return with_schema(manifest, step.change.schema_after(manifest.schema), staged, moved)
