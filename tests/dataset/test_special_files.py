"""Pipes, folders, sockets and devices in the place of files, and files that shrink: errors, at once."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import CorruptDataError, LanceError
from lance_df.storage import open_location

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")

_ROOT = Path(lance_df.__file__).resolve().parents[1]
_READ = """
import pathlib, shutil, sys, lance_df
from lance_df.errors import LanceError
def attempt(read):
    try:
        read()
    except LanceError as err:
        return True
    return False
for table in sys.argv[1:]:
    print(
        attempt(lambda: lance_df.dataset(table).to_table()),
        attempt(lambda: lance_df.dataset(table).to_table(filter="a = 3")),
        attempt(lambda: lance_df.dataset(table, "tag").take([1])),
    )
"""
_REFUSED = {
    "data/*.lance": "True True True",
    "_versions/*.manifest": "True True True",
    "_deletions/*": "True True True",
    "_indices/*/*": "False False False",
    "_refs/tags/*": "False False True",
}


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    folder = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind("s")
        os.rename("s", path)
    finally:
        os.chdir(folder)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    data = lance_df.write_dataset(pa.table({"a": range(20_000)}), path, statistics=True)
    data.delete("a = 7")
    data.tags.create("tag", data.version)
    return path


@pytest.mark.parametrize("make", [_pipe, Path.mkdir, _socket, _device])
def test_something_else_than_a_file(table: Path, tmp_path: Path, make: Callable[[Path], None]):
    tables = []
    for number, pattern in enumerate(_REFUSED):
        shutil.copytree(table, tmp_path / str(number))
        tables.append(str(tmp_path / str(number)))
        found = list((tmp_path / str(number)).glob(pattern))
        assert found
        for path in found:
            path.unlink()
            make(path)
    done = subprocess.run(
        [sys.executable, "-c", _READ, *tables],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=_ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = dict(zip(_REFUSED, done.stdout.splitlines(), strict=True))
    # what cannot be read of an index may be left out
    assert outcomes.pop("_indices/*/*").startswith("False")
    assert outcomes == {pattern: told for pattern, told in _REFUSED.items() if pattern in outcomes}


def test_the_message_names_the_kind(table: Path):
    (path,) = table.glob("data/*.lance")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CorruptDataError, match=rf"{path.name}: is a pipe, expected a regular file"):
        lance_df.dataset(table).to_table()


@pytest.mark.parametrize(
    "make", [_pipe, Path.mkdir, _socket, _device, lambda path: path.symlink_to("nowhere")]
)
def test_a_version_that_is_no_file_is_told_by_the_commit_that_needs_its_name(
    table: Path, make: Callable[[Path], None]
):
    """Readers find no version there, and no writer can make it: it does not help to try again."""
    data = lance_df.dataset(table)
    path = table / "_versions" / f"{2**64 - 2 - data.version}.manifest"
    assert path.with_name(f"{2**64 - 1 - data.version}.manifest").exists()
    make(path)
    with pytest.raises(CorruptDataError, match=rf"{path.name}: is .*, expected a regular file"):
        data.delete("a = 8")
    assert lance_df.dataset(table).count_rows() == data.count_rows() == 19_999


def test_deletion_files_larger_than_any_of_their_rows_are_not_read(table: Path):
    (path,) = table.glob("_deletions/*")
    os.truncate(path, 2**40)
    with pytest.raises(CorruptDataError, match=rf"{path.name}: the file has {2**40:,} bytes"):
        lance_df.dataset(table).to_table()


def test_tags_branches_and_transactions_larger_than_any_are_not_read(table: Path):
    data = lance_df.dataset(table)
    data.create_branch("branch")
    for path in (*table.glob("_refs/*/*.json"), *table.glob("_transactions/*")):
        os.truncate(path, 2**40)
    size = rf"the file has {2**40:,} bytes"
    with pytest.raises(CorruptDataError, match=rf"tag.json: {size}"):
        lance_df.dataset(table, version="tag")
    with pytest.raises(CorruptDataError, match=rf"branch.json: {size}"):
        data.branches.list()
    with pytest.raises(CorruptDataError, match=size):
        open_location(next(table.glob("_transactions/*"))).read()


def test_files_whose_names_are_not_utf8_are_no_tags_or_branches(table: Path):
    data = lance_df.dataset(table)
    data.create_branch("branch")
    for folder in table.glob("_refs/*"):
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff.json")).write_text("{}")
    assert (list(data.tags.list()), list(data.branches.list())) == (["tag"], ["branch"])
    with pytest.raises(LanceError, match=r"the tags are 'tag'$"):
        lance_df.dataset(table, version="no")


def test_errors_about_names_that_are_not_utf8_are_the_same_ones(tmp_path: Path):
    uri = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    lance_df.write_dataset(pa.table({"a": range(20)}), uri)
    (path,) = (uri / "data").iterdir()
    path.unlink()
    with pytest.raises(LanceError, match=r"/\\udcff/data/.*lance"):
        lance_df.dataset(uri).to_table()  # through Arrow, whose texts are UTF-8


_SHRINK = """
import os, sys, time, lance_df
from lance_df.errors import CorruptDataError
data = lance_df.dataset(sys.argv[1])
for read in range(2):
    try:
        rows = data.take([1], columns=["b"] if read else ["a"])
        print(rows.num_rows)
    except CorruptDataError as err:
        print("had" in str(err))
    if not read:
        (name,) = os.listdir(sys.argv[1] + "/data")
        os.truncate(sys.argv[1] + "/data/" + name, 5000)
        time.sleep(0.3)
"""


def test_a_file_that_shrinks_while_it_is_open(tmp_path: Path):
    random = np.random.default_rng(0)
    rows = pa.table({"a": range(200_000), "b": random.random(200_000)})
    lance_df.write_dataset(rows, tmp_path / "t")
    done = subprocess.run(
        [sys.executable, "-c", _SHRINK, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=_ROOT,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["1", "True"]), done.stderr[-2000:]


def test_a_file_that_is_replaced_or_removed_stays_as_it_was(tmp_path: Path):
    rows = pa.table({"a": range(200_000)})
    data = lance_df.write_dataset(rows, tmp_path / "t")
    assert data.take([5])["a"].to_pylist() == [5]
    (path,) = (tmp_path / "t" / "data").iterdir()
    other = tmp_path / "other"
    other.write_bytes(b"short")
    other.replace(path)
    assert data.take([199_999])["a"].to_pylist() == [199_999]
