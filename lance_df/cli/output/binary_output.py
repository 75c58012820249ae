"""Write rows as an Arrow stream or a Parquet file."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write an IPC stream to the bytes below ``out``."""
    with pa.ipc.new_stream(_bytes_below(out, "arrow"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[str]) -> None:
    """Write a Parquet file to the bytes below ``out``."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetWriter(_bytes_below(out, "parquet"), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as err:
        raise InvalidInputError(f"the rows cannot be written as Parquet: {err}") from err
    except OSError as err:
        if err.errno is not None:
            raise
        # pyarrow reports types that Parquet does not support
        raise InvalidInputError(f"the rows cannot be written as Parquet: {err}") from err


def _bytes_below(out: IO[str], style: str) -> Any:
    if out.isatty():
        raise InvalidInputError(
            f"--format {style} writes binary data; send it to a file with --output, or to another program"
        )
    return out.buffer  # type: ignore[attr-defined]
