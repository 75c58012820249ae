"""An encoding has one folder, and a page that links the specification."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENCODINGS = ROOT / "lance_df" / "encodings"
PAGES = ROOT / "docs" / "format"
# folders that are no encodings: what puts them together, and kernels
OTHERS = {"codecs", "kernels", "layouts", "legacy", "v2_0", "v2_1"}


def folders():
    found = [*ENCODINGS.iterdir(), *(ENCODINGS / "layouts").iterdir()]
    return sorted({each.name for each in found if (each / "__init__.py").is_file()} - OTHERS)


@pytest.mark.parametrize("name", folders())
def test_an_encoding_has_a_page(name):
    text = (PAGES / f"{name}.md").read_text()
    assert len(text.splitlines()) <= 20
    assert f"lance_df/encodings/{name}" in text or f"lance_df/encodings/layouts/{name}" in text
    assert "https://lance.org/format/file/encoding/#" in text or "does not describe 2.0" in text
    assert f"({name}.md)" in (PAGES / "index.md").read_text()


def test_each_page_is_of_an_encoding():
    assert {each.stem for each in PAGES.glob("*.md")} - {"index"} == set(folders())
