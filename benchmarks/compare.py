"""Compare two runs: python benchmarks/compare.py OLD.json NEW.json [--all]

Machines are faster and slower from one hour to the next. So what ours took is compared with what the peers
took for the same work in the same run: the last column is the new time by the old one, divided by the same
of the peers. Counts (bytes, requests) are compared as they are. A row is marked where it got worse by more
than the runs of it differ among each other, and by more than a tenth. The exit code is 1 if one is.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also when a test imports this

from measures import Measure, Results, geometric_mean, is_ours, number, table

_TOLERANCE = 0.1
_TIMES = ("s", "ns a value")


@dataclass(frozen=True, slots=True)
class Change:
    """One measure in two runs.

    ``ratio`` is new by old, ``beside_peers`` the same divided by that of the peers, ``noise`` how far runs of
    the same thing lay apart.
    """

    old: Measure
    new: Measure
    ratio: float
    beside_peers: float
    noise: float

    @property
    def is_worse(self) -> bool:
        return self.beside_peers > 1 + max(_TOLERANCE, self.noise)

    @property
    def is_better(self) -> bool:
        return self.beside_peers < 1 / (1 + max(_TOLERANCE, self.noise))


def changes(old: Results, new: Results) -> list[Change]:
    """Return what changed of ours, of all that both runs have."""
    before = {each.key: each for each in old.measures}
    pairs = [(before[each.key], each) for each in new.measures if each.key in before]
    peers: dict[tuple[str, str, str], list[tuple[Measure, Measure]]] = {}
    for one, other in pairs:
        if not is_ours(one.engine):
            peers.setdefault((one.suite, one.case, one.unit), []).append((one, other))
    found = []
    for one, other in pairs:
        if not is_ours(one.engine) or not one.best or not other.best:
            continue
        beside = peers.get((one.suite, one.case, one.unit), []) if one.unit in _TIMES else []
        drift = geometric_mean(after.best / first.best for first, after in beside) if beside else 1.0
        apart = [each.spread for pair in [(one, other), *beside] for each in pair]
        noise = max(apart) if one.unit in _TIMES else 0.0
        ratio = other.best / one.best
        found.append(Change(one, other, ratio, ratio / drift, noise))
    return found


def markdown(found: list[Change], *, all_rows: bool = False) -> str:
    """Return the table of changes: those beyond noise, or all."""
    shown = [each for each in found if all_rows or each.is_worse or each.is_better]
    rows = [
        [
            f"{each.new.suite}: {each.new.case}, {each.new.engine}",
            f"{number(each.old.best)} {each.old.unit}",
            number(each.new.best),
            f"{each.ratio:.2f}",
            f"{each.beside_peers:.2f}",
            f"{each.noise:.0%}",
            "**worse**" if each.is_worse else "better" if each.is_better else "",
        ]
        for each in shown
    ]
    head = ["work", "old", "new", "new / old", "beside peers", "noise", ""]
    return table(head, rows) if rows else "nothing changed beyond noise"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--all", action="store_true", help="show what did not change, too")
    options = parser.parse_args()
    old, new = Results.load(options.old), Results.load(options.new)
    for name in sorted({*old.versions, *new.versions}):
        if old.versions.get(name) != new.versions.get(name):
            print(f"{name}: {old.versions.get(name)} -> {new.versions.get(name)}")
    if old.machine.get("processor") != new.machine.get("processor"):
        print("The processors differ: only what stands beside peers can be compared.")
    found = changes(old, new)
    print(markdown(found, all_rows=options.all))
    return int(any(each.is_worse for each in found))


if __name__ == "__main__":
    sys.exit(main())
