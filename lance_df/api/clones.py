"""Branches, clones and base paths."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Self

from lance_df.api.base import DatasetBase
from lance_df.format.operations import UpdateBases
from lance_df.refs import resolve_reference
from lance_df.table.clones import create_branch, deep_clone, shallow_clone
from lance_df.table.metadata.base_paths_write import DatasetBasePath, checked_bases, moved_bases
from lance_df.table.metadata.locations import locate_table
from lance_df.table.open import table_at
from lance_df.table.table import open_ref

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.dataset import LanceDataset
    from lance_df.storage import Location
    from lance_df.table.metadata.refs import VersionRef
    from lance_df.table.table import Table


class Clones(DatasetBase):
    """Branches, clones and base paths."""

    def create_branch(
        self,
        branch: str,
        reference: VersionRef | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> LanceDataset:
        """Start a branch and return it; what is written to it does not show on the branch it was made from.

        Parameters
        ----------
        branch
            Parts of letters, digits, ``.``, ``-`` and ``_``, joined by ``/``.
        reference
            Where it starts: a version of this branch, a tag, or (branch, version); by default this version.
        storage_options
            To open the branch with; by default those of this dataset.

        Raises
        ------
        InvalidInputError
            No branch can be called that.
        AlreadyExistsError
            There is a branch of this name, perhaps since a moment.
        VersionNotFoundError
            There is no such version.
        """
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
        """Make a table of a version of this one that shares its files, and open it.

        The clone needs the files of this table: cleaning up here does not know of it.

        Parameters
        ----------
        target_path
            The new table.
        reference
            A version of this branch, a tag, or (branch, version); by default this version.
        storage_options
            Of the new table; by default those of this dataset.
        **kwargs
            For `lance_df.dataset`.

        Raises
        ------
        AlreadyExistsError
            There is a table already, or a namespace.
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
        """Make a table of a version of this one with copies of all its files; see `shallow_clone`."""
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
        """Register base paths, so that `write_dataset` can put data files there.

        Returns
        -------
        This dataset, at the version that was made.

        Raises
        ------
        InvalidInputError
            An id, a name or a path is taken.
        ConflictError
            Another writer registered the same meanwhile.
        """
        bases = checked_bases(new_bases, self._table.manifest.base_paths, self._table.location)
        self._commit(UpdateBases(bases), properties=transaction_properties)
        return self

    def rebase_paths(
        self,
        moves: Mapping[str, str],
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """Change the base paths after files outside the root have moved. No file is read or written.

        A table that was copied works as it is; base paths are absolute, and go on naming the former place.
        Call this when these files were copied as well. It is one commit to this
        branch, an update of the base paths that keeps their ids, so that pylance understands it; older
        versions and other branches keep their paths.

        Parameters
        ----------
        moves
            What base paths begin with, such as ``{"s3://old/tables": "s3://new/tables"}``.

        Returns
        -------
        This dataset, at the version that was made.

        Raises
        ------
        InvalidInputError
            A path fits no base path, or the new one is taken.
        ConflictError
            Another writer changed the base paths, or wrote to one of them, meanwhile.
        """
        bases = moved_bases(self._table.manifest.base_paths, moves, self._table.location)
        self._commit(UpdateBases((), moved_bases=bases), properties=transaction_properties)
        return self

    def _options_elsewhere(self) -> dict[str, Mapping[str, Any]]:
        """Return what a table needs to read files of this one, wherever it is."""
        location = self._table.location
        options = {path: params for path, params in location.options_elsewhere.items() if "/" in path}
        if self._storage_options and not location.is_local:
            options[location.uri] = self._storage_options
        return options

    def _trusted_by(self, clone: Location) -> Location:
        """Return the place of a clone, where files may name this table, and what this table's may name."""
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
