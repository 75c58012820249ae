"""The Spark data source ``lance_df``, which reads and writes tables and namespaces by path."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource

from lance_df.errors import ColumnNotFoundError, InvalidInputError, MissingDependencyError
from lance_df.spark.catalogs import options_of_new_table, options_of_read, with_table_options
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions, refuse
from lance_df.spark.types import new_schema, spark_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructType

    from lance_df.namespace.kind import Source
    from lance_df.spark.reading import LanceReader
    from lance_df.spark.stream_source import LanceStreamReader
    from lance_df.spark.streaming import LanceStreamWriter
    from lance_df.spark.writing import LanceWriter

MODE_OF_SESSION: Final = "sessionoverwritemode"
"""The option with the default of ``partitionOverwriteMode``; see `lance_df.spark.overwriting`."""


class LanceSource(DataSource):
    """The data source, which Spark creates in a separate process for each read and each write.

    A DataFrame always reads the version that was the newest when it was created, because Spark keeps this
    object in the DataFrame.
    """

    _pinned: SourceRef | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "lance_df"

    def schema(self) -> StructType:
        """Return the columns of the version to read."""
        of_table = options_of_new_table(self.options)
        options, source = self._opened(of_table or self.options)
        schema = spark_schema(_chosen(source.arrow_schema, options.columns, options.path))
        if of_table is not None:
            return with_table_options(schema, of_table)
        if not options.decimals_as_integers:
            return schema
        from lance_df.spark.decimals import with_integers

        return with_integers(schema)

    def reader(self, schema: StructType) -> LanceReader:
        """Return a reader of the columns of ``schema``."""
        from lance_df.spark.reading import LanceReader

        options, source = self._opened(options_of_read(schema, self.options))
        refuse(options.of_streams, "is only for streams")
        _chosen(source.arrow_schema, schema.names, options.path)
        return LanceReader(source, options, schema)

    def streamReader(self, schema: StructType) -> LanceStreamReader:  # noqa: N802
        """Return a reader of the rows that new versions add.

        Raises
        ------
        MissingDependencyError
            This release of Spark does not pass the start of a batch.
        """
        try:
            from lance_df.spark.stream_source import LanceStreamReader
        except ImportError as err:
            raise MissingDependencyError(
                'reading streams requires PySpark 4.2 or later: pip install -U "lance_df[spark]"'
            ) from err
        options, source = self._opened(options_of_read(schema, self.options))
        refuse({"version or tag": options.version}, "is only for reads of one version; see startingVersion")
        _chosen(source.arrow_schema, schema.names, options.path)
        return LanceStreamReader(source, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> LanceWriter:
        """Return a writer that appends or overwrites."""
        from lance_df.spark.writing import writer_for

        given = {name.lower(): value for name, value in self.options.items()}
        if (mode := given.pop(MODE_OF_SESSION, None)) is not None:
            given.setdefault("partitionoverwritemode", mode)
        return writer_for(SourceOptions.parse(given), new_schema(schema), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LanceStreamWriter:  # noqa: N802
        """Return a writer of the batches of a streaming query."""
        from lance_df.spark.streaming import LanceStreamWriter

        return LanceStreamWriter(SourceOptions.parse(self.options), new_schema(schema), overwrite=overwrite)

    def open(self, options: SourceOptions) -> Source:
        """Open the table or namespace of some options, at the version of this object if it has one.

        Raises
        ------
        NotFoundError
            The table or version no longer exists, or the table was created again.
        """
        if self._pinned is None:
            return open_source(options)
        source = open_source(replace(options, version=self._pinned.version, branch=self._pinned.branch))
        self._pinned.check(source)
        return source

    def _opened(self, given: Mapping[str, str]) -> tuple[SourceOptions, Source]:
        options = SourceOptions.parse(given)
        source = self.open(options)
        if self._pinned is None:
            self._pinned = SourceRef.of(source, options)
        return options, source


def _chosen(schema: pa.Schema, names: Sequence[str] | None, path: str) -> pa.Schema:
    if not len(schema if names is None else names):
        # Spark loses the row count of batches without columns
        raise InvalidInputError(
            f"{path}: select at least one column; Spark does not support rows without columns"
        )
    if names is None:
        return schema
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise ColumnNotFoundError(
            f"{path}: column {unknown[0]!r} does not exist; the columns are {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in names])
