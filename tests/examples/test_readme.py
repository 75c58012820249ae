"""What the README says is run: Python, commands, and their output."""

import re
import shlex
from pathlib import Path

import pytest

from lance_df.cli import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)

SET_UP = {
    "python3 -m venv .venv && .venv/bin/pip install -q --no-compile '.[demo]' && .venv/bin/lance-df demo\n",
    "python3 tools/test.py\n",
    "pip install .\n",
}


@pytest.mark.engine
def test_code_and_commands_give_the_output_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    compared = 0
    for (language, code), (next_language, output) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
        if language == "python":
            exec(compile(code, "README.md", "exec"), namespace)
        elif language == "sh" and code not in SET_UP:
            command, *arguments = shlex.split(code)
            assert command == "lance-df"
            assert main(arguments) == 0
        if next_language == "text":
            assert capsys.readouterr().out == output
            compared += 1
    assert compared >= 3


def test_set_up_takes_the_two_commands():
    assert {code for language, code in BLOCKS if language == "sh"} >= SET_UP
    assert (ROOT / ".ci" / "run").read_text().endswith("exec python3 tools/test.py\n")


def test_every_block_is_of_a_kind_that_is_tested():
    assert {language for language, _ in BLOCKS} == {"python", "sh", "text"}


def test_links_lead_somewhere():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (document.parent / target).exists(), (
                document.name,
                target,
            )
