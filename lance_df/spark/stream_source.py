"""Structured Streaming from a table or a namespace: read the rows that new versions add exactly once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lance_df.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.records import dataclass
from lance_df.spark.additions import additions
from lance_df.spark.opened import SourceRef
from lance_df.spark.reading import Split, read_pieces
from lance_df.spark.splits import plan_added, plan_splits, repacked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from lance_df.namespace.kind import Source
    from lance_df.spark.additions import Addition, Fragments
    from lance_df.spark.options import SourceOptions
    from lance_df.spark.splits import Piece


@dataclass(frozen=True, slots=True)
class Offset:
    """The position up to which a query has read.

    Attributes
    ----------
    version
        The last version that was read; 0 for none.
    begin, whole
        For the first batch of a query: the version after which it begins, and whether it also reads all rows
        of that version. A query that restarts before its first batch is complete reads the same rows.
    """

    version: int
    begin: int | None = None
    whole: bool = False

    @classmethod
    def parse(cls, stored: dict[str, object]) -> Self:
        """Parse an offset from a checkpoint.

        Raises
        ------
        InvalidInputError
            The offset belongs to another source.
        """
        match stored:
            case {"version": int(version), "begin": int(begin), "whole": bool(whole)}:
                return cls(version, begin, whole)
            case {"version": int(version)} if len(stored) == 1:
                return cls(version)
        raise InvalidInputError(
            f"the checkpoint has the offset {stored!r}, which is not an offset of lance_df"
        )

    def stored(self) -> dict[str, object]:
        """Return the offset in the form of the checkpoint."""
        if self.begin is None:
            return {"version": self.version}
        return {"version": self.version, "begin": self.begin, "whole": self.whole}


class LanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows that versions between two offsets add. An object exists as long as its query."""

    def __init__(self, source: Source, options: SourceOptions, schema: StructType) -> None:
        self._source: Source | None = source
        self._options = options
        self._schema = schema
        self._schema_version = source.version
        self._last: int | None = None

    def __getstate__(self) -> dict[str, object]:
        # tasks open the source by the reference in their split
        return {**self.__dict__, "_source": None}

    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        """Return the offset at which a new query begins.

        Raises
        ------
        VersionNotFoundError
            The version to start from was removed, or does not exist yet.
        """
        newest = self._latest()
        start = self._options.starting_version
        if start is None:
            return Offset(0, newest.version, whole=True).stored()
        if start == "latest":
            return Offset(newest.version, newest.version).stored()
        numbers = _numbers(newest)
        if start == "earliest":
            return Offset(0, numbers[0], whole=True).stored()
        if start not in numbers and start != numbers[-1] + 1:
            raise VersionNotFoundError(
                f"{newest.uri}: startingVersion is {start}, but the versions are {numbers[0]} to "
                f"{numbers[-1]}"
            )
        return Offset(int(start) - 1, int(start) - 1).stored()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch by the options."""
        if self._options.max_versions is not None:
            return ReadMaxFiles(self._options.max_versions)  # Spark has no limit of versions
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the newest version, which is the last one that this run of the query reads."""
        self._last = self._latest().version

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        """Return the newest version for the progress report of the query."""
        return Offset(self._latest().version).stored()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Return the end of the next batch, which has whole versions, and at least one if there is one."""
        begin = Offset.parse(start)
        newest = self._latest()
        if newest.version < begin.version:
            raise VersionNotFoundError(
                f"{newest.uri}: the checkpoint is at version {begin.version}, but the newest version is "
                f"{newest.version}, so the checkpoint belongs to another table; start again with a new "
                "checkpoint"
            )
        last = newest.version if self._last is None else self._last
        if begin.whole and begin.version == 0:
            if not isinstance(limit, ReadAllAvailable) and self._is_limited:
                last = begin.begin or 0
            return Offset(max(last, begin.begin or 0), begin.begin, whole=True).stored()
        if last <= begin.version:
            return start
        if not isinstance(limit, ReadAllAvailable) and self._is_limited:
            last = self._limited(newest, begin.version, last)
        # only the first offset after the initial one has the begin of the query
        is_first = begin.begin is not None and begin.begin == begin.version and not begin.whole
        return Offset(last, begin.begin if is_first else None).stored()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Return the splits of a batch.

        Raises
        ------
        UnsupportedFeatureError
            A version does more than add rows, and the option ``skipChangeCommits`` is not set.
        VersionNotFoundError
            A version was removed before it was read.
        """
        first, last = Offset.parse(start), Offset.parse(end)
        if last.begin is None or first.begin is None:
            begin, whole = first.version, False
        else:
            begin, whole = last.begin, last.whole
        if first == last or (begin >= last.version and not whole):
            return []
        newest = self._latest()
        splits = self._whole(newest, begin) if whole else []
        for version, fragments in self._runs(newest, begin, last.version):
            splits += self._added(_checked_out(newest, version), fragments)
        return [Split(pieces) for pieces in repacked(splits, self._options.split_bytes, _parallelism())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        if not isinstance(partition, Split):
            raise TypeError(f"expected a split of lance_df, got {partition!r}")
        yield from read_pieces(partition.pieces, self._schema)

    def _latest(self) -> Source:
        if self._source is None:
            raise TypeError("a reader that was sent to a task cannot plan a scan")
        self._source = self._source.latest()
        return self._source

    def _check_columns(self, source: Source) -> None:
        """Check that a version has the columns, or is older than them and may have nulls in their place."""
        stored = source.arrow_schema.names
        lacking = [field for field in self._schema if field.name not in stored]
        is_older = source.version < self._schema_version and len(lacking) < len(self._schema)
        wrong = [field.name for field in lacking if not (is_older and field.nullable)]
        if wrong:
            raise ColumnNotFoundError(
                f"{source.uri}: version {source.version}, which is read as a stream, has no column "
                f"{wrong[0]!r}; the columns are {', '.join(stored)}. Select columns with the option "
                "columns, or begin at a later version"
            )

    @property
    def _is_limited(self) -> bool:
        return self._options.max_rows is not None or self._options.max_versions is not None

    def _limited(self, newest: Source, begin: int, last: int) -> int:
        if self._options.max_versions is not None:
            last = min(last, begin + self._options.max_versions)
        if self._options.max_rows is None:
            return last
        num_rows = 0
        for addition in additions(newest, begin, last):
            num_rows += addition.num_rows
            if num_rows > self._options.max_rows:
                return max(addition.version - 1, begin + 1)
        return last

    def _runs(self, newest: Source, begin: int, end: int) -> Iterator[tuple[int, Fragments]]:
        """Yield versions with the fragments that were added up to each and not yielded before."""
        fragments: dict[str | None, tuple[int, ...]] = {}
        last = begin
        for addition in additions(newest, begin, end):
            if addition.moves_rows or addition.takes_back is not None:
                if fragments:
                    yield last, fragments
                fragments = {}
            if addition.takes_back is None:
                for name, ids in addition.fragments.items():
                    fragments[name] = fragments.get(name, ()) + ids
            else:
                self._check_skipped(addition)
            last = addition.version
        if fragments:
            yield last, fragments

    def _check_skipped(self, addition: Addition) -> None:
        if not self._options.skip_change_commits:
            raise UnsupportedFeatureError(
                f"{addition.takes_back}, but a stream contains only added rows; set the option "
                "skipChangeCommits to skip such changes"
            )

    def _whole(self, newest: Source, version: int) -> list[tuple[Piece, ...]]:
        source = _checked_out(newest, version)
        self._check_columns(source)
        return plan_splits(
            source,
            SourceRef.of(source, self._options),
            self._options.filter,
            split_bytes=self._options.split_bytes,
            parallelism=_parallelism(),
        )

    def _added(self, source: Source, fragments: Fragments) -> list[tuple[Piece, ...]]:
        self._check_columns(source)
        return plan_added(
            source,
            SourceRef.of(source, self._options),
            self._options.filter,
            fragments,
            split_bytes=self._options.split_bytes,
            parallelism=_parallelism(),
        )


def _numbers(newest: Source) -> list[int]:
    return newest.committed_table.history.numbers()


def _checked_out(newest: Source, version: int) -> Source:
    return newest if newest.version == version else newest.checkout(version)


def _parallelism() -> int:
    return os.cpu_count() or 1
