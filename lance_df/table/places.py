"""Where a table is, and what decides on its versions: taken from what a user names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_df.storage import open_location
from lance_df.table.external_store_dynamodb import SCHEME, DynamoDBManifestStore, parse_dynamodb_url

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lance_df.storage import Location
    from lance_df.table.external_store import ExternalManifestStore

_DYNAMODB_ENDPOINT = "dynamodb_endpoint"


@dataclass(frozen=True, slots=True)
class Place:
    """The root of a table or branch, and its external manifest store, if it has one."""

    location: Location
    external_store: ExternalManifestStore | None


def find_place(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    external_store: ExternalManifestStore | None = None,
) -> Place:
    """Turn what a user names into a place.

    Parameters
    ----------
    uri
        A path or URL; ``s3+ddb://bucket/path?ddbTableName=T`` names an external manifest store, too.
    external_store
        Used instead of one that ``uri`` names.

    Raises
    ------
    InvalidInputError
        The URL is malformed.
    MissingDependencyError
        Its scheme needs an extra that is not installed.
    """
    if isinstance(uri, str) and uri.startswith(SCHEME):
        uri, table_name = parse_dynamodb_url(uri)
        external_store = external_store or DynamoDBManifestStore(table_name, storage_options)
    options = dict(storage_options or {})
    options.pop(_DYNAMODB_ENDPOINT, None)
    return Place(open_location(uri, options), external_store)
