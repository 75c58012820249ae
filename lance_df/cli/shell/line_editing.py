"""Interactive input with editing, completion and history, by the best available library.

With prompt_toolkit, a statement of several lines is one highlighted entry. With readline, its lines are read
one by one and added to the history as one entry.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lance_df.cli.shell.highlighting import STYLES, parts_of
from lance_df.cli.shell.statements import is_blank, is_finished
from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lance_df.cli.shell.candidates import Candidates

PROMPTS: Final = ("lance> ", "  ...> ")

LineReader: TypeAlias = "Callable[[str], str]"
"""Returns one or more lines for a prompt; raises EOFError, or KeyboardInterrupt to discard the input."""


def is_complete(text: str) -> bool:
    """Whether the input can be run: it is a command or has only finished statements."""
    return is_blank(text) or text.lstrip().startswith("\\") or is_finished(text)


def plain_reader(prompt: str) -> str:  # noqa: ARG001 - no user to prompt
    """Return a line of stdin.

    Raises
    ------
    InvalidInputError
        The line is not valid text.
    """
    try:
        line = "" if sys.stdin is None else sys.stdin.readline()
    except UnicodeDecodeError as err:
        raise InvalidInputError(f"stdin: not valid {err.encoding.upper()} text (byte {err.start})") from err
    if not line:
        raise EOFError
    return line.rstrip("\n")


def line_reader(history: Path, candidates: Candidates) -> LineReader:
    """Return a reader for a terminal that stores its history in a file."""
    try:
        return _prompt_toolkit_reader(history, candidates)
    except ImportError:
        pass
    try:
        return ReadlineReader(history, candidates)
    except ImportError:  # Windows has none
        return input


def _prompt_toolkit_reader(history: Path, candidates: Candidates) -> LineReader:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.formatted_text.utils import split_lines
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.lexers import Lexer

    class Completions(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
            start, names = candidates.of(document.text_before_cursor, document.text)
            for name in names:
                yield Completion(name, -len(start))

    class Colours(Lexer):
        def lex_document(self, document: Document) -> Any:
            fragments: StyleAndTextTuples = [(STYLES[kind], text) for kind, text in parts_of(document.text)]
            lines = list(split_lines(fragments))
            return lambda number: lines[number] if number < len(lines) else []

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(str(history)),
        completer=Completions(),
        complete_while_typing=False,
        lexer=Colours(),
        key_bindings=keys,
        multiline=True,
        prompt_continuation=PROMPTS[1],
    )

    def read(text: str) -> str:
        candidates.forget()
        return prompt.prompt(text)

    return read


class ReadlineReader:
    """Reads lines by readline; all lines of a statement are added to the history once it is finished."""

    def __init__(self, history: Path, candidates: Candidates) -> None:
        import atexit
        import readline

        self._readline: Any = readline
        self._candidates = candidates
        self._names: list[str] = []
        self._typed = ""
        with contextlib.suppress(OSError):
            readline.read_history_file(history)
        atexit.register(readline.write_history_file, history)
        readline.set_auto_history(False)
        readline.set_completer(self.complete)
        readline.set_completer_delims(" \t\n,();=<>'\"")
        readline.parse_and_bind("tab: complete")

    def __call__(self, prompt: str) -> str:
        """Return one line."""
        if prompt == PROMPTS[0]:
            self._typed = ""
            self._candidates.forget()
        line = input(prompt)
        self._typed += line + "\n"
        if is_complete(self._typed) and not is_blank(self._typed):
            entry = self._typed.strip()
            # the history file has one entry on each line
            self._readline.add_history(entry if "--" in entry else " ".join(entry.splitlines()))
            self._typed = ""
        return line

    def complete(self, text: str, state: int) -> str | None:
        """Return a candidate for readline, or None after the last one."""
        if state == 0:
            line = self._readline.get_line_buffer()
            before = line[: self._readline.get_endidx()]
            start, names = self._candidates.of(self._typed + before, self._typed + line)
            # readline only replaces the word after the last delimiter
            whole = [before[: len(before) - len(start)] + name for name in names]
            self._names = [each[len(before) - len(text) :] for each in whole]
        return self._names[state] if state < len(self._names) else None
