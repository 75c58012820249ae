"""`DirectoryNamespace`: namespaces and tables below one folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Self

from lance_df.api import directory_responses as responses
from lance_df.api.descriptions import MAX_LISTED, directory_html
from lance_df.api.directory_calls import (
    arguments,
    checked_properties,
    one_of,
    page,
    written_version,
)
from lance_df.api.directory_columns import DirectoryColumns
from lance_df.api.directory_indices import DirectoryIndices
from lance_df.api.directory_queries import DirectoryQueries
from lance_df.api.directory_refs import DirectoryRefs
from lance_df.api.directory_refused import DirectoryRefused
from lance_df.api.directory_rows import DirectoryRows
from lance_df.api.directory_versions import DirectoryVersions
from lance_df.api.namespace_client import is_true, storage_properties
from lance_df.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lance_df.namespace.directory.directory import Directory
from lance_df.namespace.directory.folders import holds_table
from lance_df.namespace.directory.names import Parts
from lance_df.namespace.directory.tables import DirectoryTable, DirectoryTables
from lance_df.namespace.spec.json_arrow import schema_to_json
from lance_df.storage import Location, open_location
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
    """Namespaces and tables in one folder, which pylance's class of this name can work on as well.

    Every method takes an id, a list of names or text such as ``"sales$orders"``, and plain arguments, or
    instead of all these one request of pylance's: anything that has an attribute ``id``, or a dict. Safe to
    share between threads, and with other processes.

    Parameters
    ----------
    root
        Path or URL of the folder, which need not exist.
    storage_options
        For the fsspec filesystem.
    allowed_base_schemes
        Kinds of URLs that base paths of tables may have, see `lance_df.dataset`.
    manifest_enabled
        Whether there are namespaces, and properties: rows of the table ``__manifest``.
    dir_listing_enabled
        Whether folders ``x.lance`` right in the root are tables, also without a row.
    session, context_provider
        Taken so that calls written for pylance work; they have no effect.
    **properties
        What pylance's class takes as text, such as ``lance_namespace.connect`` passes on: storage options as
        ``storage.region``.

    Raises
    ------
    InvalidInputError
        A property that is not known, or a setting that is neither true nor false.
    UnsupportedFeatureError
        ``__manifest`` needs a reader that knows more.
    CorruptDataError
        It is damaged.
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
        options = {**storage_properties(properties), **(storage_options or {})} or None
        uses_manifest = is_true("manifest_enabled", manifest_enabled)
        uses_listing = is_true("dir_listing_enabled", dir_listing_enabled)
        location = open_location(root, with_allowed_schemes(options, allowed_base_schemes))
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
        """Free what is cached of ``__manifest``; used again, it is read again."""
        self._directory.free_cache()

    def _repr_html_(self) -> str:
        return directory_html(
            self._directory.root.uri,
            lambda: self.list_namespaces(limit=MAX_LISTED).namespaces,
            lambda: self.list_tables(limit=MAX_LISTED).tables,
        )

    def namespace_id(self) -> str:
        """Return what identifies this namespace: the text that pylance has for it."""
        return f'DirectoryNamespace {{ root: "{self._directory.root.uri}" }}'

    # -- namespaces -----------------------------------------------------------------------------------------

    def create_namespace(
        self,
        id: Any,
        properties: Mapping[str, str] | None = None,
        *,
        mode: str = "create",
    ) -> responses.CreateNamespaceResponse:
        """Make a namespace.

        Parameters
        ----------
        mode
            ``"exist_ok"`` leaves one that is there as it is.

        Raises
        ------
        AlreadyExistsError
            There is a namespace or table of this id.
        NotFoundError
            The namespace that it should be in does not exist.
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
        """List the namespaces right in a namespace, by default in the root.

        Raises
        ------
        NotFoundError
            There is no such namespace.
        """
        parts, (page_token, limit) = arguments(id, page_token=page_token, limit=limit)
        names, token = page(self._directory.namespaces(parts), page_token, limit)
        return responses.ListNamespacesResponse(namespaces=names, page_token=token)

    def describe_namespace(self, id: Any) -> responses.DescribeNamespaceResponse:
        """Return the properties of a namespace; raises `NotFoundError`."""
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
            ``"skip"`` if it need not exist.
        behavior
            ``"restrict"``: what is in a namespace is never dropped with it.

        Raises
        ------
        NotFoundError
            There is none.
        InvalidInputError
            Something is in it, or it is the root.
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
        """Write a new table, or one that is declared.

        Parameters
        ----------
        data
            As for `lance_df.write_dataset`, or the bytes of an Arrow IPC stream.
        mode
            ``"exist_ok"`` leaves a table that is there as it is, ``"overwrite"`` gives it a new version of
            just these rows, and these properties.

        Raises
        ------
        AlreadyExistsError
            There is a namespace or table of this id.
        NotFoundError
            The namespace does not exist.
        InvalidInputError, UnsupportedFeatureError
            Data that cannot be stored.
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
        """Take an id for a table that is to be written to the location that is returned.

        Raises
        ------
        AlreadyExistsError
            There is a namespace or table of this id.
        NotFoundError
            The namespace does not exist.
        InvalidInputError
            A location is asked for: it is the namespace that chooses one.
        """
        parts, (properties, location) = arguments(id, properties=properties, location=location)
        if location is not None:
            raise InvalidInputError(
                "the namespace chooses the location of a table: leave it out, or register it"
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
        """Give a table that is in a folder of the root a name.

        Parameters
        ----------
        location
            The folder, relative to the root.

        Raises
        ------
        AlreadyExistsError
            There is a namespace or table of this id, or the folder is that of another table.
        NotFoundError
            The namespace does not exist, or there is no table in the folder.
        InvalidInputError
            The location is no path within the root.
        """
        parts, (location, properties, mode) = arguments(
            id, location=location, properties=properties, mode=mode
        )
        one_of(mode, "create")
        if not isinstance(location, str):
            raise InvalidInputError("the location of the table is needed")
        table_entry = self._tables.register_table(parts, location, checked_properties(properties))
        return responses.RegisterTableResponse(
            location=table_entry.location, properties=table_entry.properties
        )

    def deregister_table(self, id: Any) -> responses.RemoveTableResponse:
        """Forget a table, and leave its folder; raises `DatasetNotFoundError`."""
        parts, _ = arguments(id)
        return self._removed(parts, self._tables.deregister_table(parts))

    def drop_table(self, id: Any) -> responses.RemoveTableResponse:
        """Remove a table with its folder; raises `DatasetNotFoundError`."""
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
        """Return where a table is, its properties, and more if that is asked for.

        Parameters
        ----------
        version
            By default the newest one. It is looked at where details are asked for, or a version is.
        load_detailed_metadata
            Whether to open the table for its version and schema.
        check_declared
            Whether to find out if there is a table, or if it is declared only.

        Raises
        ------
        DatasetNotFoundError
            There is none, or its folder is gone.
        VersionNotFoundError
            It has no such version.
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
        """List the tables right in a namespace, by default in the root.

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
