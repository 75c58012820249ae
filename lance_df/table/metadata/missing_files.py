"""Find files of a version that are gone, for example after a clean-up that was interrupted.

Clean-ups remove files first and manifests last. Spec: table format, chapter 13.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from lance_df.errors import LanceError, NotFoundError
from lance_df.table.metadata.removal_notices import is_announced
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from lance_df.storage import Location
    from lance_df.table.table import Table

_FIRST: Final = 1000
_OF_SYSTEM: Final = "__lance"  # indices with these names may have no files


def missing_files(version: Table, besides: Table | None = None) -> list[str]:
    """Return the URIs of the data files, deletion files and indices of a version that are not there.

    Parameters
    ----------
    besides
        A version of the same table whose files exist; these files are not checked.
    """
    there = frozenset() if besides is None else frozenset(file.uri for file in _files(besides))
    files = [file for file in _files(version) if file.uri not in there]
    are_there = map_reads(lambda file: file.exists(), files, where=version.location)
    missing = [file.uri for file, is_there in zip(files, are_there, strict=True) if not is_there]
    folders = [
        version.index_location(index)
        for index in version.manifest_file.read_indices()
        if not index.name.startswith(_OF_SYSTEM)
    ]
    names = map_reads(lambda folder: folder.names(), folders, where=version.location)
    return missing + [folder.uri for folder, files_of in zip(folders, names, strict=True) if not files_of]


def is_retained(version: Table) -> bool:
    """Return whether no clean-up removes a version, and its manifest and first files exist.

    Called after a tag, branch or restore has named the version, as a clean-up may have read the names before.
    Files that cannot be checked count as present.
    """
    try:
        if is_announced(version):
            return False
        # notices come first: a clean-up that has ended since then has removed its files
        version.history.open(version.version)
        files = list(islice(_files(version), _FIRST))
        return all(map_reads(is_there, files, where=version.location))
    except NotFoundError:
        return False
    except LanceError:
        return True


def is_dropped(version: Table) -> bool:
    """Return whether a version has files, but none of them exists, as after the table was dropped.

    Raises
    ------
    StorageError
        The store failed.
    """
    files = list(islice(_files(version), _FIRST))
    return bool(files) and not any(map_reads(is_there, files, where=version.location))


def is_there(file: Location) -> bool:
    """Return whether a file certainly exists: some stores report that nothing exists while they fail.

    Raises
    ------
    StorageError
        The store failed.
    """
    if file.is_local:
        return file.exists()
    try:
        file.open()
    except NotFoundError:
        return False
    return True


def _files(version: Table) -> Iterator[Location]:
    for fragment in version.fragments:
        for file in fragment.files:
            yield version.data_file_location(file)
        if fragment.deletion_file is not None:
            yield version.deletion_file_location(fragment.deletion_file, fragment.id)
