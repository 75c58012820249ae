"""Tags and branches of the tables of a directory."""

from __future__ import annotations

from typing import Any

from lance_df.api.directory import table_responses as responses
from lance_df.api.directory.calls import DirectoryCalls, arguments, needed, page_of
from lance_df.table.metadata.refs import read_tag


class DirectoryRefs(DirectoryCalls):
    """Methods for tags and branches, with the errors of `lance_df.LanceDataset.tags` and ``branches``."""

    def list_table_tags(
        self,
        id: Any,
        *,
        page_token: str | None = None,
        limit: int | None = None,
    ) -> responses.ListTableTagsResponse:
        """Return the tags of a table by name. Raises `DatasetNotFoundError`."""
        parts, (page_token, limit) = arguments(id, page_token=page_token, limit=limit)
        tags, token = page_of(self._opened(parts).tags.list(), page_token, limit)
        return responses.ListTableTagsResponse(
            tags={
                name: responses.TagContents(tag["branch"], tag["version"], tag["manifest_size"])
                for name, tag in tags.items()
            },
            page_token=token,
        )

    def get_table_tag_version(
        self,
        id: Any,
        tag: str | None = None,
    ) -> responses.GetTableTagVersionResponse:
        """Return the version and the branch that a tag names. The branch None is main.

        Raises
        ------
        VersionNotFoundError
            There is no such tag.
        """
        parts, (tag,) = arguments(id, tag=tag)
        table = self._opened(parts)._table
        ref = read_tag(table.shared.root, needed(tag, "the name of a tag"))
        return responses.GetTableTagVersionResponse(version=ref.version, branch=ref.branch)

    def create_table_tag(
        self,
        id: Any,
        tag: str | None = None,
        version: int | None = None,
        *,
        branch: str | None = None,
    ) -> responses.TransactionResponse:
        """Create a tag for a version.

        Raises
        ------
        AlreadyExistsError
            There is a tag with this name.
        VersionNotFoundError
            There is no such version or branch.
        InvalidInputError
            The tag name is invalid.
        """
        parts, (tag, version, branch) = arguments(id, tag=tag, version=version, branch=branch)
        number = needed(version, "the version that a tag names")
        self._to_change(parts).tags.create(needed(tag, "the name of a tag"), (branch, number))
        return responses.TransactionResponse()

    def update_table_tag(
        self,
        id: Any,
        tag: str | None = None,
        version: int | None = None,
        *,
        branch: str | None = None,
    ) -> responses.TransactionResponse:
        """Move a tag to another version. Raises `VersionNotFoundError` if there is no such tag."""
        parts, (tag, version, branch) = arguments(id, tag=tag, version=version, branch=branch)
        number = needed(version, "the version that a tag names")
        self._to_change(parts).tags.update(needed(tag, "the name of a tag"), (branch, number))
        return responses.TransactionResponse()

    def delete_table_tag(
        self,
        id: Any,
        tag: str | None = None,
    ) -> responses.TransactionResponse:
        """Delete a tag, but not the version that it names. Raises `VersionNotFoundError`."""
        parts, (tag,) = arguments(id, tag=tag)
        self._to_change(parts).tags.delete(needed(tag, "the name of a tag"))
        return responses.TransactionResponse()

    def create_table_branch(
        self,
        id: Any,
        name: str | None = None,
        *,
        from_branch: str | None = None,
        from_version: int | None = None,
    ) -> responses.TransactionResponse:
        """Create a branch, by default from the newest version of main.

        Raises
        ------
        AlreadyExistsError
            There is a branch with this name.
        VersionNotFoundError
            The branch, tag or version to start from does not exist.
        InvalidInputError
            The branch name is invalid.
        """
        parts, (name, from_branch, from_version) = arguments(
            id, name=name, from_branch=from_branch, from_version=from_version
        )
        self._tables.check_changeable(parts)
        self._opened(parts, from_branch, from_version).create_branch(needed(name, "the name of a branch"))
        return responses.TransactionResponse()

    def list_table_branches(
        self,
        id: Any,
        *,
        page_token: str | None = None,
        limit: int | None = None,
    ) -> responses.ListTableBranchesResponse:
        """Return the branches of a table by name, except main. Raises `DatasetNotFoundError`."""
        parts, (page_token, limit) = arguments(id, page_token=page_token, limit=limit)
        branches, token = page_of(self._opened(parts).branches.list(), page_token, limit)
        return responses.ListTableBranchesResponse(
            branches={
                name: responses.BranchContents(
                    branch["parent_branch"],
                    branch["parent_version"],
                    branch["create_at"],
                    branch["manifest_size"],
                    branch["metadata"] or None,
                )
                for name, branch in branches.items()
            },
            page_token=token,
        )

    def delete_table_branch(
        self,
        id: Any,
        name: str | None = None,
    ) -> responses.TransactionResponse:
        """Delete a branch with all its versions.

        Raises
        ------
        VersionNotFoundError
            There is no such branch.
        InvalidInputError
            Other branches or tags depend on it.
        """
        parts, (name,) = arguments(id, name=name)
        self._to_change(parts).branches.delete(needed(name, "the name of a branch"))
        return responses.TransactionResponse()
