"""`PartitionedNamespace`: many Lance tables, one for each partition, used as one table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from lance_df.api.descriptions import namespace_html
from lance_df.api.namespaces.changes import NamespaceChanges
from lance_df.api.namespaces.columns import NamespaceColumns
from lance_df.api.namespaces.health import NamespaceHealth
from lance_df.api.namespaces.reading import NamespaceReading
from lance_df.api.namespaces.upkeep import NamespaceUpkeep
from lance_df.api.version_list import NamespaceVersionList
from lance_df.arguments import checked_type
from lance_df.errors import AlreadyExistsError, InvalidInputError
from lance_df.namespace.manifest_table import READ_FIELDS, NamespaceManifest
from lance_df.namespace.member import FILE_VERSION
from lance_df.namespace.metadata.history import HistoryTable
from lance_df.namespace.metadata.partitions import value_names
from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.namespace.snapshot import NamespaceSnapshot, holds_namespace
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_by import PartitionBy, resolve_all
from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
from lance_df.storage import Location, open_location
from lance_df.storage.schemes import with_allowed_schemes
from lance_df.table.metadata.refs import VersionRef
from lance_df.table.metadata.versions import VERSIONS_DIR
from lance_df.table.writing.schema_rules import check_schema


class PartitionedNamespace(
    NamespaceChanges, NamespaceColumns, NamespaceUpkeep, NamespaceHealth, NamespaceReading
):
    """A partitioned namespace at one version, as `create` and `open` return it.

    A change through this object moves it to the version that the change makes. Other objects keep their
    version.

    It is a `pyarrow.dataset.Dataset`. pandas, Polars, DuckDB and DataFusion can read it directly and push
    columns and filters into its scans.
    """

    _default_scan_options: Mapping[str, Any] | None = None

    def __init__(self, snapshot: NamespaceSnapshot) -> None:
        if isinstance(snapshot, str | os.PathLike):
            raise InvalidInputError(
                "use PartitionedNamespace.open(root) to open a namespace, or PartitionedNamespace.create to "
                "create one"
            )
        super().__init__(snapshot)

    @classmethod
    def create(
        cls,
        root: str | os.PathLike[str],
        schema: pa.Schema,
        partition_by: Sequence[PartitionBy | str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        allowed_base_schemes: Iterable[str] | None = None,
    ) -> Self:
        """Create an empty namespace.

        Parameters
        ----------
        root
            Path or URL of its folder.
        schema
            The schema that all members share.
        partition_by
            Partition fields of `lance_df.partition`, or strings such as ``"year(ts)"``, top level first.
        storage_options
            Options for the fsspec filesystem.
        allowed_base_schemes
            URL schemes that base paths of members may have; see `lance_df.dataset`.

        Raises
        ------
        AlreadyExistsError
            The folder already holds a namespace, a directory of tables with a ``__manifest``, or a table.
        ColumnNotFoundError, InvalidInputError
            A partition field does not fit the schema, or an expression does not meet the conditions of
            `lance_df.partition.expression`.
        UnsupportedFeatureError
            A type cannot be stored.
        """
        location = open_location(root, with_allowed_schemes(storage_options, allowed_base_schemes))
        location.check_is_folder()
        location.check_listable()
        columns = NamespaceSchema.create(checked_type(schema, "schema", pa.Schema, "a pyarrow Schema"))
        check_schema(columns.columns, FILE_VERSION)
        specs = PartitionSpecs((PartitionSpec(1, resolve_all(partition_by, columns)),))
        if holds_namespace(location):
            raise AlreadyExistsError(f"{location.uri}: a partitioned namespace already exists")
        if (location / VERSIONS_DIR).exists():
            raise AlreadyExistsError(
                f"{location.uri}: a table already exists here, and a namespace would hide it"
            )
        try:
            made = NamespaceManifest.create(location, columns, specs)
        except AlreadyExistsError as err:
            if holds_namespace(location):
                raise AlreadyExistsError(
                    f"{location.uri}: another writer created this namespace at the same time"
                ) from err
            raise AlreadyExistsError(
                f"{location.uri}: a directory of tables already exists here; its {MANIFEST_FOLDER} has no "
                "partition specs, and programs that do not know them would lose them with their next "
                "change. Create the partitioned namespace in a folder of its own, such as "
                f"{location.uri}/events"
            ) from err
        return cls(NamespaceSnapshot(location, made))

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        version: int | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        allowed_base_schemes: Iterable[str] | None = None,
    ) -> Self:
        """Open a namespace at its newest version or at an older one.

        Raises
        ------
        NotFoundError
            There is no partitioned namespace, or no such version.
        CorruptDataError
            Its ``__manifest`` is damaged.
        """
        options = with_allowed_schemes(storage_options, allowed_base_schemes)
        return cls(NamespaceSnapshot.open(open_location(root, options), version))

    def __repr__(self) -> str:
        return f"<lance_df.PartitionedNamespace {self.uri} version {self.version}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._table.root, self.version, self._default_scan_options)

    def __copy__(self) -> PartitionedNamespace:
        return self._with_table(self._table)

    def _repr_html_(self) -> str:
        return namespace_html(self, self._table)

    def __len__(self) -> int:
        return self.count_rows()

    def _free_cache(self) -> None:
        self._table.clear_cache()

    def _with_table(self, snapshot: NamespaceSnapshot) -> PartitionedNamespace:
        namespace = PartitionedNamespace(snapshot)
        namespace._default_scan_options = self._default_scan_options
        return namespace

    def _with_scan_options(self, options: Mapping[str, Any]) -> PartitionedNamespace:
        namespace = PartitionedNamespace(self._table)
        namespace._default_scan_options = options
        return namespace

    def _at_version(self, version: VersionRef | None) -> PartitionedNamespace:
        return self._with_table(self._table if version is None else self._table.checkout(version))

    @property
    def uri(self) -> str:
        """Return the folder of the namespace."""
        return self._table.uri

    @property
    def version(self) -> int:
        """Return the number of the open version."""
        return self._table.version

    @property
    def specs(self) -> tuple[PartitionSpec, ...]:
        """Return all versions of the partition spec. The last one is the current one."""
        return self._table.manifest.specs.versions

    def versions(self) -> NamespaceVersionList:
        """Return a dictionary for every version up to this one that still exists.

        The keys are ``version``, ``timestamp``, ``operation``, ``spec_version``, and the numbers of
        ``partitions_added``, ``partitions_changed`` and ``partitions_removed``.
        """
        history = HistoryTable(self._table)
        names = frozenset(history.columns().names)
        return NamespaceVersionList(history.completed(history.known(), names).to_pylist())

    def at(self, version: int) -> PartitionedNamespace:
        """Return the namespace as it was at a version, with all members in the state they had then."""
        return self._with_table(self._table.checkout(version))

    def checkout_latest(self) -> None:
        """Move this object to the newest version."""
        self._table = self._table.latest()

    def partitions(self) -> pa.Table:
        """Return one row per partition: its values by field id, and the location and version of its table.

        If another column has the same name as a field, the values of the field are in ``partition_field_…``,
        as in SQL.
        """
        manifest = self._table.manifest
        columns = [field.column for field in manifest.specs.fields.values()]
        others = ["object_id", "location", *(field.name for field in READ_FIELDS)]
        partitions = manifest.members.select([*columns, *others])
        return partitions.rename_columns([*value_names(manifest, others), *others])


def _reopen(
    root: Location, version: int, default_scan_options: Mapping[str, Any] | None
) -> PartitionedNamespace:
    namespace = PartitionedNamespace(NamespaceSnapshot.open(root, version))
    namespace._default_scan_options = default_scan_options
    return namespace
