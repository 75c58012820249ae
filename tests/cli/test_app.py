"""The command `lance-df`: results, messages, formats and exit codes."""

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from new_processes import run_command

from lance_df.cli import app
from lance_df.cli.commands import shell
from lance_df.cli.shell.candidates import Candidates
from lance_df.cli.shell.line_editing import ReadlineReader, line_reader
from lance_df.cli.shell.session import ShellSession
from lance_df.cli.shell.statements import split_statements

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("sql", "shell", "explain", "inspect", "verify", "repair", "demo", "completion")

pytestmark = pytest.mark.engine


def test_sql_prints_rows_to_stdout_and_the_rest_to_stderr(cli, root):
    code, out, err = cli("sql", "SELECT id, city FROM trips WHERE id < 2 ORDER BY id", root)
    assert code == 0
    assert out.splitlines() == ["id | city", "---+-------", " 0 | NULL", " 1 | Zürich"]
    assert err.startswith("(2 rows, ")


@pytest.mark.parametrize("style", ["csv", "json", "ndjson", "markdown"])
def test_formats(cli, root, style):
    code, out, _ = cli("sql", "SELECT id, fare FROM trips WHERE id < 2 ORDER BY id", root, "--format", style)
    expected = {
        "csv": "id,fare\n0,1.50\n1,\n",
        "json": '[{"id": 0, "fare": "1.50"},\n{"id": 1, "fare": null}]\n',
        "ndjson": '{"id": 0, "fare": "1.50"}\n{"id": 1, "fare": null}\n',
        "markdown": "|   id | fare |\n| ---: | ---: |\n|    0 | 1.50 |\n|    1 | NULL |\n",
    }
    assert (code, out) == (0, expected[style])


@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [
        (">&-", 1, "lance-df: error: stdout is closed; use --output to write to a file"),
        ("2>&-", 0, ""),
        ("<&-", 0, "(1 row"),
        ("> /dev/full", 1, "lance-df: error: the output: No space left on device"),
        ("--format csv > /dev/full", 1, "lance-df: error: the output: No space left on device"),
    ],
)
def test_standard_streams_may_be_closed_or_full(root, closed, code, said):
    command = (
        f"{shlex.join([sys.executable, '-m', 'lance_df.cli', 'sql', 'SELECT 1 AS a', str(root)])} {closed}"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.returncode, done.stderr.startswith(said)) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_arrow_format(root):
    done = run_command("sql", "SELECT * FROM trips", root, "--format", "arrow", cwd=ROOT)
    assert done.returncode == 0
    assert pa.ipc.open_stream(done.stdout).read_all().num_rows == 990


def test_one_table_as_root(cli, root):
    assert cli("sql", "SELECT count(*) AS n FROM trips", root / "trips.lance")[1].split() == [
        "n",
        "---",
        "990",
    ]


def test_named_tables_and_the_current_folder(cli, root, monkeypatch):
    monkeypatch.chdir(root)
    code, out, _ = cli(
        "sql",
        "SELECT count(*) AS n FROM fahrten f JOIN trips t ON t.id = f.id",
        "--table",
        "fahrten=trips.lance",
    )
    assert (code, out.split()) == (0, ["n", "---", "990"])


def test_statements_from_a_file(cli, root, tmp_path, monkeypatch):
    file = tmp_path / "query.sql"
    file.write_text("\ufeff-- two\nSELECT 1 AS a;\nSELECT 'ü;' AS b;\n", encoding="utf-8")
    code, out, err = cli("sql", "--file", file, root, "--format", "csv")
    assert (code, out) == (0, "a\n1\nb\nü;\n")
    assert err.count("1 row") == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 3 AS c"))
    assert cli("sql", "-f", "-", root, "--format", "csv")[1] == "c\n3\n"


def test_ddl_prints_nothing(cli, root):
    code, out, _ = cli(
        "sql", "CREATE VIEW v AS SELECT id FROM trips; SELECT max(id) AS m FROM v", root, "--format", "csv"
    )
    assert (code, out) == (0, "m\n989\n")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["sql", "SELEC 1", "."], "SELEC"),
        (["sql", "SELECT nix FROM trips", "{root}"], "nix"),
        (["sql", "SELECT * FROM nix", "{root}"], "nix"),
        (["sql", " -- nothing ", "{root}"], "no SQL statement"),
        (["sql", "SELECT 1", "{root}/nowhere"], "nowhere"),
        (["sql", "-f", "{root}/nowhere.sql", "{root}"], "nowhere.sql"),
        (["explain", "SELECT * FROM nix", "{root}"], "nix"),
        (["inspect", "{root}/nowhere"], "nowhere"),
        (["inspect", "{root}/trips.lance/data"], "no Lance table"),
        (["verify", "{root}/trips.lance/data"], "no Lance table"),
        (["inspect", "{root}/trips.lance", "--version", "77"], "77"),
        (["inspect", "{root}/trips.lance", "--version", "kein-tag"], "kein-tag"),
    ],
)
def test_errors_are_one_line_and_code_1(cli, root, arguments, found):
    code, out, err = cli(*(argument.format(root=root) for argument in arguments))
    assert (code, out) == (1, "")
    [line] = err.splitlines()
    assert line.startswith("lance-df: error: ")
    assert found in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sql", "SELECT 1", "{root}", "--table", "name"], "NAME=PATH"),
        (["sql", "SELECT 1", "{root}", "--table", "a=x", "--table", "a=y"], "'a' is given twice"),
        (["sql", "SELECT 1", "{root}", "--storage-option", "secret"], "KEY=VALUE"),
        (["sql", "SELECT 1", "{root}", "-o", "rows.unknown"], ".unknown is not the suffix of a known format"),
        (["repair", "{root}", "--older-than-days", "nan"], "--older-than-days"),
        (["ingest"], "an ingest needs a target"),
        (["ingest", "t.lance"], "an ingest needs a source"),
        (["ingest", "a.csv", "t.lance", "--source", "a"], "expected --source NAME=PATH, got 'a'"),
        (["ingest", "a.csv", "t.lance", "--mode", "replace"], "mode must be one of"),
        (["ingest", "a.csv", "t.lance", "--max-rows-per-file", "0"], "max_rows_per_file must be at least 1"),
    ],
)
def test_wrong_flags_are_one_line_and_code_2(cli, root, arguments, said):
    code, out, err = cli(*(argument.format(root=root) for argument in arguments))
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith("lance-df: error: ")
    assert said in line


def test_the_working_directory_may_be_gone(cli, root, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "working directory" in cli("sql", "SELECT 1")[2]
    assert cli("sql", "SELECT 1 AS a", root, "--format", "csv")[:2] == (0, "a\n1\n")


def test_text_that_the_encoding_of_stdout_does_not_have(root):
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "lance_df.cli", "sql", "SELECT chr(233) AS a", str(root)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 1
    assert "\\xe9 cannot be written as ascii; set the environment variable PYTHONUTF8=1" in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["nix"], ["sql"], ["sql", "a", "b", "c"], ["explain"], ["sql", "x", "--format", "xml"]]
)
def test_a_wrong_command_line_is_code_2(cli, arguments):
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert "usage: lance-df" in err


def test_what_does_not_go_with_a_file_or_a_table_is_code_2(cli, root):
    file = next((root / "trips.lance" / "data").glob("*.lance"))
    for arguments, found in (
        ([root / "trips.lance", "--pages"], "--pages"),
        ([root / "trips.lance", "--limit", "-1"], "--limit"),
        ([file, "--version", "1"], "--version"),
    ):
        code, out, err = cli("inspect", *arguments)
        assert (code, out) == (2, "")
        assert f"error: {found}" in err


def test_debug_shows_the_traceback(cli, root):
    code, _, err = cli("sql", "SELECT nix FROM trips", root, "--debug")
    assert code == 1
    assert "Traceback" in err


def test_errors_that_are_no_lance_errors_say_so(cli, root, monkeypatch):
    monkeypatch.setattr("lance_df.cli.running.render", lambda *args, **kwargs: 1 / 0)
    code, _, err = cli("sql", "SELECT 1", root)
    assert code == 1
    assert err == "lance-df: error: ZeroDivisionError: division by zero (use --debug to see the traceback)\n"


def test_a_closed_pipe_ends_quietly(root):
    sql = "SELECT a.id FROM trips a CROSS JOIN trips b CROSS JOIN trips c"
    command = [sys.executable, "-m", "lance_df.cli", "sql", sql, str(root), "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout.readline() == b"id\n"
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""


def test_explain(cli, root):
    code, out, _ = cli("explain", "SELECT city FROM trips WHERE id < 100;", root)
    assert code == 0
    assert "trips" in out
    assert "1 of 3" in out


def test_version_and_help(cli):
    code, out, _ = cli("--version")
    assert code == 0
    assert out.startswith("lance-df ")
    code, out, _ = cli("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_parse(cli, command):
    code, out, _ = cli(command, "--help")
    assert code == 0
    examples = [line.strip() for line in out.split("examples:")[1].splitlines() if "lance-df" in line]
    assert examples
    for example in examples:
        words = shlex.split(example.rpartition("| ")[2])
        assert words[0] == "lance-df"
        options = app.parser().parse_args(words[1:])
        assert options.run.__module__ == f"lance_df.cli.commands.{command}"
        for text in (getattr(options, "sql", None), *getattr(options, "words", [])[:1]):
            assert text is None or split_statements(text)


class Lines:
    """What somebody types; KeyboardInterrupt stands for Ctrl-C."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.prompts = []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        if not self.lines:
            raise EOFError
        line = self.lines.pop(0)
        if line is KeyboardInterrupt:
            raise KeyboardInterrupt
        return line


@pytest.fixture
def typed(root, capsys):
    """Type lines into a shell: returns exit code, stdout, stderr, prompts."""
    import lance_df.engine.session

    def run(*lines, **options):
        reader = Lines(*lines)
        opened = ShellSession(lance_df.engine.session.connect(str(root)))
        code = shell.Shell(opened, reader, **options).run()
        said = capsys.readouterr()
        return code, said.out, said.err, reader.prompts

    return run


def test_shell_takes_statements_of_several_lines(typed):
    code, out, _, prompts = typed("SELECT count(*) AS n", "FROM trips;", "SELECT 1 AS a; SELECT 2 AS b;")
    assert code == 0
    assert out.split() == ["n", "---", "990", "a", "-", "1", "b", "-", "2"]
    assert prompts == ["lance> ", "  ...> ", "lance> ", "lance> "]


def test_shell_commands(typed):
    code, out, err, _ = typed(
        "\\d",
        "\\d trips",
        "\\e SELECT id FROM trips WHERE id < 100;",
        "\\format json",
        "SELECT 5 AS five;",
        "\\h",
        "\\q",
    )
    assert code == 0
    assert "empty" in out
    assert "city" in out
    assert "1 of 3" in out
    assert '{"five": 5}' in out
    assert "\\q" in err


def test_shell_goes_on_after_errors_and_interrupts(typed):
    code, out, err, _ = typed(
        "SELECT nix;", "\\nix", "\\format arrow", "SELECT 1", KeyboardInterrupt, "SELECT 7 AS g;"
    )
    assert code == 0
    assert [line.startswith("error: ") for line in err.splitlines()] == [True, True, True, False]
    assert out.split() == ["g", "-", "7"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("\\explain", "error: \\explain needs a query, such as \\explain SELECT 1"),
        ("\\e ;", "error: \\e needs a query, such as \\e SELECT 1"),
        ("\\format", "error: \\format needs one of table, csv, json, ndjson, markdown"),
        ("\\format xml", "error: \\format needs one of table, csv, json, ndjson, markdown, not 'xml'"),
        ("\\nix", "error: \\nix is not a command; \\? lists them"),
    ],
)
def test_shell_says_what_a_command_needs(typed, command, said):
    assert typed(command)[2].splitlines() == [said]


def test_shell_runs_what_is_left_at_the_end(typed):
    assert typed("SELECT 8 AS h")[:2] == (0, "h\n-\n8\n")


def test_shell_of_a_script_stops_at_the_first_error(typed):
    code, out, err, _ = typed("SELECT nix;", "SELECT 1;", stop_at_error=True)
    assert (code, out) == (1, "")
    assert "nix" in err


def test_shell_reads_a_pipe(cli, root, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT count(*) AS n\nFROM empty;\n\\q\nSELECT nix;"))
    code, out, _ = cli("shell", root)
    assert (code, out.split()) == (0, ["n", "-", "0"])


def test_shell_says_what_of_a_pipe_is_no_text(cli, root, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT '\xff';\n"), encoding="utf-8"))
    code, out, err = cli("shell", root)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "lance-df: error: stdin: not valid UTF-8 text (byte 8)"


def test_shell_history_without_prompt_toolkit(root, tmp_path, monkeypatch):
    import lance_df.engine.session

    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    registered = []
    monkeypatch.setattr("atexit.register", lambda *call: registered.append(call))
    candidates = Candidates(ShellSession(lance_df.engine.session.connect(str(root))))
    history = tmp_path / "history"
    read_line = line_reader(history, candidates)
    assert isinstance(read_line, ReadlineReader)
    lines = iter(["SELECT 1", "AS a;"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    assert [read_line("lance> "), read_line("  ...> ")] == ["SELECT 1", "AS a;"]
    [(write, path)] = registered
    write(path)
    assert "SELECT 1 AS a;" in history.read_text()


def test_inspect_table(cli, root):
    code, out, _ = cli("inspect", root / "trips.lance")
    assert code == 0
    for part in ("versions", "columns", "fragments", "indices", "zonemap", "990", "mini-block"):
        assert part in out


def test_inspect_json(cli, root):
    code, out, _ = cli("inspect", root / "trips.lance", "--format", "json", "--limit", "2")
    report = json.loads(out)
    assert code == 0
    assert report["table"][0]["rows"] == 990
    assert [row["version"] for row in report["versions"]] == [3, 2]
    assert [row["rows"] for row in report["fragments"]] == [400, 400]
    assert [row["column"] for row in report["columns"]] == ["id", "city", "fare", "at"]
    assert [(row["columns"], row["fragments"]) for row in report["indices"]] == [("id", 3)]
    [bounds] = report["statistics"]
    assert (bounds["column"], bounds["zones"], bounds["min"], bounds["max"]) == ("id", 3, "0", "989")


def test_inspect_older_version_and_deletions(cli, root):
    def fragments(*options):
        return json.loads(cli("inspect", root / "trips.lance", "--format", "json", *options)[1])["fragments"]

    assert sum(row["deleted"] for row in fragments("--version", "1")) == 0
    assert sum(row["deleted"] for row in fragments()) == 10


def test_inspect_says_what_it_leaves_out(cli, root):
    out = cli("inspect", root / "trips.lance", "--limit", "1")[1]
    assert "… and 2 more" in out


def test_inspect_an_empty_table(cli, root):
    code, out, _ = cli("inspect", root / "empty.lance")
    assert code == 0
    assert "rows         0" in out


def test_inspect_a_file(cli, root):
    file = next((root / "trips.lance" / "data").glob("*.lance"))
    code, out, _ = cli("inspect", file, "--pages", "--format", "json")
    report = json.loads(out)
    assert code == 0
    assert report["file"][0]["bytes"] == file.stat().st_size
    assert sum(row["bytes"] for row in report["pages"]) <= file.stat().st_size
    assert {row["column"] for row in report["pages"]} == {"id", "city", "fare", "at"}


def test_inspect_a_damaged_file(cli, root, tmp_path):
    file = tmp_path / "x.lance"
    file.write_bytes(next((root / "trips.lance" / "data").glob("*.lance")).read_bytes()[:-100])
    code, _, err = cli("inspect", file)
    assert code == 1
    assert "x.lance" in err
