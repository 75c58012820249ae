"""SIGINT, once or several times, at moments over all of the time that an operation takes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from process_programs import ROOT

# for all operations, and more moments: python tools/interrupts.py --samples 100
GROUPS = {
    "tables": ["append", "update", "compact"],
    "namespaces": ["namespace.append", "namespace.update"],
    "shell": ["shell"],
}


@pytest.mark.parametrize("group", GROUPS)
def test_an_interrupted_operation_is_done_or_undone(group: str) -> None:
    names = GROUPS[group]
    words = ["--samples", "2", "--size", "8", "--operations", *names]
    num_interrupted = 0
    for _ in range(5):  # on a busy machine all of a few operations may end before they are interrupted
        done = subprocess.run(
            [sys.executable, "tools/interrupts.py", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        lines = done.stdout.splitlines()
        assert [line.partition(":")[0] for line in lines] == names
        num_interrupted = sum(int(line.split()[1]) for line in lines)
        if num_interrupted:
            break
    assert num_interrupted
