"""Run all benchmarks: python benchmarks/run.py [--quick] [--suite NAME …] [--json FILE] [--svg FILE]

Suites run beside the peers that are installed, which are told, as is what is missing. Everything is
interleaved with its peers, answers are compared (a difference ends the run), and every value is kept.
`python benchmarks/compare.py OLD.json NEW.json` compares two runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # also when a test imports this

from chart import speed_chart  # noqa: E402
from data import LANCE_VERSIONS, ensure_data  # noqa: E402
from measures import Measure, Results, joined, machine  # noqa: E402
from suites.common import Settings  # noqa: E402

SUITES = (
    "queries_tpch",
    "joins",
    "take",
    "full_scan",
    "cold_start",
    "overhead",
    "fragments",
    "murmur",
    "kernels",
    "memory",
    "page_statistics",
    "remote",
)
_LIBRARIES = ("datafusion", "pylance", "duckdb", "pyarrow", "cython", "numpy", "fsspec")
_PROVIDER = """
import datafusion, lance
from importlib.metadata import version
ctx = datafusion.SessionContext()
assert hasattr(lance, "FFILanceTableProvider")
print(version("pylance"), version("datafusion"))
"""


def find_peers(peer_python: Path | None) -> tuple[dict[str, Path], dict[str, str], list[str]]:
    """Return the peers that are there, exact versions of everything, and what is missing."""
    peers: dict[str, Path] = {}
    versions: dict[str, str] = {}
    missing: list[str] = []
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            missing.append(f"{name}: not installed")
    peers |= {
        name: Path(sys.executable)
        for name, module in (("pylance", "lance"), ("duckdb", "duckdb"))
        if importlib.util.find_spec(module)
    }
    if peer_python is None:
        missing.append("pylance's DataFusion provider: no --peer-python (it needs a DataFusion of its own)")
    else:
        done = subprocess.run(
            [str(peer_python), "-c", _PROVIDER], capture_output=True, text=True, check=False
        )
        if done.returncode:
            missing.append(f"pylance's DataFusion provider: {done.stderr.strip().splitlines()[-1]}")
        else:
            peers["pylance-provider"] = peer_python
            versions["pylance's provider"] = "pylance {}, datafusion {}".format(*done.stdout.split())
    return peers, versions, missing


def run(settings: Settings, names: list[str]) -> Iterator[list[Measure]]:
    """Run suites, each in an empty folder, and tell how it goes; yield the measures of each."""
    for name in names:
        suite = importlib.import_module(f"suites.{name}")
        print(f"{suite.TITLE} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=settings.scratch) as folder:
            own = dataclasses.replace(settings, scratch=Path(folder))
            yield joined(suite.run(own))


def main() -> None:
    """Read the command line, run, print tables, and write JSON and a chart."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=HERE / ".data", help="where generated tables are kept")
    parser.add_argument("--scale", type=float, help="of TPC-H; 1, or 0.01 with --quick")
    parser.add_argument("--quick", action="store_true", help="little data, one run: whether it works")
    parser.add_argument("--rounds", type=int, help="3, or 1 with --quick")
    parser.add_argument("--runs", type=int, help="in a row, in each round; 3, or 1 with --quick")
    parser.add_argument("--suite", action="append", choices=SUITES, help="all unless given")
    parser.add_argument(
        "--version", action="append", choices=LANCE_VERSIONS, help="of files; all unless given"
    )
    parser.add_argument("--peer-python", type=Path, help="interpreter with pylance and its DataFusion")
    parser.add_argument("--json", type=Path, help="where results are written")
    parser.add_argument("--svg", type=Path, help="where the chart is written")
    options = parser.parse_args()
    scale = options.scale or (0.01 if options.quick else 1)
    versions = options.version or list(LANCE_VERSIONS)
    peers, libraries, missing = find_peers(options.peer_python)
    for reason in missing:
        print(f"left out: {reason}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings(
            home=ensure_data(options.data, scale, versions=versions),
            scratch=Path(scratch),
            quick=options.quick,
            rounds=options.rounds or (1 if options.quick else 3),
            runs=options.runs or (1 if options.quick else 3),
            peers=peers,
            versions=versions,
        )
        results = Results(machine() | {"scale factor": scale}, libraries, [], missing)
        for measures in run(settings, options.suite or list(SUITES)):
            results = dataclasses.replace(results, measures=[*results.measures, *measures])
            if options.json:  # after each suite: a run takes long, and may be stopped
                results.save(options.json)
    print(results.markdown())
    if options.svg:
        options.svg.write_text(speed_chart(list(results.ratios()), "Times as fast as …"))


if __name__ == "__main__":
    main()
