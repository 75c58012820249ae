"""`DirectoryNamespace`: the namespaces and tables below one folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Self

from lance_df.api.descriptions import MAX_LISTED, directory_html
from lance_df.api.directory import responses
from lance_df.api.directory.calls import (
    arguments,
    checked_properties,
    one_of,
    page,
    written_version,
)
from lance_df.api.directory.columns import DirectoryColumns
from lance_df.api.directory.indices import DirectoryIndices
from lance_df.api.directory.queries import DirectoryQueries
from lance_df.api.directory.refs import DirectoryRefs
from lance_df.api.directory.refused import DirectoryRefused
from lance_df.api.directory.rows import DirectoryRows
from lance_df.api.directory.versions import DirectoryVersions
from lance_df.api.namespaces.client import is_true, storage_properties
from lance_df.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lance_df.namespace.directory.directory import Directory
from lance_df.namespace.directory.folders import holds_table
from lance_df.namespace.directory.names import Parts
from lance_df.namespace.directory.tables import DirectoryTable, DirectoryTables
from lance_df.namespace.spec.json_arrow import schema_to_json
from lance_df.storage import Location, open_location
from lance_df.storage.options import named_options
from lance_df.storage.schemes import with_allowed_schemes
from lance_df.table.metadata.refs import ResolvedRef
from lance_df.table.shared import Shared
from lance_df.table.table import open_ref


class DirectoryNamespace(
    DirectoryRows,
    DirectoryQueries,
    DirectoryVersions,
    DirectoryRefs,
    DirectoryColumns,
    DirectoryIndices,
    DirectoryRefused,
):
    """Namespaces and tables in one folder. The class of the same name in pylance can use the same folder.

    Every method takes an id, which is a list of names or text such as ``"sales$orders"``, and further
    arguments. Instead of all of them it accepts one request of pylance: an object with an attribute ``id``,
    or a dict. An instance may be shared between threads, and several processes may use the same folder.

    Parameters
    ----------
    root
        Path or URL of the folder, which need not exist.
    storage_options
        Options for the fsspec filesystem.
    allowed_base_schemes
        URL schemes that base paths of tables may have; see `lance_df.dataset`.
    manifest_enabled
        Whether namespaces and properties are supported. They are rows of the table ``__manifest``.
    dir_listing_enabled
        Whether every folder ``x.lance`` directly in the root is a table, even without a row in
        ``__manifest``.
    session, context_provider
        Accepted for compatibility with pylance; they have no effect.
    **properties
        Properties that the class of pylance takes as text, for example from ``lance_namespace.connect``.
        Storage options are written as ``storage.region``.

    Raises
    ------
    InvalidInputError
        A property is unknown, a setting is neither true nor false, or the root is a file.
    UnsupportedFeatureError
        ``__manifest`` needs a newer reader.
    CorruptDataError
        ``__manifest`` is damaged.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        allowed_base_schemes: Iterable[str] | None = None,
        manifest_enabled: bool | str = True,
        dir_listing_enabled: bool | str = True,
        session: object = None,
        context_provider: object = None,
        **properties: Any,
    ) -> None:
        del session, context_provider
        options = {**storage_properties(properties), **named_options(storage_options)} or None
        uses_manifest = is_true("manifest_enabled", manifest_enabled)
        uses_listing = is_true("dir_listing_enabled", dir_listing_enabled)
        location = open_location(root, with_allowed_schemes(options, allowed_base_schemes))
        location.check_is_folder()
        self._made_with = {
            "root": location.uri,
            "storage_options": options,
            "allowed_base_schemes": None if allowed_base_schemes is None else tuple(allowed_base_schemes),
            "manifest_enabled": uses_manifest,
            "dir_listing_enabled": uses_listing,
        }
        self._directory = Directory(location, use_manifest=uses_manifest)
        self._tables = DirectoryTables(self._directory, use_listing=uses_listing)

    def __repr__(self) -> str:
        return f"<lance_df.DirectoryNamespace {self._directory.root.uri}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (type(self), self._made_with)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the cache of ``__manifest``. Later uses read it again."""
        self._directory.free_cache()

    def _repr_html_(self) -> str:
        return directory_html(
            self._directory.root.uri,
            lambda: self.list_namespaces(limit=MAX_LISTED).namespaces,
            lambda: self.list_tables(limit=MAX_LISTED).tables,
        )

    def namespace_id(self) -> str:
        """Return the text that identifies this namespace, which is the same as in pylance."""
        return f'DirectoryNamespace {{ root: "{self._directory.root.uri}" }}'

    # -- namespaces -----------------------------------------------------------------------------------------

    def create_namespace(
        self,
        id: Any,
        properties: Mapping[str, str] | None = None,
        *,
        mode: str = "create",
    ) -> responses.CreateNamespaceResponse:
        """Create a namespace.

        Parameters
        ----------
        mode
            With ``"exist_ok"``, an existing namespace is not changed.

        Raises
        ------
        AlreadyExistsError
            There is a namespace or table with this id.
        NotFoundError
            The parent namespace does not exist.
        """
        parts, (properties, mode) = arguments(id, properties=properties, mode=mode)
        properties = checked_properties(properties)
        is_lenient = one_of(mode, "create", "existok") == "existok"
        try:
            self._directory.create_namespace(parts, properties)
        except AlreadyExistsError:
            if not is_lenient:
                raise
            properties = self._directory.namespace_properties(parts)
        return responses.CreateNamespaceResponse(properties=properties or None)

    def list_namespaces(
        self,
        id: Any = (),
        *,
        page_token: str | None = None,
        limit: int | None = None,
    ) -> responses.ListNamespacesResponse:
        """List the namespaces directly in a namespace, by default in the root.

        Raises
        ------
        NotFoundError
            There is no such namespace.
        """
        parts, (page_token, limit) = arguments(id, page_token=page_token, limit=limit)
        names, token = page(self._directory.namespaces(parts), page_token, limit)
        return responses.ListNamespacesResponse(namespaces=names, page_token=token)

    def describe_namespace(self, id: Any) -> responses.DescribeNamespaceResponse:
        """Return the properties of a namespace. Raises `NotFoundError`."""
        parts, _ = arguments(id)
        stored = self._directory.namespace_properties(parts)
        return responses.DescribeNamespaceResponse(properties=stored if stored or not parts else None)

    def namespace_exists(self, id: Any) -> responses.NamespaceExistsResponse:
        """Raise `NotFoundError` if there is no such namespace."""
        parts, _ = arguments(id)
        self._directory.namespace_properties(parts)
        return responses.NamespaceExistsResponse()

    def drop_namespace(
        self,
        id: Any,
        *,
        mode: str = "fail",
        behavior: str = "restrict",
    ) -> responses.DropNamespaceResponse:
        """Remove an empty namespace.

        Parameters
        ----------
        mode
            With ``"skip"``, the namespace need not exist.
        behavior
            Only ``"restrict"``: the contents of a namespace are never dropped with it.

        Raises
        ------
        NotFoundError
            There is no such namespace.
        InvalidInputError
            The namespace is not empty, or it is the root.
        """
        parts, (mode, behavior) = arguments(id, mode=mode, behavior=behavior)
        one_of(behavior, "restrict")
        is_lenient = one_of(mode, "fail", "skip") == "skip"
        try:
            self._directory.drop_namespace(parts)
        except NotFoundError:
            if not is_lenient:
                raise
        return responses.DropNamespaceResponse()

    # -- tables ---------------------------------------------------------------------------------------------

    def create_table(
        self,
        id: Any,
        data: Any = None,
        properties: Mapping[str, str] | None = None,
        *,
        mode: str = "create",
    ) -> responses.CreateTableResponse:
        """Write a new table or a declared table.

        Parameters
        ----------
        data
            Any data that `lance_df.write_dataset` accepts, or the bytes of an Arrow IPC stream.
        mode
            With ``"exist_ok"``, an existing table is not changed. With ``"overwrite"``, an existing table
            gets a new version with only these rows and these properties.

        Raises
        ------
        AlreadyExistsError
            There is a namespace or table with this id.
        NotFoundError
            The namespace does not exist.
        InvalidInputError, UnsupportedFeatureError
            The data cannot be stored.
        """
        parts, (properties, mode) = arguments(id, properties=properties, mode=mode)
        properties = checked_properties(properties)
        mode = one_of(mode, "create", "existok", "overwrite")
        table_entry = None if mode == "create" else self._tables.find_table(parts)
        if table_entry is not None and holds_table(self._tables.folder(table_entry)):
            if mode == "existok":
                return self._created(table_entry, None)
            return self._overwritten(parts, table_entry, data, properties)
        version = 0

        def write(folder: Location) -> None:
            nonlocal version
            version = written_version(folder, data, "create")

        return self._created(self._tables.create_table(parts, properties, write), version)

    def declare_table(
        self,
        id: Any,
        properties: Mapping[str, str] | None = None,
        *,
        location: str | None = None,
    ) -> responses.DeclareTableResponse:
        """Reserve an id for a table that is going to be written to the returned location.

        Raises
        ------
        AlreadyExistsError
            There is a namespace or table with this id.
        NotFoundError
            The namespace does not exist.
        InvalidInputError
            The call requests a location. The namespace always chooses the location itself.
        """
        parts, (properties, location) = arguments(id, properties=properties, location=location)
        if location is not None:
            raise InvalidInputError(
                "location cannot be given, the namespace chooses it; leave it out, or use register_table"
            )
        table_entry = self._tables.declare_table(parts, checked_properties(properties))
        return responses.DeclareTableResponse(
            location=self._uri(table_entry), properties=table_entry.properties
        )

    create_empty_table = declare_table

    def register_table(
        self,
        id: Any,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        mode: str = "create",
    ) -> responses.RegisterTableResponse:
        """Register an existing table in a folder of the root under an id.

        Parameters
        ----------
        location
            The folder, relative to the root.

        Raises
        ------
        AlreadyExistsError
            There is a namespace or table with this id, or the folder belongs to another table.
        NotFoundError
            The namespace does not exist, or there is no table in the folder.
        InvalidInputError
            The location is not a path within the root.
        """
        parts, (location, properties, mode) = arguments(
            id, location=location, properties=properties, mode=mode
        )
        one_of(mode, "create")
        if not isinstance(location, str):
            raise InvalidInputError("location of the table must be given")
        table_entry = self._tables.register_table(parts, location, checked_properties(properties))
        return responses.RegisterTableResponse(
            location=table_entry.location, properties=table_entry.properties
        )

    def deregister_table(self, id: Any) -> responses.RemoveTableResponse:
        """Remove the id of a table without removing its folder. Raises `DatasetNotFoundError`."""
        parts, _ = arguments(id)
        return self._removed(parts, self._tables.deregister_table(parts))

    def drop_table(self, id: Any) -> responses.RemoveTableResponse:
        """Remove a table and its folder. Raises `DatasetNotFoundError`."""
        parts, _ = arguments(id)
        return self._removed(parts, self._tables.drop_table(parts))

    def describe_table(
        self,
        id: Any,
        *,
        version: int | None = None,
        load_detailed_metadata: bool = False,
        check_declared: bool = False,
    ) -> responses.DescribeTableResponse:
        """Return the location and properties of a table, and on request its version and schema.

        Parameters
        ----------
        version
            The version to describe. The default is the newest one. The table is opened only if a version or
            details are requested.
        load_detailed_metadata
            Whether to open the table and return its version and schema.
        check_declared
            Whether to check if the table is written or only declared.

        Raises
        ------
        DatasetNotFoundError
            There is no such table, or its folder no longer exists.
        VersionNotFoundError
            The table has no such version.
        """
        parts, (version, detailed, check) = arguments(
            id, version=version, load_detailed_metadata=load_detailed_metadata, check_declared=check_declared
        )
        table_entry = self._tables.table(parts)
        folder = self._tables.folder(table_entry)
        is_written = holds_table(folder) if detailed or check or version is not None else None
        table = None
        if (detailed or version is not None) and (is_written or version is not None):
            table = open_ref(Shared(folder), ResolvedRef(None, version))
        return responses.DescribeTableResponse(
            table=parts[-1],
            namespace=list(parts[:-1]),
            location=folder.uri,
            table_uri=folder.uri,
            properties=table_entry.properties,
            version=None if table is None else table.version,
            var_schema=None if table is None else schema_to_json(table.arrow_schema),
            is_only_declared=None if is_written is None else not is_written,
        )

    def table_exists(self, id: Any) -> responses.TableExistsResponse:
        """Raise `DatasetNotFoundError` if there is no such table."""
        parts, _ = arguments(id)
        self._tables.table(parts)
        return responses.TableExistsResponse()

    def list_tables(
        self,
        id: Any = (),
        *,
        page_token: str | None = None,
        limit: int | None = None,
        include_declared: bool = True,
    ) -> responses.ListTablesResponse:
        """List the tables directly in a namespace, by default in the root.

        Raises
        ------
        NotFoundError
            There is no such namespace.
        """
        parts, (page_token, limit, include_declared) = arguments(
            id, page_token=page_token, limit=limit, include_declared=include_declared
        )
        names = self._tables.tables(parts)
        if not include_declared:
            names = [name for name in names if self._is_written((*parts, name))]
        names, token = page(names, page_token, limit)
        return responses.ListTablesResponse(tables=names, page_token=token)

    def list_all_tables(
        self,
        id: Any = (),
        *,
        page_token: str | None = None,
        limit: int | None = None,
    ) -> responses.ListTablesResponse:
        """List the ids of the tables of all namespaces."""
        _, (page_token, limit) = arguments(id, page_token=page_token, limit=limit)
        ids, token = page(self._tables.all_tables(), page_token, limit)
        return responses.ListTablesResponse(tables=ids, page_token=token)

    # -- how ------------------------------------------------------------------------------------------------

    def _uri(self, table_entry: DirectoryTable) -> str:
        return self._tables.folder(table_entry).uri

    def _created(self, table_entry: DirectoryTable, version: int | None) -> responses.CreateTableResponse:
        return responses.CreateTableResponse(
            location=self._uri(table_entry), version=version, properties=table_entry.properties
        )

    def _overwritten(
        self, parts: Parts, table_entry: DirectoryTable, data: Any, properties: Mapping[str, str] | None
    ) -> responses.CreateTableResponse:
        self._tables.check_changeable(parts, properties)
        version = written_version(self._tables.folder(table_entry), data, "overwrite")
        if (properties or None) != (table_entry.properties or None):
            table_entry = self._tables.set_properties(parts, table_entry, properties)
        return self._created(table_entry, version)

    def _removed(self, parts: Parts, table_entry: DirectoryTable) -> responses.RemoveTableResponse:
        return responses.RemoveTableResponse(
            id=list(parts), location=self._uri(table_entry), properties=table_entry.properties
        )


def _opened(kind: type[DirectoryNamespace], arguments: dict[str, Any]) -> DirectoryNamespace:
    return kind(**arguments)
