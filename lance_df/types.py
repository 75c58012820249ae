"""What may be written to a table, with pylance's names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lance_df.sources import to_batches

__all__ = ["coerce_reader"]


def coerce_reader(data_obj: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Return a reader of the batches of any data that `lance_df.write_dataset` takes.

    Raises
    ------
    InvalidInputError
        No such source, or values that do not fit the schema.
    """
    known, batches = to_batches(data_obj, schema)
    return pa.RecordBatchReader.from_batches(known, iter(batches))


# pylance's name of it
_coerce_reader = coerce_reader
