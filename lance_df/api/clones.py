"""Branches, clones and base paths."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Self

from lance_df.api.base import DatasetBase
from lance_df.arguments import checked_mapping, checked_text
from lance_df.format.operations import UpdateBases
from lance_df.refs import resolve_reference
from lance_df.table.clones import create_branch, deep_clone, shallow_clone
from lance_df.table.metadata.base_paths_write import (
    DatasetBasePath,
    as_base_paths,
    checked_bases,
    moved_bases,
)
from lance_df.table.metadata.locations import locate_table
from lance_df.table.metadata.missing_files import check_not_replaced
from lance_df.table.open import table_at
from lance_df.table.table import open_ref

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.dataset import LanceDataset
    from lance_df.storage import Location
    from lance_df.table.metadata.refs import VersionRef
    from lance_df.table.table import Table


class Clones(DatasetBase):
    """Methods for branches, clones and base paths."""

    def create_branch(
        self,
        branch: str,
        reference: VersionRef | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> LanceDataset:
        """Create a branch and return it. Writes to the branch do not affect the branch it starts from.

        Parameters
        ----------
        branch
            A name of one or more parts joined by ``/``. Each part consists of letters, digits, ``.``, ``-``
            and ``_``.
        reference
            Where the branch starts: a version of this branch, a tag, or (branch, version). The default is
            this version.
        storage_options
            Options to open the branch with. The default is the options of this dataset.

        Raises
        ------
        InvalidInputError
            The branch name is invalid.
        AlreadyExistsError
            There is a branch of this name. Another writer may have just created it.
        VersionNotFoundError
            There is no such version.
        IncompatibleConflictError
            The table was dropped, or its branch deleted, and perhaps created again.
        """
        check_not_replaced(self._table)
        made = create_branch(self._at(reference), branch)
        options = self._storage_options if storage_options is None else storage_options
        from lance_df.dataset import LanceDataset

        return LanceDataset._of(made, made.uri, options, self._default_scan_options)

    def shallow_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: VersionRef | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> LanceDataset:
        """Create a table from a version of this one that shares its files, and open it.

        The clone needs the files of this table. Cleaning up this table does not take clones into account.

        Parameters
        ----------
        target_path
            The path or URL of the new table.
        reference
            A version of this branch, a tag, or (branch, version). The default is this version.
        storage_options
            Options of the new table. The default is the options of this dataset.
        **kwargs
            Passed to `lance_df.dataset`.

        Raises
        ------
        AlreadyExistsError
            There is already a table or a namespace at ``target_path``.
        VersionNotFoundError
            There is no such version.
        """
        options = self._storage_options if storage_options is None else storage_options
        elsewhere = kwargs.pop("base_store_params", None) or self._options_elsewhere()
        target = locate_table(target_path, options, base_store_params=elsewhere)
        target = dataclasses.replace(target, location=self._trusted_by(target.location))
        made = table_at(target, shallow_clone(self._at(reference), target.location))
        return _opened(made, str(target_path), options, kwargs)

    def deep_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: VersionRef | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> LanceDataset:
        """Create a table from a version of this one, with copies of all its files; see `shallow_clone`.

        The copies have new names. If several processes clone to one path, one of them succeeds.
        """
        options = self._storage_options if storage_options is None else storage_options
        target = locate_table(target_path, options, base_store_params=kwargs.pop("base_store_params", None))
        made = table_at(target, deep_clone(self._at(reference), target.location))
        return _opened(made, str(target_path), options, kwargs)

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Return the base paths by their ids."""
        return {
            base.id: DatasetBasePath(base.path, base.name, base.is_dataset_root, base.id)
            for base in self._table.manifest.base_paths
        }

    def add_bases(
        self,
        new_bases: Sequence[DatasetBasePath],
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """Register base paths, so that `write_dataset` can write data files to them.

        Returns
        -------
        This dataset, at the new version.

        Raises
        ------
        InvalidInputError
            An id, a name or a path is taken.
        ConflictError
            Another writer registered the same id, name or path in the meantime.
        """
        given = as_base_paths(new_bases, "new_bases")
        bases = checked_bases(given, self._table.manifest.base_paths, self._table.location)
        self._commit(UpdateBases(bases), properties=transaction_properties)
        return self

    def rebase_paths(
        self,
        moves: Mapping[str, str],
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """Change the base paths after files outside the root have moved. No data file is read or written.

        A table that was copied works as it is, but its base paths are absolute and still point to the former
        location. Call this method if the files under these paths were copied too. It makes one commit to this
        branch: an update of the base paths that keeps their ids, which pylance understands. Older versions
        and other branches keep their paths.

        Parameters
        ----------
        moves
            A dict of old and new beginnings of base paths, such as ``{"s3://old/tables":
            "s3://new/tables"}``.

        Returns
        -------
        This dataset, at the new version.

        Raises
        ------
        InvalidInputError
            A path matches no base path, or the new path is taken.
        ConflictError
            Another writer changed the base paths, or wrote to one of them, in the meantime.
        """
        changed = checked_mapping(moves, "moves", "a dict of old and new paths")
        for path in (*changed, *changed.values()):
            checked_text(path, "the paths in moves")
        bases = moved_bases(self._table.manifest.base_paths, changed, self._table.location)
        self._commit(UpdateBases((), moved_bases=bases), properties=transaction_properties)
        return self

    def _options_elsewhere(self) -> dict[str, Mapping[str, Any]]:
        """Return the storage options with which a table at any location can read the files of this one."""
        location = self._table.location
        options = {path: params for path, params in location.options_elsewhere.items() if "/" in path}
        if self._storage_options and not location.is_local:
            options[location.uri] = self._storage_options
        return options

    def _trusted_by(self, clone: Location) -> Location:
        """Return the location of a clone that may refer to this table and to all that it may refer to."""
        source = self._table.location
        allowed = source.allowing([f"file://{source.path}" if source.is_local else source.uri])
        return dataclasses.replace(clone, allowed_schemes=clone.allowed_schemes | allowed.allowed_schemes)

    def _at(self, reference: VersionRef | None) -> Table:
        ref = resolve_reference(self._table, reference)
        if (ref.branch, ref.version) == (self._table.branch, self._table.version):
            return self._table
        return open_ref(self._table.shared, ref)


def _opened(
    table: Table, uri: str, storage_options: Mapping[str, Any] | None, arguments: Mapping[str, Any]
) -> LanceDataset:
    from lance_df.dataset import LanceDataset, dataset

    if not arguments:
        return LanceDataset._of(table, uri, storage_options, None)
    elsewhere, schemes = table.location.options_elsewhere, table.location.allowed_schemes
    arguments = {"base_store_params": elsewhere, "allowed_base_schemes": schemes, **arguments}
    return dataset(uri, storage_options=storage_options, **arguments)
