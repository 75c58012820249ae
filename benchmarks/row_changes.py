"""Delete, update and merge rows of TPC-H lineitem, with ours and with pylance in turn; print times."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("LANCE_LOG", "error")

import numpy as np
import pyarrow as pa
from data import LANCE_VERSIONS, ensure_data

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
            best: dict[Any, float] = {lance_df: float("inf"), lance: float("inf")}
            counts: dict[Any, Any] = {}
            for library in (*best, *best) * arguments.rounds:
                with tempfile.TemporaryDirectory(dir=arguments.target) as folder:
                    copy = shutil.copytree(table, Path(folder) / "lineitem.lance", copy_function=_link)
                    dataset = library.dataset(str(copy))
                    start = time.perf_counter()
                    counts[library] = dict(change(dataset))
                    best[library] = min(best[library], time.perf_counter() - start)
            if counts[lance_df] != counts[lance]:
                raise SystemExit(f"{name}: {counts[lance_df]} differs from {counts[lance]}")
            ours, theirs = best.values()
            print(
                f"  {name}: ours {ours:.3f} s, pylance {theirs:.3f} s; {theirs / ours:.2f} times as fast "
                f"({', '.join(f'{count} {what}' for what, count in counts[lance].items())})"
            )


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
    return parser.parse_args()


if __name__ == "__main__":
    main()
