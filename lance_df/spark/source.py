"""The data source ``lance_df``: tables and partitioned namespaces by their path."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

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


class LanceSource(DataSource):
    """Made by Spark, in processes of its own, for each read and each write.

    A read stays at the version that is the newest when the DataFrame is made, however often and wherever the
    DataFrame is used: Spark keeps this object with it.
    """

    _pinned: SourceRef | None = None
    _of_session: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "lance_df"

    def schema(self) -> StructType:
        """Return the columns of the version that is read."""
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
        refuse(options.of_streams, "is for streams")
        _chosen(source.arrow_schema, schema.names, options.path)
        return LanceReader(source, options, schema)

    def streamReader(self, schema: StructType) -> LanceStreamReader:  # noqa: N802
        """Return a reader of the rows that new versions add.

        Raises
        ------
        MissingDependencyError
            This Spark does not say where a batch starts.
        """
        try:
            from lance_df.spark.stream_source import LanceStreamReader
        except ImportError as err:
            raise MissingDependencyError(
                'streams are read with PySpark 4.2 or later: pip install -U "lance_df[spark]"'
            ) from err
        options, source = self._opened(options_of_read(schema, self.options))
        refuse({"version or tag": options.version}, "is for reads of one version: see startingVersion")
        _chosen(source.arrow_schema, schema.names, options.path)
        return LanceStreamReader(source, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> LanceWriter:
        """Return a writer that appends, or replaces what is there."""
        from lance_df.spark.writing import writer_for

        given = {name.lower(): value for name, value in self.options.items()}
        options = SourceOptions.parse({**self._of_session, **given})
        return writer_for(options, new_schema(schema), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LanceStreamWriter:  # noqa: N802
        """Return a writer of the batches of a streaming query."""
        from lance_df.spark.streaming import LanceStreamWriter

        return LanceStreamWriter(SourceOptions.parse(self.options), new_schema(schema), overwrite=overwrite)

    def open(self, options: SourceOptions) -> Source:
        """Open what options name, at the version that this has been made for, if it has been.

        Raises
        ------
        NotFoundError
            There is no such table or version any more, or it is another one.
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


class DynamicLanceSource(LanceSource):
    """For sessions whose setting says that ``overwrite`` replaces the partitions that occur in the rows."""

    _of_session: ClassVar[Mapping[str, str]] = {"partitionoverwritemode": "dynamic"}


def _chosen(schema: pa.Schema, names: Sequence[str] | None, path: str) -> pa.Schema:
    if not len(schema if names is None else names):
        # whose batches lose the number of their rows on the way
        raise InvalidInputError(f"{path}: name a column to read; Spark takes no rows without columns")
    if names is None:
        return schema
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise ColumnNotFoundError(f"{path}: no column {unknown[0]!r}; there are {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names])
