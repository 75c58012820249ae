"""Run pylance's own Python tests with `lance` meaning `lance_df`, and say what differs.

Usage: python -m tools.pylance_tests --tests FOLDER [--files 'test_data*.py'] [--json FILE] [--markdown FILE]

The tests come from a checkout of the public repository lancedb/lance, folder python/python/tests; none of
them is kept here. They run twice: as they are, and with `lance_df` in place of `lance`. What pylance passes
here is the measure. Tests of what lance_df refuses by design (vectors, full text, images, pylance's caches
and log) are counted apart.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

_ROOT = Path(__file__).resolve().parents[1]
# what lance_df refuses by design, by file and by what a test uses
_OUTSIDE_FILES = re.compile(
    r"test_(arrow|datagen|f16|hnsw|huggingface|indices|ivf_centroids|kmeans|log|memory_leaks|namespace_rest|s3_ddb|sampler"
    r"|tf|torch|tracing|vector|vector_index)\.py"
)
_OUTSIDE_USE = re.compile(
    r"IVF_|INVERTED|NGRAM|LABEL_LIST|nearest|full_text|MatchQuery|PhraseQuery|fts|validate_vector_index"
    r"|vec_to_table|prewarm_index|(index|metadata)_cache_size|bfloat16|[Ii]mage(Array|Type|URI)"
    r"|ShardedBatchIterator|torch|tensorflow|_datagen"
)
_ALIAS_PACKAGE = """import os
from pathlib import Path

from tools.pylance_alias import imported_names, install

install(imported_names(Path(os.environ["PYLANCE_TESTS"])))
"""
_STAND_INS_PLUGIN = """import os
from pathlib import Path

from tools.pylance_alias import add_stand_ins, imported_names

add_stand_ins(imported_names(Path(os.environ["PYLANCE_TESTS"])))
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one test; `text` is the last line of what it failed with."""

    result: str
    text: str = ""


@dataclass(frozen=True)
class Difference:
    """A test that pylance passes, and lance_df does not."""

    test: str
    result: str
    text: str
    is_outside: bool


def main() -> None:
    options = _parser().parse_args()
    tests = options.tests.resolve()
    files = sorted(path.name for path in tests.glob(options.files))
    if not files:
        sys.exit(f"{tests}: no file {options.files!r}, expected lance's python/python/tests")
    report = compare(tests, files, options.timeout, options.pylance)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    text = _markdown(report)
    if options.markdown:
        options.markdown.write_text(text, "utf-8")
    print(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tests", type=Path, required=True, help="folder python/python/tests of lance")
    parser.add_argument("--files", default="test_*.py", help="glob of files right in the folder")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds for each of the two runs")
    parser.add_argument("--pylance", type=Path, help="keep pylance's results in this file, or reuse them")
    parser.add_argument("--json", type=Path, help="write the counts and the tests that differ")
    parser.add_argument("--markdown", type=Path, help="the same as a table")
    return parser


def compare(tests: Path, files: list[str], timeout: int, kept: Path | None = None) -> dict[str, object]:
    """Return how many tests pylance passes, how many of these lance_df does, and those that differ."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "lance_df.xml")
        reference = kept or Path(folder, "pylance.xml")
        if not reference.exists():
            _run(tests, files, reference, timeout, with_alias=False)
        _run(tests, files, results, timeout, with_alias=True)
        names = {file.removesuffix(".py") for file in files}
        theirs = {
            name: outcome
            for name, outcome in _outcomes(reference)
            if name.partition("::")[0].partition(".")[0] in names
        }
        ours = dict(_outcomes(results))
    outside = {name for name in theirs if _is_outside(tests, name)}
    passed = [name for name, outcome in theirs.items() if outcome.result == "passed"]
    differences = []
    for name in passed:
        outcome = ours.get(name, Outcome("not collected"))
        if outcome.result != "passed":
            differences.append(Difference(name, outcome.result, outcome.text, name in outside))
    failed = {each.test for each in differences}
    return {
        "pylance": Counter(outcome.result for outcome in theirs.values()),
        "all": _counted(passed, failed),
        "inside": _counted([name for name in passed if name not in outside], failed),
        "differences": [asdict(each) for each in differences],
    }


def _counted(passed: list[str], failed: set[str]) -> dict[str, int]:
    return {"pylance": len(passed), "lance_df": sum(name not in failed for name in passed)}


def _run(tests: Path, files: list[str], results: Path, timeout: int, *, with_alias: bool) -> None:
    """Run tests, and write what became of them as JUnit XML."""
    with tempfile.TemporaryDirectory() as folder:
        added = Path(folder, "added")
        # by the path, so that the processes that tests start find it as well
        environment = {
            **os.environ,
            "PYLANCE_TESTS": str(tests),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(added), str(_ROOT)]),
        }
        name, text = (
            ("lance/__init__.py", _ALIAS_PACKAGE) if with_alias else ("stand_ins.py", _STAND_INS_PLUGIN)
        )
        (added / name).parent.mkdir(parents=True)
        (added / name).write_text(text, "utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={tests}"]
        command += ["-p", "no:cacheprovider", f"--junit-xml={results.resolve()}"]
        command += ["--continue-on-collection-errors", f"--basetemp={Path(folder, 'tmp')}"]
        command += [] if with_alias else ["-p", "stand_ins"]
        # the rest of a run runs twice after a test that forks
        command += sorted(files, key=lambda file: file == "test_fork.py")
        try:
            done = subprocess.run(
                command,
                cwd=tests,
                env=environment,
                timeout=timeout,
                check=False,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            sys.exit(f"the tests did not end in {timeout} s")
        if not results.exists():
            sys.exit(f"the tests ended without results:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def _outcomes(path: Path) -> Iterator[tuple[str, Outcome]]:
    for case in ET.parse(path).getroot().iter("testcase"):
        classname, name = case.get("classname") or "", case.get("name")
        test = f"{classname}::{name}" if classname else f"{name}"
        problem = next((each for each in case if each.tag in ("failure", "error", "skipped")), None)
        if problem is None:
            yield test, Outcome("passed")
        else:
            lines = (problem.get("message") or "").splitlines()
            yield test, Outcome(problem.tag, next((line for line in lines if line.strip()), "")[:200])


def _is_outside(tests: Path, name: str) -> bool:
    """Whether a test is of what lance_df refuses by design: by its file, or by what its source uses."""
    home, _, function = name.partition("::")
    path = tests / f"{home.partition('.')[0]}.py"
    if _OUTSIDE_FILES.fullmatch(path.name):
        return True
    source = _sources(path).get(function.partition("[")[0], "") if path.exists() else ""
    return _OUTSIDE_USE.search(source) is not None


_SOURCES: dict[Path, Mapping[str, str]] = {}


def _sources(path: Path) -> Mapping[str, str]:
    if path not in _SOURCES:
        text = path.read_text("utf-8")
        _SOURCES[path] = {
            node.name: ast.get_source_segment(text, node) or ""
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef)
        }
    return _SOURCES[path]


def _markdown(report: dict[str, object]) -> str:
    lines = ["| tests that pylance passes | pylance | lance_df |", "|---|---|---|"]
    for name, title in (("inside", "of what both have"), ("all", "all")):
        counts = report[name]
        assert isinstance(counts, dict)
        lines.append(f"| {title} | {counts['pylance']} | {counts['lance_df']} |")
    lines += ["", "| test | counts | what it fails with |", "|---|---|---|"]
    differences = report["differences"]
    assert isinstance(differences, list)
    for each in differences:
        text = each["text"].replace("|", "\\|")
        lines.append(f"| `{each['test']}` | {'no' if each['is_outside'] else 'yes'} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
