"""What a run measured: one shape for all suites, as JSON and as Markdown."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OURS = "ours"


@dataclass(frozen=True, slots=True)
class Measure:
    """What one engine took for one piece of work; less is better, in every unit.

    Attributes
    ----------
    suite, case
        What was done: the suite, and which of its pieces.
    engine
        Who did it: ``"ours"``, ``"pylance"``, ``"parquet"`` …, followed by ``-2.0`` and so on where it is
        measured on several versions of the format.
    unit
        Of ``values``: ``"s"``, ``"ns a value"``, ``"bytes"``, ``"requests"`` …
    values
        Of every run, in their order.
    """

    suite: str
    case: str
    engine: str
    unit: str
    values: tuple[float, ...]

    @property
    def best(self) -> float:
        """The least, which disturbances of the machine change least."""
        return min(self.values)

    @property
    def spread(self) -> float:
        """How much more than the least the middle run took: 0.1 for a tenth."""
        return statistics.median(self.values) / self.best - 1 if self.best else 0.0

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.suite, self.case, self.engine, self.unit)


@dataclass(frozen=True, slots=True)
class Results:
    """A run of some suites. ``missing`` names what was left out, and why."""

    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    measures: Sequence[Measure] = field(default_factory=list)
    missing: Sequence[str] = ()

    def save(self, path: Path) -> None:
        """Write JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what `save` wrote."""
        stored = json.loads(path.read_text())
        measures = [Measure(**{**each, "values": tuple(each["values"])}) for each in stored["measures"]]
        return cls(stored["machine"], stored["versions"], measures, tuple(stored["missing"]))

    def suites(self) -> dict[str, list[Measure]]:
        """Return the measures of each suite, in the order of the run."""
        found: dict[str, list[Measure]] = {}
        for measure in self.measures:
            found.setdefault(measure.suite, []).append(measure)
        return found

    def markdown(self) -> str:
        """Return tables: the machine, one for each suite and unit, and the ratios."""
        facts = {**self.machine, **self.versions}
        parts = ["  \n".join(f"{name}: {value}" for name, value in facts.items())]
        parts += [f"Left out: {reason}" for reason in self.missing]
        for suite, measures in self.suites().items():
            parts.append(f"## {suite}")
            parts += [suite_table(measures, unit) for unit in dict.fromkeys(each.unit for each in measures)]
        if ratios := list(self.ratios()):
            rows = [[each.suite, each.engine, each.peer, f"{each.times:.2f}"] for each in ratios]
            parts += ["## Geometric means", table(["suite", "", "beside", "times as fast"], rows)]
        return "\n\n".join(parts)

    def ratios(self) -> Iterator[Ratio]:
        """Yield how many times as fast as each peer ours is in each suite: geometric means over its cases."""
        for suite, measures in self.suites().items():
            best = {(each.engine, each.case): each.best for each in measures if each.unit == "s"}
            engines = list(dict.fromkeys(engine for engine, _ in best))
            for own in (engine for engine in engines if is_ours(engine)):
                for peer in (engine for engine in engines if _is_peer(engine, own)):
                    cases = [case for engine, case in best if engine == own and (peer, case) in best]
                    if cases:
                        factors = [best[peer, case] / best[own, case] for case in cases]
                        yield Ratio(suite, own, peer, geometric_mean(factors))


@dataclass(frozen=True, slots=True)
class Ratio:
    """In ``suite``, ``engine`` is ``times`` as fast as ``peer``."""

    suite: str
    engine: str
    peer: str
    times: float


def is_ours(engine: str) -> bool:
    return engine.partition("-")[0] == OURS


def _is_peer(engine: str, own: str) -> bool:
    version, other = own.partition("-")[2], engine.partition("-")[2]
    return not is_ours(engine) and (not other or not version or version == other)


def geometric_mean(factors: Iterable[float]) -> float:
    logarithms = [math.log(factor) for factor in factors]
    return math.exp(sum(logarithms) / len(logarithms))


def suite_table(measures: Sequence[Measure], unit: str) -> str:
    """Return the table of one suite's measures in one unit: a row an engine, a column a case."""
    shown = [each for each in measures if each.unit == unit]
    cases = list(dict.fromkeys(each.case for each in shown))
    cells = {(each.engine, each.case): each.best for each in shown}
    rows = [
        [engine, *(number(cells[engine, case]) if (engine, case) in cells else "" for case in cases)]
        for engine in dict.fromkeys(each.engine for each in shown)
    ]
    return table([f"{unit}, least", *cases], rows)


def joined(measures: Iterable[Measure]) -> list[Measure]:
    """Return one measure for all values of the same thing."""
    values: dict[tuple[str, str, str, str], tuple[float, ...]] = {}
    for each in measures:
        values[each.key] = (*values.get(each.key, ()), *each.values)
    return [Measure(*key, found) for key, found in values.items()]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def number(value: float) -> str:
    """Return a number with three digits that count."""
    if value and abs(value) < 100:
        return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:,.0f}"


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )
