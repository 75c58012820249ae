"""What a commit can do to a table: one dataclass for each operation of the format.

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
    """New fragments; their ids are given out by the commit."""

    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Fragments with new deletion files, and fragments of which nothing is left."""

    updated_fragments: tuple[Fragment, ...]
    deleted_fragment_ids: tuple[int, ...]
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A new content, or a new table (then the transaction's read version is 0)."""

    fragments: tuple[Fragment, ...]
    schema: Schema
    config_upsert_values: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Index entries that come and go."""

    new_indices: tuple[IndexMetadata, ...]
    removed_indices: tuple[IndexMetadata, ...]


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Fragments, and those that hold the same rows afterwards."""

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
    """A split block Bloom filter of the keys that a merge inserted, for writers at the same time to check.

    Attributes
    ----------
    field_ids
        Of the key columns, in the order of the merge. None where a condition says which rows match: then any
        update may have brought rows that do. This is not stored.
    blocks
        The filter: whole blocks of 32 bytes; ``None`` where keys are given in another way.
    number_of_items, probability
        What the filter was made for.
    is_primary
        Whether they are the primary key of the table, which rows that are appended must not repeat either.
    is_common
        Whether all writers put keys of these types into their filters.
    hashes
        Of the keys themselves (uint64), as long as the merge is in memory.
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

    In tables with stable row ids a new fragment brings, as its `row_ids`, the ids of its first rows: those
    that were taken over from the fragments that are updated or removed. Its further rows are new, and the
    commit gives them their ids, anew at each rebase; so it does with `created_at` and `last_updated_at`.
    Where columns are rewritten, `last_updated_at` of an updated fragment says which rows changed: those of
    which it names another version than before (pylance writes the read version plus one); the commit puts its
    own number there. Or `updated_offsets` says so: serialized Roaring sets of offsets by fragment id. When
    neither does, all rows of the fragment count as updated. Merges say which keys they inserted.
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
    """Other names, nullability or fewer columns; the data files stay."""

    schema: Schema
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """Changes to a map of texts: ``None`` deletes a key; ``replace`` drops everything else."""

    entries: tuple[tuple[str, str | None], ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Changes to the maps of a table; ``None`` is no change. Old releases' fields are read into the same."""

    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataReplacement:
    """(fragment id, data file) pairs: the file takes the place of the one with the same fields."""

    replacements: tuple[tuple[int, DataFile], ...]


@dataclass(frozen=True, slots=True)
class Clone:
    """The table was made from a version of another one, or of another branch."""

    is_shallow: bool
    ref_name: str | None
    ref_version: int
    ref_path: str
    branch_name: str | None


@dataclass(frozen=True, slots=True)
class UpdateBases:
    """New base paths, where an id of 0 means that the commit chooses one, and such as have moved.

    A transaction does not distinguish the two: read back, all are new ones.
    """

    new_bases: tuple[BasePath, ...]
    moved_bases: tuple[BasePath, ...] = ()


@dataclass(frozen=True, slots=True)
class OpaqueOperation:
    """An operation that this release does not know, or only by name; it conflicts with everything."""

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
