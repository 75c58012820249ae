"""The rows of a dataset or a namespace for which a condition is true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.api.dataset_calls import DatasetCalls

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset

    from lance_df.api.namespaces import PartitionedNamespace
    from lance_df.dataset import LanceDataset
    from lance_df.scanner_options import Columns, Filter


class FilteredDataset(DatasetCalls):
    """What `filter` of a `LanceDataset` or a `PartitionedNamespace` returns: its rows, to be read.

    It is a `pyarrow.dataset.Dataset`, of the version that was filtered, and has no calls that change a table.
    """

    def __init__(self, source: LanceDataset | PartitionedNamespace) -> None:
        self._source = source

    def __reduce__(self) -> tuple[Any, ...]:
        return FilteredDataset, (self._source,)

    def __repr__(self) -> str:
        condition = (self._source._default_scan_options or {}).get("condition")
        return f"<lance_df.FilteredDataset {self.uri} version {self.version}: {condition}>"

    def __len__(self) -> int:
        return self.count_rows()

    @property
    def uri(self) -> str:
        """The place of what is filtered."""
        return self._source.uri

    @property
    def version(self) -> int:
        """The version that is filtered."""
        return self._source.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of a scan without arguments."""
        return self._source.schema

    def scanner(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> Any:
        """Return a scan that has not run yet, of rows for which a further ``filter`` is true, too.

        Arguments are those of `LanceDataset.scanner` or `PartitionedNamespace.scanner`.
        """
        return self._source.scanner(columns, filter, **options)

    def to_batches(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; see `scanner`."""
        return self._source.to_batches(columns, filter, **options)

    def to_pandas(self, columns: Columns = None, filter: Filter = None, **options: Any) -> pd.DataFrame:
        """Read into a pandas frame; see `scanner`. Other options go to `pyarrow.Table.to_pandas`."""
        return self._source.to_pandas(columns, filter, **options)

    def count_rows(self, filter: Filter = None, **options: Any) -> int:
        """Return the number of rows, or of those for which an SQL or pyarrow expression is true."""
        return self._source.count_rows(filter, **options)

    def take(self, indices: Sequence[int] | pa.Array, columns: Columns = None, **options: Any) -> pa.Table:
        """Return rows by their numbers among these, in the order asked for; see `scanner`.

        Raises
        ------
        InvalidInputError
            There is no such row.
        """
        return self.scanner(columns, **options).take(indices)

    def get_fragments(self, filter: pc.Expression | None = None) -> Sequence[pyarrow.dataset.Fragment]:
        """Return the fragments, whose scans return these rows alone; see `LanceDataset.get_fragments`."""
        return self._source.get_fragments(filter)

    def filter(self, expression: pc.Expression) -> FilteredDataset:
        """Return those of these rows for which ``expression`` is true, too."""
        return self._source.filter(expression)

    def _with_scan_options(self, options: Mapping[str, Any]) -> FilteredDataset:
        """Return the same rows, with further defaults of scans."""
        defaults = self._source._default_scan_options or {}
        return FilteredDataset(self._source._with_scan_options({**defaults, **options}))

    def _free_cache(self) -> None:
        self._source._free_cache()
