"""What the guides say is run: each Python block, in the order of its guide, and the output below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# its Python needs Spark and a JVM
SPARK = "spark.md"


def blocks(name: str) -> list[tuple[str, str]]:
    """Return language and text of the blocks of a guide."""
    return BLOCK.findall((DOCS / name).read_text(encoding="utf-8"))


def guides() -> list[str]:
    """Return the names of the guides with Python in them."""
    names = sorted(path.name for path in DOCS.glob("*.md"))
    return [name for name in names if name != SPARK and "python" in dict(blocks(name))]


@pytest.mark.engine
@pytest.mark.parametrize("name", guides())
def test_python_gives_the_output_shown(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    variables: dict[str, object] = {}
    for (language, text), (next_language, output) in zip(
        blocks(name), [*blocks(name)[1:], ("", "")], strict=True
    ):
        if language == "python":
            exec(compile(text, name, "exec"), variables)
            printed = capsys.readouterr().out
            assert printed == (output if next_language == "text" else ""), text


def test_the_guide_to_partitions_is_run():
    languages = [language for language, _ in blocks("partitioning.md")]
    assert languages.count("python") >= 5
    assert languages.count("text") >= 3
