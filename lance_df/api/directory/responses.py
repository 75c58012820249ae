"""The responses of the methods of `DirectoryNamespace`, with the attributes of pylance's responses.

Attributes that do not apply to a directory are None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lance_df.records import dataclass

Properties: TypeAlias = Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The base of all responses."""

    context: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNamespaceResponse(Response):
    """The namespace that was created or that existed already."""

    properties: Properties
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeNamespaceResponse(Response):
    """The description of a namespace."""

    properties: Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceExistsResponse(Response):
    """The response if a namespace exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNamespaceResponse(Response):
    """The namespace that was dropped."""

    properties: Properties = None
    transaction_id: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNamespacesResponse(Response):
    """Sorted names of namespaces, and the token for the next page, if there is one."""

    namespaces: list[str]
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTablesResponse(Response):
    """Sorted names or ids of tables, and the token for the next page, if there is one."""

    tables: list[str]
    page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableResponse(Response):
    """The table that was written, and its version, which is None if the table existed already."""

    location: str
    version: int | None
    properties: Properties
    transaction_id: str | None = None
    storage_options: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareTableResponse(Response):
    """The table that was declared."""

    location: str
    properties: Properties
    transaction_id: str | None = None
    storage_options: Mapping[str, str] | None = None
    managed_versioning: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTableResponse(Response):
    """The table that was registered. Its location is relative to the root."""

    location: str
    properties: Properties
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTableResponse(Response):
    """The table that was dropped or deregistered."""

    id: list[str]
    location: str
    properties: Properties
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTableResponse(Response):
    """The description of a table.

    If they were requested, ``version`` has the version, and ``var_schema`` has the schema as JSON data.
    """

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
    """The response if a table exists."""
