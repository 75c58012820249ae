"""Tags and branches of a table, with the names of pylance."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal, TypedDict

from lance_df.api.descriptions import refs_html, refs_text
from lance_df.display.elements import escaped
from lance_df.errors import InvalidInputError, LanceError
from lance_df.table.metadata.refs import ResolvedRef, VersionRef, read_tag, resolve
from lance_df.table.metadata.refs_write import (
    create_tag,
    delete_branch,
    delete_tag,
    move_tag,
    replace_branch_metadata,
    replace_tag_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_df.table.table import Table

Order = Literal["asc", "desc"]


class TagInfo(TypedDict):
    """A tag, as an entry of `Tags.list`."""

    branch: str | None
    version: int
    created_at: dt.datetime | None
    updated_at: dt.datetime | None
    manifest_size: int
    metadata: dict[str, str]


class BranchInfo(TypedDict):
    """A branch, as an entry of `Branches.list`. ``create_at`` is in seconds since the epoch."""

    parent_branch: str | None
    branch_identifier: list[tuple[int, str]]
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: dict[str, str]


class Tags:
    """The tags of a table, for all its branches.

    Methods that change tags raise `IncompatibleConflictError` if the open table was dropped, and perhaps
    created again.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def __repr__(self) -> str:
        return (
            f"<lance_df.Tags of {self._table.uri}: {_described(lambda: refs_text(self.list(), 'version'))}>"
        )

    def _repr_html_(self) -> str:
        return _described(lambda: refs_html(self.list(), ("version", "branch", "created_at")))

    def list(self) -> dict[str, TagInfo]:
        """Return all tags by name."""
        return {
            name: TagInfo(
                branch=tag.branch,
                version=tag.version,
                created_at=tag.created_at,
                updated_at=tag.updated_at,
                manifest_size=tag.manifest_size,
                metadata=dict(tag.metadata),
            )
            for name, tag in self._table.tags().items()
        }

    def list_ordered(self, order: Order | None = None) -> list[tuple[str, TagInfo]]:  # type: ignore[valid-type]
        """Return (name, tag) by version, highest first unless ``order`` is ``"asc"``."""
        sign = _sign(order)
        return sorted(self.list().items(), key=lambda item: (sign * item[1]["version"], item[0]))

    def get_version(self, tag: str) -> int:
        """Return the version that a tag names.

        Raises
        ------
        VersionNotFoundError
            There is no such tag.
        """
        return read_tag(self._table.shared.root, tag).version

    def create(self, tag: str, reference: VersionRef | None = None) -> None:
        """Create a tag for a version.

        Parameters
        ----------
        tag
            A name of ASCII letters and digits, ``.``, ``-`` and ``_``.
        reference
            A version of this branch, a tag, or (branch, version). The default is the version of this dataset.

        Raises
        ------
        InvalidInputError
            The tag name is invalid.
        AlreadyExistsError
            There is a tag with this name. Another writer may have just created it.
        VersionNotFoundError
            There is no such version.
        """
        create_tag(self._table, tag, self._resolve(reference))

    def update(self, tag: str, reference: VersionRef | None = None) -> None:
        """Move a tag to another version; see `create`.

        Raises
        ------
        VersionNotFoundError
            There is no such tag, or no such version.
        """
        move_tag(self._table, tag, self._resolve(reference))

    def delete(self, tag: str) -> None:
        """Delete a tag, but not the version that it names.

        Raises
        ------
        VersionNotFoundError
            There is no such tag.
        """
        delete_tag(self._table, tag)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a tag.

        Raises
        ------
        VersionNotFoundError
            There is no such tag.
        """
        replace_tag_metadata(self._table, tag, metadata)

    def _resolve(self, reference: VersionRef | None) -> ResolvedRef:
        return resolve_reference(self._table, reference)


class Branches:
    """The branches of a table, except main. Use `LanceDataset.create_branch` to create one.

    Methods that change branches raise `IncompatibleConflictError` if the open table was dropped, and perhaps
    created again.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def __repr__(self) -> str:
        text = _described(lambda: refs_text(self.list(), "parent_version"))
        return f"<lance_df.Branches of {self._table.uri}: {text}>"

    def _repr_html_(self) -> str:
        return _described(lambda: refs_html(self.list(), ("parent_branch", "parent_version")))

    def list(self) -> dict[str, BranchInfo]:
        """Return all branches by name."""
        return {
            name: BranchInfo(
                parent_branch=branch.parent_branch,
                branch_identifier=list(branch.identifier),
                parent_version=branch.parent_version,
                create_at=branch.created_at,
                manifest_size=branch.manifest_size,
                metadata=dict(branch.metadata),
            )
            for name, branch in self._table.branches().items()
        }

    def list_ordered(self, order: Order | None = None) -> list[tuple[str, BranchInfo]]:  # type: ignore[valid-type]
        """Return (name, branch) by parent version, highest first unless ``order`` is ``"asc"``."""
        sign = _sign(order)
        return sorted(self.list().items(), key=lambda item: (sign * item[1]["parent_version"], item[0]))

    def delete(self, branch: str) -> None:
        """Delete a branch with all its versions.

        Raises
        ------
        InvalidInputError
            Other branches or tags depend on it, or the branch name is invalid.
        VersionNotFoundError
            There is no such branch.
        """
        delete_branch(self._table, branch)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a branch.

        Raises
        ------
        VersionNotFoundError
            There is no such branch.
        """
        replace_branch_metadata(self._table, branch, metadata)


def resolve_reference(table: Table, reference: VersionRef | None) -> ResolvedRef:
    """Return the branch and version for a reference; for None, the version of the table itself."""
    if reference is None:
        return ResolvedRef(table.branch, table.version)
    return resolve(table.shared.root, reference, branch=table.branch)


def _described(describe: Callable[[], str]) -> str:
    """Return a description, or the reason why there is none."""
    try:
        return describe()
    except LanceError as err:
        return escaped(err)


def _sign(order: Order | None) -> int:
    if order not in (None, "asc", "desc"):
        raise InvalidInputError(f"order is {order!r}, expected 'asc' or 'desc'")
    return 1 if order == "asc" else -1
