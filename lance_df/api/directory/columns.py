"""Change the columns of the tables of a directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.api.directory import table_responses as responses
from lance_df.api.directory.calls import DirectoryCalls, arguments, member, needed, transaction_id
from lance_df.arguments import checked_items, checked_names
from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.spec.json_arrow import type_from_json

if TYPE_CHECKING:
    from lance_df.api.schema_changes import AlterColumn
    from lance_df.dataset import LanceDataset


class DirectoryColumns(DirectoryCalls):
    """Methods that change columns and schema metadata, with the errors of `lance_df.LanceDataset`."""

    def alter_table_add_columns(
        self,
        id: Any,
        new_columns: Mapping[str, str] | Iterable[Any] | None = None,
        *,
        branch: str | None = None,
    ) -> responses.VersionResponse:
        """Add columns.

        Parameters
        ----------
        new_columns
            SQL expressions by name; in a request, objects with ``name`` and ``expression``.

        Raises
        ------
        DatasetNotFoundError
            There is no such table.
        InvalidInputError
            A column exists already, has no expression, or has an invalid one.
        UnsupportedFeatureError
            A service is requested to compute a column.
        """
        parts, (new_columns, branch) = arguments(id, new_columns=new_columns, branch=branch)
        given = needed(new_columns, "the columns to add")
        if isinstance(given, Mapping):
            expressions = dict(given)
        else:
            expected = "a dict or a list of columns and SQL expressions"
            expressions = dict(map(_expression, checked_items(given, "new_columns", expected)))
        dataset = self._to_change(parts, branch)
        if expressions:
            dataset.add_columns(expressions)
        return _changed(dataset)

    def alter_table_alter_columns(
        self,
        id: Any,
        alterations: Sequence[Any] | None = None,
        *,
        branch: str | None = None,
    ) -> responses.VersionResponse:
        """Rename columns, change whether they are nullable, or change their types.

        Parameters
        ----------
        alterations
            Objects with ``path`` and one or more of ``rename``, ``nullable`` and ``data_type``. The type is a
            pyarrow type, or JSON such as ``{"type": "int64"}``.

        Raises
        ------
        DatasetNotFoundError, ColumnNotFoundError
            There is no such table or column.
        InvalidInputError
            Names clash, a type is invalid, or values do not fit it.
        """
        parts, (alterations, branch) = arguments(id, alterations=alterations, branch=branch)
        given = checked_items(needed(alterations, "the alterations"), "alterations", "a list of alterations")
        wanted = [_alteration(each) for each in given]
        dataset = self._to_change(parts, branch)
        if wanted := [each for each in wanted if len(each) > 1]:
            dataset.alter_columns(*wanted)
        return _changed(dataset)

    def alter_table_drop_columns(
        self,
        id: Any,
        columns: Sequence[str] | None = None,
        *,
        branch: str | None = None,
    ) -> responses.VersionResponse:
        """Drop columns. Raises `DatasetNotFoundError` and `ColumnNotFoundError`."""
        parts, (columns, branch) = arguments(id, columns=columns, branch=branch)
        names = checked_names(needed(columns, "the names of the columns to drop"), "columns")
        dataset = self._to_change(parts, branch)
        if names:
            dataset.drop_columns(names)
        return _changed(dataset)

    def update_table_schema_metadata(
        self,
        id: Any,
        metadata: Mapping[str, str] | None = None,
        *,
        branch: str | None = None,
    ) -> responses.UpdateTableSchemaMetadataResponse:
        """Change entries of the schema metadata, and return all of it. Raises `DatasetNotFoundError`."""
        parts, (metadata, branch) = arguments(id, metadata=metadata, branch=branch)
        dataset = self._to_change(parts, branch)
        updated = dataset.update_schema_metadata(metadata or {})
        return responses.UpdateTableSchemaMetadataResponse(
            metadata=updated, transaction_id=transaction_id(dataset)
        )


def _changed(dataset: LanceDataset) -> responses.VersionResponse:
    return responses.VersionResponse(version=dataset.version, transaction_id=transaction_id(dataset))


def _expression(entry: Any) -> tuple[str, str]:
    name = member(entry, "name")
    if member(entry, "virtual_column") is not None or member(entry, "computed") is not None:
        raise UnsupportedFeatureError(
            f"column {name!r} cannot be computed by a service; give it an expression"
        )
    expression = member(entry, "expression")
    if not isinstance(name, str) or not isinstance(expression, str):
        raise InvalidInputError(f"a new column needs a name and an expression, got {entry!r:.100}")
    return name, expression


def _alteration(entry: Any) -> AlterColumn:
    """Return an alteration as `LanceDataset.alter_columns` takes it."""
    path = member(entry, "path")
    if not isinstance(path, str):
        raise InvalidInputError(f"an alteration needs the path of a column, got {entry!r:.100}")
    if member(entry, "virtual_column") is not None:
        raise UnsupportedFeatureError(f"column {path!r} cannot be computed by a service")
    alteration: AlterColumn = {"path": path}
    if (name := member(entry, "rename")) is not None:
        alteration["name"] = name
    if (nullable := member(entry, "nullable")) is not None:
        alteration["nullable"] = nullable
    if (given := member(entry, "data_type")) is not None:
        alteration["data_type"] = _data_type(given, path)
    return alteration


def _data_type(given: Any, path: str) -> pa.DataType:
    if isinstance(given, pa.DataType):
        return given
    try:
        return type_from_json({"type": given} if isinstance(given, str) else given, source=f"column {path!r}")
    except CorruptDataError as err:
        raise InvalidInputError(str(err)) from err
