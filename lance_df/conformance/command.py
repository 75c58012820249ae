"""Run the conformance corpus, or answer the requests of a runner."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import lance_df
from lance_df.conformance.answers import Answers


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer requests, one JSON object on each line, until the end of the input."""
    served = Answers()
    for line in requests:
        answers.write(json.dumps(_answered(served, line)) + "\n")
        answers.flush()


def _answered(served: Answers, line: str) -> dict[str, Any]:
    number = None
    try:
        request = json.loads(line)
        number = request["id"]
        return {"id": number, **served.answer(request["operation"], dict(request["arguments"]))}
    except (ValueError, TypeError, KeyError, RecursionError) as err:
        message = f"expected an object with id, operation and arguments, got {line[:100]!r}"
        return {"id": number, "error": {"kind": "failed", "message": f"{message}: {err}"}}


def load_runner(corpus: Path) -> ModuleType:
    """Return the runner of a corpus.

    Raises
    ------
    SystemExit
        There is none.
    """
    path = corpus / "runner.py"
    spec = importlib.util.spec_from_file_location("conformance_runner", path)
    if spec is None or spec.loader is None or not path.is_file():
        sys.exit(f"{corpus}: not a corpus, runner.py does not exist; give its folder with --corpus FOLDER")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    return runner


def main() -> int:
    """Return the exit code: 1 if a case fails."""
    checkout = Path(lance_df.__file__).parents[1] / "conformance"
    parser = argparse.ArgumentParser(prog="python -m lance_df.conformance", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="answer requests on stdin")
    parser.add_argument("--corpus", type=Path, default=checkout, help="default: that of the checkout")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose id contains this")
    options = parser.parse_args()
    if options.serve:
        serve(sys.stdin, sys.stdout)
        return 0
    runner = load_runner(options.corpus)
    cases = runner.load_cases(options.corpus, options.only)
    code: int = runner.run(cases, Answers().answer, options.corpus)
    return code
