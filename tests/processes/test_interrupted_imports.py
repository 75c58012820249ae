"""Ctrl-C in a first call, which imports modules, and at the exit: imports are done, and later calls work."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from process_programs import ROOT, output_of

import lance_df

if TYPE_CHECKING:
    from pathlib import Path

# as the first press of the user comes in the nth time that an import takes Python's lock of all imports
_PRESS_IN_LOCK = """
import _imp
acquire, number = _imp.acquire_lock, 0
def pressed():
    global number
    acquire()
    number += 1
    if number == int(sys.argv[2]):
        _imp.acquire_lock = acquire
        signal.raise_signal(signal.SIGINT)
_imp.acquire_lock = pressed
"""
# in the middle of a package that cannot be imported twice
_PRESS_IN_NUMPY = """
class Press:
    def find_spec(self, name, *_):
        if name == 'numpy.lib._arraysetops_impl':
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Press())
"""
_FIRST_CALLS = {
    "sql": "lance_df.connect(folder).sql('SELECT a FROM small WHERE a % 7 = 1').to_pylist()",
    "filter": "lance_df.dataset(folder + '/small.lance').to_table(filter='a % 7 = 1')",
    "write": "lance_df.write_dataset({'a': [1]}, 'memory://interrupted')",
}
_NEXT_CALLS = """
print(lance_df.connect(folder).sql('SELECT count(*) AS n FROM small WHERE a % 7 = 1').to_pylist())
print(lance_df.dataset(folder + '/small.lance').count_rows('a % 7 = 1'))
"""
_ANSWERS = "[{'n': 143}]\n143\n"


def _program(press: str, call: str) -> str:
    return f"""{press}
try:
    {call}
    time.sleep(1)
    print('no interrupt')
except KeyboardInterrupt:
    print('KeyboardInterrupt')
{_NEXT_CALLS}"""


@pytest.mark.parametrize("call", _FIRST_CALLS)
@pytest.mark.parametrize("number", [1, 40, 400])
def test_the_lock_of_imports_is_released(tables: Path, call: str, number: int) -> None:
    found = output_of(_program(_PRESS_IN_LOCK, _FIRST_CALLS[call]), tables, number)
    assert found == f"KeyboardInterrupt\n{_ANSWERS}"


def test_packages_are_imported_whole(tables: Path) -> None:
    # pyarrow imports numpy, so nothing that does may be imported before
    setup = "import signal, sys, time, lance_df\nfolder = sys.argv[1]\n"
    done = subprocess.run(
        [sys.executable, "-c", setup + _program(_PRESS_IN_NUMPY, _FIRST_CALLS["filter"]), tables],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"KeyboardInterrupt\n{_ANSWERS}", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_command_that_begins_ends_quietly(tables: Path) -> None:
    program = f"""import os, signal, sys
class Press:
    def find_spec(self, name, *_):
        if name == 'lance_df.cli.commands.verify':
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
from lance_df.cli import main
main(['inspect', {os.fspath(tables / "small.lance")!r}])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_exit_is_not_interrupted(tables: Path) -> None:
    """Threads that read are waited for, also where the user presses Ctrl-C meanwhile."""
    program = """
import atexit
from lance_df import exits
def read():
    dataset = lance_df.dataset(folder + '/large.lance')
    while True:
        dataset.to_table(filter='a % 7 = 1')
ending = threading.Event()
def press():
    ending.wait()
    for _ in range(20):
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
for work in (read, press):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
atexit.unregister(exits._wait)
atexit.register(exits._wait)
atexit.register(ending.set)
print('ends')
"""
    assert output_of(program, tables) == "ends\n"


_MERGE = "MERGE INTO t USING (SELECT 1 AS a) AS s ON t.a = s.a WHEN MATCHED THEN DELETE"
_GROUPINGS = {
    "merge by SQL": f"lance_df.connect(folder).sql({_MERGE!r})",
    "join": "lance_df.dataset(folder + '/t.lance').merge(pa.table({'a': [1], 'b': [2]}), 'a')",
}


@pytest.mark.parametrize("call", _GROUPINGS)
def test_what_pyarrow_imports_to_group_rows_is_imported_whole(tmp_path: Path, call: str) -> None:
    lance_df.write_dataset({"a": [1]}, tmp_path / "t.lance")
    program = f"""
class Press:
    def find_spec(self, name, *_):
        if name == 'pyarrow.acero':
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Press())
try:
    {_GROUPINGS[call]}
    time.sleep(1)
    print('no interrupt')
except KeyboardInterrupt:
    print('pyarrow.acero' in sys.modules)
"""
    assert output_of(program, tmp_path) == "True\n"
