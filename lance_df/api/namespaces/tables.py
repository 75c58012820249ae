"""Find the location of a table through any client of the Lance namespace specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from lance_df.errors import DatasetNotFoundError, InvalidInputError


def table_location(client: Any, table_id: Sequence[str] | None) -> tuple[str, dict[str, Any]]:
    """Return the URI of a table of a namespace, and the storage options for it.

    Parameters
    ----------
    client
        A `lance_df.DirectoryNamespace`, or a client of ``lance_namespace``.
    table_id
        The names of the namespaces that contain the table, and the name of the table.

    Raises
    ------
    InvalidInputError
        There is no id, or the client cannot describe tables.
    DatasetNotFoundError
        The table was declared and has no location yet.
    """
    if not table_id:
        raise InvalidInputError("namespace_client needs table_id, such as ['sales', 'orders']")
    if not hasattr(client, "describe_table"):
        raise InvalidInputError(
            f"namespace_client must have a method describe_table(), {type(client).__name__} has none"
        )
    described = client.describe_table(_request(list(table_id)))
    if described.location is None:
        raise DatasetNotFoundError(f"table {list(table_id)} of the namespace has no location")
    options: Mapping[str, Any] = getattr(described, "storage_options", None) or {}
    return described.location, dict(options)


def _request(table_id: list[str]) -> Any:
    """Return a request of ``lance_namespace``, which its clients insist on, where it is installed."""
    try:
        from lance_namespace import DescribeTableRequest
    except ImportError:
        return SimpleNamespace(id=table_id, version=None)
    return DescribeTableRequest(id=table_id)
