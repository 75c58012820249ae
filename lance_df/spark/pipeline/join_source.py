"""A data source with the rows of a join that was planned before.

Spark starts a process to plan each read, so modules that only tasks need are imported later.
"""

from __future__ import annotations

import json
import pickle
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lance_df.namespace.member_subset import MemberSubset
    from lance_df.spark.opened import SourceRef
    from lance_df.table.metadata.refs import ResolvedRef

PART: Final = "part"
"""The column with batches to merge, as bytes of Arrow because Spark lacks some of their types."""


@dataclass(frozen=True, slots=True)
class SomeMembers:
    """Some members of a namespace; ``refs`` has the resolved versions of members that are not pinned."""

    source: SourceRef
    positions: npt.NDArray[np.intp]
    refs: Mapping[int, ResolvedRef]

    def open(self) -> MemberSubset:
        """Return a namespace with only these members."""
        from lance_df.namespace.member_subset import ChosenMembers

        return ChosenMembers(self.source.open_namespace(), self.positions, self.refs)


class JoinSource(DataSource):
    """The rows of a query over namespaces. `partitioned_join` sets the options."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "lance_df_partitioned_join"

    def reader(self, schema: StructType) -> JoinReader:
        """Return a reader of the columns of ``schema``."""
        depth = json.loads(self.options["mergedDepth"])
        return JoinReader(self.options["sql"], json.loads(self.options["splits"]), schema, depth)


class JoinSplit(InputPartition):
    """The input of one task: pickled `SomeMembers` by the names of their namespaces in the query."""

    def __init__(self, tables: bytes | None) -> None:
        super().__init__(None)
        self.tables = tables


class JoinReader(DataSourceReader):
    """Computes a join in tasks, or the parts that `JoinMerger` merges."""

    def __init__(self, sql: str, splits: Sequence[str], schema: StructType, merged_depth: int | None) -> None:
        self._sql = sql
        self._splits = splits
        self._schema = schema
        self._merged_depth = merged_depth

    def __getstate__(self) -> dict[str, object]:
        # a task gets its members by its split
        return {**self.__dict__, "_splits": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the groups of partitions for each task."""
        return [JoinSplit(b64decode(split)) for split in self._splits] or [JoinSplit(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the groups in a split."""
        if not isinstance(partition, JoinSplit):
            raise TypeError(f"expected a split of a join, got {partition!r}")
        if self._merged_depth is not None:
            yield from self._parts(partition, self._merged_depth)
            return
        if partition.tables is None:
            return
        from lance_df.engine.divided_statement import run_statement
        from lance_df.spark.decimals import to_integers, without_integers
        from lance_df.spark.types import arrow_schema, to_spark

        target = arrow_schema(self._schema)
        plain = arrow_schema(without_integers(self._schema))
        members: Mapping[str, SomeMembers] = pickle.loads(partition.tables)
        for batch in run_statement(self._sql, {name: each.open() for name, each in members.items()}):
            if batch.num_rows:
                yield to_integers(to_spark(batch, plain), self._schema, target)

    def _parts(self, split: JoinSplit, merged_depth: int) -> Iterator[pa.RecordBatch]:
        """Yield batches as bytes, at least one, so that Spark calls the merger in any case."""
        import pyarrow as pa

        def packed(data: bytes) -> pa.RecordBatch:
            return pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], [PART])

        if split.tables is None:
            yield packed(b"")
            return
        from lance_df.engine.divided_statement import run_partly

        members: Mapping[str, SomeMembers] = pickle.loads(split.tables)
        tables = {name: each.open() for name, each in members.items()}
        yield packed(b"")
        for batch in run_partly(self._sql, tables, merged_depth):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield packed(sink.getvalue().to_pybytes())


@dataclass(frozen=True, slots=True)
class JoinMerger:
    """Computes the rows of a query from the results of tasks. Spark sends it to the one task that merges.

    Attributes
    ----------
    tables
        The namespaces, without any members.
    merged_depth
        The attribute of `DividedStatement`.
    schema
        The schema of the rows, as JSON.
    """

    sql: str
    tables: Mapping[str, SomeMembers]
    merged_depth: int
    schema: str

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in Spark's types."""
        import pyarrow as pa
        from pyspark.sql.types import StructType

        from lance_df.engine.divided_statement import run_merged
        from lance_df.spark.types import arrow_schema, to_spark

        target = arrow_schema(StructType.fromJson(json.loads(self.schema)))
        parts = [
            part
            for batch in batches
            for data in batch.column(PART)
            if len(data.as_buffer())
            for part in pa.ipc.open_stream(data.as_buffer())
        ]
        tables = {name: each.open() for name, each in self.tables.items()}
        for rows in run_merged(self.sql, tables, self.merged_depth, parts):
            yield to_spark(rows, target)
