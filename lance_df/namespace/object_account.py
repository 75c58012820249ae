"""Check commits to ``__manifest`` by object ids: the ids before, minus removed ids, plus added ids.

`lance_df.table.commit.row_account` checks the number of rows of a commit. This module checks that they are
the rows of the same namespaces and tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.errors import RowCountMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUM_SHOWN: Final = 5


def check_written(
    uri: str,
    *,
    taken: pa.ChunkedArray,
    removed: Sequence[str],
    added: pa.ChunkedArray,
    written: pa.ChunkedArray,
) -> None:
    """Check the rows that are about to be written, by their object ids.

    Parameters
    ----------
    uri
        The ``__manifest`` table.
    taken
        The ids of rows that are taken out of their fragments, to be rewritten or removed.
    removed
        The ids of rows that are removed.
    added
        The ids of new rows. A removed id may be added again.
    written
        The ids of the rows to be written.

    Raises
    ------
    RowCountMismatchError
        An object would be lost or duplicated.
    """
    left = taken.filter(pc.invert(pc.is_in(taken, pa.array(removed, pa.string()))))
    expected = pa.chunked_array([*left.chunks, *added.chunks], pa.string())
    # if the order of rows does not change, the ids need not be sorted
    if not expected.equals(written) and not _sorted(expected).equals(_sorted(written)):
        numbers = f"{len(taken)} taken, {len(taken) - len(left)} removed, {len(added)} added"
        _refuse(uri, expected, written, numbers)


def check_new(uri: str, *, before: pa.ChunkedArray, removed: Sequence[str], added: pa.ChunkedArray) -> None:
    """Check that no added object exists already.

    Raises
    ------
    RowCountMismatchError
        An added object exists, or is added twice.
    """
    distinct = added.unique()
    known = before.filter(pc.is_in(before, distinct))
    known = known.filter(pc.invert(pc.is_in(known, pa.array(removed, pa.string()))))
    if len(known) or len(distinct) < len(added):
        twice = known[0].as_py() if len(known) else _repeated(added)
        raise RowCountMismatchError(
            f"{uri}: {len(before)} objects before, {len(removed)} removed, {len(added)} added: {twice!r} "
            "would appear twice. Nothing was published; please report this defect"
        )


def check_same(uri: str, *, before: pa.ChunkedArray, after: pa.ChunkedArray) -> None:
    """Check that the objects before and after are the same.

    Raises
    ------
    RowCountMismatchError
        An object would be lost, added or duplicated.
    """
    if not _sorted(before).equals(_sorted(after)):
        _refuse(uri, before, after, f"{len(before)} before, 0 removed, 0 added")


def check_none_lost(uri: str, *, before: pa.ChunkedArray, after: pa.ChunkedArray) -> None:
    """Check that every object before is also there after.

    Raises
    ------
    RowCountMismatchError
        An object would be lost.
    """
    lost = before.filter(pc.invert(pc.is_in(before, one_array(after)))).drop_null()
    if len(lost):
        shown = ", ".join(map(repr, lost.slice(0, _NUM_SHOWN).to_pylist()))
        raise RowCountMismatchError(
            f"{uri}: {len(before)} objects before, {len(after)} after, of which {len(lost)} would be lost: "
            f"{shown}. Nothing was published; please report this defect"
        )


def _refuse(uri: str, expected: pa.ChunkedArray, actual: pa.ChunkedArray, numbers: str) -> None:
    lost = expected.filter(pc.invert(pc.is_in(expected, one_array(actual))))
    more = actual.filter(pc.invert(pc.is_in(actual, one_array(expected))))
    shown = [*lost.slice(0, _NUM_SHOWN).to_pylist(), *more.slice(0, _NUM_SHOWN).to_pylist()]
    raise RowCountMismatchError(
        f"{uri}: objects: {numbers}, {len(expected)} expected, {len(actual)} found; {len(lost)} would be "
        f"lost, {len(more)} are not expected: {', '.join(map(repr, shown)) or _repeated(actual)}. Nothing "
        "was published; please report this defect"
    )


def _repeated(ids: pa.ChunkedArray) -> str:
    counts = ids.value_counts()
    again = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    return str(again[0].as_py()) if len(again) else ""


def _sorted(ids: pa.ChunkedArray) -> pa.Array:
    ids = one_array(ids)
    return ids.take(pc.sort_indices(ids))
