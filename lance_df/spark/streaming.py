"""The Structured Streaming sink, which commits each batch exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from lance_df.errors import InvalidInputError, LanceError
from lance_df.spark.writing import writer_for
from lance_df.storage import open_location
from lance_df.table.commit.marks import Mark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from lance_df.spark.options import SourceOptions
    from lance_df.spark.writing import Written

_FILE_SCHEME = "file:"


class LanceStreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a query in one version, which stores the ids of the query and the batch.

    If Spark does not know whether a batch was committed, it runs the batch again. Then nothing is added.
    """

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        self._writer = writer_for(options, schema, overwrite=overwrite)
        self._sink = options.sink_id or query_id(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task into data files."""
        return self._writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the rows that the tasks of a batch wrote visible, unless it was committed before."""
        mark = Mark(f"lance_df.stream.{self._sink}", batchId)
        self._writer.commit_once(messages, mark)
        self._writer.add_statistics(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Remove the files that tasks wrote, unless they are or may become visible."""
        self._writer.abort(messages)


def query_id(options: SourceOptions) -> str:
    """Return the id of a query, which Spark stores in the checkpoint.

    Raises
    ------
    InvalidInputError
        There is no checkpoint, or this process cannot read it.
    """
    advice = "give the stream a unique id with the option sinkId"
    if options.checkpoint is None:
        raise InvalidInputError(f"the option checkpointLocation is missing; set it, or {advice}")
    checkpoint = options.checkpoint
    if checkpoint.startswith(_FILE_SCHEME):
        checkpoint = "/" + checkpoint.removeprefix(_FILE_SCHEME).lstrip("/")
    try:
        metadata = json.loads(
            (open_location(checkpoint, options.storage or None) / "metadata").read().decode()
        )
        return str(metadata["id"])
    except (LanceError, ValueError, LookupError, TypeError) as err:
        raise InvalidInputError(
            f"{options.checkpoint}: cannot read the id of the query ({err}); {advice}"
        ) from err
