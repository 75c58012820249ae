"""Interrupt operations by SIGINT, at moments over all of their time, and look at what is there afterwards.

Usage: python tools/interrupts.py [--operations NAME …] [--samples N] [--presses N] [--seed S] [--cold]

Each sample is a process of its own, which runs one operation on a copy of a table or a namespace and is sent
one SIGINT or several. The operation raises KeyboardInterrupt and nothing else. Another process then finds the
rows from before or after it, files that are all referred to, and no problem; and the process that was
interrupted goes on with another operation. The exit code is 1 where this does not hold.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import pickle
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import pyarrow as pa  # noqa: E402 - found by the path above

import lance_df  # noqa: E402
from tools.leftover_files import leftovers  # noqa: E402

SCHEMA: Final = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())])
# what takes longer hangs
PATIENCE_SECONDS: Final = 60.0
_MODULES: Final = (
    *(
        "lance_df.api.namespaces.namespace",
        "lance_df.cli.app",
        "lance_df.cli.commands.shell",
        "lance_df.engine.session",
    ),
    *("lance_df.file.v2.writer", "datafusion", "pyarrow.compute", "pyarrow.dataset"),
)


def rows(first: int, number: int, parts: int) -> pa.Table:
    """Return rows of consecutive numbers, in partitions ``a``."""
    ids = range(first, first + number)
    return pa.table([[each % parts for each in ids], ids, [f"row {each}" for each in ids]], schema=SCHEMA)


Work = Callable[[Path, int], Any]  # of what lies at a path, with a size


def _table(path: Path, size: int) -> None:
    for number in range(5):
        data = rows(number * 20 * size, 20 * size, 10)
        lance_df.write_dataset(data, path, mode="append", max_rows_per_file=10 * size)
    lance_df.dataset(path).create_scalar_index("b", "ZONEMAP")
    lance_df.dataset(path).delete("b % 11 = 0")


def _namespace(path: Path, size: int) -> None:
    namespace = lance_df.PartitionedNamespace.create(path, SCHEMA, [lance_df.partition.identity("a")])
    namespace.append(rows(0, 3 * size, size))
    namespace.append(rows(3 * size, 2 * size, size))
    namespace.delete("b % 11 = 0")


def _old_spec(path: Path, size: int) -> None:
    _namespace(path, size)
    namespace = lance_df.PartitionedNamespace.open(path)
    namespace.update_partition_spec([lance_df.partition.bucket("b", max(2, size // 4))])


def _merge(path: Path, size: int) -> None:
    builder = lance_df.dataset(path).merge_insert("b").when_matched_update_all()
    builder.when_not_matched_insert_all().execute(rows(90 * size, 20 * size, 10))


def _dataset(path: Path) -> lance_df.LanceDataset:
    return lance_df.dataset(path)


def _opened(path: Path) -> lance_df.PartitionedNamespace:
    return lance_df.PartitionedNamespace.open(path)


def _statements(path: Path, *statements: str) -> None:
    """Run statements in a shell; an interruption leads to the next one, so it is raised here instead."""
    from lance_df.cli.commands.shell import Shell
    from lance_df.cli.shell.session import ShellSession
    from lance_df.engine.session import connect

    lines = iter(statements)

    def read_line(_: str) -> str:
        if (line := next(lines, None)) is None:
            raise EOFError
        return line

    Shell(ShellSession(connect(path.parent)), read_line, stop_at_error=True).run()


_WIDER: Final = {"path": "s", "data_type": pa.large_string()}
_QUERY: Final = "SELECT x.a, count(*) n FROM t x JOIN t y USING (a) GROUP BY x.a ORDER BY n, x.a;"

OPERATIONS: Final[dict[str, tuple[Callable[[Path, int], None], Work]]] = {
    "append": (_table, lambda p, n: lance_df.write_dataset(rows(100 * n, 50 * n, 10), p, mode="append")),
    "overwrite": (_table, lambda p, n: lance_df.write_dataset(rows(7, 50 * n, 10), p, mode="overwrite")),
    "delete": (_table, lambda p, _n: _dataset(p).delete("b % 10 = 3")),
    "update": (_table, lambda p, _n: _dataset(p).update({"a": "7"}, where="b % 10 < 5")),
    "merge": (_table, _merge),
    "compact": (_table, lambda p, _n: _dataset(p).optimize.compact_files()),
    "cleanup": (_table, lambda p, _n: _dataset(p).cleanup_old_versions(retain_versions=1)),
    "add_columns": (_table, lambda p, _n: _dataset(p).add_columns({"c": "b + 1"})),
    "alter_columns": (
        _table,
        lambda p, _n: _dataset(p).alter_columns({"path": "s", "data_type": pa.large_string()}),
    ),
    "namespace.append": (_namespace, lambda p, n: _opened(p).append(rows(5 * n, 2 * n, n + n // 4))),
    "namespace.overwrite": (_namespace, lambda p, n: _opened(p).overwrite_partitions(rows(5 * n, n, n))),
    "namespace.delete": (_namespace, lambda p, _n: _opened(p).delete("b % 10 = 3")),
    "namespace.update": (_namespace, lambda p, _n: _opened(p).update({"a": "a + 1"}, where="b % 10 < 5")),
    "namespace.upsert": (_namespace, lambda p, n: _opened(p).upsert(rows(4 * n, 2 * n, n), "b")),
    "namespace.compact": (_namespace, lambda p, _n: _opened(p).compact()),
    "namespace.cleanup": (_namespace, lambda p, _n: _opened(p).cleanup_old_versions(retain_versions=1)),
    "namespace.add_columns": (_namespace, lambda p, _n: _opened(p).add_columns({"c": "b + 1"})),
    "namespace.repartition": (_old_spec, lambda p, _n: _opened(p).repartition()),
    "shell": (_table, lambda p, _n: _statements(p, "\\d", "\\d t", _QUERY, f"\\e {_QUERY}", _QUERY)),
    "shell.namespace": (_namespace, lambda p, _n: _statements(p, "\\d", "\\d t", _QUERY, f"\\e {_QUERY}")),
}


def content(path: Path) -> list[tuple[Any, ...]]:
    """Return the names of columns and all rows, sorted."""
    found = _opened(path).to_table() if (path / "__manifest").is_dir() else _dataset(path).to_table()
    columns = [found[name].to_pylist() for name in found.schema.names]
    return [tuple(map(str, found.schema)), *sorted(zip(*columns, strict=True))]


def problems(path: Path) -> list[str]:
    """Return what is wrong with a table or a namespace, and which files are left over."""
    found = leftovers(path)
    if (path / "__manifest").is_dir():
        report = _opened(path).verify(deep=True)
        # versions of members that nobody reads are undone by the next write
        return [*found, *(str(each) for each in report.problems if "reverts it" not in each.advice)]
    _dataset(path).validate()
    return found


def next_operation(path: Path) -> None:
    """Append a row and read it."""
    is_namespace = (path / "__manifest").is_dir()
    opened: Any = _opened(path) if is_namespace else _dataset(path)
    number = opened.count_rows()
    row = pa.Table.from_pylist([{"a": 1, "b": -1, "s": "next"}], opened.schema)
    if is_namespace:
        opened.append(row)
    else:
        opened = lance_df.write_dataset(row, path, mode="append")
    assert opened.count_rows() == number + 1
    assert opened.count_rows("b = -1") == 1


Outcome = tuple[str, Any]


class Child:
    """A forked process that does one thing after the other, and tells what came of each.

    A SIGINT matters to the first one. Each other one begins when it is asked for.
    """

    def __init__(self, *works: Callable[[], Any]) -> None:
        self._answers, told = os.pipe()
        wanted, self._requests = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._pid = os.fork()
            if not self._pid:
                os.close(self._requests)
                _run_child(works, told, wanted)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.close(told)
        os.close(wanted)
        self._stream = os.fdopen(self._answers, "rb")

    def has_answer(self, seconds: float) -> bool:
        """Whether it tells something within some seconds."""
        return bool(select.select([self._answers], [], [], max(0.0, seconds))[0])

    def answer(self) -> Outcome:
        """Return the name of the next outcome, and what was returned, or the traceback of an error."""
        if not self.has_answer(PATIENCE_SECONDS):
            os.kill(self._pid, signal.SIGABRT)  # it prints where all threads are
            return "hangs", ""
        try:
            found: Outcome = pickle.load(self._stream)
        except EOFError:
            return "dies", ""
        return found

    def ask(self) -> Outcome:
        """Let it do the next thing, and return its outcome."""
        try:
            os.write(self._requests, b" ")
        except BrokenPipeError:
            return "dies", ""
        return self.answer()

    def interrupt(self) -> None:
        """Send SIGINT."""
        os.kill(self._pid, signal.SIGINT)

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        os.close(self._requests)
        self._stream.close()
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _run_child(works: Sequence[Callable[[], Any]], told: int, wanted: int) -> NoReturn:
    faulthandler.enable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for work in works:
        with os.fdopen(os.dup(told), "wb") as stream:
            pickle.dump(_outcome(work), stream)
        if not os.read(wanted, 1):
            break
    os._exit(0)


def _outcome(work: Callable[[], Any]) -> Outcome:
    """Do something that SIGINT interrupts, and nothing later."""
    try:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            return "done", work()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except BaseException as err:  # noqa: BLE001 - whatever it is, it is the outcome
        with suppress(KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return type(err).__name__, "".join(traceback.format_exception(err))[-6000:]


def _found(work: Callable[[], Any]) -> Any:
    """Return what something gives in a process of its own."""
    child = Child(work)
    name, value = child.answer()
    child.end()
    if name != "done":
        raise AssertionError(f"{name} in a new process: {value}")
    return value


class Operation:
    """An operation, and what is to be found before and after it.

    Parameters
    ----------
    size
        Partitions of a namespace, and hundreds of rows of a table.
    """

    def __init__(self, name: str, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        make, self._work = OPERATIONS[name]
        self._first = folder / "first" / "t"
        self._first.parent.mkdir(parents=True)
        _found(partial(make, self._first, size))
        path = self._copy("done")
        began = time.monotonic()
        _found(partial(self._work, path, size))
        self.seconds = time.monotonic() - began
        self._known = [_found(partial(content, each)) for each in (self._first, path)]
        found = [_found(partial(problems, each)) for each in (self._first, path)]
        assert found == [[], []], found

    def sample(self, moments: Sequence[float]) -> tuple[str, str, float]:
        """Interrupt the operation after so many seconds each.

        Returns
        -------
        What the operation did, what does not hold, and for how many seconds it went on after a SIGINT.
        """
        path = self._copy("sample")
        before, after = self._known
        child = Child(partial(self._work, path, self._size), partial(next_operation, path))
        began = time.monotonic()
        for moment in moments:
            if child.has_answer(began + moment - time.monotonic()):
                break
            child.interrupt()
        name, text = child.answer()
        took = time.monotonic() - began - moments[0]
        try:
            if name not in ("KeyboardInterrupt", "done"):
                return name, text, took
            rows_now = _found(partial(content, path))
            if rows_now != after and (name == "done" or rows_now != before):
                return name, f"{len(rows_now)} rows, of {len(before)} or {len(after)}: {text}", took
            if found := _found(partial(problems, path)):
                return name, f"{found}: {text}", took
            if (next_one := child.ask()) != ("done", None):
                return name, f"the next operation {next_one}: {text}", took
            if found := _found(partial(problems, path)):
                return name, f"after the next operation {found}: {text}", took
        except AssertionError as err:
            return name, f"{err}: {text}", took
        finally:
            child.end()
        return name, "", took

    def _copy(self, name: str) -> Path:
        path = self._folder / name / "t"
        shutil.rmtree(path.parent, ignore_errors=True)
        shutil.copytree(self._first, path)
        return path


def moments_of(seconds: float, number: int, samples: int, presses: int, chance: random.Random) -> list[float]:
    """Return when SIGINTs are sent: the first ones of all samples are spread over the operation's time."""
    first = seconds * (number + chance.random()) / samples
    later = [first + chance.choice((0.002, 0.02, 0.1)) * chance.random() for _ in range(presses - 1)]
    return [first, *sorted(later)]


def run(options: argparse.Namespace) -> int:
    """Run the samples, print a line for each operation and what does not hold, and return the exit code."""
    chance = random.Random(options.seed)
    num_failed = 0
    for name in options.operations:
        with tempfile.TemporaryDirectory(prefix="interrupts-") as folder:
            operation = Operation(name, Path(folder), options.size)
            num_interrupted, slowest = 0, 0.0
            for number in range(options.samples):
                presses = chance.randint(1, options.presses)
                moments = moments_of(operation.seconds, number, options.samples, presses, chance)
                outcome, failure, took = operation.sample(moments)
                num_interrupted += outcome == "KeyboardInterrupt"
                slowest = max(slowest, took) if outcome != "done" else slowest
                if failure:
                    num_failed += 1
                    print(f"FAILED {name} at {moments} of {operation.seconds:.3f} s: {outcome} {failure}")
            print(
                f"{name}: {num_interrupted} of {options.samples} interrupted, "
                f"the slowest ended after {slowest:.2f} s",
                flush=True,
            )
    return min(num_failed, 1)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operations", nargs="*", metavar="NAME", choices=OPERATIONS, default=[*OPERATIONS])
    parser.add_argument("--samples", type=int, default=20, help="of each operation")
    parser.add_argument("--presses", type=int, default=3, help="SIGINTs of a sample at most")
    parser.add_argument("--size", type=int, default=300, help="partitions of a namespace")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cold", action="store_true", help="import modules in each process")
    options = parser.parse_args()
    if not options.cold:
        for name in _MODULES:
            import_module(name)
    gc.freeze()
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
