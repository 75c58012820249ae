"""The batch reader of the data source, which plans on the driver and reads in tasks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lance_df.spark.decimals import to_integers, without_integers
from lance_df.spark.opened import SourceRef
from lance_df.spark.scan_log import log_scan, show_in_worker
from lance_df.spark.splits import plan_splits
from lance_df.spark.types import arrow_schema, to_spark

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_df.namespace.kind import Source
    from lance_df.spark.options import SourceOptions
    from lance_df.spark.splits import Piece

WHOLE_BYTES: Final = 1024 * 1024 * 1024
"""The number of bytes from which a read without filter and columns gives a warning."""
_has_warned = False


class Split(InputPartition):
    """The rows that one task reads."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(None)
        self.pieces = pieces


class LanceReader(DataSourceReader):
    """Reads one version of a table or a namespace.

    It does not accept filters from Spark. Spark would keep a filter of one query in the DataFrame, and the
    next query would lose rows.
    """

    def __init__(self, source: Source, options: SourceOptions, schema: StructType) -> None:
        self._source: Source | None = source
        self._options = options
        self._schema = schema

    def __getstate__(self) -> dict[str, object]:
        # tasks open the source by the reference in their split
        return {**self.__dict__, "_source": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the splits of the data that may have matching rows."""
        if self._source is None:
            raise TypeError("a reader that was sent to a task cannot plan a scan")
        splits = plan_splits(
            self._source,
            SourceRef.of(self._source, self._options),
            self._options.filter,
            split_bytes=self._options.split_bytes,
            parallelism=os.cpu_count() or 1,
        )
        self._warn_if_whole(sum(piece.num_bytes for pieces in splits for piece in pieces))
        show_in_worker()
        log_scan(self._source, self._schema.names, self._options.filter, len(splits))
        return [Split(pieces) for pieces in splits or [()]]

    def _warn_if_whole(self, num_bytes: int) -> None:
        """Warn once per process about a whole read, since Spark passes neither conditions nor columns."""
        global _has_warned  # noqa: PLW0603 - a process is warned, not a reader
        if _has_warned or num_bytes < WHOLE_BYTES:
            return
        if self._options.filter is not None or self._options.columns is not None:
            return
        _has_warned = True
        warnings.warn(
            f"{self._options.path}: all columns and rows are read ({num_bytes // 1024**2} MiB), because "
            "where() and select() do not reduce what is read. Use lance_df.spark.sql(spark, …) or "
            "lance_df.spark.prune(df), or the options filter and columns",
            UserWarning,
            stacklevel=2,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        if not isinstance(partition, Split):
            raise TypeError(f"expected a split of lance_df, got {partition!r}")
        yield from read_pieces(partition.pieces, self._schema)


def read_pieces(pieces: Sequence[Piece], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield rows with the columns and types of a Spark schema; columns that a version lacks are null."""
    target = arrow_schema(schema)
    decimals = arrow_schema(without_integers(schema))
    for piece in pieces:
        stored = set(piece.source.open().arrow_schema.names)
        columns = pa.schema([field for field in target if field.name in stored])
        plain = pa.schema([field for field in decimals if field.name in stored])
        for batch in piece.read(columns.names):
            if batch.num_rows:
                rows = to_integers(to_spark(batch, plain), schema, columns)
                yield rows if len(columns) == len(target) else _with_nulls(rows, target)


def _with_nulls(rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)
