"""Random histories of a table: legal commits pass, and those that are changed on their way are refused."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.errors import InvalidInputError, RowCountMismatchError
from lance_df.format.fragment_list import FragmentList
from lance_df.format.fragments import DataFile, DeletionFile, DeletionFileType, Fragment
from lance_df.format.operations import (
    Append,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Rewrite,
    RewriteGroup,
    Update,
)
from lance_df.format.schema import schema_from_arrow
from lance_df.table.commit.apply import apply, create
from lance_df.table.commit.row_account import NO_ROWS, RowAccount, RowChange

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = schema_from_arrow(pa.schema({"a": pa.int64()}))
_names = itertools.count()


def fragment(num_rows: int, fragment_id: int = 0) -> Fragment:
    file = DataFile(path=f"{next(_names)}.lance", fields=(0,), column_indices=(0,), minor_version=1)
    return Fragment(id=fragment_id, files=(file,), physical_rows=num_rows)


def live(each: Fragment) -> int:
    return each.physical_rows - (each.deletion_file.num_deleted_rows if each.deletion_file else 0)


def less(each: Fragment, num_rows: int) -> Fragment:
    """Return a fragment of which more rows are deleted."""
    deleted = each.physical_rows - live(each) + num_rows
    file = DeletionFile(
        file_type=DeletionFileType.BITMAP, read_version=1, id=next(_names), num_deleted_rows=deleted
    )
    return dataclasses.replace(each, deletion_file=file)


sizes = st.lists(st.integers(1, 20), max_size=4)


class History:
    """Draws legal operations on a table, each with what its builder states."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        fragments = tuple(map(fragment, self.draw(sizes)))
        self.state = create(Overwrite(fragments, SCHEMA), data_format="2.1", stable_row_ids=False)

    @property
    def fragments(self) -> list[Fragment]:
        return list(self.state.manifest.fragments)

    def selection(self) -> dict[int, int]:
        """Draw rows of some fragments: how many of each."""
        chosen = self.draw(st.lists(st.sampled_from(self.fragments), unique_by=id)) if self.fragments else []
        return {each.id: self.draw(st.integers(1, live(each))) for each in chosen}

    def removal(self, selected: Mapping[int, int]) -> tuple[tuple[Fragment, ...], tuple[int, ...]]:
        pairs = [(each, selected[each.id]) for each in self.fragments if each.id in selected]
        updated = tuple(less(each, count) for each, count in pairs if count < live(each))
        return updated, tuple(each.id for each, count in pairs if count == live(each))

    def operation(self) -> tuple[Operation, RowChange]:
        kind = self.draw(
            st.sampled_from([Append, Overwrite, Delete, Update, Rewrite, Merge, DataReplacement])
        )
        if kind is Append:
            new = self.draw(sizes)
            return Append(tuple(map(fragment, new))), RowChange(sum(new))
        if kind is Overwrite:
            new = self.draw(sizes)
            return Overwrite(tuple(map(fragment, new)), SCHEMA), RowChange.replacing(sum(new))
        if kind in (Delete, Update):
            selected = self.selection()
            updated, gone = self.removal(selected)
            if kind is Delete:
                return Delete(updated, gone), RowChange(deleted=selected)
            new = self.draw(sizes)
            return Update(gone, updated, tuple(map(fragment, new))), RowChange(sum(new), selected)
        if kind is Rewrite:
            old = [each for each in self.fragments if self.draw(st.booleans())]
            counts = {each.id: live(each) for each in old}
            new = (fragment(sum(counts.values())),) if old else ()
            groups = (RewriteGroup(tuple(old), new),) if old else ()
            return Rewrite(groups), RowChange(sum(counts.values()), counts)
        if kind is Merge:
            return Merge(tuple(self.fragments), SCHEMA), NO_ROWS
        return DataReplacement(tuple((each.id, fragment(1).files[0]) for each in self.fragments)), NO_ROWS

    def account(self, operation: Operation, rows: RowChange | None) -> RowAccount:
        manifest = self.state.manifest
        return RowAccount("t.lance", manifest.version, manifest.fragments, operation, rows)


def lost_fragment(draw: Any, fragments: list[Fragment]) -> list[Fragment]:
    fragments.pop(draw(st.integers(0, len(fragments) - 1)))
    return fragments


def doubled_fragment(draw: Any, fragments: list[Fragment]) -> list[Fragment]:
    return [*fragments, dataclasses.replace(draw(st.sampled_from(fragments)), id=100_000)]


def other_rows(draw: Any, fragments: list[Fragment]) -> list[Fragment]:
    place = draw(st.integers(0, len(fragments) - 1))
    rows = fragments[place].physical_rows + draw(st.sampled_from([-1, 1]))
    fragments[place] = dataclasses.replace(fragments[place], physical_rows=rows)
    return fragments


def other_deletions(draw: Any, fragments: list[Fragment]) -> list[Fragment]:
    place = draw(st.integers(0, len(fragments) - 1))
    each = fragments[place]
    if each.deletion_file is None or draw(st.booleans()):
        fragments[place] = less(each, 1)
    else:
        fragments[place] = dataclasses.replace(each, deletion_file=None)
    return fragments


@given(st.data())
@settings(max_examples=150)
def test_legal_histories_pass_and_each_version_broken_is_refused(data: st.DataObject) -> None:
    history = History(data)
    for _ in range(data.draw(st.integers(1, 6))):
        operation, rows = history.operation()
        after = apply(history.state, operation, data_format="2.1")
        fragments = after.manifest.fragments
        for stated in (rows, None):
            history.account(operation, stated).check(fragments)
        if len(fragments):
            breaking = data.draw(
                st.sampled_from([lost_fragment, doubled_fragment, other_rows, other_deletions])
            )
            broken = FragmentList.of(breaking(data.draw, list(fragments)))
            with pytest.raises(RowCountMismatchError):
                history.account(operation, rows).check(broken)
        history.state = after


@given(st.data())
@settings(max_examples=150)
def test_operations_that_differ_from_what_is_stated_are_refused(data: st.DataObject) -> None:
    history = History(data)
    for _ in range(data.draw(st.integers(0, 3))):
        operation, _ = history.operation()
        history.state = apply(history.state, operation, data_format="2.1")
    operation, rows = history.operation()
    wrong = mistaken(data.draw, operation)
    if wrong is None:
        return
    # what names fragments that there are not is refused as what it is
    with pytest.raises((RowCountMismatchError, InvalidInputError)):
        history.account(wrong, rows).check(apply(history.state, wrong).manifest.fragments)


def mistaken(draw: Any, operation: Operation) -> Operation | None:
    """Return an operation that takes a fragment away or twice, or deletes other rows; None where none can."""
    names = {
        Append: ["fragments"],
        Overwrite: ["fragments"],
        Delete: ["updated_fragments", "deleted_fragment_ids"],
        Update: ["updated_fragments", "removed_fragment_ids", "new_fragments"],
        Merge: ["fragments"],
    }.get(type(operation), [])
    full = [name for name in names if getattr(operation, name)]
    if isinstance(operation, Rewrite) and operation.groups:
        (group,) = operation.groups
        number = draw(st.integers(0, len(group.old_fragments) - 1))
        old = tuple(each for place, each in enumerate(group.old_fragments) if place != number)
        return Rewrite((RewriteGroup(old, group.new_fragments),))
    if not full:
        return None
    name = draw(st.sampled_from(full))
    values = list(getattr(operation, name))
    number = draw(st.integers(0, len(values) - 1))
    if name in ("fragments", "new_fragments") and draw(st.booleans()):
        values.append(values[number])
    elif name == "updated_fragments" and draw(st.booleans()):
        values[number] = less(values[number], draw(st.sampled_from([-1, 1])))
    else:
        values.pop(number)
    return dataclasses.replace(operation, **{name: tuple(values)})


def test_groups_of_a_rewrite_have_as_many_rows_each() -> None:
    sizes_of = (4, 6, 5, 5)
    state = create(Overwrite(tuple(map(fragment, sizes_of)), SCHEMA), data_format="2.1", stable_row_ids=False)
    old = list(state.manifest.fragments)
    new = fragment(10), fragment(10)
    for pairs, is_right in (([(0, 1), (2, 3)], True), ([(0, 2), (1, 3)], False)):
        groups = tuple(
            RewriteGroup(tuple(old[place] for place in pair), (made,))
            for pair, made in zip(pairs, new, strict=True)
        )
        operation = Rewrite(groups)
        account = RowAccount(
            "t.lance", 1, state.manifest.fragments, operation, RowChange(20, dict(enumerate(sizes_of)))
        )
        after = apply(state, operation).manifest.fragments
        if is_right:
            account.check(after)
        else:
            with pytest.raises(
                RowCountMismatchError, match="fragments 0, 2 had 9 rows, the replacement has 10"
            ):
                account.check(after)


def test_a_hundred_thousand_fragments_are_checked_as_one() -> None:
    """No fragment that an operation leaves alone is made an object."""
    before = FragmentList.of(fragment(10, number) for number in range(100_000))
    gone = before[500]
    after = before.edited(removed=[500], added=[fragment(10, 100_000)])
    lost = before.edited(removed=[500, 501], added=[fragment(10, 100_000)])
    operation = Rewrite((RewriteGroup((gone,), (fragment(10),)),))
    account = RowAccount("t.lance", 1, before, operation, RowChange(10, {500: 10}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FragmentList, "_fragment", lambda *_: pytest.fail("a fragment was made"))
        account.check(after)
        with pytest.raises(RowCountMismatchError, match="fragment 501 would be removed"):
            account.check(lost)
