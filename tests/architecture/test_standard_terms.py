"""The standard terms of the field, in documents and in code; `docs/glossary.md` lists them.

The words below once had a meaning of this project's own. In prose they are looked for in documents,
docstrings and comments; in names, in what a module defines: functions, classes, arguments, variables and
attributes. Rooms join `CLEAN_ROOMS` as they are rewritten, and stay there.

Other words of this kind are ordinary English too, and prose may use them in that sense: a statement finds or
keeps something, "its own" columns, "in place of" another, "each", "so", what a user "asks", and a hint or
advice in a message. In prose only the phrases below are wrong; as names, the words say too little.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lance_df"

# word: what to say instead
IN_PROSE = {
    r"stretch(es)?": "row slice, range",
    r"picks?|picked": "take, select",
    r"told|tells?": "say, return, read; estimated",
    r"alike": "identical, shared, in the same way",
    r"way_to_scan|way to scan": "path",
    r"looks? (at|into|again)": "sample, read, check",
    r"asks the": "call, request, read",
}
IN_NAMES = {
    "stretch": "row_slice",
    "stretches": "row_slices",
    "picks": "take",
    "picked": "taken",
    "told": "estimated",
    "tells": "reads, returns",
    "looks": "sample",
    "alike": "shared, identical",
    "hint": "pruning_predicate",
    "hints": "pruning_predicates",
    "asked": "requested, required",
    "asks": "requests, calls, uses",
    "kept": "selected, selection, cached",
    "found": "what it is: column, plan, result",
    "own": "what sets it apart: private, typed",
    "place": "index, position, location",
    "places": "indices, positions, locations",
}

# terms of Lance, of Python and of the field that hold such a word
TERMS = re.compile("not_found|in_place|version_hint")

# rooms (folders, or modules of the package itself) that use none of these words
CLEAN_ROOMS = [
    *("errors", "records", "forks", "exits", "interrupts", "sliced_lists", "storage", "hashing", "udfs"),
    *("expr", "compute", "sql", "cache", "scan", "engine", "table", "namespace", "format", "encodings"),
    *("file", "api", "spark", "cli", "conformance", "arguments"),
    *("blob", "commit", "dataset", "fragment", "operations", "optimize", "partition", "progress", "refs"),
    *("scanner_options", "scanner", "schema", "session", "sources", "types", "udf", "util", "write"),
    *("display", "arrow_classes", "file_sources", "namespace_scanner", "polars_scan", "polars_predicates"),
]

# `Count.kept` and `Problem.found` are public
HAVE_PUBLIC_NAMES = {
    PACKAGE / "scan" / "report.py",
    PACKAGE / "namespace" / "health" / "findings.py",
}

PROSE = {re.compile(rf"\b({word})\b", re.IGNORECASE): instead for word, instead in IN_PROSE.items()}
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def breaches_of_prose(text: str) -> list[str]:
    """Return what is wrong with a text, with the number of its line."""
    return [
        f"line {number}: {match[0]!r}; say: {instead}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, instead in PROSE.items()
        for match in pattern.finditer(line)
    ]


def without_code(markdown: str) -> str:
    """Return a document without blocks and spans of code, in as many lines."""
    blocks = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", blocks.sub(lambda match: "\n" * match[0].count("\n"), markdown))


@functools.lru_cache(maxsize=2)
def nodes_of(source: str) -> list[ast.AST]:
    """Return the syntax of a module, which several checks read."""
    return list(ast.walk(ast.parse(source)))


def prose_of(source: str) -> str:
    """Return the comments and docstrings of a module, on the lines where they are."""
    lines = [""] * (source.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = token.string
    for node in nodes_of(source):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):  # docstrings, those of variables too
                for number, line in enumerate(text.split("\n"), node.lineno - 1):
                    lines[number] += line
    return "\n".join(lines)


def breaches_of_errors(source: str) -> list[str]:
    """Return what is wrong with the messages that a module raises."""
    raised = [node.exc for node in nodes_of(source) if isinstance(node, ast.Raise) and node.exc]
    return [
        f"{part.lineno}: {breach}"
        for exception in raised
        for part in ast.walk(exception)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
        for breach in breaches_of_prose(part.value)
    ]


def names_defined(source: str) -> list[tuple[int, str]]:
    """Return line and name of everything that a module defines."""
    names = []
    for node in nodes_of(source):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append((node.lineno, name))
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                names.append((node.lineno, name))
            case ast.Attribute(attr=name, value=ast.Name(id="self"), ctx=ast.Store()):
                names.append((node.lineno, name))
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.append((node.lineno, name))
            case ast.alias(asname=str(name)):
                names.append((getattr(node, "lineno", 0), name))
    return names


def _words(name: str) -> str:
    """Return a name in lower case, with its words apart, but without the terms of `TERMS`."""
    return TERMS.sub("", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())


def breaches_of_names(source: str) -> list[str]:
    """Return the names in a module that hold a word of `IN_NAMES`."""
    return [
        f"line {line}: name {name!r}; say: {IN_NAMES[word]}"
        for line, name in names_defined(source)
        for word in re.findall(r"[a-z]+", _words(name))
        if word in IN_NAMES
    ]


def modules_of(room: str) -> list[Path]:
    if room == "udfs":
        return sorted([*(PACKAGE / room).rglob("*.py"), *(ROOT / room).rglob("*.py")])
    path = PACKAGE / room
    modules = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    return sorted(set(modules) - HAVE_PUBLIC_NAMES)


def breaches(path: Path) -> list[str]:
    source = path.read_text(encoding="utf-8")
    return breaches_of_prose(prose_of(source)) + breaches_of_names(source)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_use_standard_terms(path: Path) -> None:
    assert breaches_of_prose(without_code(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("room", CLEAN_ROOMS)
def test_clean_rooms_use_standard_terms(room: str) -> None:
    modules = modules_of(room)
    assert modules
    assert {str(path.relative_to(ROOT)): wrong for path in modules if (wrong := breaches(path))} == {}


def test_errors_of_all_rooms_use_standard_terms() -> None:
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if "_pb" not in path.parts]
    sources = {path: path.read_text(encoding="utf-8") for path in modules}
    assert {str(path): wrong for path, text in sources.items() if (wrong := breaches_of_errors(text))} == {}


def test_a_breach_in_an_error_is_seen() -> None:
    [breach] = breaches_of_errors('if x:\n    raise ValueError(f"{x}: the file does not tell its size")')
    assert breach.startswith("2: line 1: 'tell'")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Read a stretch of rows."""', 1),
        ("x = 1\n# what the file tells", 2),
        ("def f(told_rows): ...", 1),
        ("class KeptTask: ...", 1),
        ("def f(self):\n    self.found = 1", 2),
        ('x = 1\n"""Values that are alike."""', 2),
    ],
)
def test_a_breach_is_seen(tmp_path: Path, source: str, line: int) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    [breach] = breaches(path)
    assert breach.startswith(f"line {line}:")


@pytest.mark.parametrize(
    "source",
    [
        "from other import found_rows",
        "x = member.kept",
        "text = 'told'",
        "def founded(owner, replace, unpicked): ...",
        "class TableNotFoundError(Exception): ...",
        '"""Raises what the store reports; looks names up."""',
    ],
)
def test_what_others_define_and_other_words_are_no_breach(tmp_path: Path, source: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert breaches(path) == []


def test_code_in_documents_is_no_prose() -> None:
    assert breaches_of_prose(without_code("Count `told`:\n```text\nkept, alike\n```\n")) == []
    assert breaches_of_prose(without_code("```text\nalike\n```\ntold\n")) == [
        "line 4: 'told'; say: say, return, read; estimated"
    ]
