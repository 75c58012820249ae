"""Rows identified by a key, and the search for rows with the same keys in a namespace.

A row with an existing key may be in any partition of any spec version. If partition fields are computed from
key columns only, the keys determine which partitions can have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError
from lance_df.expr.text_views import parts_of_texts
from lance_df.namespace.keys import value_keys
from lance_df.namespace.pruning.spec_members import members_by_spec
from lance_df.namespace.spec.partition_values import partition_values
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.sliced_lists import unsliced
from lance_df.table.changes.key_index import KeyIndex
from lance_df.table.changes.matching import Matches, key_pruning_predicate, pairs_task
from lance_df.table.key_values import key_columns
from lance_df.table.scan.plan import plan_scan
from lance_df.table.writing.conform import conform, schema_to_write

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.schema import Schema
    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionField
    from lance_df.scan.plan import ScanTask
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table


class Duplicates(StrEnum):
    """What to do if several rows have the same key."""

    ERROR = "error"
    FIRST = "first"
    LAST = "last"


class KeyedRows:
    """Rows in memory with distinct keys. A key that contains NULL equals no other key.

    Attributes
    ----------
    rows
        The rows, with some or all columns of the namespace.
    schema
        The part of the namespace's schema that the rows have.
    """

    def __init__(self, rows: pa.Table, schema: Schema, names: tuple[str, ...]) -> None:
        self.rows = rows
        self.schema = schema
        self._names = names
        self._keys = key_columns(rows, names)
        self._index = KeyIndex(self._keys)
        self._matched_rows: dict[tuple[str, int], npt.NDArray[np.int64]] = {}

    @classmethod
    def of(
        cls,
        schema: NamespaceSchema,
        names: tuple[str, ...],
        data_schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        duplicates: Duplicates,
    ) -> KeyedRows:
        """Convert data to the columns of a namespace, and make keys distinct.

        Raises
        ------
        InvalidInputError
            The data does not fit the schema or lacks key columns or non-nullable columns; or several rows
            have the same key, if that is an error.
        UnsupportedFeatureError
            A key column has an unsupported type.
        """
        columns = schema_to_write(data_schema, schema.columns)
        if missing := [name for name in names if name not in columns.names]:
            raise InvalidInputError(f"the rows have no key column {missing[0]!r}")
        arrow = columns.to_arrow()
        parts = (part for batch in batches for part in parts_of_texts(batch))
        whole = [pa.RecordBatch.from_arrays(conform(part, columns), schema=arrow) for part in parts]
        rows = pa.Table.from_batches(whole, arrow)
        return cls(_with_distinct_keys(rows, names, duplicates), columns, names)

    def candidates(self, draft: Draft) -> list[DraftMember]:
        """Return the members that may have rows with the keys."""
        return draft.members_at(members_with_keys(draft.manifest, self._names, self._complete_keys()))

    def find(self, tables: Sequence[Table]) -> Iterator[tuple[int, Addresses]]:
        """Yield positions of tables, and the addresses of their rows with one of the keys."""
        matched: list[list[npt.NDArray[np.int64]]] = [[np.empty(0, np.int64)] for _ in tables]
        for number, matches in self._search(tables):
            matched[number].append(matches.rows)
            yield number, matches.addresses
        for table, rows in zip(tables, matched, strict=True):
            self._matched_rows[table.location.path, table.version] = np.unique(np.concatenate(rows))

    def matches(self, tables: Sequence[Table]) -> list[Matches]:
        """Return the rows of each table that have one of the keys, in the order of the table."""
        matched: list[list[Matches]] = [[Matches.none()] for _ in tables]
        for number, matches in self._search(tables):
            matched[number].append(matches)
        return [
            Matches(
                np.concatenate([each.rows for each in of_table]),
                np.concatenate([each.addresses for each in of_table]),
            )
            for of_table in matched
        ]

    def _search(self, tables: Sequence[Table]) -> Iterator[tuple[int, Matches]]:
        tasks: list[ScanTask] = []
        if len(self._index):
            request = ScanRequest(
                columns=self._names,
                pruning_predicate=key_pruning_predicate(self._names, self._index),
                with_row_address=True,
                requires=Promise.ORDERED,
            )
            tasks = [
                pairs_task(task, self._index, number)
                for number, table in enumerate(tables)
                for task in plan_scan(table, request).tasks
            ]
        with closing(run_tasks(tasks)) as batches:
            for batch in batches:
                yield (
                    batch["number"][0].as_py(),
                    Matches(batch["row"].to_numpy(), batch["address"].to_numpy()),
                )

    def num_matched(self, states: Iterable[tuple[str, int]]) -> int:
        """Return how many rows had matches in the searched folders and versions."""
        matched = [self._matched_rows[state] for state in states if state in self._matched_rows]
        return len(np.unique(np.concatenate(matched))) if matched else 0

    def _complete_keys(self) -> list[pa.Array]:
        valid = np.logical_and.reduce([key.is_valid().to_numpy(zero_copy_only=False) for key in self._keys])
        return [unsliced(key).filter(pa.array(valid)) for key in self._keys]


def _with_distinct_keys(rows: pa.Table, names: Sequence[str], duplicates: Duplicates) -> pa.Table:
    """Return one row for each key, and all rows whose key contains NULL."""
    keys = key_columns(rows, names)
    numbers, positions = KeyIndex(keys).pairs(keys)
    others = np.flatnonzero(numbers != positions)
    if not len(others):
        return rows
    if duplicates is Duplicates.ERROR:
        first = int(positions[others[0]])
        key = ", ".join(f"{name} = {keys[index][first].as_py()!r:.60}" for index, name in enumerate(names))
        raise InvalidInputError(
            f"several rows have the key {key}; pass duplicates='last' or 'first', or remove the duplicate "
            "rows"
        )
    chosen = np.arange(rows.num_rows)
    pick = np.maximum if duplicates is Duplicates.LAST else np.minimum
    pick.at(chosen, positions, numbers)
    return unsliced(rows).filter(pa.array(chosen == np.arange(rows.num_rows)))


def members_with_keys(
    manifest: NamespaceManifest, names: Sequence[str], keys: Sequence[pa.Array]
) -> npt.NDArray[np.bool_]:
    """Return which rows of ``manifest.members`` may have rows with some keys."""
    by_id = {manifest.schema.columns.field(name).id: key for name, key in zip(names, keys, strict=True)}
    needed = np.ones(len(manifest.members), dtype=np.bool_)
    for members in members_by_spec(manifest):
        wanted: list[pa.Array] = []
        known: list[pa.Array] = []
        for field in members.spec.fields:
            values = _values(field, by_id)
            if values is not None:
                wanted.append(values)
                known.append(members.values[field.column])
        if wanted:
            is_wanted = pc.is_in(value_keys(known), pc.unique(value_keys(wanted)))
            selected = is_wanted.to_numpy(zero_copy_only=False)
            needed[members.positions] = selected if members.unproven is None else selected | members.unproven
    return needed


def _values(field: PartitionField, keys: dict[int, pa.Array]) -> pa.Array | None:
    """Return the partition values of keys, or None if keys do not determine them."""
    columns = [keys.get(field_id) for field_id in field.source_ids]
    known = [column for column in columns if column is not None]
    # an expression may distinguish -0.0 from 0.0, or different NaN, which are equal as keys
    is_exact = field.transform is not None or not any(pa.types.is_floating(each.type) for each in known)
    if len(known) == len(columns) and is_exact:
        with suppress(InvalidInputError):
            return partition_values(field, known)
    return None
