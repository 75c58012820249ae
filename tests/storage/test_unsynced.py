"""Files that are made durable together, by one thread or several."""

from __future__ import annotations

import os
import threading

from lance_df.storage import unsynced as module
from lance_df.storage.unsynced import Unsynced


def test_sync_waits_for_files_that_another_thread_syncs(tmp_path, monkeypatch):
    both = Unsynced()
    begun, may_end = threading.Event(), threading.Event()
    durable: list[int] = []
    fsync = os.fsync

    def slow(descriptor: int) -> None:
        begun.set()
        assert may_end.wait(10)
        fsync(descriptor)
        durable.append(descriptor)

    monkeypatch.setattr(module.os, "fsync", slow)
    file = tmp_path / "a"
    file.write_bytes(b"x")
    both.add(str(file))
    one, other = (threading.Thread(target=both.sync) for _ in range(2))
    one.start()
    assert begun.wait(10)  # this thread has taken the file
    other.start()
    other.join(0.2)
    assert other.is_alive()
    assert not durable
    may_end.set()
    for thread in (one, other):
        thread.join(10)
    assert durable


def test_more_files_than_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MANY", 8)
    many = Unsynced()

    def write(name: str) -> None:
        for number in range(50):
            path = tmp_path / f"{name}{number}"
            path.write_bytes(b"x")
            many.add(str(path))
            if number % 7 == 0:
                many.sync()

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    many.sync()
    assert not many._files
    assert not many._systems
