"""Clean-ups, clones and deletions that come between what a writer looks at and what it publishes."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import lance
import pyarrow as pa
import pytest
from manifest_edits import edit_manifest

import lance_df
from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    CorruptDataError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    VersionNotFoundError,
)
from lance_df.fragment import write_fragments
from lance_df.storage import Location
from lance_df.table import clones, file_copies
from lance_df.table.changes import retry
from lance_df.table.commit import committer, publish
from lance_df.table.metadata import missing_files, refs_write

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = dt.timedelta(0)
NO_TRANSACTION_FILE = 32
CLEAN_UP = "import datetime as dt; data().cleanup_old_versions(older_than=dt.timedelta(0))"


def run(uri: str, code: str) -> None:
    """Run a program in another process, in which ``data()`` opens the table and ``append`` adds a row."""
    subprocess.run([sys.executable, "-c", program(uri, code)], check=True)


def run_here(uri: str, code: str) -> None:
    """Run such a program in this process, which takes less time."""
    exec(program(uri, code), {})


def program(uri: str, code: str) -> str:
    head = f"""
import lance_df, pyarrow as pa
def data(): return lance_df.dataset({uri!r})
def append(value): lance_df.write_dataset(pa.table({{"a": [value]}}), {uri!r}, mode="append")
"""
    return head + code


def before(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, action: Callable[[], None], *, after: bool = False
) -> None:
    """Let something happen once, before or after a function."""
    original, left = getattr(owner, name), [action]

    def late(*arguments: Any, **options: Any) -> Any:
        if not after and left:
            left.pop()()
        result = original(*arguments, **options)
        if after and left:
            left.pop()()
        return result

    monkeypatch.setattr(owner, name, late)


def values(uri: str) -> list[int]:
    rows = lance_df.dataset(uri).to_table()["a"].to_pylist()
    assert lance.dataset(uri).to_table()["a"].to_pylist() == rows
    return sorted(rows)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"a": [1]}), uri)
    return uri


def test_a_version_in_the_past_is_no_commit(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the next version is free again, as others have made and removed it."""
    others = "\n".join([*(f"append({value})" for value in (10, 11, 12)), CLEAN_UP])
    before(monkeypatch, committer, "publish_manifest", lambda: run(uri, others))
    with pytest.raises(CommitStateUnknownError, match="cleaned up in the meantime"):
        lance_df.write_dataset(pa.table({"a": [999]}), uri, mode="append")
    assert values(uri) == [1, 10, 11, 12]


def test_a_version_in_the_past_is_no_commit_in_a_manifest_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a store knows of a version goes with it, so that its number is free again."""
    uri, store = str(tmp_path / "t.lance"), lance_df.SQLiteManifestStore(tmp_path / "versions.db")

    def write(value: int, mode: Literal["create", "append"] = "append") -> None:
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode=mode, external_store=store)

    def others() -> None:
        for value in (10, 11, 12):
            write(value)
        data = lance_df.dataset(uri, external_store=store)
        data.cleanup_old_versions(older_than=NOW)

    write(1, "create")
    write(2)
    before(monkeypatch, committer, "publish_manifest", others)
    with pytest.raises(CommitStateUnknownError, match="cleaned up in the meantime"):
        write(999)
    assert sorted(lance_df.dataset(uri, external_store=store).to_table()["a"].to_pylist()) == [
        1,
        2,
        10,
        11,
        12,
    ]
    write(3)
    assert lance_df.dataset(uri, external_store=store).count_rows() == 6


REPLACED_FIRST = """
lance_df.write_dataset(pa.table({"a": [10]}), URI, mode="create")
append(11)
"""


def test_a_first_version_in_the_past_is_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have made the table, and removed the version that it began with."""
    uri = str(tmp_path / "t.lance")
    others = REPLACED_FIRST.replace("URI", repr(uri)) + CLEAN_UP
    before(monkeypatch, committer, "publish_manifest", lambda: run_here(uri, others))
    with pytest.raises(CommitStateUnknownError, match="version 2 is not based on it"):
        lance_df.write_dataset(pa.table({"a": [999]}), uri, mode="create")
    assert values(uri) == [10, 11]
    # what was published is an old version like others
    lance_df.dataset(uri).cleanup_old_versions(NOW)
    assert [each["version"] for each in lance_df.dataset(uri).versions()] == [2]
    assert values(uri) == [10, 11]
    assert len(list(Path(uri, "data").iterdir())) == 2


def test_an_empty_first_version_in_the_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is another table if its columns are others."""
    uri = str(tmp_path / "t.lance")
    others = REPLACED_FIRST.replace("URI", repr(uri)) + CLEAN_UP
    before(monkeypatch, committer, "publish_manifest", lambda: run_here(uri, others))
    with pytest.raises(CommitStateUnknownError, match="is not based on it"):
        lance_df.write_dataset(pa.table({"b": pa.array([], pa.int64())}), uri, mode="create")
    assert values(uri) == [10, 11]


def test_a_first_version_in_the_past_of_a_manifest_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, store = str(tmp_path / "t.lance"), lance_df.SQLiteManifestStore(tmp_path / "versions.db")

    def write(value: int, mode: Literal["create", "append"] = "append") -> None:
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode=mode, external_store=store)

    def others() -> None:
        write(10, "create")
        write(11)
        lance_df.dataset(uri, external_store=store).cleanup_old_versions(older_than=NOW)

    before(monkeypatch, committer, "publish_manifest", others)
    with pytest.raises(CommitStateUnknownError, match="version 2 is not based on it"):
        write(999, "create")
    write(12)
    found = lance_df.dataset(uri, external_store=store).to_table()["a"].to_pylist()
    assert sorted(found) == [10, 11, 12]


@pytest.mark.parametrize(
    "next_commit",
    [
        "append(2)",
        f"append(2); {CLEAN_UP}",
        "append(2); data().optimize.compact_files()",
        f"append(2); data().optimize.compact_files(); {CLEAN_UP}",
        'lance_df.write_dataset(pa.table({"a": [1, 2]}), data().uri, mode="overwrite")',
        'data().add_columns({"b": "a + 1"}); append(2)',
        "data().update({'a': '1'}); append(2)",
    ],
)
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_commit_right_after_the_first_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_commit: str, is_empty: bool
) -> None:
    """It comes from that version, which is a table."""
    uri = str(tmp_path / "t.lance")
    if "add_columns" in next_commit:
        next_commit = next_commit.replace("append(2)", "data().insert(pa.table({'a': [2], 'b': [3]}))")
    before(monkeypatch, committer, "publish_manifest", lambda: run_here(uri, next_commit), after=True)
    first = pa.table({"a": pa.array([] if is_empty else [1], pa.int64())})
    if "update" in next_commit and not is_empty:
        # all of its rows are in another file now: nothing says where they were
        with pytest.raises(CommitStateUnknownError, match="check the table"):
            lance_df.write_dataset(first, uri, mode="create")
    else:
        assert lance_df.write_dataset(first, uri, mode="create").version == 1
    assert values(uri) == ([2] if is_empty and "overwrite" not in next_commit else [1, 2])


def test_a_table_that_is_dropped_right_after_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t.lance")
    before(monkeypatch, committer, "publish_manifest", lambda: shutil.rmtree(uri), after=True)
    assert lance_df.write_dataset(pa.table({"a": [1]}), uri, mode="create").version == 1


def test_a_clean_up_right_after_a_commit_is_none_of_its_business(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, committer, "publish_manifest", lambda: run(uri, CLEAN_UP), after=True)
    assert lance_df.write_dataset(pa.table({"a": [2]}), uri, mode="append").version == 2
    assert values(uri) == [1, 2]


@pytest.mark.parametrize("use", ["restore", "branch", "tag"])
def test_a_version_that_goes_is_not_used(uri: str, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    for value in (2, 3):
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode="overwrite")
    old = lance_df.dataset(uri, version=1)
    owner: Any = {"restore": committer.Committer, "branch": clones, "tag": refs_write}[use]
    name = {"restore": "_put_transaction", "branch": "_publish", "tag": "create_ref"}[use]
    before(monkeypatch, owner, name, lambda: run(uri, CLEAN_UP))
    with pytest.raises(IncompatibleConflictError if use == "restore" else VersionNotFoundError):
        {
            "restore": old.restore,
            "branch": lambda: old.create_branch("b"),
            "tag": lambda: lance_df.dataset(uri).tags.create("t", 1),
        }[use]()
    assert values(uri) == [3]
    data = lance_df.dataset(uri)
    assert not data.tags.list()
    assert not data.branches.list()
    assert data.version == 3


def test_a_clean_up_sees_what_comes_into_use(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until right before files are removed."""
    for value in (2, 3, 4):
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode="overwrite")
    from lance_df.table.maintenance import cleanup

    code = 'data().tags.create("t", 1); lance_df.dataset(data().uri, version=2).create_branch("b")'
    before(monkeypatch, cleanup, "_survey", lambda: run(uri, code), after=True)
    assert lance_df.dataset(uri).cleanup_old_versions(NOW).old_versions == 1
    assert lance_df.dataset(uri, version="t").to_table()["a"].to_pylist() == [1]
    assert lance_df.dataset(uri).checkout_version(("b", None)).to_table()["a"].to_pylist() == [2]


def test_an_interrupt_after_a_version_that_is_cleaned_up(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later versions have its files, though it is gone."""

    def interrupt() -> None:
        run(uri, f"append(10)\nappend(11)\n{CLEAN_UP}")
        raise KeyboardInterrupt

    before(monkeypatch, publish, "put_if_absent", interrupt, after=True)
    with pytest.raises(KeyboardInterrupt):
        lance_df.write_dataset(pa.table({"a": [999]}), uri, mode="append")
    assert values(uri) == [1, 10, 11, 999]


@pytest.mark.parametrize("step", [(file_copies, "copy_file"), (clones, "_publish")], ids=["copy", "publish"])
def test_two_deep_clones_to_one_folder(
    uri: str, monkeypatch: pytest.MonkeyPatch, step: tuple[Any, str]
) -> None:
    target = uri.replace("t.lance", "c.lance")
    before(monkeypatch, *step, lambda: run(uri, f"data().deep_clone({target!r}, 1)"))
    with pytest.raises(AlreadyExistsError):
        lance_df.dataset(uri).deep_clone(target, 1)
    assert values(target) == [1]
    assert len(list(Path(target, "data").iterdir())) == 1


@pytest.mark.parametrize("failure", [KeyboardInterrupt, StorageError])
def test_a_deep_clone_that_fails_leaves_the_files_of_another_one(
    uri: str, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    target = uri.replace("t.lance", "c.lance")
    seen: list[set[Path]] = []

    def fail(*arguments: object) -> None:
        monkeypatch.undo()
        lance_df.dataset(uri).deep_clone(target, 1)
        seen.append({path for path in Path(target).rglob("*") if path.is_file()})
        raise failure

    def second(*arguments: Any) -> Any:
        # between the copies of another clone and its version
        monkeypatch.setattr(file_copies, "copy_file", fail)
        with pytest.raises(failure):
            lance_df.dataset(uri).deep_clone(target, 1)
        return publish_clone(*arguments)

    publish_clone = clones._publish
    monkeypatch.setattr(clones, "_publish", second)
    with pytest.raises(AlreadyExistsError):
        lance_df.dataset(uri).deep_clone(target, 1)
    assert values(target) == [1]
    assert {path for path in Path(target).rglob("*") if path.is_file()} <= seen[0]


def test_a_deep_clone_is_made_after_one_was_killed(uri: str) -> None:
    target = uri.replace("t.lance", "c.lance")
    kill = "import os\nfrom lance_df.table import clones\nclones._publish = lambda *a: os._exit(0)\n"
    run(uri, f"{kill}data().deep_clone({target!r}, 1)")
    left = list(Path(target, "data").iterdir())
    assert len(left) == 1
    clone = lance_df.dataset(uri).deep_clone(target, 1)
    assert values(target) == [1]
    clone.cleanup_old_versions(NOW, delete_unverified=True)
    assert not left[0].exists()
    assert values(target) == [1]


def drop(uri: str) -> None:
    lance_df.connect(Path(uri).parent).sql("DROP TABLE t")


def drop_and_create(uri: str) -> None:
    drop(uri)
    lance_df.write_dataset(pa.table({"a": [7]}), uri)


def clean_up(uri: str) -> None:
    run_here(uri, f"append(2); data().optimize.compact_files(); {CLEAN_UP}")
    assert not Path(uri, "_versions", f"{2**64 - 2:020}.manifest").exists()


ENDS = {
    "cleaned up": (clean_up, "version 1 was cleaned up; open the table again"),
    "dropped": (drop, "the table was dropped($|; nothing was written)"),
    "made anew": (drop_and_create, "dropped and created again"),
}


COMPUTED: dict[str, Callable[[lance_df.LanceDataset], object]] = {
    "delete": lambda data: data.delete("a < 1"),
    "update": lambda data: data.update({"a": "a + 1"}),
    "merge": lambda data: data.merge_insert("a").when_matched_update_all().execute(pa.table({"a": [1]})),
    "merge uncommitted": lambda data: (
        data.merge_insert("a").when_matched_update_all().execute_uncommitted(pa.table({"a": [1]}))
    ),
    "add columns": lambda data: data.add_columns({"b": "a + 1"}),
    "cast": lambda data: data.alter_columns({"path": "a", "data_type": pa.int32()}),
    "forbid nulls": lambda data: data.alter_columns({"path": "a", "nullable": False}),
    "join": lambda data: data.merge(pa.table({"a": [1], "b": [2]}), "a"),
    "index": lambda data: data.create_scalar_index("a", "BTREE"),
}
READ: dict[str, Callable[[lance_df.LanceDataset], object]] = {
    "scan": lambda data: data.to_table(),
    "filter": lambda data: data.to_table(filter="a = 1"),
    "SQL filter": lambda data: data.count_rows("a + 1 = 2"),
    "take": lambda data: data.take([0]),
    "fragment": lambda data: data.get_fragments()[0].to_table(),
    "validate": lambda data: data.validate(),
}


@pytest.mark.parametrize("what", [*COMPUTED, *READ])
@pytest.mark.parametrize("end", ENDS)
def test_changes_and_reads_of_a_version_that_is_gone(uri: str, what: str, end: str) -> None:
    ending, message = ENDS[end]
    data = lance_df.dataset(uri)
    ending(uri)
    expected = IncompatibleConflictError if what in COMPUTED else VersionNotFoundError
    with pytest.raises(expected, match=message):
        {**COMPUTED, **READ}[what](data)


CHANGED: dict[str, Callable[[lance_df.LanceDataset], object]] = {
    **COMPUTED,
    "append": lambda data: data.insert(pa.table({"a": [1]})),
    "compact": lambda data: data.optimize.compact_files(),
    "restore": lambda data: data.restore(),
    "tag": lambda data: data.tags.create("t", data.version),
    "clean up": lambda data: data.cleanup_old_versions(NOW),
}


@pytest.mark.parametrize("what", [*CHANGED, *READ])
def test_a_version_above_those_of_a_table_that_was_made_anew(uri: str, what: str) -> None:
    run_here(uri, "append(2); append(3)")
    data = lance_df.dataset(uri)
    drop_and_create(uri)
    with pytest.raises((IncompatibleConflictError, VersionNotFoundError), match="dropped and created again"):
        {**CHANGED, **READ}[what](data)
    assert values(uri) == [7]


@pytest.mark.parametrize("mode", ["reencode", "force_binary_copy"])
def test_a_compaction_of_a_version_that_is_gone(uri: str, mode: Any) -> None:
    data = lance_df.dataset(uri)
    data.insert(pa.table({"a": [5]}))
    clean_up(uri)
    with pytest.raises(IncompatibleConflictError, match="version 2 was cleaned up"):
        data.optimize.compact_files(compaction_mode=mode)


@pytest.mark.parametrize("what", ["delete", "scan"])
@pytest.mark.parametrize("is_made_anew", [False, True])
def test_changes_and_reads_of_a_branch_that_is_gone(uri: str, what: str, is_made_anew: bool) -> None:
    main = lance_df.dataset(uri)
    data = main.create_branch("b")
    data.insert(pa.table({"a": [5]}))
    main.branches.delete("b")
    if is_made_anew:
        main.create_branch("b").insert(pa.table({"a": [6]}))
    expected = IncompatibleConflictError if what in COMPUTED else VersionNotFoundError
    message = "branch 'b' was deleted and created again" if is_made_anew else "branch 'b' was deleted$"
    with pytest.raises(expected, match=message):
        {**COMPUTED, **READ}[what](data)


def test_a_missing_file_of_a_version_that_is_there(uri: str) -> None:
    data = lance_df.dataset(uri)
    for file in Path(uri, "data").iterdir():
        file.unlink()
    for use in (*COMPUTED.values(), *READ.values()):
        with pytest.raises(CorruptDataError, match="this data file is missing"):
            use(data)


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone", "create_branch"])
@pytest.mark.parametrize("end", ENDS)
def test_clones_of_a_version_that_is_gone(uri: str, kind: str, end: str) -> None:
    ending, message = ENDS[end]
    data = lance_df.dataset(uri)
    ending(uri)
    before = set(Path(uri).parent.rglob("*"))
    target = "b" if kind == "create_branch" else uri.replace("t.lance", "c.lance")
    # a branch would be made in the other table
    is_change = kind == "create_branch" and end != "cleaned up"
    error = IncompatibleConflictError if is_change else VersionNotFoundError
    with pytest.raises(error, match=message):
        getattr(data, kind)(target, 1)
    assert set(Path(uri).parent.rglob("*")) == before


@pytest.mark.parametrize("kind", ["shallow_clone", "create_branch"])
@pytest.mark.parametrize("end", ENDS)
def test_clones_of_a_version_that_goes_meanwhile(
    uri: str, monkeypatch: pytest.MonkeyPatch, kind: str, end: str
) -> None:
    ending, message = ENDS[end]
    seen: list[set[Path]] = []

    def end_now() -> None:
        ending(uri)
        seen.append(set(Path(uri).parent.rglob("*")))

    before(monkeypatch, clones, "_publish" if kind == "create_branch" else "check_location_is_free", end_now)
    target = "b" if kind == "create_branch" else uri.replace("t.lance", "c.lance")
    with pytest.raises(VersionNotFoundError, match=message):
        getattr(lance_df.dataset(uri), kind)(target, 1)
    claims = {Path(uri, "tree/b/_transactions/first-version.claim").parents[n] for n in range(3)}
    claims.add(Path(uri, "tree/b/_transactions/first-version.claim"))
    assert set(Path(uri).parent.rglob("*")) == seen[0] - claims


def files_and_folders(uri: str) -> list[str]:
    """Return all files, and all empty folders."""
    root = Path(uri)
    return [
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or not any(path.iterdir())
    ]


CHANGES: dict[str, Callable[[lance_df.LanceDataset], object]] = {
    "append": lambda data: data.insert(pa.table({"a": [2]})),
    "overwrite": lambda data: data.insert(pa.table({"a": [2]}), mode="overwrite"),
    "write": lambda data: lance_df.write_dataset(pa.table({"a": [2]}), data, mode="append"),
    "delete": lambda data: data.delete("a = 1"),
    "config": lambda data: data.update_config({"x": "y"}),
}


# -- tables that another writer creates first --


# the table of the other writer, its options, and the modes in which the files fit it
OTHERS: dict[str, tuple[dict[str, list[object]], dict[str, Any], set[str]]] = {
    "the same": ({"a": [7]}, {}, {"append", "overwrite"}),
    "a column more": ({"a": [7], "b": [1]}, {}, {"append", "overwrite"}),
    "a column before": ({"b": [1], "a": [7]}, {}, {"overwrite"}),
    "another type": ({"a": ["x"]}, {}, {"overwrite"}),
    "another version of files": ({"a": [7]}, {"data_storage_version": "2.0"}, set()),
}


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
@pytest.mark.parametrize("other", OTHERS)
def test_another_writer_creates_the_table_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: Literal["create", "append", "overwrite"],
    other: str,
) -> None:
    uri = str(tmp_path / "t.lance")
    columns, options, fitting = OTHERS[other]

    def create() -> None:
        lance_df.write_dataset(pa.table(columns), uri, **options)

    def write() -> lance_df.LanceDataset:
        return lance_df.write_dataset(pa.table({"a": [1]}), uri, mode=mode, statistics=True)

    before(monkeypatch, committer.Committer, "publish", create)
    if mode in fitting:
        assert write().version == 3
        assert values(uri) == ([1, 7] if mode == "append" else [1])
        return
    expected: tuple[type[Exception], str] = (RetryableConflictError, "changed while rows were written")
    if mode == "create":
        expected = (AlreadyExistsError, "another writer created the table at the same time")
    with pytest.raises(expected[0], match=expected[1]):
        write()
    assert lance_df.dataset(uri).version == 1
    assert len(list(Path(uri, "data").iterdir())) == 1


def test_another_writer_creates_the_table_of_a_committed_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, rows = str(tmp_path / "t.lance"), pa.table({"a": [1]})
    fragments = write_fragments(rows, uri, mode="overwrite")
    assert isinstance(fragments, list)
    operation = lance_df.LanceOperation.Overwrite(rows.schema, fragments)
    before(monkeypatch, committer.Committer, "publish", lambda: run_here(uri, "append(7)"))
    assert lance_df.LanceDataset.commit(uri, operation).version == 2
    assert values(uri) == [1]


@pytest.mark.parametrize("statement", ["CREATE OR REPLACE TABLE t", "CREATE TABLE IF NOT EXISTS t"])
def test_another_writer_creates_the_table_of_a_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    uri = str(tmp_path / "t.lance")
    code = f"lance_df.write_dataset(pa.table({{'a': ['x']}}), {uri!r})"
    before(monkeypatch, committer.Committer, "publish", lambda: run_here(uri, code))
    session = lance_df.connect(tmp_path)
    session.sql(f"{statement} AS SELECT 1 AS a")
    assert session.sql("SELECT a FROM t").to_pydict() == {"a": [1 if "REPLACE" in statement else "x"]}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("branch", [None, "b"])
@pytest.mark.parametrize("when", ["first", "before it publishes"])
def test_an_object_does_not_bring_back_what_was_dropped(
    uri: str, monkeypatch: pytest.MonkeyPatch, change: str, branch: str | None, when: str
) -> None:
    main = lance_df.dataset(uri)
    before_it = sorted(files_and_folders(uri)) if branch else []
    data = main if branch is None else main.create_branch(branch)
    data.insert(pa.table({"a": [3]}))

    def end() -> None:
        if branch is None:
            drop(uri)
        else:
            main.branches.delete(branch)

    if when == "first":
        end()
    else:
        before(monkeypatch, committer, "publish_manifest", end)
    # a change of the configuration applies to the newest version
    with pytest.raises((IncompatibleConflictError, DatasetNotFoundError)):
        CHANGES[change](data)
    left = sorted(each for each in files_and_folders(uri) if each not in ("tree", "_refs/branches"))
    assert left == before_it
    if branch:
        assert not main.branches.list()
        main.create_branch(branch)
    else:
        assert not Path(uri).exists()


@pytest.mark.parametrize("use", ["create_branch('c')", "tags.create('t', ('b', None))"])
def test_a_branch_that_comes_into_use_stays(uri: str, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    branch = lance_df.dataset(uri).create_branch("b")
    lance_df.write_dataset(pa.table({"a": [5]}), branch, mode="append")
    owner = "data().checkout_version(('b', None))" if "branch" in use else "data()"
    before(monkeypatch, refs_write, "_check_unused", lambda: run(uri, f"{owner}.{use}"), after=True)
    with pytest.raises(InvalidInputError, match="is used by"):
        lance_df.dataset(uri).branches.delete("b")
    ref = ("c", None) if "branch" in use else "t"
    assert lance_df.dataset(uri).checkout_version(ref).to_table()["a"].to_pylist() == [1, 5]
    assert lance_df.dataset(uri).checkout_version(("b", None)).to_table()["a"].to_pylist() == [1, 5]


def test_a_deep_clone_while_a_clean_up_removes_blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blob files, and the files of an index, are listed, so files that are gone would not be missed."""
    uri = str(tmp_path / "t.lance")
    table = pa.table({"a": [1], "b": lance.blob_array([b"x" * 5_000_000])})
    lance.write_dataset(table, uri, data_storage_version="2.2")
    data = lance_df.dataset(uri)
    lance_df.write_dataset(table, uri, mode="overwrite")
    run(uri, UNFINISHED + CLEAN_UP)
    assert len(list(Path(uri, "data").glob("*.lance"))) == 2
    assert len(list(Path(uri, "data").glob("*/*.blob"))) == 1
    with pytest.raises(VersionNotFoundError, match="version 1 is being removed by a clean-up"):
        data.deep_clone(tmp_path / "before.lance")
    monkeypatch.setattr(clones, "gone", lambda _: None)
    before(monkeypatch, clones.FileCopies, "copy", monkeypatch.undo)
    with pytest.raises(VersionNotFoundError, match="version 1 is being removed by a clean-up"):
        data.deep_clone(tmp_path / "after.lance")
    assert {path.name for path in tmp_path.iterdir()} == {"t.lance"}


# the files of blobs are gone, and the data file and the manifest are still there
UNFINISHED = """
import os
from lance_df.storage import Location
def stop(self):
    if self.path.endswith(".manifest"): os._exit(0)
    if not self.path.endswith(".lance"): remove(self)
remove, Location.remove = Location.remove, stop
"""


USES = {
    "restore": "data().checkout_version(1).restore()",
    "branch": "data().checkout_version(1).create_branch('b')",
    "tag": "data().tags.create('t', 1)",
    "moved tag": "data().tags.update('last', 1)",
}


@pytest.mark.parametrize("use", USES)
def test_a_version_is_not_used_while_a_clean_up_removes_files(
    uri: str, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """The clean-up has read which versions are in use, and no file is gone yet."""
    for value in (2, 3):
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode="overwrite")
    data = lance_df.dataset(uri)
    data.tags.create("last", 3)
    code = f"""
from lance_df.errors import LanceError
try: {USES[use]}
except LanceError as err: assert "removed by a clean-up" in str(err), err
else: raise AssertionError("it was used")
"""
    before(monkeypatch, Location, "remove", lambda: run(uri, code))
    assert data.cleanup_old_versions(NOW, delete_concurrency=1).old_versions == 2
    data = lance_df.dataset(uri)
    assert (data.version, data.tags.list()["last"]["version"], list(data.tags.list())) == (3, 3, ["last"])
    assert not data.branches.list()
    assert not list(Path(uri, "_refs/clean_ups").iterdir())
    assert values(uri) == [3]


def test_versions_that_stay_are_used_while_a_clean_up_removes_files(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = lance_df.dataset(uri).create_branch("b")
    for value in (2, 3):
        lance_df.write_dataset(pa.table({"a": [value]}), branch, mode="overwrite")
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode="overwrite")
    code = "data().tags.create('t', 2); data().tags.create('first', 1); data().create_branch('c')"
    before(monkeypatch, Location, "remove", lambda: run(uri, code))
    branch = lance_df.dataset(f"{uri}/tree/b")
    assert branch.cleanup_old_versions(NOW, delete_concurrency=1).old_versions == 2
    assert lance.dataset(uri, version="t").to_table()["a"].to_pylist() == [2]
    assert lance.dataset(uri, version="first").to_table()["a"].to_pylist() == [1]


def test_a_killed_clean_up(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its notice counts for a day, or until another clean-up has removed the versions."""
    for value in (2, 3, 4):
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode="overwrite")
    kill = "import os\nfrom lance_df.storage import Location\nLocation.remove = lambda self: os._exit(0)\n"
    run(uri, kill + CLEAN_UP)
    data = lance_df.dataset(uri)
    message = "version 2 is being removed by a clean-up.*complete an interrupted clean-up with cleanup_old_"
    with pytest.raises(VersionNotFoundError, match=message):
        data.tags.create("t", 2)
    [notice] = Path(uri, "_refs/clean_ups").iterdir()
    content = json.loads(notice.read_bytes())
    assert content["versions"] == [1, 2, 3]
    notice.write_text(json.dumps({**content, "renewedAt": time.time() - 25 * 3600}))
    data.tags.create("t", 2)
    assert lance.dataset(uri, version="t").to_table()["a"].to_pylist() == [2]
    data.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert not notice.exists()
    # not old, and one of the versions is left
    notice.write_text(json.dumps({**content, "renewedAt": time.time()}))
    data.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert notice.exists()
    data.tags.delete("t")
    data.cleanup_old_versions(NOW)
    assert not notice.exists()
    assert [each["version"] for each in data.versions()] == [4]


def test_notices_that_cannot_be_read_do_not_count(uri: str) -> None:
    folder = Path(uri, "_refs/clean_ups")
    folder.mkdir(parents=True)
    for name, content in {"a": b"\xff", "b": b"[]", "c": b'{"renewedAt": "x"}', "d": b"{}"}.items():
        (folder / f"{name}.json").write_bytes(content)
    data = lance_df.dataset(uri)
    data.tags.create("t", 1)
    data.cleanup_old_versions(NOW)
    assert len(list(folder.iterdir())) == 4


def test_a_clean_up_sees_a_restore_without_a_transaction_file(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (2, 3):
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode="overwrite")
    edit_manifest(uri, lambda manifest: setattr(manifest, "writer_feature_flags", NO_TRANSACTION_FILE))
    before(monkeypatch, committer, "publish_manifest", lambda: run(uri, CLEAN_UP))
    lance_df.dataset(uri, version=1).restore()
    assert values(uri) == [1]
    assert not [file for file in Path(uri, "_transactions").iterdir() if file.name.startswith("3-")]


# -- two branches of one name --


def base_of_branch(uri: str) -> tuple[int, list[int]]:
    """Return where a branch starts, by its ref, and its values, which are the same for pylance."""
    data = lance_df.dataset(uri)
    found: list[int] = data.checkout_version(("b", None)).to_table()["a"].to_pylist()
    assert lance.dataset(uri).checkout_version(("b", None)).to_table()["a"].to_pylist() == found
    return data.branches.list()["b"]["parent_version"], found


@pytest.fixture
def versions(uri: str) -> str:
    """Three versions; version n has the value n."""
    for value in (2, 3):
        lance_df.write_dataset(pa.table({"a": [value]}), uri, mode="overwrite")
    return uri


@pytest.mark.parametrize(("first", "second"), [(3, 1), (1, 3)])
def test_two_writers_make_one_branch(
    versions: str, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    """Who appends to the branch appends to its base, at any time."""
    made: list[int] = []

    def make(version: int) -> None:
        try:
            lance_df.dataset(versions, version=version).create_branch("b")
        except AlreadyExistsError:
            return
        made.append(version)

    def append() -> None:
        branch = lance_df.dataset(versions).checkout_version(("b", None))
        lance_df.write_dataset(pa.table({"a": [10]}), branch, mode="append")

    def rival() -> None:
        make(second)
        before(monkeypatch, clones, "create_ref", append)

    before(monkeypatch, committer, "publish_manifest", rival)
    make(first)
    assert len(made) == 1
    assert base_of_branch(versions) == (made[0], [made[0], 10])
    assert len(lance_df.dataset(f"{versions}/tree/b").versions()) == 2
    lance_df.dataset(versions).branches.delete("b")
    assert not Path(versions, "tree/b").exists()


@pytest.mark.parametrize("theirs", [1, 3])
def test_pylance_begins_a_branch_meanwhile(
    versions: str, monkeypatch: pytest.MonkeyPatch, theirs: int
) -> None:
    """It does not know of claims; its manifest is there, and its ref not yet."""
    ref = Path(versions, "_refs/branches/b.json")

    def begin() -> None:
        lance.dataset(versions).create_branch("b", theirs)
        ref.rename(ref.with_suffix(".later"))

    before(monkeypatch, committer, "publish_manifest", begin)
    with pytest.raises(AlreadyExistsError, match="branch 'b' was created by another writer"):
        lance_df.dataset(versions, version=2).create_branch("b")
    ref.with_suffix(".later").rename(ref)
    assert base_of_branch(versions) == (theirs, [theirs])
    assert [each["version"] for each in lance.dataset(f"{versions}/tree/b").versions()] == [theirs]


def test_a_writer_is_killed_while_it_makes_a_branch(versions: str) -> None:
    """Before any version is there: the name is free again when the branch is deleted."""
    kill = "import os\nfrom lance_df.table import clones\nclones._publish = lambda *_: os._exit(0)\n"
    run(versions, f"{kill}data().create_branch('b')")
    data = lance_df.dataset(versions)
    assert not data.branches.list()
    with pytest.raises(VersionNotFoundError, match="branch 'b' does not exist"):
        data.checkout_version(("b", None))
    with pytest.raises(AlreadyExistsError, match="creation was interrupted; delete it"):
        data.create_branch("b")
    data.branches.delete("b")
    data.create_branch("b", 1)
    assert base_of_branch(versions) == (1, [1])
    data.branches.delete("b")
    # pylance does not know of the claim, and removes it with its branch
    run(versions, f"{kill}data().create_branch('b')")
    theirs = lance.dataset(versions)
    theirs.create_branch("b", 2)
    assert base_of_branch(versions) == (2, [2])
    theirs.branches.delete("b")
    data.create_branch("b", 3)
    assert base_of_branch(versions) == (3, [3])


def test_a_claim_that_is_gone_when_it_is_read(versions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(file: Location, data: bytes) -> bool:
        raise NotFoundError(file.uri)

    monkeypatch.setattr(clones, "create_ref", gone)
    with pytest.raises(AlreadyExistsError):
        lance_df.dataset(versions).create_branch("b")


def test_an_interrupt_leaves_no_claim(versions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    before(monkeypatch, clones, "_publish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        lance_df.dataset(versions).create_branch("b")
    lance_df.dataset(versions).create_branch("b", 2)
    assert base_of_branch(versions) == (2, [2])


# -- tables and branches that are removed while a commit is published --


@pytest.mark.parametrize("change", CHANGES)
def test_a_shallow_clone_that_is_dropped_before_a_commit(
    uri: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Its data files, which are those of the other table, are still there."""
    clone = lance_df.dataset(uri).shallow_clone(uri.replace("t.lance", "c.lance"))
    before(monkeypatch, committer, "publish_manifest", lambda: lance_df.LanceDataset.drop(clone.uri))
    with pytest.raises(IncompatibleConflictError, match="the table was dropped"):
        CHANGES[change](clone)
    assert not Path(clone.uri).exists()
    assert values(uri) == [1]


@pytest.mark.parametrize("change", ["append", "overwrite"])
def test_a_dropped_table_without_transaction_files(
    uri: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    clone = lance_df.dataset(uri).shallow_clone(uri.replace("t.lance", "c.lance"))
    edit_manifest(clone.uri, lambda manifest: setattr(manifest, "writer_feature_flags", NO_TRANSACTION_FILE))
    data = lance_df.dataset(clone.uri)
    before(monkeypatch, committer, "publish_manifest", lambda: lance_df.LanceDataset.drop(clone.uri))
    with pytest.raises(IncompatibleConflictError, match="the table was dropped"):
        CHANGES[change](data)
    assert not Path(clone.uri).exists()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("num_versions", [1, 2])
def test_a_branch_that_is_made_anew_before_a_commit(
    uri: str, monkeypatch: pytest.MonkeyPatch, change: str, num_versions: int
) -> None:
    main = lance_df.dataset(uri)
    data = main.create_branch("b")
    data.insert(pa.table({"a": [3]}))

    def again() -> None:
        main.branches.delete("b")
        made = main.create_branch("b")
        for _ in range(num_versions - 1):
            made.insert(pa.table({"a": [777]}))

    before(monkeypatch, committer, "publish_manifest", again)
    with pytest.raises(IncompatibleConflictError, match="or its branch deleted, before version 3"):
        CHANGES[change](data)
    found = main.checkout_version(("b", None))
    assert (found.version, found.to_table()["a"].to_pylist()) == (num_versions, [1, 777][:num_versions])
    found.validate()


@pytest.mark.parametrize("change", ["delete", "update", "merge"])
def test_a_table_that_is_made_anew_before_a_change_is_computed_again(
    uri: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    def conflict() -> None:
        drop_and_create(uri)
        run_here(uri, "append(1)")
        raise RetryableConflictError("another writer was first")

    data = lance_df.dataset(uri)
    before(monkeypatch, retry, "commit_change", conflict)
    with pytest.raises(IncompatibleConflictError, match="dropped and created again"):
        COMPUTED[change](data)
    assert values(uri) == [1, 7]


def test_a_commit_that_cannot_be_withdrawn(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = lance_df.dataset(uri)

    def drop_and_refuse() -> None:
        lance_df.LanceDataset.drop(uri)
        monkeypatch.setattr(Location, "remove", refuse)

    def refuse(self: Location) -> None:
        raise StorageError(f"{self.uri}: access denied")

    before(monkeypatch, committer, "publish_manifest", drop_and_refuse)
    with pytest.raises(CommitStateUnknownError, match=r"was dropped.*could not be removed.*access denied"):
        data.delete("a = 7")


# -- damaged tables --


@pytest.mark.parametrize("use", [*USES, "deep clone"])
def test_a_missing_file_is_not_blamed_on_a_clean_up(uri: str, use: str) -> None:
    lance_df.write_dataset(pa.table({"a": [2]}), uri, mode="append")
    lance_df.dataset(uri).tags.create("last", 2)
    [missing] = lance_df.dataset(uri, version=1).get_fragments()[0].data_files()
    Path(uri, "data", missing.path).unlink()
    target = uri.replace("t.lance", "c.lance")
    code = {**USES, "deep clone": f"data().deep_clone({target!r})"}[use]
    with pytest.raises(CorruptDataError, match=missing.path) as caught:
        run_here(uri, code)
    assert "being removed" not in str(caught.value)
    data = lance_df.dataset(uri)
    assert (data.tags.list()["last"]["version"], list(data.tags.list())) == (2, ["last"])
    assert not data.branches.list()
    assert data.version == 2
    assert not Path(target).exists()


def test_a_shallow_clone_reads_no_data_files(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(missing_files, "is_there", refuse)
        clone = lance_df.dataset(uri).shallow_clone(uri.replace("t.lance", "c.lance"))
    assert values(clone.uri) == [1]
