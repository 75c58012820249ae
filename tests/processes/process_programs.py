"""Programs that tests run as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SETUP = """
import os, signal, sys, threading, time
import pyarrow as pa
import pyarrow.compute as pc
import lance_df

signal.alarm(100)  # ends it
folder = sys.argv[1]
"""


def started(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program, after `SETUP`."""
    return subprocess.Popen(
        [sys.executable, "-c", SETUP + program, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(program: str, *arguments: object) -> str:
    """Run a program to its end, which must be a good one, and return what it printed."""
    process = started(program, *arguments)
    try:
        out, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, errors) == (0, ""), errors[-3000:]
    return out
