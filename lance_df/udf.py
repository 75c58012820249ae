"""Functions that compute new columns from batches of a table, with the names of pylance."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Self, TypeAlias

import pyarrow as pa

from lance_df.errors import InvalidInputError, StorageError

BatchFunction: TypeAlias = Callable[[pa.RecordBatch], Any]

__all__ = ["BatchUDF", "BatchUDFCheckpoint", "batch_udf"]


class BatchUDF:
    """A function from a batch of a table to a batch of new columns, as `batch_udf` returns it.

    Calling it calls the original function.
    """

    def __init__(
        self,
        func: BatchFunction,
        output_schema: pa.Schema | None = None,
        checkpoint_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.func = func
        self.output_schema = output_schema
        self.cache = None if checkpoint_file is None else BatchUDFCheckpoint(checkpoint_file)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        return self.func(batch)

    def compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the new columns of a batch.

        Raises
        ------
        InvalidInputError
            The function did not return a batch or frame, or returned another number of rows or another schema
            than declared.
        """
        result = _as_batch(self.func(batch))
        if result.num_rows != batch.num_rows:
            raise InvalidInputError(
                f"the function must return one row for each row, it returned {result.num_rows} rows for a "
                f"batch of {batch.num_rows}"
            )
        if self.output_schema is not None and not result.schema.equals(self.output_schema):
            raise InvalidInputError(
                "Output schema of function does not match the expected schema: got "
                f"{_one_line(result.schema)}, expected {_one_line(self.output_schema)}"
            )
        return result

    def with_schema_of(self, sample: pa.RecordBatch) -> Self:
        """Return the function with an output schema: the declared one, or else that of a first result."""
        if self.output_schema is None:
            self.output_schema = _as_batch(self.func(sample)).schema
        return self


def batch_udf(
    output_schema: pa.Schema | None = None,
    checkpoint_file: str | os.PathLike[str] | None = None,
) -> Callable[[BatchFunction], BatchUDF]:
    """Return a decorator that makes a function usable by `LanceDataset.add_columns`.

    The function receives batches and returns batches or frames.

    Parameters
    ----------
    output_schema
        The schema of the returned batches. Without it, the function is called once to find the schema.
    checkpoint_file
        A file that holds the results until the columns are committed. If a call fails, it can be repeated
        without computing the results again.
    """
    return lambda func: BatchUDF(func, output_schema, checkpoint_file)


class BatchUDFCheckpoint:
    """The results of a function for slices of rows, in an SQLite file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open or create the file.

        Raises
        ------
        StorageError
            The file cannot be used.
        """
        self.path = Path(path)
        self._run("CREATE TABLE IF NOT EXISTS slices (fragment TEXT, start INT, rows INT, data BLOB)")

    def get(self, fragment: str, start: int, rows: int) -> pa.RecordBatch | None:
        """Return the result for a slice of rows, if there is one.

        Parameters
        ----------
        fragment
            A text that identifies the fragment in its current state: deleting rows shifts the positions of
            others.
        start, rows
            The first live row of the slice, and its number of rows.
        """
        stored = self._run(
            "SELECT data FROM slices WHERE fragment = ? AND start = ? AND rows = ?", fragment, start, rows
        )
        return pa.ipc.open_stream(stored[0]).read_next_batch() if stored else None

    def put(self, fragment: str, start: int, result: pa.RecordBatch) -> None:
        """Store the result for a slice of rows; see `get`."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, result.schema) as writer:
            writer.write_batch(result)
        data = sink.getvalue().to_pybytes()
        self._run("INSERT INTO slices VALUES (?, ?, ?, ?)", fragment, start, result.num_rows, data)

    def cleanup(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _run(self, statement: str, *values: str | int | bytes) -> tuple[bytes, ...] | None:
        try:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                row: tuple[bytes, ...] | None = connection.execute(statement, values).fetchone()
                return row
        except sqlite3.Error as err:
            raise StorageError(f"{self.path}: the checkpoint file cannot be used: {err}") from err


def _as_batch(result: Any) -> pa.RecordBatch:
    if isinstance(result, pa.RecordBatch):
        return result
    if type(result).__module__.partition(".")[0] == "pandas" and type(result).__name__ == "DataFrame":
        return pa.RecordBatch.from_pandas(result)
    raise InvalidInputError(f"the function must return a RecordBatch or a frame, got {type(result).__name__}")


def _one_line(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
