"""`PartitionedNamespace`: many Lance tables as one, by partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.api.namespace_changes import NamespaceChanges
from lance_df.api.namespace_columns import NamespaceColumns
from lance_df.api.namespace_health import NamespaceHealth
from lance_df.api.namespace_upkeep import NamespaceUpkeep
from lance_df.engine.query import plan_with_sql, scan_with_sql
from lance_df.errors import AlreadyExistsError, InvalidInputError
from lance_df.exits import busy
from lance_df.namespace.manifest_table import READ_FIELDS, NamespaceManifest
from lance_df.namespace.member import FILE_VERSION
from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.namespace.snapshot import NamespaceSnapshot, holds_namespace
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_by import PartitionBy, resolve_all
from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
from lance_df.scan.plan import ScanPlan
from lance_df.sql.expressions import with_quoted_columns
from lance_df.storage import open_location
from lance_df.storage.schemes import with_allowed_schemes
from lance_df.table.metadata.versions import VERSIONS_DIR
from lance_df.table.writing.schema_rules import check_schema


class PartitionedNamespace(NamespaceChanges, NamespaceColumns, NamespaceUpkeep, NamespaceHealth):
    """A partitioned namespace, at one version. Made by `create` or `open`.

    Changes move this object on to the version that they made; other objects stay where they are.
    """

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
        """Make an empty namespace.

        Parameters
        ----------
        root
            Path or URL of its folder.
        schema
            The columns of all members.
        partition_by
            Partition fields of `lance_df.partition`, or texts such as ``"year(ts)"``, top level first.
        storage_options
            For the fsspec filesystem.
        allowed_base_schemes
            Kinds of URLs that base paths of members may have, see `lance_df.dataset`.

        Raises
        ------
        AlreadyExistsError
            There is a namespace already, a directory of tables with a ``__manifest``, or a table.
        ColumnNotFoundError, InvalidInputError
            A partition field does not fit the schema, or an expression does not meet the demands.
        UnsupportedFeatureError
            A type that cannot be stored.
        """
        location = open_location(root, with_allowed_schemes(storage_options, allowed_base_schemes))
        columns = NamespaceSchema.create(schema)
        check_schema(columns.columns, FILE_VERSION)
        specs = PartitionSpecs((PartitionSpec(1, resolve_all(partition_by, columns)),))
        if holds_namespace(location):
            raise AlreadyExistsError(f"{location.uri}: there is a partitioned namespace already")
        if (location / VERSIONS_DIR).exists():
            raise AlreadyExistsError(f"{location.uri}: there is a table, which would be hidden")
        try:
            made = NamespaceManifest.create(location, columns, specs)
        except AlreadyExistsError as err:
            raise AlreadyExistsError(
                f"{location.uri}: there is a directory of tables, whose {MANIFEST_FOLDER} has no partition "
                "specs, and would lose them when a program that does not know them changes it; create the "
                f"partitioned namespace in a folder of its own, such as {location.uri}/events"
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
        """Open a namespace, at its newest version or an older one.

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

    @property
    def uri(self) -> str:
        """The folder of the namespace."""
        return self._table.uri

    @property
    def version(self) -> int:
        """The version that is open."""
        return self._table.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of all members, in the types of what is read."""
        # extension types that pyarrow knows are made of what is said of them when a schema comes to it
        return pa.Schema._import_from_c_capsule(self._table.arrow_schema.__arrow_c_schema__())

    @property
    def specs(self) -> tuple[PartitionSpec, ...]:
        """All versions of the partition spec, the current one last."""
        return self._table.manifest.specs.versions

    def at(self, version: int) -> PartitionedNamespace:
        """Return the namespace as it was at a version: all members in the state that they had then."""
        return PartitionedNamespace(self._table.checkout(version))

    def checkout_latest(self) -> None:
        """Move this object to the newest version."""
        self._table = self._table.latest()

    def partitions(self) -> pa.Table:
        """Return the partitions: their values by field id, where their tables are, and at which version."""
        members = self._table.manifest.members
        fields = self._table.manifest.specs.fields
        columns = [field.column for field in fields.values()]
        partitions = members.select(
            [*columns, "object_id", "location", *(field.name for field in READ_FIELDS)]
        )
        return partitions.rename_columns([*fields, *partitions.column_names[len(columns) :]])

    def plan_scan(self, filter: str | pc.Expression | None = None) -> ScanPlan:  # noqa: A002 - pylance's name
        """Return the plan of a scan; its ``report`` says what would be read.

        Parameters
        ----------
        filter
            An SQL expression, a pyarrow one, or None for all rows; see `to_batches`.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            A name or the expression is wrong.
        """
        text, condition = self._filter(filter)
        return plan_with_sql(self._table, filter=text, condition=condition)

    def to_batches(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of rows.

        Parameters
        ----------
        columns
            Names, or names and SQL expressions.
        filter
            An SQL expression, or a pyarrow one. As in all SQL expressions over a namespace, what is in double
            quotes is a column if one has exactly that name; otherwise it is text, as in filters of a
            `LanceDataset`.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            A name or an expression is wrong.
        """
        return iter(self._reader(columns, filter))

    def to_table(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
    ) -> pa.Table:
        """Read into memory; see `to_batches`."""
        with busy():
            return self._reader(columns, filter).read_all()

    def count_rows(self, filter: str | pc.Expression | None = None) -> int:  # noqa: A002
        """Return the number of rows, or of those for which a filter is true; see `to_batches`."""
        if filter is None:
            return self._table.count_rows()
        return sum(batch.num_rows for batch in self._reader([self.schema.names[0]], filter))

    def _reader(
        self,
        columns: Sequence[str] | Mapping[str, str] | None,
        filter: str | pc.Expression | None,  # noqa: A002
    ) -> pa.RecordBatchReader:
        text, condition = self._filter(filter)
        if isinstance(columns, str):
            raise InvalidInputError(f"columns are a list of names, not {columns!r:.60}")
        if isinstance(columns, Mapping):
            names = self._table.arrow_schema.names
            columns = {name: with_quoted_columns(each, names) for name, each in columns.items()}
        return scan_with_sql(self._table, columns=columns, filter=text, condition=condition)

    def _filter(
        self,
        filter: str | pc.Expression | None,  # noqa: A002
    ) -> tuple[str | None, pc.Expression | None]:
        """Return a filter as SQL text or as a pyarrow expression; None for what it is not."""
        if not isinstance(filter, str | pc.Expression | None):
            raise InvalidInputError(
                f"a filter is SQL text or a pyarrow expression, not {type(filter).__name__}"
            )
        if isinstance(filter, str):
            return with_quoted_columns(filter, self._table.arrow_schema.names), None
        return None, filter
