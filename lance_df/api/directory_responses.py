"""What methods of `DirectoryNamespace` return: the attributes that the responses of pylance have.

Those that a directory has nothing to say about are None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lance_df.records import dataclass

Properties: TypeAlias = Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What every response has."""

    context: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNamespaceResponse(Response):
    """A namespace that is there now."""

    properties: Properties
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeNamespaceResponse(Response):
    """A namespace."""

    properties: Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceExistsResponse(Response):
    """There is such a namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNamespaceResponse(Response):
    """A namespace that is gone."""

    properties: Properties = None
    transaction_id: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNamespacesResponse(Response):
    """Names in a namespace, sorted; with the token for the next page, if there is one."""

    namespaces: list[str]
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTablesResponse(Response):
    """Names or ids of tables, sorted; with the token for the next page, if there is one."""

    tables: list[str]
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableResponse(Response):
    """A table that was written, and its version; None where one was there already."""

    location: str
    version: int | None
    properties: Properties
    transaction_id: str | None = None
    storage_options: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareTableResponse(Response):
    """A table that is to be written."""

    location: str
    properties: Properties
    transaction_id: str | None = None
    storage_options: Mapping[str, str] | None = None
    managed_versioning: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTableResponse(Response):
    """A table that has a name now; its location is relative to the root."""

    location: str
    properties: Properties
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTableResponse(Response):
    """A table that was dropped or deregistered."""

    id: list[str]
    location: str
    properties: Properties
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTableResponse(Response):
    """A table; with ``version`` and ``var_schema``, the schema as JSON data, where these were asked for."""

    table: str
    namespace: list[str]
    location: str
    table_uri: str
    properties: Properties
    version: int | None = None
    var_schema: Mapping[str, Any] | None = None
    is_only_declared: bool | None = None
    storage_options: Mapping[str, str] | None = None
    stats: None = None
    metadata: Mapping[str, str] | None = None
    managed_versioning: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExistsResponse(Response):
    """There is such a table."""
