"""Compaction: the same rows, ids and versions in fewer fragments, valid for pylance; nothing is left over."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    CommitStateUnknownError,
    InvalidInputError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_df.optimize import (
    Compaction,
    CompactionMetrics,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)
from lance_df.table.commit import committer
from lance_df.table.maintenance import compaction

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
ROW_VERSIONS = ["_row_created_at_version", "_row_last_updated_at_version"]
FILTERS = [
    "a = 77",
    "a > 180 and a < 410",
    "s = 's3'",
    "s = 'new'",
    "s is null",
    "a in (1, 2, 555)",
    "f > 500",
]


def make_table(first: int, num_rows: int = 200) -> pa.Table:
    ids = np.arange(first, first + num_rows)
    return pa.table(
        {
            "a": ids,
            "s": [None if i % 11 == 0 else f"s{i % 7}" for i in ids.tolist()],
            "f": ids.astype(np.float64),
            "l": [None if i % 13 == 0 else [i, None, i + 1][: i % 4] for i in ids.tolist()],
            # structs of 2.0 and 0.1 are never null
            "st": [{"x": None if i % 5 == 0 else i, "y": str(i)} for i in ids.tolist()],
        }
    )


def write_history(uri: str, version: str, *, stable: bool) -> None:
    """Write a table with deletions, updates, added, dropped and renamed columns, and indices."""
    for number in range(5):
        lance.write_dataset(
            make_table(200 * number),
            uri,
            mode="append" if number else "create",
            data_storage_version=version,
            enable_stable_row_ids=stable,
        )
    theirs = lance.dataset(uri)
    # pylance panics when it asks a zone map of a 0.1 table that does not cover all of it
    for column, kind in (("a", "BTREE"), ("s", "BITMAP"), ("f", "ZONEMAP" if version != "0.1" else "BTREE")):
        theirs.create_scalar_index(column, kind)
    theirs.delete("a % 3 = 0 and a < 500")
    theirs.update({"s": "'new'"}, where="a >= 700 and a < 720")
    theirs.delete("a >= 800 and a < 1000")
    if version != "0.1":
        theirs.add_columns({"double": "a * 2"})
        theirs.drop_columns(["st"])
        theirs.alter_columns({"path": "double", "name": "twice"})


def rows(module: Any, uri: str, columns: list[str] | None = None) -> pa.Table:
    dataset = module.dataset(uri)
    names = [*dataset.schema.names, *(columns or [])]
    return dataset.to_table(columns=names).sort_by("a")


def data_files(uri: str) -> set[str]:
    return {file.name for file in (Path(uri) / "data").iterdir()}


def referenced(uri: str) -> set[str]:
    versions = [each["version"] for each in lance_df.dataset(uri).versions()]
    opened = [lance_df.dataset(uri, version=version) for version in versions]
    return {
        file.path for each in opened for fragment in each.get_fragments() for file in fragment.data_files()
    }


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_everything_stays(tmp_path: Path, version: str, stable: bool) -> None:
    uri = str(tmp_path / "t.lance")
    write_history(uri, version, stable=stable)
    extra = ["_rowid", *ROW_VERSIONS] if stable else []
    before = rows(lance, uri, extra)
    ours = lance_df.dataset(uri)
    old_version, newest = ours.version, max(ours.fragment_ids())
    options: dict[str, Any] = {"target_rows_per_fragment": 400, "materialize_deletions_threshold": 0.0}
    metrics = ours.optimize.compact_files(**options)
    assert metrics.fragments_removed > metrics.fragments_added > 0
    assert ours.version > old_version + 1
    theirs = lance.dataset(uri)
    theirs.validate()
    ours.validate()
    assert rows(lance, uri, extra).equals(before)
    assert rows(lance_df, uri, extra).equals(before)
    new = [fragment for fragment in ours.get_fragments() if fragment.fragment_id > newest]
    assert len(new) == metrics.fragments_added
    assert not any(fragment.metadata.deletion_file for fragment in ours.get_fragments())
    assert all(len(fragment.data_files()) == 1 for fragment in new)
    check_filters(uri)
    theirs.optimize.optimize_indices()
    check_filters(uri)
    assert all(index.num_rows_indexed == before.num_rows for index in lance.dataset(uri).describe_indices())
    assert lance_df.dataset(uri).optimize.compact_files(**options) == CompactionMetrics()
    lance.dataset(uri).optimize.compact_files()
    assert rows(lance_df, uri, extra).equals(before)


def check_filters(uri: str) -> None:
    theirs, ours = lance.dataset(uri), lance_df.dataset(uri)
    for text in FILTERS:
        expected = theirs.scanner(filter=text, use_scalar_index=False, columns=["a"]).to_table().sort_by("a")
        assert theirs.scanner(filter=text, columns=["a"]).to_table().sort_by("a").equals(expected), text
        assert ours.to_table(columns=["a"], filter=text).sort_by("a").equals(expected), text
        assert theirs.count_rows(text) == ours.count_rows(text) == expected.num_rows, text


def test_our_zone_maps_cover_the_new_fragments(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(5):
        lance_df.write_dataset(
            make_table(200 * number).drop_columns(["st", "l"]), uri, mode="append", statistics=True
        )
    ours = lance_df.dataset(uri)
    ours.delete("a % 2 = 0")
    assert ours.optimize.compact_files().fragments_removed == 5
    for index in lance.dataset(uri).describe_indices():
        assert (index.num_rows_indexed, len(index.segments)) == (500, 1)
    check_filters(uri)
    assert ours.optimize.compact_files() == CompactionMetrics()


def test_rows_of_a_task_are_shared_out_evenly(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(5):
        lance_df.write_dataset(make_table(number * 250, 250), uri, mode="append")
    ours = lance_df.dataset(uri)
    ours.optimize.compact_files(target_rows_per_fragment=300)
    assert [fragment.physical_rows for fragment in ours.get_fragments()] == [500, 375, 375]


def test_files_that_are_full_by_bytes_are_left_alone(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(6):
        lance_df.write_dataset(
            pa.table({"x": np.random.default_rng(number).random(4000)}), uri, mode="append"
        )
    ours = lance_df.dataset(uri)
    options = {"max_bytes_per_file": 50_000, "compaction_mode": "try_binary_copy"}
    assert ours.optimize.compact_files(**options).fragments_added == 3
    assert ours.optimize.compact_files(**options) == CompactionMetrics()
    assert ours.count_rows() == 24_000


def test_fragments_without_rows_vanish(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(3):
        lance_df.write_dataset(make_table(200 * number), uri, mode="append")
    lance.dataset(uri).delete("a >= 201 and a < 400")
    ours = lance_df.dataset(uri)
    assert ours.optimize.compact_files() == CompactionMetrics(3, 1, 4, 1)
    assert ours.count_rows() == lance.dataset(uri).count_rows() == 401


# -- distributed --


def make_small(tmp_path: Path, **options: Any) -> str:
    uri = str(tmp_path / "t.lance")
    for number in range(6):
        lance_df.write_dataset(make_table(100 * number, 100), uri, mode="append", **options)
    return uri


@pytest.mark.parametrize("copy", [pickle.loads, None])
def test_steps_travel(tmp_path: Path, copy: Callable[[bytes], Any] | None) -> None:
    uri = make_small(tmp_path, enable_stable_row_ids=True)

    def travelled(thing: Any) -> Any:
        other = type(thing).from_json(thing.json()) if copy is None else copy(pickle.dumps(thing))
        assert other == thing
        assert type(other) in (CompactionPlan, CompactionTask, RewriteResult)
        return other

    ours = lance_df.dataset(uri)
    before = rows(lance, uri, ["_rowid", *ROW_VERSIONS])
    plan = travelled(Compaction.plan(ours, {"target_rows_per_fragment": 200}))
    assert (plan.num_tasks(), plan.read_version) == (3, 6)
    lance_df.write_dataset(make_table(600, 100), uri, mode="append")
    newer = lance_df.dataset(uri)
    results = [travelled(travelled(task).execute(newer)) for task in plan.tasks]
    # not all of them need to be committed
    assert Compaction.commit(newer, results[:1]) == CompactionMetrics(2, 1, 2, 1)
    assert newer.version == 9
    assert Compaction.commit(newer, results[1:]) == CompactionMetrics(4, 2, 4, 2)
    assert rows(lance, uri, ["_rowid", *ROW_VERSIONS]).slice(0, 600).equals(before)
    assert lance.dataset(uri).count_rows() == 700
    lance.dataset(uri).validate()
    assert Compaction.commit(newer, []) == CompactionMetrics()


@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER", "BTREE", "BITMAP"])
def test_indices_cover_what_tasks_rewrote(tmp_path: Path, kind: str) -> None:
    uri = make_small(tmp_path)
    ours = lance_df.dataset(uri)
    ours.create_scalar_index("a", kind, name="i")
    Compaction.commit(ours, [task.execute(ours) for task in Compaction.plan(ours).tasks])
    assert len(ours.get_fragments()) == 1
    assert ours.index_statistics("i")["num_unindexed_rows"] == 0
    assert ours.count_rows("a = 7") == lance.dataset(uri).count_rows("a = 7") == 1


def test_results_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    uri = make_small(tmp_path)
    ours = lance_df.dataset(uri)
    (task,) = Compaction.plan(ours).tasks
    result = task.execute(ours)
    with pytest.raises(InvalidInputError, match="same fragment"):
        Compaction.commit(ours, [result, result])
    ours.delete("a = 5")
    (other,) = Compaction.plan(ours).tasks
    with pytest.raises(InvalidInputError, match="at the same version"):
        Compaction.commit(ours, [result, other.execute(ours)])
    with pytest.raises(RetryableConflictError):
        Compaction.commit(ours, [result])
    assert ours.count_rows() == lance.dataset(uri).count_rows() == 599


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tasks": 1}', "null"])
def test_other_texts_are_refused(text: str) -> None:
    for kind in (CompactionPlan, CompactionTask, RewriteResult):
        with pytest.raises(InvalidInputError, match="not a text returned by json"):
            kind.from_json(text)


# -- others at work --


def delete(uri: str) -> None:
    lance.dataset(uri).delete("a = 150")


def update(uri: str) -> None:
    lance_df.dataset(uri).update({"s": "'new'"}, where="a = 150")


def compact(uri: str) -> None:
    lance.dataset(uri).optimize.compact_files()


@pytest.mark.parametrize("other", [delete, update, compact])
def test_a_conflict_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Callable[[str], None]
) -> None:
    uri = make_small(tmp_path)
    monkeypatch.setattr(compaction, "commit_rewrites", meanwhile(lambda: other(uri)))
    ours = lance_df.dataset(uri)
    with pytest.raises(RetryableConflictError):
        ours.optimize.compact_files()
    after = rows(lance, uri)
    assert data_files(uri) == referenced(uri)
    monkeypatch.undo()
    ours.checkout_latest()
    ours.optimize.compact_files()
    assert rows(lance_df, uri).equals(after)
    assert data_files(uri) == referenced(uri)


def append(uri: str) -> None:
    lance.write_dataset(make_table(600, 100), uri, mode="append")


def configure(uri: str) -> None:
    lance.dataset(uri).update_config({"k": "v"})


@pytest.mark.parametrize("other", [append, configure])
def test_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Callable[[str], None]) -> None:
    uri = make_small(tmp_path)
    monkeypatch.setattr(compaction, "commit_rewrites", meanwhile(lambda: other(uri)))
    ours = lance_df.dataset(uri)
    assert ours.optimize.compact_files().fragments_removed == 6
    expected = 700 if other is append else 600
    assert ours.count_rows() == lance.dataset(uri).count_rows() == expected
    lance.dataset(uri).validate()


def meanwhile(act: Callable[[], None]) -> Callable[..., Any]:
    """Let somebody else commit between the rewrite and its commit."""
    original = compaction.commit_rewrites

    def commit(*arguments: Any) -> Any:
        act()
        return original(*arguments)

    return commit


@pytest.mark.parametrize("mode", ["reencode", "force_binary_copy"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_failing_store_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, number: int
) -> None:
    uri = make_small(tmp_path)
    before = data_files(uri)
    calls = 0
    original = compaction.rewrite

    def rewrite(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise StorageError("disk full")
        return original(*arguments)

    monkeypatch.setattr(compaction, "rewrite", rewrite)
    with pytest.raises(StorageError):
        lance_df.dataset(uri).optimize.compact_files(target_rows_per_fragment=200, compaction_mode=mode)
    assert data_files(uri) == before
    assert lance_df.dataset(uri).version == 6


def test_nothing_is_removed_while_the_outcome_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = make_small(tmp_path)
    before = data_files(uri)

    original = committer.publish_manifest
    outcomes = iter([None, CommitStateUnknownError("no reply")])  # of the ids, and of what has them

    def publish(*arguments: Any, **more: Any) -> bool:
        if (error := next(outcomes)) is not None:
            raise error
        return original(*arguments, **more)

    monkeypatch.setattr(committer, "publish_manifest", publish)
    with pytest.raises(CommitStateUnknownError):
        lance_df.dataset(uri).optimize.compact_files()
    assert len(data_files(uri) - before) == 1


def test_types_that_a_file_version_cannot_store_are_refused(tmp_path: Path) -> None:
    """pylance writes fixed-size lists of structs in 2.0 if all are null, and then cannot read them."""
    uri = str(tmp_path / "t.lance")
    lists = pa.list_(pa.struct([("a", pa.int32())]), 3)
    rows = pa.table({"id": range(4), "c": pa.nulls(4, lists)})
    for mode in ("create", "append"):
        lance.write_dataset(rows, uri, mode=mode, data_storage_version="2.0")
    before = data_files(uri)
    table = lance_df.dataset(uri)
    table.delete("id = 1")
    with pytest.raises(UnsupportedFeatureError, match=r"'c'.*need file version 2.2"):
        table.optimize.compact_files()
    assert data_files(uri) == before
    assert lance_df.dataset(uri).to_table().to_pylist() == [{"id": n, "c": None} for n in (0, 2, 3)] * 2
