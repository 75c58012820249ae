"""A history as a program that reproduces it: public calls, and new processes where these matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .workers import PRELUDE

_MARK = "# -- the steps --"


@dataclass(frozen=True)
class Action:
    """A piece of the program.

    Attributes
    ----------
    sources
        One program; two that run at once in new processes.
    way
        Where it runs.
    note
        What it is, as a comment.
    expected
        What ``result`` has to be, where ``compare`` says how.
    """

    sources: tuple[str, ...]
    way: Literal["here", "new", "pair"]
    note: str
    compare: Literal["none", "equal", "sorted"] = "none"
    expected: Any = None
    may_fail: bool = False


def program(title: str, thresholds: dict[str, Any], actions: Sequence[Action]) -> str:
    """Return the text of a program."""
    prelude = PRELUDE.read_text().split("\n", 1)[1]
    lines = [
        f'"""{title}"""',
        prelude,
        "import subprocess",
        "import tempfile",
        "from pathlib import Path",
        "",
        f"set_thresholds({_pretty(thresholds)})" if thresholds else "",
        "handles = {}",
        "api = lance_df",
        "",
        _MARK,
        "head = Path(__file__).read_text().split('# -- the ' + 'steps --')[0]",
        "folder = tempfile.mkdtemp()",
        "root = os.path.join(folder, 'data')",
        "",
        "",
        "def start(source):",
        '    """Start a program in a new process."""',
        "    text = f'{head}\\nfolder, root = {folder!r}, {root!r}\\n{source}'",
        "    return subprocess.Popen([sys.executable, '-c', text])",
        "",
    ]
    for action in actions:
        lines += ["", f"# {action.note}", *_lines(action)]
    return "\n".join(lines) + "\n"


def _lines(action: Action) -> list[str]:
    sources = [source if action.compare == "none" else _asserted(source, action) for source in action.sources]
    if action.way == "here":
        return sources
    started = ", ".join(f'start(r"""\n{source}\n""")' for source in sources)
    end = "each.wait()" if action.may_fail else "assert each.wait() == 0"
    return [f"for each in [{started}]:", f"    {end}"]


def _asserted(source: str, action: Action) -> str:
    found = "(result[0], sorted(result[1]))" if action.compare == "sorted" else "result"
    return f"{source}\nexpected = {action.expected!r}\nassert {found} == expected, f'found {{{found}}}'"


def _pretty(values: dict[str, Any]) -> str:
    inner = "".join(f"    {key!r}: {value!r},\n" for key, value in values.items())
    return f"{{\n{inner}}}"
