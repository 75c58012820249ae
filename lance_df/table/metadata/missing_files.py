"""Find out whether a version still exists, and which of its files are gone.

Clean-ups remove files first and manifests last. Spec: table format, chapter 13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from lance_df.errors import (
    DatasetNotFoundError,
    IncompatibleConflictError,
    LanceError,
    NotFoundError,
    VersionNotFoundError,
)
from lance_df.table.metadata.manifest_io import identity
from lance_df.table.metadata.refs import branch_file
from lance_df.table.metadata.removal_notices import is_announced
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from lance_df.storage import Location
    from lance_df.table.table import Table

P = ParamSpec("P")
R = TypeVar("R")

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


def gone(version: Table) -> VersionNotFoundError | None:
    """Return the error for a version that no longer exists or is being removed, or None.

    Raises
    ------
    StorageError
        The store failed.
    """
    dropped = "the table was dropped" if version.branch is None else f"branch {version.branch!r} was deleted"
    # notices come first: a clean-up that has ended since then has removed the manifest
    is_leaving = is_announced(version)
    try:
        now = version.history.open(version.version)
    except VersionNotFoundError:
        return VersionNotFoundError(
            f"{version.uri}: version {version.version} was cleaned up; open the table again"
        )
    except NotFoundError:
        return VersionNotFoundError(f"{version.uri}: {dropped}")
    if identity(now) != identity(version.manifest_file):
        return VersionNotFoundError(
            f"{version.uri}: {dropped} and created again after version {version.version} was opened; "
            "open the table again"
        )
    return _being_removed(version) if is_leaving else None


def not_retained(version: Table) -> VersionNotFoundError:
    """Return the error for a caller that names a version for which `is_retained` is false."""
    return _gone_if_known(version) or _being_removed(version)


def check_not_gone(version: Table, cause: LanceError) -> None:
    """Check that a version still exists, after one of its files could not be read.

    Raises
    ------
    VersionNotFoundError
        It was cleaned up, or its table was dropped: that is why the file is missing.
    """
    if (error := _gone_if_known(version)) is not None:
        raise error from cause


@contextmanager
def conflict_if_gone(version: Table) -> Iterator[None]:
    """Report that a version no longer exists as a conflict, in the block that computes a change from it."""
    try:
        yield
    except (DatasetNotFoundError, VersionNotFoundError) as err:
        if (error := _gone_if_known(version)) is None:
            raise
        raise IncompatibleConflictError(str(error)) from err


def computes_change(function: Callable[Concatenate[Table, P], R]) -> Callable[Concatenate[Table, P], R]:
    """Decorate a function that computes a change from a version; see `conflict_if_gone`."""

    @wraps(function)
    def computed(table: Table, /, *arguments: P.args, **options: P.kwargs) -> R:
        with conflict_if_gone(table):
            return function(table, *arguments, **options)

    return computed


def _gone_if_known(version: Table) -> VersionNotFoundError | None:
    with suppress(LanceError):
        return gone(version)
    return None


def _being_removed(version: Table) -> VersionNotFoundError:
    return VersionNotFoundError(
        f"{version.uri}: version {version.version} is being removed by a clean-up, or a clean-up that "
        "removes it was interrupted"
    )


def is_retained(version: Table) -> bool:
    """Return whether no clean-up removes a version, and its manifest and first files exist.

    Called after a tag, branch or restore has named the version, as a clean-up may have read the names before.
    Files that cannot be checked count as present.
    """
    try:
        if gone(version) is not None:
            return False
        files = list(islice(_files(version), _FIRST))
        return all(map_reads(is_there, files, where=version.location))
    except NotFoundError:
        return False
    except LanceError:
        return True


def is_dropped(version: Table) -> bool:
    """Return whether a version has files, but none of them exists, or its branch is not listed.

    Raises
    ------
    StorageError
        The store failed.
    """
    root = version.location.ancestor(f"tree/{version.branch}") if version.branch else None
    if root is not None and version.branch and not is_there(branch_file(root, version.branch)):
        return True
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
