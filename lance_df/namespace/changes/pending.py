"""Collect changes of a namespace, then apply and publish them in one commit."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError
from lance_df.namespace.changes.append import NewRows
from lance_df.namespace.changes.delete import Deletion
from lance_df.namespace.changes.keyed_rows import KeyedRows
from lance_df.namespace.changes.partial_upsert import PartialUpsert
from lance_df.namespace.changes.partition_index import PartitionIndex
from lance_df.namespace.changes.publish import (
    WritesFiles,
    make_in_advance,
    publish,
    remove_new_folders,
)
from lance_df.namespace.changes.routing import PartitionWriter, values_of_rows
from lance_df.namespace.changes.row_merge import RowMerge
from lance_df.namespace.changes.update import RowUpdate
from lance_df.namespace.keys import value_keys
from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.storage.unsynced import Unsynced
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.plan import plan_scan
from lance_df.table.writing.uncommitted import UncommittedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from lance_df.expr.nodes import Predicate
    from lance_df.namespace.changes.delete import Matching
    from lance_df.namespace.changes.draft import Draft
    from lance_df.namespace.changes.keyed_rows import Duplicates
    from lance_df.namespace.changes.partition_files import WrittenPartition
    from lance_df.namespace.changes.publish import NamespaceChange
    from lance_df.namespace.changes.update import NewValues
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.storage import Location
    from lance_df.table.changes.merged_rows import MergedRows
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.commit.marks import Mark
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class _Marked:
    """A change that stores the mark of changes that are published only once."""

    mark: Mark

    def apply(self, draft: Draft) -> None:
        """Check that the mark was not published before, and store it."""
        draft.mark(self.mark)

    def tidy(self, published: NamespaceManifest) -> None:
        """Nothing is left behind."""


@dataclass(frozen=True, slots=True)
class Upsert:
    """A change that replaces rows by key; the numbers are known once it is published."""

    rows: KeyedRows
    deletion: Deletion

    @property
    def num_updated(self) -> int:
        """How many rows replaced existing rows."""
        return self.rows.num_matched(self.deletion.states)

    @property
    def num_inserted(self) -> int:
        """How many rows replaced no existing row."""
        return self.rows.rows.num_rows - self.num_updated

    @property
    def num_deleted(self) -> int:
        """How many rows were deleted without a replacement, because several had the same key."""
        return self.deletion.num_rows - self.num_updated


class PendingChanges:
    """Changes that were computed from one version of a namespace.

    Rows are written to data files as they arrive; everything else happens in `publish`. This is a context
    manager: if it ends before `publish`, the written files are removed.
    """

    def __init__(self, root: Location, manifest: NamespaceManifest) -> None:
        self._root = root
        self._manifest = manifest
        self._spec = manifest.specs.current
        self._changes: list[NamespaceChange] = []
        self._writers: list[PartitionWriter] = []
        self._files = ExitStack()
        self._unsynced = Unsynced()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)

    def append(
        self, data_schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, statistics: bool | None = None
    ) -> None:
        """Add rows.

        Parameters
        ----------
        statistics
            Whether to build zone maps; see `PartitionWriter`.

        Raises
        ------
        InvalidInputError
            Rows do not fit the schema, or a partition expression fails for them.
        """
        self._add(self._written(data_schema, batches, statistics), replaces=False)

    def add(self, written: Sequence[WrittenPartition]) -> None:
        """Add rows in existing data files, which are never removed."""
        self._add(written, replaces=False, can_release=False)

    def overwrite_partitions(
        self, data_schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, statistics: bool | None = None
    ) -> None:
        """Replace the partitions to which rows belong, by the current spec, with these rows.

        Rows of these partitions in members of other spec versions are deleted.

        Raises
        ------
        InvalidInputError
            As for `append`.
        """
        self.replace_partitions(self._written(data_schema, batches, statistics), can_release=True)

    def replace_partitions(self, written: Sequence[WrittenPartition], *, can_release: bool = False) -> None:
        """Replace partitions with rows in existing data files; see `overwrite_partitions`.

        These files are never removed unless ``can_release`` says that they belong to this transaction.
        """
        if not written:
            return
        keys = pa.array([partition.key for partition in written], pa.large_binary())
        self._changes.append(
            Deletion(
                lambda draft: draft.members_of_other_specs(self._spec),
                lambda tables: self._rows_of_partitions(tables, keys),
                text="overwrite_partitions",
            )
        )
        self._add(written, replaces=True, can_release=can_release)

    def delete(self, predicate: Predicate | None, matching: Matching, *, text: str) -> Deletion:
        """Delete rows, and return the change, which has the number of deleted rows once it is published.

        Parameters
        ----------
        predicate
            A predicate that all matching rows satisfy, to prune members; it may contain `Unknown`.
        matching
            Finds the rows in some members; see `Deletion`.
        """
        change = Deletion(lambda draft: draft.members_that_may_match(predicate), matching, text=text)
        self._changes.append(change)
        return change

    def replace_all(self, written: Sequence[WrittenPartition]) -> None:
        """Replace all rows with rows in existing data files."""
        self.delete(None, _all_rows, text="overwrite")
        self._add(written, replaces=True, can_release=False)

    def mark(self, mark: Mark) -> None:
        """Publish only once: raise `AlreadyCommittedError` if this mark was published before."""
        self._changes.insert(0, _Marked(mark))

    def upsert(
        self,
        data_schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        *,
        on: tuple[str, ...],
        duplicates: Duplicates,
    ) -> Upsert | PartialUpsert:
        """Replace rows that have the same keys as the given rows, and add the remaining given rows.

        If the given rows lack columns, replaced rows keep their values there.

        Raises
        ------
        InvalidInputError
            As for `append`; or a key column is missing, or several rows have the same key and that is an
            error.
        UnsupportedFeatureError
            A key column has an unsupported type.
        """
        keyed = KeyedRows.of(self._manifest.schema, on, data_schema, batches, duplicates)
        text = f"upsert on {', '.join(on)}"
        if keyed.schema.fields != self._manifest.schema.columns.fields:
            partial = PartialUpsert(self._spec, keyed, text=text)
            self._changes.append(partial)
            return partial
        # rows that do not fit are an error before anything is deleted
        written = self._written(keyed.rows.schema, keyed.rows.to_batches())
        change = Deletion(keyed.candidates, keyed.find, text=text)
        self._changes.append(change)
        self._add(written, replaces=False)
        return Upsert(keyed, change)

    def update(
        self, columns: Sequence[str], predicate: Predicate | None, values: NewValues, *, text: str
    ) -> RowUpdate:
        """Update rows, and return the change, which has the number of rows once it is published.

        Parameters
        ----------
        predicate, text
            As for `delete`.
        values
            The new values of the columns; see `RowUpdate`.
        """
        change = RowUpdate(
            self._spec, columns, lambda draft: draft.members_that_may_match(predicate), values, text=text
        )
        self._changes.append(change)
        return change

    def merge(
        self, columns: Sequence[str], compute: Callable[[Sequence[Table]], MergedRows], *, text: str
    ) -> RowMerge:
        """Update, delete and insert rows, and return the change, which has the counts once it is published.

        Parameters
        ----------
        columns, compute
            See `RowMerge`.
        text
            As for `delete`.
        """
        change = RowMerge(self._spec, columns, compute, text=text)
        self._changes.append(change)
        return change

    def add_change(self, change: NamespaceChange) -> None:
        """Append a change of another kind."""
        self._changes.append(change)

    def changes(self) -> Sequence[NamespaceChange]:
        """Return the changes to apply; from now on, versions of members may refer to the written files."""
        for writer in self._writers:
            writer.files.watch()
        return self._changes

    def publish(self, *, rebase: bool, takes_long: bool = False) -> NamespaceManifest:
        """Publish all changes in one commit; see `lance_df.namespace.changes.publish.publish`.

        Parameters
        ----------
        takes_long
            Apply the changes in advance, whether or not another transaction is being published.
        """
        changes = self.changes()
        # appending to members is fast once the rows are in data files
        in_advance = any(not isinstance(change, NewRows) for change in changes)
        attempts = UncommittedFiles()
        attempts.watch()
        made = [change.files for change in changes if isinstance(change, WritesFiles)]
        files = [attempts, *made, *(writer.files for writer in self._writers)]
        try:
            if takes_long:
                make_in_advance(self._root, self._manifest, self)
            return publish(
                self._root, self._manifest, changes, rebase=rebase, in_advance=in_advance, files=files
            )
        except BaseException:
            if attempts.are_certain:
                remove_new_folders(self._manifest, changes)
            for each in made:
                each.remove()
            raise

    def apply(self, draft: Draft) -> None:
        """Apply all changes to a draft."""
        for change in self._changes:
            change.apply(draft)

    @cached_property
    def _index(self) -> PartitionIndex:
        return PartitionIndex(self._root, self._manifest, self._spec)

    def _written(
        self,
        data_schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        statistics: bool | None = None,
    ) -> Sequence[WrittenPartition]:
        writer = PartitionWriter(
            self._spec,
            self._manifest.schema,
            data_schema,
            self._index.locate,
            self._unsynced,
            statistics=statistics,
        )
        self._writers.append(self._files.enter_context(writer))
        return writer.write(batches)

    def _add(self, written: Sequence[WrittenPartition], *, replaces: bool, can_release: bool = True) -> None:
        if written:
            rows = NewRows(
                self._spec,
                self._manifest.schema.columns,
                written,
                unsynced=self._unsynced,
                replaces=replaces,
                can_release=can_release,
            )
            self._changes.append(rows)

    def _rows_of_partitions(self, tables: Sequence[Table], keys: pa.Array) -> Iterator[tuple[int, Addresses]]:
        schema = self._manifest.schema
        sources = [(field, schema.path(each)) for field in self._spec.fields for each in field.source_ids]
        if tables and (dropped := [field.field_id for field, path in sources if path is None]):
            raise InvalidInputError(
                f"{self._root.uri}: cannot determine which rows of earlier partition specs to replace, "
                f"because the column of partition field {dropped[0]!r} was dropped; call "
                "update_partition_spec with a spec without this field first"
            )
        names = tuple(dict.fromkeys(path[0] for _, path in sources if path is not None))
        for number, table in enumerate(tables):
            plan = plan_scan(
                table, ScanRequest(columns=names, with_row_address=True, requires=Promise.COMPLETE)
            )
            for batch in run_tasks(plan.tasks):
                values = values_of_rows(self._spec, schema, batch)
                is_replaced = pc.is_in(value_keys(values.columns), keys)
                yield number, batch.column(ROW_ADDRESS).filter(is_replaced).to_numpy()


def _all_rows(tables: Sequence[Table]) -> Iterator[tuple[int, Addresses]]:
    for number, table in enumerate(tables):
        request = ScanRequest(columns=(), with_row_address=True, requires=Promise.COMPLETE)
        for batch in run_tasks(plan_scan(table, request).tasks):
            yield number, batch.column(ROW_ADDRESS).to_numpy()
