"""The corpus for implementers: lance_df passes it, wrong answers do not, and pylance reads what is in it."""

from __future__ import annotations

import copy
import fnmatch
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import lance.file
import pyarrow as pa
import pytest

from lance_df.conformance.answers import Answers
from lance_df.conformance.command import load_runner
from lance_df.conformance.values import from_table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "conformance"
SERVE = [sys.executable, "-m", "lance_df.conformance", "--serve"]
MAX_BYTES = 3_000_000

runner = load_runner(CORPUS)
CASES = {case["id"]: case for case in runner.load_cases()}
TOPICS = sorted({name.partition("/")[0] for name in CASES})


def steps(case: dict[str, Any]) -> list[dict[str, Any]]:
    return case.get("steps", [case])


@dataclass
class Answered:
    """What a command answered to the cases of a topic, in order."""

    cases: dict[str, dict[str, Any]]
    problems: dict[str, str | None]
    answers: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def command() -> Iterator[Any]:
    served = runner.Command(SERVE)
    yield served
    served.process.communicate()


@pytest.fixture(scope="module", params=TOPICS)
def answered(request: pytest.FixtureRequest, command: Any) -> Answered:
    """Cases of a topic that lance_df has answered."""
    cases = {name: case for name, case in CASES.items() if name.startswith(f"{request.param}/")}
    made = Answered(cases, {}, {})
    for name, case in cases.items():
        answers = made.answers[name] = []

        def ask(operation: str, arguments: dict[str, Any], answers: list[Any] = answers) -> dict[str, Any]:
            answers.append(command.ask(operation, arguments))
            return answers[-1]

        made.problems[name] = runner.check_case(case, ask)
    return made


@pytest.mark.engine
def test_lance_df_passes(answered: Answered) -> None:
    assert {name: problem for name, problem in answered.problems.items() if problem != ""} == {}


def test_every_topic_of_the_specification_has_cases() -> None:
    topics = "evolution expressions files hashes joins manifests names properties pruning specs transactions"
    assert [*topics.split(), "transforms"] == TOPICS
    assert len(CASES) > 900


def test_cases_have_what_the_readme_says() -> None:
    for name, case in CASES.items():
        assert re.fullmatch(r"[a-z]+/[\w./]+", name), name
        assert case["sentence"], name
        assert ("spec" in case) == ("choice" in case), name
        assert case.get("spec", "silent") == "silent", name
        for step in steps(case):
            assert len({"expected", "error", "same_as"} & step.keys()) == 1, name
            assert set(step["arguments"]), name


def test_every_operation_of_the_cases_is_in_the_readme_and_the_other_way_round() -> None:
    used = {step["operation"] for case in CASES.values() for step in steps(case)} | {"read_arrow"}
    readme = (CORPUS / "README.md").read_text("utf-8")
    operations = readme.partition("### Operations")[2].partition("###")[0]
    table = re.findall(r"^\| `(\w+)` \|", operations, re.MULTILINE)
    assert used == set(table)
    assert used == {name.removeprefix("op_") for name in dir(Answers) if name.startswith("op_")}
    patterns = set(re.findall(r"^\| `(\$\w+)` \|", readme, re.MULTILINE))
    assert patterns == set(runner.PATTERNS)


def test_it_is_small() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < MAX_BYTES


def other(value: Any) -> Any:
    """Return an expectation of something else."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "!x"  # of a pattern as well
        case [first, *rest]:
            return [other(first), *rest]
        case {"$at_least": wanted, "$at_most": most}:
            return (
                {"$at_least": other(wanted), "$at_most": most} if wanted else {"$at_least": [{"$text": "x"}]}
            )
        case {"$each": each}:
            return {"$each": other(each)}
        case {"$any_of": choices}:
            return {"$any_of": [other(choice) for choice in choices]}
        case {"$has": members}:
            return {"$has": {**members, **(other(members) if members else {"missing": 0})}}
        case dict() if value:
            key = next(iter(value))
            return {**value, key: other(value[key])}
        case _:
            return "something else"


def without_tables(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case for answers that are there already, which need no copies of tables."""
    return {**case, "copies": {}}


def test_a_wrong_answer_fails(answered: Answered) -> None:
    """What is expected is changed in the last step that expects anything: no case may pass then."""
    unseen = []
    for name, case in answered.cases.items():
        if name.startswith("files/"):
            continue
        again = iter(answered.answers[name])
        assert runner.check_case(without_tables(case), lambda *_, answers=again: next(answers)) == ""
        changed = copy.deepcopy(without_tables(case))
        expecting = [step for step in steps(changed) if step.get("expected")]
        failing = [step for step in steps(changed) if "error" in step]
        if failing:
            failing[-1]["expected"] = {}
            del failing[-1]["error"]
        else:
            expecting[-1]["expected"] = other(expecting[-1]["expected"])
        answers = iter(answered.answers[name])
        if not runner.check_case(changed, lambda *_, answers=answers: next(answers)):
            unseen.append(name)
    assert unseen == []


@pytest.mark.parametrize("name", ["files/2.1/type_int32", "files/0.1/type_utf8", "files/2.2/type_map_nulls"])
def test_other_rows_types_or_names_in_a_file_fail(name: str) -> None:
    answers = Answers()
    assert runner.check_case(CASES[name], answers.answer) == ""
    for change in ({"name": "d"}, {"type": {"type": "int8"}}, {"nullable": False}, {"values": []}):

        def ask(operation: str, arguments: dict[str, Any], change: dict[str, Any] = change) -> dict[str, Any]:
            answer = answers.answer(operation, arguments)
            if operation == "read_file":
                answer["result"]["columns"][0] |= change
            return answer

        assert "read_file: expected" in runner.check_case(CASES[name], ask)


def run(command: list[str], *options: str, corpus: Path = CORPUS) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(corpus / "runner.py"), *options, *command],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_runner_runs_a_command() -> None:
    """All cases run in a command above."""
    names = [name for name in CASES if "manifests/" in name]
    assert len(names) > 9
    code, output = run(SERVE, "--only", "manifests/")
    assert output == f"{len(names)} passed, 0 failed, 0 not implemented\n"
    assert code == 0


def test_the_runner_says_that_a_command_cannot_be_run() -> None:
    code, output = run(["/no/such"])
    assert code == 2
    assert output.endswith("give a command that can be run\n")


def test_the_runner_is_short() -> None:
    """Somebody who implements the specification can read it all, or write it again in another language."""
    text = (CORPUS / "runner.py").read_text("utf-8")
    code = re.sub(r'""".*?"""', "", text, flags=re.DOTALL).splitlines()
    assert len([line for line in code if line.strip()]) <= 110


def test_the_runner_leaves_out_what_the_specification_does_not_say() -> None:
    expected = [case for name, case in CASES.items() if "hashes/" in name and "spec" not in case]
    assert 0 < len(expected) < len([name for name in CASES if "hashes/" in name])
    assert run(SERVE, "--letter", "--only", "hashes/") == (
        0,
        f"{len(expected)} passed, 0 failed, 0 not implemented\n",
    )


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of two cases, of which one is wrong."""
    (tmp_path / "cases").mkdir()
    (tmp_path / "runner.py").write_bytes((CORPUS / "runner.py").read_bytes())
    cases = list(json.loads((CORPUS / "cases" / "hashes.json").read_text("utf-8"))[:2])
    cases[1]["expected"]["values"][0] += 1
    (tmp_path / "cases" / "hashes.json").write_text(json.dumps(cases), "utf-8")
    return tmp_path


def test_the_runner_fails_with_a_wrong_answer(corpus: Path) -> None:
    code, output = run(SERVE, corpus=corpus)
    assert code == 1
    assert "FAILED hashes/int16: step 1, hash: expected" in output
    assert output.endswith("1 passed, 1 failed, 0 not implemented\n")
    assert run(SERVE, "--only", "int8", corpus=corpus)[0] == 0


def test_the_module_runs_a_corpus(corpus: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lance_df.conformance", "--corpus"]
    done = subprocess.run(
        [*command, str(corpus)], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 passed, 1 failed, 0 not implemented")
    done = subprocess.run(
        [*command, str(tmp_path / "none")], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120
    )
    assert done.returncode == 1
    assert "give its folder with --corpus FOLDER" in done.stderr


COMMANDS = {
    "implements nothing": (
        "answer = {'id': request['id'], 'error': {'kind': 'not implemented', 'message': ''}}",
        2,
        "0 passed, 0 failed, 2 not implemented",
    ),
    "answers another request": ("answer = {'id': 0, 'result': {}}", 1, "expected an object with id 1"),
    "answers with an array": ("answer = [request['id']]", 1, "expected an object with id 1"),
    "writes no JSON": ("print('hello', flush=True)", 1, "gives no answer"),
    "ends": ("break", 1, "gives no answer"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_do_not_answer(corpus: Path, name: str) -> None:
    body, code, message = COMMANDS[name]
    program = "\n".join(
        [
            "import json, sys",
            "for line in sys.stdin:",
            "    request, answer = json.loads(line), None",
            f"    {body}",
            "    print(json.dumps(answer), flush=True)",
        ]
    )
    found, output = run([sys.executable, "-c", program], corpus=corpus)
    assert found == code
    assert message in output


def test_a_defect_is_an_answer() -> None:
    answer = Answers().answer("hash", {"function": "sha1", "columns": []})
    assert answer["error"]["kind"] == "failed"
    assert Answers().answer("no_such_operation", {})["error"]["kind"] == "not implemented"


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_pylance_reads_the_same_of_files(version: str) -> None:
    paths = sorted(CORPUS.glob(f"files/{version}/*.lance"))
    assert len(paths) > 100
    for path in paths:
        case = CASES[f"files/{version}/{path.stem}"]
        with pa.OSFile(str(CORPUS / case["same_as"]["arguments"]["arrow"])) as source:
            expected = pa.ipc.open_file(source).read_all()
        read = lance.file.LanceFileReader(str(path)).read_all().to_table()
        assert read.schema.equals(expected.schema), path
        assert from_table(read) == from_table(expected), path


def test_pylance_reads_no_rows_of_what_is_damaged() -> None:
    paths = sorted(CORPUS.glob("files/damaged/2.*/*.lance"))
    assert len(paths) == 40
    ending = [path for path in paths if path.match("2.0/page_dictionary.*") or path.match("2.0/page_list.*")]
    for path in ending:  # an abort, which no test survives
        code = "import sys, lance.file; lance.file.LanceFileReader(sys.argv[1]).read_all().to_table()"
        assert subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False).returncode
    for path in {*paths}.difference(ending):
        with pytest.raises(BaseException, match=r"."):  # it panics where a position is behind the file
            lance.file.LanceFileReader(str(path)).read_all().to_table()


def test_pylance_reads_all_tables() -> None:
    manifests = sorted(CORPUS.glob("namespaces/**/__manifest"))
    assert len(manifests) > 30
    tables = [path.parent for path in CORPUS.glob("namespaces/**/_versions") if "tree" not in path.parts]
    for path in tables:
        table = lance.dataset(path)
        table.validate()
        assert table.to_table().num_rows == table.count_rows()


def test_single_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    if lance.__version__ != "14.0.2":
        pytest.skip(f"the files were written by pylance 14.0.2, not {lance.__version__}")
    done = subprocess.run(
        [sys.executable, "-m", "tools.conformance_corpus", "--files", str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = {
        path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    }
    assert len(written) > 500
    kept = [*CORPUS.glob("files/**/*.*"), CORPUS / "cases" / "files.json"]
    assert {path.relative_to(CORPUS) for path in kept if path.is_file()} == written.keys()
    different = [path for path, content in written.items() if (CORPUS / path).read_bytes() != content]
    # pylance writes two members of a field's metadata in any order, and chooses symbols of FSST by chance
    assert len(different) < 40
    for path in different:
        assert path.suffix == ".lance"
        if "damaged" in path.parts:
            continue
        read = [
            lance.file.LanceFileReader(str(root / path)).read_all().to_table() for root in (CORPUS, tmp_path)
        ]
        assert read[0].equals(read[1]), path


def test_every_encoding_is_in_a_file() -> None:
    listed = {
        (name.split("/")[1], encoding)
        for name, case in CASES.items()
        for encoding in case.get("encodings", ())
    }
    texts = {version: " ".join(text for one, text in listed if one == version) for version, _ in listed}
    assert set(texts["0.1"].split()) == {"plain", "var-binary", "dictionary"}
    wanted = {
        "2.0": (
            *("no-nulls", "some-nulls", "all-nulls", "flat(1)", "binary", "dictionary", "list-offsets"),
            *("fixed-size-list", "packed-struct", "struct-header", "zstd", "lz4"),
        ),
        "2.1": (
            *("mini-block", "full-zip", "constant", "blob", "inline-bitpacking", "rle", "byte-stream-split"),
            *("fsst(variable(32))", "fsst(variable(64))", "general(zstd, flat", "general(lz4, flat"),
            *("full-zip(general(zstd", "dictionary of", "fixed-size-list", "packed-struct"),
            *("levels of out-of-line-bitpacking", "byte-stream-split(flat(32))"),
        ),
        "2.2": (
            *("mini-block", "full-zip", "constant", "inline-bitpacking", "rle", "byte-stream-split", "fsst"),
            *("dictionary of general(lz4", "variable-packed-struct", "general(zstd, variable(64))"),
            *("levels of out-of-line-bitpacking", "levels of rle", "byte-stream-split(flat(32))", "blob"),
        ),
    }
    for version, parts in wanted.items():
        assert [part for part in parts if part not in texts[version]] == []


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_pages_of_each_layout_are_damaged(version: str) -> None:
    damaged = {name.partition("damaged_page_")[2] for name in CASES if name.startswith(f"files/{version}/")}
    wanted = {
        "0.1": {"plain", "var_binary", "dictionary", "list"},
        "2.0": {"binary", "dictionary", "list", "zstd", "blob"},
        "2.1": {"mini_block", "full_zip", "constant_levels", "blob"},
        "2.2": {"mini_block", "full_zip", "constant", "constant_levels", "blob"},
    }
    assert wanted[version] <= damaged


def test_the_notes_on_the_specification_name_cases() -> None:
    """Every pattern of the notes names a case, and every choice of a case is in a note."""
    text = (ROOT / "docs" / "spec-notes.md").read_text("utf-8")
    notes = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    patterns = []
    for number, note in enumerate(notes, 1):
        assert note.startswith(f"{number}. ")
        assert re.search(r"^> ", note, re.MULTILINE), note
        assert "- **lance_df:** " in note, note
        assert "- **Proposed:** " in note, note
        listed = note.partition("- **Cases:**")[2]
        assert listed, note
        patterns += re.findall(r"`([a-z]+/[^`]+)`", listed)
    assert len(notes) > 40
    assert [pattern for pattern in patterns if not fnmatch.filter(CASES, pattern)] == []
    chosen = [name for name, case in CASES.items() if "choice" in case]
    assert [name for name in chosen if not any(fnmatch.fnmatch(name, each) for each in patterns)] == []


def specification() -> str:
    """Return the texts that cases and notes quote, in one line each."""
    folder = os.environ.get("LANCE_DF_SPECIFICATIONS")
    if folder is None:
        pytest.skip("LANCE_DF_SPECIFICATIONS does not name a folder with the texts of the specifications")
    return "\n".join(" ".join(path.read_text("utf-8").split()) for path in sorted(Path(folder).glob("*.txt")))


def test_sentences_of_cases_are_in_the_specification() -> None:
    texts = specification()
    sentences = {case["sentence"] for name, case in CASES.items() if not name.startswith("files/")}
    assert [each for each in sorted(sentences) if " ".join(each.split()) not in texts] == []


def test_quotes_of_the_notes_are_in_the_specification() -> None:
    texts = specification()
    notes = (ROOT / "docs" / "spec-notes.md").read_text("utf-8")
    quotes = [quote.replace("\n> ", " ")[2:] for quote in re.findall(r"(?m)(?:^> .*\n)+", notes)]
    assert len(quotes) > 40
    # a less-than sign is escaped, or Markdown takes it for a tag
    assert [quote for quote in quotes if " ".join(quote.replace("\\<", "<").split()) not in texts] == []


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"partitions": None, "rows": None}},
        {"result": {"partitions": {}, "rows": {}}},
        {"result": ""},
        {"result": []},
        {"error": "refused"},
        {"error": ["refused"]},
        {"error": {}},
        {},
    ],
    ids=str,
)
def test_malformed_answers_are_failures(answer: dict[str, Any]) -> None:
    for name, case in CASES.items():
        # files are compared with another answer of the same command
        if not any("same_as" in step for step in steps(case)):
            assert runner.check_case(without_tables(case), lambda operation, arguments: answer), name


def test_requests_that_are_no_requests_are_answered() -> None:
    lines = ["", "{", "[]", '{"id": 4}', '{"id": 5, "operation": "hash", "arguments": 1}', "[" * 99_999]
    served = subprocess.run(SERVE, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in served.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [None, None, None, 4, 5, None]
    assert {answer["error"]["kind"] for answer in answers} == {"failed"}
