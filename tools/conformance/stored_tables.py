"""How rows are stored: as a Lance table, or as a partitioned namespace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

import lance_df
from lance_df import partition
from lance_df.errors import LanceError
from lance_df.partition import PartitionBy
from tools.conformance.answers import Answer, difference_of_rows

FILE_VERSIONS: Final = ("2.0", "2.1", "2.2")
_FRAGMENTS: Final = 3
_MOST_PARTITIONS: Final = 12


class Reads(Protocol):
    """A table or a namespace."""

    @property
    def uri(self) -> str: ...

    def to_table(self) -> pa.Table: ...


class StoredTables:
    """Writes tables of Lance below a folder.

    Parameters
    ----------
    folder
        Where they are written.
    """

    is_ordered = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0

    def write(
        self, rows: pa.Table, uri: str | None, fragments: int = _FRAGMENTS
    ) -> tuple[Reads | None, str | None]:
        """Store rows, in the place of those at a URI if that is possible.

        Returns
        -------
        What was stored, None where Lance does not have the types of the rows; and in what it differs from the
        rows, None where it does not.
        """
        self._number += 1
        stored = next(self._attempts(rows, uri, fragments), None)
        if stored is None:
            return None, None
        return stored, _difference(stored.to_table(), rows, is_ordered=self.is_ordered)

    def _attempts(self, rows: pa.Table, uri: str | None, fragments: int) -> Iterator[Reads]:
        """Yield what can be stored, one after the other; the caller takes the first."""
        most = max(1, -(-rows.num_rows // fragments))
        version = FILE_VERSIONS[self._number % len(FILE_VERSIONS)]
        if any(re.search("struct|map", str(kind)) for kind in rows.schema.types):
            version = FILE_VERSIONS[-1]  # 2.0 has no NULLs of structs, and 2.1 no maps
        new = str(self._folder / f"{self._number}.lance")
        for target, mode in ((uri, "overwrite"), (new, "create")):
            if target is not None:
                yield from _unless_refused(
                    lambda target=target, mode=mode: lance_df.write_dataset(
                        rows, target, mode=mode, data_storage_version=version, max_rows_per_file=most
                    )
                )


class StoredNamespaces(StoredTables):
    """Writes tables as partitioned namespaces, those that have a column to partition by."""

    is_ordered = False

    def _attempts(self, rows: pa.Table, uri: str | None, fragments: int) -> Iterator[Reads]:
        if uri is not None and not uri.endswith(".lance"):
            yield from _unless_refused(lambda: _replaced(uri, rows))
        fields = partition_fields(rows)
        start = self._number % max(1, len(fields))
        for index, by in enumerate(fields[start:] + fields[:start]):
            root = str(self._folder / f"{self._number}-{index}")
            yield from _unless_refused(lambda root=root, by=by: _created(root, rows, by, fragments))
        yield from super()._attempts(rows, None, fragments)


def _unless_refused(write: Any) -> Iterator[Reads]:
    try:
        stored = write()
    except (LanceError, pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError):
        return  # where nothing can be written, memory keeps the rows
    yield stored


def _created(root: str, rows: pa.Table, by: list[PartitionBy], fragments: int) -> Reads:
    namespace = lance_df.PartitionedNamespace.create(root, rows.schema, by)
    step = max(1, -(-rows.num_rows // fragments))
    for start in range(0, rows.num_rows, step):
        namespace.append(rows.slice(start, step))
    return namespace


def _replaced(root: str, rows: pa.Table) -> Reads:
    namespace = lance_df.PartitionedNamespace.open(root)
    if namespace.schema.names != rows.schema.names:
        raise ValueError("other columns")
    with namespace.transaction() as change:
        change.delete("true")
        change.append(rows)
    return namespace


def partition_fields(rows: pa.Table) -> list[list[PartitionBy]]:
    """Return ways to partition rows into a few parts: by one column, and by two."""
    single = [by for name in rows.column_names if name.isidentifier() for by in _fields_of(rows, name)]
    pairs = zip(single, islice(single, len(single) // 2, None), strict=False)
    return [[by] for by in single] + [[one, other] for one, other in pairs if one.columns != other.columns]


def _fields_of(rows: pa.Table, name: str) -> Iterator[PartitionBy]:
    kind = rows.schema.field(name).type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return
    try:
        distinct = len(rows.column(name).unique())
    except pa.ArrowException:
        return
    if distinct <= _MOST_PARTITIONS:
        yield partition.identity(name)
    yield partition.bucket(name, 3)
    if pa.types.is_integer(kind):
        yield partition.expression("col0 % 3", [name], field_id=f"{name}_rest")
    if pa.types.is_string(kind) and distinct <= _MOST_PARTITIONS:
        yield partition.truncate(name, 1)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        yield partition.month(name)


def _difference(stored: pa.Table, rows: pa.Table, *, is_ordered: bool) -> str | None:
    found, wanted = (Answer(each.schema, tuple(each.to_batches())) for each in (stored, rows))
    return difference_of_rows(found, wanted, is_ordered=is_ordered)
