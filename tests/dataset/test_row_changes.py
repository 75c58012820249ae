"""Delete, update, merge-insert: what they return, refuse and leave behind; tables of every history."""

from __future__ import annotations

import datetime as dt
import pickle
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    LanceError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_df.storage import Location

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 3000
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string(), nullable=False),
        pa.field("value", pa.float32()),
    ]
)


def table(start: int = 0, stop: int = ROWS) -> pa.Table:
    ids = np.arange(start, stop)
    return pa.table({"id": ids, "name": [f"n{i}" for i in ids], "value": ids.astype(np.float32)}, SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> str:
    target = str(tmp_path / "t.lance")
    lance.write_dataset(table(), target, max_rows_per_file=1000, enable_stable_row_ids=True)
    return target


def files(path: str) -> set[str]:
    return {str(each.relative_to(path)) for each in Path(path).rglob("*") if each.is_file()}


def ids(path: str) -> list[int]:
    dataset = lance.dataset(path)
    dataset.validate()
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def upsert(dataset: Any, rows: pa.Table) -> Any:
    return dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def test_a_day_in_the_life_of_a_table(path: str):
    dataset = lance_df.dataset(path)
    assert dataset.delete("id < 1000 or id = 2500") == {"num_deleted_rows": 1001}
    assert [each.fragment_id for each in dataset.get_fragments()] == [1, 2]
    assert dataset.delete(pc.field("id") == 1500) == {"num_deleted_rows": 1}
    assert dataset.update({"name": "upper(name)"}, where="value >= 2900") == {"num_rows_updated": 100}
    assert dataset.update({"value": "1"}, where=pc.field("id") < 1003) == {"num_rows_updated": 3}
    found = upsert(dataset, table(2990, 3010))
    assert found == {"num_inserted_rows": 10, "num_updated_rows": 10, "num_deleted_rows": 0}
    dataset.insert(table(9000, 9001))
    assert dataset.version == 7 == lance.dataset(path).version
    expected = [each for each in [*range(1000, 3010), 9000] if each not in (1500, 2500)]
    assert ids(path) == expected
    dataset.truncate_table()
    assert (dataset.count_rows(), dataset.get_fragments(), ids(path)) == (0, [], [])


def test_deletion_files_change_their_form(path: str):
    wide = str(Path(path).with_name("wide.lance"))
    lance.write_dataset(pa.table({"id": range(20_000)}), wide)
    dataset = lance_df.dataset(wide)
    dataset.delete("id < 4999")
    assert {Path(name).suffix for name in files(wide) if name.startswith("_deletions")} == {".arrow"}
    dataset.delete("id = 7777")
    assert {Path(name).suffix for name in files(wide) if name.startswith("_deletions")} == {".arrow", ".bin"}
    assert ids(wide) == [each for each in range(4999, 20_000) if each != 7777]


WRONG: list[tuple[Callable[[Any], Any], type[LanceError]]] = [
    (lambda ds: ds.delete("nobody = 1"), ColumnNotFoundError),
    (lambda ds: ds.delete("id ="), InvalidInputError),
    (lambda ds: ds.delete("id + 1"), InvalidInputError),
    (lambda ds: ds.delete(""), InvalidInputError),
    (lambda ds: ds.delete(None), InvalidInputError),
    (lambda ds: ds.delete("id in (select 1)"), InvalidInputError),
    (lambda ds: ds.delete("true", conflict_retries=-1), InvalidInputError),
    (lambda ds: ds.delete("true", retry_timeout=3), InvalidInputError),
    (lambda ds: ds.update({}), InvalidInputError),
    (lambda ds: ds.update({"nobody": "1"}), ColumnNotFoundError),
    (lambda ds: ds.update({"_rowid": "1"}), ColumnNotFoundError),
    (lambda ds: ds.update({"id.x": "1"}), ColumnNotFoundError),
    (lambda ds: ds.update({"id": "nobody"}), ColumnNotFoundError),
    (lambda ds: ds.update({"id": "sum(id)"}), InvalidInputError),
    (lambda ds: ds.update({"id": 1}), InvalidInputError),
    (lambda ds: ds.update({"id": "'x'"}), InvalidInputError),
    (lambda ds: ds.update({"id": "name"}, where="id > 2000"), InvalidInputError),
    (lambda ds: ds.update({"name": "CASE WHEN id < 2500 THEN name END"}), InvalidInputError),
    (lambda ds: ds.update({"id": "1"}, where=3), InvalidInputError),
    (lambda ds: ds.merge_insert("nobody"), ColumnNotFoundError),
    (lambda ds: ds.merge_insert(), InvalidInputError),
    (lambda ds: ds.merge_insert([]), InvalidInputError),
    (lambda ds: ds.merge_insert("id").execute(table()), InvalidInputError),
    (lambda ds: ds.merge_insert("id").write_mode("sideways"), InvalidInputError),
    (lambda ds: ds.merge_insert("id").conflict_retries(-1), InvalidInputError),
    (lambda ds: ds.merge_insert("id").when_not_matched_by_source_delete("nobody = 1"), ColumnNotFoundError),
    (lambda ds: ds.merge_insert("id").when_matched_update_all(5), InvalidInputError),
    (lambda ds: upsert(ds, table().drop_columns("id")), InvalidInputError),
    (lambda ds: upsert(ds, table().append_column("more", [[1] * ROWS])), InvalidInputError),
    (lambda ds: upsert(ds, table().drop_columns("name")), InvalidInputError),
    (lambda ds: upsert(ds, table().set_column(0, "id", [[str(i) for i in range(ROWS)]])), InvalidInputError),
    (lambda ds: upsert(ds, pa.concat_tables([table(), table(5, 6)])), InvalidInputError),
    (lambda ds: upsert(ds, pa.table({"id": [1], "name": pa.nulls(1, pa.string())})), InvalidInputError),
    (lambda ds: upsert(ds, 5), InvalidInputError),
    (
        lambda ds: ds.merge_insert("id").when_matched_update_all("source.value + 1").execute(table()),
        InvalidInputError,
    ),
    (
        lambda ds: ds.merge_insert("id").when_matched_update_all("value > 1").execute(table(9000, 9001)),
        ColumnNotFoundError,
    ),
    (
        lambda ds: ds.merge_insert("id").when_matched_fail().when_not_matched_insert_all().execute(table()),
        InvalidInputError,
    ),
    (
        lambda ds: (
            ds.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").execute(table())
        ),
        InvalidInputError,
    ),
    (
        lambda ds: (
            ds.merge_insert("id").target_bases(["nowhere"]).when_not_matched_insert_all().execute(table())
        ),
        InvalidInputError,
    ),
]


def test_bad_input_leaves_nothing_behind(path: str):
    before = files(path)
    dataset = lance_df.dataset(path)
    for number, (change, error) in enumerate(WRONG):
        with pytest.raises(error):
            change(dataset)
        assert files(path) == before, number
    assert dataset.version == 1


def test_a_full_store_leaves_nothing_behind(path: str, monkeypatch: pytest.MonkeyPatch):
    before = files(path)
    dataset = lance_df.dataset(path)
    put = Location.put

    def refuse(location: Location, data: bytes) -> None:
        if "_deletions/2-" in location.path:
            raise StorageError("no space left")
        put(location, data)

    monkeypatch.setattr(Location, "put", refuse)
    for change in (
        lambda: dataset.delete("id % 2 = 0"),
        lambda: dataset.update({"value": "0"}, where="id % 2 = 0"),
        lambda: upsert(dataset, table(500, 2500)),
    ):
        with pytest.raises(StorageError, match="no space left"):
            change()
        assert files(path) == before


def test_clauses_return_what_pylance_returns(tmp_path: Path):
    """Each combination of clauses on two equal tables; partial rows, conditions and null keys among them."""
    source = table(2900, 3100).append_column("extra", pa.nulls(200, pa.int32())).drop_columns("extra")
    source = pa.concat_tables(
        [source, pa.table({"id": [None, None], "name": ["x", "y"], "value": [1.0, None]}, SCHEMA)]
    )
    builders: list[Callable[[Any], Any]] = [
        lambda b: b.when_matched_update_all().when_not_matched_insert_all(),
        lambda b: b.when_not_matched_insert_all(),
        lambda b: b.when_matched_update_all("source.value > 2950 and target.name like '%9'"),
        lambda b: b.when_matched_delete().when_not_matched_insert_all(),
        lambda b: b.when_matched_update_all().when_not_matched_by_source_delete(),
        lambda b: b.when_not_matched_by_source_delete("value < 10 and id is not null"),
    ]
    for number, clauses in enumerate(builders):
        results = []
        for library in (lance, lance_df):
            target = str(tmp_path / f"{number}-{library.__name__}.lance")
            lance.write_dataset(table(), target, max_rows_per_file=1500)
            statistics = clauses(library.dataset(target).merge_insert(["id"])).execute(source)
            lance.dataset(target).validate()
            results.append((statistics, lance.dataset(target).to_table().sort_by("name").to_pylist()))
        assert results[0] == results[1], number


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_columns_are_patched_in_place(tmp_path: Path, version: str):
    target = str(tmp_path / "t.lance")
    lance.write_dataset(
        table(), target, max_rows_per_file=1000, data_storage_version=version, enable_stable_row_ids=True
    )
    lance.dataset(target).create_scalar_index("value", "BTREE")
    lance.dataset(target).delete("id in (10, 2005)")
    dataset = lance_df.dataset(target)
    source = pa.table(
        {"id": [5, 2000, 2005, 9999], "value": pa.array([-1.0, -2.0, -3.0, -4.0], pa.float32())}
    )
    builder = dataset.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    assert builder.execute(source) == {"num_inserted_rows": 0, "num_updated_rows": 2, "num_deleted_rows": 0}
    theirs = lance.dataset(target)
    theirs.validate()
    assert theirs.to_table(filter="value < 0").to_pydict() == {
        "id": [5, 2000],
        "name": ["n5", "n2000"],
        "value": [-1.0, -2.0],
    }
    assert theirs.count_rows() == ROWS - 2
    assert lance_df.dataset(target).list_indices()[0]["fragment_ids"] == {1}
    changed = theirs.to_table(columns=["id"], filter=f"_row_last_updated_at_version = {theirs.version}")
    assert changed["id"].to_pylist() == [5, 2000]
    assert [len(each.data_files()) for each in theirs.get_fragments()] == [2, 1, 2]


def test_tables_with_a_history(tmp_path: Path):
    """Renamed, dropped and late columns; a branch and a clone, whose new files are their own."""
    target = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(table(), target, max_rows_per_file=1000)
    dataset.add_columns({"late": "id * 2"})
    dataset.alter_columns({"path": "value", "name": "amount"})
    dataset.drop_columns(["late"])
    dataset.add_columns(pa.field("late", pa.string()))
    ours = lance_df.dataset(target)
    assert ours.update({"late": "concat('l', name)"}, where="amount < 5") == {"num_rows_updated": 5}
    assert ours.delete("late = 'ln3' or id = 2999") == {"num_deleted_rows": 2}
    rows = pa.table({"id": [2, 3], "name": ["two", "three"], "late": ["x", "y"]})
    assert upsert(ours, rows)["num_inserted_rows"] == 1
    expected = {
        "id": [0, 1, 2, 3, 4],
        "amount": [0.0, 1.0, 2.0, None, 4.0],
        "late": ["ln0", "ln1", "x", "y", "ln4"],
    }
    found = lance.dataset(target).to_table(columns=list(expected), filter="late is not null").sort_by("id")
    assert found.to_pydict() == expected
    before = files(target)
    clone = lance.dataset(target).shallow_clone(str(tmp_path / "clone.lance"), ours.version)
    copy = lance_df.dataset(clone.uri)
    copy.delete("id >= 1000")
    copy.update({"amount": "0"}, where="id = 1")
    lance.dataset(clone.uri).validate()
    assert lance.dataset(clone.uri).count_rows() == 1000
    assert any(name.startswith("_deletions") for name in files(clone.uri))
    assert files(target) == before
    assert lance_df.dataset(target).count_rows() == ROWS - 1


def test_zone_maps_rule_rows_out_and_stay_right(path: str):
    lance.dataset(path).create_scalar_index("id", "ZONEMAP")
    dataset = lance_df.dataset(path)
    assert dataset.update({"id": "id + 10000"}, where="id between 10 and 12")["num_rows_updated"] == 3
    assert upsert(dataset, table(10011, 10013))["num_updated_rows"] == 2
    assert dataset.delete("id = 10010") == {"num_deleted_rows": 1}
    for library in (lance, lance_df):
        assert library.dataset(path).count_rows("id between 10 and 12") == 0
        assert library.dataset(path).count_rows("id > 10000") == 2


def test_writers_of_one_fragment_all_succeed(path: str):
    """Two threads delete disjoint rows of the same fragments, one updates others, one merges."""
    errors: list[BaseException] = []

    def work(change: Callable[[Any, int], Any]) -> None:
        dataset = lance_df.dataset(path)
        try:
            for step in range(4):
                change(dataset, step)
        except BaseException as err:  # noqa: BLE001 - reported below
            errors.append(err)

    changes: list[Callable[[Any, int], Any]] = [
        lambda dataset, step: dataset.delete(f"id < {ROWS} and id % 20 = {step}"),
        lambda dataset, step: dataset.delete(f"id < {ROWS} and id % 20 = {10 + step}"),
        lambda dataset, step: dataset.update({"value": "-1"}, where=f"id < {ROWS} and id % 20 = {5 + step}"),
        lambda dataset, step: upsert(dataset, table(ROWS + 10 * step, ROWS + 10 * step + 10)),
    ]
    threads = [threading.Thread(target=work, args=(change,)) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    gone = {0, 1, 2, 3, 10, 11, 12, 13}
    expected = [each for each in range(ROWS) if each % 20 not in gone] + list(range(ROWS, ROWS + 40))
    assert ids(path) == expected
    assert lance.dataset(path).version == 17
    assert lance.dataset(path).count_rows("value = -1") == ROWS // 5
    row_ids = lance.dataset(path).to_table(columns=["id"], with_row_id=True)
    assert len(pc.unique(row_ids["_rowid"])) == row_ids.num_rows


def test_changes_to_the_same_rows_are_computed_again(path: str):
    stale = lance_df.dataset(path)
    lance.dataset(path).update({"value": "7"}, where="id < 100")
    assert stale.update({"value": "value + 1"}, where="id < 50") == {"num_rows_updated": 50}
    values = lance.dataset(path).to_table(columns=["id", "value"], filter="id < 100").sort_by("id")
    assert values["value"].to_pylist() == [8.0] * 50 + [7.0] * 50
    stale = lance_df.dataset(path)
    lance.dataset(path).update({"value": "9"}, where="id < 100")
    before = files(path)
    with pytest.raises(RetryableConflictError):
        stale.update({"value": "0"}, where="id < 50", conflict_retries=0)
    with pytest.raises(RetryableConflictError):
        stale.delete("id < 50", retry_timeout=dt.timedelta(0))
    assert files(path) == before
    assert stale.version == lance.dataset(path).version - 1


def test_plans_and_transactions(path: str):
    dataset = lance_df.dataset(path)
    builder = (
        dataset.merge_insert("id").when_matched_update_all("source.id > 5").when_not_matched_insert_all()
    )
    before = files(path)
    assert "on=[id], when_matched=update, condition=source.id > 5" in builder.explain_plan()
    analyzed = builder.analyze_plan(pa.concat_tables([table(0, 100), table(5000, 5010)]))
    assert (
        "metrics=[num_inserted_rows=10, num_updated_rows=94, num_deleted_rows=0, num_files_written=1, "
        in analyzed
    )
    assert int(analyzed.partition("bytes_written=")[2].removesuffix("]")) > 0
    assert files(path) == before
    transaction, statistics = builder.execute_uncommitted(table(2999, 3001))
    assert statistics == {"num_inserted_rows": 1, "num_updated_rows": 1, "num_deleted_rows": 0}
    assert dataset.version == 1
    committed = lance_df.LanceDataset.commit(path, pickle.loads(pickle.dumps(transaction)))
    assert ids(path) == list(range(3001))
    assert committed.version == 2


def test_merges_of_no_rows_take_columns_without_a_type(tmp_path: Path) -> None:
    """Arrow makes columns of type null of no values; with rows, such a column is refused by both."""
    stored = pa.table({"id": pa.array([1, 2], pa.int64()), "k": ["a", "b"]})
    found = []
    for module in (lance, lance_df):
        uri = str(tmp_path / f"{module.__name__}.lance")
        ds = module.write_dataset(stored, uri)
        for given in ({"id": pa.array([], pa.int64()), "k": pa.nulls(0)}, {"id": pa.nulls(0)}):
            merge = ds.merge_insert("id").when_matched_update_all()
            found.append(merge.execute(pa.table(given)))
        with pytest.raises(OSError, match="null"):
            merge.execute(pa.table({"id": pa.array([1], pa.int64()), "k": pa.nulls(1)}))
        assert module.dataset(uri).to_table() == stored
    assert found[:2] == found[2:]


def test_rows_that_only_tell_what_to_delete_may_have_other_columns(tmp_path: Path) -> None:
    source = pa.table({"id": [0, 1], "note": ["x", "y"]})
    for library in (lance, lance_df):
        path = str(tmp_path / library.__name__)
        library.write_dataset(pa.table({"id": range(5)}), path)
        library.dataset(path).merge_insert("id").when_not_matched_by_source_delete("id > 3").execute(source)
        library.dataset(path).merge_insert("id").when_matched_delete().execute(source)
        assert library.dataset(path).to_table()["id"].to_pylist() == [2, 3]
    with pytest.raises(InvalidInputError, match="note"):
        lance_df.dataset(path).merge_insert("id").when_matched_update_all().execute(source)


def test_ambiguous_conditions_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "done": [True, False, None]})
    dataset = lance_df.write_dataset(rows, tmp_path / "t")
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["bucket(id, 2)"])
    namespace.append(rows)
    where = "done IS DISTINCT FROM true AND id = 3"
    for change in (
        lambda: dataset.delete(where),
        lambda: dataset.get_fragments()[0].delete(where),
        lambda: dataset.update({"id": "9"}, where=where),
        lambda: dataset.update({"done": where}),
        lambda: dataset.merge_insert("id").when_matched_update_all(where.replace("done", "target.done")),
        lambda: dataset.merge_insert("id").when_not_matched_by_source_delete(where),
        lambda: namespace.delete(where),
        lambda: namespace.update({"id": "9"}, where),
    ):
        with pytest.raises(UnsupportedFeatureError, match="use brackets"):
            change()
    dataset.delete("(done IS DISTINCT FROM true) AND id = 3")
    assert dataset.to_table()["id"].to_pylist() == [1, 2]
