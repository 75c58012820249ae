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
from functools import partial
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
from lance_df.file.blobs.sidecars import BLOB_SUFFIX
from lance_df.format.feature_flags import FeatureFlag, check_writable
from lance_df.format.manifest import BasePath
from lance_df.format.operations import Clone
from lance_df.format.refs import Branch, check_branch_name
from lance_df.format.transaction import Transaction
from lance_df.storage.copy import copy_file
from lance_df.table.commit.committer import read_transaction
from lance_df.table.commit.loop import publish_first_version
from lance_df.table.commit.options import CommitOptions
from lance_df.table.commit.row_account import RowChange
from lance_df.table.commit.state import TableState, with_flags
from lance_df.table.metadata.base_paths import DATA_DIR, DELETIONS_DIR, INDICES_DIR, path_for
from lance_df.table.metadata.external_store import forget
from lance_df.table.metadata.missing_files import is_retained
from lance_df.table.metadata.refs import (
    branch_claim,
    branch_file,
    branch_location,
    list_branches,
    read_branch,
)
from lance_df.table.metadata.refs_write import TABLE_FOLDERS, being_removed, create_ref, has_versions
from lance_df.table.metadata.versions import VERSIONS_DIR, NamingScheme, list_versions
from lance_df.table.parallel import map_reads
from lance_df.table.table import TRANSACTIONS_DIR, Table
from lance_df.table.writing.free_location import check_location_is_free
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_df.storage import Location
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.shared import Shared

_EXTENSION_NAME = "ARROW:extension:name"
_BLOBS = b"lance.blob.v2"


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
    """
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
    with _claimed(root, name):
        _check_free(shared, name)
        made = _publish(_inherited(source, location, branch=name), operation, source, location, shared)
        files = [location / VERSIONS_DIR / NamingScheme.V2.file_name(source.version)]
        if made.manifest.transaction_file:
            files.append(location / TRANSACTIONS_DIR / made.manifest.transaction_file)
        with _removed_if_refused(files), _forgotten_if_refused(shared, location, source.version):
            _check_alone(shared, name, source.version)
            if not create_ref(file, branch.to_json()):
                raise AlreadyExistsError(
                    f"{root.uri}: branch {name!r} was created by another writer at the same time"
                )
            if not is_retained(source):
                file.remove()
                raise being_removed(source)
    return Table(made, location=location, branch=name, shared=shared)


def shallow_clone(source: Table, target: Location) -> ManifestFile:
    """Make a table from a version of another one, sharing its files; return the first version.

    Raises
    ------
    AlreadyExistsError
        There is a table or a namespace at the target.
    """
    check_location_is_free(target)
    operation = Clone(True, source.branch, source.version, source.uri, None)
    return _publish(_inherited(source, target, branch=None), operation, source, target)


def deep_clone(source: Table, target: Location) -> ManifestFile:
    """Make a table from a version of another one, with copies of its files; return the first version.

    Raises
    ------
    AlreadyExistsError
        There is a table or a namespace at the target.
    CorruptDataError
        Two of the files have the same name.
    UnsupportedFeatureError
        The table has blobs in files of their own.
    """
    if source.manifest.writer_feature_flags & FeatureFlag.MANAGED_BLOBS:
        raise UnsupportedFeatureError(f"{source.uri}: tables with managed blobs cannot be cloned")
    if list_versions(target).latest is not None:
        raise AlreadyExistsError(f"{target.uri}: table already exists")
    check_location_is_free(target)
    has_blobs = any(field.is_blob for field in source.schema.walk())
    files = _files_of(source)
    copies = [target / name for name in files]
    state = TableState(
        dataclasses.replace(
            source.manifest,
            branch=None,
            # blobs may refer to files there
            base_paths=_bases_for(source, target) if has_blobs else (),
            fragments=source.fragments.with_bases(lambda _: None),
        ),
        tuple(dataclasses.replace(index, base_id=None) for index in source.manifest_file.read_indices()),
    )
    operation = Clone(False, source.branch, source.version, source.uri, None)
    with uncommitted_files() as uncommitted:
        for name, copy in zip(files, copies, strict=True):
            uncommitted.add(_reference(name), partial(_remove_copy, copy, target))
        map_reads(lambda pair: copy_file(*pair), zip(files.values(), copies, strict=True), where=target)
        return _publish(state, operation, source, target)


def _remove_copy(copy: Location, target: Location) -> None:
    """Remove a file, unless another writer has made a clone at the target: its files have the same names."""
    if list_versions(target).latest is None:
        copy.remove()


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


def _reference(name: str) -> str:
    """Return how a version refers to a file, given its path below the root; see `Attempt.names`."""
    folder, _, path = name.partition("/")
    if folder == INDICES_DIR:
        return path.partition("/")[0]
    if folder == DATA_DIR and path.endswith(BLOB_SUFFIX):
        return f"{path.rpartition('/')[0]}.lance"
    return path


def _files_of(source: Table) -> dict[str, Location]:
    """Return all files of a version except the manifest: from the path below a root to the location."""
    files: dict[str, Location] = {}

    def add(name: str, location: Location) -> None:
        if files.setdefault(name, location).uri != location.uri:
            raise CorruptDataError(
                f"{source.uri}: {files[name].uri} and {location.uri} would be copied to the same path"
            )

    has_blobs = any(field.metadata.get(_EXTENSION_NAME) == _BLOBS for field in source.schema.walk())
    for fragment in source.fragments:
        for file in fragment.files:
            location = source.data_file_location(file)
            add(f"{DATA_DIR}/{file.path}", location)
            folder = location.ancestor(file.path)
            if has_blobs and folder is not None:
                # large values are beside the data file, in a folder with its name
                stem = file.path.removesuffix(".lance")
                for entry in (folder / stem).list():
                    add(f"{DATA_DIR}/{stem}/{entry.name}", folder / stem / entry.name)
        if fragment.deletion_file is not None:
            location = source.deletion_file_location(fragment.deletion_file, fragment.id)
            add(f"{DELETIONS_DIR}/{location.name}", location)
    for index in source.manifest_file.read_indices():
        folder = source.index_location(index)
        names = [path for path, _ in index.files] or [entry.name for entry in folder.list()]
        for name in names:
            add(f"{INDICES_DIR}/{index.uuid}/{name}", folder.child(name))
    return files


@contextmanager
def _removed_if_refused(files: list[Location]) -> Iterator[None]:
    """Remove files if the version that needs them was certainly not made; an interrupt leaves that open."""
    try:
        yield
    except CommitStateUnknownError:
        raise
    except LanceError:
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
