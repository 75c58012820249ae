"""Find the location and the external manifest store of a table from what a user gives."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lance_df.records import dataclass
from lance_df.storage import open_location
from lance_df.storage.options import named_options
from lance_df.storage.schemes import with_lower_scheme

if TYPE_CHECKING:
    import os

    from lance_df.storage import Location
    from lance_df.table.metadata.external_store import ExternalManifestStore

_DYNAMODB_ENDPOINT = "dynamodb_endpoint"
_SCOPED = re.compile(r"(base_[0-9]+)\.(.+)")


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The root of a table or branch, and its external manifest store, if it has one."""

    location: Location
    external_store: ExternalManifestStore | None


def locate_table(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    external_store: ExternalManifestStore | None = None,
    base_store_params: Mapping[str, Mapping[str, Any]] | None = None,
) -> TableLocation:
    """Return the location of the table that a user names.

    Parameters
    ----------
    uri
        A path or URL; ``s3+ddb://bucket/path?ddbTableName=T`` also names an external manifest store.
    storage_options
        Options of the store. ``base_1.key`` is the option ``key`` of the base path with the id 1, which
        otherwise uses the same options.
    external_store
        Used instead of the one that ``uri`` names.
    base_store_params
        All options of base paths, by path.

    Raises
    ------
    InvalidInputError
        The URL is malformed, or the options are not a mapping with names as keys.
    MissingDependencyError
        The URL's scheme needs an extra that is not installed.
    """
    if external_store is not None and not hasattr(external_store, "put_if_absent"):
        from lance_df.arguments import invalid

        raise invalid("external_store", external_store, "a SQLiteManifestStore or a DynamoDBManifestStore")
    uri = with_lower_scheme(uri) if isinstance(uri, str) else uri
    if isinstance(uri, str) and uri.startswith("s3+ddb://"):
        from lance_df.table.metadata.external_store_dynamodb import DynamoDBManifestStore, parse_dynamodb_url

        uri, table_name = parse_dynamodb_url(uri)
        external_store = external_store or DynamoDBManifestStore(table_name, storage_options)
    options = named_options(storage_options)
    options.pop(_DYNAMODB_ENDPOINT, None)
    of_table, elsewhere = _split(options)
    if base_store_params is not None:
        from lance_df.arguments import checked_mapping, checked_text

        of_bases = checked_mapping(base_store_params, "base_store_params", "a dict of options by path")
        elsewhere |= {
            checked_text(path, "a path in base_store_params").rstrip("/"): named_options(params)
            for path, params in of_bases.items()
        }
    location = open_location(uri, of_table)
    if elsewhere:
        location = dataclasses.replace(location, options_elsewhere=elsewhere)
    return TableLocation(location, external_store)


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """Return the options of the table, and of each base path that has options of its own."""
    of_table: dict[str, Any] = {}
    scoped: dict[str, dict[str, Any]] = {}
    for key, value in options.items():
        if match := _SCOPED.fullmatch(key):
            scoped.setdefault(match[1], {})[match[2]] = value
        else:
            of_table[key] = value
    return of_table, {base: {**of_table, **values} for base, values in scoped.items()}
