"""Find the rows of a table that may match a predicate, with its scalar indices.

Each part of the predicate that reads a single column is passed to the indices of that column; the answers are
combined by set algebra on row addresses. Parts that no index answers keep all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.expr.literals import bind_literals
from lance_df.expr.nodes import And, Literal, Or, Predicate
from lance_df.expr.simplify import simplify
from lance_df.expr.text import to_text
from lance_df.expr.walk import by_column, columns, conjuncts, has_unknown
from lance_df.records import dataclass
from lance_df.scan.report import IndexQuery, Reason
from lance_df.table.indices.answer import FRAGMENT_BITS, Answer, FragmentIds, fragment_starts
from lance_df.table.indices.segments import Segment, segments_by_index
from lance_df.table.reading.selection import RowRanges

if TYPE_CHECKING:
    from lance_df.cache import Entries
    from lance_df.format.schema import Field
    from lance_df.table.table import Table

_ALL_OFFSETS = 1 << FRAGMENT_BITS
# higher fragment ids do not fit into the signed addresses used here; these fragments are never pruned
_MAX_FRAGMENT_ID = (1 << 31) - 1
# of an answer and its predicate, besides the rows
_ANSWER_BYTES = 1024


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The rows that may match; no other rows match.

    Attributes
    ----------
    fragment_ids
        The fragments that were asked about, ascending.
    selected
        For each fragment, whether any row may match.
    is_exact
        Whether every live row of the result matches, so that the predicate need not be applied again.
    reasons
        The effect of each conjunct that an index could answer.
    queries
        The queries that indices have answered.
    """

    fragment_ids: npt.NDArray[np.int64]
    selected: npt.NDArray[np.bool_]
    is_exact: bool
    reasons: tuple[Reason, ...]
    queries: tuple[IndexQuery, ...]
    _addresses: RowRanges = field(repr=False)
    _stops: npt.NDArray[np.int64] = field(repr=False)

    def rows(self, fragment_id: int) -> RowRanges | None:
        """Return the physical rows of one fragment that may match; ``None`` for all of them."""
        position = int(np.searchsorted(self.fragment_ids, fragment_id))
        if position == len(self.fragment_ids) or self.fragment_ids[position] != fragment_id:
            raise InvalidInputError(f"fragment {fragment_id} was not part of this pruning")
        if fragment_id > _MAX_FRAGMENT_ID:
            return None
        start, stop = fragment_id << FRAGMENT_BITS, int(self._stops[position])
        within = self._addresses.clip(start, stop)
        return None if within.num_rows == stop - start else within.shift(-start)


def prune(
    table: Table, predicate: Predicate, fragment_ids: Sequence[int], *, keeps_answers: bool = False
) -> PruneResult:
    """Ask the table's indices which rows of ``fragment_ids`` may match ``predicate``.

    All rows of fragments that no usable index covers are selected.

    Parameters
    ----------
    predicate
        May contain `Unknown`.
    keeps_answers
        Whether answers about all fragments are cached for later plans of the version.

    Raises
    ------
    InvalidInputError
        The table has no fragment with such an id.
    CorruptDataError
        An index file contradicts the format; the message names it.
    """
    ids = np.unique(np.asarray(fragment_ids, dtype=np.int64))
    positions = table.fragments.positions(ids)
    if (positions < 0).any():
        raise InvalidInputError(f"{table.uri}: fragment {ids[positions < 0][0]} does not exist")
    answers = table.index_answers if keeps_answers and len(ids) == len(table.fragments) else None
    pruner = _Pruner(table, ids, np.asarray(table.fragments.physical_rows)[positions], answers)
    simple = simplify(predicate)
    try:
        selection, reasons = pruner.explain(simple)
    except CorruptDataError as err:
        table.check_not_gone(err)
        raise
    return PruneResult(
        fragment_ids=ids,
        selected=pruner.touched(selection.rows),
        is_exact=selection.is_exact,
        reasons=reasons,
        queries=tuple(dict.fromkeys(pruner.queries)),
        _addresses=selection.rows,
        _stops=pruner.stops,
    )


class _ColumnAnswer(NamedTuple):
    """The answer of the indices of a column, and the queries that they have answered."""

    answer: Answer
    queries: tuple[IndexQuery, ...] = ()


def _size_of(known: _ColumnAnswer) -> int:
    return _ANSWER_BYTES + known.answer.rows.bounds.nbytes


def _is_hashable(predicate: Predicate) -> bool:
    try:
        hash(predicate)
    except TypeError:  # a list of values
        return False
    return True


class _Pruner:
    """Set algebra over the row addresses of the given fragments."""

    def __init__(
        self,
        table: Table,
        fragment_ids: FragmentIds,
        num_rows: npt.NDArray[np.int64],
        answers: Entries[_ColumnAnswer] | None,
    ) -> None:
        self._table = table
        self._answers = answers
        self._fragment_ids = fragment_ids
        self._in_reach = fragment_ids <= _MAX_FRAGMENT_ID
        starts = fragment_starts(np.where(self._in_reach, fragment_ids, 0))
        # very old manifests do not have the row counts of fragments
        self.stops = starts + np.where(num_rows > 0, num_rows, _ALL_OFFSETS)
        self._starts = starts
        self._everything = self._whole(self._in_reach)
        self._indices: dict[int, dict[str, list[Segment]]] = {}
        self.queries: list[IndexQuery] = []

    def touched(self, rows: RowRanges) -> npt.NDArray[np.bool_]:
        """Return which fragments have a row in ``rows``."""
        first = np.searchsorted(rows.bounds[:, 1], self._starts, side="right")
        last = np.searchsorted(rows.bounds[:, 0], self.stops, side="left")
        return (last > first) | ~self._in_reach

    def explain(self, predicate: Predicate) -> tuple[Answer, tuple[Reason, ...]]:
        """Select rows by the whole predicate, and describe the effect of each conjunct."""
        result, reasons = Answer(self._everything, is_exact=True), []
        for part in by_column(And, conjuncts(predicate)):
            answer = self._select(part)
            if answer.rows.num_rows < self._everything.num_rows:
                reasons.append(Reason(to_text(part), self._effect(answer)))
            result = _joined(RowRanges.intersect, result, answer)
        is_exact = result.is_exact and bool(self._in_reach.all())
        return Answer(result.rows, is_exact), tuple(reasons)

    def _effect(self, answer: Answer) -> str:
        total = len(self._fragment_ids)
        num_selected = int(self.touched(answer.rows).sum())
        return f"indices kept {num_selected} of {total} fragments, {answer.rows.num_rows} rows"

    def _select(self, predicate: Predicate) -> Answer:
        paths = columns(predicate)
        if len(paths) == 1 and not has_unknown(predicate):
            return self._ask(next(iter(paths)), predicate)
        match predicate:
            case Literal(value):
                return Answer(self._everything if value else RowRanges.none(), is_exact=True)
            case And(operands):
                answers = [self._select(part) for part in by_column(And, operands)]
                return reduce(lambda a, b: _joined(RowRanges.intersect, a, b), answers)
            case Or(operands):
                answers = [self._select(part) for part in by_column(Or, operands)]
                return reduce(lambda a, b: _joined(RowRanges.union, a, b), answers)
            case _:
                return Answer(self._everything, is_exact=False)

    def _ask(self, path: tuple[str, ...], predicate: Predicate) -> Answer:
        """Return the combined answer of the indices of one column."""
        if self._answers is None or not _is_hashable(predicate):
            known = self._answer_of(path, predicate)
        else:
            known = self._answers.get((path, predicate), lambda: self._answer_of(path, predicate), _size_of)
        self.queries += known.queries
        return known.answer

    def _answer_of(self, path: tuple[str, ...], predicate: Predicate) -> _ColumnAnswer:
        rows, queries = self._everything, list[IndexQuery]()
        column = _field_at(self._table.schema.fields, path)
        if column is None:
            return _ColumnAnswer(Answer(rows, is_exact=False))
        bound = bind_literals(predicate, column.arrow_type())
        if has_unknown(bound):
            return _ColumnAnswer(Answer(rows, is_exact=False))
        for name, segments in self._indices_of(column).items():
            answer = self._ask_segments(segments, bound, column)
            if answer is None:
                continue
            queries.append(IndexQuery(name, to_text(predicate)))
            if answer.is_exact:
                return _ColumnAnswer(answer, tuple(queries))
            rows = rows.intersect(answer.rows)
        return _ColumnAnswer(Answer(rows, is_exact=False), tuple(queries))

    def _ask_segments(self, segments: list[Segment], predicate: Predicate, column: Field) -> Answer | None:
        """Unite the answers of the segments of one index, each for the fragments that it covers.

        Return None if no segment answers.
        """
        has_answer = False
        covered = np.zeros(len(self._fragment_ids), dtype=np.bool_)
        rows, is_exact = RowRanges.none(), True
        for segment in segments:
            answer = segment.search(predicate, column.arrow_type())
            addresses = None if answer is None else self._addresses(segment, answer.rows)
            if answer is None or addresses is None:
                continue
            has_answer = True
            covered_by_segment = np.isin(self._fragment_ids, segment.fragment_ids) & self._in_reach
            covered |= covered_by_segment
            rows = rows.union(addresses.intersect(self._whole(covered_by_segment)))
            # an updated row keeps its id, so its row id may also be listed under former values
            is_exact &= answer.is_exact and not segment.holds_row_ids
        if not has_answer:
            return None
        others = self._whole(self._in_reach & ~covered)
        return Answer(rows.union(others), is_exact and bool(covered.all()))

    def _addresses(self, segment: Segment, rows: RowRanges) -> RowRanges | None:
        """Return addresses for the stored rows; ``None`` if there are too many row ids to look up."""
        if not segment.holds_row_ids:
            return rows
        if rows.num_rows > 2 * int(np.sum(self._table.fragments.physical_rows)):
            return None  # live rows have one id each: so many are wrong, or not selective
        addresses, exists = self._table.row_id_index().lookup(rows.positions().astype(np.uint64))
        return RowRanges.from_positions(addresses[exists].astype(np.int64))

    def _indices_of(self, column: Field) -> dict[str, list[Segment]]:
        if column.id not in self._indices:
            self._indices[column.id] = segments_by_index(
                self._table, column, self._fragment_ids[self._in_reach]
            )
        return self._indices[column.id]

    def _whole(self, chosen: npt.NDArray[np.bool_]) -> RowRanges:
        return RowRanges.from_ranges(self._starts[chosen], self.stops[chosen])


def _joined(how: Callable[[RowRanges, RowRanges], RowRanges], left: Answer, right: Answer) -> Answer:
    return Answer(how(left.rows, right.rows), left.is_exact and right.is_exact)


def _field_at(fields: Sequence[Field], path: tuple[str, ...]) -> Field | None:
    """Return the field at a path of names, descending into structs only."""
    field = next((each for each in fields if each.name == path[0]), None)
    if field is None or len(path) == 1:
        return field
    return _field_at(field.children, path[1:]) if field.is_struct else None
