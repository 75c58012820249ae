"""Runs the cases of this corpus against a command that speaks the protocol of README.md.

Usage: python runner.py [--only TEXT] [--letter] COMMAND [ARGUMENT ...]

Needs Python 3.9 or later and nothing else. The exit code is 1 if a case fails, 2 if there is none to run.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).resolve().parent
PATHS = ("namespace", "namespaces", "left", "right", "table", "file", "arrow")  # arguments that are paths


def load_cases(corpus=CORPUS, only="", letter=False):
    """Return the cases with a text in their ids; ``letter``: only those of what the specification says."""
    topics = [(path.stem, json.loads(path.read_text("utf-8"))) for path in Path(corpus).glob("cases/*.json")]
    cases = [{**case, "id": f"{topic}/{case['id']}"} for topic, listed in sorted(topics) for case in listed]
    return [case for case in cases if only in case["id"] and not (letter and case.get("spec") == "silent")]


def check_case(case, ask, corpus=CORPUS):
    """Return what is wrong with the answers to a case: "" if nothing, None if an operation is not there."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, source in case.get("copies", {}).items():
            shutil.copytree(Path(corpus, source), Path(scratch, name))
        for number, step in enumerate(case.get("steps", [case]), 1):
            answer = ask(step["operation"], placed(step["arguments"], corpus, scratch))
            error, expected = answer.get("error"), step.get("expected")
            kind = error.get("kind", "none") if isinstance(error, dict) else error and "not an object"
            if kind == "not implemented":
                return None
            if "same_as" in step:
                same = step["same_as"]
                expected = ask(same["operation"], placed(same["arguments"], corpus, scratch)).get("result")
            wanted = step.get("error") or ("refused" if step.get("or_error") and kind else None)
            if kind != wanted or not (wanted or matches({"$has": expected}, answer.get("result"))):
                texts = [json.dumps(each)[:600] for each in (step.get("error") or expected, answer)]
                return f"step {number}, {step['operation']}: expected {texts[0]}, got {texts[1]}"
    return ""


def placed(arguments, corpus, scratch):
    """Return arguments with absolute paths: what begins with scratch/ is in a folder of the case."""

    def absolute(path):
        if isinstance(path, dict):
            return {name: absolute(each) for name, each in path.items()}
        first, _, rest = path.partition("/")
        return str(Path(scratch, rest) if first == "scratch" else Path(corpus, path))

    return {name: absolute(value) if name in PATHS else value for name, value in arguments.items()}


def has_members(expected, found):
    """Whether an object has these members, and perhaps others."""
    objects = isinstance(expected, dict) and isinstance(found, dict)
    return objects and all(name in found and matches(each, found[name]) for name, each in expected.items())


def matches(expected, found):
    """Whether a value is as expected: equal, or as a pattern of README.md says."""
    if isinstance(expected, dict) and any(key.startswith("$") for key in expected):
        is_list = isinstance(found, list)
        return all((is_list or key in PLAIN) and PATTERNS[key](each, found) for key, each in expected.items())
    if isinstance(expected, dict):
        return has_members(expected, found) and len(expected) == len(found)
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(matches, expected, found))
    return isinstance(expected, bool) == isinstance(found, bool) and expected == found


def contains(wanted, values, match=matches):
    """Whether each of what is wanted has a value of its own that matches it."""
    for each in wanted:
        position = next((at for at, value in enumerate(values) if match(each, value)), None)
        if position is None:
            return False
        values = values[:position] + values[position + 1 :]
    return True


PLAIN = ("$any_of", "$text", "$has")  # the other patterns are of arrays
PATTERNS = {
    "$any_of": lambda choices, found: any(matches(choice, found) for choice in choices),
    "$text": lambda pattern, found: isinstance(found, str) and bool(re.fullmatch(pattern, found)),
    "$has": has_members,
    "$each": lambda expected, found: all(matches(expected, each) for each in found),
    "$distinct": lambda number, found: len({json.dumps(each, sort_keys=True) for each in found}) == number,
    "$unordered": lambda expected, found: len(expected) == len(found) and contains(expected, found),
    "$at_least": contains,
    "$at_most": lambda expected, found: contains(found, expected, lambda value, each: matches(each, value)),
}


class Command:
    """A command that answers requests, one line of JSON each."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8")
        self.number = 0

    def ask(self, operation, arguments):
        """Return the answer to one request."""
        self.number += 1
        request = json.dumps({"id": self.number, "operation": operation, "arguments": arguments})
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            sys.exit(f"the command gives no answer to {request}: {error}")
        if not isinstance(answer, dict) or answer.get("id") != self.number:
            sys.exit(f"expected an object with id {self.number}, got {json.dumps(answer)[:600]}")
        return answer


def run(cases, ask, corpus=CORPUS, write=sys.stdout.write):
    """Run cases, print what is wrong and a summary, and return the exit code."""
    problems = []
    for case in cases:
        problems.append(check_case(case, ask, corpus))
        if problems[-1]:
            write(f"FAILED {case['id']}: {problems[-1]}\n  {case['sentence']}\n")
        elif problems[-1] is None:
            write(f"not implemented: {case['id']}\n")
    passed, skipped = problems.count(""), problems.count(None)
    failed = len(problems) - passed - skipped
    write(f"{passed} passed, {failed} failed, {skipped} not implemented\n")
    return 1 if failed else 0 if passed else 2


def main():
    """Run the corpus beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose id contains this")
    parser.add_argument("--letter", action="store_true", help="only cases of what the specification says")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a command that speaks the protocol")
    options = parser.parse_args()
    if not options.command or not shutil.which(options.command[0]):
        parser.error("give a command that can be run")
    return run(load_cases(only=options.only, letter=options.letter), Command(options.command).ask)


if __name__ == "__main__":
    sys.exit(main())
