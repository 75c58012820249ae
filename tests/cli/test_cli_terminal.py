"""The shell as somebody at a terminal has it."""

import os
import pty
import select
import subprocess
import sys
import time

SECONDS = 60


class Terminal:
    """A shell on a pseudo-terminal."""

    def __init__(self, root, history):
        self._own, other = pty.openpty()
        command = [sys.executable, "-m", "lance_df.cli", "shell", str(root), "--history", str(history)]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        self._process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, env=environment, start_new_session=True
        )
        os.close(other)
        self._seen = ""

    def wait_for(self, text):
        """Read until ``text`` has been shown since the last call."""
        deadline = time.monotonic() + SECONDS
        while text not in self._seen:
            assert time.monotonic() < deadline, f"{text!r} never came: {self._seen!r}"
            if select.select([self._own], [], [], 0.1)[0]:
                data = os.read(self._own, 65536)
                if b"\x1b[6n" in data:  # it asks where the cursor is
                    os.write(self._own, b"\x1b[1;1R")
                self._seen += data.decode()
        self._seen = self._seen.split(text, 1)[1]

    def type(self, text):
        os.write(self._own, text.encode())

    def end(self):
        """Return the exit code."""
        code = self._process.wait(SECONDS)
        os.close(self._own)
        return code


def test_statements_of_several_lines_and_a_history(root, tmp_path):
    history = tmp_path / "history"
    terminal = Terminal(root, history)
    terminal.wait_for("lance>")
    terminal.type("SELECT count(*) AS rows_of_trips\r")
    terminal.wait_for("...>")
    terminal.type("FROM trips;\r")
    terminal.wait_for("990")
    terminal.wait_for("lance>")
    terminal.type("SELECT nope FROM trips;\r")
    terminal.wait_for("error: ")
    terminal.wait_for("lance>")
    terminal.type("\x1b[A\x1b[A")  # two statements up: the first one, whole
    terminal.wait_for("rows_of_trips")
    terminal.wait_for("trips;")
    terminal.type("\r")
    terminal.wait_for("990")
    terminal.wait_for("(1 row")
    terminal.wait_for("lance>")
    terminal.type("\\q\r")
    assert terminal.end() == 0
    assert "+SELECT count(*) AS rows_of_trips\n+FROM trips;" in history.read_text()
