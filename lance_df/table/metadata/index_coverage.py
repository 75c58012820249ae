"""The index entries of a version, and the fragments whose rows they describe."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, NotFoundError, UnsupportedFeatureError
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragment_reuse import FRAGMENT_REUSE, FragmentReuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.manifest import IndexMetadata
    from lance_df.table.metadata.base_paths import BasePaths
    from lance_df.table.metadata.manifest_io import ManifestFile


def indices_to_search(file: ManifestFile, bases: BasePaths) -> tuple[IndexMetadata, ...]:
    """Return the index entries, limited to the fragments whose rows they describe.

    The coverage is unknown in tables of old releases that recorded it wrongly, and with later forms of the
    fragment reuse index.

    Raises
    ------
    CorruptDataError
        An entry is damaged.
    """
    indices = file.read_indices()
    manifest = file.manifest
    if manifest.trusts_index_coverage and not (
        manifest.reader_feature_flags & FeatureFlag.FRAGMENT_REUSE_INDEX
    ):
        try:
            reuse = fragment_reuse(file, indices, bases)
        except UnsupportedFeatureError:
            pass
        else:
            return indices if reuse is None else tuple(map(reuse.with_current_rows, indices))
    return tuple(dataclasses.replace(index, fragment_bitmap=None) for index in indices)


def fragment_reuse(
    file: ManifestFile, indices: Sequence[IndexMetadata], bases: BasePaths
) -> FragmentReuse | None:
    """Return the content of the fragment reuse index, or None if there is none.

    Raises
    ------
    UnsupportedFeatureError
        The index has a later form.
    CorruptDataError
        It is damaged, or its file is missing.
    """
    entry = next((index for index in indices if index.name == FRAGMENT_REUSE), None)
    if entry is None:
        return None

    def read(index: IndexMetadata, name: str) -> bytes:
        location = bases.index(index.uuid, index.base_id).child(name)
        try:
            return location.read()
        except NotFoundError as err:
            raise CorruptDataError(
                f"{location.uri}: this file is missing, although {file.path} lists index {FRAGMENT_REUSE!r}"
            ) from err

    return FragmentReuse.parse(entry, read, source=file.path)
