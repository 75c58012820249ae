"""Changes to a `LanceFragment` that are computed without being committed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.fragment_metadata import DataFile, FragmentMetadata
from lance_df.api.row_filters import checked_filter, matching_rows
from lance_df.api.schema_changes import joined, open_lookup
from lance_df.api.transforms import open_transform
from lance_df.arguments import (
    checked_flag,
    checked_integer,
    checked_items,
    checked_text,
    checked_type,
    invalid,
)
from lance_df.errors import InvalidInputError
from lance_df.progress import NumberedFragments
from lance_df.records import as_integer
from lance_df.schema import LanceSchema
from lance_df.table.changes.removal import rows_removed
from lance_df.table.changes.row_set import RowSet
from lance_df.table.evolution.add_columns import columns_added
from lance_df.table.evolution.data_files import describe_data_file
from lance_df.table.evolution.patch_columns import patched
from lance_df.udf import BatchUDF

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.dataset import LanceDataset
    from lance_df.format.fragments import Fragment
    from lance_df.format.operations import Merge


class FragmentChanges:
    """Methods that compute changes to one fragment. Use `LanceDataset.commit` to commit them.

    Files are written immediately. They remain if no commit follows.
    """

    _ds: LanceDataset
    _fragment: Fragment

    @staticmethod
    def create(
        dataset_uri: str | os.PathLike[str] | LanceDataset,
        data: Any,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int | None = 1024,
        progress: Any = None,
        mode: str = "append",
        *,
        data_storage_version: str | None = None,
        use_legacy_format: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> FragmentMetadata:
        """Write data into one new fragment and return its description.

        See `lance_df.fragment.write_fragments`.

        Parameters
        ----------
        fragment_id
            The id in the description. A commit assigns another id.

        Raises
        ------
        InvalidInputError
            The data does not fit the table, has no rows, or has more rows than a file can hold.
        """
        from lance_df.api.write_fragments import write_fragments

        described = write_fragments(
            data,
            dataset_uri,
            schema,
            mode=mode,
            max_rows_per_file=2**31 - 1,
            max_rows_per_group=max_rows_per_group,
            max_bytes_per_file=2**62,
            progress=None if progress is None else NumberedFragments(progress, fragment_id or 0),
            data_storage_version=data_storage_version,
            use_legacy_format=use_legacy_format,
            storage_options=storage_options,
        )
        written = cast("list[FragmentMetadata]", described)
        if len(written) != 1:
            raise InvalidInputError(f"the data must make one fragment, it makes {len(written)}")
        written[0].id = fragment_id or 0
        return written[0]

    @staticmethod
    def create_from_file(filename: str, dataset: LanceDataset, fragment_id: int) -> FragmentMetadata:
        """Return the description of a fragment with one data file that is already in the table's data folder.

        Raises
        ------
        CorruptDataError
            There is no such file, or it is damaged.
        InvalidInputError
            The file has columns that the table does not have.
        """
        fragment_id = checked_integer(fragment_id, "fragment_id", 0)
        checked_type(dataset, "dataset", DatasetBase, "a LanceDataset")
        file, num_rows = describe_data_file(dataset._table, checked_text(filename, "filename"))
        return FragmentMetadata(fragment_id, [DataFile._of(file)], num_rows)

    def delete(self, predicate: str) -> FragmentMetadata | None:
        """Delete the rows for which an SQL expression is true. Return None when no row remains.

        The returned description is for `LanceOperation.Delete`. The fragment object itself does not change.
        """
        where = checked_filter(predicate, "predicate")
        rows = matching_rows(self._ds._table, where, fragment_ids=(self._fragment.id,))
        return self._without(RowSet.of(rows))

    def delete_rows(self, offsets: Iterable[int]) -> FragmentMetadata | None:
        """Delete rows by their physical offsets in the fragment; see `delete`.

        Raises
        ------
        InvalidInputError
            There is no row at such an offset.
        """
        rows = np.unique(_offsets(offsets))
        num_rows = self._ds._table.fragment_rows(self._fragment)
        if len(rows) and not 0 <= rows[0] <= rows[-1] < num_rows:
            raise InvalidInputError(
                f"fragment {self._fragment.id} has {num_rows} rows, so row {rows[-1]} does not exist"
            )
        return self._without(RowSet.of([rows.astype(np.uint64) + np.uint64(self._fragment.id << 32)]))

    def _without(self, rows: RowSet) -> FragmentMetadata | None:
        with rows_removed(self._ds._table, rows) as removal:
            if removal.removed_fragment_ids:
                return None
            (fragment,) = removal.updated_fragments or (self._fragment,)
            return FragmentMetadata._of(fragment)

    def merge_columns(
        self,
        value_func: Any,
        columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Compute new columns for this fragment; see `LanceDataset.add_columns`.

        Returns
        -------
        The fragment with its new data file, and the new schema of the table, for `LanceOperation.Merge`.

        Raises
        ------
        InvalidInputError
            As in `LanceDataset.add_columns`; or the function has a checkpoint file.
        """
        if isinstance(value_func, BatchUDF) and value_func.cache is not None:
            raise InvalidInputError(
                "A checkpoint file cannot be used for one fragment; functions with a checkpoint file work "
                "on whole tables"
            )
        transform = open_transform(
            self._ds,
            value_func,
            read_columns=columns,
            reader_schema=reader_schema,
            batch_size=batch_size,
        )
        with (
            closing(transform),
            columns_added(
                self._ds._table, transform.schema, transform.rows_of, fragments=(self._fragment,)
            ) as operation,
        ):
            transform.check_end()
            return self._merged(operation)

    def merge(
        self, data_obj: Any, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Add the columns of other data to this fragment; see `LanceDataset.merge` and `merge_columns`."""
        checked_text(left_on, "left_on", "a column name")
        lookup = open_lookup(data_obj, right_on or left_on, schema)
        table = self._ds._table
        with columns_added(
            table,
            lookup.schema,
            lambda fragment: joined(table, fragment, left_on, lookup),
            fragments=(self._fragment,),
        ) as operation:
            return self._merged(operation)

    def _merged(self, operation: Merge) -> tuple[FragmentMetadata, LanceSchema]:
        (fragment,) = (each for each in operation.fragments if each.id == self._fragment.id)
        return FragmentMetadata._of(fragment), LanceSchema(operation.schema)

    def update_columns(
        self,
        data_obj: Any,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> tuple[FragmentMetadata, list[int]] | tuple[FragmentMetadata, list[int], bytes]:
        """Set some columns to new values. The columns are rewritten for the whole fragment.

        Parameters
        ----------
        data_obj
            The key and the columns to update. If several rows have the same key, the last one is used. Rows
            of the table whose key is not in the data keep their values.
        left_on, right_on
            The key in this table, which may be ``_rowid`` or ``_rowaddr``, and the key in the data.
        with_offsets
            Also return which rows matched, as a serialized bitmap of physical offsets.

        Returns
        -------
        The fragment and the ids of the updated fields, for `LanceOperation.Update`; and the bitmap.
        """
        checked_text(left_on, "left_on", "a column name")
        with_offsets = checked_flag(with_offsets, "with_offsets")
        lookup = open_lookup(data_obj, right_on or left_on, schema)
        result = patched(self._ds._table, self._fragment, left_on, lookup)
        described, ids = FragmentMetadata._of(result.fragment), list(result.field_ids)
        return (described, ids, result.offsets.serialize()) if with_offsets else (described, ids)


def _offsets(given: Any) -> npt.NDArray[np.int64]:
    expected = "integers from 0"
    if isinstance(given, np.ndarray | pa.Array | pa.ChunkedArray):
        given = given.tolist() if isinstance(given, np.ndarray) else given.to_pylist()
    offsets = [as_integer(each) for each in checked_items(given, "offsets", expected)]
    if any(each is None or not 0 <= each < 2**63 for each in offsets):
        raise invalid("offsets", given, expected)
    return np.array(offsets, np.int64)
