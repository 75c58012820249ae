"""Whole HTML pages for a browser, with the output of notebooks and tables of plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.display.elements import escaped, html_table, note, scrolled
from lance_df.display.numbers import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MAX_STATEMENT: Final = 20_000
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
pre { border: 1px solid GrayText; overflow-x: auto; padding: .6rem .8rem; white-space: pre-wrap; }
p { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid GrayText; }
th[scope=row] { border: 0; }
summary { cursor: pointer; }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def whole_page(title: object, parts: Iterable[str]) -> str:
    """Return an HTML document that needs no other files and runs no scripts."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escaped(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def statement_html(statement: str) -> str:
    """Return a statement as written, with its line breaks."""
    shown = [escaped(line.expandtabs(4), _MAX_STATEMENT) for line in statement[:_MAX_STATEMENT].splitlines()]
    return f"<pre>{chr(10).join(shown)}</pre>"


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """Return names and plain values below a title, each on a line, without values that are None."""
    known = [(name, value) for name, value in facts.items() if value is not None]
    lines = "".join(
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(_text(name, value))}</td></tr>'
        for name, value in known
    )
    return f"<h2>{escaped(title)}</h2><table>{lines}</table>"


def section_html(title: str, rows: Sequence[Mapping[str, Any]], left_out: int) -> str:
    """Return rows of plain values below a title, or an empty text if there are no rows."""
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[escaped(_text(name, row.get(name))) for name in names] for row in rows]
    more = note(f"… and {left_out:,} more") if left_out else ""
    return f"<h2>{escaped(title)}</h2>{scrolled(html_table(names, cells))}{more}"


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name in ("rows", "bytes", "deleted"):
        return size_text(value) if name == "bytes" else f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
