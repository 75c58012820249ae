"""Ctrl-C ends what runs, at any moment, as KeyboardInterrupt, and leaves nothing behind."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import datafusion
import pytest
from process_programs import ROOT, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

# a second on a machine that does nothing else
PATIENCE = 20.0
# DataFusion before 54 looks for signals only when it has a batch of a stream: after a sort, at its end
PATIENCE_FOR_SORTS = PATIENCE if int(datafusion.__version__.partition(".")[0]) >= 54 else 280.0

PROGRAM = """
signal.alarm(280)  # what is abandoned may compute for long on a busy machine
context = lance_df.connect(folder)
large = lance_df.dataset(f'{folder}/large.lance')
target = sys.argv[2]
rows = pa.table({'a': range(3000)})
context.sql('SELECT 1').collect()
def endless(work):
    while True:
        work()
print('ready', flush=True)
try:
    %s
except BaseException as err:
    print(type(err).__name__, flush=True)
for thread in threading.enumerate():  # what nobody waits for ends at its next step
    if thread.name == 'lance-df-apart':
        thread.join(200)
print(large.count_rows('a < 7'), context.sql('SELECT count(*) AS n FROM small').to_pylist())
print(sorted(thread.name for thread in threading.enumerate()))
"""

# tens of seconds between two batches, of which none comes
_KEYLESS = "SELECT max(x.a) AS a FROM large x JOIN large y ON x.a * y.a = -7 WHERE y.a < 100000"
WORKS = {
    "to_pylist": "endless(lambda: context.sql('SELECT * FROM large ORDER BY b').to_pylist())",
    "small statements": "endless(lambda: context.sql('SELECT a FROM small WHERE a % 7 = 1').to_pylist())",
    "stream": "endless(lambda: list(context.sql('SELECT * FROM large ORDER BY b').execute_stream()))",
    "to_table": "endless(lambda: large.to_table(filter='a % 7 = 1'))",
    "count_rows": "endless(lambda: large.count_rows('a % 7 = 1'))",
    "all rows": "endless(lambda: large.to_table())",
    "join": "context.sql('SELECT count(*) FROM large x JOIN large y USING (s), large z').collect()",
    "join without keys": f"context.sql({_KEYLESS!r}).to_pylist()",
    "stream of a join without keys": f"next(context.sql({_KEYLESS!r}).execute_stream(), None)",
    "insert": f"context.sql('INSERT INTO small (a) {_KEYLESS}')",
    "create": f"context.sql('CREATE TABLE made AS {_KEYLESS}')",
    "delete": f"context.sql('DELETE FROM small WHERE a IN ({_KEYLESS})')",
}


@pytest.mark.parametrize("name", WORKS)
def test_reads(tables: Path, tmp_path: Path, name: str) -> None:
    process = started(PROGRAM % WORKS[name], tables, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(random.uniform(0, 0.8))
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    found = process.stdout.readline()
    took = time.monotonic() - began
    out, errors = process.communicate(timeout=290)
    assert (found, process.returncode) == ("KeyboardInterrupt\n", 0), errors
    assert out == "7 [{'n': 1000}]\n['MainThread']\n", errors
    assert took < PATIENCE


@pytest.mark.parametrize("kind", ["tables", "series", "subquery"])
def test_an_interrupt_that_is_not_caught_ends_the_process(tables: Path, tmp_path: Path, kind: str) -> None:
    keyless = _KEYLESS.replace("100000", "10000")
    query = {
        "tables": keyless,
        "series": "SELECT count(*) FROM range(100000) a(x) JOIN range(100000) b(y) ON a.x * b.y = -7",
        "subquery": f"SELECT ({keyless}) AS n FROM small",
    }[kind]
    program = f"""
context = lance_df.connect(folder)
print('ready', flush=True)
context.sql({query!r}).to_pandas()
"""
    process = started(program, tables, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=120)
    assert time.monotonic() - began < PATIENCE
    assert process.returncode in (130, -signal.SIGINT), errors
    assert errors.splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize("command", ["sql", "shell"])
def test_the_command_line(tables: Path, command: str) -> None:
    query = "SELECT x.a, y.b FROM large x JOIN large y USING (s) ORDER BY y.b"
    words = ["sql", query, str(tables)] if command == "sql" else ["shell", str(tables)]
    process = subprocess.Popen(
        [sys.executable, "-m", "lance_df.cli", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(f"{query};\n")
    process.stdin.flush()
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=300)
    assert time.monotonic() - began < PATIENCE_FOR_SORTS
    assert process.returncode == 130
    assert len(errors.splitlines()) <= 1, errors


def test_the_shell_finishes_imports(tables: Path) -> None:
    program = """
import _imp
from lance_df.cli.commands.shell import Shell
from lance_df.cli.shell.session import ShellSession
session = ShellSession(lance_df.connect(folder))
acquire_lock = _imp.acquire_lock
def interrupted():
    acquire_lock()
    _imp.acquire_lock = acquire_lock
    signal.raise_signal(signal.SIGINT)
lines = iter(['\\\\d', '\\\\d small', 'SELECT 1;'])
def read_line(prompt):
    _imp.acquire_lock = interrupted
    time.sleep(0.2)
    for line in lines:
        return line
    raise EOFError
while True:
    try:
        Shell(session, read_line).run()
        break
    except KeyboardInterrupt:
        pass
signal.signal(signal.SIGINT, signal.SIG_IGN)
other = threading.Thread(target=lambda: __import__('colorsys'), daemon=True)
other.start()
other.join(20)
print('blocked' if other.is_alive() else 'imported')
"""
    process = started(program, tables)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert out.splitlines()[-1] == "imported"


def test_a_handler_of_the_users(tables: Path, tmp_path: Path) -> None:
    work = """
    class Stop(Exception):
        pass
    def stop(number, frame):
        raise Stop
    signal.signal(signal.SIGINT, stop)
    endless(lambda: context.sql('SELECT a FROM small WHERE a % 7 = 1').to_pylist())
"""
    process = started(PROGRAM % work.strip(), tables, tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "Stop\n"
    process.communicate(timeout=120)
    assert process.returncode == 0
