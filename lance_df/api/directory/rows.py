"""Change rows of the tables of a directory."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lance_df.api.directory import table_responses as responses
from lance_df.api.directory.calls import (
    CountedRows,
    DirectoryCalls,
    arguments,
    needed,
    one_of,
    transaction_id,
    written_version,
)
from lance_df.arguments import checked_items, checked_text, invalid
from lance_df.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from lance_df.namespace.directory.names import Parts
    from lance_df.storage import Location

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)")
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


class DirectoryRows(DirectoryCalls):
    """Methods that change rows. Each change is one commit to the newest version of a branch.

    The default branch is main.
    """

    def insert_into_table(
        self,
        id: Any,
        data: Any = None,
        *,
        mode: str = "append",
        branch: str | None = None,
    ) -> responses.InsertIntoTableResponse:
        """Write rows to a table, which may be only declared.

        Parameters
        ----------
        data
            Any data that `lance_df.write_dataset` accepts, or the bytes of an Arrow IPC stream.
        mode
            ``"append"``, or ``"overwrite"`` for a version with only these rows.

        Raises
        ------
        DatasetNotFoundError
            There is no such table.
        InvalidInputError
            The data does not fit the table.
        """
        parts, (mode, branch) = arguments(id, mode=mode, branch=branch)
        option = one_of(mode, "append", "overwrite")
        with CountedRows(needed(data, "the data to insert")) as rows:
            if branch is None and self._is_declared_only(parts):
                return responses.InsertIntoTableResponse(
                    version=self._written(parts, rows), num_inserted_rows=rows.num_rows
                )
            dataset = self._to_change(parts, branch)
            dataset.insert(rows.reader(), mode="append" if option == "append" else "overwrite")
        return responses.InsertIntoTableResponse(
            version=dataset.version, num_inserted_rows=rows.num_rows, transaction_id=transaction_id(dataset)
        )

    def merge_insert_into_table(
        self,
        id: Any,
        data: Any = None,
        *,
        on: str | Sequence[str] | None = None,
        when_matched_update_all: bool = False,
        when_matched_update_all_filt: str | None = None,
        when_not_matched_insert_all: bool = False,
        when_not_matched_by_source_delete: bool = False,
        when_not_matched_by_source_delete_filt: str | None = None,
        timeout: str | None = None,
        branch: str | None = None,
    ) -> responses.MergeInsertIntoTableResponse:
        """Merge rows into a table by their keys; see `lance_df.LanceDataset.merge_insert`.

        If the table is only declared and the merge inserts rows, all rows are inserted, because none of them
        matches.

        Parameters
        ----------
        data
            As for :meth:`insert_into_table`.
        on
            The key columns.
        when_matched_update_all_filt
            An SQL expression over ``source.…`` and ``target.…``. Only matches for which it is true are
            updated.
        when_not_matched_by_source_delete_filt
            An SQL expression over the columns of the table. Of the rows without a match, only those for which
            it is true are deleted.
        timeout
            How long to compute the merge again after conflicts, such as ``"30s"`` or ``"5m"``.

        Raises
        ------
        DatasetNotFoundError
            There is no such table.
        InvalidInputError
            There is no key, the merge does nothing, or the data does not fit the table.
        """
        parts, (on, updates, which, inserts, deletes, which_deleted, timeout, branch) = arguments(
            id,
            on=on,
            when_matched_update_all=when_matched_update_all,
            when_matched_update_all_filt=when_matched_update_all_filt,
            when_not_matched_insert_all=when_not_matched_insert_all,
            when_not_matched_by_source_delete=when_not_matched_by_source_delete,
            when_not_matched_by_source_delete_filt=when_not_matched_by_source_delete_filt,
            timeout=timeout,
            branch=branch,
        )
        keys = needed(on, "the key columns (on)")
        with CountedRows(needed(data, "the data to merge")) as rows:
            if inserts and branch is None and self._is_declared_only(parts):
                return responses.MergeInsertIntoTableResponse(
                    version=self._written(parts, rows),
                    num_updated_rows=0,
                    num_inserted_rows=rows.num_rows,
                    num_deleted_rows=0,
                )
            dataset = self._to_change(parts, branch)
            builder = dataset.merge_insert(keys)
            if updates:
                builder.when_matched_update_all(which)
            if inserts:
                builder.when_not_matched_insert_all()
            if deletes:
                builder.when_not_matched_by_source_delete(which_deleted)
            if timeout is not None:
                builder.retry_timeout(_duration(timeout))
            merged = builder.execute(rows.reader())
        return responses.MergeInsertIntoTableResponse(
            version=dataset.version, transaction_id=transaction_id(dataset), **merged
        )

    def update_table(
        self,
        id: Any,
        updates: Mapping[str, str] | Iterable[Sequence[str]] | None = None,
        *,
        predicate: str | None = None,
        properties: Mapping[str, str] | None = None,
        branch: str | None = None,
    ) -> responses.UpdateTableResponse:
        """Set columns to new values in the rows for which a predicate is true.

        See `lance_df.LanceDataset.update`.

        Parameters
        ----------
        updates
            Columns and the SQL expressions of their new values, as a mapping or as pairs.
        predicate
            An SQL expression. The default is all rows.

        Raises
        ------
        DatasetNotFoundError
            There is no such table.
        InvalidInputError
            There are no updates, or an expression is invalid.
        UnsupportedFeatureError
            The call requests that properties are stored with the change.
        """
        parts, (updates, predicate, properties, branch) = arguments(
            id, updates=updates, predicate=predicate, properties=properties, branch=branch
        )
        if properties:
            raise UnsupportedFeatureError("properties are not supported in an update; set those of the table")
        expressions = _expressions(updates or ())
        if not expressions:
            raise InvalidInputError("an update needs at least one column with an expression")
        dataset = self._to_change(parts, branch)
        result = dataset.update(expressions, where=predicate)
        return responses.UpdateTableResponse(
            version=dataset.version,
            updated_rows=result["num_rows_updated"],
            transaction_id=transaction_id(dataset),
        )

    def delete_from_table(
        self,
        id: Any,
        predicate: str | None = None,
        *,
        branch: str | None = None,
    ) -> responses.VersionResponse:
        """Delete the rows for which an SQL predicate is true.

        Raises
        ------
        DatasetNotFoundError
            There is no such table.
        InvalidInputError
            The predicate is missing or invalid.
        """
        parts, (predicate, branch) = arguments(id, predicate=predicate, branch=branch)
        dataset = self._to_change(parts, branch)
        dataset.delete(needed(predicate, "the predicate of the rows to delete"))
        return responses.VersionResponse(version=dataset.version, transaction_id=transaction_id(dataset))

    def _is_declared_only(self, parts: Parts) -> bool:
        return self._tables.find_table(parts) is not None and not self._is_written(parts)

    def _written(self, parts: Parts, rows: CountedRows) -> int:
        """Write the first version of a declared table."""
        version = 0

        def write(folder: Location) -> None:
            nonlocal version
            version = written_version(folder, rows.reader(), "create")

        self._tables.create_table(parts, None, write)
        return version


def _expressions(updates: Any) -> dict[str, str]:
    expected = "a dict or pairs of columns and SQL expressions"
    if isinstance(updates, Mapping):
        return dict(updates)
    pairs = checked_items(updates, "updates", expected)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise invalid("updates", updates, expected)
    return {checked_text(column, "a column in updates"): text for column, text in pairs}


def _duration(text: object) -> dt.timedelta:
    match = _DURATION.fullmatch(str(text))
    if match is None:
        raise InvalidInputError(
            f"timeout must be a number with the unit ms, s, m or h, such as '30s', got {text!r:.40}"
        )
    return dt.timedelta(**{_UNITS[match[2]]: float(match[1])})
