"""The metadata table ``$history``: the versions of a namespace, with counts of changed partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.errors import LanceError, VersionNotFoundError
from lance_df.namespace.manifest_table import TABLE
from lance_df.namespace.metadata.tables import MetadataTable
from lance_df.namespace.spec.partition_spec import KEY_PREFIX
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.parallel import map_reads
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.fragments import Fragment
    from lance_df.table.table import Table

_ABOUT: Final = (
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("operation", pa.string()),
    pa.field("spec_version", pa.int32()),
)
_CHANGES: Final = (
    pa.field("partitions_added", pa.int64()),
    pa.field("partitions_changed", pa.int64()),
    pa.field("partitions_removed", pa.int64()),
)


class HistoryTable(MetadataTable):
    """The rows of ``$history``: one for each existing version up to this one."""

    kind: ClassVar[str] = "history"

    def columns(self) -> pa.Schema:
        """Return the columns. Counts of changes are NULL for the oldest version, unless it is version 1."""
        return pa.schema([pa.field("version", pa.uint64(), nullable=False), *_ABOUT, *_CHANGES])

    def known(self) -> pa.Table:
        """Return the version numbers."""
        numbers = [
            number for number in self.snapshot.manifest.table.history.numbers() if number <= self.version
        ]
        return pa.table([pa.array(numbers, pa.uint64())], ["version"])

    def completed(self, rows: pa.Table, names: frozenset[str]) -> pa.Table:
        """Open the versions; counts of changes compare the rows of each version with the one before."""
        numbers = rows["version"].to_pylist()
        wants_changes = bool(names.intersection(field.name for field in _CHANGES))
        before = {number: number - 1 for number in numbers} if wants_changes else {}
        wanted = sorted({*numbers, *(number for number in before.values() if number)})
        tables = dict(zip(wanted, map_reads(self._opened, wanted, where=self.snapshot.root), strict=True))
        about = [_about(tables[number]) for number in numbers]
        rows = _with(rows, _ABOUT, about)
        if wants_changes:
            changes = [_changes(tables.get(before[number]), tables[number], number) for number in numbers]
            rows = _with(rows, _CHANGES, changes)
        return rows

    def _opened(self, version: int) -> Table | None:
        try:
            return self.snapshot.manifest.table.checkout(version)
        except VersionNotFoundError:
            return None  # removed, perhaps since it was listed


def _about(table: Table | None) -> tuple[object, ...]:
    if table is None:
        return (None, None, None)
    try:
        transaction = table.transaction()
    except LanceError:  # its file is missing or damaged; the other columns do not need it
        transaction = None
    operation = None if transaction is None else type(transaction.operation).__name__.lower()
    numbers = [key.removeprefix(KEY_PREFIX) for key in table.manifest.table_metadata if KEY_PREFIX in key]
    specs = [int(number) for number in numbers if number.isdecimal() and len(number) < 10]
    nanoseconds = table.manifest.timestamp_ns
    time = None if nanoseconds is None else nanoseconds // 1000
    return time, operation, max(specs, default=None)


def _changes(former: Table | None, table: Table | None, number: int) -> tuple[int | None, ...]:
    """Return how many partitions were added, changed and removed."""
    if table is None or (former is None and number > 1):
        return (None, None, None)
    new, old = _different(table, former), _different(former, table)
    indices = pc.index_in(new["object_id"], value_set=one_array(old["object_id"]))
    both = pc.is_valid(indices)
    versions = [rows["read_version"] for rows in (new.filter(both), old.take(indices.drop_null()))]
    # NULL on only one side is a change, too
    same = pc.sum(pc.equal(*(pc.fill_null(values, 0) for values in versions))).as_py() or 0
    num_both = pc.sum(both).as_py() or 0
    return len(new) - num_both, num_both - same, len(old) - num_both


def _different(table: Table | None, other: Table | None) -> pa.Table:
    """Return the member rows in the fragments of a version that differ from those of another version."""
    schema = pa.schema([("object_id", pa.string()), ("read_version", pa.uint64())])
    if table is None:
        return schema.empty_table()
    known = set() if other is None else {_state(fragment) for fragment in other.fragments}
    ids = tuple(fragment.id for fragment in table.fragments if _state(fragment) not in known)
    names = [name for name in ("object_type", *schema.names) if name in table.schema.names]
    plan = plan_scan(table, ScanRequest(columns=tuple(names), fragment_ids=ids, requires=Promise.COMPLETE))
    rows = pa.Table.from_batches(run_tasks(plan.tasks), plan.schema)
    is_member = pc.and_(
        pc.equal(rows["object_type"], TABLE), pc.match_substring_regex(rows["object_id"], r"^v[0-9]+\$")
    )
    rows = rows.filter(is_member)
    columns = [
        rows[field.name] if field.name in names else pa.nulls(len(rows), field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


def _state(fragment: Fragment) -> tuple[object, ...]:
    return fragment.id, tuple(file.path for file in fragment.files), fragment.deletion_file


def _with(rows: pa.Table, fields: tuple[pa.Field, ...], values: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = zip(*values, strict=True) if values else [()] * len(fields)
    for field, column in zip(fields, columns, strict=True):
        rows = rows.append_column(field, pa.array(column, field.type))
    return rows
