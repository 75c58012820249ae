"""Check, repair and describe a partitioned namespace."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from lance_df.api.directory.responses import DescribeNamespaceResponse, DescribeTableResponse
from lance_df.arguments import checked_flag, checked_type
from lance_df.errors import DatasetNotFoundError, NotFoundError
from lance_df.namespace.directory.manifest import DirectoryManifest
from lance_df.namespace.directory.names import folder_at, id_parts, joined
from lance_df.namespace.health.orphans import ORPHAN_AGE
from lance_df.namespace.health.repair import RepairOptions, repair_namespace
from lance_df.namespace.health.verify import verify_namespace
from lance_df.namespace.published import members_at
from lance_df.namespace.spec.json_arrow import schema_to_json
from lance_df.storage import open_location

if TYPE_CHECKING:
    from lance_df.namespace.health.findings import VerifyReport
    from lance_df.namespace.health.repair_report import RepairReport
    from lance_df.namespace.snapshot import NamespaceSnapshot


class NamespaceHealth:
    """Methods that describe, check and repair a namespace."""

    _table: NamespaceSnapshot

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Check the newest version of the namespace.

        `lance_df.verify` also checks namespaces that cannot be opened.

        Parameters
        ----------
        deep
            Read all rows, and compare their partition values with the values that queries are pruned by.
        """
        return verify_namespace(self._table.root, deep=checked_flag(deep, "deep"))

    @classmethod
    def repair(
        cls,
        root: str | os.PathLike[str],
        *,
        dry_run: bool = False,
        publish_newer: bool = False,
        forget_missing: bool = False,
        remove_orphans: bool = False,
        older_than: dt.timedelta = ORPHAN_AGE,
        storage_options: Mapping[str, Any] | None = None,
    ) -> RepairReport:
        """Repair a namespace, even one that cannot be opened. An intact namespace is not changed.

        Missing rows of ``__manifest`` are restored from its older versions, or else from the tables. No row
        of a table is lost: a table that cannot be a member is moved to the namespace ``set_aside``, where
        `DirectoryNamespace` finds it.

        Parameters
        ----------
        dry_run
            Only report what would be done.
        publish_newer
            Publish versions that other programs committed directly to member tables, if the rows fit the
            partition.
        forget_missing
            Remove the manifest rows of tables whose folders no longer exist.
        remove_orphans
            Remove folders of members that no version of the namespace names and that nobody has written to
            for ``older_than``. An ``older_than`` of less than a week is safe only if nobody writes to the
            namespace.

        Raises
        ------
        NotFoundError
            There is no partitioned namespace.
        CorruptDataError
            No version of ``__manifest`` has the required information.
        ConflictError
            Other writers kept committing first.
        CommitStateUnknownError
            It is not known whether the repair was published. It is safe to repair again.
        """
        options = RepairOptions(
            dry_run=checked_flag(dry_run, "dry_run"),
            publish_newer=checked_flag(publish_newer, "publish_newer"),
            forget_missing=checked_flag(forget_missing, "forget_missing"),
            remove_orphans=checked_flag(remove_orphans, "remove_orphans"),
            older_than=checked_type(older_than, "older_than", dt.timedelta, "a datetime.timedelta"),
        )
        return repair_namespace(open_location(root, storage_options), options)

    def describe(self, id: Any = ()) -> dict[str, dict[str, str]]:
        """Return ``{"properties": …}`` of a namespace within this one, by default of the root.

        The properties of the root are its specs and its schema. Those of a spec version are its
        ``partition_spec``. Those of a partition are the value of its level, ``partition.<field_id>``, unless
        the value is NULL.

        Parameters
        ----------
        id
            A list of names, or text such as ``"v1$k7m2n9p4q8r5s3t6"``.

        Raises
        ------
        NotFoundError
            There is no such namespace.
        """
        return {"properties": dict(self.describe_namespace(id).properties or {})}

    def describe_namespace(self, id: Any = ()) -> DescribeNamespaceResponse:
        """Return the properties of a namespace, as `DirectoryNamespace` does; see `describe`."""
        parts = id_parts(getattr(id, "id", id))
        manifest = DirectoryManifest(self._table.manifest.table)
        if not parts:
            return DescribeNamespaceResponse(properties=manifest.root_properties)
        entry = manifest.find(joined(parts))
        if entry is None or not entry.is_namespace:
            raise NotFoundError(f"{self._table.uri}: namespace {joined(parts)!r} does not exist")
        computed = manifest.runtime_properties(entry.object_id)
        return DescribeNamespaceResponse(properties={**(entry.properties or {}), **computed} or None)

    def describe_table(
        self,
        id: Any,
        *,
        load_detailed_metadata: bool = False,
    ) -> DescribeTableResponse:
        """Return the location of a member and the version that is read.

        See `DirectoryNamespace.describe_table`.

        Raises
        ------
        DatasetNotFoundError
            There is no such table.
        """
        parts = id_parts(getattr(id, "id", id))
        name = joined(parts)
        entry = DirectoryManifest(self._table.manifest.table).find(name) if parts else None
        if entry is None or not entry.is_table or entry.location is None:
            raise DatasetNotFoundError(f"{self._table.uri}: table {name!r} does not exist")
        folder = folder_at(self._table.root, entry.location)
        manifest = self._table.manifest
        is_named = pc.equal(manifest.members["object_id"], name)
        positions = np.flatnonzero(is_named.to_numpy())
        version = next((member.version for member in members_at(self._table.root, manifest, positions)), None)
        is_detailed = load_detailed_metadata or getattr(id, "load_detailed_metadata", False)
        table = None
        if len(positions) and (is_detailed or version is None):
            table = self._table.open_members(positions)[0]
        return DescribeTableResponse(
            table=parts[-1],
            namespace=list(parts[:-1]),
            location=folder.uri,
            table_uri=folder.uri,
            properties=entry.properties,
            version=version if table is None else table.version,
            var_schema=schema_to_json(table.arrow_schema) if table is not None and is_detailed else None,
        )
