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
import threading
from pathlib import Path

CORPUS = Path(__file__).resolve().parent
PATHS = ("namespace", "namespaces", "left", "right", "table", "file", "arrow")  # arguments that are paths
SECONDS = 120  # that one answer may take


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
            error = answer.get("error")
            if error and error["kind"] == "not implemented":
                return None
            expected, result = step.get("expected"), answer.get("result")
            if "same_as" in step:
                other = step["same_as"]
                expected = ask(other["operation"], placed(other["arguments"], corpus, scratch)).get("result")
            if error and step.get("or_error"):
                correct = error["kind"] == "refused"
            elif "error" in step:
                correct = bool(error) and error["kind"] == step["error"]
            else:
                correct = not error and has_members(expected, result)
            if not correct:
                wanted = step.get("error") or json.dumps(expected)[:600]
                return (
                    f"step {number}, {step['operation']}: expected {wanted}, got {json.dumps(answer)[:600]}"
                )
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
    return isinstance(found, dict) and all(k in found and matches(v, found[k]) for k, v in expected.items())


def matches(expected, found):
    """Whether a value is as expected: equal, or as a pattern of README.md says."""
    if isinstance(expected, dict) and any(key.startswith("$") for key in expected):
        return all(PATTERNS[key](value, found) for key, value in expected.items())
    if isinstance(expected, dict):
        return isinstance(found, dict) and len(expected) == len(found) and has_members(expected, found)
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(matches, expected, found))
    return isinstance(expected, bool) == isinstance(found, bool) and expected == found


def contains(wanted, values, match=matches):
    """Whether each of what is wanted has a value of its own that matches it."""
    rest = list(values)
    for each in wanted:
        position = next((at for at, value in enumerate(rest) if match(each, value)), None)
        if position is None:
            return False
        del rest[position]
    return True


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
        try:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8")
        except OSError as error:
            sys.stderr.write(f"{command[0]}: the command cannot be run: {error.strerror}\n")
            sys.exit(2)
        self.number = 0

    def ask(self, operation, arguments):
        """Return the answer to one request."""
        self.number += 1
        request = {"id": self.number, "operation": operation, "arguments": arguments}
        timer = threading.Timer(SECONDS, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            sys.exit(f"the command gives no answer to {json.dumps(request)}: {error}")
        finally:
            timer.cancel()
        if answer.get("id") != self.number:
            sys.exit(f"the command answers {answer.get('id')}, expected {self.number}")
        return answer


def run(cases, ask, corpus=CORPUS, write=sys.stdout.write):
    """Run cases, print what is wrong and a summary, and return the exit code."""
    passed, skipped, failed = 0, 0, 0
    for case in cases:
        problem = check_case(case, ask, corpus)
        if problem:
            write(f"FAILED {case['id']}: {problem}\n  {case['sentence']}\n")
        elif problem is None:
            write(f"not implemented: {case['id']}\n")
        passed, skipped, failed = (
            passed + (problem == ""),
            skipped + (problem is None),
            failed + bool(problem),
        )
    write(f"{passed} passed, {failed} failed, {skipped} not implemented\n")
    return 1 if failed else 0 if passed else 2


def main():
    """Run the corpus beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose id contains this")
    parser.add_argument(
        "--letter", action="store_true", help="leave out cases of which the spec says nothing"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a command that speaks the protocol")
    options = parser.parse_args()
    if not options.command:
        parser.error("a command is needed")
    command = Command(options.command)
    return run(load_cases(only=options.only, letter=options.letter), command.ask)


if __name__ == "__main__":
    sys.exit(main())
