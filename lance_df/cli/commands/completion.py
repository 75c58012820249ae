"""Print a script that completes `lance-df` in bash, zsh or fish.

For bash, add  eval "$(lance-df completion bash)"  to ~/.bashrc. For zsh, add the same line with zsh to
~/.zshrc. For fish, write the script to ~/.config/fish/completions/lance-df.fish.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from lance_df.records import dataclass

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

SUMMARY = "print a completion script for bash, zsh or fish"
EXAMPLES = """examples:
  lance-df completion bash
  lance-df completion fish
"""

SHELLS: Final = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class _Option:
    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...]
    takes_value: bool


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    help: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df completion`."""
    command.add_argument("shell", choices=SHELLS)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from lance_df.cli.app import subparsers

    commands = [_command(name, summary, parser) for name, summary, parser in subparsers()]
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](commands))
    return 0


def _command(name: str, summary: str, parser: argparse.ArgumentParser) -> _Command:
    options: list[_Option] = []
    words: list[str] = []
    for action in parser._actions:
        choices = tuple(str(choice) for choice in action.choices or ())
        if action.option_strings:
            takes_value = action.nargs != 0
            options.append(_Option(tuple(action.option_strings), action.help or "", choices, takes_value))
        else:
            words += choices
    return _Command(name, summary, tuple(options), tuple(words))


def _bash(commands: Sequence[_Command]) -> str:
    cases, choices = [], []
    for command in commands:
        names = [name for option in command.options for name in option.names]
        cases.append(f'    {command.name}) options="{" ".join(names)}"; words="{" ".join(command.words)}" ;;')
        choices += [
            f'    "{command.name} {name}") values="{" ".join(option.choices)}" ;;'
            for option in command.options
            if option.choices
            for name in option.names
        ]
    everything = " ".join(command.name for command in commands)
    return f"""_lance_df() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local options="" words="" values=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{everything} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}} $previous" in
{chr(10).join(choices)}
  esac
  if [ -n "$values" ]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{chr(10).join(cases)}
  esac
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _lance_df lance-df"""


def _zsh(commands: Sequence[_Command]) -> str:
    return f"#compdef lance-df\nautoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: Sequence[_Command]) -> str:
    lines = []
    for command in commands:
        about = shlex.quote(command.help)
        lines.append(f"complete -c lance-df -n __fish_use_subcommand -f -a {command.name} -d {about}")
        condition = f"-n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            lines.append(f"complete -c lance-df {condition} -f -a '{' '.join(command.words)}'")
        for option in command.options:
            flags = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
            )
            values = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" * option.takes_value
            about = shlex.quote(option.help.replace("%(default)s", "").replace("%%", "%"))
            lines.append(f"complete -c lance-df {condition} {flags}{values} -d {about}")
    return "\n".join(lines)
