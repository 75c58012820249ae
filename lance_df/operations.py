"""The operations that a commit applies to a table, with the names of pylance.

Distributed writers use them to describe their changes.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.api.fragment_metadata import DataFile, FragmentMetadata
from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from lance_df.format.operations import InsertedKeys
    from lance_df.schema import LanceSchema
    from lance_df.table.metadata.base_paths_write import DatasetBasePath

__all__ = ["LANCE_COMMIT_MESSAGE_KEY", "Index", "IndexFile", "LanceOperation", "Transaction"]

# the property of a transaction that is its message
LANCE_COMMIT_MESSAGE_KEY = "__lance_commit_message"


@dataclass
class IndexFile:
    """A file of an index segment, with its path in the folder of the segment."""

    path: str
    size_bytes: int


@dataclass
class Index:
    """A segment of an index. ``index_details`` has the type URL and the message of that type."""

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: Iterable[int]
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None
    covering_fields: list[int] = field(default_factory=list)


class LanceOperation:
    """The operations. Each is computed from a version of a table, and `LanceDataset.commit` applies it."""

    class BaseOperation:
        """The base class of all operations."""

    @dataclass
    class Append(BaseOperation):
        """Add new rows, in fragments that `lance_df.fragment.write_fragments` wrote."""

        fragments: list[FragmentMetadata]

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)

    @dataclass
    class Overwrite(BaseOperation):
        """Replace the content of a table, or create a table.

        The fragments get new ids. ``initial_bases`` are only for new tables.
        """

        new_schema: LanceSchema | pa.Schema
        fragments: list[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)

    @dataclass
    class Delete(BaseOperation):
        """Give fragments new deletion files (`LanceFragment.delete`), and remove those without rows by id."""

        updated_fragments: list[FragmentMetadata]
        deleted_fragment_ids: Sequence[int]
        predicate: str

        def __post_init__(self) -> None:
            _check_fragments(self.updated_fragments)

    @dataclass
    class Update(BaseOperation):
        """Change rows.

        There are two forms. Either the changed rows are written to new fragments and deleted from the old
        ones; or, with ``fields_modified``, they get new values in place (`LanceFragment.update_columns`).
        ``update_mode`` is ``"rewrite_rows"``, ``"rewrite_columns"`` or empty. ``updated_fragment_offsets``
        says which rows of a fragment changed, as serialized bitmaps; without it, all rows did.
        ``inserted_keys`` has the keys that a merge inserted. With it, the commit fails if another writer has
        inserted rows with the same keys in the meantime.
        """

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        updated_fragment_offsets: dict[int, bytes] | None = None
        inserted_keys: InsertedKeys | None = field(default=None, repr=False, compare=False)

        def __post_init__(self) -> None:
            _check_fragments(self.updated_fragments)
            _check_fragments(self.new_fragments)

    @dataclass
    class Merge(BaseOperation):
        """Replace all fragments of the table by fragments with other columns, and set the new schema.

        ``preserves_nullability`` says that the new columns are nullable, so rows that other writers append in
        the meantime need not have them.
        """

        fragments: list[FragmentMetadata]
        schema: LanceSchema | pa.Schema
        preserves_nullability: bool = False

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)
            if isinstance(self.schema, pa.Schema):
                warnings.warn(
                    "LanceOperation.Merge: a pyarrow schema is deprecated, as in pylance; pass a LanceSchema",
                    DeprecationWarning,
                    stacklevel=3,
                )

    @dataclass
    class Restore(BaseOperation):
        """Restore the content of an older version."""

        version: int

    @dataclass
    class Clone(BaseOperation):
        """The creation of a table from a version of another one.

        Read-only: use methods such as `LanceDataset.shallow_clone` to create a clone.
        """

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None

    @dataclass
    class RewriteGroup:
        """Old fragments, and new fragments with the same rows."""

        old_fragments: list[FragmentMetadata]
        new_fragments: list[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """An index that was rebuilt because rows moved."""

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """Compact fragments: store the same rows in other fragments."""

        groups: list[LanceOperation.RewriteGroup]
        rewritten_indices: list[LanceOperation.RewrittenIndex]

        def __post_init__(self) -> None:
            for group in self.groups:
                _check_fragments(group.old_fragments)
                _check_fragments(group.new_fragments)

    @dataclass
    class CreateIndex(BaseOperation):
        """Add and remove index segments."""

        new_indices: list[Index]
        removed_indices: list[Index]

    @dataclass
    class DataReplacementGroup:
        """A data file that replaces the data file with the same fields."""

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """Replace data files for columns of some fragments."""

        replacements: list[LanceOperation.DataReplacementGroup]

    @dataclass
    class Project(BaseOperation):
        """Rename or drop columns, or change their nullability, without changing data.

        Columns are identified by their field ids.
        """

        schema: LanceSchema
        preserves_nullability: bool = False

    @dataclass
    class UpdateMap:
        """Changes to a map of texts. None deletes a key. ``replace`` drops all other keys."""

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Change the configuration, and the metadata of the table, the schema and fields (by field id)."""

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class Other(BaseOperation):
        """An operation that has no class here, such as reserving fragment ids. Read-only."""

        name: str


@dataclass
class Transaction:
    """An operation, and the version that it was computed from.

    The uuid identifies the transaction. It is applied only once, even if it is committed several times.
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)


def _check_fragments(fragments: object) -> None:
    if not isinstance(fragments, list):
        raise InvalidInputError(
            f"fragments must be a list of FragmentMetadata, got {type(fragments).__name__}"
        )
    for fragment in fragments:
        if not isinstance(fragment, FragmentMetadata):
            raise InvalidInputError(
                f"fragments must be a list of FragmentMetadata, got a list with {type(fragment).__name__}"
            )
