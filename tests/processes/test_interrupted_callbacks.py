"""SIGINT in what DataFusion calls is raised as KeyboardInterrupt, whatever DataFusion makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df.engine import provider
from lance_df.engine.failures import execution_errors, planning_errors
from lance_df.engine.provider import LanceTableProvider
from lance_df.engine.statement import Statement
from lance_df.engine.tables.catalog import FolderCatalog, LanceSchema
from lance_df.engine.tables.folders import TableFolder
from lance_df.engine.tables.source import TableSource

pytestmark = pytest.mark.engine

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.float64())])
ROWS = pa.table({"a": range(100), "b": [0.5] * 100}, SCHEMA)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the table ``t`` and the namespace ``n``."""
    lance_df.write_dataset(ROWS, tmp_path / "t.lance", max_rows_per_file=20)
    fields = [lance_df.partition.bucket("a", 3)]
    lance_df.PartitionedNamespace.create(tmp_path / "n", SCHEMA, fields).append(ROWS)
    return tmp_path


COLUMNS = "information_schema.columns"
# what DataFusion calls in the thread that plans, while this statement is planned or run
CALLBACKS: dict[str, tuple[type, str, str]] = {
    "columns of a scan": (LanceTableProvider, "scanner", "SELECT a FROM t ORDER BY a"),
    "fragments of a scan": (LanceTableProvider, "get_fragments", "SELECT a FROM t WHERE a < 5 ORDER BY a"),
    "plan of a scan": (LanceTableProvider, "_plan_anew", "SELECT a FROM n WHERE a < 5 ORDER BY a"),
    "scan of a namespace": (LanceTableProvider, "get_fragments", "SELECT a FROM n ORDER BY a"),
    "table": (LanceSchema, "table", "SELECT a FROM t ORDER BY a"),
    "view": (LanceSchema, "register_table", "CREATE VIEW v AS SELECT 1 AS x"),
    "dropped view": (LanceSchema, "deregister_table", "DROP VIEW former"),
    "schema": (FolderCatalog, "schema", "SELECT a FROM public.t ORDER BY a"),
    "new schema": (FolderCatalog, "register_schema", "CREATE SCHEMA datafusion.made"),
    "listed tables": (TableFolder, "names", "SELECT * FROM information_schema.tables ORDER BY 1, 2, 3"),
    "listed columns": (
        TableSource,
        "listed_schema",
        "SELECT * FROM information_schema.columns ORDER BY 1, 2, 3, 4",
    ),
    "version of a table": (TableSource, "current", "SELECT a FROM t ORDER BY a"),
}


class Pressing:
    """Sends SIGINT at the n-th call of a method in the main thread."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: Any, method: str) -> None:
        self.calls = 0
        self.at: int | None = None
        former: Callable[..., Any] = getattr(kind, method)

        def pressed(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                self.calls += 1
                if self.calls == self.at:
                    signal.raise_signal(signal.SIGINT)
            return former(*args, **kwargs)

        patch.setattr(kind, method, pressed)


def run(folder: Path, statement: str) -> Any:
    context = lance_df.connect(folder)
    context.sql("CREATE VIEW former AS SELECT 1 AS x")
    return context.sql(statement).to_pydict()


@pytest.mark.parametrize("name", CALLBACKS)
def test_in_sessions(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    kind, method, statement = CALLBACKS[name]
    pressing = Pressing(monkeypatch, kind, method)
    expected = run(folder, statement)
    num_calls = pressing.calls
    assert num_calls > 0
    for number in range(1, num_calls + 1):
        pressing.calls, pressing.at = 0, number
        with pytest.raises(KeyboardInterrupt):
            run(folder, statement)
        assert pressing.calls >= number
    pressing.at = None
    assert run(folder, statement) == expected
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("errors", [planning_errors, lambda statement: execution_errors([statement])])
def test_what_a_handler_raises_is_no_error_of_the_statement(errors: Callable[[Statement], Any]) -> None:
    class StopError(Exception):
        pass

    def stop(*_: object) -> None:
        raise StopError

    former = signal.signal(signal.SIGINT, stop)
    try:
        with pytest.raises(StopError), errors(Statement("SELECT 1")):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, former)


# below what is called, as that is what puts interrupts off
PLAIN = {
    "columns of a scan": (provider, "_projected", "SELECT a FROM t ORDER BY a"),
    "plan of a scan": (LanceTableProvider, "_plan_anew", "SELECT a FROM t WHERE a < 5 ORDER BY a"),
    "scan of a namespace": (LanceTableProvider, "_plan_anew", "SELECT a FROM n ORDER BY a"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_in_contexts_of_others(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    kind, method, statement = PLAIN[name]
    pressing = Pressing(monkeypatch, kind, method)

    def run_plain() -> Any:
        context = datafusion.SessionContext()
        lance_df.register(context, "t", str(folder / "t.lance"))
        lance_df.register(context, "n", str(folder / "n"))
        found = context.sql(statement).to_pydict()
        if pressing.at is not None:
            time.sleep(5)  # an interruption that was put off comes at once
        return found

    expected = run_plain()
    num_calls = pressing.calls
    for number in range(1, num_calls + 1):
        pressing.calls, pressing.at = 0, number
        with pytest.raises(KeyboardInterrupt):
            run_plain()
    pressing.at = None
    assert run_plain() == expected


def test_in_functions(folder: Path) -> None:
    """A function of the user's is called by threads of DataFusion, or by the main one."""

    def pressed(values: pa.Array) -> pa.Array:
        os.kill(os.getpid(), signal.SIGINT)
        return values

    context = lance_df.connect(folder)
    context.register_udf(datafusion.udf(pressed, [pa.int64()], pa.int64(), "stable", "pressed"))
    with pytest.raises(KeyboardInterrupt):
        context.sql("SELECT pressed(a) FROM t").to_pydict()
    assert context.sql("SELECT count(*) AS n FROM t").to_pydict() == {"n": [100]}


FIRST_SESSION = """
import logging, os, signal

import lance_df, lance_df.engine.session, lance_df.engine.query

original, calls = logging.getLogger, []


def interrupted(*names):
    calls.append(names)
    if len(calls) == 1:
        os.kill(os.getpid(), signal.SIGINT)
    return original(*names)


dataset = lance_df.dataset({path!r})
logging.getLogger = interrupted
try:
    {call}
except KeyboardInterrupt:
    print("interrupted in", calls[0][0])
"""


@pytest.mark.parametrize("call", ["lance_df.connect()", "dataset.to_table(filter='a + 1 > 5')"])
def test_while_native_code_makes_the_first_context(folder: Path, call: str) -> None:
    program = FIRST_SESSION.format(path=str(folder / "t.lance"), call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("interrupted in datafusion.execution.session_state\n", "")
