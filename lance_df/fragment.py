"""`LanceFragment` and the description of a fragment, with the names of pylance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.fragment_changes import FragmentChanges
from lance_df.api.fragment_metadata import DataFile, DeletionFile, FragmentMetadata
from lance_df.api.reading import taken_columns
from lance_df.api.write_fragments import write_fragments
from lance_df.arguments import checked_names, checked_type
from lance_df.arrow_classes import ArrowFragment
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.progress import FragmentWriteProgress, NoopFragmentWriteProgress
from lance_df.table.evolution.validate import validate_fragments
from lance_df.table.reading.take import take_offsets

if TYPE_CHECKING:
    import pandas as pd

    from lance_df.dataset import LanceDataset
    from lance_df.scanner import LanceScanner
    from lance_df.scanner_options import Columns, Filter

__all__ = [
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentWriteProgress",
    "LanceFragment",
    "NoopFragmentWriteProgress",
    "write_fragments",
]


class LanceFragment(FragmentChanges, ArrowFragment):
    """One fragment of one version of a table, as `LanceDataset.get_fragments` returns it."""

    def __init__(self, dataset: LanceDataset, index: int) -> None:
        checked_type(dataset, "dataset", DatasetBase, "a LanceDataset")
        self._ds = dataset
        self._index = index
        self._fragment = dataset._table.fragments[index]

    def __reduce__(self) -> tuple[Any, ...]:
        return LanceFragment, (self._ds, self._index)

    def __repr__(self) -> str:
        files = [file.path for file in self._fragment.files]
        deletion = self.deletion_file()
        text = f"LanceFileFragment(id={self.fragment_id}, data_files={files}"
        return text + (")" if deletion is None else f", deletion_file={deletion!r})")

    @property
    def fragment_id(self) -> int:
        """Return the id of the fragment."""
        return self._fragment.id

    @property
    def metadata(self) -> FragmentMetadata:
        """Return the description of the fragment in the manifest."""
        return FragmentMetadata._of(self._fragment)

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the dataset."""
        return self._ds.schema

    @property
    def physical_rows(self) -> int:
        """Return the number of rows in the data files, including deleted rows."""
        return self._ds._table.fragment_rows(self._fragment)

    @property
    def num_deletions(self) -> int:
        """Return the number of deleted rows."""
        vector = self._ds._table.deletion_vector(self._fragment)
        return 0 if vector is None else len(vector)

    def data_files(self) -> list[DataFile]:
        """Return the data files."""
        return self.metadata.files

    def deletion_file(self) -> str | None:
        """Return the path of the deletion file relative to the table, or None."""
        deletion_file = self.metadata.deletion_file
        return None if deletion_file is None else deletion_file.path(self.fragment_id)

    def count_rows(self, filter: Filter = None) -> int:
        """Return the number of live rows, or of those that match an SQL or pyarrow expression.

        Default scan options have no effect; see `LanceDataset.count_rows`.
        """
        return self._ds._without_defaults().scanner(filter=filter, fragments=[self]).count_rows()

    def scanner(
        self,
        schema: pa.Schema | None = None,
        *,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> LanceScanner:
        """Return a scan of this fragment; see `LanceDataset.scanner`.

        Query engines pass the schema of the dataset as ``schema``.
        """
        if schema is not None:
            checked_type(schema, "schema", pa.Schema, "a pyarrow Schema")
            if schema.names != self.schema.names:
                raise InvalidInputError(
                    "the schema of a scan cannot differ from the schema of its dataset; select columns with "
                    "columns=…"
                )
            if self._ds._default_scan_options:
                return self._scanner_of_result(columns, filter, options)
        return self._ds.scanner(columns=columns, filter=filter, fragments=[self], **options)

    def _scanner_of_result(self, columns: Columns, filter: Filter, options: dict[str, Any]) -> LanceScanner:
        """Return an engine's scan, which sees the result of the default scan options as the fragment."""
        defaults = self._ds._default_scan_options or {}
        if defaults.get("limit") is not None or defaults.get("offset") is not None:
            raise InvalidInputError(
                "the default scan options have a limit or an offset, which apply to all fragments together, "
                "but an engine scans each fragment by itself; use LIMIT in the statement instead"
            )
        options.update(fragments=[self], order_by=[], at_once=True)
        if isinstance(defaults.get("columns"), Mapping):
            from lance_df.scanner import ScannerOfResult

            return ScannerOfResult(self._ds.scanner(**options), columns, filter)
        if filter is not None and defaults.get("filter") is not None:
            return self._ds.filter(filter).scanner(columns, **options)
        return self._ds.scanner(columns, filter, **options)

    def to_table(self, columns: Columns = None, filter: Filter = None, **options: Any) -> pa.Table:
        """Read the fragment into memory; see `LanceDataset.scanner`."""
        return self.scanner(columns=columns, filter=filter, **options).to_table()

    def to_batches(self, **options: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the fragment; see `LanceDataset.scanner`."""
        return self.scanner(**options).to_batches()

    def to_pandas(self, columns: Columns = None, filter: Filter = None, **options: Any) -> pd.DataFrame:
        """Read the fragment into a pandas frame; see `LanceDataset.scanner`."""
        options.pop("blob_mode", None)
        return self.scanner(columns=columns, filter=filter, **options).to_pandas()

    def head(self, num_rows: int) -> pa.Table:
        """Return the first ``num_rows`` rows."""
        return self.scanner(limit=num_rows).to_table()

    def take(self, indices: Sequence[int] | pa.Array, columns: Columns = None) -> pa.Table:
        """Return live rows by their positions in the fragment, in the requested order.

        A field of a struct (``"s.a"``) is returned inside its struct, as in pylance. ``columns`` may also be
        a dict of names and SQL expressions, as in `to_table`.

        Raises
        ------
        InvalidInputError
            There is no row at such a position.
        """
        if not isinstance(columns, Mapping | None):
            columns = list(dict.fromkeys(checked_names(columns, "columns")))
        table = self._ds._table
        return taken_columns(
            table,
            columns,
            lambda names: take_offsets(
                table, indices, columns=names, fragment_position=self._index, nested=True
            ),
        )

    def open_session(
        self,
        columns: Columns = None,
        with_row_address: bool | None = None,
    ) -> FragmentSession:
        """Return an object that takes rows of chosen or computed columns repeatedly; see `take`."""
        if isinstance(columns, Mapping):
            appended = {"_rowaddr": "_rowaddr"} if with_row_address else {}
            return FragmentSession(self, {**columns, **appended})
        names = self._ds._table.schema.names if columns is None else checked_names(columns, "columns")
        return FragmentSession(self, [*names, "_rowaddr"] if with_row_address else names)

    def validate(self) -> None:
        """Check the files of the fragment and read its live rows once; see `LanceDataset.validate`.

        Raises
        ------
        CorruptDataError
            Something is missing, is damaged or contradicts something else.
        """
        validate_fragments(self._ds._table, [self._fragment])

    @property
    def physical_schema(self) -> NoReturn:
        """Raise an error: the data files of a fragment have schemas, the fragment itself has none."""
        raise UnsupportedFeatureError("a Lance fragment has no schema of its own")

    @property
    def partition_expression(self) -> NoReturn:
        """Raise an error: a Lance table is not partitioned."""
        raise UnsupportedFeatureError("a Lance fragment has no partition expression")


class FragmentSession:
    """A reader that takes rows of some columns of a fragment, as `LanceFragment.open_session` returns it."""

    def __init__(self, fragment: LanceFragment, columns: Columns) -> None:
        self._fragment = fragment
        self._columns = columns

    def take(self, indices: Sequence[int] | pa.Array) -> pa.Table:
        """Return live rows by their positions in the fragment. Raises the errors of `LanceFragment.take`."""
        return self._fragment.take(indices, columns=self._columns)
