"""The ids of the rows of a fragment, and the versions that created and updated them.

Both are sequences with a number for each physical row, in the manifest or in hidden columns of a data file.
Spec: table format, row ids, row version sequences, spilled sequences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.cache import CacheKind
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.format.fragments import CREATED_AT_FIELD, LAST_UPDATED_AT_FIELD, ROW_ID_FIELD, Spilled
from lance_df.format.row_ids import (
    RunSequence,
    constant_versions,
    parse_row_ids,
    parse_versions,
    row_id_range,
    row_ids_of,
    versions_of,
)
from lance_df.format.schema import Field

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.cache import Entries
    from lance_df.format.fragments import Fragment, SequenceRef
    from lance_df.table.table import Table

_NAMES = {
    ROW_ID_FIELD: "_rowid",
    CREATED_AT_FIELD: "_row_created_at_version",
    LAST_UPDATED_AT_FIELD: "_row_last_updated_at_version",
}


class RowLineage:
    """Reads the sequences of one table version."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._sequences: Entries[RunSequence] = table.cache.entries(CacheKind.ROW_IDS)

    def row_ids(self, fragment: Fragment) -> RunSequence:
        """Return the row ids of all physical rows; see :meth:`lance_df.table.table.Table.row_ids`."""
        num_rows = self._table.fragment_rows(fragment)
        if not self._table.uses_stable_row_ids:
            start = fragment.id << 32
            return row_id_range(start, start + num_rows)
        stored, name = fragment.row_ids, self._table.name_of(fragment)
        if stored is None:
            raise CorruptDataError(f"{name} has no row ids, although the table uses stable row ids")

        def read() -> RunSequence:
            if isinstance(stored, Spilled):
                return row_ids_of(self._hidden_column(fragment, ROW_ID_FIELD))
            return parse_row_ids(stored, num_rows=num_rows, source=name)

        return self._sequences.get(
            (fragment.id, fragment.files),
            read,
            lambda sequence: sequence.firsts.nbytes + sequence.ends.nbytes,
        )

    def versions(self, fragment: Fragment) -> tuple[RunSequence, RunSequence]:
        """Return the versions that created the physical rows, and that updated them last."""
        return (
            self._versions(fragment, fragment.created_at, CREATED_AT_FIELD),
            self._versions(fragment, fragment.last_updated_at, LAST_UPDATED_AT_FIELD),
        )

    def _versions(self, fragment: Fragment, stored: SequenceRef, field_id: int) -> RunSequence:
        if isinstance(stored, Spilled):
            return versions_of(self._hidden_column(fragment, field_id))
        num_rows = self._table.fragment_rows(fragment)
        if stored is None:
            return constant_versions(1, num_rows)
        return parse_versions(stored, num_rows=num_rows, source=self._table.name_of(fragment))

    def _hidden_column(self, fragment: Fragment, field_id: int) -> npt.NDArray[np.uint64]:
        name, file = _NAMES[field_id], fragment.file_of(field_id)
        if file is None:
            raise CorruptDataError(
                f"{self._table.name_of(fragment)}: no data file has the hidden column {name} (field "
                f"{field_id})"
            )
        reader = self._table.open_data_file(fragment, file)
        column = Field(id=field_id, name=name, logical_type="uint64", nullable=False)
        (values,) = reader.read([column], RowRange(0, reader.num_rows))
        if values.null_count:
            raise CorruptDataError(f"{reader.path}: the hidden column {name} contains nulls")
        return values.to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)
