"""Write the deletion file of a fragment.

Spec: table format, deletion files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.format.fragments import DeletionFile, DeletionFileType
from lance_df.table.metadata.base_paths import DELETIONS_DIR
from lance_df.table.reading.deletions import COLUMN
from lance_df.table.writing.job_names import deletion_id

if TYPE_CHECKING:
    from pyroaring import BitMap

    from lance_df.storage import Location
    from lance_df.table.writing.uncommitted import UncommittedFiles

# From this number of deleted rows on, they are stored as a bitmap, as by the reference writer.
BITMAP_FROM: Final = 5000


def write_deletion_file(
    table: Location, deleted: BitMap, *, fragment_id: int, read_version: int, files: UncommittedFiles
) -> DeletionFile:
    """Write all deleted offsets of a fragment into a new file, which is durable afterwards.

    Parameters
    ----------
    table
        The root of the table or branch; deletion files are never in other base paths.
    deleted
        All deleted rows, including earlier ones. Not empty, and not all rows of the fragment, as it is
        dropped in that case.
    read_version
        The version that the deletion was computed from, or rebased onto.
    files
        Registers the file before it is created.

    Returns
    -------
    The manifest entry of the file.

    Raises
    ------
    StorageError
        The store failed.
    """
    is_bitmap = len(deleted) >= BITMAP_FROM
    file = DeletionFile(
        file_type=DeletionFileType.BITMAP if is_bitmap else DeletionFileType.ARROW,
        read_version=read_version,
        id=deletion_id(),
        num_deleted_rows=len(deleted),
    )
    content = deleted.serialize() if is_bitmap else _arrow_file(deleted)
    location = table / DELETIONS_DIR / file.name(fragment_id)
    files.add_file(location)
    location.put(content)
    return file


def _arrow_file(deleted: BitMap) -> bytes:
    schema = pa.schema([pa.field(COLUMN, pa.uint32(), nullable=False)])
    values = pa.array(np.asarray(deleted.to_array(), dtype=np.uint32))
    sink = pa.BufferOutputStream()
    # there is one buffer, and passing it to a thread takes longer than compressing it
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch([values], schema=schema))
    return bytes(sink.getvalue().to_pybytes())
