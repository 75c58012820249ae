"""The pieces that HTML here is made of."""

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
"""Attributes of a shape: blue, and the colour of the text where CSS does not know both."""


def escaped(text: object, max_characters: int = _MAX_CHARACTERS) -> str:
    """Return text for HTML, cut where it is too long, and without what is no character; on one line."""
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
    """Return what may be wider than the page, on lines that do not wrap."""
    return f'<div style="overflow-x: auto; white-space: nowrap">{content}</div>'


def heading(title: object, facts: Iterable[object]) -> str:
    """Return a line that says what something is, with facts about it."""
    parts = " · ".join(escaped(fact) for fact in facts)
    return f"<p><strong>{escaped(title)}</strong><br>{parts}</p>"


def note(text: object) -> str:
    """Return a line of less importance."""
    return f'<p style="opacity: 0.75">{escaped(text)}</p>'


def folded(title: str, content: str) -> str:
    """Return what is shown when its title is clicked."""
    return f"<details><summary>{escaped(title)}</summary>{content}</details>"


def bar(count: Count, text: str) -> str:
    """Return how much of something is kept, as a bar and in words."""
    share = min(1.0, count.kept / count.total) if count.total > 0 else 0.0
    width = round(share * _BAR_WIDTH, 1)
    return (
        f'<svg width="{_BAR_WIDTH}" height="8" role="img" aria-label="{escaped(text)}">'
        f'<rect width="{_BAR_WIDTH}" height="8" fill="currentColor" fill-opacity="0.15"/>'
        f'<rect width="{width}" height="8" {FILL}/></svg><br>{escaped(text)}'
    )
