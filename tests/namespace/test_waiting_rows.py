"""Rows on their way to partitions: all of them arrive, in the order in which they came, in little memory."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_df
from lance_df.encodings import kernels
from lance_df.namespace.changes import routing, waiting_rows
from lance_df.namespace.changes.partition_files import PartitionFiles
from lance_df.namespace.changes.waiting_rows import RoutedBatch, TakeableRows, WaitingRows, bytes_of, gathered

TEXTS = ["", "ä", "short", "a text that is longer than twelve bytes", None, "ß" * 40]


def rows(
    num_rows: int, *, seed: int = 0, views: bool = True, num_keys: int = 5, is_sorted: bool = False
) -> pa.Table:
    """Return rows of many types, with nulls; ``row`` counts them."""
    random = np.random.default_rng(seed)
    keys = random.integers(0, num_keys, num_rows)
    if is_sorted:
        keys.sort()
    text = pa.array([TEXTS[k] for k in random.integers(0, len(TEXTS), num_rows)], pa.string())
    data = text.cast(pa.binary())
    lists = pa.array([None if k == 4 else [TEXTS[k]] * k for k in random.integers(0, 6, num_rows)])
    return pa.table(
        {
            "key": pa.array([None if k == 0 else f"key {k}" for k in keys], pa.string()),
            "row": pa.array(np.arange(num_rows)),
            "text": as_views(text, pa.string_view()) if views else text,
            "data": as_views(data, pa.binary_view()) if views else data,
            "lists": lists.cast(pa.list_(pa.string())),
            "pair": pa.StructArray.from_arrays([text, pa.array(random.random(num_rows))], ["text", "x"]),
            "flag": pa.array(random.random(num_rows) < 0.5, mask=random.random(num_rows) < 0.2),
            "word": as_views(text.fill_null("no text at all"), pa.string_view()) if views else text,
            "price": pa.array(random.integers(-9999, 9999, num_rows)).cast(pa.decimal128(21, 2)),
            "small": pa.array(random.integers(-128, 128, num_rows), pa.int8()),
        }
    )


def as_views(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as views of several buffers."""
    third = -(-len(values) // 3)
    return pa.concat_arrays([values.slice(start, third).cast(kind) for start in (0, third, 2 * third)])


def stored(table: pa.Table) -> pa.Table:
    """Return rows as they come back: views are texts."""
    types = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    fields = [field.with_type(types.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def check(root: Path, expected: pa.Table) -> None:
    """Check that each partition has its rows, in their order."""
    namespace = lance_df.PartitionedNamespace.open(root)
    found = {}
    for member in namespace.partitions().to_pylist():
        table = lance_df.dataset(root / member["location"], version=member["read_version"]).to_table()
        found[table["key"][0].as_py()] = table
    expected = stored(expected)
    keys = set(expected["key"].to_pylist())
    assert found.keys() == keys
    for key, table in found.items():
        mask = pa.array([each == key for each in expected["key"].to_pylist()], pa.bool_())
        assert table.select(expected.schema.names) == expected.filter(mask).combine_chunks(), key


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 500),
    st.lists(st.integers(1, 200), min_size=1, max_size=12),
    st.sampled_from(["table", "reader", "list"]),
    st.sampled_from([1, 64, 100_000]),
    st.sampled_from([1, 40, 100_000]),
    st.sampled_from([0, 15, 1000]),
    st.sampled_from([4000, 20_000, 10**8]),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
)
def test_rows_arrive_in_their_order(
    tmp_path_factory: pytest.TempPathFactory,
    num_rows: int,
    chunks: list[int],
    source: str,
    many_rows: int,
    routed_rows: int,
    few_parts: int,
    num_bytes: int,
    num_keys: int,
    is_sorted: bool,
    is_compiled: bool,
) -> None:
    table = rows(num_rows, seed=num_rows, num_keys=num_keys, is_sorted=is_sorted)
    # slices that share what views refer to
    batches, start = [], 0
    whole = table.combine_chunks().to_batches()[0]
    while start < num_rows:
        length = chunks[len(batches) % len(chunks)]
        batches.append(whole.slice(start, length))
        start += length
    root = tmp_path_factory.mktemp("rows")
    namespace = lance_df.PartitionedNamespace.create(root, table.schema, ["key"])
    given_as = {
        "table": lambda: pa.Table.from_batches(batches),
        "reader": lambda: pa.RecordBatchReader.from_batches(table.schema, batches),
        "list": lambda: batches,
    }[source]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "COMPILED", is_compiled and kernels.COMPILED)
        patch.setattr(waiting_rows, "_MANY_ROWS", many_rows)
        patch.setattr(waiting_rows, "_BATCH_BYTES", num_bytes)
        patch.setattr(routing, "_MIN_ROUTED_ROWS", routed_rows)
        patch.setattr(routing, "_FEW_PARTS", few_parts)
        patch.setattr(routing, "_ROUTED_BYTES", num_bytes)
        patch.setattr(routing, "_GATHERED_BYTES", num_bytes)
        patch.setitem(routing.PartitionWriter.__init__.__kwdefaults__, "buffer_bytes", num_bytes)
        namespace.append(given_as)
    check(root, table)


def test_batches_come_in_order_though_a_later_one_is_routed_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows(300)
    original, is_second = routing.PartitionWriter._routed, threading.Event()

    def routed(self: routing.PartitionWriter, batch: pa.RecordBatch) -> object:
        if batch["row"][0].as_py() == 0:
            assert is_second.wait(10)
        found = original(self, batch)
        is_second.set()
        return found

    monkeypatch.setattr(routing.PartitionWriter, "_routed", routed)
    monkeypatch.setattr(routing, "_MIN_ROUTED_ROWS", 100)
    monkeypatch.setattr("lance_df.namespace.changes.writer_threads.num_threads", lambda: 2)
    namespace = lance_df.PartitionedNamespace.create(tmp_path, table.schema, ["key"])
    namespace.append(pa.Table.from_batches(table.to_batches(max_chunksize=100)))
    check(tmp_path, table)


@pytest.mark.parametrize("source", ["table", "reader"])
def test_dictionaries_that_have_no_union(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr(routing, "_MIN_ROUTED_ROWS", 1)
    kind = pa.dictionary(pa.int8(), pa.string())
    batches = []
    for number in range(4):
        codes = pa.array(np.arange(200, dtype=np.int8) % 100)
        words = pa.DictionaryArray.from_arrays(codes, [f"{number} {k}" for k in range(100)]).cast(kind)
        keys = pa.array([f"key {k % 3}" for k in range(200)])
        batches.append(pa.record_batch({"key": keys, "word": words}))
    table = pa.Table.from_batches(batches)
    namespace = lance_df.PartitionedNamespace.create(tmp_path, table.schema, ["key"])
    if source == "reader":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(routing, "_ROUTED_BYTES", 1)
            namespace.append(table.to_reader())
    else:
        namespace.append(table)
    found = []
    for member in namespace.partitions().to_pylist():
        rows_of = lance_df.dataset(tmp_path / member["location"], version=member["read_version"])
        for row in range(rows_of.count_rows()):  # as a table they would have a dictionary that is too large
            found += rows_of.take([row]).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, table.to_pylist()))


def test_tables_without_rows(tmp_path: Path) -> None:
    table = rows(10)
    namespace = lance_df.PartitionedNamespace.create(tmp_path, table.schema, ["key"])
    namespace.append(table.schema.empty_table())
    empty = pa.RecordBatch.from_pylist([], table.schema)
    namespace.append(pa.Table.from_batches([empty]))
    assert namespace.count_rows() == 0
    namespace.append(pa.Table.from_batches([empty, *table.to_batches(), empty]))
    check(tmp_path, table)


def test_views_are_taken() -> None:
    table = rows(100)
    batch = table.combine_chunks().to_batches()[0].slice(7, 80)
    places = np.array([79, 0, 5, 5, 33], np.int64)
    taken = TakeableRows(batch).take(places)
    taken.validate(full=True)
    assert taken.schema == batch.schema
    expected = stored(pa.Table.from_batches([batch])).take(pa.array(places))
    assert stored(pa.Table.from_batches([taken])) == expected
    assert TakeableRows(batch).take(places[:0]).num_rows == 0


def test_views_count_with_their_own_texts() -> None:
    table = rows(10_000)
    batch = table.combine_chunks().to_batches()[0]
    empty = table.schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    assert bytes_of(empty[0]) == bytes_of(batch.slice(0, 0)) == 0
    plain = stored(table).combine_chunks().to_batches()[0]
    for start, length in ((0, 10_000), (7, 10), (9_000, 1_000)):
        known = plain.slice(start, length).nbytes
        assert known <= bytes_of(batch.slice(start, length)) <= known + 3 * 12 * length


def test_what_is_gathered_keeps_nothing_else() -> None:
    whole = rows(40_000, views=False).combine_chunks().to_batches()[0]
    waiting = [WaitingRows(), WaitingRows()]
    batches = [RoutedBatch(whole.slice(0, 20_000), np.arange(20_000)[::-1]), RoutedBatch(whole, None)]
    for number, batch in enumerate(batches):
        waiting[number].add(batch, 3, 5)
        waiting[1].add(batch, 10, 12)
    found = gathered(waiting)
    assert [each.num_rows for each in found] == [2, 6]
    for before, after in zip(waiting, found, strict=True):
        assert pa.Table.from_batches(after.batches()) == pa.Table.from_batches(before.batches())
    (batch,) = {batch for each in found for batch, _, _ in each.parts}
    assert batch._rows.get_total_buffer_size() < 4000
    assert gathered([]) == []


@pytest.mark.parametrize("source", ["stream", "partition"])
def test_nothing_is_left_of_rows_when_a_later_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Files are under way while the next rows come: these and those that have begun are removed."""
    table = rows(4000, views=False)
    namespace = lance_df.PartitionedNamespace.create(tmp_path, table.schema, ["key"])
    monkeypatch.setattr(routing, "_ROUTED_BYTES", 20_000)
    monkeypatch.setitem(routing.PartitionWriter.__init__.__kwdefaults__, "buffer_bytes", 40_000)
    before = sorted(path for path in tmp_path.rglob("*"))
    written, original = [], PartitionFiles.write

    def write(self: PartitionFiles, *arguments: object, **options: object) -> None:
        if source == "partition" and len(written) == 3:
            raise lance_df.StorageError("the disk is full")
        written.append(arguments)
        original(self, *arguments, **options)

    def batches() -> object:
        yield from table.to_batches(max_chunksize=100)
        if source == "stream":
            raise lance_df.StorageError("the disk is full")

    monkeypatch.setattr(PartitionFiles, "write", write)
    with pytest.raises(lance_df.StorageError, match="the disk is full"):
        namespace.append(pa.RecordBatchReader.from_batches(table.schema, batches()))
    assert len(written) >= 3
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert namespace.count_rows() == 0
