"""Tables in stores that answer slowly: what is known is not asked for again, and files are read at once."""

import hashlib
import threading

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import lance_df

pytestmark = pytest.mark.engine

FILES = 8


class FarFileSystem(MemoryFileSystem):
    """Files in memory; listings have ETags. What is read is kept, and may have to wait for other reads."""

    protocol = ("far", "memory")  # the second one can create a file only if it is absent
    store: dict = {}  # noqa: RUF012 - as the base class has it
    pseudo_dirs: list = [""]  # noqa: RUF012
    reads: list = []  # noqa: RUF012
    together: threading.Barrier | None = None

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.removeprefix("far://"))

    def ls(self, path, detail=True, **options):
        found = super().ls(path, detail, **options)
        for info in found if detail else ():
            if info["type"] == "file":
                info["ETag"] = hashlib.sha256(self.store[info["name"]].getvalue()).hexdigest()
        return found

    def cat_file(self, path, start=None, end=None, **options):
        self.reads.append(path)
        if self.together is not None and "/data/" in path and self.reads.count(path) == 1:
            self.together.wait(timeout=60)
        return super().cat_file(path, start, end, **options)


@pytest.fixture
def far():
    fsspec.register_implementation("far", FarFileSystem, clobber=True)
    rows = pa.table({"id": range(4000 * FILES)})
    lance_df.write_dataset(rows, "far:///lake/made.lance", max_rows_per_file=4000)
    # under another name, nothing is known of it
    for path in list(FarFileSystem.store):
        FarFileSystem.store[path.replace("/made.lance", "/t.lance")] = FarFileSystem.store.pop(path)
    FarFileSystem.reads.clear()
    yield FarFileSystem
    FarFileSystem.store.clear()


def manifests(far):
    return [path for path in far.reads if path.endswith(".manifest")]


def test_a_manifest_that_a_listing_tells_unchanged_is_read_once(far):
    ctx = lance_df.connect("far:///lake")
    for _ in range(3):
        assert ctx.sql("SELECT max(id) AS m FROM t").to_pylist() == [{"m": 4000 * FILES - 1}]
    assert len(manifests(far)) == 1
    lance_df.write_dataset(pa.table({"id": [-1]}), "far:///lake/t.lance", mode="append")
    far.reads.clear()
    assert ctx.sql("SELECT min(id) AS m FROM t").to_pylist() == [{"m": -1}]
    ctx.sql("SELECT min(id) AS m FROM t").to_pylist()
    assert len(manifests(far)) <= 1


def test_a_table_that_is_made_anew_is_another_one(far):
    ctx = lance_df.connect("far:///lake")
    assert ctx.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 4000 * FILES}]
    for path in [path for path in far.store if path.startswith("/lake/t.lance")]:
        del far.store[path]
    lance_df.write_dataset(pa.table({"id": [7]}), "far:///lake/t.lance")
    assert ctx.sql("SELECT id FROM t").to_pylist() == [{"id": 7}]


def test_files_are_read_at_once(far, monkeypatch):
    monkeypatch.setattr(far, "together", threading.Barrier(4))
    ctx = lance_df.connect("far:///lake")
    found = ctx.sql("SELECT sum(id) AS s, count(*) AS n FROM t WHERE id >= 0").to_pylist()
    assert found == [{"s": sum(range(4000 * FILES)), "n": 4000 * FILES}]
