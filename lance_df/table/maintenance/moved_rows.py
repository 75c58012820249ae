"""Keep the row ids and row versions of rows that move to other fragments in their order.

Spec: table format, row ids; 12.4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lance_df.format.row_ids import RunSequence, serialize_row_ids, serialize_versions
from lance_df.table.reading.deletions import deleted_offsets

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.fragments import Fragment
    from lance_df.table.table import Table


def with_lineage(table: Table, old: Sequence[Fragment], new: Sequence[Fragment]) -> list[Fragment]:
    """Set the row ids and row versions of new fragments to those of the live rows of the old ones.

    Parameters
    ----------
    table
        The version that has the old fragments, with stable row ids.
    new
        Fragments without deleted rows that hold the live rows of ``old`` in sequence.
    """
    gone = [deleted_offsets(table.deletion_vector(fragment)) for fragment in old]
    versions = [table.row_version_sequences(fragment) for fragment in old]

    def moved(sequences: Iterable[RunSequence]) -> RunSequence:
        return joined([without(each, offsets) for each, offsets in zip(sequences, gone, strict=True)])

    row_ids = moved(table.row_ids(fragment) for fragment in old)
    created = moved(created for created, _ in versions)
    updated = moved(updated for _, updated in versions)
    completed, start = [], 0
    for fragment in new:
        rows = slice(start, start + fragment.physical_rows)
        completed.append(
            dataclasses.replace(
                fragment,
                row_ids=serialize_row_ids(slice_of(row_ids, rows)),
                created_at=serialize_versions(slice_of(created, rows)),
                last_updated_at=serialize_versions(slice_of(updated, rows)),
            )
        )
        start = rows.stop
    return completed


def without(sequence: RunSequence, gone: npt.NDArray[np.int64]) -> RunSequence:
    """Return a sequence without the items at the given ascending positions."""
    if not len(gone):
        return sequence
    # Runs are split at every removed item; each part then stays or is removed as a whole.
    cuts = np.unique(np.concatenate([sequence.begins, gone, gone + 1]))
    cuts = cuts[cuts < len(sequence)]
    stops = np.append(cuts[1:], len(sequence))[: len(cuts)]
    stays = ~np.isin(cuts, gone, assume_unique=True)
    return _runs_at(sequence, cuts[stays], stops[stays])


def slice_of(sequence: RunSequence, items: slice) -> RunSequence:
    """Return the items from a start to a stop (exclusive)."""
    begins, stops = np.maximum(sequence.begins, items.start), np.minimum(sequence.ends, items.stop)
    inside = begins < stops
    return _runs_at(sequence, begins[inside], stops[inside])


def joined(sequences: Sequence[RunSequence]) -> RunSequence:
    """Concatenate one or more sequences of the same kind; adjacent runs are joined."""
    step = sequences[0].step
    firsts = np.concatenate([each.firsts for each in sequences])
    lengths = np.concatenate([each.ends - each.begins for each in sequences])
    follows = firsts[:-1] + (lengths[:-1] * step).astype(np.uint64)
    starts = np.ones(len(firsts), np.bool_)
    starts[1:] = firsts[1:] != follows
    lasts = np.append(np.flatnonzero(starts)[1:] - 1, len(firsts) - 1)[: int(starts.sum())]
    return RunSequence(firsts[starts], np.cumsum(lengths)[lasts], step)


def _runs_at(
    sequence: RunSequence, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> RunSequence:
    """Return the slices between the given positions; each of them lies within one run."""
    run = np.searchsorted(sequence.ends, starts, side="right")
    firsts = sequence.firsts[run] + ((starts - sequence.begins[run]) * sequence.step).astype(np.uint64)
    return RunSequence(firsts, np.cumsum(stops - starts), sequence.step)
