"""Pages of mapped files are given back, and read again when they are needed."""

from pathlib import Path

import pytest

from lance_df.storage import open_location
from lance_df.storage.mapped_pages import release_pages

NUM_BYTES = 1 << 20


def resident_bytes(path):
    """Return the bytes of a file that are memory of this process."""
    found, is_own = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *values = line.split()
        if "-" in name:
            is_own = line.endswith(str(path))
        elif name == "Rss:" and is_own:
            found += int(values[0]) * 1024
    return found


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)) * (NUM_BYTES // 256))
    return path


def test_pages_are_given_back(path):
    sources = [open_location(path).open() for _ in range(2)]
    views = [source.read_range(256, source.size) for source in sources]
    assert sum(view.to_pybytes().count(7) for view in views) == 2 * (NUM_BYTES // 256 - 1)
    before = resident_bytes(path)
    release_pages([str(path), str(path.parent / "other")])
    assert resident_bytes(path) <= before - NUM_BYTES // 2
    assert views[0].equals(views[1])
    assert views[0].to_pybytes() == path.read_bytes()[256:]


def test_files_that_are_not_mapped_stay_as_they_are(path):
    whole = open_location(path).open_whole()
    empty = path.with_name("empty")
    empty.touch()
    sources = [whole, open_location(empty).open(), open_location(path.parent / "empty").open()]
    view = whole.read_range(0, 64 * 1024)
    release_pages([str(path), str(empty)])
    assert view.to_pybytes() == path.read_bytes()[: 64 * 1024]
    assert [source.size for source in sources] == [NUM_BYTES, 0, 0]
