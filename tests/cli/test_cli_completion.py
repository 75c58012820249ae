"""Completion in the shell, highlighting, and completion scripts."""

import shutil
import subprocess

import pytest

import lance_df.engine.session
from lance_df import PartitionedNamespace
from lance_df.cli.shell.candidates import Candidates
from lance_df.cli.shell.highlighting import STYLES, parts_of
from lance_df.cli.shell.line_editing import is_complete
from lance_df.cli.shell.session import ShellSession


@pytest.fixture
def candidates(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("first,Second\n1,2\n")
    (tmp_path / "raw").mkdir()
    return Candidates(ShellSession(lance_df.engine.session.connect(str(root))))


@pytest.mark.parametrize(
    ("before", "start", "name"),
    [
        ("sel", "sel", "select"),
        ("SEL", "SEL", "SELECT"),
        ("SELECT * FROM tr", "tr", "trips"),
        ("SELECT ci| FROM trips", "ci", "city"),
        ("SELECT t.ci| FROM trips AS t", "ci", "city"),
        ("SELECT * FROM trips WHERE fa", "fa", "fare"),
        ("SELECT regexp_rep", "regexp_rep", "regexp_replace("),
        ("SELECT * FROM 'ro", "ro", "rows.csv"),
        ("SELECT * FROM 'ra", "ra", "raw/"),
        ("SELECT fi| FROM 'rows.csv'", "fi", "first"),
        ("SELECT se| FROM 'rows.csv'", "se", '"Second"'),
        ("\\ti", "\\ti", "\\timing"),
        ("\\d tr", "tr", "trips"),
        ("\\format nd", "nd", "ndjson"),
        ("\\explain SELECT * FROM em", "em", "empty"),
    ],
)
def test_candidates(candidates, before, start, name):
    before, _, after = before.partition("|")
    typed, names = candidates.of(before, before + after)
    assert typed == start
    assert name in names
    if name in ("trips", "city"):
        assert names == [name]


def test_members_of_namespaces_are_no_candidates_and_not_listed(tmp_path, capsys):
    import pyarrow as pa

    rows = pa.table({"id": [1, 2], "kind": ["a", "b"]})
    PartitionedNamespace.create(tmp_path / "events", rows.schema, ["kind"]).append(rows)
    (tmp_path / "deep").mkdir()
    PartitionedNamespace.create(tmp_path / "deep" / "inner", rows.schema, ["kind"]).append(rows)
    session = ShellSession(lance_df.engine.session.connect(str(tmp_path)))
    assert "events" in Candidates(session).tables()
    session.command("\\dt")
    out = capsys.readouterr().out
    assert "events$partitions" in out
    assert "inner" in out
    assert "$dataset" not in out


def test_highlighting_keeps_the_text():
    text = "SELECT 'it''s' AS \"a b\", 1.5e3 -- end\nFROM t /* open"
    parts = parts_of(text)
    assert "".join(part for _, part in parts) == text
    kinds = {part: kind for kind, part in parts}
    assert kinds["SELECT"] == kinds["FROM"] == "keyword"
    assert (kinds["'it''s'"], kinds['"a b"'], kinds["1.5e3"]) == ("string", "name", "number")
    assert kinds["-- end"] == kinds["/* open"] == "comment"
    assert {kind for kind, _ in parts} <= STYLES.keys()
    assert parts_of("\\d t")[0] == ("command", "\\d")


@pytest.mark.parametrize(
    ("text", "complete"),
    [("", True), ("\\d", True), ("SELECT 1", False), ("SELECT 1;", True), ("SELECT ';", False)],
)
def test_what_enter_runs(text, complete):
    assert is_complete(text) is complete


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_have_every_command(cli, shell):
    code, out, _ = cli("completion", shell)
    assert code == 0
    for word in ("sql", "verify", "ndjson", "storage-option"):
        assert word in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("lance-df ins", "inspect"),
        ("lance-df sql --max", "--max-rows"),
        ("lance-df sql --format nd", "ndjson"),
        ("lance-df completion f", "fish"),
    ],
)
def test_bash_completes(cli, words, completed):
    script = cli("completion", "bash")[1]
    parts = words.split()
    quoted = " ".join(f"'{part}'" for part in parts)
    ask = f'COMP_WORDS=({quoted}); COMP_CWORD={len(parts) - 1}; _lance_df; echo "${{COMPREPLY[*]}}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [completed]
