"""Processes on a disk: writers that are killed at any moment, and writers of both libraries at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lance_df

if TYPE_CHECKING:
    from collections.abc import Iterator

CHANGES = int(os.environ.get("LANCE_DF_CHANGES_OF_A_WRITER", "3"))
ROWS_OF_A_WRITER = 1000
OURS, THEIRS = (0, 1, 2, 3), (4, 5, 6, 7)
NUM_KILLED = 6

# Writers are forked from a process that has imported and compiled everything, and has no threads yet.
SCRIPT = """
import os, random, signal, sys, tempfile, time
import datafusion, pyarrow as pa, pyarrow.compute as pc
import lance_df, lance_df.compute.evaluator, lance_df.dataset, lance_df.table.changes.delete, lance_df.write
from lance_df.errors import ConflictError

with tempfile.TemporaryDirectory() as folder:
    # as many rows as the writers will find, so that the same decoders are loaded
    lance_df.write_dataset(pa.table({"k": range(8000)}), f"{folder}/t").to_table(filter=pc.field("k") == 7)

def new_key(writer, number):
    return 100_000 * (writer + 1) + number

def append(key):
    lance_df.write_dataset(pa.table({"k": [key]}), uri, mode="append")
    os.write(log, f"+{key}\\n".encode())

def delete(key):
    lance_df.dataset(uri).delete(pc.field("k") == key)
    os.write(log, f"-{key}\\n".encode())

def acknowledged():
    return os.lseek(log, 0, os.SEEK_END)

def be_killed():
    random.seed(7)
    for writer in range(int(argument)):
        before = acknowledged()
        child = os.fork()
        if not child:
            for number in range(1000):
                append(new_key(writer, number))
                if number % 3 == 2:
                    delete(new_key(writer, number - 1))
        while acknowledged() == before:
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

def write_together():
    *writers, changes = map(int, argument.split(","))
    children = []
    for writer in writers:
        children.append(os.fork())
        if not children[-1]:
            for number in range(changes):
                try:
                    append(new_key(writer, number))
                    delete(1000 * writer + number)
                except ConflictError:
                    pass
            os._exit(0)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)

for line in sys.stdin:
    command, uri, argument = line.split()
    log = os.open(uri + ".log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    {"be_killed": be_killed, "write_together": write_together}[command]()
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    root = Path(lance_df.__file__).parents[1]
    arguments = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()
        assert started.wait(timeout=30) == 0


def run(process: subprocess.Popen[str], command: str, path: Path, argument: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{command} {path} {argument}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def acknowledged(path: Path) -> tuple[set[int], set[int]]:
    """Return the keys whose append, and whose deletion, was acknowledged."""
    lines = Path(f"{path}.log").read_text().split()
    appended, deleted = ({int(line[1:]) for line in lines if line[0] == sign} for sign in "+-")
    return appended, deleted


def keys(path: Path) -> list[int]:
    table = lance.dataset(path)
    table.validate()
    found = table.to_table()["k"].to_pylist()
    assert sorted(found) == sorted(lance_df.dataset(path).to_table()["k"].to_pylist())
    return found


def test_writers_that_are_killed(process: subprocess.Popen[str], tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"k": [0]}), path)
    run(process, "be_killed", path, str(NUM_KILLED))
    appended, deleted = acknowledged(path)
    found = keys(path)
    assert len(found) == len(set(found))
    assert not deleted & set(found)
    # a killed writer can have committed what it did not come to say: one change each
    unknown = {0, *appended} - deleted ^ set(found)
    assert len(unknown) <= NUM_KILLED
    assert len(appended) >= NUM_KILLED
    lance_df.write_dataset(pa.table({"k": [-1]}), path, mode="append")
    lance.write_dataset(pa.table({"k": [-2]}), path, mode="append")
    assert sorted(keys(path)) == sorted([-2, -1, *found])


def test_eight_writers_of_both_libraries(process: subprocess.Popen[str], tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"k": range(8 * ROWS_OF_A_WRITER)}), path)
    log = Path(f"{path}.log")
    appended, deleted = set(), set()

    def append(key: int) -> None:
        lance.write_dataset(pa.table({"k": [key]}), path, mode="append")
        appended.add(key)

    def delete(key: int) -> None:
        lance.dataset(path).delete(f"k = {key}")
        deleted.add(key)

    def write(writer: int) -> None:
        while not (log.exists() and log.stat().st_size):  # ours have started
            time.sleep(0.005)
        for number in range(CHANGES):
            try:
                append(100_000 * (writer + 1) + number)
                delete(ROWS_OF_A_WRITER * writer + number)
            except OSError as err:
                if "concurrent" not in str(err).lower() and "conflict" not in str(err).lower():
                    raise

    with ThreadPoolExecutor(1 + len(THEIRS)) as pool:
        arguments = ",".join(map(str, (*OURS, CHANGES)))
        ours = pool.submit(run, process, "write_together", path, arguments)
        for each in (ours, *[pool.submit(write, writer) for writer in THEIRS]):
            each.result()
    by_us = acknowledged(path)
    assert min(len(appended), len(deleted), *map(len, by_us)) >= 2 * CHANGES
    appended |= by_us[0]
    deleted |= by_us[1]
    assert sorted(keys(path)) == sorted({*range(8 * ROWS_OF_A_WRITER)} - deleted | appended)
    assert lance.dataset(path).version == 1 + len(appended) + len(deleted)
