"""Read deletion files, which list the deleted rows of a fragment.

Spec: table format, deletion files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.errors import CorruptDataError, NotFoundError
from lance_df.format.fragments import DeletionFile, DeletionFileType
from lance_df.format.roaring import read_roaring
from lance_df.table.reading.arrow_ipc import read_uint32_column

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.storage import Location

COLUMN = "row_id"
# size limits of a deletion file: an offset takes four bytes in either format; the rest is headers and padding
_BYTES_PER_ROW: Final = 8
_SPARE_BYTES: Final = 1024 * 1024


def read_deletion_vector(location: Location, file: DeletionFile, *, num_rows: int) -> BitMap:
    """Return the deleted offsets in a deletion file.

    Parameters
    ----------
    location
        Where the file is.
    file
        Its entry in the manifest; a count of 0 means that the number of rows is not recorded.
    num_rows
        Physical rows of the fragment.

    Raises
    ------
    CorruptDataError
        The file is missing or damaged, lists rows that do not exist, or not as many as the manifest says.
    """
    try:
        data = location.read(max_bytes=_SPARE_BYTES + _BYTES_PER_ROW * num_rows)
    except NotFoundError as err:
        raise CorruptDataError(f"{location.uri}: this deletion file is missing") from err
    if file.file_type is DeletionFileType.BITMAP:
        deleted = read_roaring(data, source=location.uri)
    else:
        values = read_uint32_column(pa.py_buffer(data), name=COLUMN, max_rows=num_rows, source=location.uri)
        deleted = BitMap(values)
    if deleted and deleted.max() >= num_rows:
        raise CorruptDataError(
            f"{location.uri}: row {deleted.max()} is deleted, but the fragment has {num_rows} rows"
        )
    if file.num_deleted_rows not in (0, len(deleted)):
        raise CorruptDataError(
            f"{location.uri}: the file lists {len(deleted)} deleted rows, but the manifest says "
            f"{file.num_deleted_rows}"
        )
    return deleted


def deleted_offsets(deleted: BitMap | None) -> npt.NDArray[np.int64]:
    """Return the ascending offsets in a deletion vector; none if it is None."""
    return np.asarray(() if deleted is None else deleted.to_array(), dtype=np.int64)
