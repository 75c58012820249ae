"""A progress line on the terminal for work that takes more than a second: rows, bytes and time."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from lance_df.display.numbers import number_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

_FIRST_SECONDS: Final = 1.0
_EVERY_SECONDS: Final = 0.25


class Progress:
    """Shows progress on stderr, if it is a terminal, while the user waits.

    Parameters
    ----------
    rows_read
        Returns how many rows scans have read so far; called on another thread.
    what
        The first text on the line, which may change.
    is_quiet
        Returns whether another program currently uses the terminal.
    """

    def __init__(
        self,
        rows_read: Callable[[], int] | None = None,
        what: str = "",
        *,
        is_quiet: Callable[[], bool] = lambda: False,
    ) -> None:
        self.what = what
        self._rows_read = rows_read
        self._is_quiet = is_quiet
        self._num_rows = self._num_bytes = 0
        self._is_shown = False
        self._is_waiting = True
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._wait(False)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Hide the line while something is printed."""
        self._wait(False)
        try:
            yield
        finally:
            self._wait(True)

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches, hiding the line while they are written."""
        waited = iter(batches)
        while True:
            self._wait(True)
            try:
                batch = next(waited, None)
            finally:
                self._wait(False)
            if batch is None:
                return
            self._num_rows += batch.num_rows
            self._num_bytes += batch.nbytes
            yield batch

    def text(self) -> str:
        """Return the line."""
        parts = [self.what] if self.what else []
        if self._rows_read is not None and (num_read := self._rows_read()):
            parts.append(f"{number_text(num_read, 'row')} read")
        if self._num_rows:
            parts.append(f"{number_text(self._num_rows, 'row')} ({size_text(self._num_bytes)}) returned")
        return ", ".join([*parts, f"{time.monotonic() - self._began:.0f} s"])

    def _wait(self, is_waiting: bool) -> None:
        with self._lock:
            self._is_waiting = is_waiting
            if self._is_shown and not is_waiting:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                self._is_shown = False

    def _run(self) -> None:
        pause = _FIRST_SECONDS
        while not self._done.wait(pause):
            pause = _EVERY_SECONDS
            with self._lock:
                if self._is_waiting and not self._done.is_set() and not self._is_quiet():
                    sys.stderr.write(f"\r\x1b[K{self.text()}")
                    sys.stderr.flush()
                    self._is_shown = True
