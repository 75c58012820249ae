"""Commands as somebody at a terminal has them: cut tables, a pager, progress, and Ctrl-C."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 90
ENDLESS = """SELECT count(*) FROM trips a CROSS JOIN trips b CROSS JOIN trips c CROSS JOIN trips d
WHERE a.id + b.id + c.id = d.id"""
# Ctrl-C goes to the processes whose terminal it is
_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class Screen:
    """A command on a pseudo-terminal of 20 lines."""

    def __init__(self, *arguments, code=None, **environment):
        program = ["-m", "lance_df.cli", *map(str, arguments)] if code is None else ["-c", code]
        self._own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 100, 0, 0))
        kept = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "PAGER")
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, *program],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**kept, "TERM": "xterm", "PYTHONPATH": str(ROOT), **environment},
            start_new_session=True,
        )
        os.close(other)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._own)

    def wait_for(self, text):
        """Read until ``text`` has come since the last call; return what was before it."""
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} never came: {self.seen!r}"
            if not self._read():
                assert text in self.seen, f"{text!r} never came: {self.seen!r}"
        before, self.seen = self.seen.split(text, 1)
        return before

    def _read(self):
        if not select.select([self._own], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._own, 65536)
        except OSError:  # the other side is closed
            return False
        if b"\x1b[6n" in data:  # it asks where the cursor is
            os.write(self._own, b"\x1b[1;1R")
        self.seen += data.decode(errors="replace")
        return True

    def type(self, text):
        os.write(self._own, text.encode())

    def end(self):
        """Return the exit code and the rest of what is shown."""
        deadline = time.monotonic() + SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            self._read()
        while self._read() and select.select([self._own], [], [], 0.1)[0]:
            pass
        return self._process.wait(1), self.seen


def test_a_table_is_cut_to_the_height_of_the_terminal(root):
    with Screen("sql", "SELECT id FROM trips ORDER BY id", root) as screen:
        code, shown = screen.end()
    # what comes after a carriage return takes the place of the line of progress
    rows = [line.rstrip("\r").rpartition("\r")[2] for line in shown.split("\n")]
    lines = [row.replace("\x1b[K", "").strip() for row in rows]
    assert code == 0
    assert len(lines) <= 20
    assert "… 975 more rows (--max-rows 0 shows all)" in lines
    assert "14" in lines
    assert "15" not in lines


def test_ctrl_c_stops_a_query_and_keeps_the_shell(root, tmp_path):
    with Screen("shell", root, "--history", tmp_path / "history") as screen:
        screen.wait_for("lance>")
        screen.type(f"{' '.join(ENDLESS.split())};\r")
        screen.wait_for("read, ")  # progress, after a second
        screen.type("\x03")
        screen.wait_for("interrupted")
        screen.wait_for("lance>")
        screen.type("SELECT 40 + 2 AS answer;\r")
        screen.wait_for("answer")
        screen.wait_for("42")
        screen.type("\\q\r")
        assert screen.end()[0] == 0


def test_ctrl_c_ends_a_command(root):
    with Screen("sql", ENDLESS, root) as screen:
        screen.wait_for("read, ")
        screen.type("\x03")
        assert screen.end()[0] == 130


def test_long_results_of_the_shell_go_to_a_pager(root, tmp_path):
    pager = f"cat > {tmp_path}/paged"
    with Screen("shell", root, "--history", tmp_path / "history", PAGER=pager) as screen:
        screen.wait_for("lance>")
        screen.type("SELECT id FROM trips ORDER BY id;\r")
        screen.wait_for("(990 rows")
        screen.type("SELECT 7 AS seven;\r")
        screen.wait_for("seven")
        screen.wait_for("(1 row")
        screen.type("\\pager off\r")
        screen.wait_for("the pager is off")
        screen.type("SELECT id FROM trips ORDER BY id;\r")
        screen.wait_for("975 more rows")
        screen.type("\\q\r")
        assert screen.end()[0] == 0
    assert re.findall(r"\d+", (tmp_path / "paged").read_text()) == [str(number) for number in range(990)]


def test_a_pager_that_is_left_ends_the_statement(root, tmp_path):
    with Screen("shell", root, "--history", tmp_path / "history", PAGER="head -n 1") as screen:
        screen.wait_for("lance>")
        screen.type("SELECT a.id FROM trips a CROSS JOIN trips b CROSS JOIN trips c;\r")
        screen.wait_for("id")
        screen.wait_for("lance>")
        screen.type("\\q\r")
        assert screen.end()[0] == 0


def test_commands_of_the_shell(root, tmp_path):
    with Screen("shell", root, "--history", tmp_path / "history") as screen:
        screen.wait_for("lance>")
        for typed, shown in (
            ("\\?", "\\explain SQL"),
            ("\\dt", "trips"),
            ("\\d trips", "column_name"),
            ("\\timing", "timing is off"),
            ("SELECT 5 AS five;", "(1 row)"),
            ("\\explain SELECT id FROM trips WHERE id < 100", "1 of 3"),
            ("SELECT * FROM tri\t WHERE id = 77;", "77"),
        ):
            screen.type(f"{typed}\r")
            screen.wait_for(shown)
            screen.wait_for("lance>")
        screen.type("\\q\r")
        assert screen.end()[0] == 0


def test_a_second_ctrl_c_ends_what_does_not_stop():
    code = """
import signal, time
from lance_df.cli.stuck import leaving_when_stuck
signal.signal(signal.SIGINT, lambda *_: None)
with leaving_when_stuck():
    print("begun", flush=True)
    while True:
        time.sleep(1)
"""
    with Screen(code=code) as screen:
        screen.wait_for("begun")
        screen.type("\x03")
        screen.wait_for("Ctrl-C again ends the program")
        screen.type("\x03")
        exit_code, _ = screen.end()
    assert exit_code == 130
