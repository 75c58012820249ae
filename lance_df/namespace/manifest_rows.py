"""The rows of ``__manifest`` as Arrow columns; each data file is read once for all versions.

A namespace may have a million partitions, so rows never become Python objects. A new version reuses the
fragments that were read before, without the rows that were deleted since, and reads only new fragments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lance_df.errors import CorruptDataError
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.fragments import Fragment
    from lance_df.table.table import Table

NAMESPACE: Final = "namespace"
TABLE: Final = "table"

# the types of pylance's directory namespace; versions of tables are listed there on demand
_OBJECT_TYPES: Final = ("namespace", "table", "table_version", "catalog_branch")
# other tables of the directory are not below a spec version
_IN_A_SPEC: Final = r"^v[0-9]+\$"


class ManifestRows:
    """The live rows of one version in table order, with their addresses in ``_rowaddr``. Immutable.

    Parameters
    ----------
    parts
        The rows of fragments, by the key of the fragment.
    schema
        The schema of the rows.
    """

    def __init__(self, parts: Sequence[_Part], schema: pa.Schema) -> None:
        self._parts = tuple(parts)
        self._schema = schema

    @classmethod
    def read(cls, table: Table, former: ManifestRows | None = None) -> Self:
        """Read a version of the table.

        Parameters
        ----------
        former
            Another version, whose rows are reused for the fragments that both versions have.
        """
        schema = plan_scan(table, ScanRequest(with_row_address=True, fragment_ids=())).schema
        known: dict[object, _Part] = {}
        if former is not None and former._schema.equals(schema):
            known = {part.key: part for part in former._parts}
        parts: dict[int, _Part] = {}
        unread: dict[int, tuple[Fragment, BitMap]] = {}
        for fragment in table.fragments:
            deleted = table.deletion_vector(fragment) or BitMap()
            part = known.get(_key(fragment))
            if part is not None and part.deleted.issubset(deleted):
                parts[fragment.id] = part.without(deleted)
            else:
                unread[fragment.id] = fragment, deleted
        if unread:
            request = ScanRequest(
                with_row_address=True, fragment_ids=tuple(unread), requires=Promise.COMPLETE
            )
            plan = plan_scan(table, request)
            batches = _by_fragment(run_tasks(plan.tasks))
            for fragment_id, (fragment, deleted) in unread.items():
                rows = pa.Table.from_batches(batches.pop(fragment_id, ()), schema)
                parts[fragment_id] = _Part(_key(fragment), deleted, rows)
            if batches:
                raise CorruptDataError(
                    f"{table.uri}: the scan returned rows of fragment {min(batches)}, which was not read"
                )
        for fragment in table.fragments:
            _check_complete(table, fragment, parts[fragment.id])
        return cls([parts[fragment.id] for fragment in table.fragments], schema)

    @cached_property
    def all(self) -> pa.Table:
        """All rows, in the chunks in which they were read."""
        return pa.concat_tables([self._schema.empty_table(), *(part.rows for part in self._parts)])

    @cached_property
    def members(self) -> pa.Table:
        """The rows of member tables, in the chunks in which they were read."""
        return pa.concat_tables([self._schema.empty_table(), *(part.members for part in self._parts)])

    def untyped(self) -> str | None:
        """Return the id of a row below a spec version whose object type is unknown; None if there is none."""
        return next((part.untyped for part in self._parts if part.untyped is not None), None)

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Return how many rows are live and how many are deleted, by the id of the fragment."""
        return {part.fragment_id: (len(part.rows), len(part.deleted)) for part in self._parts}

    def of_fragments(self, fragment_ids: Sequence[int]) -> pa.Table:
        """Return the live rows of some fragments."""
        parts = [part.rows for part in self._parts if part.fragment_id in fragment_ids]
        return pa.concat_tables([self._schema.empty_table(), *parts])


@dataclass(frozen=True)
class _Part:
    """The live rows of a fragment.

    Attributes
    ----------
    key
        Identifies the fragment within the table: its id and the names of its files.
    deleted
        The deleted rows, which are left out.
    """

    key: tuple[int, tuple[str, ...]]
    deleted: BitMap
    rows: pa.Table

    @property
    def fragment_id(self) -> int:
        return self.key[0]

    @cached_property
    def members(self) -> pa.Table:
        """The rows of member tables."""
        tables = self.rows.filter(pc.equal(self.rows["object_type"], TABLE))
        return tables.filter(pc.match_substring_regex(tables["object_id"], _IN_A_SPEC))

    @cached_property
    def untyped(self) -> str | None:
        """The id of a row below a spec version whose object type is unknown."""
        known = pc.is_in(self.rows["object_type"], pa.array(_OBJECT_TYPES))
        if pc.all(known).as_py():
            return None
        names = self.rows["object_id"].filter(pc.invert(known))
        names = names.filter(pc.match_substring_regex(names, _IN_A_SPEC))
        return names[0].as_py() if len(names) else None

    def without(self, deleted: BitMap) -> _Part:
        """Return the part with more rows deleted; ``deleted`` includes the rows that are deleted already."""
        if len(deleted) == len(self.deleted):
            return self
        _, offsets = split_addresses(self.rows[ROW_ADDRESS].to_numpy())
        gone = np.fromiter(deleted - self.deleted, np.int64)
        left = pa.array(~np.isin(offsets, gone))
        return dataclasses.replace(self, deleted=deleted, rows=self.rows.filter(left))


def take_rows(rows: pa.Table, positions: npt.NDArray[np.intp]) -> pa.Table:
    """Return the rows at ascending positions, without copying the others.

    Arrow's ``take`` first concatenates all chunks of a string column.
    """
    if not len(positions) or rows.num_columns == 0:
        return rows.slice(0, 0)
    batches = rows.to_batches()
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    cuts = np.searchsorted(positions, starts)
    parts = [
        batch.take(pa.array(positions[low:high] - start))
        for batch, start, low, high in zip(batches, starts[:-1], cuts[:-1], cuts[1:], strict=True)
        if low < high
    ]
    return pa.Table.from_batches(parts, rows.schema)


def _key(fragment: Fragment) -> tuple[int, tuple[str, ...]]:
    return fragment.id, tuple(file.path for file in fragment.files)


def _by_fragment(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """Return rows by the fragment of their addresses; a batch may have rows of several fragments."""
    of_fragments: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        owners, _ = split_addresses(batch.column(ROW_ADDRESS).to_numpy())
        starts = np.append(0, np.flatnonzero(np.diff(owners)) + 1)
        for start, stop in pairwise([*starts.tolist(), batch.num_rows]):
            if start < stop:
                rows = batch.slice(start, stop - start)
                of_fragments.setdefault(int(owners[start]), []).append(rows)
    return of_fragments


def check_all_rows(table: Table, rows: pa.Table) -> None:
    """Check that the number of rows read from a version of ``__manifest`` is that in its manifest.

    Raises
    ------
    CorruptDataError
        There are more or fewer.
    """
    if len(rows) != (expected := table.count_rows()):
        raise CorruptDataError(
            f"{table.uri}: {len(rows)} rows were read from version {table.version}, expected {expected}"
        )


def _check_complete(table: Table, fragment: Fragment, part: _Part) -> None:
    """Check that the number of rows of a fragment is that in the manifest.

    A change that rewrites a fragment removes the old one: rows that were not read would be lost.

    Raises
    ------
    CorruptDataError
        There are more or fewer.
    """
    expected = table.fragment_rows(fragment) - len(part.deleted)
    if len(part.rows) != expected:
        raise CorruptDataError(
            f"{table.uri}: {len(part.rows)} rows were read from fragment {fragment.id} of version "
            f"{table.version}, expected {expected}"
        )
