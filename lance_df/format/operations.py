"""The operations that a commit can apply to a table: one dataclass for each operation of the format.

An operation that this release does not know is an :class:`OpaqueOperation`. Spec: table format, transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.manifest import BasePath, IndexMetadata
from lance_df.format.schema import Schema
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Append:
    """New fragments; the commit assigns their ids."""

    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Fragments with new deletion files, and fragments whose rows are all deleted."""

    updated_fragments: tuple[Fragment, ...]
    deleted_fragment_ids: tuple[int, ...]
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """New content, or a new table (in which case the transaction's read version is 0)."""

    fragments: tuple[Fragment, ...]
    schema: Schema
    config_upsert_values: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Index entries that are added and removed."""

    new_indices: tuple[IndexMetadata, ...]
    removed_indices: tuple[IndexMetadata, ...]


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Old fragments, and the new fragments that hold the same rows."""

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """An index that was rebuilt because row addresses changed."""

    old_id: UUID
    new_id: UUID
    details_type_url: str | None = None
    details: bytes = b""
    index_version: int = 0
    files: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Compaction: the same rows in other fragments."""

    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[RewrittenIndex, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """All fragments, with other columns."""

    fragments: tuple[Fragment, ...]
    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """The content of an older version."""

    version: int


@dataclass(frozen=True, slots=True)
class ReserveFragments:
    """Fragment ids for a later rewrite."""

    num_fragments: int


class UpdateMode(IntEnum):
    """How updated values are stored: as new rows, or as new columns of the same rows."""

    REWRITE_ROWS = 0
    REWRITE_COLUMNS = 1


@dataclass(frozen=True, slots=True)
class InsertedKeys:
    """A split block Bloom filter of the keys that a merge inserted, which concurrent writers check.

    Attributes
    ----------
    field_ids
        Ids of the key columns, in the order of the merge. Empty if a condition decides which rows match,
        in which case any update may have added matching rows; this is not stored.
    blocks
        The filter, in whole blocks of 32 bytes; ``None`` if the keys are given in another form.
    number_of_items, probability
        The number of items and the false positive probability that the filter was sized for.
    is_primary
        Whether the keys are the primary key of the table, which appended rows must not repeat either.
    is_common
        Whether all writers add keys of these types to their filters.
    hashes
        Hashes of the keys (uint64), while the merge is in memory.
    """

    field_ids: tuple[int, ...]
    blocks: bytes | None
    number_of_items: int = 8192
    probability: float = 0.00057
    is_primary: bool = field(default=True, compare=False)
    is_common: bool = field(default=True, compare=False)
    hashes: npt.NDArray[np.uint64] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Update:
    """Rows with new values, of an update or a merge-insert.

    In tables with stable row ids, `row_ids` of a new fragment holds the ids of its first rows: those that
    were moved from the fragments that are updated or removed. The further rows are new; the commit assigns
    their ids, `created_at` and `last_updated_at`, and does so again at each rebase. Where columns are
    rewritten, `last_updated_at` of an updated fragment says which rows changed: those whose version differs
    from before (pylance writes the read version plus one); the commit replaces it by its own version.
    Alternatively, `updated_offsets` names these rows: serialized Roaring sets of offsets by fragment id. If
    neither does, all rows of the fragment count as updated. Merges record which keys they inserted.
    """

    removed_fragment_ids: tuple[int, ...]
    updated_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]
    fields_modified: tuple[int, ...] = ()
    fields_for_preserving_frag_bitmap: tuple[int, ...] = ()
    mode: UpdateMode = UpdateMode.REWRITE_ROWS
    updated_offsets: Mapping[int, bytes] = field(default_factory=dict)
    inserted_keys: InsertedKeys | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """Changed names or nullability, or fewer columns; the data files stay the same."""

    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """Changes to a map of texts: ``None`` deletes a key; ``replace`` drops all other keys."""

    entries: tuple[tuple[str, str | None], ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Changes to the maps of a table; ``None`` means no change. Fields of old releases are converted."""

    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataReplacement:
    """(fragment id, data file) pairs; each file replaces the data file with the same fields."""

    replacements: tuple[tuple[int, DataFile], ...]


@dataclass(frozen=True, slots=True)
class Clone:
    """The table was cloned from a version of another table, or of another branch."""

    is_shallow: bool
    ref_name: str | None
    ref_version: int
    ref_path: str
    branch_name: str | None


@dataclass(frozen=True, slots=True)
class UpdateBases:
    """New base paths, for which an id of 0 means that the commit assigns one, and moved base paths.

    A transaction does not distinguish the two: when it is read, all of them are new ones.
    """

    new_bases: tuple[BasePath, ...]
    moved_bases: tuple[BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class OpaqueOperation:
    """An operation that this release does not support; it conflicts with every other operation."""

    name: str | None


Operation: TypeAlias = (
    Append
    | Delete
    | Overwrite
    | CreateIndex
    | Rewrite
    | Merge
    | Restore
    | ReserveFragments
    | Update
    | Project
    | UpdateConfig
    | DataReplacement
    | Clone
    | UpdateBases
    | OpaqueOperation
)
