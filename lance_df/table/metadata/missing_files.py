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
    CorruptDataError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    LanceError,
    NotFoundError,
    VersionNotFoundError,
)
from lance_df.table.metadata.manifest_io import identity
from lance_df.table.metadata.refs import branch_file, read_branch
from lance_df.table.metadata.removal_notices import is_announced
from lance_df.table.metadata.versions import DETACHED
from lance_df.table.parallel import map_reads
from lance_df.table.table import TRANSACTIONS_DIR

if TYPE_CHECKING:
    from lance_df.storage import Location
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.table import Table

P = ParamSpec("P")
R = TypeVar("R")

_FIRST: Final = 1000
# the file of a branch is written after its first version, with a time in whole seconds
_REF_DELAY_SECONDS: Final = 10
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
    # notices come first: a clean-up that has ended since then has removed the manifest
    is_leaving = is_announced(version)
    try:
        try:
            now = version.history.open(version.version)
        except VersionNotFoundError:
            # a clean-up does not remove the newest version
            is_above = not version.version & DETACHED and version.latest_version() < version.version
            if is_above or _is_of_other_branch(version):
                return VersionNotFoundError(_created_again(version))
            return VersionNotFoundError(
                f"{version.uri}: version {version.version} was cleaned up; open the table again"
            )
    except NotFoundError:
        return VersionNotFoundError(f"{version.uri}: {_dropped(version)}")
    if identity(now) != identity(version.manifest_file):
        return VersionNotFoundError(_created_again(version))
    return _being_removed(version) if is_leaving else None


def check_same_table(known: Table, latest: ManifestFile) -> None:
    """Check that the newest version comes from a known one, not from another table at the same location.

    This costs a request only if the known version is not the newest. If it no longer exists, they cannot be
    compared; then it is only checked whether the branch is too new to have had it, which costs one more.

    Raises
    ------
    IncompatibleConflictError
        The table was dropped, or its branch deleted, and created again.
    """
    now: ManifestFile | None = latest
    if latest.manifest.version > known.version:
        now = None
        with suppress(VersionNotFoundError):
            now = known.history.open(known.version)
    check_same_version(known, now)


def check_same_version(known: Table, now: ManifestFile | None) -> None:
    """Check that a known version is the one of its number now; see `check_same_table`.

    Parameters
    ----------
    now
        The version of this number, or the newest one if that is earlier; None if the version no longer
        exists.
    """
    if known.version & DETACHED:
        return
    if _is_of_other_branch(known) if now is None else identity(now) != identity(known.manifest_file):
        raise IncompatibleConflictError(f"{_created_again(known)}; nothing was written")


def check_not_replaced(known: Table) -> None:
    """Check that a known version comes from the table that is at its location now.

    This costs one request if the version still exists; otherwise see `check_same_table`.

    Raises
    ------
    IncompatibleConflictError
        The table was dropped, or its branch deleted, and perhaps created again.
    """
    if known.is_stored():
        return
    try:
        latest = known.history.open_latest()
    except DatasetNotFoundError as err:
        raise IncompatibleConflictError(f"{known.uri}: {_dropped(known)}; nothing was written") from err
    check_same_table(known, latest)


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


def _dropped(version: Table) -> str:
    return "the table was dropped" if version.branch is None else f"branch {version.branch!r} was deleted"


def _created_again(version: Table) -> str:
    return (
        f"{version.uri}: {_dropped(version)} and created again after version {version.version} was opened; "
        "open the table again"
    )


def _is_of_other_branch(version: Table) -> bool:
    """Whether a version is older than the branch that has its name now, or that branch was deleted."""
    if version.branch is None:
        return False
    try:
        branch = read_branch(version.shared.root, version.branch)
    except VersionNotFoundError:
        return True
    committed = version.manifest.timestamp_ns
    return branch.parent_version > version.version or (
        committed is not None and branch.created_at > committed // 10**9 + _REF_DELAY_SECONDS
    )


def _gone_if_known(version: Table) -> VersionNotFoundError | None:
    with suppress(LanceError):
        return gone(version)
    return None


def _being_removed(version: Table) -> VersionNotFoundError:
    return VersionNotFoundError(
        f"{version.uri}: version {version.version} is being removed by a clean-up, or a clean-up that "
        "removes it was interrupted; use another version, and complete an interrupted clean-up with "
        "cleanup_old_versions"
    )


def not_retained(version: Table) -> LanceError | None:
    """Return the error for a version that a clean-up removes or that lacks one of its first files, or None.

    Called after a tag, branch or restore has named the version, as a clean-up may have read the names before.
    Files that cannot be checked count as present.
    """
    try:
        if (error := gone(version)) is not None:
            return error
        files = list(islice(_files(version), _FIRST))
        are_there = map_reads(is_there, files, where=version.location)
    except LanceError:
        return None
    if all(are_there):
        return None
    missing = files[are_there.index(False)]
    # a clean-up may have begun since
    return _gone_if_known(version) or CorruptDataError(
        f"{missing.uri}: this file of version {version.version} is missing"
    )


def is_dropped(version: Table, base: Table) -> bool:
    """Return whether a version that was just made is in a table that was dropped, or in a deleted branch.

    Whoever removed the table, or the branch, also removed the files that the commit had written there.

    Parameters
    ----------
    base
        The version before it.

    Raises
    ------
    StorageError
        The store failed.
    """
    root = version.location.ancestor(f"tree/{version.branch}") if version.branch else None
    if root is not None and version.branch and not is_there(branch_file(root, version.branch)):
        return True
    if name := version.manifest.transaction_file:
        return not is_there(version.location / TRANSACTIONS_DIR / name)
    former = frozenset(file.uri for file in _files(base))
    added = list(islice((file for file in _files(version) if file.uri not in former), _FIRST))
    files = added or list(islice(_files(version), _FIRST))
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
