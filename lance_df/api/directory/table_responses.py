"""The responses of `DirectoryNamespace` methods for one table, with the attributes of pylance's responses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from lance_df.api.directory.responses import Response
from lance_df.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionResponse(Response):
    """A committed change, with the id of its transaction if it is recorded."""

    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionResponse(TransactionResponse):
    """A committed change, and the version that it made."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertIntoTableResponse(VersionResponse):
    """The response to an insert."""

    num_inserted_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInsertIntoTableResponse(VersionResponse):
    """The response to a merge."""

    num_updated_rows: int
    num_inserted_rows: int
    num_deleted_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTableResponse(VersionResponse):
    """The response to an update."""

    updated_rows: int
    properties: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTableRowsResponse(Response):
    """The number of rows."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTableResponse(Response):
    """Rows, as the bytes of an Arrow IPC file."""

    data: bytes


@dataclass(frozen=True, slots=True)
class FragmentSummary:
    """Statistics on the row counts of fragments: minimum, maximum, mean and percentiles."""

    min: int
    max: int
    mean: int
    p25: int
    p50: int
    p75: int
    p99: int


@dataclass(frozen=True, slots=True)
class FragmentStats:
    """The number of fragments, how many a compaction would merge, and statistics on their row counts."""

    num_fragments: int
    num_small_fragments: int
    lengths: FragmentSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTableStatsResponse(Response):
    """Sizes and counts of a table."""

    total_bytes: int
    num_rows: int
    num_indices: int
    fragment_stats: FragmentStats


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table, and its manifest file."""

    version: int
    manifest_path: str
    manifest_size: int | None
    e_tag: str | None
    timestamp_millis: int | None
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTableVersionsResponse(Response):
    """Versions of a table, oldest first unless the request says otherwise."""

    versions: Sequence[TableVersion]
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTableVersionResponse(Response):
    """One version of a table."""

    version: TableVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDeleteTableVersionsResponse(TransactionResponse):
    """The number of removed versions."""

    deleted_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionResponse(Response):
    """A committed transaction."""

    status: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TagContents:
    """The version that a tag names."""

    branch: str | None
    version: int
    manifest_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTableTagsResponse(Response):
    """Tags by name, and the token for the next page, if there is one."""

    tags: Mapping[str, TagContents]
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTableTagVersionResponse(Response):
    """The version that a tag names."""

    version: int
    branch: str | None


@dataclass(frozen=True, slots=True)
class BranchContents:
    """The version that a branch starts from. ``create_at`` is in seconds since the epoch."""

    parent_branch: str | None
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTableBranchesResponse(Response):
    """Branches by name, and the token for the next page, if there is one."""

    branches: Mapping[str, BranchContents]
    page_token: str | None = None


@dataclass(frozen=True, slots=True)
class IndexContent:
    """An index of a table."""

    index_name: str
    index_uuid: str
    columns: Sequence[str]
    status: str
    index_type: str
    type_url: str
    num_indexed_rows: int
    num_unindexed_rows: int
    size_bytes: int | None
    num_segments: int
    created_at: dt.datetime | None
    index_version: int
    index_details: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTableIndicesResponse(Response):
    """Indices by name, and the token for the next page, if there is one."""

    indexes: Sequence[IndexContent]
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTableIndexStatsResponse(Response):
    """How much of a table an index covers."""

    index_type: str
    num_indexed_rows: int
    num_unindexed_rows: int
    num_indices: int
    distance_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTableSchemaMetadataResponse(TransactionResponse):
    """The metadata of a schema."""

    metadata: Mapping[str, str]
