"""Reading leaves no trace: not a byte, name or time below the folder changes, whatever is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from exercise import exercise, read_file
from table_cases import NAMES, build

import lance_df
from lance_df.errors import LanceError

if TYPE_CHECKING:
    from collections.abc import Iterator


def listing(folder: Path) -> list[tuple[str, int, int, int, int]]:
    """Return path, size, mode, and the times of change of all that is below a folder, itself included."""
    found = []
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = os.path.join(parent, name)
            status = os.stat(path)
            found.append((path, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns))
    return sorted(found)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that `lock` makes read-only. That does not bind root, so trees are compared besides."""
    folder = tmp_path / "lake"
    folder.mkdir()
    yield folder
    for parent, _, files in os.walk(folder):
        os.chmod(parent, 0o755)
        for name in files:
            os.chmod(os.path.join(parent, name), 0o644)


def lock(folder: Path) -> None:
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            os.chmod(os.path.join(parent, name), 0o444)
        os.chmod(parent, 0o555)


@pytest.mark.parametrize("name", NAMES)
def test_no_read_writes(read_only: Path, name: str):
    path = build(name, read_only)
    names = tuple(lance_df.dataset(path).schema.names)
    lock(read_only)
    before = listing(read_only)
    failed = [outcome for outcome in exercise(path, names) if outcome.error is not None]
    for file in (path / "data").iterdir():
        assert read_file(file).error is None
    table = lance_df.dataset(path)
    table.validate()
    table.head(3)
    table.sample(3)
    table.get_fragments()[0].count_rows()
    table.scanner(filter="id > 3").explain_plan()
    table.read_transaction(table.version)
    for number in table.versions():
        table.checkout_version(number["version"]).count_rows()
    for branch in table.branches.list():
        table.checkout_version((branch, None)).to_table()
        lance_df.dataset(f"{path}/tree/{branch}").to_table()
    ctx = lance_df.connect(read_only)
    ctx.sql("SHOW TABLES").to_pylist()
    ctx.explain_scan(f'SELECT * FROM "{name}"')
    ctx.sql(f"SELECT count(*) FROM lance_scan('{path}', 1)").to_pylist()
    ctx.sql(f"CREATE EXTERNAL TABLE z STORED AS LANCE LOCATION '{path}'")
    ctx.sql("SELECT murmur3(id) FROM z LIMIT 3").to_pylist()
    assert failed == []
    assert listing(read_only) == before


def test_no_failed_read_writes(read_only: Path):
    path = build("indexed", read_only)
    for file in path.rglob("*.lance"):
        file.write_bytes(file.read_bytes()[:-20])
    shutil.copytree(path, read_only / "other.lance")
    (read_only / "empty.lance").mkdir()
    before = listing(read_only)
    exercise(path, ("id", "small"))
    for name in ("nowhere.lance", "empty.lance", "other.lance"):
        for version in (None, 77, "tag"):
            with suppress(LanceError):
                lance_df.dataset(read_only / name, version=version).to_table(filter="id = 3")
    assert listing(read_only) == before


def test_the_command_line_writes_nothing(read_only: Path):
    path = build("plain_2.1", read_only)
    lock(read_only)
    before = listing(read_only)
    for arguments in (
        ("sql", 'SELECT count(*) FROM "plain_2.1"', str(read_only)),
        ("inspect", str(path)),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "lance_df.cli", *arguments],
            cwd=read_only,
            env={**os.environ, "PYTHONPATH": str(Path(lance_df.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert listing(read_only) == before
