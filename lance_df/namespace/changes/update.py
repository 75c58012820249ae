"""Update rows. Rows whose partition values change move to other partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeAlias

from lance_df.errors import RowCountMismatchError
from lance_df.namespace.changes.append import NewRows
from lance_df.namespace.changes.delete import check_writable, opened, without_rows
from lance_df.namespace.changes.partition_files import note_files
from lance_df.namespace.changes.partition_index import PartitionIndex
from lance_df.namespace.changes.publish import map_commits, remove_unpublished
from lance_df.namespace.changes.routing import PartitionWriter
from lance_df.namespace.member_tables import check_blobs_can_move
from lance_df.storage.unsynced import Unsynced
from lance_df.table.changes.update import MovedRows
from lance_df.table.writing.uncommitted import UncommittedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lance_df.format.schema import Schema
    from lance_df.namespace.changes.delete import Candidates
    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.changes.partition_files import WrittenPartition
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage import Location
    from lance_df.table.changes.row_set import RowSet
    from lance_df.table.table import Table

    NewValues: TypeAlias = Callable[[Sequence[Table]], Iterable[tuple[int, pa.RecordBatch]]]


class RowsReplaced(ABC):
    """A change that deletes rows of members, and writes rows to their partitions.

    It is attempted again if other versions of the candidates were published meanwhile.

    Parameters
    ----------
    candidates
        Returns the members that may have rows to change.
    text
        A description for the transactions of members, which is never parsed.

    Attributes
    ----------
    files
        The written files, until they are published.
    """

    def __init__(self, candidates: Candidates, *, text: str) -> None:
        self._candidates = candidates
        self._text = text
        self._states: list[tuple[str, int]] | None = None
        self._versions: list[int] = []
        self._new: NewRows | None = None
        self._all_new: list[NewRows] = []
        self.files = UncommittedFiles()

    @abstractmethod
    def _attempt(self, draft: Draft, members: Sequence[DraftMember]) -> list[int]:
        """Write rows, pass them to `_add`, and return the versions of members without the old rows."""

    def apply(self, draft: Draft) -> None:
        """Commit versions of members without the old rows and with the new ones."""
        self.files.watch()
        members = self._candidates(draft)
        states = [member.state for member in members]
        if states != self._states:
            self._versions = self._attempt(draft, members)
            self._states = states
        for member, version in zip(members, self._versions, strict=True):
            member.version = version
        if self._new is not None:
            self._new.apply(draft)

    def folders(self) -> list[Location]:
        """Return the folders of the partitions for which rows were written."""
        return [folder for new in self._all_new for folder in new.folders()]

    def tidy(self, published: NamespaceManifest) -> None:
        """Remove the folders of tables that another writer created first, and files of former attempts."""
        if self._new is not None:
            self._new.tidy(published)
        if any(new is not self._new for new in self._all_new):
            self.files.release()
            self.files.remove()
            remove_unpublished(published, self.folders())

    def _add(
        self, spec: PartitionSpec, columns: Schema, written: Sequence[WrittenPartition], unsynced: Unsynced
    ) -> None:
        """Record the rows of an attempt."""
        self._new = NewRows(spec, columns, written, unsynced=unsynced) if written else None
        self._all_new += () if self._new is None else (self._new,)


class RowsRewritten(RowsReplaced):
    """A change that rewrites rows to the partitions of their new values, and deletes the old ones.

    Parameters
    ----------
    spec
        The spec that partitions the rows.
    candidates, text
        See `RowsReplaced`.

    Attributes
    ----------
    num_rows, num_inserted, num_deleted
        In the last attempt, how many rows were removed from their members, how many were new, and how many
        were removed without being rewritten.
    """

    def __init__(self, spec: PartitionSpec, candidates: Candidates, *, text: str) -> None:
        super().__init__(candidates, text=text)
        self._spec = spec
        self.num_rows = 0
        self.num_inserted = 0
        self.num_deleted = 0

    @abstractmethod
    def _rewritten(
        self, schema: Schema, tables: Sequence[Table]
    ) -> tuple[Iterator[pa.RecordBatch], Sequence[RowSet]]:
        """Return complete rows of the namespace's schema, and for each table the rows that they replace.

        The latter are complete once the former are consumed.
        """

    def _attempt(self, draft: Draft, members: Sequence[DraftMember]) -> list[int]:
        tables = opened(draft, members)
        batches, left = self._rewritten(draft.manifest.schema.columns, tables)
        self._write(draft, batches, left)
        check_writable(members, left)
        for table, rows in zip(tables, left, strict=True):
            if len(rows):
                check_blobs_can_move(table)
        parts = zip(members, tables, left, strict=True)
        made = map_commits(lambda part: without_rows(*part, text=self._text), parts)
        self.num_rows = sum(count for _, count in made)
        return [version for version, _ in made]

    def _write(self, draft: Draft, batches: Iterable[pa.RecordBatch], left: Sequence[RowSet]) -> None:
        """Write rows, and check their number against the removed and inserted rows."""
        schema = draft.manifest.schema
        index, unsynced = PartitionIndex(draft.root, draft.manifest, self._spec), Unsynced()
        with PartitionWriter(self._spec, schema, schema.columns.to_arrow(), index.locate, unsynced) as writer:
            written = writer.write(batches)
            num_left, num_written = sum(map(len, left)), sum(each.num_rows for each in written)
            if num_written != num_left - self.num_deleted + self.num_inserted:
                raise RowCountMismatchError(
                    f"{draft.root.uri}: {num_left - self.num_deleted} rows should be rewritten and "
                    f"{self.num_inserted} inserted, but {num_written} were written. Nothing was published; "
                    "please report this defect"
                )
            for partition in written:
                note_files(self.files, partition)
        self._add(self._spec, schema.columns, written, unsynced)


class RowUpdate(RowsRewritten):
    """The change that updates rows.

    Parameters
    ----------
    columns
        Top-level columns that are updated.
    values
        Yields positions in a sequence of tables, with the new values of the columns and the ``_rowaddr`` of
        rows there.
    spec, candidates, text
        See `RowsRewritten`.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        columns: Sequence[str],
        candidates: Candidates,
        values: NewValues,
        *,
        text: str,
    ) -> None:
        super().__init__(spec, candidates, text=text)
        self._columns = list(columns)
        self._values = values

    def _rewritten(
        self,
        schema: Schema,  # noqa: ARG002 - the tables have this schema
        tables: Sequence[Table],
    ) -> tuple[Iterator[pa.RecordBatch], Sequence[RowSet]]:
        moved = [MovedRows(table, self._columns) for table in tables]
        return self._batches(tables, moved), [each.left for each in moved]

    def _batches(self, tables: Sequence[Table], moved: Sequence[MovedRows]) -> Iterator[pa.RecordBatch]:
        for number, values in self._values(tables) if tables else ():
            yield from moved[number].rows([values])
