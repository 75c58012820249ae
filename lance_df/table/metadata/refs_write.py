"""Create, move and delete tags, and delete branches. `lance_df.table.clones` creates branches.

Spec: table format, tags and branches; which of them may be deleted is as in pylance.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING

from lance_df.arguments import checked_mapping
from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_df.format.refs import Tag, check_branch_name, check_tag_name
from lance_df.storage.put_if_absent import put_if_absent
from lance_df.table.metadata.external_store import forget
from lance_df.table.metadata.missing_files import check_not_replaced, not_retained
from lance_df.table.metadata.refs import (
    branch_claim,
    branch_file,
    branch_location,
    list_branches,
    list_tags,
    read_branch,
    read_tag,
    tag_file,
)
from lance_df.table.table import open_ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.format.refs import Branch
    from lance_df.storage import Location
    from lance_df.table.metadata.refs import ResolvedRef
    from lance_df.table.shared import Shared
    from lance_df.table.table import Table

TABLE_FOLDERS = ("_transactions", "data", "_deletions", "_indices", "_blobs", "_versions")
"""Folders that belong to the branch itself; others may hold branches whose names start with its name.

They are removed in this order: no branch of this name can be created while there are versions.
"""


def create_tag(table: Table, name: str, ref: ResolvedRef) -> None:
    """Create a tag for a version. If several writers use the same name at once, one succeeds.

    Parameters
    ----------
    table
        An open version, here and in the other functions: if its table was dropped and perhaps created again,
        they raise `IncompatibleConflictError`.

    Raises
    ------
    InvalidInputError
        The name is not allowed for a tag.
    AlreadyExistsError
        There already is a tag with this name.
    VersionNotFoundError
        There is no such version.
    """
    if not check_tag_name(name).isascii():
        raise InvalidInputError(
            f"invalid tag name {name!r}: pylance cannot list tags with names that are not ASCII; use "
            "another name"
        )
    check_not_replaced(table)
    shared = table.shared
    file = tag_file(shared.root, name)
    now = dt.datetime.now(dt.UTC)
    version = open_ref(shared, ref)
    tag = dataclasses.replace(_tag_of(version), created_at=now, updated_at=now)
    if not create_ref(file, tag.to_json()):
        raise AlreadyExistsError(f"{shared.root.uri}: tag {name!r} already exists; update or delete it")
    if (error := not_retained(version)) is not None:
        file.remove()
        raise error


def move_tag(table: Table, name: str, ref: ResolvedRef) -> None:
    """Move a tag to another version.

    Raises
    ------
    VersionNotFoundError
        There is no such tag, or no such version.
    """
    check_not_replaced(table)
    shared = table.shared
    old = read_tag(shared.root, name)
    version = open_ref(shared, ref)
    target = _tag_of(version)
    moved = dataclasses.replace(
        old,
        version=target.version,
        branch=target.branch,
        manifest_size=target.manifest_size,
        updated_at=dt.datetime.now(dt.UTC),
    )
    file = tag_file(shared.root, name)
    file.put(moved.to_json())
    if (error := not_retained(version)) is not None:
        file.put(old.to_json())
        raise error


def replace_tag_metadata(table: Table, name: str, metadata: Mapping[str, str]) -> None:
    """Replace the metadata of a tag; its version, and the time when this was set, stay.

    Raises
    ------
    VersionNotFoundError
        There is no such tag.
    """
    check_not_replaced(table)
    root = table.shared.root
    tag = dataclasses.replace(read_tag(root, name), metadata=_texts(metadata))
    tag_file(root, name).put(tag.to_json())


def delete_tag(table: Table, name: str) -> None:
    """Delete a tag; its version stays until it is cleaned up.

    Raises
    ------
    VersionNotFoundError
        There is no such tag.
    """
    check_not_replaced(table)
    read_tag(table.shared.root, name)
    tag_file(table.shared.root, name).remove()


def replace_branch_metadata(table: Table, name: str, metadata: Mapping[str, str]) -> None:
    """Replace the metadata of a branch.

    Raises
    ------
    VersionNotFoundError
        There is no such branch.
    """
    check_not_replaced(table)
    root = table.shared.root
    branch = dataclasses.replace(read_branch(root, name), metadata=_texts(metadata))
    branch_file(root, name).put(branch.to_json())


def delete_branch(table: Table, name: str) -> None:
    """Delete a branch with all of its versions, and the remains of an interrupted creation or deletion.

    Raises
    ------
    InvalidInputError
        The name is not allowed for a branch or is that of main, or other branches or tags need the branch.
    VersionNotFoundError
        There is no such branch.
    """
    shared, root = table.shared, table.shared.root
    location = branch_location(root, check_branch_name(name))
    check_not_replaced(table)
    _check_no_link(root, name)
    branches = list_branches(root)
    if name in branches:
        _check_unused(root, name, branches)
        # first, so that no reader sees half a branch
        branch_file(root, name).remove()
        try:
            _check_unused(root, name, list_branches(root) | {name: branches[name]})
        except InvalidInputError:  # another writer has just begun to use the branch
            branch_file(root, name).put(branches[name].to_json())
            raise
    elif not has_versions(shared, name) and not branch_claim(root, name).is_file():
        read_branch(root, name)  # raises if there is no such branch
    if shared.external_store is not None:
        forget(shared.external_store, location)
    for folder in TABLE_FOLDERS:
        if not any(f"{other}/".startswith(f"{name}/{folder}/") for other in branches):
            (location / folder).remove_tree()
    for depth in range(len(name.split("/")), 0, -1):
        branch_location(root, "/".join(name.split("/")[:depth])).remove_empty_folder()


def _check_no_link(root: Location, branch: str) -> None:
    """Refuse to delete a folder that is elsewhere, behind a symbolic link."""
    path = "tree"
    for part in ("", *branch.split("/")):
        path = f"{path}/{part}".rstrip("/")
        if (folder := root / path).is_link:
            raise UnsupportedFeatureError(
                f"{folder.uri}: cannot delete branch {branch!r}, because this folder is a symbolic link; "
                "remove the link by hand"
            )


def has_versions(shared: Shared, branch: str) -> bool:
    """Whether a branch has any version, even if the branch is not listed."""
    try:
        shared.history(branch).latest_version()
    except DatasetNotFoundError:
        return False
    return True


def create_ref(file: Location, data: bytes) -> bool:
    """Write the file of a tag or branch unless it exists; return whether it now has exactly this content."""
    try:
        if put_if_absent(file, data):
            return True
    except UnsupportedFeatureError:
        # these stores cannot commit without help; for tags, pylance checks first on all stores
        if file.is_file():
            return False
        file.put(data)
        return True
    except CommitStateUnknownError:
        return file.read() == data
    # an earlier attempt of this request may have arrived; not on local stores
    return not file.is_local and file.read() == data


def _tag_of(table: Table) -> Tag:
    return Tag(version=table.version, branch=table.branch, manifest_size=table.manifest_file.source.size)


def _check_unused(root: Location, name: str, branches: Mapping[str, Branch]) -> None:
    identifier = branches[name].identifier
    children = [
        other
        for other, branch in branches.items()
        if branch.parent_branch == name
        or (identifier and other != name and branch.identifier[: len(identifier)] == identifier)
    ]
    tags = [tag for tag, content in list_tags(root).items() if content.branch == name]
    if children or tags:
        what = ", ".join(
            f"{kind} {used!r}" for kind, names in (("branch", children), ("tag", tags)) for used in names
        )
        raise InvalidInputError(
            f"{root.uri}: branch {name!r} cannot be deleted because it is used by {what}; delete these first"
        )


def _texts(metadata: Mapping[str, str]) -> dict[str, str]:
    texts = dict(checked_mapping(metadata, "metadata", "a dict of texts"))
    if not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise InvalidInputError("metadata must be a dict of strings")
    return texts
