"""Delete, update and merge rows of TPC-H lineitem, with ours and with pylance in turn; print times.

``--memory`` prints instead by how much each change raises the memory of a process of its own at most.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("LANCE_LOG", "error")

import numpy as np
import pyarrow as pa
from data import LANCE_VERSIONS, ensure_data

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Change = Callable[[Any], Mapping[str, int]]

MERGED_ROWS, INSERTED_ROWS = 100_000, 10_000


def main() -> None:
    """Run the comparison: every round makes each change once with each library, on a copy of the table."""
    import lance

    logging.getLogger("lance").setLevel(logging.ERROR)
    arguments = _arguments()
    home = ensure_data(arguments.data, arguments.scale)
    for version in arguments.versions:
        table = home / version / "lineitem.lance"
        print(f"{version}: {lance.dataset(table).count_rows()} rows, best of {arguments.rounds} rounds")
        for name, change in _changes(table).items():
            if arguments.memory:
                peaks = [_peak_mib(library, name, table, arguments.target) for library in (lance_df, lance)]
                print(f"  {name}: ours {peaks[0]:.0f} MiB, pylance {peaks[1]:.0f} MiB")
                continue
            elapsed: dict[Any, list[float]] = {lance_df: [], lance: []}
            worked: dict[Any, list[float]] = {lance_df: [], lance: []}
            counts: dict[Any, Any] = {}
            for library in (*elapsed, *elapsed) * arguments.rounds:
                with _copied(table, arguments.target) as copy:
                    dataset = library.dataset(str(copy))
                    start, worked_before = time.perf_counter(), time.process_time()
                    counts[library] = dict(change(dataset))
                    elapsed[library].append(time.perf_counter() - start)
                    worked[library].append(time.process_time() - worked_before)
            if counts[lance_df] != counts[lance]:
                raise SystemExit(f"{name}: {counts[lance_df]} differs from {counts[lance]}")
            print(f"  {name} ({', '.join(f'{count} {what}' for what, count in counts[lance].items())}):")
            for what, seconds in (("elapsed", elapsed), ("of the processor", worked)):
                ours, theirs = (min(each) for each in seconds.values())
                ratio = theirs / ours
                print(f"    ours {ours:.3f} s, pylance {theirs:.3f} s {what}; {ratio:.2f} times as fast")


@contextmanager
def _copied(table: Path, target: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=target) as folder:
        yield shutil.copytree(table, Path(folder) / "lineitem.lance", copy_function=_link)


def _peak_mib(library: Any, name: str, table: Path, target: Path | None) -> float:
    """Return by how much a change raises the peak memory of a new process, which has its rows already."""
    context = multiprocessing.get_context("spawn")
    with _copied(table, target) as copy, context.Pool(1) as pool:
        return pool.apply(_raised_mib, (library.__name__, name, str(copy)))


def _raised_mib(library: str, name: str, copy: str) -> float:
    module = importlib.import_module(library)
    # the same change of a few rows first: code that is loaded once is not what is measured
    change = _changes(Path(copy))[name]
    with tempfile.TemporaryDirectory() as folder:
        few = module.write_dataset(module.dataset(copy).head(10), str(Path(folder) / "few.lance"))
        change(few)
    dataset = module.dataset(copy)
    before = _resident_mib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    change(dataset)
    return _resident_mib("VmHWM") - before


def _resident_mib(what: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def _link(source: str, target: str) -> None:
    """Share the data files, which nobody changes; copy the rest."""
    if not source.endswith(".lance"):
        shutil.copy2(source, target)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _changes(table: Path) -> dict[str, Change]:
    rows = _rows_to_merge(table)
    keys = ["l_orderkey", "l_linenumber"]
    shipped_first = "l_shipdate < date '1992-03-14'"
    return {
        "delete 1%, by range": lambda dataset: dataset.delete("l_orderkey between 3000000 and 3060000"),
        "delete 1%, by date": lambda dataset: dataset.delete(shipped_first),
        "delete 1%, computed": lambda dataset: dataset.delete("l_orderkey % 100 = 7"),
        "update 1%": lambda dataset: dataset.update({"l_tax": "l_tax / 2"}, where=shipped_first),
        f"merge {MERGED_ROWS} rows": lambda dataset: (
            dataset.merge_insert(keys).when_matched_update_all().when_not_matched_insert_all().execute(rows)
        ),
    }


def _rows_to_merge(table: Path) -> pa.Table:
    """Return rows of the table in random order, some of them with keys that it does not have."""
    import lance

    dataset = lance.dataset(table)
    rng = np.random.default_rng(0)
    rows = dataset.take(np.sort(rng.choice(dataset.count_rows(), MERGED_ROWS - INSERTED_ROWS, replace=False)))
    highest = pa.array(np.arange(INSERTED_ROWS) + 2**40)
    new = rows.slice(0, INSERTED_ROWS).set_column(0, rows.schema.field(0), highest)
    return pa.concat_tables([rows, new]).take(rng.permutation(MERGED_ROWS))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path("bench-data"), help="where generated tables are kept"
    )
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--versions", nargs="+", choices=LANCE_VERSIONS, default=LANCE_VERSIONS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--target", type=Path, help="where tables are copied to; by default a temporary folder"
    )
    parser.add_argument("--memory", action="store_true", help="measure memory, on Linux")
    return parser.parse_args()


if __name__ == "__main__":
    main()
