"""Copy the files of a version below another root, under new names."""

from __future__ import annotations

import dataclasses
import uuid
from functools import partial
from typing import TYPE_CHECKING

from lance_df.file.blobs.sidecars import sidecar_folder
from lance_df.format.fragment_list import FragmentList
from lance_df.format.schema import BLOB_EXTENSION, EXTENSION_NAME
from lance_df.storage.copy import copy_file
from lance_df.table.metadata.base_paths import DATA_DIR, DELETIONS_DIR, INDICES_DIR
from lance_df.table.parallel import map_reads
from lance_df.table.writing.fragment_writer import data_file_name, remove_data_file
from lance_df.table.writing.job_names import deletion_id

if TYPE_CHECKING:
    from lance_df.format.fragments import DataFile, DeletionFile, Fragment
    from lance_df.format.manifest import IndexMetadata
    from lance_df.storage import Location
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles


class FileCopies:
    """The files of a version, and those that they become below another root.

    All names are new. So writers that copy to the same root at once, or after one that was killed, do not
    share files, and each of them removes only its own.

    Parameters
    ----------
    files
        Registers all files before they are created.

    Attributes
    ----------
    fragments, indices
        Those of the version, with the new names and without base paths.
    """

    def __init__(self, source: Table, target: Location, files: UncommittedFiles) -> None:
        self._source = source
        self._target = target
        self._files = files
        self._pairs: list[tuple[Location, Location]] = []
        self._has_blobs = any(
            field.metadata.get(EXTENSION_NAME) == BLOB_EXTENSION for field in source.schema.walk()
        )
        # by URIs of the source
        self._data_files: dict[str, str] = {}
        self._index_ids: dict[str, uuid.UUID] = {}
        self.fragments = FragmentList.of(map(self._fragment, source.fragments))
        self.indices = tuple(map(self._index, source.manifest_file.read_indices()))

    def copy(self) -> None:
        """Copy all files.

        Raises
        ------
        NotFoundError
            A file is missing.
        StorageError
            One of the stores failed.
        """
        map_reads(lambda pair: copy_file(*pair), self._pairs, where=self._target)

    def _fragment(self, fragment: Fragment) -> Fragment:
        deletion_file = fragment.deletion_file
        return dataclasses.replace(
            fragment,
            files=tuple(map(self._data_file, fragment.files)),
            deletion_file=None if deletion_file is None else self._deletion_file(deletion_file, fragment.id),
        )

    def _data_file(self, file: DataFile) -> DataFile:
        origin = self._source.data_file_location(file)
        name = self._data_files.get(origin.uri)
        if name is None:
            name = self._data_files[origin.uri] = data_file_name()
            copy = self._target / DATA_DIR / name
            self._files.add(name, partial(remove_data_file, copy))
            self._pairs.append((origin, copy))
            self._add_blobs(origin, copy)
        return dataclasses.replace(file, path=name, base_id=None)

    def _add_blobs(self, origin: Location, copy: Location) -> None:
        """Add the blobs in files of their own, which are in folders named after the data file."""
        if not self._has_blobs:
            return
        source, target = sidecar_folder(origin), sidecar_folder(copy)
        if source is not None and target is not None:
            self._pairs += [(source / name, target / name) for name in source.names()]

    def _deletion_file(self, file: DeletionFile, fragment_id: int) -> DeletionFile:
        origin = self._source.deletion_file_location(file, fragment_id)
        renamed = dataclasses.replace(file, id=deletion_id(), base_id=None)
        copy = self._target / DELETIONS_DIR / renamed.name(fragment_id)
        self._files.add_file(copy)
        self._pairs.append((origin, copy))
        return renamed

    def _index(self, index: IndexMetadata) -> IndexMetadata:
        origin = self._source.index_location(index)
        index_id = self._index_ids.get(origin.uri)
        if index_id is None:
            index_id = self._index_ids[origin.uri] = uuid.uuid4()
            copy = self._target / INDICES_DIR / str(index_id)
            self._files.add(str(index_id), copy.remove_tree)
            names = [name for name, _ in index.files] or origin.names()
            self._pairs += [(origin.child(name), copy.child(name)) for name in names]
        return dataclasses.replace(index, uuid=index_id, base_id=None)
