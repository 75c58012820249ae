"""Names of columns and of fields within structs, as one text."""

from __future__ import annotations

import pytest

from lance_df.format.column_path import format_path, parse_path


@pytest.mark.parametrize("names", [("a",), ("a", "b c"), ("a.b", "c"), ("a`b",), ("`", "``", ".")])
def test_written_paths_are_read_as_the_same_names(names):
    assert parse_path(format_path(names)) == names
