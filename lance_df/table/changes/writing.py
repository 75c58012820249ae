"""Write the new rows of a change, in the file version of the table."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lance_df.table.blobs.references import BlobReferences
from lance_df.table.writing.fragment_writer import FileLimits, fragments_written
from lance_df.table.writing.free_location import new_folders_removed
from lance_df.table.writing.schema_rules import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.schema import Schema
    from lance_df.table.metadata.base_paths import DataTarget
    from lance_df.table.table import Table


@contextmanager
def rows_written(
    table: Table, schema: Schema, batches: Iterable[pa.RecordBatch], *, targets: Sequence[DataTarget] = ()
) -> Iterator[tuple[Fragment, ...]]:
    """Write rows into new fragments; delete their files if the block fails.

    Parameters
    ----------
    schema
        The part of the table's schema that the batches have.
    targets
        The folders for the files, used in turn; by default that of the table.

    Raises
    ------
    InvalidInputError
        There is a null in a column that is not nullable.
    UnsupportedFeatureError
        A column has a type that cannot be written.
    """
    version = table.manifest.file_version
    check_schema(schema, version)
    with (
        new_folders_removed(table.location),
        fragments_written(
            table.location,
            schema,
            batches,
            version=version,
            limits=FileLimits(),
            targets=targets,
            references=BlobReferences(table.location, table.manifest.base_paths),
        ) as fragments,
    ):
        yield fragments
