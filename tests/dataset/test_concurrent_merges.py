"""Merges of several writers at once, of both libraries: no key is inserted twice."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df

LIBRARIES = (lance, lance_df)
PAIRS = list(itertools.product(LIBRARIES, LIBRARIES))
PAIR_NAMES = [f"{first.__name__}-{second.__name__}" for first, second in PAIRS]
KEY = {"lance-schema:unenforced-primary-key": "true"}


def schema(*, primary: bool) -> pa.Schema:
    key = pa.field("id", pa.int64(), nullable=False, metadata=KEY if primary else None)
    return pa.schema([key, pa.field("v", pa.int64())])


def create(path: Path, *, primary: bool) -> str:
    rows = pa.table({"id": [1, 2, 3], "v": [0, 0, 0]}).cast(schema(primary=primary))
    lance.write_dataset(rows, path, mode="overwrite" if path.exists() else "create")
    return str(path)


def upsert(dataset: Any, ids: list[int], *, on: str = "id", value: int = 5, retries: int = 0) -> Any:
    primary = b"lance-schema:unenforced-primary-key" in (dataset.schema.field("id").metadata or {})
    rows = pa.table({"id": ids, "v": [value] * len(ids)}).cast(schema(primary=primary))
    builder = dataset.merge_insert(on).conflict_retries(retries)
    return builder.when_matched_update_all().when_not_matched_insert_all().execute(rows)


def ids(path: str) -> list[int]:
    return sorted(lance.dataset(path).to_table()["id"].to_pylist())


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=PAIR_NAMES)
def test_a_key_is_inserted_once(tmp_path: Path, first: Any, second: Any):
    """The later of two merges fails when it may not be computed again, and else updates the row."""
    path = create(tmp_path / "t", primary=True)
    late, patient = second.dataset(path), second.dataset(path)
    upsert(first.dataset(path), [3, 7])
    with pytest.raises((lance_df.RetryableConflictError, RuntimeError, OSError)):
        upsert(late, [7, 8])
    assert ids(path) == [1, 2, 3, 7]
    found = upsert(patient, [7, 8], value=6, retries=10)
    assert (found["num_inserted_rows"], found["num_updated_rows"]) == (1, 1)
    assert ids(path) == [1, 2, 3, 7, 8]
    assert lance.dataset(path).to_table(filter="v = 6").num_rows == 2


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=PAIR_NAMES)
def test_other_keys_do_not_conflict(tmp_path: Path, first: Any, second: Any):
    path = create(tmp_path / "t", primary=True)
    late = second.dataset(path)
    upsert(first.dataset(path), [2, 7])
    upsert(late, [3, 8])
    assert ids(path) == [1, 2, 3, 7, 8]


@pytest.mark.parametrize("primary", [True, False])
@pytest.mark.parametrize("first", LIBRARIES, ids=["lance", "lance_df"])
def test_ours_see_new_keys_of_any_writer(tmp_path: Path, first: Any, primary: bool):
    """Merges by another column, updates of keys, appends if keys are primary: ours start anew after these."""
    row = pa.table({"id": [7], "v": [99]}).cast(schema(primary=primary))
    commits = {
        "merge by another column": lambda: upsert(first.dataset(path), [7], on="v", value=99),
        "update": lambda: first.dataset(path).update({"id": "7"}, where="id = 2"),
        "merge": lambda: upsert(first.dataset(path), [7]),
    }
    if primary:
        commits["append"] = lambda: first.write_dataset(row, path, mode="append")
    for name, commit in commits.items():
        path = create(tmp_path / "t", primary=primary)
        hasty, patient = lance_df.dataset(path), lance_df.dataset(path)
        commit()
        with pytest.raises(lance_df.RetryableConflictError):
            upsert(hasty, [7])
        assert upsert(patient, [7], retries=3)["num_updated_rows"] == 1
        assert Counter(ids(path))[7] == 1, name


def test_what_inserts_no_key_does_not_conflict(tmp_path: Path):
    row = pa.table({"id": [70], "v": [1]}).cast(schema(primary=False))
    for library in LIBRARIES:
        for primary in (True, False):
            path = create(tmp_path / "t", primary=primary)
            stale = [lance_df.dataset(path) for _ in range(3)]
            library.dataset(path).update({"v": "3"}, where="id = 2")
            upsert(stale[0], [7])
            library.dataset(path).delete("id = 3")
            upsert(stale[1], [8])
            if not primary:
                library.write_dataset(row, path, mode="append")
                upsert(stale[2], [9])
        assert ids(path) == [1, 2, 7, 8, 9, 70]


@pytest.mark.parametrize("libraries", [(lance_df,), LIBRARIES], ids=["ours", "both"])
def test_many_writers_leave_each_key_once(tmp_path: Path, libraries: tuple[Any, ...]):
    primary = len(libraries) > 1
    path = create(tmp_path / "t", primary=primary)
    together = threading.Barrier(4)
    failures: list[BaseException] = []

    def write(number: int) -> None:
        library = libraries[number % len(libraries)]
        try:
            for turn in range(3):
                dataset = library.dataset(path)
                together.wait(30)
                upsert(dataset, [10 + turn, 20 + turn, 100 + 10 * turn + number], retries=30)
        except BaseException as err:  # noqa: BLE001 - told below
            failures.append(err)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    shared = [*range(10, 13), *range(20, 23)]
    assert ids(path) == sorted([1, 2, 3, *shared, *(100 + 10 * t + n for t in range(3) for n in range(4))])
    lance.dataset(path).validate()


def test_uncommitted_merges_of_one_key_are_told_apart(tmp_path: Path):
    path = create(tmp_path / "t", primary=True)
    transactions = []
    for inserted in ([7], [7, 8], [9]):
        rows = pa.table({"id": inserted, "v": inserted}).cast(schema(primary=True))
        builder = lance_df.dataset(path).merge_insert("id").when_not_matched_insert_all()
        transactions.append(pickle.loads(pickle.dumps(builder.execute_uncommitted(rows)[0])))
    lance_df.LanceDataset.commit(path, transactions[0])
    with pytest.raises(lance_df.RetryableConflictError):
        lance_df.LanceDataset.commit(path, transactions[1])
    lance_df.LanceDataset.commit(path, transactions[2])
    assert ids(path) == [1, 2, 3, 7, 9]


@pytest.mark.engine
@pytest.mark.parametrize("assigned", ["v = n.v", "id = n.id, v = n.v", None])
def test_statements_and_merges_insert_a_key_once(tmp_path: Path, assigned: str | None):
    path = create(tmp_path / "t", primary=False)
    late = lance_df.dataset(path)
    session = lance_df.connect(str(tmp_path))
    matched = "" if assigned is None else f"WHEN MATCHED THEN UPDATE SET {assigned}"
    session.sql(
        f"MERGE INTO t USING (SELECT 7 AS id, 50 AS v UNION ALL SELECT 1, 10) AS n ON t.id = n.id {matched} "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (n.id, n.v)"
    ).collect()
    with pytest.raises(lance_df.RetryableConflictError):
        upsert(late, [7])
    assert ids(path) == [1, 2, 3, 7]
    found = upsert(lance_df.dataset(path), [7], retries=10)
    assert (found["num_inserted_rows"], found["num_updated_rows"]) == (0, 1)
