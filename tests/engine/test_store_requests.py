"""What is asked of a store: each request is counted, and as many are allowed as the work needs.

A statement looks once for the newest version, however lately the table was registered: others may have
committed since. To give a table a name looks once, too, so that a wrong name fails at once.
"""

import collections
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from benchmarks.slow_store import SlowStore, use_slow_store
from lance_df.errors import CorruptDataError, LanceError, StorageError
from lance_df.storage import open_location
from lance_df.storage.source import SMALL_FILE_BYTES

pytestmark = pytest.mark.engine

FILES = 4
VERSIONS = ("2.0", "2.1", "2.2")
RNG = np.random.default_rng(1)
LOOK = {"LIST": 1}


@pytest.fixture
def store():
    """The store, in which `made` is under names of which nothing is known."""
    use_slow_store(0)
    SlowStore.store.clear()
    yield SlowStore
    SlowStore.store.clear()


def rows(num_rows):
    return pa.table({"id": np.arange(num_rows), "value": RNG.integers(0, 1 << 62, num_rows)})


def renamed(name):
    """Give a table another name: of that nothing is known."""
    for path in list(SlowStore.store):
        if path.startswith("/made"):
            SlowStore.store[path.replace("/made", f"/{name}", 1)] = SlowStore.store.pop(path)
    SlowStore.log.clear()
    return f"slow:///{name}"


def made(num_rows, *, indexed=False, version="2.2"):
    table = rows(num_rows)
    lance_df.write_dataset(
        table, "slow:///made", max_rows_per_file=num_rows // FILES, data_storage_version=version
    )
    if indexed:
        lance_df.dataset("slow:///made").create_scalar_index("id", "ZONEMAP")
    return table


def queried(place, text):
    ctx = lance_df.connect()
    lance_df.register(ctx, "t", place)
    return ctx.sql(text).to_pylist()


def requests():
    """Return how often each kind was asked for, of which part of a table."""
    found = collections.Counter()
    for kind, path, *_ in SlowStore.log.requests:
        found[f"{kind} {path.split('/')[-2]}" if kind != "LIST" else kind] += 1
    return dict(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_small_files_are_one_request_each(store, version):
    table = made(4 * 5000, version=version)
    [row] = queried(renamed("small"), "SELECT sum(value % 7) AS s, count(*) AS n FROM t")
    assert row == {"s": int((table["value"].to_numpy() % 7).sum()), "n": 4 * 5000}
    assert requests() == {"LIST": 2, "GET _versions": 1, "GET data": FILES}


@pytest.mark.parametrize("version", VERSIONS)
def test_larger_files_are_asked_for_their_ends_and_their_pages(store, version):
    table = made(4 * 150_000, version=version)
    [row] = queried(renamed("large"), "SELECT sum(value % 7) AS s FROM t")
    assert row == {"s": int((table["value"].to_numpy() % 7).sum())}
    assert requests() == {"LIST": 2, "GET _versions": 1, "GET data": 2 * FILES}


def test_a_point_query_asks_for_the_zone_map_and_one_file(store):
    table = made(4 * 10_000, indexed=True)
    found = queried(renamed("point"), "SELECT value FROM t WHERE id = 12345")
    assert found == [{"value": table["value"][12345].as_py()}]
    found = requests()
    uuid = next(name for name in found if "-" in name)
    assert found == {"LIST": 2, "GET _versions": 1, uuid: 1, "GET data": 1}


def test_each_member_of_a_namespace_costs_its_manifest_and_its_file(store):
    members = 40
    table = pa.table({"day": np.arange(members), "value": np.arange(members)})
    namespace = lance_df.PartitionedNamespace.create(
        "slow:///made", schema=table.schema, partition_by=[lance_df.partition.identity("day")]
    )
    namespace.append(table)
    place = renamed("events")
    namespace = lance_df.PartitionedNamespace.open(place)
    assert requests() == {"LIST": 1, "GET _versions": 1}
    assert queried(namespace, "SELECT sum(value) AS s FROM t") == [{"s": sum(range(members))}]
    assert requests() == {"LIST": 3, "GET _versions": 1 + members, "GET data": 1 + members}


def test_a_new_version_of_a_namespace_costs_one_look_at_the_former(store):
    """The folder may have been replaced; see tests/namespace/test_replaced_folders.py."""
    members = 40
    table = pa.table({"day": np.arange(members), "value": np.arange(members)})
    namespace = lance_df.PartitionedNamespace.create(
        "slow:///made", schema=table.schema, partition_by=[lance_df.partition.identity("day")]
    )
    namespace.append(table)
    ctx = lance_df.connect()
    lance_df.register(ctx, "t", place := renamed("events"))
    total = sum(range(members))
    assert ctx.sql("SELECT sum(value) AS s FROM t").to_pylist() == [{"s": total}]
    lance_df.PartitionedNamespace.open(place).append(table.slice(3, 1))
    SlowStore.log.clear()
    assert ctx.sql("SELECT sum(value) AS s FROM t").to_pylist() == [{"s": total + 3}]
    found = requests()
    assert (found["LIST"], found["GET _versions"]) == (1, 3)  # the new version, the former, and the member
    SlowStore.log.clear()
    assert ctx.sql("SELECT sum(value) AS s FROM t").to_pylist() == [{"s": total + 3}]
    assert requests() == LOOK


def test_an_append_asks_for_what_a_commit_cannot_do_without(store):
    """The newest version and its manifest; a file; the transaction, and who else committed; the manifest."""
    table = made(4 * 5000)
    place = renamed("appended")
    lance_df.write_dataset(table.slice(0, 10), place, mode="append")
    assert requests() == {
        "LIST": 2,
        "GET _versions": 1,
        "PUT data": 1,
        "PUT _transactions": 1,
        "PUT _versions": 1,
    }
    assert lance_df.dataset(place).count_rows() == 4 * 5000 + 10


def test_a_commit_between_register_and_the_statement_is_seen(store):
    made(4 * 5000)
    ctx = lance_df.connect()
    lance_df.register(ctx, "t", place := renamed("followed"))
    lance_df.write_dataset(rows(5), place, mode="append")
    assert ctx.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 4 * 5000 + 5}]
    SlowStore.log.clear()
    ctx.sql("SELECT count(*) AS n FROM t").to_pylist()
    assert requests() == LOOK


def test_a_folder_is_listed_by_statements_alone(store):
    made(4 * 5000)
    place = renamed("lake/t.lance").removesuffix("/t.lance")
    ctx = lance_df.connect(place)
    assert {kind for kind, *_ in SlowStore.log.requests} == {"HEAD"}
    SlowStore.log.clear()
    lance_df.register(ctx, "u", f"{place}/t.lance")
    assert requests() == {"LIST": 1, "GET _versions": 1}
    SlowStore.log.clear()
    assert ctx.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 4 * 5000}]
    assert requests() == {"LIST": 2, "GET _versions": 1}


@pytest.mark.parametrize("by", [-300, -1, 1, 300, 1 << 20])
def test_wrong_sizes_of_index_files_are_looked_up(store, by, monkeypatch):
    from lance_df.format.manifest import IndexMetadata

    table = made(4 * 10_000, indexed=True)
    parsed = IndexMetadata.from_proto.__func__

    def wrong(cls, message, *, source):
        for file in message.files:
            file.size_bytes += by
        return parsed(cls, message, source=source)

    monkeypatch.setattr(IndexMetadata, "from_proto", classmethod(wrong))
    found = queried(renamed("sizes"), "SELECT value FROM t WHERE id = 12345")
    assert found == [{"value": table["value"][12345].as_py()}]


@pytest.mark.parametrize("num_rows", [4 * 5000, 4 * 150_000])
@pytest.mark.parametrize("by", [-300, -1, 1, 300])
def test_data_files_of_another_size_give_no_wrong_rows(store, by, num_rows):
    table = made(num_rows)
    place = renamed("data-sizes")
    for path in [path for path in SlowStore.store if "/data/" in path]:
        file = SlowStore.store[path]
        content = file.getvalue()
        file.seek(0)
        file.truncate()
        file.write(content + bytes(by) if by > 0 else content[:by])
    text = "SELECT sum(value % 7) AS s FROM t"
    if by > 0:  # what follows the bytes that the table knows of need not be noticed
        with suppress(CorruptDataError):
            assert queried(place, text) == [{"s": int((table["value"].to_numpy() % 7).sum())}]
        return
    with pytest.raises((CorruptDataError, StorageError), match=r"\.lance"):
        queried(place, text)


def test_short_answers_are_errors(store, monkeypatch):
    made(4 * 150_000)
    place = renamed("short")
    whole = SlowStore.cat_ranges

    def short(self, paths, starts, ends, *rest, **options):
        found = whole(self, paths, starts, ends, *rest, **options)
        return [blob[:-1] for blob in found]

    monkeypatch.setattr(SlowStore, "cat_ranges", short)
    with pytest.raises(StorageError, match="were requested"):
        queried(place, "SELECT sum(value % 7) AS s FROM t")


@pytest.mark.parametrize("num_rows", [4 * 5000, 4 * 150_000])
def test_files_that_vanish_between_the_manifest_and_the_read_are_errors(store, num_rows):
    made(num_rows)
    ctx = lance_df.connect()
    lance_df.register(ctx, "t", renamed("vanished"))
    del SlowStore.store[next(path for path in SlowStore.store if "/data/" in path)]
    with pytest.raises(LanceError, match=r"missing|no such file"):
        ctx.sql("SELECT sum(value % 7) AS s FROM t").to_pylist()


@pytest.mark.parametrize("by", [-1, 0, 1])
def test_files_of_about_the_size_that_is_read_whole(store, by):
    content = RNG.bytes(SMALL_FILE_BYTES + by)
    store.store.clear()
    location = open_location("slow:///sizes/file.bin")
    location.put(content)
    SlowStore.log.clear()
    source = location.open_sized(len(content))
    assert source.read_tail(10).to_pybytes() == content[-10:]
    assert source.read_range(5, len(content)).to_pybytes() == content[5:]
    assert len(SlowStore.log.requests) == (1 if by < 1 else 2)
    with pytest.raises(CorruptDataError, match="has more bytes"):
        location.open_sized(100)
    with pytest.raises(CorruptDataError, match=f"has {len(content)} bytes" if by < 0 else "out of range"):
        location.open_sized(len(content) + 1).read_range(0, len(content) + 2)


def test_sizes_that_a_manifest_does_not_tell_are_asked_for(store, monkeypatch):
    from lance_df.format.fragments import DataFile
    from lance_df.format.manifest import IndexMetadata

    table = made(4 * 10_000, indexed=True)
    for kind, name, unknown in ((DataFile, "size_bytes", 0), (IndexMetadata, "files", ())):
        parsed = kind.from_proto.__func__

        def untold(cls, message, *rest, parsed=parsed, name=name, unknown=unknown, **options):
            return replace(parsed(cls, message, *rest, **options), **{name: unknown})

        monkeypatch.setattr(kind, "from_proto", classmethod(untold))
    found = queried(renamed("untold"), "SELECT value FROM t WHERE id = 12345")
    assert found == [{"value": table["value"][12345].as_py()}]
    found = requests()
    assert found["HEAD data"] == found["GET data"] == 1


@pytest.mark.parametrize("small_bytes", [0, 3000, 256 * 1024])
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_those_of_local_files(store, tmp_path, monkeypatch, version, small_bytes):
    """However much of a file or a page is read at once."""
    monkeypatch.setattr("lance_df.storage.location.SMALL_FILE_BYTES", small_bytes)
    monkeypatch.setattr("lance_df.file.v2.read_ahead._SMALL_BYTES", small_bytes)
    count = 3000
    rng = np.random.default_rng(small_bytes)
    numbers = rng.normal(size=count)
    numbers[::17], numbers[::19] = np.nan, -0.0
    table = pa.table(
        {
            "id": np.arange(count),
            "number": pa.array(numbers, mask=rng.random(count) < 0.1),
            "text": pa.array([None if k % 9 == 0 else "äx" * (k % 5) for k in range(count)]),
            "list": pa.array([None if k % 8 == 0 else [k] * (k % 4) for k in range(count)]),
        }
    )
    texts = ("SELECT * FROM t", "SELECT text, list FROM t WHERE number > 0.5", "SELECT * FROM t WHERE id = 7")
    answers = []
    for place in ("slow:///rows", tmp_path / "rows"):
        lance_df.write_dataset(table, place, max_rows_per_file=1300, data_storage_version=version)
        lance_df.dataset(place).delete("id % 5 = 2")
        answers.append([repr(sorted(queried(place, text), key=repr)) for text in texts])
    assert answers[0] == answers[1]
