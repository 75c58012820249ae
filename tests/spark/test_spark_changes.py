"""DELETE and UPDATE by tasks do what the methods of one machine do; here without a JVM."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from local_tasks import NO_SPARK, LocalTasks

import lance_df
from lance_df.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)

pytestmark = pytest.mark.spark

TYPE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("part", pa.string()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("at", pa.timestamp("ns")),
        ("n", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
    ]
)
PARTS = ["a", "b", "ü", None, "d"]


def rows(count: int, start: int = 0, seed: int = 1) -> pa.Table:
    draw = random.Random(seed)
    ids = range(start, start + count)
    return pa.table(
        {
            "id": ids,
            "part": [draw.choice(PARTS) for _ in ids],
            "x": [draw.choice([None, float("nan"), -0.0, float(number)]) for number in ids],
            "s": [draw.choice([None, "", "naïve ☃", f"s{number % 9}"]) for number in ids],
            "at": [draw.choice([None, 1_000_000_007 * number]) for number in ids],
            "n": [draw.choice([None, {"a": None, "b": [f"{number}", None]}]) for number in ids],
        },
        schema=TYPE,
    )


@pytest.fixture
def tasks(monkeypatch):
    from lance_df.spark.changes import editing

    return LocalTasks().install(monkeypatch, editing)


def opened(path: Path) -> Any:
    if (path / "__manifest").exists():
        return lance_df.PartitionedNamespace.open(path)
    return lance_df.dataset(path)


def contents(path: Path, order: str = "id") -> pa.Table:
    table = opened(path).to_table()
    return table.sort_by(order).combine_chunks()


def files(path: Path) -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names}


def made(path: Path, kind: str) -> Path:
    if kind == "namespace":
        namespace = lance_df.PartitionedNamespace.create(path, TYPE, ["identity(part)"])
        namespace.append(rows(300))
        namespace.append(rows(200, 300, seed=2))
    else:
        stable, _, version = kind.rpartition(" ")
        options = {"data_storage_version": version, "enable_stable_row_ids": bool(stable)}
        data = rows(500)
        if version in ("0.1", "2.0"):  # which have no structs that are null
            data = data.drop_columns(["n"])
        lance_df.write_dataset(data, path, max_rows_per_file=70, **options)
    return path


KINDS = ["0.1", "2.0", "2.1", "2.2", "stable 2.0", "stable 2.2", "namespace"]
CHANGES: list[tuple[dict[str, str] | None, str | None]] = [
    ({"s": "concat(s, '!')"}, "id % 3 = 0"),
    (None, "x IS NULL AND id < 100"),
    ({"part": "CASE WHEN id % 2 = 0 THEN 'moved' ELSE NULL END", "x": "x + 1"}, "part = 'ü' OR part IS NULL"),
    ({"s": "NULL"}, "isnan(x)"),
    (None, "part = 'moved' AND id > 200"),
    ({"x": "id"}, None),
    ({"s": "'none'"}, "id < 0"),
    (None, "id BETWEEN 70 AND 139"),
    ({"part": "'a'"}, "s = 's1'"),
    (None, "at IS NULL"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_history_is_that_of_one_machine(tmp_path, tasks, kind):
    path = made(tmp_path / "ours", kind)
    other = Path(shutil.copytree(path, tmp_path / "theirs"))
    draw = random.Random(kind)
    changes = [draw.choice(CHANGES) for _ in range(3)] + CHANGES
    for values, where in changes:
        before = opened(path).version
        if values is None:
            done = lance_df.spark.delete(NO_SPARK, path, where)
            theirs = opened(other).delete(where)
            assert done.num_deleted_rows == theirs["num_deleted_rows"]
        else:
            done = lance_df.spark.update(NO_SPARK, path, values, where)
            theirs = opened(other).update(values, where=where)
            assert done.num_updated_rows == theirs["num_rows_updated"]
        assert contents(path).equals(contents(other), check_metadata=True) or same(path, other)
        assert opened(path).version == opened(other).version == done.version
        assert done.version - before <= 1
        assert not done.is_repeated
    assert lance_df.verify(path, deep=True).ok
    if kind.startswith("stable"):
        ids = opened(path).to_table(with_row_id=True).sort_by("id")["_rowid"]
        assert ids.equals(opened(other).to_table(with_row_id=True).sort_by("id")["_rowid"])


def same(path: Path, other: Path) -> bool:
    """Compare where NaN is equal to itself."""
    ours, theirs = contents(path), contents(other)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    return repr(ours.to_pylist()) == repr(theirs.to_pylist())


def test_all_rows_are_deleted_and_updated(tmp_path, tasks):
    for kind in ("2.1", "namespace"):
        path = made(tmp_path / kind, kind)
        assert lance_df.spark.update(NO_SPARK, path, {"s": "'t'"}).num_updated_rows == 500
        assert contents(path)["s"].to_pylist() == ["t"] * 500
        assert lance_df.spark.delete(NO_SPARK, path).num_deleted_rows == 500
        assert opened(path).count_rows() == 0


@pytest.mark.parametrize("kind", ["2.2", "namespace"])
def test_a_run_id_makes_a_change_once(tmp_path, tasks, kind):
    path = made(tmp_path / "t", kind)
    first = lance_df.spark.update(NO_SPARK, path, {"x": "x + 1"}, run_id="once")
    before = contents(path)
    again = lance_df.spark.update(NO_SPARK, path, {"x": "x + 1"}, run_id="once")
    assert (again.version, again.num_updated_rows, again.is_repeated) == (first.version, 0, True)
    assert repr(contents(path).to_pylist()) == repr(before.to_pylist())
    assert lance_df.spark.delete(NO_SPARK, path, "id = 1", run_id="other").num_deleted_rows == 1
    # another writer makes the same change between the check and the commit
    seen = files(tmp_path)

    def meddle(step):
        tasks.before = lambda _: None
        lance_df.spark.delete(NO_SPARK, path, "id = 2", run_id="both")

    tasks.before = meddle
    assert lance_df.spark.delete(NO_SPARK, path, "id = 2", run_id="both").is_repeated
    assert opened(path).count_rows() == 498
    new = {os.path.basename(each) for each in files(tmp_path) - seen}
    # a partition has a version that nobody reads, until it is changed again
    assert sum(name.endswith((".arrow", ".bin")) for name in new) == (2 if kind == "namespace" else 1)


def test_an_empty_run_id_names_no_change(tmp_path, tasks):
    path = made(tmp_path / "t", "2.2")
    for change in (
        lambda: lance_df.spark.delete(NO_SPARK, path, "id = 1", run_id=""),
        lambda: lance_df.spark.update(NO_SPARK, path, {"x": "1"}, run_id=""),
    ):
        with pytest.raises(InvalidInputError, match="run id must not be empty"):
            change()
    assert opened(path).version == 1


@pytest.mark.parametrize("kind", ["2.2", "stable 2.2", "namespace"])
def test_changes_at_the_same_time_are_as_if_one_after_the_other(tmp_path, tasks, kind):
    path = made(tmp_path / "t", kind)

    def meddle(step):
        tasks.before = lambda _: None
        opened(path).update({"s": "'theirs'"}, where="id < 10")
        opened(path).delete("id = 5")

    tasks.before = meddle
    done = lance_df.spark.update(NO_SPARK, path, {"s": "concat(s, '+ours')"}, "id < 20")
    assert done.num_updated_rows == 19
    found = contents(path)
    assert found["id"].to_pylist() == [number for number in range(500) if number != 5]
    assert found["s"].to_pylist()[:9] == ["theirs+ours"] * 9
    assert lance_df.verify(path, deep=True).ok


@pytest.mark.parametrize("kind", ["2.2", "namespace"])
def test_others_that_are_always_faster_are_a_conflict(tmp_path, tasks, monkeypatch, kind):
    # a second time would be when it is the turn of this transaction, and other threads wait
    monkeypatch.setattr("lance_df.namespace.changes.computed_rows._ATTEMPTS", 1)
    path = made(tmp_path / "t", kind)
    wrote: list[int] = []

    def meddle(step):
        wrote.append(1)
        tasks.before = lambda _: None
        opened(path).update({"x": f"{len(wrote)}"}, where="id = 3")
        tasks.before = meddle

    tasks.before = meddle
    before = opened(path).version
    with pytest.raises(RetryableConflictError):
        lance_df.spark.update(NO_SPARK, path, {"s": "'ours'"}, "id < 20")
    assert opened(path).version == before + len(wrote)
    assert "ours" not in contents(path)["s"].to_pylist()
    # the next change undoes what nobody reads
    opened(path).update({"s": "'x'"}, where="id < 20")
    assert lance_df.verify(path, deep=True).ok


@pytest.mark.parametrize("kind", ["0.1", "2.2", "namespace"])
def test_a_task_that_fails_publishes_nothing_and_leaves_no_files(tmp_path, tasks, monkeypatch, kind):
    from lance_df.spark.changes import targets

    monkeypatch.setattr(targets, "TASK_BYTES", 1)
    monkeypatch.setattr("lance_df.spark.pipeline.tasks.MIN_TASK_BYTES", 1)
    path = made(tmp_path / "t", kind)
    before, version = files(tmp_path), opened(path).version
    with pytest.raises(InvalidInputError):
        lance_df.spark.update(NO_SPARK, path, {"x": "1 / (id - 487)"}, "id > 100")
    assert tasks.tasks["_update"] > 1
    assert files(tmp_path) == before
    assert opened(path).version == version
    with pytest.raises(InvalidInputError, match="null"):
        lance_df.spark.update(NO_SPARK, path, {"id": "CASE WHEN id = 490 THEN NULL ELSE id END"})
    assert files(tmp_path) == before


@pytest.mark.parametrize("kind", ["2.2", "namespace"])
def test_what_is_wrong_is_an_error_before_anything_is_done(tmp_path, tasks, kind):
    path = made(tmp_path / "t", kind)
    for call, error in [
        (lambda: lance_df.spark.delete(NO_SPARK, path, "nothing = 1"), ColumnNotFoundError),
        (lambda: lance_df.spark.delete(NO_SPARK, path, "id ="), InvalidInputError),
        (lambda: lance_df.spark.delete(NO_SPARK, path, 3), InvalidInputError),
        (lambda: lance_df.spark.update(NO_SPARK, path, {}), InvalidInputError),
        (lambda: lance_df.spark.update(NO_SPARK, path, {"nothing": "1"}), ColumnNotFoundError),
        (lambda: lance_df.spark.update(NO_SPARK, path, {"n.a": "1"}), InvalidInputError),
        (lambda: lance_df.spark.update(NO_SPARK, path, {"x": "wrong + 1"}), ColumnNotFoundError),
        (lambda: lance_df.spark.delete(NO_SPARK, tmp_path / "nothing", "true"), NotFoundError),
    ]:
        with pytest.raises(error):
            call()
    assert tasks.tasks == {}


def test_partitions_that_cannot_match_are_left_alone(tmp_path, tasks):
    path = made(tmp_path / "t", "namespace")
    others = files(tmp_path)
    lance_df.spark.delete(NO_SPARK, path, "part = 'a' AND id < 50")
    members = {each.removeprefix(f"{path}/").split("/")[0] for each in files(tmp_path) - others}
    assert len(members - {"__manifest"}) == 1
