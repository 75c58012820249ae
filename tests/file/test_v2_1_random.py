"""Random nested columns, written by pylance; and the same files damaged at random."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileWriter

from lance_df.encodings.plan import RowRange
from lance_df.errors import LanceError
from lance_df.file.read_options import ReadOptions
from lance_df.file.v2.container import Container
from lance_df.file.v2.reader_2_1 import V2_1FileReader
from lance_df.storage import ByteRange
from lance_df.storage.source import ByteSource

LEAVES = [
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.bool_(),
    pa.string(),
    pa.large_binary(),
    pa.decimal128(20, 3),
    pa.binary(3),
    pa.list_(pa.int16(), 3),
    pa.timestamp("us", "UTC"),
]


class MemorySource(ByteSource):
    """Bytes as a file, mapped or not."""

    def __init__(self, data: bytes, *, mapped: bool) -> None:
        self.path = "damaged.lance"
        self.size = len(data)
        self._data = pa.py_buffer(data)
        self._mapped = mapped

    @property
    def is_memory_mapped(self) -> bool:
        return self._mapped

    def _read_ranges(self, ranges: Any) -> list[pa.Buffer]:
        return [self._data.slice(wanted.start, wanted.num_bytes) for wanted in ranges]


def nested_types(version: str) -> st.SearchStrategy[pa.DataType]:
    def extend(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        structs = st.lists(children, min_size=1, max_size=3).map(
            lambda types: pa.struct([pa.field(f"f{number}", child) for number, child in enumerate(types)])
        )
        options = [structs, children.map(pa.list_), children.map(pa.large_list)]
        if version == "2.2":
            options.append(children.map(lambda value: pa.map_(pa.string(), value)))
        return st.one_of(options)

    return st.recursive(st.sampled_from(LEAVES), extend, max_leaves=4)


def random_values(data_type: pa.DataType, count: int, nulls: float, rng: np.random.Generator) -> pa.Array:
    """Return values with nulls at every level, which hide values that must not come back."""
    types = pa.types
    hidden = pa.array(rng.random(count) < nulls)
    if types.is_struct(data_type):
        children = [random_values(child.type, count, nulls, rng) for child in data_type]
        return pa.StructArray.from_arrays(children, fields=list(data_type), mask=hidden)
    if types.is_list(data_type) or types.is_large_list(data_type):
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, count))])
        items = random_values(data_type.value_type, int(offsets[-1]), nulls, rng)
        kind = pa.ListArray if types.is_list(data_type) else pa.LargeListArray
        width = pa.int32() if types.is_list(data_type) else pa.int64()
        return kind.from_arrays(pa.array(offsets, width), items, type=data_type, mask=hidden)
    if types.is_map(data_type):
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, count))])
        keys = random_values(data_type.key_type, int(offsets[-1]), 0, rng)
        items = random_values(data_type.item_type, int(offsets[-1]), nulls, rng)
        entries = pa.StructArray.from_arrays(
            [keys, items], fields=[data_type.key_field, data_type.item_field]
        )
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries, mask=hidden)
        return pa.Array.from_buffers(data_type, count, lists.buffers()[:2], children=[entries])
    if types.is_fixed_size_list(data_type):
        items = random_values(data_type.value_type, count * data_type.list_size, nulls, rng)
        return pa.FixedSizeListArray.from_arrays(items, type=data_type, mask=hidden)
    numbers = rng.integers(0, 2 ** int(rng.integers(1, 60)), count)
    if types.is_string(data_type) or types.is_large_binary(data_type):
        values = pa.array([f"{number:x}" * int(number % 4) for number in numbers.tolist()]).cast(data_type)
    elif types.is_fixed_size_binary(data_type):
        values = pa.array([number.to_bytes(8, "little")[:3] for number in numbers.tolist()], data_type)
    elif types.is_boolean(data_type):
        values = pa.array(numbers % 2 == 1)
    elif types.is_decimal(data_type):
        values = pa.array((numbers % 10**15).tolist(), pa.int64()).cast(pa.decimal128(20, 0)).cast(data_type)
    elif types.is_timestamp(data_type):
        values = pa.array(numbers % 2**50).cast(data_type)
    else:
        values = pa.array((numbers % 100).astype(data_type.to_pandas_dtype()), data_type)
    return pc.if_else(hidden, pa.scalar(None, data_type), values)


def written(table: pa.Table, version: str, **options: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.lance"
        with LanceFileWriter(str(path), table.schema, version=version, **options) as writer:
            for batch in table.to_batches():
                writer.write_batch(batch)
        return path.read_bytes()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_nested_columns(version: str, data: st.DataObject) -> None:
    data_type = data.draw(nested_types(version))
    count = data.draw(st.sampled_from([1, 2, 50, 300]))
    nulls = data.draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    parts = [random_values(data_type, count, share, rng) for share in (nulls, 0.0, nulls, nulls, 0.0)]
    table = pa.table({"c": pa.chunked_array(parts)})
    file = written(table, version, data_cache_bytes=1)
    whole = pa.concat_arrays(parts)
    reader = V2_1FileReader(Container(MemorySource(file, mapped=data.draw(st.booleans()))))
    total = len(whole)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, total)] * 2)))
    for rows in (RowRange(0, total), RowRange(start, stop), np.unique(rng.integers(0, total, 20))):
        options = ReadOptions(*data.draw(st.tuples(st.booleans(), st.booleans())))
        (array,) = reader.read(reader.schema.fields, rows, options=options)
        array.validate(full=True)
        expected = whole[start:stop] if isinstance(rows, RowRange) else whole.take(pa.array(rows))
        if len(rows) == total:
            expected = whole
        assert array.type == expected.type
        assert array.equals(expected), (data_type, rows)


def damaged_tables(rng: np.random.Generator) -> list[tuple[pa.Table, str]]:
    """Columns that between them take every layout and encoding."""
    count = 1500
    struct = pa.struct([pa.field("a", pa.int8()), pa.field("b", pa.int64())])
    wide_struct = pa.struct([pa.field("a", pa.int8()), pa.field("b", pa.large_binary())])
    text = pa.array([f"value {v} of many" for v in rng.integers(0, 10**9, 4 * count)])
    arrays: list[tuple[pa.Array, dict[str, str]]] = [
        (pa.array(rng.integers(-(2**62), 2**62, count)), {}),
        (random_values(pa.int64(), count, 0.2, rng), {}),
        (pa.array(np.repeat(np.arange(count // 50), 50)), {}),
        (random_values(pa.bool_(), count, 0.2, rng), {}),
        (text, {}),
        (text[:count], {"compression": "lz4"}),
        (text[:count], {"structural-encoding": "fullzip", "compression": "zstd"}),
        (pa.array([f"v{v}" for v in rng.integers(0, 9, count)]), {}),
        (pa.array(["same"] * count), {}),
        (pa.array(rng.random(4 * count)), {"compression": "zstd", "bss": "on"}),
        (random_values(pa.list_(pa.list_(pa.int32())), count, 0.2, rng), {}),
        (random_values(pa.list_(pa.string()), count, 0.2, rng), {"structural-encoding": "fullzip"}),
        (random_values(pa.list_(pa.int64()), count, 0.2, rng), {"structural-encoding": "fullzip"}),
        (random_values(pa.list_(pa.float32(), 200), 20, 0.2, rng), {}),
        (random_values(struct, count, 0.2, rng), {}),
        (random_values(struct, count, 0.0, rng), {"packed": "true"}),
        (random_values(wide_struct, count, 0.0, rng), {"packed": "true"}),
        (pa.array([[]] * 20 + [None] * 20, pa.list_(pa.int8())), {}),
    ]
    tables = []
    for number, (array, options) in enumerate(arrays):
        metadata = {f"lance-encoding:{key}": value for key, value in options.items()}
        table = pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=metadata)]))
        versions = ("2.2",) if number == 16 else ("2.1", "2.2")
        tables += [(table, version) for version in versions]
    return tables


def damage(file: bytes, ranges: list[ByteRange], rng: np.random.Generator) -> bytes:
    """Change a few bytes of the page buffers, near their starts more often than not, or of the metadata."""
    data = bytearray(file)
    for _ in range(rng.integers(1, 4)):
        wanted = ranges[rng.integers(len(ranges))]
        stop = min(wanted.stop, wanted.start + int(rng.choice([16, 64, 10**9])))
        at = int(rng.integers(wanted.start, stop))
        size = min(int(rng.choice([1, 1, 2, 4, 8])), stop - at)
        if rng.random() < 0.5:
            data[at] ^= 1 << int(rng.integers(8))
        else:
            data[at : at + size] = [b"\xff" * size, bytes(size), b"\xff" * (size - 1) + b"\x7f"][
                rng.integers(3)
            ]
    return bytes(data)


def read_start(file: bytes, *, mapped: bool) -> list[pa.Array] | str:
    """Return the first rows of all columns, or what the error says."""
    try:
        reader = V2_1FileReader(Container(MemorySource(file, mapped=mapped)))
        rows = RowRange(0, min(reader.num_rows, 5000))
        arrays = reader.read(reader.schema.fields, rows)
    except LanceError as err:
        return str(err)
    for array in arrays:
        array.validate()
        assert len(array) == len(rows)
    return arrays


def test_damage_gives_rows_or_errors() -> None:
    rng = np.random.default_rng(20)
    num_errors = 0
    for table, version in damaged_tables(rng):
        file = written(table, version)
        container = Container(MemorySource(file, mapped=True))
        pages = [p for c in range(container.num_columns) for p in container.column(c).pages]
        ranges = [r for page in pages for r in page.buffers if r.num_bytes]
        ranges.append(ByteRange(container.footer.columns_start, len(file) - 40))
        for attempt in range(25):
            bad = damage(file, ranges, rng)
            outcome = read_start(bad, mapped=attempt % 2 == 0)
            num_errors += isinstance(outcome, str)
            assert not isinstance(outcome, str) or "damaged.lance" in outcome
    assert num_errors > 100
