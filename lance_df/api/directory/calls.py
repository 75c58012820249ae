"""Helpers with which the methods of `DirectoryNamespace` read their arguments and open tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from lance_df.arguments import checked_flag, checked_integer, checked_text
from lance_df.errors import InvalidInputError
from lance_df.namespace.directory.folders import holds_table
from lance_df.namespace.directory.names import Parts, id_parts
from lance_df.sources import to_batches
from lance_df.table.metadata.refs import resolve
from lance_df.table.reading.batches import CountedBatches, close_source
from lance_df.table.shared import Shared
from lance_df.table.table import open_ref
from lance_df.table.writing.write import Mode, write_table

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset
    from lance_df.namespace.directory.tables import DirectoryTables
    from lance_df.storage import Location

Named = TypeVar("Named")

_TEXTS = ("page_token", "branch", "from_branch", "predicate", "index_name", "name", "column", "index_type")
_FLAGS = (
    *("descending", "load_detailed_metadata", "check_declared", "include_declared"),
    *("when_matched_update_all", "when_not_matched_insert_all", "when_not_matched_by_source_delete"),
)
_CHECKS: dict[str, Callable[[Any, str], object]] = {
    **dict.fromkeys(_TEXTS, checked_text),
    **dict.fromkeys(_FLAGS, checked_flag),
    "limit": lambda value, name: checked_integer(value, name, 1),
}


class DirectoryCalls:
    """The base of the classes that `DirectoryNamespace` consists of. It opens tables as datasets."""

    _tables: DirectoryTables

    def _opened(self, parts: Parts, branch: str | None = None, version: int | None = None) -> LanceDataset:
        """Open a table to read it.

        Raises
        ------
        DatasetNotFoundError
            There is no such table, or it is only declared.
        VersionNotFoundError
            The table has no such branch or version.
        """
        from lance_df.dataset import LanceDataset

        folder = self._tables.folder(self._tables.table(parts))
        table = open_ref(Shared(folder), resolve(folder, (branch, version), branch=None))
        return LanceDataset._of(table, folder.uri, None, None)

    def _to_change(self, parts: Parts, branch: str | None = None) -> LanceDataset:
        """Open the newest version of a table to change it. Raises the errors of `_opened`.

        Raises
        ------
        InvalidInputError
            The table is a member of a partitioned namespace.
        """
        self._tables.check_changeable(parts)
        return self._opened(parts, branch)

    def _is_written(self, parts: Parts) -> bool:
        table_entry = self._tables.find_table(parts)
        return table_entry is not None and holds_table(self._tables.folder(table_entry))


class CountedRows:
    """Rows to write, and the number of rows that have been read so far.

    Use it as a context manager. When the context ends, no thread reads the rows any more.
    """

    def __init__(self, data: Any) -> None:
        self.schema, self._batches = to_batches(ipc_or_data(data))
        self._counted = CountedBatches(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        close_source(self._batches)

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows. It can be called once."""
        return pa.RecordBatchReader.from_batches(self.schema, self._counted)

    @property
    def num_rows(self) -> int:
        return self._counted.num_rows


def arguments(target: Any, **given: Any) -> tuple[Parts, list[Any]]:
    """Return the parts of an id, and the other arguments. Values of a request replace the given arguments.

    A request is a mapping, or an object with attributes.

    Raises
    ------
    InvalidInputError
        An argument has the wrong type.
    """
    if isinstance(target, Mapping) or hasattr(target, "id"):
        requested = {name: member(target, name) for name in given}
        given = {name: given[name] if requested[name] is None else requested[name] for name in given}
        target = member(target, "id")
    for name, value in given.items():
        if value is not None and name in _CHECKS:
            _CHECKS[name](value, name)
    return id_parts(target), list(given.values())


def member(owner: Any, name: str) -> Any:
    """Return a member of a mapping or an attribute of an object; None if it does not exist."""
    return owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)


def needed(value: Any, what: str) -> Any:
    """Return a required argument.

    Raises
    ------
    InvalidInputError
        The argument is missing.
    """
    if value is None:
        raise InvalidInputError(f"{what} must be given")
    return value


def checked_properties(properties: Any) -> Mapping[str, str] | None:
    """Return properties; None if there are none.

    Raises
    ------
    InvalidInputError
        The properties are not a mapping of texts.
    """
    if properties is None:
        return None
    is_mapping = isinstance(properties, Mapping)
    if not is_mapping or not all(isinstance(text, str) for pair in properties.items() for text in pair):
        raise InvalidInputError(f"properties must be a dict of strings, got {properties!r:.100}")
    return dict(properties) or None


def one_of(value: Any, *known: str) -> str:
    """Return an option in its normalized spelling. pylance accepts several spellings."""
    option = value.replace("_", "").lower() if isinstance(value, str) else value
    if option not in known:
        raise InvalidInputError(f"{value!r} is not supported; use one of {', '.join(map(repr, known))}")
    return str(option)


def page(names: list[str], token: str | None, limit: int | None) -> tuple[list[str], str | None]:
    """Return at most ``limit`` names after a token, and the token for the rest."""
    rest = [name for name in names if token is None or name > token]
    if limit is None or len(rest) <= limit:
        return rest, None
    return rest[:limit], rest[limit - 1]


def page_of(
    named: Mapping[str, Named], token: str | None, limit: int | None
) -> tuple[dict[str, Named], str | None]:
    """Return the items whose names are in a `page`, by name."""
    names, token = page(sorted(named), token, limit)
    return {name: named[name] for name in names}, token


def ipc_or_data(data: Any) -> Any:
    """Return the rows of an Arrow IPC stream. Other data is returned unchanged.

    Raises
    ------
    InvalidInputError
        Bytes are not an Arrow IPC stream.
    """
    if not isinstance(data, bytes | bytearray | memoryview | pa.Buffer):
        return data
    try:
        return pa.ipc.open_stream(data).read_all()
    except pa.ArrowException as err:
        raise InvalidInputError(f"the bytes are not an Arrow IPC stream: {err}") from err


def written_version(folder: Location, data: Any, mode: Mode) -> int:
    """Write a table, and return the new version."""
    schema, batches = to_batches(ipc_or_data(data))
    return write_table(folder, schema, batches, mode=mode).manifest.version


def transaction_id(dataset: LanceDataset) -> str | None:
    """Return the id of the transaction that made the version of a dataset, if it is recorded."""
    transaction = dataset.read_transaction(dataset.version)
    return None if transaction is None else transaction.uuid
