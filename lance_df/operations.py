"""What a commit can do to a table, as distributed writers describe it, with pylance's names."""

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
    """A file of an index segment, by its path in the folder of the segment."""

    path: str
    size_bytes: int


@dataclass
class Index:
    """A segment of an index. ``index_details`` is the type URL and the message that it names."""

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
    """The operations. Each is computed from a version of a table, and applied by `LanceDataset.commit`."""

    class BaseOperation:
        """What all operations have in common."""

    @dataclass
    class Append(BaseOperation):
        """New rows, in fragments that `lance_df.fragment.write_fragments` wrote."""

        fragments: list[FragmentMetadata]

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)

    @dataclass
    class Overwrite(BaseOperation):
        """A new content, or a new table. The fragments get new ids. ``initial_bases`` are for new tables."""

        new_schema: LanceSchema | pa.Schema
        fragments: list[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None

        def __post_init__(self) -> None:
            _check_fragments(self.fragments)

    @dataclass
    class Delete(BaseOperation):
        """Fragments with new deletion files (`LanceFragment.delete`), and ids of those without rows."""

        updated_fragments: list[FragmentMetadata]
        deleted_fragment_ids: Sequence[int]
        predicate: str

        def __post_init__(self) -> None:
            _check_fragments(self.updated_fragments)

    @dataclass
    class Update(BaseOperation):
        """Changed rows.

        Either rewritten into new fragments and deleted from the old ones, or, with ``fields_modified``, with
        new values in place (`LanceFragment.update_columns`). ``update_mode`` is ``"rewrite_rows"``,
        ``"rewrite_columns"`` or empty. ``updated_fragment_offsets`` says which rows of a fragment changed, as
        serialized bitmaps; without it, all did. ``inserted_keys`` is what a merge found: it lets the commit
        refuse when another writer has inserted rows of the same keys meanwhile.
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
        """All fragments of the table with other columns, and its new schema.

        ``preserves_nullability`` says that the new columns are nullable, so that rows which others append
        meanwhile may go without them.
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
        """The content of an older version."""

        version: int

    @dataclass
    class Clone(BaseOperation):
        """The table was made from a version of another one. Read only: methods make clones."""

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None

    @dataclass
    class RewriteGroup:
        """Fragments, and those that hold the same rows afterwards."""

        old_fragments: list[FragmentMetadata]
        new_fragments: list[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """An index that was built anew because rows moved."""

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """Compaction: the same rows in other fragments."""

        groups: list[LanceOperation.RewriteGroup]
        rewritten_indices: list[LanceOperation.RewrittenIndex]

        def __post_init__(self) -> None:
            for group in self.groups:
                _check_fragments(group.old_fragments)
                _check_fragments(group.new_fragments)

    @dataclass
    class CreateIndex(BaseOperation):
        """Index segments that come and go."""

        new_indices: list[Index]
        removed_indices: list[Index]

    @dataclass
    class DataReplacementGroup:
        """A data file that takes the place of the one with the same fields."""

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """New data files for columns of some fragments."""

        replacements: list[LanceOperation.DataReplacementGroup]

    @dataclass
    class Project(BaseOperation):
        """Other names, nullability, or fewer columns, identified by their field ids; no data changes."""

        schema: LanceSchema
        preserves_nullability: bool = False

    @dataclass
    class UpdateMap:
        """Changes to a map of texts: None deletes a key; ``replace`` drops everything else."""

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Changes to the configuration, and to the metadata of table, schema and fields (by field id)."""

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class Other(BaseOperation):
        """An operation without a description here, such as reserved fragment ids. Read only."""

        name: str


@dataclass
class Transaction:
    """An operation, and the version that it was computed from.

    The uuid makes a commit recognizable: a transaction is applied once, however often it is committed.
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)


def _check_fragments(fragments: object) -> None:
    if not isinstance(fragments, list):
        raise InvalidInputError(f"fragments are a list of FragmentMetadata, not {type(fragments).__name__}")
    for fragment in fragments:
        if not isinstance(fragment, FragmentMetadata):
            raise InvalidInputError(
                f"fragments are a list of FragmentMetadata, not of {type(fragment).__name__}"
            )
