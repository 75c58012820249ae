"""Structured Streaming from a table or a namespace: read the rows that new versions add exactly once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lance_df.errors import InvalidInputError, UnsupportedFeatureError, VersionNotFoundError
from lance_df.records import dataclass
from lance_df.spark.additions import additions
from lance_df.spark.opened import SourceRef
from lance_df.spark.reading import Split, read_pieces
from lance_df.spark.splits import plan_added, plan_splits, repacked
from lance_df.spark.stream_columns import ADVICE, StreamColumns
from lance_df.table.metadata.manifest_io import identity

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from lance_df.namespace.kind import Source
    from lance_df.spark.additions import Addition, Fragments
    from lance_df.spark.options import SourceOptions
    from lance_df.spark.splits import Piece
    from lance_df.table.metadata.manifest_io import ManifestFile


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
    identity
        The identity of the manifest of ``version``, or of ``begin`` if that is 0: a table that is dropped and
        created again has the same version numbers. None if that version was removed already, and in
        checkpoints of earlier releases.
    """

    version: int
    begin: int | None = None
    whole: bool = False
    identity: str | None = None

    @classmethod
    def parse(cls, stored: dict[str, object]) -> Self:
        """Parse an offset from a checkpoint.

        Raises
        ------
        InvalidInputError
            The offset belongs to another source.
        """
        match stored:
            case {"version": int(version), **others}:
                pass
            case _:
                raise _foreign(stored)
        match others.pop("identity", None), others:
            case None | str() as identity_, {"begin": int(begin), "whole": bool(whole)}:
                return cls(version, begin, whole, identity_)
            case None | str() as identity_, {} if not others:
                return cls(version, identity=identity_)
        raise _foreign(stored)

    def stored(self) -> dict[str, object]:
        """Return the offset in the form of the checkpoint."""
        stored: dict[str, object] = {"version": self.version}
        if self.begin is not None:
            stored |= {"begin": self.begin, "whole": self.whole}
        if self.identity is not None:
            stored["identity"] = self.identity
        return stored

    @property
    def identified_version(self) -> int:
        """The version that ``identity`` belongs to."""
        return self.version or self.begin or 0


def _foreign(stored: dict[str, object]) -> InvalidInputError:
    return InvalidInputError(f"the checkpoint has the offset {stored!r}, which is not an offset of lance_df")


class LanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows that versions between two offsets add. An object exists as long as its query."""

    def __init__(self, source: Source, options: SourceOptions, schema: StructType) -> None:
        self._source: Source | None = source
        self._options = options
        self._schema = schema
        self._columns: StreamColumns | None = StreamColumns(source, schema, options.filter)
        self._identities: dict[int, str | None] = {}
        self._last: int | None = None

    def __getstate__(self) -> dict[str, object]:
        # tasks open the source by the reference in their split
        return {**self.__dict__, "_source": None, "_columns": None}

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
            return self._stored(newest, 0, newest.version, whole=True)
        if start == "latest":
            return self._stored(newest, newest.version, newest.version)
        numbers = _numbers(newest)
        if start == "earliest":
            return self._stored(newest, 0, numbers[0], whole=True)
        if start not in numbers and start != numbers[-1] + 1:
            raise VersionNotFoundError(
                f"{newest.uri}: startingVersion is {start}, but the versions are {numbers[0]} to "
                f"{numbers[-1]}"
            )
        return self._stored(newest, int(start) - 1, int(start) - 1)

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
        """Return the end of the next batch, which has whole versions, and at least one if there is one.

        Raises
        ------
        VersionNotFoundError
            The table or namespace was dropped and created again, or a version was removed.
        """
        begin = Offset.parse(start)
        newest = self._latest()
        self._check(newest, begin)
        last = newest.version if self._last is None else self._last
        if begin.whole and begin.version == 0:
            if not isinstance(limit, ReadAllAvailable) and self._is_limited:
                last = begin.begin or 0
            return self._stored(newest, max(last, begin.begin or 0), begin.begin, whole=True)
        if last <= begin.version:
            return start
        if not isinstance(limit, ReadAllAvailable) and self._is_limited:
            last = self._limited(newest, begin.version, last)
        # only the first offset after the initial one has the begin of the query
        is_first = begin.begin is not None and begin.begin == begin.version and not begin.whole
        return self._stored(newest, last, begin.begin if is_first else None)

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Return the splits of a batch.

        Raises
        ------
        UnsupportedFeatureError
            A version does more than add rows, and the option ``skipChangeCommits`` is not set.
        VersionNotFoundError
            A version was removed before it was read, or the table or namespace was dropped and created again.
        ColumnNotFoundError
            A version does not have the columns of the stream.
        """
        first, last = Offset.parse(start), Offset.parse(end)
        if last.begin is None or first.begin is None:
            begin, whole = first.version, False
        else:
            begin, whole = last.begin, last.whole
        if first == last or (begin >= last.version and not whole):
            return []
        newest = self._latest()
        self._check(newest, first)
        self._check(newest, last)
        splits = self._whole(newest, begin) if whole else []
        for version, fragments in self._runs(newest, begin, last.version):
            splits += self._added(_checked_out(newest, version), fragments)
        return [Split(pieces) for pieces in repacked(splits, self._options.split_bytes, _parallelism())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        if not isinstance(partition, Split):
            raise TypeError(f"expected a split of lance_df, got {partition!r}")
        for piece in partition.pieces:
            try:
                yield from read_pieces((piece,), self._schema)
            except InvalidInputError as err:
                raise InvalidInputError(
                    f"{piece.source.uri}: version {piece.source.version}, which is read as a stream: {err}. "
                    f"{ADVICE}"
                ) from err

    def _latest(self) -> Source:
        """Return the newest version.

        Raises
        ------
        VersionNotFoundError
            The table or namespace was dropped and created again.
        """
        if self._source is None:
            raise TypeError("a reader that was sent to a task cannot plan a scan")
        former, newest = self._source, self._source.latest()
        if newest is not former:
            self._identities = {}
            self._check(newest, Offset(former.version, identity=_identity(former)))
            self._source = newest
        return newest

    def _check(self, newest: Source, offset: Offset) -> None:
        """Check that an offset belongs to a table or namespace; one whose version was removed may do so."""
        version = offset.identified_version
        if newest.version < version:
            problem = f"the newest version is {newest.version}"
        elif offset.identity is not None and self._identity_of(newest, version) not in (
            None,
            offset.identity,
        ):
            problem = "that is not the version that was read, because it was dropped and created again"
        else:
            return
        raise VersionNotFoundError(
            f"{newest.uri}: the checkpoint is at version {version}, but {problem}, so the checkpoint belongs "
            "to another table; start again with a new checkpoint"
        )

    def _identity_of(self, newest: Source, version: int) -> str | None:
        """Return the identity of a version, or None if it does not exist."""
        if version == newest.version:
            return _identity(newest)
        if version not in self._identities:
            try:
                file = newest.committed_table.history.open(version)
            except VersionNotFoundError:
                self._identities[version] = None
            else:
                self._identities[version] = _text(file)
        return self._identities[version]

    def _stored(
        self, newest: Source, version: int, begin: int | None = None, *, whole: bool = False
    ) -> dict[str, object]:
        offset = Offset(version, begin, whole)
        known = self._identity_of(newest, offset.identified_version)
        return replace(offset, identity=known).stored()

    def _check_columns(self, source: Source) -> None:
        if self._columns is None:
            raise TypeError("a reader that was sent to a task cannot plan a scan")
        self._columns.check(source)

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


def _identity(source: Source) -> str:
    return _text(source.committed_table.manifest_file)


def _text(file: ManifestFile) -> str:
    return " ".join(map(str, identity(file)))


def _checked_out(newest: Source, version: int) -> Source:
    return newest if newest.version == version else newest.checkout(version)


def _parallelism() -> int:
    return os.cpu_count() or 1
