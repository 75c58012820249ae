"""The methods of `pyarrow.dataset.Dataset` that tables and namespaces share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from lance_df.arguments import checked_items, invalid
from lance_df.arrow_classes import ArrowDataset
from lance_df.errors import InvalidInputError, MissingDependencyError, UnsupportedFeatureError
from lance_df.interrupts import imports_finished
from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from lance_df.api.filtered_dataset import FilteredDataset
    from lance_df.scanner import LanceScanner
    from lance_df.scanner_options import Columns, Filter
    from lance_df.table.metadata.refs import VersionRef


class DatasetCalls(ArrowDataset):
    """Methods of `pyarrow.dataset.Dataset` that are built on scans."""

    _default_scan_options: Mapping[str, Any] | None

    if TYPE_CHECKING:

        def scanner(
            self, columns: Columns = None, filter: Filter = None, /, **options: Any
        ) -> LanceScanner: ...

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the cache of the table, for all its versions. Later uses read the table again."""
        self._free_cache()

    def _free_cache(self) -> None:
        raise NotImplementedError

    def _with_scan_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same rows with other default scan options."""
        raise NotImplementedError

    def _at_version(self, version: VersionRef | None) -> Self:
        """Return another version, or the current one as an object that stays at it."""
        raise NotImplementedError

    def to_table(self, columns: Columns = None, filter: Filter = None, **options: Any) -> pa.Table:
        """Read the rows into a pyarrow Table; see `scanner`."""
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan; see `scanner`."""
        return self.scanner(columns, filter, **options).to_batches()

    def to_pandas(self, columns: Columns = None, filter: Filter = None, **options: Any) -> pd.DataFrame:
        """Read the rows into a pandas frame; see `scanner`.

        Options that are not scan options are passed to `pyarrow.Table.to_pandas`.
        """
        with imports_finished():
            from lance_df.scanner_options import ScannerBuilder

        scan_options = {name: options.pop(name) for name in list(options) if ScannerBuilder.knows(name)}
        return self.scanner(columns, filter, **scan_options).to_pandas(**options)

    def to_polars(self, columns: Columns = None, filter: Filter = None, **options: Any) -> pl.DataFrame:
        """Read the rows into a Polars frame; see `scanner`. Use `lance_df.scan_lance` for a lazy frame.

        Raises
        ------
        MissingDependencyError
            Polars is not installed.
        """
        try:
            import polars as pl
        except ImportError as err:
            raise MissingDependencyError("Polars is not installed: pip install 'lance_df[polars]'") from err
        frame = pl.from_arrow(self.scanner(columns, filter, **options).to_table())
        return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first ``num_rows`` rows; see `scanner`."""
        return self.scanner(**{**options, "limit": num_rows}).to_table()

    @property
    def partition_expression(self) -> NoReturn:
        """Raise an error: there is no expression that is true for all rows."""
        raise UnsupportedFeatureError("a Lance table has no partition expression")

    @property
    def _selects(self) -> bool:
        """Return whether the default scan options choose rows or columns."""
        if not self._default_scan_options:
            return False
        with imports_finished():
            from lance_df.scanner_options import ScannerBuilder

        return any(map(ScannerBuilder.selects, self._default_scan_options))

    def filter(self, expression: pc.Expression) -> FilteredDataset:
        """Return a `pyarrow.dataset.Dataset` of the rows for which ``expression`` is true."""
        with imports_finished():
            from lance_df.api.filtered_dataset import FilteredDataset

        if not isinstance(expression, pc.Expression):
            raise InvalidInputError(f"expected a pyarrow expression, got {type(expression).__name__}")
        defaults = dict(self._default_scan_options or {})
        before = defaults.get("condition")
        defaults["condition"] = expression if before is None else before & expression
        return FilteredDataset(self._with_scan_options(defaults))

    def sort_by(self, sorting: str | Sequence[tuple[str, ...]], **options: Any) -> pyarrow.dataset.Dataset:
        """Return the rows in sorted order, in memory."""
        keys = [(sorting, "ascending")] if isinstance(sorting, str) else _sort_keys(sorting)
        rows = self.scanner(**options).to_table()
        with _arrow_errors("sorted"):
            return pyarrow.dataset.dataset(unsliced(rows).sort_by(keys))

    def join(self, right_dataset: Any, *args: Any, **options: Any) -> pyarrow.dataset.Dataset:
        """Return the join with another dataset, in memory. Arguments are those of `pyarrow.Table.join`."""
        left, right = self.scanner().to_table(), _joined_table(right_dataset)
        with _arrow_errors("joined"):
            return pyarrow.dataset.dataset(left.join(right, *args, **options))

    def join_asof(self, right_dataset: Any, *args: Any, **options: Any) -> pyarrow.dataset.Dataset:
        """Return the as-of join with another dataset, in memory; see `pyarrow.Table.join_asof`."""
        left, right = self.scanner().to_table(), _joined_table(right_dataset)
        with _arrow_errors("joined"):
            return pyarrow.dataset.dataset(left.join_asof(right, *args, **options))

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Raise an error: only commits change the schema of a table."""
        del schema
        raise UnsupportedFeatureError("the schema of a Lance table cannot be replaced; use alter_columns")


def _sort_keys(sorting: Any) -> list[tuple[str, ...]]:
    expected = "a column or a list of (column, order)"
    keys = checked_items(sorting, "sorting", expected)
    # some versions of pyarrow also accept the placement of nulls
    if not all(isinstance(key, tuple | list) and len(key) in (2, 3) for key in keys):
        raise invalid("sorting", keys, expected)
    return [tuple(key) for key in keys]


def _joined_table(right_dataset: Any) -> pa.Table:
    if not callable(getattr(right_dataset, "to_table", None)):
        raise invalid("right_dataset", right_dataset, "a dataset")
    return right_dataset.to_table()


@contextmanager
def _arrow_errors(done: str) -> Iterator[None]:
    """Raise what pyarrow says of columns that it cannot sort or join as `InvalidInputError`."""
    try:
        yield
    except (pa.ArrowException, KeyError, TypeError, ValueError) as err:
        raise InvalidInputError(f"the rows cannot be {done} in memory: {err}; try SQL instead") from err
