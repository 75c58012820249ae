"""Indices of the tables of a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.api.directory import table_responses as responses
from lance_df.api.directory.calls import DirectoryCalls, arguments, needed, page_of, transaction_id

if TYPE_CHECKING:
    from lance_df.table.maintenance.index_report import IndexDescription

_SUCCEEDED: Final = "SUCCEEDED"
# one word each, whatever separates the parts of the name in a request
_SCALAR: Final = {
    **{name: name for name in ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")},
    "SCALAR": "BTREE",
}


class DirectoryIndices(DirectoryCalls):
    """Methods for indices, like `lance_df.LanceDataset.create_scalar_index` and with the same errors."""

    def create_table_index(
        self,
        id: Any,
        column: str | None = None,
        index_type: str | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
    ) -> responses.TransactionResponse:
        """Build an index of a column.

        Parameters
        ----------
        index_type
            See `lance_df.LanceDataset.create_scalar_index`. Underscores and case are ignored.
        name
            The name of the index. The default is ``{column}_idx``.

        Raises
        ------
        DatasetNotFoundError, ColumnNotFoundError
            There is no such table or column.
        AlreadyExistsError
            The name is taken.
        InvalidInputError
            There is no such index type.
        UnsupportedFeatureError
            This release cannot build the index, such as an index of vectors or texts.
        """
        parts, (column, index_type, name, branch) = arguments(
            id, column=column, index_type=index_type, name=name, branch=branch
        )
        given = str(needed(index_type, "the type of an index"))
        kind = _SCALAR.get(given.replace("_", "").upper(), given.upper())
        dataset = self._to_change(parts, branch)
        field = needed(column, "the column to index")
        if kind.startswith("IVF_"):
            dataset.create_index(field, kind)
        dataset.create_scalar_index(field, kind, name, replace=False)
        return responses.TransactionResponse(transaction_id=transaction_id(dataset))

    create_table_scalar_index = create_table_index

    def list_table_indices(
        self,
        id: Any,
        *,
        version: int | None = None,
        branch: str | None = None,
        page_token: str | None = None,
        limit: int | None = None,
    ) -> responses.ListTableIndicesResponse:
        """List indices by name. Raises `DatasetNotFoundError` and `VersionNotFoundError`."""
        parts, (version, branch, page_token, limit) = arguments(
            id, version=version, branch=branch, page_token=page_token, limit=limit
        )
        dataset = self._opened(parts, branch, version)
        described = {each.name: each for each in dataset.describe_indices()}
        num_rows = dataset.count_rows() if described else 0
        listed, token = page_of(described, page_token, limit)
        return responses.ListTableIndicesResponse(
            indexes=[_content(index, num_rows) for index in listed.values()], page_token=token
        )

    def describe_table_index_stats(
        self,
        id: Any,
        index_name: str | None = None,
        *,
        version: int | None = None,
        branch: str | None = None,
    ) -> responses.DescribeTableIndexStatsResponse:
        """Return how much of a table an index covers.

        Raises
        ------
        DatasetNotFoundError, VersionNotFoundError
            There is no such table, or no such version or branch.
        IndexNotFoundError
            There is no such index.
        """
        parts, (index_name, version, branch) = arguments(
            id, index_name=index_name, version=version, branch=branch
        )
        name = needed(index_name, "the name of the index")
        statistics = self._opened(parts, branch, version).index_statistics(name)
        return responses.DescribeTableIndexStatsResponse(
            index_type=statistics["index_type"],
            num_indexed_rows=statistics["num_indexed_rows"],
            num_unindexed_rows=statistics["num_unindexed_rows"],
            num_indices=statistics["num_indices"],
        )

    def drop_table_index(
        self,
        id: Any,
        index_name: str | None = None,
        *,
        branch: str | None = None,
    ) -> responses.TransactionResponse:
        """Remove an index of any type. Raises `DatasetNotFoundError` and `IndexNotFoundError`."""
        parts, (index_name, branch) = arguments(id, index_name=index_name, branch=branch)
        dataset = self._to_change(parts, branch)
        dataset.drop_index(needed(index_name, "the name of the index"))
        return responses.TransactionResponse(transaction_id=transaction_id(dataset))


def _content(index: IndexDescription, num_rows: int) -> responses.IndexContent:
    first = index.segments[0]
    return responses.IndexContent(
        index_name=index.name,
        index_uuid=first.uuid,
        columns=index.field_names,
        status=_SUCCEEDED,
        index_type=index.index_type,
        type_url=index.type_url,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=num_rows - index.num_rows_indexed,
        size_bytes=index.total_size_bytes,
        num_segments=len(index.segments),
        created_at=first.created_at,
        index_version=first.index_version,
    )
