"""Versions and transactions of the tables of a directory."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from lance_df.api.directory import table_responses as responses
from lance_df.api.directory.calls import DirectoryCalls, arguments, member, needed, transaction_id
from lance_df.arguments import checked_items
from lance_df.errors import InvalidInputError, NotFoundError
from lance_df.namespace.directory.names import id_parts
from lance_df.table.metadata.versions import VERSIONS_DIR, parse_manifest_name

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset

_SUCCEEDED: Final = "SUCCEEDED"


class DirectoryVersions(DirectoryCalls):
    """Methods that list, describe, restore and remove versions, and find transactions."""

    def list_table_versions(
        self,
        id: Any,
        *,
        branch: str | None = None,
        descending: bool = False,
        page_token: str | None = None,
        limit: int | None = None,
    ) -> responses.ListTableVersionsResponse:
        """List versions, oldest first unless ``descending`` is set.

        Raises
        ------
        DatasetNotFoundError
            There is no such table, or no such branch.
        InvalidInputError
            The token is invalid, or the limit is less than 1.
        """
        parts, (branch, descending, page_token, limit) = arguments(
            id, branch=branch, descending=descending, page_token=page_token, limit=limit
        )
        versions = _versions(self._opened(parts, branch))
        if descending:
            versions.reverse()
        if page_token is not None:
            last = _number(page_token)
            versions = [each for each in versions if (each.version < last) == bool(descending)]
            versions = [each for each in versions if each.version != last]
        if limit is None or len(versions) <= limit:
            return responses.ListTableVersionsResponse(versions=versions)
        return responses.ListTableVersionsResponse(
            versions=versions[:limit], page_token=str(versions[limit - 1].version)
        )

    def describe_table_version(
        self,
        id: Any,
        *,
        version: int | None = None,
        branch: str | None = None,
    ) -> Any:
        """Return a version, by default the newest one, and its manifest file.

        Returns
        -------
        A response with the attribute ``version``. If the request is a dict, a dict, as in pylance.

        Raises
        ------
        DatasetNotFoundError
            There is no such table, or no such version or branch.
        """
        parts, (version, branch) = arguments(id, version=version, branch=branch)
        dataset = self._opened(parts, branch, version)
        described = next(each for each in _versions(dataset) if each.version == dataset.version)
        return _answer(id, responses.DescribeTableVersionResponse(version=described))

    def batch_delete_table_versions(
        self,
        id: Any,
        ranges: Iterable[Any] | None = None,
        *,
        branch: str | None = None,
    ) -> Any:
        """Remove versions, and the files that no other version needs.

        Parameters
        ----------
        ranges
            Pairs of the first version and the version after the last one, which may be -1 for all later
            versions. In a request, objects with ``start_version`` and ``end_version``. The newest version is
            never removed.

        Returns
        -------
        A response with ``deleted_count``. If the request is a dict, a dict, as in pylance.

        Raises
        ------
        DatasetNotFoundError
            There is no such table, or no such branch.
        InvalidInputError
            A range is malformed, or a version in it has a tag.
        """
        parts, (ranges, branch) = arguments(id, ranges=ranges, branch=branch)
        given = checked_items(
            needed(ranges, "the ranges of versions"), "ranges", "a list of ranges of versions"
        )
        bounds = [_bounds(each) for each in given]
        dataset = self._to_change(parts, branch)
        chosen = [
            number
            for number in dataset._table.history.numbers()
            if number < dataset.version and any(start <= number < end for start, end in bounds)
        ]
        removed = dataset.cleanup_old_versions(versions=chosen).old_versions if chosen else 0
        return _answer(id, responses.BatchDeleteTableVersionsResponse(deleted_count=removed))

    def restore_table(
        self,
        id: Any,
        version: int | None = None,
        *,
        branch: str | None = None,
    ) -> responses.VersionResponse:
        """Create a new version with the content of an older one.

        Raises
        ------
        DatasetNotFoundError
            There is no such table, or no such version or branch.
        """
        parts, (version, branch) = arguments(id, version=version, branch=branch)
        self._tables.check_changeable(parts)
        dataset = self._opened(parts, branch, needed(version, "the version to restore"))
        dataset.restore()
        return responses.VersionResponse(version=dataset.version, transaction_id=transaction_id(dataset))

    def describe_transaction(
        self,
        id: Any,
    ) -> responses.DescribeTransactionResponse:
        """Return a transaction that was committed to a table.

        Parameters
        ----------
        id
            The id of the table, followed by the id of the transaction or the number of the version that it
            made.

        Raises
        ------
        DatasetNotFoundError
            There is no such table.
        NotFoundError
            This transaction made no version of main.
        """
        given, _ = arguments(id)
        if len(given) < 2:
            raise InvalidInputError(
                f"id must be the id of a table followed by that of a transaction, got {list(given)!r:.60}"
            )
        *parts, wanted = given
        dataset = self._opened(id_parts(parts))
        for number in reversed(dataset._table.history.numbers()):
            transaction = dataset.read_transaction(number)
            if transaction is not None and wanted in (transaction.uuid, str(number)):
                properties = {
                    "uuid": transaction.uuid,
                    "version": str(number),
                    "read_version": str(transaction.read_version),
                    "operation": type(transaction.operation).__name__,
                }
                return responses.DescribeTransactionResponse(status=_SUCCEEDED, properties=properties)
        raise NotFoundError(f"{dataset.uri}: transaction {wanted!r} does not exist")


def _versions(dataset: LanceDataset) -> list[responses.TableVersion]:
    """Return the versions of a branch, the oldest first."""
    table = dataset._table
    folder = table.location / VERSIONS_DIR
    listed = {
        parsed[0]: entry
        for entry in folder.list()
        if not entry.is_directory and (parsed := parse_manifest_name(entry.name)) is not None
    }
    return [
        responses.TableVersion(
            version=number,
            manifest_path=(folder / entry.name).path.lstrip("/"),
            manifest_size=entry.size,
            e_tag=entry.mark or None,
            timestamp_millis=None if (time := file.manifest.timestamp) is None else _millis(time),
        )
        for number, file in table.history.open_all()
        if (entry := listed.get(number)) is not None
    ]


def _millis(time: dt.datetime) -> int:
    return (time - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(milliseconds=1)


def _number(token: str) -> int:
    if not token.isdecimal():
        raise InvalidInputError(f"{token!r:.40} is not a page token of a list of versions")
    return int(token)


def _bounds(given: Any) -> tuple[float, float]:
    """Return the first version of a range, and the one after its last."""
    if isinstance(given, tuple | list) and len(given) == 2:
        start, end = given
    else:
        start, end = member(given, "start_version"), member(given, "end_version")
    if not isinstance(start, int) or not isinstance(end, int):
        raise InvalidInputError(
            f"a range of versions needs a start_version and an end_version, got {given!r:.100}"
        )
    return start, float("inf") if end == -1 else end


def _answer(request: Any, response: Any) -> Any:
    """Return a response as a dict where the request is one."""
    return asdict(response) if isinstance(request, Mapping) else response
