"""Byte ranges of mapped, unmapped and remote files."""

import gc
import os
import subprocess
import sys

import fsspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_df.errors import CorruptDataError, NotFoundError, StorageError
from lance_df.storage import ByteRange, MappedSource, RemoteSource
from lance_df.storage import source as source_module
from lance_df.storage.local_files import read_start
from lance_df.storage.source import MAX_GAP_BYTES, UnmappedSource, open_local, read_whole

CONTENT = np.random.default_rng(1).bytes(3_000_000)


class CountingFileSystem:
    """Wraps a filesystem and keeps the ranges that were asked for."""

    def __init__(self, fs):
        self.fs = fs
        self.requests = []

    def cat_ranges(self, paths, starts, ends, **kwargs):
        self.requests += zip(starts, ends, strict=True)
        return self.fs.cat_ranges(paths, starts, ends, **kwargs)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "dätä.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture(scope="module")
def counting():
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/source/data.bin", CONTENT)
    return CountingFileSystem(fs)


@pytest.fixture(params=["mapped", "unmapped", "remote"])
def source(request, local, counting):
    if request.param != "remote":
        return (MappedSource if request.param == "mapped" else UnmappedSource)(str(local))
    return RemoteSource(counting, "/source/data.bin", name="memory://source/data.bin", size=len(CONTENT))


def test_ranges_come_in_the_order_asked_for(source):
    ranges = [ByteRange(2_900_000, 3_000_000), ByteRange(5, 5), ByteRange(0, 7), ByteRange(3, 9)]
    buffers = source.read_ranges(ranges)
    assert [buffer.to_pybytes() for buffer in buffers] == [CONTENT[r.start : r.stop] for r in ranges]


def test_nothing_asked_nothing_read(source):
    assert source.read_ranges([]) == []


@pytest.mark.parametrize(
    ("start", "stop"), [(-1, 3), (5, 4), (0, 3_000_001), (1 << 62, 1 << 63), (-(1 << 63), 0)]
)
def test_ranges_outside_of_the_file_are_refused(source, start, stop):
    with pytest.raises(CorruptDataError, match=r"da?ä?tä?a?\.bin.*3000000 bytes"):
        source.read_range(start, stop)


def test_tail(source):
    assert source.read_tail(10).to_pybytes() == CONTENT[-10:]
    assert source.read_tail(1 << 40).to_pybytes() == CONTENT


@given(st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 400_000)), max_size=12))
def test_remote_ranges_equal_slices(pairs):
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/source/property.bin", CONTENT)
    source = RemoteSource(fs, "/source/property.bin", name="property.bin", size=len(CONTENT))
    ranges = [ByteRange(start, min(start + size, len(CONTENT))) for start, size in pairs]
    assert [b.to_pybytes() for b in source.read_ranges(ranges)] == [CONTENT[r.start : r.stop] for r in ranges]


def test_near_ranges_share_a_request(counting):
    source = RemoteSource(counting, "/source/data.bin", name="data.bin", size=len(CONTENT))
    counting.requests.clear()
    source.read_ranges([ByteRange(0, 10), ByteRange(1_000, 1_010), ByteRange(2_000_000, 2_000_010)])
    assert counting.requests == [(0, 1_010), (2_000_000, 2_000_010)]
    assert MAX_GAP_BYTES < 1_990_000


def test_mapped_buffers_are_views(local):
    source = MappedSource(str(local))
    assert source.is_memory_mapped
    assert source.read_range(100, 200).address == source.read_range(0, 1).address + 100


def test_an_empty_file(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    source = MappedSource(str(path))
    assert source.size == 0
    assert source.read_tail(8).size == 0
    with pytest.raises(CorruptDataError):
        source.read_range(0, 1)


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(NotFoundError, match="nowhere"):
        MappedSource(str(tmp_path / "nowhere"))
    with pytest.raises(CorruptDataError, match="is a folder"):
        MappedSource(str(tmp_path))


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, 300_000])
def test_files_that_are_read_whole(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(CONTENT[:size])
    source = read_whole(str(path))
    assert (source.size, source.is_memory_mapped) == (size, True)
    assert source.read_tail(size).to_pybytes() == CONTENT[:size]
    for num_bytes in (0, 1, size // 2, size, size + 1):
        assert read_start(str(path), num_bytes) == CONTENT[: min(num_bytes, size)]


def test_files_that_cannot_be_read_whole(tmp_path):
    with pytest.raises(NotFoundError, match="nowhere"):
        read_whole(str(tmp_path / "nowhere"))
    with pytest.raises(CorruptDataError, match="is a folder"):
        read_whole(str(tmp_path))


def test_a_store_that_returns_too_little_is_an_error(counting):
    source = RemoteSource(counting, "/source/data.bin", name="data.bin", size=len(CONTENT) + 100)
    with pytest.raises(StorageError, match=r"data\.bin.*returned"):
        source.read_tail(200)


def test_mapped_files_hold_no_descriptor(local):
    before = len(os.listdir("/dev/fd"))
    sources = [MappedSource(str(local)) for _ in range(50)]
    assert len(os.listdir("/dev/fd")) == before
    (whole,) = sources[0].read_ranges([ByteRange(0, sources[0].size)])
    del sources
    gc.collect()
    assert whole.to_pybytes() == local.read_bytes()


@given(st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 400_000)), max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_unmapped_ranges_equal_slices(local, pairs):
    unmapped = UnmappedSource(str(local))
    ranges = [ByteRange(start, min(start + size, len(CONTENT))) for start, size in pairs]
    assert [b.to_pybytes() for b in unmapped.read_ranges(ranges)] == [
        CONTENT[r.start : r.stop] for r in ranges
    ]


def test_unmapped_files_that_are_gone_replaced_or_shorter(tmp_path):
    local = tmp_path / "file"
    local.write_bytes(CONTENT)
    unmapped = UnmappedSource(str(local))
    local.write_bytes(CONTENT[:1000])
    assert unmapped.read_range(0, 1000).to_pybytes() == CONTENT[:1000]
    with pytest.raises(CorruptDataError, match="ends at byte 1000, but had 3000000 bytes when"):
        unmapped.read_range(990, 1010)
    other = local.with_name("other")
    other.write_bytes(CONTENT)
    other.replace(local)
    with pytest.raises(CorruptDataError, match="replaced"):
        unmapped.read_range(0, 10)
    local.unlink()
    with pytest.raises(NotFoundError, match="no such file"):
        unmapped.read_range(0, 10)


def test_files_that_cannot_be_mapped_are_read(local, tmp_path, monkeypatch):
    assert open_local(str(local)).is_memory_mapped
    monkeypatch.setattr(source_module, "_mapped", _refused)
    source = open_local(str(local))
    assert not source.is_memory_mapped
    assert source.read_tail(1 << 40).to_pybytes() == CONTENT
    with pytest.raises(NotFoundError, match="nowhere"):
        open_local(str(tmp_path / "nowhere"))
    with pytest.raises(CorruptDataError, match="is a folder"):
        open_local(str(tmp_path))


def _refused(path):
    raise OSError("Memory mapping file failed: Cannot allocate memory")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_an_address_space_without_room(local):
    program = f"""
import resource
from lance_df.storage.source import open_local
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for limit, is_mapped in ((used + 50_000_000, False), (4 * used, True)):
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    source = open_local({str(local)!r})
    assert source.is_memory_mapped is is_mapped, (limit, used)
    assert source.read_tail(7).to_pybytes() == {CONTENT[-7:]!r}
"""
    subprocess.run([sys.executable, "-c", program], check=True)
