"""References in blobs that are written: check which files they name, and convert them to the stored form."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_df.file.blobs.columns import as_moved, has_blobs, map_blobs
from lance_df.file.blobs.sidecars import Sidecars, sidecar_folder
from lance_df.file.blobs.writer import BlobPlacement
from lance_df.format.blobs import MOVED_BLOB
from lance_df.records import dataclass
from lance_df.storage import open_location
from lance_df.table.metadata.base_paths import has_scheme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.manifest import BasePath
    from lance_df.format.schema import Field, Schema
    from lance_df.storage import ByteSource, Location
    from lance_df.storage.unsynced import Unsynced

_OPEN_SOURCES = 16
_MODES = ("reference", "ingest")


@dataclass(frozen=True, slots=True)
class BlobReferences:
    """How blobs of new rows may refer to files outside the table.

    Attributes
    ----------
    table
        The root of the table.
    bases
        Its base paths. References to files below one that is not a dataset root are allowed, and are stored
        relative to it.
    mode
        ``"reference"`` stores references; ``"ingest"`` copies the files into the table.
    allow_outside
        Whether references may name any URL; None if the caller has no argument for it, which is as False.
    pack_bytes
        The size of files that pack several blobs; by default the setting of the columns.
    """

    table: Location
    bases: tuple[BasePath, ...] = ()
    mode: str = "reference"
    allow_outside: bool | None = None
    pack_bytes: int | None = None
    _sources: OrderedDict[tuple[str, int | None], ByteSource] = field(
        default_factory=OrderedDict, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise InvalidInputError(f"external_blob_mode is {self.mode!r}, expected 'reference' or 'ingest'")
        if self.allow_outside and self.mode == "ingest":
            raise InvalidInputError(
                "allow_external_blob_outside_bases only applies when external_blob_mode is 'reference'"
            )
        if self.pack_bytes is not None and (type(self.pack_bytes) is not int or self.pack_bytes < 1):
            raise InvalidInputError(
                f"blob_pack_file_size_threshold must be a number of at least 1, got {self.pack_bytes!r:.60}"
            )

    def placement(self, data_file: Location, unsynced: Unsynced | None) -> BlobPlacement | None:
        """Return where a new data file reads blobs from and writes them to; None if it cannot have blobs."""
        folder = sidecar_folder(data_file)
        if folder is None:
            return None
        return BlobPlacement(Sidecars(folder, unsynced=unsynced), self._open, self.pack_bytes)

    def resolve(self, arrays: Sequence[pa.Array], schema: Schema) -> list[pa.Array]:
        """Return the columns of new rows with references in their stored form.

        Parameters
        ----------
        arrays
            One array of storage type for each field. Blobs that are `MOVED_BLOB` with the id of a base path,
            and those that are copied, stay as they are.

        Raises
        ------
        InvalidInputError
            A reference is malformed or not allowed.
        """
        pairs = zip(arrays, schema.fields, strict=True)
        return [
            map_blobs(as_moved(array, column), column, self._resolved) if has_blobs(column) else array
            for array, column in pairs
        ]

    def _resolved(self, blobs: pa.Array, column: Field) -> pa.Array:
        uri, position, size, base_id, is_copied = (blobs.field(i) for i in range(1, 6))
        _check_ranges(blobs, column.name)
        is_given = pc.and_(pc.and_(uri.is_valid(), base_id.is_null()), pc.invert(is_copied.fill_null(False)))
        rows = np.flatnonzero(pc.and_(is_given, blobs.is_valid()).to_numpy(zero_copy_only=False))
        if not len(rows):
            return blobs
        if self.mode == "ingest":
            is_copied = pc.if_else(is_given, True, is_copied)
        else:
            uris, ids = uri.to_pylist(), base_id.to_pylist()
            known: dict[str, tuple[int, str]] = {}
            for row in rows.tolist():
                text = uris[row]
                if text not in known:
                    known[text] = self._stored(text, column.name)
                ids[row], uris[row] = known[text]
            uri, base_id = pa.array(uris, pa.string()), pa.array(ids, pa.uint32())
        children = [blobs.field(0), uri, position, size, base_id, is_copied]
        mask = blobs.is_null() if blobs.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(MOVED_BLOB), mask=mask)

    def _stored(self, uri: str, name: str) -> tuple[int, str]:
        """Return the id of the base path that a reference is relative to (0 for none), and the stored URI."""
        path = self._absolute(uri)
        folders = [(self._absolute(base.path) or "", base) for base in self.bases if not base.is_dataset_root]
        for folder, base in sorted(folders, key=lambda each: len(each[0]), reverse=True):
            if path is None or not folder or not path.startswith(f"{folder}/"):
                continue
            relative = path.removeprefix(f"{folder}/")
            if ".." not in relative.split("/") and "" not in relative.split("/"):
                return base.id, relative
        if not self.allow_outside:
            advice = (
                "add its folder with add_bases first"
                if self.allow_outside is None
                else "pass allow_external_blob_outside_bases=True to store a reference to it"
            )
            raise InvalidInputError(
                f"column {name!r}: the external blob {uri!r:.200} is outside the base paths of the table; "
                f"{advice}"
            )
        if not has_scheme(uri):
            raise InvalidInputError(
                f"column {name!r}: the URI of an external blob must be an absolute URL, got {uri!r:.200}"
            )
        return 0, uri

    def _absolute(self, uri: str) -> str | None:
        """Return an absolute form of a URI for comparisons; None for a path that is not absolute."""
        if not has_scheme(uri):
            return os.path.abspath(uri) if self.table.is_local and os.path.isabs(uri) else None
        if uri.lower().startswith("file:"):
            return open_location(uri).path
        return uri.rstrip("/")

    def _open(self, uri: str, base_id: int | None) -> ByteSource:
        """Open a file to copy from; the files used last stay open."""
        key = (uri, base_id)
        if key not in self._sources:
            location = self.table.elsewhere_as_given(uri, *([] if base_id is None else [f"base_{base_id}"]))
            try:
                self._sources[key] = location.open()
            except NotFoundError as err:
                if self.mode == "ingest":
                    raise
                raise CorruptDataError(f"{location.uri}: this blob file is missing") from err
            if len(self._sources) > _OPEN_SOURCES:
                self._sources.popitem(last=False)
        self._sources.move_to_end(key)
        return self._sources[key]


def _check_ranges(blobs: pa.Array, name: str) -> None:
    """Check that ranges are complete, and are given for references only."""
    uri, position, size = (blobs.field(i) for i in range(1, 4))
    valid = blobs.is_valid()

    def check(wrong: pa.BooleanArray, problem: str) -> None:
        if pc.any(pc.and_(wrong, valid)).as_py():
            raise InvalidInputError(f"column {name!r}: {problem}")

    check(
        pc.not_equal(position.is_valid(), size.is_valid()),
        "position and size of a blob must be given together",
    )
    check(pc.and_(size.is_valid(), uri.is_null()), "position and size of a blob require a URI")
    is_reference = pc.and_(uri.is_valid(), pc.invert(blobs.field(5).fill_null(False)))
    check(pc.and_(is_reference, pc.equal(size.fill_null(1), 0)), "the size of a range in a URI must not be 0")
    check(pc.equal(pc.binary_length(uri).fill_null(1), 0), "the URI of a blob must not be empty")
