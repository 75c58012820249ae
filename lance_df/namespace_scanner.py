"""Scanners of partitioned namespaces, and members of namespaces as fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.arrow_classes import ArrowFragment
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.member_subset import ChosenMembers
from lance_df.scanner import LanceScanner

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lance_df.api.namespaces.namespace import PartitionedNamespace
    from lance_df.format.schema import Schema
    from lance_df.scan.plan import ScanPlan
    from lance_df.scan.request import ScanRequest
    from lance_df.scanner_options import Columns, Filter, ScannerOptions

# options that concern the rows of single tables
_OF_MEMBERS = ("with_row_id", "with_row_address", "include_deleted_rows", "fragment_ids")


class NamespaceScanner(LanceScanner):
    """A scan of one version of a partitioned namespace that has not run yet. Every method runs it again.

    Rows are returned in the order of the members, and within a member in the order of its table.
    """

    _ends_with_fragments = False  # members are often small

    def __init__(self, dataset: Any, options: ScannerOptions) -> None:
        super().__init__(dataset, options)
        for name in _OF_MEMBERS:
            if getattr(options, name):
                raise UnsupportedFeatureError(
                    f"scanner option {name!r} is not supported for a namespace, because row ids and "
                    "fragments belong to its members; open a member with lance_df.dataset"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return NamespaceScanner, (self._ds, self._options)

    @property
    def _stored_schema(self) -> Schema:
        columns: Schema = self._table.manifest.schema.columns
        return columns

    def _plan_of(self, request: ScanRequest) -> ScanPlan:
        plan: ScanPlan = self._table.plan(request)
        return plan

    def _skip_fragments(self) -> tuple[ScannerOptions, int]:
        return self._options, self._options.offset or 0


class NamespaceFragment(ArrowFragment):
    """Some members of a partitioned namespace, as `PartitionedNamespace.get_fragments` returns them."""

    def __init__(self, namespace: PartitionedNamespace, positions: tuple[int, ...]) -> None:
        self._namespace = namespace
        self._positions = positions

    def __reduce__(self) -> tuple[Any, ...]:
        return NamespaceFragment, (self._namespace, self._positions)

    def __repr__(self) -> str:
        return f"<lance_df.NamespaceFragment of {self._namespace.uri}: {len(self._positions)} members>"

    @property
    def object_ids(self) -> list[str]:
        """Return the ids of the members."""
        ids: list[str] = (
            self._namespace._table.manifest.members["object_id"].take(self._positions).to_pylist()
        )
        return ids

    @property
    def physical_schema(self) -> pa.Schema:
        """Return the schema of the namespace."""
        return self._namespace.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Return TRUE, which holds for all rows."""
        return pc.scalar(True)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> NamespaceScanner:
        """Return a scan of these members; see `PartitionedNamespace.scanner`.

        Parameters
        ----------
        schema
            The schema of the namespace, which query engines pass.

        Raises
        ------
        InvalidInputError
            The schema has other columns.
        """
        check_scan_schema(schema, self._namespace.schema)
        whole = self._namespace._table
        member = self._namespace._with_table(ChosenMembers(whole, np.array(self._positions, np.intp), {}))
        return member.scanner(columns, filter, **options)

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        """Read the rows into a pyarrow Table; see `scanner`."""
        return self.scanner(schema, **options).to_table()

    def to_batches(self, schema: pa.Schema | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan; see `scanner`."""
        return self.scanner(schema, **options).to_batches()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first rows; see `scanner`."""
        return self.scanner(**{**options, "limit": num_rows}).to_table()

    def take(self, indices: npt.ArrayLike, **options: Any) -> pa.Table:
        """Return rows by their positions; see `scanner`."""
        return self.scanner(**options).take(indices)

    def count_rows(self, filter: Filter = None, **options: Any) -> int:
        """Return the number of rows, or of those that match an expression."""
        return self.scanner(filter=filter, **options).count_rows()


def check_scan_schema(given: pa.Schema | None, schema: pa.Schema) -> None:
    """Raise `InvalidInputError` if a scan requests columns that a schema does not have."""
    if given is not None and given.names != schema.names:
        raise InvalidInputError(
            "the schema of a scan cannot differ from the schema of its dataset; select columns with columns=…"
        )
