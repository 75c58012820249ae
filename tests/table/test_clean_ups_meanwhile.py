"""Clean-ups, clones and deletions that come between what a writer looks at and what it publishes."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import CommitStateUnknownError, InvalidInputError, LanceError
from lance_df.table import clones
from lance_df.table.commit import committer, publish
from lance_df.table.metadata import refs_write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = dt.timedelta(0)
CLEAN_UP = "import datetime as dt; data().cleanup_old_versions(older_than=dt.timedelta(0))"


def run(uri: str, code: str) -> None:
    """Run a program in another process, in which ``data()`` opens the table and ``append`` adds a row."""
    head = f"""
import lance_df, pyarrow as pa
def data(): return lance_df.dataset({uri!r})
def append(value): lance_df.write_dataset(pa.table({{"a": [value]}}), {uri!r}, mode="append")
"""
    subprocess.run([sys.executable, "-c", head + code], check=True)


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
    with pytest.raises(CommitStateUnknownError, match="cleaned up meanwhile"):
        lance_df.write_dataset(pa.table({"a": [999]}), uri, mode="append")
    assert values(uri) == [1, 10, 11, 12]


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
    with pytest.raises(LanceError):
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


def test_two_deep_clones_to_one_folder(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = uri.replace("t.lance", "c.lance")
    before(monkeypatch, clones, "copy_file", lambda: run(uri, f"data().deep_clone({target!r}, 1)"))
    with pytest.raises(LanceError):
        lance_df.dataset(uri).deep_clone(target, 1)
    assert values(target) == [1]


@pytest.mark.parametrize("use", ["create_branch('c')", "tags.create('t', ('b', None))"])
def test_a_branch_that_comes_into_use_stays(uri: str, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    branch = lance_df.dataset(uri).create_branch("b")
    lance_df.write_dataset(pa.table({"a": [5]}), branch, mode="append")
    owner = "data().checkout_version(('b', None))" if "branch" in use else "data()"
    before(monkeypatch, refs_write, "_check_unused", lambda: run(uri, f"{owner}.{use}"), after=True)
    with pytest.raises(InvalidInputError, match="needed"):
        lance_df.dataset(uri).branches.delete("b")
    ref = ("c", None) if "branch" in use else "t"
    assert lance_df.dataset(uri).checkout_version(ref).to_table()["a"].to_pylist() == [1, 5]
    assert lance_df.dataset(uri).checkout_version(("b", None)).to_table()["a"].to_pylist() == [1, 5]
