"""Decision records have one form, and the list of them is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DESIGN = Path(__file__).resolve().parents[2] / "docs" / "design"
RECORDS = sorted(path for path in DESIGN.glob("*.md") if path.name != "README.md")
SECTIONS = ["## Need", "## Decision", "## Rejected"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_record_says_what_is_needed_decided_and_rejected(path):
    number = re.fullmatch(r"(\d{3})-[a-z0-9-]+\.md", path.name)
    assert number, path.name
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {number[1]} ")
    places = [text.find(f"\n{section}\n") for section in SECTIONS]
    assert -1 not in places, dict(zip(SECTIONS, places, strict=True))
    assert places == sorted(places)


def test_numbers_are_used_once():
    numbers = [path.name[:3] for path in RECORDS]
    assert len(numbers) >= 30
    assert len(set(numbers)) == len(numbers)


def test_the_list_names_every_record():
    named = re.findall(r"\]\(([^)]+\.md)\)", (DESIGN / "README.md").read_text(encoding="utf-8"))
    assert set(named) - {"../architecture.md"} == {path.name for path in RECORDS}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_links_of_records_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (path.parent / target).exists(), target
