"""Daemon threads that read while the interpreter ends do not end the process otherwise than by its exit."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest
from process_programs import output_of, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

PROGRAM = """
import glob
import datafusion, pyarrow.dataset, lance_df.engine.session  # once for all processes
from lance_df.file import LanceFileReader
children = []
for delay in (0, 0.02, 0.3):
    child = os.fork()
    if not child:
        break
    children.append(child)
else:
    print([os.waitpid(child, 0)[1] for child in children], flush=True)
    os._exit(0)
signal.alarm(100)
context = lance_df.connect(folder)
large = lance_df.dataset(f'{folder}/large.lance')
data_file = glob.glob(f'{folder}/large.lance/data/*')[0]
kept = []
def half(batches):
    batches = iter(batches)
    next(batches, None)
    kept.append(batches)
    time.sleep(0.05)
def work():
    while True:
        %s
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(delay)
"""

WORKS = {
    "small statements": "context.sql('SELECT count(*) FROM small WHERE b < 0.5').to_pylist()",
    "statements": "context.sql('SELECT * FROM large WHERE a % 3 = 1 ORDER BY b').to_arrow_table()",
    "half of a stream": "half(context.sql('SELECT * FROM large').execute_stream())",
    "half of the batches": "half(large.to_batches())",
    "half of filtered batches": "half(large.to_batches(filter='a % 3 = 1'))",
    "opened and filtered": "lance_df.dataset(f'{folder}/small.lance').to_table(filter='a % 7 = 1')",
    "readers": "large.scanner().to_reader().read_all(), large.scanner().to_reader().read_next_batch()",
    "rows of a file": "LanceFileReader(data_file).read_all().to_table()",
    "scans": "large.to_table(), large.count_rows('a % 7 = 1')",
}


@pytest.mark.parametrize("name", WORKS)
def test_the_process_ends_well(tables: Path, name: str) -> None:
    assert output_of(PROGRAM % WORKS[name], tables) == "[0, 0, 0]\n"


@pytest.mark.skipif(sys.platform != "linux", reason="on_exit is glibc's")
@pytest.mark.parametrize("condition", ["y.a < 100", "y.a < 1000"])
def test_a_statement_that_was_abandoned_ends_after_the_interpreter(tables: Path, condition: str) -> None:
    query = f"SELECT max(x.a) AS a FROM large x JOIN large y ON x.a * y.a = -7 WHERE {condition}"
    program = f"""
import ctypes
context = lance_df.connect(folder)
print('ready', flush=True)
try:
    while True:
        context.sql({query!r}).to_pylist()
except KeyboardInterrupt:
    print('interrupted')
library = ctypes.CDLL(None)
library.on_exit(library.sleep, None)  # for as many seconds as the exit code says
sys.exit(4)
"""
    process = started(program, tables)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (4, "interrupted\n"), errors
