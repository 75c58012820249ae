"""One version of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyroaring import BitMap

    from lance_df.file.reader import FileReader
    from lance_df.format.fragments import DataFile, Fragment, FragmentList
    from lance_df.format.manifest import IndexMetadata, Manifest
    from lance_df.format.row_ids import RunSequence
    from lance_df.format.schema import Schema
    from lance_df.format.transaction import Transaction
    from lance_df.storage import Location
    from lance_df.table.row_ids import RowIdIndex


class Table:
    """An immutable view of one version. `fragments` is lazy: its arrays `ids`, `physical_rows`, `num_deleted`
    describe all fragments at once, items are made on access."""

    uri: str
    location: Location
    version: int
    branch: str | None
    manifest: Manifest
    schema: Schema
    arrow_schema: pa.Schema
    fragments: FragmentList
    uses_stable_row_ids: bool
    indices: tuple[IndexMetadata, ...]

    def latest_version(self) -> int:
        raise NotImplementedError

    def versions(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def checkout(self, version: int | str | tuple[str | None, int | None] | None) -> Table:
        raise NotImplementedError

    def tags(self) -> dict[str, Any]:
        raise NotImplementedError

    def branches(self) -> dict[str, Any]:
        raise NotImplementedError

    def transaction(self, version: int | None = None) -> Transaction | None:
        raise NotImplementedError

    def count_rows(self) -> int:
        raise NotImplementedError

    def fragment(self, fragment_id: int) -> Fragment:
        raise NotImplementedError

    def fragment_rows(self, fragment: Fragment) -> int:
        raise NotImplementedError

    def deletion_vector(self, fragment: Fragment) -> BitMap | None:
        raise NotImplementedError

    def open_data_file(self, fragment: Fragment, data_file: DataFile) -> FileReader:
        raise NotImplementedError

    def row_ids(self, fragment: Fragment) -> RunSequence:
        raise NotImplementedError

    def row_id_sequence(self, fragment: Fragment) -> npt.NDArray[np.uint64]:
        raise NotImplementedError

    def row_version_sequences(self, fragment: Fragment) -> tuple[RunSequence, RunSequence]:
        raise NotImplementedError

    def row_id_index(self) -> RowIdIndex:
        raise NotImplementedError
