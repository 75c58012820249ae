"""The rows of a dataset or a namespace that match a condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.api.dataset_calls import DatasetCalls
from lance_df.arguments import checked_type

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset

    from lance_df.api.namespaces.namespace import PartitionedNamespace
    from lance_df.dataset import LanceDataset
    from lance_df.scanner_options import Columns, Filter
    from lance_df.table.metadata.refs import VersionRef


class FilteredDataset(DatasetCalls):
    """The rows that `filter` of a `LanceDataset` or a `PartitionedNamespace` selects.

    It is a `pyarrow.dataset.Dataset` of the version that was filtered. It has no methods that change a table.
    """

    def __init__(self, source: LanceDataset | PartitionedNamespace) -> None:
        self._source = checked_type(
            source, "source", DatasetCalls, "a LanceDataset or a PartitionedNamespace"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return FilteredDataset, (self._source,)

    def __repr__(self) -> str:
        condition = (self._source._default_scan_options or {}).get("condition")
        return f"<lance_df.FilteredDataset {self.uri} version {self.version}: {condition}>"

    def __len__(self) -> int:
        return self.count_rows()

    @property
    def uri(self) -> str:
        """Return the location of the table or namespace that is filtered."""
        return self._source.uri

    @property
    def version(self) -> int:
        """Return the version that is filtered."""
        return self._source.version

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of a scan without arguments."""
        return self._source.schema

    def scanner(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> Any:
        """Return a scan that has not run yet. A ``filter`` argument applies in addition to the condition.

        Arguments are those of `LanceDataset.scanner` or `PartitionedNamespace.scanner`.
        """
        return self._source.scanner(columns, filter, **options)

    def to_batches(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan; see `scanner`."""
        return self._source.to_batches(columns, filter, **options)

    def to_pandas(self, columns: Columns = None, filter: Filter = None, **options: Any) -> pd.DataFrame:
        """Read the rows into a pandas frame; see `scanner`.

        Options that are not scan options are passed to `pyarrow.Table.to_pandas`.
        """
        return self._source.to_pandas(columns, filter, **options)

    def count_rows(self, filter: Filter = None, **options: Any) -> int:
        """Return the number of rows, or of those that match an SQL or pyarrow expression."""
        return self._source.count_rows(filter, **options)

    def take(self, indices: Sequence[int] | pa.Array, columns: Columns = None, **options: Any) -> pa.Table:
        """Return rows by their positions among the filtered rows, in the requested order; see `scanner`.

        Raises
        ------
        InvalidInputError
            There is no row at such a position.
        """
        return self.scanner(columns, **options).take(indices)

    def get_fragments(self, filter: pc.Expression | None = None) -> Sequence[pyarrow.dataset.Fragment]:
        """Return fragments whose scans return only the filtered rows; see `LanceDataset.get_fragments`."""
        return self._source.get_fragments(filter)

    def filter(self, expression: pc.Expression) -> FilteredDataset:
        """Return the rows for which ``expression`` is also true."""
        return self._source.filter(expression)

    def _with_scan_options(self, options: Mapping[str, Any]) -> FilteredDataset:
        """Return the same rows with further default scan options."""
        defaults = self._source._default_scan_options or {}
        return FilteredDataset(self._source._with_scan_options({**defaults, **options}))

    def _at_version(self, version: VersionRef | None) -> FilteredDataset:
        return FilteredDataset(self._source._at_version(version))

    def _free_cache(self) -> None:
        self._source._free_cache()
