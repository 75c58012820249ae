"""Split the filter of a scan into steps: conditions on columns that are cheap to read come first.

The columns of a later step are read only if rows remain; if few remain, only these rows are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.arrays import fixed_width_bits
from lance_df.expr.matching import matcher
from lance_df.expr.nodes import And
from lance_df.expr.walk import by_column, columns
from lance_df.records import dataclass
from lance_df.table.scan.columns import resolve_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.expr.matching import Matcher
    from lance_df.expr.nodes import Predicate
    from lance_df.format.schema import Schema
    from lance_df.table.scan.columns import Column


@dataclass(frozen=True, slots=True)
class FilterStep:
    """A part of a filter. A row matches the filter if it matches every part.

    ``paths`` are the columns that the part uses; ``columns`` are those of them that earlier steps have not
    read. ``matcher`` finds the rows that match.
    """

    paths: frozenset[tuple[str, ...]]
    matcher: Matcher
    columns: tuple[Column, ...]


def filter_steps(
    predicate: Predicate, wanted: Sequence[Column], *, at_once: bool, by_dictionary: bool
) -> tuple[FilterStep, ...]:
    """Return the steps of a filter over some columns.

    Parameters
    ----------
    at_once
        Whether to read all columns in one step: on a store, one request costs less than reading less saves.
    by_dictionary
        See `matcher`.
    """
    if at_once or not isinstance(predicate, And):
        whole = matcher(predicate, by_dictionary=by_dictionary)
        return (FilterStep(frozenset(columns(predicate)), whole, tuple(wanted)),)
    by_path = {column.path: column for column in wanted}
    steps: list[FilterStep] = []
    read: set[Column] = set()
    for part in sorted(by_column(And, predicate.operands), key=lambda each: _cost(each, by_path)):
        paths = frozenset(columns(part))
        needed = {by_path[path] for path in paths}
        new = tuple(column for column in wanted if column in needed - read)
        steps.append(FilterStep(paths, matcher(part, by_dictionary=by_dictionary), new))
        read |= needed
    return tuple(steps)


def word_steps(
    pruning_predicate: Predicate, schema: Schema, read: Sequence[Column]
) -> tuple[FilterStep, ...]:
    """Return steps that drop rows without the words that a pruning predicate requires.

    Parameters
    ----------
    read
        The columns that other steps read.
    """
    from lance_df.expr.words import word_matchers

    known = list(read)
    steps: list[FilterStep] = []
    for words in word_matchers(pruning_predicate):
        if len(words.path) > 1 or words.path[0] not in schema.names:
            continue
        column = resolve_path(schema, words.path)
        new = () if column in known else (column,)
        known += new
        steps.append(FilterStep(frozenset([words.path]), words, new))
    return tuple(steps)


def _cost(part: Predicate, by_path: dict[tuple[str, ...], Column]) -> float:
    """Return the approximate memory of a row, in bits."""
    return sum(_bits(by_path[path].output.type) for path in columns(part))


def _bits(data_type: pa.DataType) -> float:
    return fixed_width_bits(data_type) or 1024
