"""Update some columns of rows in place, with a new data file of these columns for each changed fragment.

Spec: table format, 11 and 12.3.
"""

from __future__ import annotations

import dataclasses
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays
from lance_df.file.blobs.columns import as_moved
from lance_df.format.operations import Update, UpdateMode
from lance_df.format.row_ids import serialize_versions, versions_of
from lance_df.format.schema import Schema
from lance_df.records import dataclass
from lance_df.sliced_lists import unsliced
from lance_df.table.changes.merge_rows import completed
from lance_df.table.evolution.column_files import columns_written, with_columns_of
from lance_df.table.evolution.live_rows import read_live
from lance_df.table.reading.deletions import deleted_offsets
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.writing.schema_rules import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lance_df.format.fragments import Fragment
    from lance_df.table.changes.matching import Matches
    from lance_df.table.changes.merge_rows import Source
    from lance_df.table.table import Table


@contextmanager
def columns_patched(
    table: Table, source: Source, matches: Matches, *, keys: tuple[str, ...]
) -> Iterator[Update]:
    """Write the new values of the source's columns, except the keys.

    Parameters
    ----------
    matches
        The rows to update, each once, in table order.

    Raises
    ------
    InvalidInputError
        There is a null in a column that is not nullable.
    UnsupportedFeatureError
        A column has a type that cannot be written.
    """
    brought = {field.id for field in source.schema.fields if field.name not in keys}
    schema = Schema(
        fields=tuple(field for field in table.schema.fields if field.id in brought),
        metadata=table.schema.metadata,
    )
    check_schema(schema, table.manifest.file_version)
    patches = {patch.fragment.id: patch for patch in _patches(table, source, matches, schema)}

    def rows(fragment: Fragment) -> Iterator[list[pa.Array]]:
        return patches[fragment.id].batches()

    with columns_written(table, [patch.fragment for patch in patches.values()], schema, rows) as files:
        yield Update(
            removed_fragment_ids=(),
            updated_fragments=tuple(
                with_columns_of(patch.stamped(), files[fragment_id], table.schema)
                for fragment_id, patch in patches.items()
            ),
            new_fragments=(),
            fields_modified=tuple(sorted(schema.by_id())),
            mode=UpdateMode.REWRITE_COLUMNS,
        )


def _patches(table: Table, source: Source, matches: Matches, schema: Schema) -> Iterator[_Patch]:
    fragment_ids, offsets = split_addresses(matches.addresses)
    starts = np.flatnonzero(np.diff(fragment_ids, prepend=-1))
    for start, stop in itertools.pairwise([*starts.tolist(), len(matches)]):
        fragment = table.fragment(int(fragment_ids[start]))
        yield _Patch(table, source, schema, fragment, offsets[start:stop], matches.rows[start:stop])


@dataclass(frozen=True, slots=True)
class _Patch:
    """The updated rows of one fragment: ascending offsets, and the source rows with their new values."""

    table: Table
    source: Source
    schema: Schema
    fragment: Fragment
    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def batches(self) -> Iterator[list[pa.Array]]:
        """Yield the columns of all live rows, with the new values."""
        gone = deleted_offsets(self.table.deletion_vector(self.fragment))
        live_offsets = self.offsets - np.searchsorted(gone, self.offsets)
        start = 0
        for arrays in read_live(self.table, self.fragment, self.schema.fields):
            stop = start + len(arrays[0])
            first, last = np.searchsorted(live_offsets, (start, stop))
            yield self._patched(arrays, live_offsets[first:last] - start, self.rows[first:last])
            start = stop

    def _patched(
        self, arrays: list[pa.Array], live_offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> list[pa.Array]:
        if not len(live_offsets):
            return arrays
        old = pa.RecordBatch.from_arrays(
            [unsliced(array).take(pa.array(live_offsets)) for array in arrays], self.schema.names
        )
        new = completed(self.source.take(rows), self.source.schema, self.schema, old)
        order = np.arange(len(arrays[0]))
        order[live_offsets] = len(arrays[0]) + np.arange(len(live_offsets))
        return [
            concat_arrays([before, as_moved(after, field)], before.type).take(pa.array(order))
            for before, after, field in zip(arrays, new.columns, self.schema.fields, strict=True)
        ]

    def stamped(self) -> Fragment:
        """Return the fragment with rows marked as updated, if the table records that."""
        if not self.table.uses_stable_row_ids:
            return self.fragment
        versions = self.table.row_version_sequences(self.fragment)[1].to_numpy()
        # the commit sets its version where these differ from the previous ones
        versions[self.offsets] = self.table.version + 1
        return dataclasses.replace(self.fragment, last_updated_at=serialize_versions(versions_of(versions)))
