"""The picture of rooms in docs/architecture.md says what the table of imports says."""

from __future__ import annotations

import re
from pathlib import Path

from test_imports import MAY_IMPORT

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_arrows_are_imports_that_rooms_may_have():
    arrows = re.findall(r"^ +(\w+) --> (\w+)$", PAGE, re.MULTILINE)
    assert len(arrows) >= 10
    assert [(room, target) for room, target in arrows if target not in MAY_IMPORT[room]] == []


def test_every_room_has_a_line():
    lines = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    described = {name for line in lines for name in re.findall(r"`(\w+)`", line)}
    assert MAY_IMPORT.keys() - described == {"facade"}
    assert "facade" in PAGE
