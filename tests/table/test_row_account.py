"""Commits that would lose rows, or hold some twice, are refused: each kind, broken on purpose."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import LanceOperation
from lance_df.errors import InvalidInputError, RowCountMismatchError
from lance_df.format.fragment_list import FragmentList
from lance_df.format.fragments import DeletionFile, DeletionFileType, Fragment
from lance_df.format.operations import (
    Append,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Rewrite,
    RewriteGroup,
    Update,
)
from lance_df.table.commit import committer
from lance_df.table.commit.apply import apply, create
from lance_df.table.commit.rebase import Rebase
from lance_df.table.commit.state import TableState
from lance_df.table.open import open_table
from lance_df.table.writing.fragment_writer import fragments_written

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.dataset import LanceDataset

NUM_FRAGMENTS, ROWS_EACH = 6, 10
NUM_ROWS = NUM_FRAGMENTS * ROWS_EACH - 3


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"id": range(start, stop), "a": [f"v{number}" for number in range(start, stop)]})


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A table of several fragments, of the last of which three rows are deleted."""
    path = str(tmp_path / "t.lance")
    data = rows(0, NUM_FRAGMENTS * ROWS_EACH)
    lance_df.write_dataset(data, path, max_rows_per_file=ROWS_EACH, enable_stable_row_ids=request.param)
    lance_df.dataset(path).delete("id >= 55 and id < 58")
    return path


def files(path: str) -> set[str]:
    return {str(file.relative_to(path)) for file in Path(path).rglob("*") if file.is_file()}


def merge_insert(table: LanceDataset) -> None:
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(25, 70))


def merge_columns(table: LanceDataset) -> None:
    table.merge_insert("id").when_matched_update_all().execute(rows(25, 35))


def partial_delete(table: LanceDataset) -> None:
    table.merge_insert("id").when_not_matched_by_source_delete("id > 12 and id < 20").execute(rows(0, 10))


CHANGES: dict[str, Callable[[LanceDataset], Any]] = {
    "append": lambda t: lance_df.write_dataset(rows(100, 130), t.uri, mode="append", max_rows_per_file=10),
    "overwrite": lambda t: lance_df.write_dataset(rows(0, 30), t.uri, mode="overwrite", max_rows_per_file=10),
    "delete": lambda t: t.delete("id < 25"),
    "truncate": lambda t: t.truncate_table(),
    "update": lambda t: t.update({"a": "'x'"}, where="id < 25"),
    "upsert": merge_insert,
    "matched": merge_columns,
    "unmatched": partial_delete,
    "compaction": lambda t: t.optimize.compact_files(target_rows_per_fragment=30),
    "new column": lambda t: t.add_columns({"b": "id + 1"}),
    "null column": lambda t: t.add_columns(pa.field("b", pa.int64())),
    "cast": lambda t: t.alter_columns({"path": "id", "data_type": pa.int32()}),
    "drop": lambda t: t.drop_columns(["a"]),
    "config": lambda t: t.update_config({"k": "v"}),
    "index": lambda t: t.create_scalar_index("id", "ZONEMAP"),
    "restore": lambda t: lance_df.dataset(t.uri, version=1).restore(),
}


def without_last(fragments: FragmentList) -> list[Fragment]:
    return list(fragments)[:-1]


def without_first(fragments: FragmentList) -> list[Fragment]:
    return list(fragments)[1:]


def with_one_twice(fragments: FragmentList) -> list[Fragment]:
    return [*fragments, dataclasses.replace(fragments[0], id=10_000)]


def with_an_id_twice(fragments: FragmentList) -> list[Fragment]:
    return [*fragments, fragments[len(fragments) - 1]]


def with_a_row_less(fragments: FragmentList) -> list[Fragment]:
    *others, last = fragments
    return [*others, dataclasses.replace(last, physical_rows=last.physical_rows - 1)]


def with_deleted_rows(fragments: FragmentList) -> list[Fragment]:
    first, *others = fragments
    file = DeletionFile(file_type=DeletionFileType.BITMAP, read_version=1, id=9, num_deleted_rows=9)
    return [dataclasses.replace(first, deletion_file=file), *others]


Breakage: TypeAlias = "Callable[[FragmentList], list[Fragment]]"
NUMBERS = (
    r"on version \d+: \d+ rows before, -?\d+ deleted, \d+ added, -?\d+ expected; the new version would have"
)

BREAKAGES: dict[str, Breakage] = {
    "the last fragment lost": without_last,
    "the first fragment lost": without_first,
    "a fragment twice": with_one_twice,
    "an id twice": with_an_id_twice,
    "a row lost": with_a_row_less,
    "rows deleted": with_deleted_rows,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_applying_breaks_is_refused(uri: str, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    before = files(uri)
    for breakage in BREAKAGES.values():

        def broken(
            state: TableState, operation: Operation, breakage: Breakage = breakage, **options: Any
        ) -> TableState:
            made = apply(state, operation, **options)
            # where nothing is left, a fragment that stays is one too many
            changed = (
                breakage(made.manifest.fragments) if made.manifest.fragments else state.manifest.fragments
            )
            manifest = dataclasses.replace(made.manifest, fragments=FragmentList.of(changed))
            return TableState(manifest, made.indices)

        with monkeypatch.context() as patch:
            patch.setattr(committer, "apply", broken)
            with pytest.raises(RowCountMismatchError, match=NUMBERS):
                CHANGES[change](lance_df.dataset(uri))
        assert files(uri) == before
        table = lance_df.dataset(uri)
        assert (table.version, table.count_rows()) == (2, NUM_ROWS)
    table.validate()
    CHANGES[change](table)
    assert lance_df.dataset(uri).version > 2
    lance_df.dataset(uri).validate()


# -- what a builder gets wrong ---------------------------------------------------------------------------


@pytest.fixture
def published_as(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], Operation]], None]:
    """Let operations be handed to the committer otherwise than they were built; what they state stays."""
    original = committer.Committer.__init__

    def replace(change: Callable[[Any], Operation]) -> None:
        def changed(self: Any, location: Any, transaction: Any, *args: Any, **options: Any) -> None:
            if type(transaction.operation) is wanted(change):
                transaction = dataclasses.replace(transaction, operation=change(transaction.operation))
            original(self, location, transaction, *args, **options)

        monkeypatch.setattr(committer.Committer, "__init__", changed)

    return replace


def wanted(change: Callable[[Any], Operation]) -> object:
    """Return the kind of operation that a function changes: the type that it returns."""
    return {each.__name__: each for each in (Append, Delete, Update, Rewrite, Merge, Overwrite)}[
        change.__annotations__["return"]
    ]


def append_less(operation: Append) -> Append:
    return Append(operation.fragments[1:])


def append_twice(operation: Append) -> Append:
    return Append((*operation.fragments, operation.fragments[0]))


def overwrite_less(operation: Overwrite) -> Overwrite:
    return dataclasses.replace(operation, fragments=operation.fragments[:-1])


def overwrite_twice(operation: Overwrite) -> Overwrite:
    return dataclasses.replace(operation, fragments=operation.fragments * 2)


def delete_less(operation: Delete) -> Delete:
    return dataclasses.replace(operation, updated_fragments=())


def delete_more(operation: Delete) -> Delete:
    return dataclasses.replace(operation, deleted_fragment_ids=(*operation.deleted_fragment_ids, 4))


def delete_whole(operation: Delete) -> Delete:
    (fragment,) = operation.updated_fragments
    return Delete((), (*operation.deleted_fragment_ids, fragment.id))


def delete_elsewhere(operation: Delete) -> Delete:
    """Book the rows of fragment 2 to fragment 3, which has as many."""
    (fragment,) = operation.updated_fragments
    return dataclasses.replace(operation, updated_fragments=(dataclasses.replace(fragment, id=3),))


def update_without_new(operation: Update) -> Update:
    return dataclasses.replace(operation, new_fragments=())


def update_with_new_twice(operation: Update) -> Update:
    return dataclasses.replace(operation, new_fragments=operation.new_fragments * 2)


def update_without_removal(operation: Update) -> Update:
    return dataclasses.replace(operation, removed_fragment_ids=operation.removed_fragment_ids[1:])


def update_with_a_removal(operation: Update) -> Update:
    named = {*operation.removed_fragment_ids, *(each.id for each in operation.updated_fragments)}
    another = min(set(range(NUM_FRAGMENTS)) - named)
    return dataclasses.replace(operation, removed_fragment_ids=(*operation.removed_fragment_ids, another))


def update_elsewhere(operation: Update) -> Update:
    (fragment,) = operation.updated_fragments
    return dataclasses.replace(operation, updated_fragments=(dataclasses.replace(fragment, id=3),))


def rewrite_less(operation: Rewrite) -> Rewrite:
    first, *others = operation.groups
    (*new, last) = first.new_fragments
    less = dataclasses.replace(last, physical_rows=last.physical_rows - 1)
    return dataclasses.replace(operation, groups=(RewriteGroup(first.old_fragments, (*new, less)), *others))


def rewrite_into_nothing(operation: Rewrite) -> Rewrite:
    first, *others = operation.groups
    return dataclasses.replace(operation, groups=(RewriteGroup(first.old_fragments, ()), *others))


def rewrite_one_less(operation: Rewrite) -> Rewrite:
    first, *others = operation.groups
    return dataclasses.replace(
        operation, groups=(RewriteGroup(first.old_fragments[1:], first.new_fragments), *others)
    )


def merge_undeleted(operation: Merge) -> Merge:
    whole = tuple(dataclasses.replace(fragment, deletion_file=None) for fragment in operation.fragments)
    return dataclasses.replace(operation, fragments=whole)


MISTAKES = {
    "append": (append_less, append_twice),
    "overwrite": (overwrite_less, overwrite_twice),
    "delete": (delete_less, delete_more, delete_whole, delete_elsewhere),
    "update": (
        update_without_new,
        update_with_new_twice,
        update_without_removal,
        update_with_a_removal,
        update_elsewhere,
    ),
    "upsert": (update_without_new, update_with_new_twice, update_without_removal, update_with_a_removal),
    "compaction": (rewrite_less, rewrite_into_nothing, rewrite_one_less),
    "new column": (merge_undeleted,),
}


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        pytest.param(name, each, id=f"{name}: {each.__name__}")
        for name, many in MISTAKES.items()
        for each in many
    ],
)
def test_what_a_builder_gets_wrong_is_refused(
    uri: str, published_as: Callable[..., None], change: str, mistake: Callable[[Any], Operation]
) -> None:
    before = files(uri)
    published_as(mistake)
    # stable row ids tell some of it sooner
    with pytest.raises((RowCountMismatchError, InvalidInputError), match=f"{NUMBERS}|row id"):
        CHANGES[change](lance_df.dataset(uri))
    left = files(uri)
    if change == "compaction":  # the ids of fragments were reserved before, by a commit of its own
        left = {name for name in left if not name.startswith(("_versions", "_transactions"))}
        before = {name for name in before if not name.startswith(("_versions", "_transactions"))}
    assert left == before
    table = lance_df.dataset(uri)
    assert table.count_rows() == NUM_ROWS
    table.validate()


def test_a_first_version_has_the_rows_that_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def less(operation: Overwrite, **options: Any) -> TableState:
        return create(overwrite_less(operation), **options)

    monkeypatch.setattr("lance_df.table.commit.loop.create", less)
    numbers = "0 rows before, 0 deleted, 30 added, 30 expected; the new version would have 20 rows"
    with pytest.raises(RowCountMismatchError, match=numbers):
        lance_df.write_dataset(rows(0, 30), tmp_path / "t.lance", max_rows_per_file=10)
    assert not (tmp_path / "t.lance").exists()


def test_rows_that_the_writer_loses_are_missed(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lossy(*args: Any, **options: Any) -> Any:
        table, schema, batches, *others = args
        return fragments_written(table, schema, (list(batches)[:-1]), *others, **options)

    monkeypatch.setattr("lance_df.table.writing.write.fragments_written", lossy)
    before = files(uri)
    reader = pa.RecordBatchReader.from_batches(
        rows(0, 1).schema, [*rows(0, 5).to_batches(), *rows(5, 9).to_batches()]
    )
    numbers = "57 rows before, 0 deleted, 9 added, 66 expected; the new version would have 62 rows"
    with pytest.raises(RowCountMismatchError, match=numbers):
        lance_df.write_dataset(reader, uri, mode="append")
    assert files(uri) == before


# -- other writers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["delete", "update", "upsert"])
def test_a_stale_rebase_is_refused(uri: str, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """Deletions of others would be undone by fragments as they were before."""
    stale = open_table(uri)
    lance.dataset(uri).delete("id in (26, 45)")
    before = files(uri)
    monkeypatch.setattr(Rebase, "apply", lambda _, operation: operation)
    changed = lance_df.dataset(uri)
    changed._table = stale
    with pytest.raises(RowCountMismatchError, match="fragment 2 would"):
        {**CHANGES, "delete": lambda t: t.delete("id in (27, 28)")}[change](changed)
    assert files(uri) == before
    assert lance_df.dataset(uri).count_rows() == NUM_ROWS - 2


def test_deletions_of_two_writers_in_one_fragment_add_up(uri: str) -> None:
    stale = lance_df.dataset(uri)
    lance.dataset(uri).delete("id in (26, 45)")
    assert stale.delete("id >= 27 and id < 42") == {"num_deleted_rows": 15}
    assert lance_df.dataset(uri).count_rows() == NUM_ROWS - 17
    stale = lance_df.dataset(uri)
    lance.dataset(uri).delete("id < 25")
    stale.update({"a": "'x'"}, where="id >= 25 and id < 45")
    assert lance_df.dataset(uri).count_rows() == NUM_ROWS - 17 - 25
    lance.dataset(uri).validate()


# -- operations of other programs -------------------------------------------------------------------------


def metadata(uri: str) -> list[Any]:
    return [fragment.metadata for fragment in lance_df.dataset(uri).get_fragments()]


def without_deletions(fragment: Any) -> Any:
    return dataclasses.replace(fragment, deletion_file=None)


FOREIGN: dict[str, Callable[[str], Any]] = {
    "delete nothing, undelete": lambda uri: LanceOperation.Delete(
        [without_deletions(metadata(uri)[5])], [], ""
    ),
    "update, undelete": lambda uri: LanceOperation.Update([], [without_deletions(metadata(uri)[5])], [], []),
    "merge, undelete": lambda uri: LanceOperation.Merge(
        [*metadata(uri)[:5], without_deletions(metadata(uri)[5])], lance_df.dataset(uri).lance_schema
    ),
    "merge with one twice": lambda uri: LanceOperation.Merge(
        [*metadata(uri), dataclasses.replace(metadata(uri)[0], id=77)], lance_df.dataset(uri).lance_schema
    ),
    "rewrite into less": lambda uri: rewritten(uri, [named(metadata(uri)[0], "x.lance")]),
    "rewrite into more": lambda uri: rewritten(
        uri, [named(metadata(uri)[0], name) for name in ("x.lance", "y.lance", "z.lance")]
    ),
}


def named(fragment: Any, name: str) -> Any:
    """Return a fragment with another data file, as if another program had written it."""
    fields = [dataclasses.replace(file, path=name) for file in fragment.files]
    return dataclasses.replace(fragment, files=fields, id=0, row_id_meta=None)


def rewritten(uri: str, new: list[Any]) -> Any:
    group = LanceOperation.RewriteGroup(metadata(uri)[:2], new)
    return LanceOperation.Rewrite([group], [])


@pytest.mark.parametrize("change", FOREIGN)
def test_operations_of_others_are_checked(tmp_path: Path, change: str) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 60), uri, max_rows_per_file=ROWS_EACH)
    lance.dataset(uri).delete("id >= 55 and id < 58")
    before = files(uri)
    with pytest.raises(RowCountMismatchError, match="57 rows before"):
        lance_df.LanceDataset.commit(uri, FOREIGN[change](uri), read_version=2)
    assert files(uri) == before
    assert lance_df.dataset(uri).count_rows() == NUM_ROWS


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_file_is_added_twice_where_pylance_does_that(tmp_path: Path, mode: str) -> None:
    counts = []
    for api in (lance, lance_df):
        uri = str(tmp_path / api.__name__)
        lance.write_dataset(rows(0, 60), uri, max_rows_per_file=ROWS_EACH)
        dataset = api.dataset(uri)
        twice = [dataset.get_fragments()[0].metadata] * 2
        added = api.LanceOperation.Append(twice)
        change = added if mode == "append" else api.LanceOperation.Overwrite(dataset.lance_schema, twice)
        api.LanceDataset.commit(uri, change, read_version=1)
        counts += [lance.dataset(uri).count_rows(), lance_df.dataset(uri).count_rows()]
    assert counts == ([80] if mode == "append" else [20]) * 4


def test_what_one_process_says_of_all_rows_is_accepted(uri: str) -> None:
    lance.dataset(uri).delete("true")
    assert lance_df.dataset(uri).count_rows() == 0
    lance_df.write_dataset(rows(0, 5), uri, mode="append")
    lance_df.dataset(uri).restore()
    assert lance_df.dataset(uri).delete("true") == {"num_deleted_rows": 5}
    lance_df.dataset(uri, version=1).restore()
    assert lance_df.dataset(uri).count_rows() == NUM_ROWS + 3


def test_deletion_files_without_a_count_are_counted_by_the_next_commit(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(rows(0, 20), uri, max_rows_per_file=10)
    deleted = lance_df.dataset(uri).get_fragments()[0].delete("id < 4")
    assert deleted is not None
    uncounted = dataclasses.replace(
        deleted, deletion_file=dataclasses.replace(deleted.deletion_file, num_deleted_rows=0)
    )
    lance_df.LanceDataset.commit(uri, LanceOperation.Delete([uncounted], [], "id < 4"), read_version=1)
    assert lance_df.dataset(uri).count_rows() == 16
    lance_df.write_dataset(rows(20, 25), uri, mode="append")
    assert open_table(uri).fragments.num_deleted.tolist() == [4, 0, 0]
    assert lance_df.dataset(uri).delete("id < 6") == {"num_deleted_rows": 2}
    assert lance_df.dataset(uri).count_rows() == 19
