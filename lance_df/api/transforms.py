"""The arguments of `add_columns` and `merge_columns`: SQL, functions over batches, and streams of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lance_df.arguments import checked_integer, checked_names
from lance_df.errors import InvalidInputError
from lance_df.scanner import LanceScanner
from lance_df.scanner_options import ScannerOptions
from lance_df.table.evolution.add_columns import SplitStream
from lance_df.table.reading.batches import close_source, source_closed
from lance_df.udf import BatchUDF

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset
    from lance_df.format.fragments import Fragment


class Transform(Protocol):
    """Computes new columns, fragment by fragment in the order of the table.

    Attributes
    ----------
    schema
        The schema of the new columns.
    """

    schema: pa.Schema

    def rows_of(self, fragment: Fragment) -> Iterable[pa.RecordBatch]:
        """Compute one row for each live row of a fragment, in order."""
        ...

    def check_end(self) -> None:
        """Check, after the last fragment, that no values are left over."""
        ...

    def committed(self) -> None:
        """Remove the checkpoint that was written in case of a failure."""
        ...

    def close(self) -> None:
        """Close the source of the values, also after a failure."""
        ...


def open_transform(
    ds: LanceDataset,
    transforms: Any,
    *,
    read_columns: Sequence[str] | None,
    reader_schema: pa.Schema | None,
    batch_size: int | None,
) -> Transform:
    """Return the transform for any argument that `LanceDataset.add_columns` accepts, except schemas.

    Raises
    ------
    InvalidInputError
        The argument has none of these forms, a function fails on the first row, or ``read_columns`` is not a
        list.
    """
    if read_columns is not None:
        read_columns = checked_names(read_columns, "read_columns")
    if batch_size is not None:
        batch_size = checked_integer(batch_size, "batch_size", 1)
    if isinstance(transforms, Mapping) and all(isinstance(text, str) for text in transforms.values()):
        return _Sql(ds, transforms, batch_size)
    if isinstance(transforms, BatchUDF):
        return _Function(ds, transforms, read_columns, batch_size)
    if callable(transforms):
        return _Function(ds, BatchUDF(transforms), read_columns, batch_size)
    return _Stream(ds, transforms, reader_schema)


class _Sql:
    """SQL expressions by the names of the new columns."""

    def __init__(self, ds: LanceDataset, expressions: Mapping[str, str], batch_size: int | None) -> None:
        if not expressions or not all(isinstance(name, str) for name in expressions):
            raise InvalidInputError("new columns must be a non-empty dict of names and SQL expressions")
        self._ds, self._expressions, self._batch_size = ds, expressions, batch_size
        self.schema = self._scan(()).schema

    def rows_of(self, fragment: Fragment) -> Iterable[pa.RecordBatch]:
        return self._scan((fragment.id,))

    def _scan(self, fragment_ids: tuple[int, ...]) -> pa.RecordBatchReader:
        from lance_df.engine.query import scan_with_sql

        return scan_with_sql(
            self._ds._table,
            columns=self._expressions,
            fragment_ids=fragment_ids,
            batch_size=self._batch_size,
        )

    def check_end(self) -> None:
        """Do nothing: a scan ends by itself."""

    def committed(self) -> None:
        """Do nothing: nothing is kept."""

    def close(self) -> None:
        """Do nothing: scans are closed by who reads them."""


class _Function:
    """A function over batches of the table."""

    def __init__(
        self, ds: LanceDataset, udf: BatchUDF, read_columns: Sequence[str] | None, batch_size: int | None
    ) -> None:
        self._ds, self._batch_size = ds, batch_size
        self._columns = None if read_columns is None else tuple(read_columns)
        self._udf = udf if udf.output_schema is not None else udf.with_schema_of(self._sample())
        # frames bring a description of themselves, which is not the table's
        self.schema = self._udf.output_schema.remove_metadata()  # type: ignore[union-attr] # set above

    def _sample(self) -> pa.RecordBatch:
        batch = next(self._scan(limit=1), None)
        if batch is None:
            raise InvalidInputError("the function needs an output_schema, because the table is empty")
        return batch

    def rows_of(self, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        cache, state, start = self._udf.cache, _state_of(fragment), 0
        batches = self._scan(fragment_ids=(fragment.id,))
        with source_closed(batches):
            for batch in batches:
                result = None if cache is None else cache.get(state, start, batch.num_rows)
                if result is None:
                    result = self._udf.compute(batch)
                    if cache is not None:
                        cache.put(state, start, result)
                start += batch.num_rows
                yield result

    def _scan(self, **options: Any) -> Iterator[pa.RecordBatch]:
        scan_options = ScannerOptions(columns=self._columns, batch_size=self._batch_size, **options)
        return LanceScanner(self._ds, scan_options).to_batches()

    def check_end(self) -> None:
        """Do nothing: a scan ends by itself."""

    def committed(self) -> None:
        if self._udf.cache is not None:
            self._udf.cache.cleanup()

    def close(self) -> None:
        """Do nothing: scans are closed where they are read."""


def _state_of(fragment: Fragment) -> str:
    """Return a text that another state of the rows of a fragment does not have."""
    files = [(file.path, file.fields) for file in fragment.files]
    return repr((fragment.id, files, fragment.deletion_file))


class _Stream:
    """Values that come from elsewhere, one for each live row of the table."""

    def __init__(self, ds: LanceDataset, data: Any, schema: pa.Schema | None) -> None:
        from lance_df.sources import to_batches

        self.schema, self._batches = to_batches(data, schema)
        self._split = SplitStream(ds._table, self._batches)

    def rows_of(self, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        return self._split.rows_of(fragment)

    def check_end(self) -> None:
        self._split.check_end()

    def committed(self) -> None:
        """Do nothing: nothing is kept."""

    def close(self) -> None:
        close_source(self._batches)
