"""Elements of the HTML output."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance_df.scan.report import Count

_MAX_CHARACTERS: Final = 300
_LINE: Final = str.maketrans("\n\r\t", "   ")
_BAR_WIDTH: Final = 120
FILL: Final = 'fill="currentColor" style="fill: light-dark(#1769aa, #7cb7e8)"'
"""Attributes of a shape: blue mixed with the text colour, or only the text colour in older browsers."""


def escaped(text: object, max_characters: int = _MAX_CHARACTERS) -> str:
    """Return text escaped for HTML, on one line, cut if too long, and without invalid characters."""
    shown = str(text)
    if len(shown) > max_characters:
        shown = f"{shown[:max_characters]}…"
    shown = shown.encode("utf-8", "replace").decode().translate(_LINE)
    return html.escape(
        "".join(each if each.isprintable() or each == " " else "\N{REPLACEMENT CHARACTER}" for each in shown)
    )


def html_table(titles: Sequence[object], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; titles are text, cells are HTML."""
    head = "".join(f"<th>{escaped(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def scrolled(content: str) -> str:
    """Return a scrollable element for content that may be wider than the page, without line wrapping."""
    return f'<div style="overflow-x: auto; white-space: nowrap">{content}</div>'


def heading(title: object, facts: Iterable[object]) -> str:
    """Return a line with a title and facts."""
    parts = " · ".join(escaped(fact) for fact in facts)
    return f"<p><strong>{escaped(title)}</strong><br>{parts}</p>"


def note(text: object) -> str:
    """Return a less prominent line."""
    return f'<p style="opacity: 0.75">{escaped(text)}</p>'


def folded(title: str, content: str) -> str:
    """Return content that is shown when its title is clicked."""
    return f"<details><summary>{escaped(title)}</summary>{content}</details>"


def bar(count: Count, text: str) -> str:
    """Return a share as a bar with text."""
    share = min(1.0, count.kept / count.total) if count.total > 0 else 0.0
    width = round(share * _BAR_WIDTH, 1)
    return (
        f'<svg width="{_BAR_WIDTH}" height="8" role="img" aria-label="{escaped(text)}">'
        f'<rect width="{_BAR_WIDTH}" height="8" fill="currentColor" fill-opacity="0.15"/>'
        f'<rect width="{width}" height="8" {FILL}/></svg><br>{escaped(text)}'
    )
