"""What SIGINT does in the main thread while something is written, or DataFusion is called."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lance_df import interrupts
from lance_df.compute import compat
from lance_df.compute.calls import engine_call
from lance_df.interrupts import (
    apart,
    callback,
    imports_finished,
    interrupted_once,
    raised_at_the_end,
    undisturbed,
    workers,
)
from lance_df.table.reading.prefetch import iterate_ahead


def press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """SIGINT is handled as before in the end."""
    former = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, former)


def test_work_is_done_before_interrupts_are_raised() -> None:
    done = []

    def work() -> None:
        for number in range(3):
            press()
            done.append(number)

    with pytest.raises(KeyboardInterrupt):
        undisturbed(work)
    assert done == [0, 1, 2]
    assert undisturbed(lambda: 7) == 7


def test_work_that_takes_too_long_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_df.interrupts._PATIENCE_SECONDS", 0.05)
    presses = 0

    def work() -> None:
        nonlocal presses
        while True:
            presses += 1
            press()
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        undisturbed(work)
    assert presses > 1


def test_only_the_first_interrupt_is_raised_until_all_is_cleaned_up() -> None:
    done = []

    @interrupted_once()
    def write() -> None:
        try:
            press()
        finally:
            press()
            with engine_call():
                press()
            undisturbed(press)
            done.append("cleaned")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["cleaned"]
    with pytest.raises(KeyboardInterrupt):
        press()


def test_a_later_interrupt_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_df.interrupts._PATIENCE_SECONDS", 0.02)
    raised = 0
    with interrupted_once():
        for _ in range(2):
            try:
                press()
            except KeyboardInterrupt:
                raised += 1
            time.sleep(0.03)
    assert raised == 2


@pytest.mark.parametrize(
    "context", [interrupted_once, raised_at_the_end, callback, engine_call, lambda: workers(1)]
)
def test_the_handler_is_restored_wherever_an_interrupt_comes(
    context: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # what is put off comes when this test has ended
    monkeypatch.setattr(interrupts, "_interrupt_later", lambda *_: None)
    interrupted, number, comes = 0, 1, True
    while comes:
        lines, comes = 0, False

        def trace(frame: FrameType, event: str, _: object, number: int = number) -> Any:
            nonlocal lines, comes
            if frame.f_code.co_filename != interrupts.__file__:
                return None
            if event == "line":
                lines += 1
                if lines == number:
                    comes = True
                    press()
            return trace

        former = sys.gettrace()
        sys.settrace(trace)
        try:
            with context():
                pass
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(former)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, number
        for _ in range(2):  # each is raised again
            with pytest.raises(KeyboardInterrupt), raised_at_the_end():
                press()
        number += 1
    assert interrupted > 10


def test_handlers_that_do_not_raise_hear_of_each_signal() -> None:
    heard = []
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    with interrupted_once():
        press(), press()
    press()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert len(heard) == 3


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    def other(number: int, frame: Any) -> None:
        raise AssertionError

    with interrupted_once():
        signal.signal(signal.SIGINT, other)
    assert signal.getsignal(signal.SIGINT) is other
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupted_once(), engine_call():
        undisturbed(press)
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_workers_have_ended_when_they_are_interrupted_while_they_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = []
    start = threading.Thread.start

    def interrupted_start(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("lance-df-work"):
            press()

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    with pytest.raises(KeyboardInterrupt), workers(2) as pool:
        pool.submit(lambda: (time.sleep(0.2), ended.append(True)))
    assert ended == [True]


def _wait_apart() -> None:
    abandoned = threading.Event()
    apart(lambda: abandoned.wait(60), abandoned.set)


WAITS: dict[str, Callable[[], object]] = {
    "a while": lambda: time.sleep(60),
    "for a lock": lambda: threading.Event().wait(60),
    "for another thread": _wait_apart,
}


@pytest.mark.parametrize("kind", WAITS)
def test_an_import_is_finished_first(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "interrupted_import.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGINT)\ntime.sleep(0.1)\nis_whole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    @engine_call()
    def call() -> None:
        importlib.import_module("interrupted_import")
        WAITS[kind]()

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        call()
    assert time.monotonic() - began < 30
    assert sys.modules.pop("interrupted_import").is_whole


@pytest.mark.parametrize("num_lost", [0, 1, 3])
def test_a_wait_that_began_just_after_the_signal_ends(num_lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a signal is pending, but does not end the wait; another one does, and no more are sent."""
    sent = 0
    kill = signal.pthread_kill

    def lose_some(ident: int, number: int) -> None:
        nonlocal sent
        sent += 1
        if sent > num_lost:
            kill(ident, number)

    monkeypatch.setattr(signal, "pthread_kill", lose_some)
    monkeypatch.setattr(interrupts, "_LATER_SECONDS", 0.01)

    @imports_finished()
    def call() -> None:
        with callback():
            press()
        threading.Event().wait(60)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        call()
    assert time.monotonic() - began < 30
    with imports_finished():
        time.sleep(0.1)
    assert sent == num_lost + 1


def test_a_module_that_never_ends_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_df.interrupts._PATIENCE_SECONDS", 0.1)
    (tmp_path / "endless_import.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGINT)\nwhile True:\n    time.sleep(0.01)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), interrupted_once():
        importlib.import_module("endless_import")


def test_a_module_that_writes_while_it_is_imported_is_interrupted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "writing_import.py").write_text(
        "import signal, time\nfrom lance_df.interrupts import interrupted_once\n"
        "with interrupted_once():\n    signal.raise_signal(signal.SIGINT)\n    time.sleep(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("writing_import")
    assert time.monotonic() - began < 30


def test_an_interrupt_in_an_import_is_forgotten_when_the_call_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when another handler is there. The next one in an import is put off again."""
    monkeypatch.setattr("lance_df.interrupts._PATIENCE_SECONDS", 0.3)
    for name in ("first_import", "second_import"):
        (tmp_path / f"{name}.py").write_text(
            "import signal, time\nsignal.raise_signal(signal.SIGINT)\ntime.sleep(0.05)\nis_whole = True\n"
        )
    monkeypatch.syspath_prepend(tmp_path)

    def call(name: str) -> None:
        with interrupted_once():
            importlib.import_module(name)
        time.sleep(5)

    for name in ("first_import", "second_import"):
        with pytest.raises(KeyboardInterrupt):
            call(name)
        assert sys.modules.pop(name).is_whole
        time.sleep(0.4)


def test_a_suspended_generator_leaves_the_handler_alone() -> None:
    items = iterate_ahead(range(10))
    assert next(items) == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupted_once():
        items.close()
        try:
            press()
        except KeyboardInterrupt:
            press()  # left out
    with pytest.raises(KeyboardInterrupt):
        press()


def test_what_a_handler_raises_is_no_error_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stopped

    def pressed(*_: object) -> None:
        press()

    context = compat.plain_context()
    monkeypatch.setattr(compat.PlainSessionContext, "sql", pressed)
    signal.signal(signal.SIGINT, stop)
    try:
        with pytest.raises(Stopped):
            compat.default_schema_name(context)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
