"""Make branches, shallow clones and deep clones: tables that start as a version of another table.

A shallow clone is a manifest whose files are below the source, which becomes one of its base paths. A
branch is a shallow clone below the root of its table, with a file that says where it started. A deep clone
has copies of all files. All three keep the number of the version that they start from. Spec: table format,
branches and clones.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    CorruptDataError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.format.feature_flags import FeatureFlag, check_writable
from lance_df.format.manifest import BasePath
from lance_df.format.operations import Clone
from lance_df.format.refs import Branch, check_branch_name
from lance_df.format.transaction import Transaction
from lance_df.table.commit.committer import read_transaction
from lance_df.table.commit.loop import publish_first_version
from lance_df.table.commit.options import CommitOptions
from lance_df.table.commit.row_account import RowChange
from lance_df.table.commit.state import TableState, with_flags
from lance_df.table.file_copies import FileCopies
from lance_df.table.metadata.base_paths import path_for
from lance_df.table.metadata.external_store import forget
from lance_df.table.metadata.missing_files import gone, not_retained
from lance_df.table.metadata.refs import (
    branch_claim,
    branch_file,
    branch_location,
    list_branches,
    read_branch,
)
from lance_df.table.metadata.refs_write import TABLE_FOLDERS, create_ref, has_versions
from lance_df.table.metadata.versions import DETACHED, VERSION_HINT, VERSIONS_DIR, list_versions
from lance_df.table.table import TRANSACTIONS_DIR, Table
from lance_df.table.writing.free_location import check_location_is_free, new_folders_removed
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_df.storage import Location
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.shared import Shared


def create_branch(source: Table, name: str) -> Table:
    """Start a branch at a version of a table, and open it.

    The manifest is written before the file that lists the branch, so that a listed branch can be read. If two
    writers use one name at once, the one that holds the claim continues. The other one does not write to the
    folder, as its branch may start at another version.

    Raises
    ------
    InvalidInputError
        The name is not allowed for a branch.
    AlreadyExistsError
        There is a branch of this name; another writer may just have created it.
    VersionNotFoundError
        The version no longer exists, or a clean-up is removing it.
    CorruptDataError
        A file of the version is missing.
    UnsupportedFeatureError
        The version is detached.
    """
    _check_attached(source)
    shared = source.shared
    root = shared.root
    _check_free(shared, name)
    location = branch_location(root, name)
    operation = Clone(True, source.branch, source.version, source.uri, name)
    file = branch_file(root, name)
    branch = Branch(
        parent_version=source.version,
        parent_branch=source.branch,
        identifier=(*_identifier(source), (source.version, uuid.uuid4().hex)),
        created_at=int(time.time()),
        manifest_size=source.manifest_file.source.size,
    )
    _check_exists(source)
    with _claimed(root, name):
        _check_free(shared, name)
        made = _publish(_inherited(source, location, branch=name), operation, source, location, shared)
        with _removed_if_refused(location, made), _forgotten_if_refused(shared, location, source.version):
            _check_alone(shared, name, source.version)
            if not create_ref(file, branch.to_json()):
                raise AlreadyExistsError(
                    f"{root.uri}: branch {name!r} was created by another writer at the same time"
                )
            if (error := not_retained(source)) is not None:
                file.remove()
                raise error
    return Table(made, location=location, branch=name, shared=shared)


def shallow_clone(source: Table, target: Location) -> ManifestFile:
    """Make a table from a version of another one, sharing its files; return the first version.

    Raises
    ------
    AlreadyExistsError
        There is a table or a namespace at the target.
    VersionNotFoundError
        The version no longer exists, or a clean-up is removing it.
    UnsupportedFeatureError
        The version is detached.
    """
    _check_attached(source)
    check_location_is_free(target)
    _check_exists(source)
    operation = Clone(True, source.branch, source.version, source.uri, None)
    with new_folders_removed(target):
        return _publish(_inherited(source, target, branch=None), operation, source, target)


def deep_clone(source: Table, target: Location) -> ManifestFile:
    """Make a table from a version of another one, with copies of its files; return the first version.

    Raises
    ------
    AlreadyExistsError
        There is a table or a namespace at the target.
    VersionNotFoundError
        The version no longer exists, or a clean-up is removing it.
    CorruptDataError
        A file of the version is missing.
    UnsupportedFeatureError
        The version is detached, or the table has managed blobs.
    """
    _check_attached(source)
    if source.manifest.writer_feature_flags & FeatureFlag.MANAGED_BLOBS:
        raise UnsupportedFeatureError(f"{source.uri}: tables with managed blobs cannot be cloned")
    if list_versions(target).latest is not None:
        raise AlreadyExistsError(f"{target.uri}: table already exists")
    check_location_is_free(target)
    _check_exists(source)
    has_blobs = any(field.is_blob for field in source.schema.walk())
    operation = Clone(False, source.branch, source.version, source.uri, None)
    with new_folders_removed(target), uncommitted_files() as files:
        copies = FileCopies(source, target, files)
        manifest = dataclasses.replace(
            source.manifest,
            branch=None,
            # blobs may refer to files there
            base_paths=_bases_for(source, target) if has_blobs else (),
            fragments=copies.fragments,
        )
        try:
            copies.copy()
        except NotFoundError as err:
            _check_exists(source)
            raise CorruptDataError(
                f"{source.uri}: version {source.version} cannot be cloned; a file is missing: {err}"
            ) from err
        # a clean-up may have removed files before they were listed
        _check_exists(source)
        return _publish(TableState(manifest, copies.indices), operation, source, target)


def _check_attached(source: Table) -> None:
    """Refuse a detached version: what starts with its number would have no newest version."""
    if source.version & DETACHED:
        raise UnsupportedFeatureError(
            f"{source.uri}: version {source.version} is detached; branches and clones can start only at "
            "versions that are part of the history"
        )


def _check_exists(source: Table) -> None:
    """Check that a version still exists, and that it is the same one."""
    if (error := gone(source)) is not None:
        raise error


def _check_free(shared: Shared, name: str) -> None:
    root = shared.root
    check_branch_name(name)
    if taken := set(name.split("/")[1:]).intersection(TABLE_FOLDERS):
        raise InvalidInputError(
            f"{name!r} is not a valid branch name; {taken.pop()!r} is the name of a folder inside tables"
        )
    if name in list_branches(root):
        raise AlreadyExistsError(f"{root.uri}: branch {name!r} already exists")
    if has_versions(shared, name):
        raise _unfinished(root, name)


def _unfinished(root: Location, name: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"{root.uri}: branch {name!r} is being created, or its creation was interrupted; delete it to "
        "start again"
    )


@contextmanager
def _claimed(root: Location, name: str) -> Iterator[None]:
    """Keep other writers of this package from making a branch of this name.

    The claim stays if it is unknown whether the version was made, or if the process dies.

    Raises
    ------
    AlreadyExistsError
        Another writer is making the branch, or died while making it.
    """
    claim = branch_claim(root, name)
    with uncommitted_files() as attempts:
        try:
            is_ours = create_ref(claim, uuid.uuid4().hex.encode())
        except NotFoundError:  # another writer held the claim, and has just removed it
            is_ours = False
        if not is_ours:
            raise _unfinished(root, name)
        try:
            yield
        finally:
            if attempts.are_certain:
                _remove([claim])
                _remove_empty_folders(root, name)


def _check_alone(shared: Shared, name: str, version: int) -> None:
    """Check that no program that ignores claims has begun a branch in the same folder.

    Versions that writers appended to the new branch are allowed.
    """
    history = shared.history(name)
    for other in list_versions(history.location).entries.keys() - {version}:
        with suppress(VersionNotFoundError):
            transaction = read_transaction(history.location, history.open(other))
            if transaction is not None and isinstance(transaction.operation, Clone):
                raise AlreadyExistsError(
                    f"{shared.root.uri}: branch {name!r} was created by another writer at the same time"
                )


def _identifier(source: Table) -> tuple[tuple[int, str], ...]:
    if source.branch is None:
        return ()
    return read_branch(source.shared.root, source.branch).identifier


def _inherited(source: Table, target: Location, *, branch: str | None) -> TableState:
    """Return the source's state for another root: files below the source's root get a base path."""
    manifest = source.manifest
    bases = _bases_for(source, target)
    base_id = max((base.id for base in bases), default=-1) + 1
    root = path_for(source.location.uri, source.location, target)
    base = BasePath(id=base_id, path=root, is_dataset_root=True, name=source.branch)
    return TableState(
        dataclasses.replace(
            manifest,
            branch=branch,
            base_paths=(*bases, base),
            fragments=manifest.fragments.with_bases(lambda old: base_id if old is None else old),
        ),
        tuple(
            index if index.base_id is not None else dataclasses.replace(index, base_id=base_id)
            for index in source.manifest_file.read_indices()
        ),
    )


def _bases_for(source: Table, target: Location) -> tuple[BasePath, ...]:
    """Return the base paths of the source, for another root."""
    return tuple(
        dataclasses.replace(base, path=path_for(base.path, source.location, target))
        for base in source.manifest.base_paths
    )


@contextmanager
def _removed_if_refused(location: Location, made: ManifestFile) -> Iterator[None]:
    """Remove a first version if the block fails; an interrupt leaves open whether others have seen it."""
    try:
        yield
    except CommitStateUnknownError:
        raise
    except LanceError:
        versions = location / VERSIONS_DIR
        files = [versions / made.path.rpartition("/")[2], versions / VERSION_HINT]
        if made.manifest.transaction_file:
            files.append(location / TRANSACTIONS_DIR / made.manifest.transaction_file)
        _remove(files)
        raise


@contextmanager
def _forgotten_if_refused(shared: Shared, location: Location, version: int) -> Iterator[None]:
    """Remove a version from the external store if the block fails; nobody can have built on it."""
    try:
        yield
    except CommitStateUnknownError:
        raise
    except LanceError:
        if shared.external_store is not None:
            forget(shared.external_store, location, version)
        raise


def _remove(files: Iterable[Location]) -> None:
    for file in files:
        with suppress(LanceError):
            file.remove()


def _remove_empty_folders(root: Location, branch: str) -> None:
    """Remove folders that a branch that was not created leaves, also those of a table that was dropped."""
    location = branch_location(root, branch)
    for folder in TABLE_FOLDERS:
        (location / folder).remove_empty_folder()
    parts = branch.split("/")
    for depth in range(len(parts), 0, -1):
        branch_location(root, "/".join(parts[:depth])).remove_empty_folder()
    for folder in ("tree", "_refs/branches", "_refs"):
        (root / folder).remove_empty_folder()
    root.remove_empty_folder()


def _publish(
    state: TableState, operation: Clone, source: Table, target: Location, shared: Shared | None = None
) -> ManifestFile:
    """Publish a state as the first version of a table or branch, with the feature flags that it needs."""
    manifest = with_flags(state.manifest)
    check_writable(writer=manifest.writer_feature_flags, source=operation.ref_path)
    transaction = Transaction(read_version=operation.ref_version, uuid=str(uuid.uuid4()), operation=operation)
    state = TableState(manifest, state.indices)
    return publish_first_version(
        target,
        state,
        transaction,
        rows=RowChange.restoring(source),
        cloned=source.fragments,
        external_store=None if shared is None else shared.external_store,
        options=None if shared is None else CommitOptions(lock=shared.commit_lock),
    )
